/* SPDX-License-Identifier: Apache-2.0
 * Direct reduce-scatter: everybody sends each block to its owner, which combines all N in one fused kernel.
 * One hop. Sends (N-1)/N * M, raw data. Order: canonical. Wins inside a host and between few hosts. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_reducescatter_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_direct_scatter(schedule, shape, MOTET_INPUT);
    motet_direct_combine(schedule, shape, MOTET_OUTPUT, motet_nobody);
}
