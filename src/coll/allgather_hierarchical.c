/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical all-gather: each block goes to one member of every host (its carrier), which shows it to the others as it arrives.
 * Inside the own host everybody shows its block to everybody. Two hops, in one round. Between hosts it moves (H-1) * M in all, the
 * least possible, spread over all members. */
#include "coll/hosts.h"
#include "coll/table.h"

void motet_allgather_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = motet_hosts_all_gather_sends(shape);
    motet_hosts_all_gather(schedule, shape, MOTET_INPUT);
}
