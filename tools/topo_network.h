/* SPDX-License-Identifier: Apache-2.0
 * What a topology says to the cost model, for `motet explain --topo` and `motet plan --topo`. */
#ifndef MOTET_TOOLS_TOPO_NETWORK_H
#define MOTET_TOOLS_TOPO_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

#include "network_file.h"

/* From XML:
 *  hosts      <cpu> elements with different host_hash; one without any
 *  cores      CPUs of the host that has fewest; 0 where no <cpu> has an affinity
 *  bandwidth  of the host that has least: its cards together, each no faster than its narrowest PCIe link, which alone counts where a file
 *             does not say how fast a card is. A <link class="NET"> with bandwidth_gbs is used instead
 *  rank_bandwidth  of the narrowest PCIe link to a GPU, where there are GPUs: each is a rank's own link
 *  latency    the largest latency of a <net> (us), or latency_ns of <link class="NET">
 *  local_latency, core_bandwidth  of the slowest measured <link> inside hosts; copying a byte is a load and a store
 * False: why is "FILE:LINE: what is wrong". */
bool topo_network_parse(const char *name, const char *text, size_t len, struct network_file *file, char *why, size_t why_len);

#endif
