/* SPDX-License-Identifier: Apache-2.0
 * Circulant graphs (Traeff 2024, arXiv 2410.14234): what recursive halving does for powers of two, for any number of positions,
 * with ceil(log2 n) messages and the least volume. The distances between partners are n halved, rounded up, again and again: 13, 7,
 * 4, 2, 1. Chunk p belongs to position p. */
#ifndef MOTET_COLL_CIRCULANT_H
#define MOTET_COLL_CIRCULANT_H

#include "coll/step.h"

/* Chunk p, reduced over everybody, ends in OUTPUT of position p. Sends nranks - 1 chunks. */
void motet_circulant_reduce_scatter(struct motet_schedule *schedule, const struct motet_shape *shape);

/* Chunk p, in OUTPUT of position p, ends in everybody's OUTPUT. Sends nranks - 1 chunks. */
void motet_circulant_all_gather(struct motet_schedule *schedule, const struct motet_shape *shape);

#endif
