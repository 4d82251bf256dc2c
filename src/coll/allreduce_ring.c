/* SPDX-License-Identifier: Apache-2.0
 * Ring all-reduce (Patarasu, Yuan 2009; used by Baidu, Horovod, NCCL). A ring reduce-scatter, then a ring all-gather; both in one
 * round. Messages only go to the next position, so hosts are crossed once each and every link carries the same. Hops: 2(N-1). Sends
 * 2(N-1)/N * M, the least possible. Order: rotated, part p starts behind position p. */
#include "coll/ring.h"
#include "coll/table.h"

void motet_allreduce_ring(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_ring ring = motet_ring_of_all(shape);
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = 2 * (shape->nranks - 1);
    motet_ring_reduce_scatter(schedule, &ring, MOTET_INPUT, MOTET_OUTPUT, ring.next);
    motet_ring_all_gather(schedule, &ring);
}
