/* SPDX-License-Identifier: Apache-2.0
 * Everybody to everybody, one message per pair: few steps, any number of positions, canonical order. Chunk p belongs to
 * position p. */
#ifndef MOTET_COLL_DIRECT_H
#define MOTET_COLL_DIRECT_H

#include "coll/step.h"

/* Sends chunk p of `src` to every other position p. */
void motet_direct_scatter(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane src);

/* Combines the own chunk of everybody; stores it in `dst` and sends it to `to`. */
void motet_direct_combine(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane dst,
                          struct motet_peers to);

/* Receives chunk p of OUTPUT from every other position p. */
void motet_direct_collect(struct motet_schedule *schedule, const struct motet_shape *shape);

#endif
