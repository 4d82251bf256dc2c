/* SPDX-License-Identifier: Apache-2.0
 * Answers that motet status reads, twice each: a verdict is found for whatever is accepted. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "status_job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct status_job job = {0};
    char why[256], verdict[512];
    bool stuck;
    char *text = strndup((const char *)data, size);
    for (int i = 0; text && i < 2; i++)
        status_job_add(&job, text, why, sizeof why);
    for (size_t first = 0, n; first < job.n; first += n) {
        n = status_job_comm(&job, first);
        if (n == 0 || strlen(status_verdict(&job, first, n, verdict, sizeof verdict, &stuck)) >= sizeof verdict)
            abort();
    }
    status_job_free(&job);
    free(text);
    return 0;
}
