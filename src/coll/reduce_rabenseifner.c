/* SPDX-License-Identifier: Apache-2.0
 * Rabenseifner's reduce (2004): reduce-scatter by recursive halving, then the finished parts go to the root.
 * Rounds: log2 N + 1 for powers of two. Sends at most M. Order: canonical for every N. Wins for large messages between hosts. */
#include "coll/canonical.h"
#include "coll/halving.h"
#include "coll/table.h"

void motet_reduce_rabenseifner(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int parts = motet_largest_power_of_two(shape->nranks);
    bool is_root = shape->position == shape->root;
    motet_schedule_begin(schedule, shape, 1, parts);
    schedule->stage_chunks = parts;
    motet_halving_reduce_scatter(schedule, shape, is_root ? MOTET_OUTPUT : MOTET_SCRATCH,
                                 is_root ? motet_nobody : motet_peer(shape->root));
    if (is_root) {
        motet_step_append(
            schedule, (struct motet_step){.from = {.first = 0, .n = parts, .stride = 1}, .dst = MOTET_OUTPUT, .n = 1, .each = 1});
    }
}
