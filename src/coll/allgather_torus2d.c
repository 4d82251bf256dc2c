/* SPDX-License-Identifier: Apache-2.0
 * 2-D torus all-gather: blocks travel round the columns of a grid, then whole columns of blocks round its rows.
 * Hops: (Y-1) + (X-1), X * Y = N. Sends (N-1)/N * M. For a prime N it is the ring. */
#include "coll/grid.h"
#include "coll/table.h"

void motet_allgather_torus2d(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_grid grid = motet_grid_at(shape);
    motet_schedule_begin(schedule, shape, shape->nranks, 1);
    schedule->stage_chunks = shape->nranks - 1;
    motet_step_append(schedule, (struct motet_step){
                                    .src = MOTET_INPUT,
                                    .dst = MOTET_OUTPUT,
                                    .to = grid.column.next,
                                    .dst_at = motet_range(shape->position),
                                    .n = 1,
                                });
    motet_grid_all_gather(schedule, &grid);
}
