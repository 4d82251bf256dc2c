/* SPDX-License-Identifier: Apache-2.0
 * Rows first, then columns, and back: X + Y - 2 hops each way instead of the N - 1 of one ring, for the same volume. */
#include "coll/grid.h"

struct motet_grid motet_grid_at(const struct motet_shape *shape)
{
    int n = shape->nranks, columns = 1;
    for (int divisor = 2; divisor * divisor <= n; divisor++) {
        if (n % divisor == 0)
            columns = divisor;
    }
    int rows = n / columns, x = shape->position % columns, y = shape->position / columns;
    return (struct motet_grid){
        .row = {.n = columns,
                .place = x,
                .prev = motet_peer(y * columns + motet_mod(x - 1, columns)),
                .next = motet_peer(y * columns + (x + 1) % columns),
                .at = motet_strided(0, columns),
                .nchunks = rows,
                .shift = 1},
        .column = {.n = rows,
                   .place = y,
                   .prev = motet_peer(motet_mod(y - 1, rows) * columns + x),
                   .next = motet_peer((y + 1) % rows * columns + x),
                   .at = motet_range(x),
                   .nchunks = 1,
                   .shift = columns},
    };
}

void motet_grid_reduce_scatter(struct motet_schedule *schedule, const struct motet_grid *grid, struct motet_peers to)
{
    enum motet_plane held = MOTET_INPUT;
    if (grid->row.n > 1) {
        motet_ring_reduce_scatter(schedule, &grid->row, MOTET_INPUT, MOTET_PARTIAL, motet_nobody);
        motet_end_round(schedule);
        held = MOTET_PARTIAL;
    }
    motet_ring_reduce_scatter(schedule, &grid->column, held, MOTET_OUTPUT, to);
}

void motet_grid_all_gather(struct motet_schedule *schedule, const struct motet_grid *grid)
{
    motet_ring_all_gather(schedule, &grid->column);
    if (grid->row.n == 1)
        return;
    motet_end_round(schedule);
    motet_step_append(schedule, (struct motet_step){
                                    .src = MOTET_OUTPUT,
                                    .to = grid->row.next,
                                    .dst_at = motet_ring_chunks(&grid->row, grid->row.place),
                                    .n = grid->row.nchunks,
                                });
    motet_ring_all_gather(schedule, &grid->row);
}
