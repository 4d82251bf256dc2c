/* SPDX-License-Identifier: Apache-2.0
 * Circulant all-reduce (Traeff 2024): a reduce-scatter and an all-gather on circulant graphs; Rabenseifner's rounds and volume for
 * numbers that are no powers of two.
 * Rounds: 2 ceil(log2 N). Sends 2(N-1)/N * M for every N. Order: rotated. Wins between hosts for medium messages. */
#include "coll/circulant.h"
#include "coll/table.h"

void motet_allreduce_circulant(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = 2 * (shape->nranks - 1);
    motet_circulant_reduce_scatter(schedule, shape);
    motet_circulant_all_gather(schedule, shape);
}
