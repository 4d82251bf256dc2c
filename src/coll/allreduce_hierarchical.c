/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical all-reduce: reduce-scatter inside each host, exchange between hosts of each part by one member per host (its
 * carrier), all-gather back. Every member of a host drives the network; hosts may have any sizes. Between hosts it moves 2(H-1) * M
 * in all, 2(H-1)/H * M from each of H equal hosts. Order: canonical on one host, and on hosts of one power-of-two size. */
#include "coll/hosts.h"
#include "coll/table.h"

void motet_allreduce_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = shape->nranks - 1 + motet_hosts_all_gather_sends(shape);
    motet_hosts_reduce_scatter(schedule, shape);
    motet_end_round(schedule);
    motet_hosts_all_gather(schedule, shape, MOTET_OUTPUT);
}
