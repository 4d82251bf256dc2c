/* SPDX-License-Identifier: Apache-2.0
 * Two-shot all-reduce: a direct reduce-scatter and a direct all-gather. Position p combines part p of all inputs in one fused
 * kernel and shows the result to all. Three steps for any N. Sends 2(N-1)/N * M, always raw or finished data. Order: canonical.
 * Wins for large messages inside a host and between few hosts. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_allreduce_two_shot(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = shape->nranks;
    motet_direct_scatter(schedule, shape, MOTET_INPUT);
    motet_direct_combine(schedule, shape, MOTET_OUTPUT, motet_everybody(shape->nranks));
    motet_direct_collect(schedule, shape);
}
