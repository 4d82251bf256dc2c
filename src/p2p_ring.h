/* SPDX-License-Identifier: Apache-2.0
 * The ring of an ordered pair of ranks: what lies in it, and where. Private to the files of point to point messages. */
#ifndef MOTET_P2P_RING_H
#define MOTET_P2P_RING_H

#include "p2p.h"

#define MOTET_RING_INSIDE (MOTET_LINE - 24)

enum {
    MOTET_RING_DIRECT = 1,     /* the bytes are not in the ring */
    MOTET_RING_PAST_CACHE = 2, /* they were not written through the sender's cache */
};

/* In front of each message in the ring: a line. A receiver that maps the ring looks at nothing else until a header is there. The stamp is
 * written last and differs from all that may lie there, other than by the chance of 64 random bits: see motet_ring_stamp. */
struct motet_ring_header {
    uint64_t bytes;
    int32_t tag;
    uint16_t there; /* lines of payload behind the header that were written before it */
    uint8_t dtype;
    uint8_t flags;
    union {
        uint64_t direct;                /* where the bytes are: address << 1, or segment offset << 1 | 1 */
        char inside[MOTET_RING_INSIDE]; /* all of a message that fits; longer ones follow, unless they are direct */
    };
    _Atomic uint64_t stamp;
};
_Static_assert(sizeof(struct motet_ring_header) == MOTET_LINE, "a header is a line");

/* A message that came before anybody asked for it. */
struct motet_ring_unexpected {
    struct motet_ring_unexpected *next;
    struct motet_ring_header header;
    char bytes[];
};

struct motet_pair {
    uint64_t sent;       /* bytes put into my ring to this peer */
    uint64_t taken_seen; /* of them, those that the peer was seen to have taken */
    uint64_t consumed;   /* bytes taken from this peer's ring to me */
    uint64_t seen;       /* bytes of that ring that were seen to be written */
    uint64_t told_taken; /* stream peers: value of `taken` they know */
    /* The message at the head of the ring, once its header has been read. */
    bool open;
    struct motet_ring_header header;
    uint64_t got;                               /* payload bytes of it moved so far */
    struct motet_transfer *into;                /* the receive that takes it, or */
    struct motet_ring_unexpected *storing;      /* the unexpected entry that does */
    struct motet_ring_unexpected *first, *last; /* unexpected messages, oldest first */
};

static inline struct motet_ring_head *motet_ring_head_of(motetComm_t comm, int owner, int other)
{
    return (struct motet_ring_head *)(comm->peers[owner].region + motet_layout_ring_head(&comm->layout, other));
}

static inline uint64_t motet_ring_lines(uint64_t bytes)
{
    return (bytes + MOTET_LINE - 1) / MOTET_LINE * MOTET_LINE;
}

/* Bytes of my ring to `peer` that are free, as far as they have to be known: the peer's word is only looked at when fewer than `wanted` are
 * known to be, since each look fetches a line that the peer has written. */
static inline uint64_t motet_ring_room(motetComm_t comm, int peer, uint64_t wanted)
{
    struct motet_pair *pair = &comm->pairs[peer];
    uint64_t known = comm->layout.ring_bytes - (pair->sent - pair->taken_seen);
    if (known >= wanted)
        return known;
    /* acquire: the receiver has read what it says it took; only then is it overwritten. */
    pair->taken_seen = atomic_load_explicit(&motet_ring_head_of(comm, peer, comm->position)->taken, memory_order_acquire);
    return comm->layout.ring_bytes - (pair->sent - pair->taken_seen);
}

/* The stamp of a header at `position` of any ring. Positions never come again, and the identity of the communicator is random: what a
 * lap before, a payload, or another communicator left in the line is another number. */
static inline uint64_t motet_ring_stamp(motetComm_t comm, uint64_t position)
{
    return comm->id + position + 1;
}

/* Shows how far my ring is filled: to a peer that maps it, and to whoever asks. */
static inline void motet_ring_show_written(motetComm_t comm, int peer)
{
    /* release: whoever sees the count sees the bytes. */
    atomic_store_explicit(&motet_ring_head_of(comm, comm->position, peer)->written, comm->pairs[peer].sent, memory_order_release);
}

/* Where byte `position` of my ring to `peer` lies in the region. */
static inline size_t motet_ring_at(motetComm_t comm, int peer, uint64_t position)
{
    return motet_layout_ring(&comm->layout, peer) + (position & (comm->layout.ring_bytes - 1));
}

/* Where the next byte of peer's ring to me lies, and how many are contiguous. */
static inline const char *motet_ring_read(motetComm_t comm, int peer, uint64_t *contiguous)
{
    uint64_t at = comm->pairs[peer].consumed & (comm->layout.ring_bytes - 1);
    *contiguous = comm->layout.ring_bytes - at;
    return comm->peers[peer].region + motet_layout_ring(&comm->layout, comm->position) + at;
}

/* ---- p2p_send.c ---- */

/* Puts what it can of a send into the ring, in pieces. Returns whether all is sent, and, where the receiver copies from the caller's
 * buffer, whether it has. */
bool motet_ring_send(motetComm_t comm, struct motet_transfer *message, bool *moved);

#endif
