/* SPDX-License-Identifier: Apache-2.0
 * Direct reduce: everybody sends its input to the root, which combines all N in one fused kernel.
 * One hop. The root receives (N-1) * M. Order: canonical. Wins for small messages inside a host. */
#include "coll/step.h"
#include "coll/table.h"

void motet_reduce_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    bool is_root = shape->position == shape->root;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){
                                    .from = is_root ? motet_everybody(shape->nranks) : motet_nobody,
                                    .src = MOTET_INPUT,
                                    .dst = is_root ? MOTET_OUTPUT : MOTET_NONE,
                                    .to = is_root ? motet_nobody : motet_peer(shape->root),
                                    .n = 1,
                                });
}
