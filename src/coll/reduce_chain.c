/* SPDX-License-Identifier: Apache-2.0
 * Pipelined chain reduce: sums flow along the walk to the root, piece by piece. Each host is crossed once.
 * Hops: N-1. Every position but the root sends M and receives M at once. Order: rotated. Wins for large messages on few ranks. */
#include "coll/step.h"
#include "coll/table.h"
#include "coll/walk.h"

void motet_reduce_chain(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int place = motet_walk_place(shape, shape->position), last = shape->nranks - 1;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){
                                    .from = place < last ? motet_peer(motet_walk_position(shape, place + 1)) : motet_nobody,
                                    .src = MOTET_INPUT,
                                    .dst = place == 0 ? MOTET_OUTPUT : MOTET_NONE,
                                    .to = place > 0 ? motet_peer(motet_walk_position(shape, place - 1)) : motet_nobody,
                                    .n = 1,
                                    .flags = place + 1 < last ? MOTET_WIDE : 0,
                                });
}
