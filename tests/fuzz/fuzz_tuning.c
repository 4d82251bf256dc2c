/* SPDX-License-Identifier: Apache-2.0
 * Tables of measured times and rules: whatever is accepted can be asked about, and every complaint names the file and a line. The first
 * byte says nothing: the format is seen from the text. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tuning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct motet_tuning *tuning)
{
    bool allowed[256];
    memset(allowed, 1, sizeof(allowed));
    for (int i = 0; i < tuning->nshapes; i++) {
        const struct motet_tuning_shape *shape = &tuning->shapes[i];
        if (!motet_tuning_find(tuning, shape->machine, shape->nranks, shape->nhosts, shape->cpus, shape->threads))
            abort();
        for (int row = 0; row < motet_nalgorithms; row++)
            for (double bytes = 0; bytes < 1e10; bytes = bytes * 100 + 1)
                if (!(motet_tuning_time(tuning, shape, row, bytes) >= 0))
                    abort();
    }
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        int row = motet_tuning_rule(tuning, (enum motet_collective)c, 1000, 4, 1, allowed);
        if (row >= 0 && motet_algorithms[row].collective != (enum motet_collective)c)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct motet_tuning tuning;
    if (motet_tuning_parse("file", (const char *)data, size, &tuning) == motetSuccess) {
        ask(&tuning);
        motet_tuning_free(&tuning);
    } else if (strncmp(motet_error_text(), "file:", 5) != 0 || atoi(motet_error_text() + 5) < 1 || tuning.points || tuning.rules) {
        abort();
    }
    return 0;
}
