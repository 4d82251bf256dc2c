/* SPDX-License-Identifier: Apache-2.0
 * Double binary tree broadcast (Sanders, Speck, Traeff 2009): one half of the data goes down each of two trees in which leaves and
 * inner nodes are exchanged, in one round. Hops: about 2 log2 N. Every position but the root receives M and sends M on average.
 * Wins for large messages on many ranks. */
#include "coll/table.h"
#include "coll/tree.h"

void motet_broadcast_double_binary_tree(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, 2);
    schedule->stage_chunks = 2;
    motet_tree_broadcast(schedule, shape, 0, 0);
    motet_tree_broadcast(schedule, shape, 1, 1);
}
