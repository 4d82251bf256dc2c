/* SPDX-License-Identifier: Apache-2.0
 * Pairwise all-to-all: in round k everybody sends to the position k ahead and receives from the one k behind, so that no receiver
 * is flooded. Rounds: N-1. Sends (N-1)/N * M. Every block goes straight to its receiver. Wins for large messages between hosts. */
#include "coll/step.h"
#include "coll/table.h"

void motet_alltoall_pairwise(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
    for (int k = 1; k < n; k++) {
        int ahead = (me + k) % n, behind = motet_mod(me - k, n);
        motet_send(schedule, MOTET_INPUT, ahead, 1, ahead);
        motet_recv(schedule, MOTET_OUTPUT, behind, 1, behind);
        motet_end_round(schedule);
    }
}
