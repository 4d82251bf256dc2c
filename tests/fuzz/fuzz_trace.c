/* SPDX-License-Identifier: Apache-2.0
 * Dumps that motet trace reads, once alone and once beside a copy of itself: whatever is accepted is aligned, judged and drawn. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace trace = {0};
    char why[256], *drawn = NULL;
    size_t len = 0;
    json_t *comms = json_array();
    FILE *out = open_memstream(&drawn, &len);
    trace_add(&trace, "one", (const char *)data, size, why, sizeof why);
    trace_add(&trace, "two", (const char *)data, size, why, sizeof why);
    trace_sort(&trace);
    trace_align(&trace);
    trace_analyse(&trace, comms);
    trace_profile_analyse(&trace, comms);
    bool good = out && trace_chrome(&trace, out);
    if (out)
        fclose(out);
    json_t *again = good ? json_loadb(drawn, len, 0, NULL) : NULL;
    if (good && !again)
        abort(); /* what is drawn must be JSON */
    json_decref(again);
    json_decref(comms);
    trace_free(&trace);
    free(drawn);
    return 0;
}
