/* SPDX-License-Identifier: Apache-2.0
 * Recursive halving and doubling for any number of positions, in canonical order: what Rabenseifner's algorithm is made of.
 *
 * Groups. The positions are cut into groups of 2^k by the binary digits of nranks, largest first: 13 = 8 + 4 + 1. Member m of a
 * group of g reduces every g-th chunk from m on. The canonical tree of nranks is group 1 + (group 2 + (group 3 + ...)), so the
 * results of a group are folded into the group before it, from the last to the first. */
#ifndef MOTET_COLL_HALVING_H
#define MOTET_COLL_HALVING_H

#include "coll/step.h"

/* Chunk c, reduced over everybody, ends in `dst` of position c mod P, P the largest power of two <= nranks, and is sent to `to` as
 * well. nchunks >= P. Sends at most nchunks chunks. dst may be a PARTIAL plane. */
void motet_halving_reduce_scatter(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane dst,
                                  struct motet_peers to);

/* nchunks == P: chunk c, in OUTPUT of position c, ends in everybody's OUTPUT. Sends at most nchunks - 1 to its own group and one to each other group. */
void motet_halving_all_gather(struct motet_schedule *schedule, const struct motet_shape *shape);

int motet_halving_ngroups(int nranks);

#endif
