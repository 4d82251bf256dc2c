/* SPDX-License-Identifier: Apache-2.0
 * Double binary tree all-reduce (Sanders, Speck, Traeff 2009; NCCL's "Tree"). One half of the data goes up and down one tree, the
 * other half another one in which leaves and inner nodes are exchanged; all in one round, so pieces stream through both. Hops:
 * about 4 log2 N. Sends at most 2M, M at the root. Order: rotated (in-order trees). */
#include "coll/table.h"
#include "coll/tree.h"

void motet_allreduce_double_binary_tree(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, 2);
    schedule->stage_chunks = 4;
    motet_tree_allreduce(schedule, shape, 0, 0);
    motet_tree_allreduce(schedule, shape, 1, 1);
}
