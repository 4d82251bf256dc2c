/* SPDX-License-Identifier: Apache-2.0
 * The walk: all positions in one line that starts at the root. The rest of the root's host comes first, then the other hosts in
 * cyclic order, so a line along it crosses from host to host exactly nhosts - 1 times, whatever the root. */
#ifndef MOTET_COLL_WALK_H
#define MOTET_COLL_WALK_H

#include "coll/coll.h"

/* Place of a position in the walk (0 = root), and the position at a place. */
int motet_walk_place(const struct motet_shape *shape, int position);
int motet_walk_position(const struct motet_shape *shape, int place);

#endif
