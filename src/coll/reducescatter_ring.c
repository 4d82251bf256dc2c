/* SPDX-License-Identifier: Apache-2.0
 * Ring reduce-scatter (Patarasu, Yuan 2009): sums travel round the ring and gather one contribution at each hop.
 * Hops: N-1, in one round. Sends (N-1)/N * M, to the next position only. Order: rotated, block b starts behind position b. */
#include "coll/ring.h"
#include "coll/table.h"

void motet_reducescatter_ring(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_ring ring = motet_ring_of_all(shape);
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_ring_reduce_scatter(schedule, &ring, MOTET_INPUT, MOTET_OUTPUT, motet_nobody);
}
