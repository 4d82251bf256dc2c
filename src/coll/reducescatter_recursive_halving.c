/* SPDX-License-Identifier: Apache-2.0
 * Recursive halving reduce-scatter, the lowest bit first; other numbers than powers of two are folded along the canonical tree,
 * then position c hands block c + P (P the largest power of two) to its owner. Rounds: log2 N for powers of two. Sends (N-1)/N * M,
 * at most M otherwise. Order: canonical for every N. */
#include "coll/canonical.h"
#include "coll/halving.h"
#include "coll/table.h"

void motet_reducescatter_recursive_halving(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position, owners = motet_largest_power_of_two(n);
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n;
    motet_halving_reduce_scatter(schedule, shape, owners == n ? MOTET_OUTPUT : MOTET_PARTIAL, motet_nobody);
    if (owners == n)
        return;
    if (me >= owners) {
        motet_step_append(schedule, (struct motet_step){
                                        .from = motet_peer(me - owners),
                                        .dst = MOTET_OUTPUT,
                                        .dst_at = motet_range(me),
                                        .n = 1,
                                        .flags = MOTET_WIDE,
                                    });
        return;
    }
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_PARTIAL, me, 1);
    if (me + owners < n)
        motet_send(schedule, MOTET_PARTIAL, me + owners, 1, me + owners);
}
