/* SPDX-License-Identifier: Apache-2.0
 * Central all-reduce: everything to position 0 and back, what a parameter server does. Here to be compared with: position 0
 * receives and sends (N-1) * M, the others send M each. Two hops. Order: canonical. */
#include "coll/step.h"
#include "coll/table.h"

void motet_allreduce_central(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    bool is_center = shape->position == 0;
    struct motet_peers all = motet_everybody(shape->nranks);
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){
                                    .from = is_center ? all : motet_nobody,
                                    .src = MOTET_INPUT,
                                    .dst = is_center ? MOTET_OUTPUT : MOTET_NONE,
                                    .to = is_center ? all : motet_peer(0),
                                    .n = 1,
                                });
    if (!is_center)
        motet_recv(schedule, MOTET_OUTPUT, 0, 1, 0);
}
