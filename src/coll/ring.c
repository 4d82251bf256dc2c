/* SPDX-License-Identifier: Apache-2.0
 * The two halves of every ring algorithm. Nothing passes through memory, so both are one round: a piece is combined and sent on
 * while the rest of its chunk is still arriving. Knows nothing of what the members are to each other. */
#include "coll/ring.h"

struct motet_ring motet_ring_of_all(const struct motet_shape *shape)
{
    int n = shape->nranks, p = shape->position;
    return (struct motet_ring){
        .n = n,
        .place = p,
        .prev = motet_peer(motet_mod(p - 1, n)),
        .next = motet_peer((p + 1) % n),
        .at = motet_range(0),
        .nchunks = 1,
        .shift = 1,
    };
}

struct motet_span motet_ring_chunks(const struct motet_ring *ring, int place)
{
    struct motet_span span = ring->at;
    span.first += motet_mod(place, ring->n) * ring->shift;
    return span;
}

void motet_ring_reduce_scatter(struct motet_schedule *schedule, const struct motet_ring *ring, enum motet_plane src,
                               enum motet_plane dst, struct motet_peers to)
{
    /* The chunks that end here passed all others first, so the first to leave are those of the previous place. */
    for (int hop = 0; hop < ring->n; hop++) {
        bool last = hop == ring->n - 1;
        bool wide = hop > 1 || (hop == 1 && motet_plane_is_wide(src));
        motet_step_append(schedule, (struct motet_step){
                                        .from = hop > 0 ? ring->prev : motet_nobody,
                                        .src = src,
                                        .dst = last ? dst : MOTET_NONE,
                                        .to = last ? to : ring->next,
                                        .dst_at = motet_ring_chunks(ring, ring->place - 1 - hop),
                                        .n = ring->nchunks,
                                        .flags = wide ? MOTET_WIDE : 0,
                                    });
    }
}

void motet_ring_all_gather(struct motet_schedule *schedule, const struct motet_ring *ring)
{
    for (int hop = 1; hop < ring->n; hop++) {
        motet_step_append(schedule, (struct motet_step){
                                        .from = ring->prev,
                                        .dst = MOTET_OUTPUT,
                                        .to = hop < ring->n - 1 ? ring->next : motet_nobody,
                                        .dst_at = motet_ring_chunks(ring, ring->place - hop),
                                        .n = ring->nchunks,
                                    });
    }
}
