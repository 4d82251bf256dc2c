/* SPDX-License-Identifier: Apache-2.0
 * Rings: members pass chunks to the next one only. A ring may be all positions, or one row or column of a grid. */
#ifndef MOTET_COLL_RING_H
#define MOTET_COLL_RING_H

#include "coll/step.h"

struct motet_ring {
    int n, place; /* members, and the own place among them */
    struct motet_peers prev, next;
    struct motet_span at; /* the chunks of place 0; those of place j start j * shift later */
    int nchunks, shift;   /* chunks of one place */
};

/* The ring of all positions, one chunk each. */
struct motet_ring motet_ring_of_all(const struct motet_shape *shape);

/* The chunks of a place, counted modulo n. */
struct motet_span motet_ring_chunks(const struct motet_ring *ring, int place);

/* n - 1 hops: chunks of every place travel towards it and gather a contribution from `src` at each hop. The own chunks end in `dst`
 * and are sent to `to` as well. */
void motet_ring_reduce_scatter(struct motet_schedule *schedule, const struct motet_ring *ring, enum motet_plane src,
                               enum motet_plane dst, struct motet_peers to);

/* n - 1 hops: every place's chunks travel all the way round into OUTPUT. The own chunks must have been sent to `next` already. */
void motet_ring_all_gather(struct motet_schedule *schedule, const struct motet_ring *ring);

#endif
