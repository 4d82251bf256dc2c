/* SPDX-License-Identifier: Apache-2.0
 * Direct scatter: the root sends every position its block, the next position first.
 * One hop. Every block goes straight to its receiver, so only the two ends need to know its size. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_scatter_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int me = shape->position;
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    if (me != shape->root) {
        motet_recv(schedule, MOTET_OUTPUT, me, 1, shape->root);
        return;
    }
    motet_direct_scatter(schedule, shape, MOTET_INPUT);
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
}
