/* SPDX-License-Identifier: Apache-2.0
 * config.json of a model, for motet plan: whatever is accepted has a finite number of parameters; every complaint names file and line. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scaling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scaling_model model;
    char why[256] = "";
    if (!scaling_config_parse("file", (const char *)data, size, &model, why, sizeof why)) {
        if (strncmp(why, "file:", 5) != 0 || atoi(why + 5) < 1)
            abort();
        return 0;
    }
    if (!(model.params > 0) || !isfinite(model.params) || model.layers < 1 || model.hidden < 1 ||
        model.expert_params > model.params)
        abort();
    return 0;
}
