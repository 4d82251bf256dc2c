/* SPDX-License-Identifier: Apache-2.0
 * Dissemination barrier (Hensgen, Finkel, Manber 1988): in round k everybody signals the position 2^k ahead and waits for the one
 * 2^k behind, so what anybody has heard of doubles. Rounds: ceil(log2 N), one signal each. Wins between hosts. */
#include "coll/signal.h"
#include "coll/table.h"

void motet_barrier_dissemination(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(schedule, shape, 1, 1);
    for (int distance = 1; distance < n; distance *= 2) {
        motet_signal(schedule, motet_peer((me + distance) % n));
        motet_await(schedule, motet_peer(motet_mod(me - distance, n)));
        motet_end_round(schedule);
    }
}
