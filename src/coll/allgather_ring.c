/* SPDX-License-Identifier: Apache-2.0
 * Ring all-gather: every block travels all the way round; each position keeps a copy and passes it on as it arrives.
 * Hops: N-1, in one round. Sends (N-1)/N * M, to the next position only, so hosts are crossed once each. */
#include "coll/ring.h"
#include "coll/table.h"

void motet_allgather_ring(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_ring ring = motet_ring_of_all(shape);
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_step_append(schedule, (struct motet_step){
                                    .src = MOTET_INPUT,
                                    .dst = MOTET_OUTPUT,
                                    .to = ring.next,
                                    .dst_at = motet_range(shape->position),
                                    .n = 1,
                                });
    motet_ring_all_gather(schedule, &ring);
}
