/* SPDX-License-Identifier: Apache-2.0
 * The positions as a grid of X columns and Y rows, X the largest divisor of nranks with X <= Y: position = row * X + column. Chunk
 * p belongs to position p. Rows and columns are rings, so everybody talks to four neighbours at most. */
#ifndef MOTET_COLL_GRID_H
#define MOTET_COLL_GRID_H

#include "coll/ring.h"

struct motet_grid {
    struct motet_ring row;    /* moves the chunks of whole columns */
    struct motet_ring column; /* moves single chunks of the own column */
};

struct motet_grid motet_grid_at(const struct motet_shape *shape);

/* Chunk p, reduced over everybody, ends in OUTPUT of position p and is sent to `to` as well. */
void motet_grid_reduce_scatter(struct motet_schedule *schedule, const struct motet_grid *grid, struct motet_peers to);

/* Every chunk p, in OUTPUT of position p and already sent to the next in the column, ends in everybody's OUTPUT. */
void motet_grid_all_gather(struct motet_schedule *schedule, const struct motet_grid *grid);

#endif
