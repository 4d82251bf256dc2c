/* SPDX-License-Identifier: Apache-2.0
 * Circulant reduce-scatter (Traeff 2024): recursive halving for any number of positions.
 * Rounds: ceil(log2 N). Sends (N-1)/N * M for every N. Order: rotated. Wins between hosts for small and medium messages. */
#include "coll/circulant.h"
#include "coll/table.h"

void motet_reducescatter_circulant(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_circulant_reduce_scatter(schedule, shape);
}
