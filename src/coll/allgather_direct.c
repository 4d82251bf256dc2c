/* SPDX-License-Identifier: Apache-2.0
 * Direct all-gather: everybody shows its block to everybody.
 * One hop. Sends (N-1)/N * M; inside a host that is one copy of M/N which all read. Wins inside a host. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_allgather_direct(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){
                                    .src = MOTET_INPUT,
                                    .dst = MOTET_OUTPUT,
                                    .to = motet_everybody(shape->nranks),
                                    .dst_at = motet_range(shape->position),
                                    .n = 1,
                                });
    motet_direct_collect(schedule, shape);
}
