/* SPDX-License-Identifier: Apache-2.0
 * A network in a file, for `motet explain --topo` and `motet plan --topo`. A JSON object:
 *   {"name": "two islands", "hosts": 2, "cores": 16, "latency": "5us", "bandwidth": "100Gb/s", "rank_bandwidth": 25.0,
 *    "local_latency": "150ns", "core_bandwidth": 40, "combine_bandwidth": 200, "ideal": true, "whole": false}
 * All members may be left out; unknown ones are refused. Or a topology as XML: see topo_network.h. */
#ifndef MOTET_TOOLS_NETWORK_FILE_H
#define MOTET_TOOLS_NETWORK_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "motet.h"

struct network_file {
    motetExplainNetwork_t network;
    int hosts, cores; /* 0: not said */
};

/* False: why is "FILE:LINE: what is wrong". */
bool network_file_parse(const char *name, const char *text, size_t len, struct network_file *file, char *why, size_t why_len);
bool network_file_read(const char *name, struct network_file *file, char *why, size_t why_len);

#endif
