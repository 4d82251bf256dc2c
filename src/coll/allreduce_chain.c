/* SPDX-License-Identifier: Apache-2.0
 * Chain all-reduce: sums flow down a line to its head, the result flows back; both at once, piece by piece.
 * Hops: 2(N-1). Sends at most 2M, M at both ends. Order: rotated (one after the other). Wins nowhere by volume, but every link
 * carries M each way and hosts are crossed once. */
#include "coll/step.h"
#include "coll/table.h"

void motet_allreduce_chain(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int me = shape->position, last = shape->nranks - 1;
    struct motet_peers up = me > 0 ? motet_peer(me - 1) : motet_nobody, down = me < last ? motet_peer(me + 1) : motet_nobody;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 2;
    motet_step_append(schedule, (struct motet_step){
                                    .from = down,
                                    .src = MOTET_INPUT,
                                    .dst = me == 0 ? MOTET_OUTPUT : MOTET_NONE,
                                    .to = me == 0 ? down : up,
                                    .n = 1,
                                    .flags = me + 1 < last ? MOTET_WIDE : 0,
                                });
    if (me > 0)
        motet_step_append(schedule, (struct motet_step){.from = up, .dst = MOTET_OUTPUT, .to = down, .n = 1});
}
