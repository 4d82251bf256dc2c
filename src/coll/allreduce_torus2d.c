/* SPDX-License-Identifier: Apache-2.0
 * 2-D torus all-reduce (Mikami et al. 2018): reduce-scatter along the rows of a grid, then along its columns, all-gather back along
 * columns and rows. Only neighbours talk.
 * Hops: 2(X-1) + 2(Y-1), X * Y = N. Sends 2(N-1)/N * M. Order: rotated. For a prime N it is the ring. */
#include "coll/grid.h"
#include "coll/table.h"

void motet_allreduce_torus2d(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_grid grid = motet_grid_at(shape);
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = 2 * (shape->nranks - 1);
    motet_grid_reduce_scatter(schedule, &grid, grid.column.next);
    motet_grid_all_gather(schedule, &grid);
}
