/* SPDX-License-Identifier: Apache-2.0
 * Direct all-to-all: all blocks leave at once, the one for the next position first.
 * One round. Sends (N-1)/N * M. Every block goes straight to its receiver, so only the two ends need to know its size. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_alltoall_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_direct_scatter(schedule, shape, MOTET_INPUT);
    motet_copy_chunks(schedule, MOTET_OUTPUT, shape->position, MOTET_INPUT, shape->position, 1);
    motet_direct_collect(schedule, shape);
}
