/* SPDX-License-Identifier: Apache-2.0
 * One-shot all-reduce: everybody shows its input to everybody, and each combines all N inputs in one fused kernel. One step of
 * latency. Sends (N-1) * M, but inside a host that is one copy that all read. Order: canonical. Wins for small messages inside a
 * host. */
#include "coll/step.h"
#include "coll/table.h"

void motet_allreduce_one_shot(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_peers all = motet_everybody(shape->nranks);
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_step_append(schedule, (struct motet_step){.src = MOTET_INPUT, .to = all, .n = 1});
    motet_step_append(schedule, (struct motet_step){.from = all, .src = MOTET_INPUT, .dst = MOTET_OUTPUT, .n = 1});
}
