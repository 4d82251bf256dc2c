/* SPDX-License-Identifier: Apache-2.0
 * Networks that motet explain --topo reads: whatever is accepted can be asked about, and every complaint names the file and a line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "network_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct network_file file;
    char why[256] = "";
    if (!network_file_parse("file", (const char *)data, size, &file, why, sizeof why)) {
        if (strncmp(why, "file:", 5) != 0 || atoi(why + 5) < 1)
            abort();
        return 0;
    }
    if (file.hosts < 0 || file.cores < 0 || !(file.network.latencyUs >= 0) || !(file.network.hostGBs >= 0))
        abort();
    return 0;
}
