/* SPDX-License-Identifier: Apache-2.0
 * Pairwise reduce-scatter: in round k everybody sends one block k positions ahead and adds the one from k positions behind, so that
 * each link carries one message at a time. Rounds: N-1. Sends (N-1)/N * M, raw data. Order: rotated. */
#include "coll/step.h"
#include "coll/table.h"

void motet_reducescatter_pairwise(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    if (n == 1)
        motet_copy_chunks(schedule, MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
    for (int k = 1; k < n; k++) {
        int ahead = (me + k) % n, behind = motet_mod(me - k, n);
        motet_send(schedule, MOTET_INPUT, ahead, 1, ahead);
        motet_recv_reduce(schedule, k < n - 1 ? MOTET_PARTIAL : MOTET_OUTPUT, k > 1 ? MOTET_PARTIAL : MOTET_INPUT, me, 1, behind,
                          false);
        motet_end_round(schedule);
    }
}
