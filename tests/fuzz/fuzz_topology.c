/* SPDX-License-Identifier: Apache-2.0
 * Networks that motet sim --topo reads: the links of whatever is accepted join nodes that are there, and every complaint names the file
 * and a line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim_topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_topology topology;
    char why[256] = "";
    bool good = sim_topology_parse("file", (const char *)data, size, &topology, why, sizeof why);
    if (!good && (strncmp(why, "file:", 5) != 0 || atoi(why + 5) < 1))
        abort();
    for (int l = 0; good && l < topology.nlinks; l++) {
        const motetSimulateLink_t *link = &topology.links[l];
        int nodes = topology.hosts + topology.nswitches;
        if (link->from < 0 || link->from >= nodes || link->to < 0 || link->to >= nodes || !(link->GBs > 0) ||
            !(link->latencyUs >= 0))
            abort();
    }
    sim_topology_free(&topology);
    return 0;
}
