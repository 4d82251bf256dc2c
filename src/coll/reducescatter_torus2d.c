/* SPDX-License-Identifier: Apache-2.0
 * 2-D torus reduce-scatter: along the rows of a grid for whole columns of blocks, then along the columns.
 * Hops: (X-1) + (Y-1), X * Y = N. Sends (N-1)/N * M. Order: rotated. For a prime N it is the ring. */
#include "coll/grid.h"
#include "coll/table.h"

void motet_reducescatter_torus2d(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_grid grid = motet_grid_at(shape);
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_grid_reduce_scatter(schedule, &grid, motet_nobody);
}
