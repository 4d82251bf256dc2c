/* SPDX-License-Identifier: Apache-2.0
 * One-shot barrier: everybody signals everybody.
 * One hop, N-1 signals each; inside a host a signal is one cache line that all read. Wins inside a host. */
#include "coll/signal.h"
#include "coll/table.h"

void motet_barrier_one_shot(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, 1);
    motet_signal(schedule, motet_everybody(shape->nranks));
    motet_await(schedule, motet_everybody(shape->nranks));
}
