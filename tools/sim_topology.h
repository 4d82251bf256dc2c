/* SPDX-License-Identifier: Apache-2.0
 * Networks as lists of links, in files:
 *   {"hosts": 4, "switches": ["left", "right"], "latency": "1us", "bandwidth": "100Gb/s",
 *    "links": [{"between": ["host 0", "left"]}, {"between": ["left", "right"], "bandwidth": "40Gb/s", "name": "bridge"},
 *              {"from": "right", "to": "host 3", "latency": "2us"}]}
 * A link `between` two nodes is one each way. The ending of the file's name says which reader takes it. */
#ifndef MOTET_TOOLS_SIM_TOPOLOGY_H
#define MOTET_TOOLS_SIM_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#include "motet.h"

struct sim_topology {
    motetSimulateLink_t *links;
    int nlinks, room, nswitches, hosts;
};

/* Whether the word names a file, not a kind of network. */
bool sim_topology_is_file(const char *word);

/* False: why is "FILE:LINE: what is wrong". Free it in each case. */
bool sim_topology_read(const char *name, struct sim_topology *topology, char *why, size_t why_len);
bool sim_topology_parse(const char *name, const char *text, size_t len, struct sim_topology *topology, char *why, size_t why_len);
void sim_topology_free(struct sim_topology *topology);

#endif
