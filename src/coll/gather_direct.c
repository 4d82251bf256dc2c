/* SPDX-License-Identifier: Apache-2.0
 * Direct gather: everybody sends its block to the root.
 * One hop. Every block goes straight to the root, so only the two ends need to know its size. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_gather_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int me = shape->position;
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = 1;
    if (me != shape->root) {
        motet_send(schedule, MOTET_INPUT, me, 1, shape->root);
        return;
    }
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
    motet_direct_collect(schedule, shape);
}
