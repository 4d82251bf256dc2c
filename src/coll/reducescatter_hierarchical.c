/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical reduce-scatter: inside each host one member (the block's carrier) combines what the members have for a block, and
 * sends the sum to the owner, which combines one sum per host. Between hosts it moves (H-1) * M in all, the least possible, spread
 * over all members. Order: canonical on one host, and on hosts of one power-of-two size. */
#include "coll/hosts.h"
#include "coll/table.h"

void motet_reducescatter_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_hosts_reduce_scatter(schedule, shape);
}
