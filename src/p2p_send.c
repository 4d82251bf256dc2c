/* SPDX-License-Identifier: Apache-2.0
 * The sending side of a pair's ring. To a peer that maps the ring, a message's first piece is written before its header, and the header's
 * stamp last: one line tells it all. A large message between ranks that can read each other's memory is a header alone. */
#include <string.h>

#include "bypass.h"
#include "p2p_ring.h"
#include "reduce/reduce.h"
#include "segment.h"

/* Messages from this size on are copied by the receiver straight from the sender's buffer, where it can read it. */
#define DIRECT_FROM_BYTES (64 * 1024)

/* Writes len bytes to the ring's end at a peer that does not map it (at most `room`), padded to lines. False: the stream had no room. */
static bool stream_write(motetComm_t comm, int peer, const void *bytes, uint64_t len)
{
    struct motet_pair *pair = &comm->pairs[peer];
    uint64_t end = pair->sent + motet_ring_lines(len);
    const struct motet_peer *to = &comm->peers[peer];
    if (!motet_endpoint_put(to->endpoint, to->key, motet_ring_at(comm, peer, pair->sent), bytes, len,
                            motet_layout_ring_head(&comm->layout, peer) + offsetof(struct motet_ring_head, written), end))
        return false;
    pair->sent = end;
    motet_ring_show_written(comm, peer); /* for whoever is asked how far this end is (unmatched.c) */
    return true;
}

static uint64_t direct_address(motetComm_t comm, const struct motet_transfer *message)
{
    const struct motet_peer *to = &comm->peers[message->peer];
    uint64_t offset;
    if (!comm->options.direct || !to->mapped || message->bytes < DIRECT_FROM_BYTES || message->bytes <= comm->options.eager_bytes)
        return 0;
    if (motet_segment_offset(message->buf, message->bytes, &offset))
        return offset << 1 | 1;
    return to->same_process ? (uint64_t)(uintptr_t)message->buf << 1 : 0;
}

/* Bytes of the next piece of a message of which `left` are to be sent, when it begins at `position` of the ring and `room` are free. */
static uint64_t next_piece(motetComm_t comm, uint64_t left, uint64_t position, uint64_t room)
{
    uint64_t to_end = comm->layout.ring_bytes - (position & (comm->layout.ring_bytes - 1));
    uint64_t most = to_end < MOTET_PUT_MAX ? to_end : MOTET_PUT_MAX;
    if (motet_ring_lines(left) <= room && left <= most)
        return left;
    room = room / MOTET_LINE * MOTET_LINE;
    return room < most ? room : most;
}

/* The header of a message, all but what is written with it. */
static void describe(motetComm_t comm, const struct motet_transfer *message, struct motet_ring_header *header)
{
    header->bytes = message->bytes;
    header->tag = message->tag;
    header->dtype = (uint8_t)message->dtype;
    header->there = 0;
    uint64_t direct = direct_address(comm, message);
    header->flags = direct ? MOTET_RING_DIRECT : 0;
    if (direct)
        header->direct = direct;
    else if (message->bytes <= MOTET_RING_INSIDE)
        motet_copy_line(header->inside, message->buf, message->bytes);
}

/* Writes the next n bytes of payload at `position` of a ring that the peer maps. */
static void put(motetComm_t comm, const struct motet_transfer *message, uint64_t position, size_t n)
{
    char *to = comm->region + motet_ring_at(comm, message->peer, position);
    const char *from = (const char *)message->buf + message->moved;
    if (message->past_cache)
        motet_copy_past_cache(to, from, n);
    else
        motet_copy_shared(to, from, n);
}

/* To a peer that maps the ring: the first piece of payload, then the header in front of it, then its stamp. */
static bool begin_mapped(motetComm_t comm, struct motet_transfer *message)
{
    struct motet_pair *pair = &comm->pairs[message->peer];
    uint64_t at = pair->sent, behind = at + sizeof(struct motet_ring_header);
    uint64_t free_bytes = motet_ring_room(comm, message->peer, sizeof(struct motet_ring_header) + motet_ring_lines(message->bytes));
    if (free_bytes < sizeof(struct motet_ring_header))
        return false;
    struct motet_ring_header *header = (struct motet_ring_header *)(comm->region + motet_ring_at(comm, message->peer, at));
    describe(comm, message, header);
    uint64_t n = message->bytes;
    if (n > MOTET_RING_INSIDE) {
        bool direct = header->flags & MOTET_RING_DIRECT;
        message->past_cache = !direct && motet_bypass_message(comm, message->peer, n);
        header->flags |= message->past_cache ? MOTET_RING_PAST_CACHE : 0;
        n = direct ? 0 : next_piece(comm, n, behind, free_bytes - sizeof(struct motet_ring_header));
        put(comm, message, behind, n);
        behind += motet_ring_lines(n);
        header->there = (uint16_t)(motet_ring_lines(n) / MOTET_LINE);
    }
    message->moved = n;
    if (header->flags & MOTET_RING_DIRECT)
        message->wait_until = behind;
    pair->sent = behind;
    motet_ring_show_written(comm, message->peer);
    /* release: whoever sees the stamp sees the header, what is there behind it, and a count that is not behind what was taken. */
    atomic_store_explicit(&header->stamp, motet_ring_stamp(comm, at), memory_order_release);
    return true;
}

static bool begin_streamed(motetComm_t comm, struct motet_transfer *message)
{
    struct motet_ring_header header = {.stamp = 0};
    describe(comm, message, &header);
    if (motet_ring_room(comm, message->peer, sizeof header) < sizeof header ||
        !stream_write(comm, message->peer, &header, sizeof header))
        return false;
    message->moved = message->bytes <= MOTET_RING_INSIDE ? message->bytes : 0;
    return true;
}

/* More payload: the next n bytes. False: a stream had no room. */
static bool add(motetComm_t comm, const struct motet_transfer *message, uint64_t n)
{
    struct motet_pair *pair = &comm->pairs[message->peer];
    if (!comm->peers[message->peer].mapped)
        return stream_write(comm, message->peer, (const char *)message->buf + message->moved, n);
    put(comm, message, pair->sent, n);
    pair->sent += motet_ring_lines(n);
    motet_ring_show_written(comm, message->peer);
    return true;
}

/* The ring wraps at line borders, so a header never does; payload is cut at the end of the ring. Returns whether all is sent. */
bool motet_ring_send(motetComm_t comm, struct motet_transfer *message, bool *moved)
{
    const struct motet_pair *pair = &comm->pairs[message->peer];
    if (message->wait_until)
        return (int64_t)(atomic_load_explicit(&motet_ring_head_of(comm, message->peer, comm->position)->taken,
                                              memory_order_acquire) -
                         message->wait_until) >= 0;
    if (!message->begun) {
        if (!(comm->peers[message->peer].mapped ? begin_mapped(comm, message) : begin_streamed(comm, message)))
            return false;
        message->begun = *moved = true;
    }
    while (message->moved < message->bytes && !message->wait_until) {
        uint64_t left = message->bytes - message->moved;
        uint64_t n = next_piece(comm, left, pair->sent, motet_ring_room(comm, message->peer, motet_ring_lines(left)));
        if (n == 0 || !add(comm, message, n))
            return false;
        message->moved += n;
        *moved = true;
    }
    return !message->wait_until;
}
