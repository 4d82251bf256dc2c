/* SPDX-License-Identifier: Apache-2.0
 * Tree barrier: signals go up a binary tree and back down.
 * Hops: about 4 log2 N, 2(N-1) signals in all, and nobody talks to more than three. */
#include "coll/signal.h"
#include "coll/table.h"
#include "coll/tree.h"

void motet_barrier_tree(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_tree at = motet_tree_at(shape, 0);
    motet_schedule_begin(schedule, shape, 1, 1);
    if (at.children.n > 0)
        motet_await(schedule, at.children);
    motet_end_round(schedule);
    if (at.parent.n > 0) {
        motet_signal(schedule, at.parent);
        motet_await(schedule, at.parent);
    }
    motet_end_round(schedule);
    if (at.children.n > 0)
        motet_signal(schedule, at.children);
}
