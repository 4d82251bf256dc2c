/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical all-to-all, for hosts of one size L: inside each host, member l first collects the blocks of all members for the
 * members l of all hosts; then one message per pair of hosts and l carries L blocks. Chunk h * L + l of SCRATCH: from member l, for
 * host h. Two rounds, (L-1) + (H-1) messages instead of N-1. Wins for small blocks on many hosts. */
#include "coll/hosts.h"
#include "coll/table.h"

void motet_alltoall_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_host host = motet_host_of(shape, shape->position);
    int size = host.size, nhosts = shape->nhosts, l = shape->position - host.first;
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = 2 * shape->nranks - size - nhosts;
    struct motet_span every_host = motet_strided(0, size), mine = motet_strided(l, size);
    motet_step_append(schedule,
                      (struct motet_step){.src = MOTET_INPUT, .to = host.members, .dst_at = every_host, .n = nhosts, .each = 1});
    motet_step_append(schedule, (struct motet_step){.src = MOTET_INPUT, .dst = MOTET_SCRATCH, .dst_at = mine, .n = nhosts});
    motet_step_append(
        schedule, (struct motet_step){.from = host.members, .dst = MOTET_SCRATCH, .dst_at = every_host, .n = nhosts, .each = 1});
    motet_end_round(schedule);
    struct motet_peers same_place = {.first = l, .n = nhosts, .stride = size};
    motet_step_append(schedule, (struct motet_step){.src = MOTET_SCRATCH, .to = same_place, .n = size, .each = size});
    motet_copy_chunks(schedule, MOTET_OUTPUT, host.first, MOTET_SCRATCH, host.first, size);
    motet_step_append(schedule, (struct motet_step){.from = same_place, .dst = MOTET_OUTPUT, .n = size, .each = size});
}
