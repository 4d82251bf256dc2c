/* SPDX-License-Identifier: Apache-2.0
 * Neighbour all-gather: as the ring, but every block travels both ways, half way round each.
 * Hops: ceil((N-1)/2), in one round. Sends (N-1)/N * M, half of it in each direction. */
#include "coll/step.h"
#include "coll/table.h"

/* Blocks that come from `source` travel `hops` hops; the one from `hop` hops away is block position - direction * hop. */
static void pass_on(struct motet_schedule *schedule, int direction, int hops)
{
    int n = schedule->nranks, me = schedule->position;
    struct motet_peers source = motet_peer(motet_mod(me - direction, n)), target = motet_peer(motet_mod(me + direction, n));
    for (int hop = 1; hop <= hops; hop++) {
        motet_step_append(schedule, (struct motet_step){
                                        .from = source,
                                        .dst = MOTET_OUTPUT,
                                        .to = hop < hops ? target : motet_nobody,
                                        .dst_at = motet_range(motet_mod(me - direction * hop, n)),
                                        .n = 1,
                                    });
    }
}

void motet_allgather_neighbor(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    struct motet_peers both = {.first = motet_mod(me - 1, n), .n = 3, .stride = 1};
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    motet_step_append(schedule, (struct motet_step){
                                    .src = MOTET_INPUT,
                                    .dst = MOTET_OUTPUT,
                                    .to = n > 2 ? both : motet_peer((me + 1) % n), /* two have one neighbour only */
                                    .dst_at = motet_range(me),
                                    .n = 1,
                                });
    pass_on(schedule, 1, n / 2);
    pass_on(schedule, -1, (n - 1) / 2);
}
