/* SPDX-License-Identifier: Apache-2.0
 * Two-shot reduce: a direct reduce-scatter, then every position sends its finished part to the root.
 * Two hops. Sends at most M; the root receives 2(N-1)/N * M. Order: canonical. Wins for large messages
 * inside a host, where all members reduce. */
#include "coll/direct.h"
#include "coll/table.h"

void motet_reduce_two_shot(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    bool is_root = shape->position == shape->root;
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = shape->nranks;
    motet_direct_scatter(schedule, shape, MOTET_INPUT);
    motet_direct_combine(schedule, shape, is_root ? MOTET_OUTPUT : MOTET_SCRATCH, is_root ? motet_nobody : motet_peer(shape->root));
    if (is_root)
        motet_direct_collect(schedule, shape);
}
