/* SPDX-License-Identifier: Apache-2.0
 * Central barrier: everybody signals position 0, which signals everybody when all have come.
 * Two hops, 2(N-1) signals in all. Here to be compared with. */
#include "coll/signal.h"
#include "coll/table.h"

void motet_barrier_central(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    bool is_center = shape->position == 0;
    motet_schedule_begin(schedule, shape, 1, 1);
    if (!is_center)
        motet_signal(schedule, motet_peer(0));
    motet_await(schedule, is_center ? motet_everybody(shape->nranks) : motet_peer(0));
    motet_end_round(schedule);
    if (is_center)
        motet_signal(schedule, motet_everybody(shape->nranks));
}
