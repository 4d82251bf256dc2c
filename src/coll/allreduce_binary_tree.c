/* SPDX-License-Identifier: Apache-2.0
 * Binary tree all-reduce: up and down one tree, pipelined. Here to be compared with the double tree: half of the positions are
 * leaves that send M, the others send up to 3M and limit the rest. Hops: about 4 log2 N. Order: rotated (in-order tree). */
#include "coll/table.h"
#include "coll/tree.h"

void motet_allreduce_binary_tree(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 2;
    motet_tree_allreduce(schedule, shape, 0, 0);
}
