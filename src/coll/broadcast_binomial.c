/* SPDX-License-Identifier: Apache-2.0
 * Binomial tree broadcast: who has the data gives it to the place half of the remaining way down the walk, again and again.
 * Rounds: ceil(log2 N) one after the other. Every position receives M once; the root sends ceil(log2 N) * M. Wins for small
 * messages between hosts. */
#include "coll/step.h"
#include "coll/table.h"
#include "coll/walk.h"

static struct motet_peers at_place(const struct motet_shape *shape, int place)
{
    return motet_peer(motet_walk_position(shape, place));
}

void motet_broadcast_binomial(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, place = motet_walk_place(shape, shape->position), rounds = 0;
    while (1 << rounds < n)
        rounds++;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = rounds + 1;
    int reach = place > 0 ? place & -place : 1 << rounds; /* places place .. place + reach - 1 hear it from me */
    int below = reach / 2;
    while (below > 0 && place + below >= n)
        below /= 2;
    /* The farthest of them is served as the data arrives, the others from memory. */
    motet_step_append(schedule, (struct motet_step){
                                    .from = place > 0 ? at_place(shape, place - reach) : motet_nobody,
                                    .src = place > 0 ? MOTET_NONE : MOTET_INPUT,
                                    .dst = MOTET_OUTPUT,
                                    .to = below > 0 ? at_place(shape, place + below) : motet_nobody,
                                    .n = 1,
                                });
    motet_end_round(schedule);
    for (below /= 2; below > 0; below /= 2)
        motet_step_append(schedule, (struct motet_step){.src = MOTET_OUTPUT, .to = at_place(shape, place + below), .n = 1});
}
