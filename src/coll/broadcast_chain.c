/* SPDX-License-Identifier: Apache-2.0
 * Pipelined chain broadcast: the data flows along the walk from the root, piece by piece. Each host is crossed once.
 * Hops: N-1. Every position sends and receives M at most. Wins for large messages on few ranks. */
#include "coll/step.h"
#include "coll/table.h"
#include "coll/walk.h"

void motet_broadcast_chain(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int place = motet_walk_place(shape, shape->position), last = shape->nranks - 1;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){
                                    .from = place > 0 ? motet_peer(motet_walk_position(shape, place - 1)) : motet_nobody,
                                    .src = place == 0 ? MOTET_INPUT : MOTET_NONE,
                                    .dst = MOTET_OUTPUT,
                                    .to = place < last ? motet_peer(motet_walk_position(shape, place + 1)) : motet_nobody,
                                    .n = 1,
                                });
}
