/* SPDX-License-Identifier: Apache-2.0
 * Rabenseifner's all-reduce (2004): reduce-scatter by recursive halving, all-gather by recursive doubling. The lowest bit is halved
 * first and other numbers than powers of two are folded along the canonical tree, so the order is canonical for every N.
 * Rounds: 2 log2 N (a few more when N is no power of two). Sends 2(N-1)/N * M for powers of two, at most 2M otherwise. */
#include "coll/canonical.h"
#include "coll/halving.h"
#include "coll/table.h"

void motet_allreduce_rabenseifner(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int parts = motet_largest_power_of_two(shape->nranks);
    motet_schedule_begin(schedule, shape, 1, parts);
    schedule->stage_chunks = 2 * (parts - 1) + motet_halving_ngroups(shape->nranks) - 1;
    motet_halving_reduce_scatter(schedule, shape, MOTET_OUTPUT, motet_nobody);
    motet_halving_all_gather(schedule, shape);
}
