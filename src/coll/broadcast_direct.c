/* SPDX-License-Identifier: Apache-2.0
 * Direct broadcast: the root shows the data to everybody. Inside a host that is one copy which all read; between hosts the root's
 * link carries (N-1) * M. One hop. Wins inside a host. */
#include "coll/step.h"
#include "coll/table.h"

void motet_broadcast_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    bool is_root = shape->position == shape->root;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){
                                    .from = is_root ? motet_nobody : motet_peer(shape->root),
                                    .src = is_root ? MOTET_INPUT : MOTET_NONE,
                                    .dst = MOTET_OUTPUT,
                                    .to = is_root ? motet_everybody(shape->nranks) : motet_nobody,
                                    .n = 1,
                                });
}
