/* SPDX-License-Identifier: Apache-2.0
 * Rings between pairs of ranks, and the matching of messages to receives. See p2p.h for the layout.
 *
 * A message is offered to the posted receives in call order; the first that matches takes it. When receives wait for this source but none
 * matches, the message is moved to the unexpected list so that those behind it can come. */
#include "p2p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "p2p_cycle.h"
#include "profile.h"
#include "recorder.h"
#include "reduce/reduce.h"
#include "segment.h"
#include "timing.h"

/* Messages from this size on are copied by the receiver straight from the sender's buffer, where it can read it. */
#define DIRECT_FROM_BYTES (64 * 1024)

#define INSIDE_MAX (MOTET_LINE - 24)

/* In front of each message in the ring. */
struct header {
    uint64_t bytes;
    int32_t tag;
    uint32_t dtype;
    uint64_t direct;         /* 0: bytes follow. Else address << 1, or segment offset << 1 | 1 */
    char inside[INSIDE_MAX]; /* all of a message that fits */
};

/* A message that came before anybody asked for it. */
struct unexpected {
    struct unexpected *next;
    struct header header;
    char bytes[];
};

struct motet_pair {
    uint64_t sent;       /* bytes put into my ring to this peer */
    uint64_t taken_seen; /* of them, those that the peer was seen to have taken */
    uint64_t consumed;   /* bytes taken from this peer's ring to me */
    uint64_t told_taken; /* stream peers: value of `taken` they know */
    /* The message at the head of the ring, once its header has been read. */
    bool open;
    struct header header;
    uint64_t got;                    /* payload bytes of it moved so far */
    struct motet_transfer *into;     /* the receive that takes it, or */
    struct unexpected *storing;      /* the unexpected entry that does */
    struct unexpected *first, *last; /* unexpected messages, oldest first */
};

/* ---- Views of the rings ---- */

static struct motet_ring_head *head(motetComm_t comm, int owner, int other)
{
    return (struct motet_ring_head *)(comm->peers[owner].region + motet_layout_ring_head(&comm->layout, other));
}

static uint64_t lines(uint64_t bytes)
{
    return (bytes + MOTET_LINE - 1) / MOTET_LINE * MOTET_LINE;
}

/* Bytes of my ring to `peer` that are free, as far as they have to be known: the peer's word is only looked at when fewer than `wanted` are
 * known to be, since each look fetches a line that the peer has written. */
static uint64_t room(motetComm_t comm, int peer, uint64_t wanted)
{
    struct motet_pair *pair = &comm->pairs[peer];
    uint64_t known = comm->layout.ring_bytes - (pair->sent - pair->taken_seen);
    if (known >= wanted)
        return known;
    /* acquire: the receiver has read what it says it took; only then is it overwritten. */
    pair->taken_seen = atomic_load_explicit(&head(comm, peer, comm->position)->taken, memory_order_acquire);
    return comm->layout.ring_bytes - (pair->sent - pair->taken_seen);
}

static uint64_t arrived(motetComm_t comm, int peer)
{
    return atomic_load_explicit(&head(comm, peer, comm->position)->written, memory_order_acquire) - comm->pairs[peer].consumed;
}

uint64_t motet_p2p_held(motetComm_t comm, int peer)
{
    return arrived(comm, peer) + (comm->pairs[peer].consumed - comm->pairs[peer].told_taken);
}

/* Tells a peer that maps it how far my ring is filled. */
static void show_written(motetComm_t comm, int peer)
{
    /* release: whoever sees the count sees the bytes. */
    atomic_store_explicit(&head(comm, comm->position, peer)->written, comm->pairs[peer].sent, memory_order_release);
}

/* Copies len bytes into my ring to `peer` at its end (at most `room`), padded to lines, and tells the peer, unless it maps the ring: then
 * show_written does. False: a stream had no room. */
static bool ring_write(motetComm_t comm, int peer, const void *bytes, uint64_t len)
{
    struct motet_pair *pair = &comm->pairs[peer];
    uint64_t at = pair->sent & (comm->layout.ring_bytes - 1), end = pair->sent + lines(len);
    size_t ring = motet_layout_ring(&comm->layout, peer);
    const struct motet_peer *to = &comm->peers[peer];
    if (to->mapped) {
        motet_copy_shared(comm->region + ring + at, bytes, len);
    } else if (!motet_endpoint_put(to->endpoint, to->key, ring + at, bytes, len,
                                   motet_layout_ring_head(&comm->layout, peer) + offsetof(struct motet_ring_head, written), end)) {
        return false;
    } else {
        /* For whoever is asked how far this end is (unmatched.c). */
        atomic_store_explicit(&head(comm, comm->position, peer)->written, end, memory_order_release);
    }
    pair->sent = end;
    return true;
}

/* Where the next byte of peer's ring to me lies, and how many are contiguous. */
static const char *ring_read(motetComm_t comm, int peer, uint64_t *contiguous)
{
    uint64_t at = comm->pairs[peer].consumed & (comm->layout.ring_bytes - 1);
    *contiguous = comm->layout.ring_bytes - at;
    return comm->peers[peer].region + motet_layout_ring(&comm->layout, comm->position) + at;
}

/* Tells the sender how much has been taken. A stream without room is told by a later call. */
static void tell_taken(motetComm_t comm, int peer)
{
    struct motet_pair *pair = &comm->pairs[peer];
    const struct motet_peer *from = &comm->peers[peer];
    if (from->mapped) {
        atomic_store_explicit(&head(comm, comm->position, peer)->taken, pair->consumed, memory_order_release);
        pair->told_taken = pair->consumed;
    } else if (pair->told_taken != pair->consumed) {
        size_t word = motet_layout_ring_head(&comm->layout, peer) + offsetof(struct motet_ring_head, taken);
        atomic_store_explicit(&head(comm, comm->position, peer)->taken, pair->consumed, memory_order_release);
        if (motet_endpoint_put(from->endpoint, from->key, 0, NULL, 0, word, pair->consumed))
            pair->told_taken = pair->consumed;
    }
}

/* ---- Sending ---- */

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

/* The ring wraps at line borders, so a header never does; payload is cut at the end of the ring. Returns whether all is sent. A peer that
 * maps the ring is told by the caller of the first bytes, together with the header. */
static bool put_some(motetComm_t comm, struct motet_transfer *message, bool *moved)
{
    struct motet_pair *pair = &comm->pairs[message->peer];
    if (message->wait_until)
        return (int64_t)(atomic_load_explicit(&head(comm, message->peer, comm->position)->taken, memory_order_acquire) -
                         message->wait_until) >= 0;
    if (!message->begun) {
        struct header header = {.bytes = message->bytes,
                                .tag = message->tag,
                                .dtype = (uint32_t)message->dtype,
                                .direct = direct_address(comm, message)};
        bool fits = message->bytes <= INSIDE_MAX;
        if (fits && message->bytes > 0)
            memcpy(header.inside, message->buf, message->bytes);
        if (room(comm, message->peer, sizeof header) < sizeof header || !ring_write(comm, message->peer, &header, sizeof header))
            return false;
        message->begun = *moved = true;
        message->moved = fits ? message->bytes : 0;
        if (header.direct)
            message->wait_until = pair->sent;
    }
    if (message->wait_until)
        return false;
    while (message->moved < message->bytes) {
        uint64_t free_bytes = room(comm, message->peer, lines(message->bytes - message->moved)),
                 at = pair->sent & (comm->layout.ring_bytes - 1), n = message->bytes - message->moved;
        if (n > comm->layout.ring_bytes - at)
            n = comm->layout.ring_bytes - at;
        if (n > MOTET_PUT_MAX)
            n = MOTET_PUT_MAX;
        if (n > free_bytes)
            n = free_bytes / MOTET_LINE * MOTET_LINE;
        if (n == 0 || !ring_write(comm, message->peer, (char *)message->buf + message->moved, n))
            return false;
        message->moved += n;
        *moved = true;
        if (message->moved < message->bytes && comm->peers[message->peer].mapped)
            show_written(comm, message->peer); /* the peer may take these meanwhile */
    }
    return true;
}

static bool send_some(motetComm_t comm, struct motet_transfer *message, bool *moved)
{
    const struct motet_pair *pair = &comm->pairs[message->peer];
    uint64_t before = pair->sent;
    bool done = put_some(comm, message, moved);
    if (pair->sent != before && comm->peers[message->peer].mapped)
        show_written(comm, message->peer);
    return done;
}

/* ---- Receiving ---- */

static motetResult_t call_mismatch(motetComm_t comm, int peer, const struct header *header, const struct motet_transfer *message)
{
    const struct motet_dtype *mine = motet_dtype_row(message->dtype), *theirs = motet_dtype_row((motetDataType_t)header->dtype);
    theirs = theirs ? theirs : mine;
    motet_fail_quiet(motetInvalidUsage,
                     "comm \"%s\" (%d ranks): rank %d called %s(%zu x %s) from rank %d, rank %d called %s(%" PRIu64
                     " x %s) to rank %d",
                     comm->options.name, comm->nranks, comm->rank, message->name, message->bytes / mine->size, mine->name,
                     comm->peers[peer].rank, comm->peers[peer].rank, header->tag == MOTET_UNTAGGED ? "Send" : "SendTag",
                     header->bytes / theirs->size, theirs->name, comm->rank);
    return motet_comm_fault(comm, motetInvalidUsage);
}

static bool matches(const struct motet_transfer *message, int peer, const struct header *header)
{
    if (message->is_send || message->done || message->posted || (message->peer >= 0 && message->peer != peer))
        return false;
    if (message->tag == MOTET_ANY_TAG)
        return header->tag != MOTET_UNTAGGED;
    return message->tag == header->tag;
}

static struct motet_transfer *find_receive(motetComm_t comm, int peer, const struct header *header, bool *waits_here)
{
    *waits_here = false;
    for (struct motet_batch *batch = comm->batches; batch; batch = batch->next)
        for (int i = 0; i < batch->count; i++) {
            struct motet_transfer *message = &batch->transfers[i];
            if (matches(message, peer, header))
                return message;
            if (!message->is_send && !message->done && !message->posted && (message->peer < 0 || message->peer == peer))
                *waits_here = true;
        }
    return NULL;
}

static motetResult_t accept_header(motetComm_t comm, int peer, const struct header *header, struct motet_transfer *message)
{
    bool tagged = header->tag != MOTET_UNTAGGED;
    if (header->dtype != (uint32_t)message->dtype || header->bytes > message->bytes || (!tagged && header->bytes != message->bytes))
        return call_mismatch(comm, peer, header, message);
    message->posted = true;
    message->received = header->bytes;
    message->source = comm->peers[peer].rank;
    message->received_tag = header->tag;
    return motetSuccess;
}

/* The sender's call may fail meanwhile: motet_comm_await_readers. */
static motetResult_t copy_direct(motetComm_t comm, int peer, const struct header *header, void *to)
{
    const char *from = header->direct & 1 ? comm->peers[peer].endpoint->segment + (header->direct >> 1)
                                          : (const char *)(uintptr_t)(header->direct >> 1);
    atomic_store_explicit(&comm->control->copies_from, peer + 1, memory_order_relaxed); /* before the look at faults */
    motetResult_t result = motet_comm_check_read(comm);
    if (result == motetSuccess && header->bytes > 0) {
        memcpy(to, from, header->bytes);
        result = motet_comm_check_read(comm);
    }
    atomic_store_explicit(&comm->control->copies_from, 0, memory_order_release);
    return result;
}

static void complete(struct motet_transfer *message)
{
    struct motet_batch *batch = message->batch;
    message->done = true;
    batch->left--;
    size_t bytes = message->is_send ? message->bytes : message->received;
    motet_record_message_end(batch->comm, message->number, MOTET_RECORD_DONE, bytes);
    motet_profile_stop_message(batch->comm, message, motetSuccess);
    motet_timing_count_message(batch->comm, message->is_send,
                               message->is_send ? message->peer : batch->comm->position_of[message->source], bytes);
}

/* Gives unexpected messages of `peer` to receives that match. */
static motetResult_t take_unexpected(motetComm_t comm, int peer, bool *moved)
{
    struct motet_pair *pair = &comm->pairs[peer];
    struct unexpected *previous = NULL, *entry = pair->first;
    while (entry) {
        bool waits;
        struct motet_transfer *message = entry == pair->storing ? NULL : find_receive(comm, peer, &entry->header, &waits);
        struct unexpected *next = entry->next;
        if (!message) {
            previous = entry;
            entry = next;
            continue;
        }
        TRY(accept_header(comm, peer, &entry->header, message));
        if (entry->header.bytes > 0)
            memcpy(message->buf, entry->bytes, entry->header.bytes);
        if (previous)
            previous->next = next;
        else
            pair->first = next;
        if (pair->last == entry)
            pair->last = previous;
        free(entry);
        complete(message);
        *moved = true;
        entry = next;
    }
    return motetSuccess;
}

static motetResult_t store_unexpected(motetComm_t comm, int peer)
{
    struct motet_pair *pair = &comm->pairs[peer];
    struct unexpected *entry = pair->header.bytes <= SIZE_MAX / 2 ? malloc(sizeof *entry + pair->header.bytes) : NULL;
    if (!entry) {
        motet_fail(motetSystemError, "out of memory for an unexpected message of %" PRIu64 " bytes from rank %d",
                   pair->header.bytes, comm->peers[peer].rank);
        return motet_comm_fault(comm, motetSystemError);
    }
    entry->next = NULL;
    entry->header = pair->header;
    if (pair->last)
        pair->last->next = entry;
    else
        pair->first = entry;
    pair->last = pair->storing = entry;
    return motetSuccess;
}

/* Reads the header at the head of the ring and decides who takes the message. *stuck: nobody does now. */
static motetResult_t open_message(motetComm_t comm, int peer, bool *stuck, bool *moved)
{
    struct motet_pair *pair = &comm->pairs[peer];
    uint64_t contiguous;
    bool waits;
    *stuck = true;
    if (!pair->open) {
        if (arrived(comm, peer) < sizeof pair->header)
            return motetSuccess;
        memcpy(&pair->header, ring_read(comm, peer, &contiguous), sizeof pair->header);
        pair->open = true;
        pair->got = 0;
        pair->into = NULL;
        pair->storing = NULL;
    }
    if (!pair->into && !pair->storing) {
        pair->into = find_receive(comm, peer, &pair->header, &waits);
        if (pair->into)
            TRY(accept_header(comm, peer, &pair->header, pair->into));
        else if (waits)
            TRY(store_unexpected(comm, peer));
        else
            return motetSuccess;
        pair->consumed += sizeof pair->header; /* told only when the message is through, or with its first bytes */
        *moved = true;
    }
    *stuck = false;
    return motetSuccess;
}

/* Moves payload of the open message. *stuck: more must arrive first. */
static motetResult_t move_message(motetComm_t comm, int peer, bool *stuck, bool *moved)
{
    struct motet_pair *pair = &comm->pairs[peer];
    char *to = pair->into ? pair->into->buf : pair->storing->bytes;
    if (pair->header.direct) {
        TRY(copy_direct(comm, peer, &pair->header, to));
        pair->got = pair->header.bytes;
    } else if (pair->header.bytes <= INSIDE_MAX) {
        if (pair->header.bytes > 0)
            memcpy(to, pair->header.inside, pair->header.bytes);
        pair->got = pair->header.bytes;
    }
    while (pair->got < pair->header.bytes) {
        uint64_t contiguous, there = arrived(comm, peer), n = pair->header.bytes - pair->got;
        const char *from = ring_read(comm, peer, &contiguous);
        n = n > contiguous ? contiguous : n;
        n = n > there ? there / MOTET_LINE * MOTET_LINE : n;
        if (n == 0) {
            *stuck = true;
            return motetSuccess;
        }
        memcpy(to + pair->got, from, n);
        pair->got += n;
        pair->consumed += lines(n);
        tell_taken(comm, peer);
        *moved = true;
    }
    tell_taken(comm, peer);
    pair->open = false;
    pair->storing = NULL;
    if (pair->into)
        complete(pair->into);
    pair->into = NULL;
    *moved = true;
    return motetSuccess;
}

static motetResult_t receive_from(motetComm_t comm, int peer, bool *moved)
{
    bool stuck = false;
    if (comm->pairs[peer].first)
        TRY(take_unexpected(comm, peer, moved));
    while (!stuck) {
        TRY(open_message(comm, peer, &stuck, moved));
        bool stored = comm->pairs[peer].storing != NULL;
        if (!stuck)
            TRY(move_message(comm, peer, &stuck, moved));
        if (stored && !stuck) /* it may be asked for by now, and goes before what follows it */
            TRY(take_unexpected(comm, peer, moved));
    }
    if (comm->pairs[peer].told_taken != comm->pairs[peer].consumed && !comm->pairs[peer].open)
        tell_taken(comm, peer);
    return motetSuccess;
}

/* ---- Batches ---- */

/* A receive's record shows the room; how much came is in the progress line. */
struct motet_record motet_transfer_record(motetComm_t comm, const struct motet_transfer *message, int group)
{
    const struct motet_peer *peer = message->peer >= 0 ? &comm->peers[message->peer] : NULL;
    return (struct motet_record){
        .count = message->bytes / motet_dtype_row(message->dtype)->size,
        .counts_hash = (uint32_t)message->tag,
        .root = peer ? peer->rank : -1,
        .collective = message->is_send ? MOTET_RECORD_SEND : MOTET_RECORD_RECV,
        .dtype = (uint8_t)message->dtype,
        .op = 0xff,
        .state = MOTET_RECORD_STARTED,
        .algorithm = 0xffff,
        .group = (uint16_t)(group > 1 ? group : 0),
        .protocol = message->bytes <= comm->options.eager_bytes ? MOTET_RECORD_LL : MOTET_RECORD_SIMPLE,
        .transports = peer ? motet_record_transport(peer) : 0,
    };
}

static void record(const struct motet_batch *batch, struct motet_transfer *message)
{
    motetComm_t comm = batch->comm;
    struct motet_record description = motet_transfer_record(comm, message, batch->count);
    message->number = motet_record_message(comm, &description);
    MOTET_PROBE_CALL_BEGIN(comm->id, (const char *)comm->options.name, comm->rank, message->number, message->name,
                           description.count, (int)message->dtype, description.root);
    message->profile = motet_profile_start_message(comm, message);
}

motetResult_t motet_batch_begin(struct motet_batch *batch, motetComm_t comm, struct motet_transfer *transfers, int count,
                                bool on_stream)
{
    struct motet_batch **last = &comm->batches;
    *batch = (struct motet_batch){
        .comm = comm, .on_stream = on_stream, .transfers = transfers, .count = count, .left = count, .told = comm->nranks};
    while (*last)
        last = &(*last)->next;
    *last = batch;
    if (!comm->pairs)
        comm->pairs = calloc((size_t)comm->nranks, sizeof *comm->pairs);
    if (!comm->pairs)
        return motet_fail(motetSystemError, "out of memory for messages on communicator %s", comm->options.name);
    uint64_t queued_ns = comm->queued_ns;
    for (int i = 0; i < count; i++) {
        comm->queued_ns = queued_ns;
        transfers[i].batch = batch;
        record(batch, &transfers[i]);
    }
    return motet_comm_check(comm);
}

/* Whether an earlier send to the same peer is still going on: messages of a pair keep their order. */
static bool waits_for_earlier(const struct motet_transfer *message)
{
    for (const struct motet_batch *batch = message->batch->comm->batches; batch; batch = batch->next)
        for (int i = 0; i < batch->count; i++) {
            const struct motet_transfer *other = &batch->transfers[i];
            if (other == message)
                return false;
            if (other->is_send && !other->done && other->peer == message->peer &&
                !other->wait_until) /* a direct send is in the ring: the next may follow */
                return true;
        }
    return false;
}

static motetResult_t progress_receives(const struct motet_batch *batch, bool *moved)
{
    motetComm_t comm = batch->comm;
    bool any_source = false;
    for (int i = 0; i < batch->count; i++)
        any_source |= !batch->transfers[i].is_send && !batch->transfers[i].done && batch->transfers[i].peer < 0;
    for (int p = 0; any_source && p < comm->nranks; p++)
        TRY(receive_from(comm, p, moved));
    for (int i = 0; !any_source && i < batch->count; i++)
        if (!batch->transfers[i].is_send && !batch->transfers[i].done)
            TRY(receive_from(comm, batch->transfers[i].peer, moved));
    return motetSuccess;
}

/* Moves what one of the active batches can. *blocked: a send that has no room; *receives: a receive waits. */
static motetResult_t progress_one(struct motet_batch *batch, const struct motet_transfer **blocked, bool *receives, bool *moved)
{
    bool mine = false;
    for (int i = 0; i < batch->count; i++) {
        struct motet_transfer *message = &batch->transfers[i];
        mine |= !message->is_send && !message->done;
        if (!message->is_send || message->done || waits_for_earlier(message))
            continue;
        if (send_some(batch->comm, message, moved))
            complete(message), *moved = true;
        else
            *blocked = message;
    }
    *receives |= mine;
    return mine ? progress_receives(batch, moved) : motetSuccess;
}

/* It is active no longer. */
static void leave(struct motet_batch *batch)
{
    struct motet_batch **link = &batch->comm->batches;
    while (*link && *link != batch)
        link = &(*link)->next;
    if (*link)
        *link = batch->next;
}

motetResult_t motet_batch_progress(struct motet_batch *batch, bool *moved)
{
    const struct motet_transfer *blocked = NULL;
    bool receives = false;
    if (batch->comm->messages_broken) {
        TRY(motet_comm_check(batch->comm));
        return motet_fail(motetSystemError, "an earlier message of communicator %s failed half way", batch->comm->options.name);
    }
    for (struct motet_batch *each = batch->comm->batches == batch ? batch : NULL; each; each = each->next)
        TRY(progress_one(each, &blocked, &receives, moved));
    if (*moved)
        motet_comm_wake(batch->comm);
    if (batch->left == 0) { /* not before all know that this rank waits no more: they might take it for part of a cycle later */
        if (!motet_cycle_unblock(batch))
            return motetInProgress;
        leave(batch);
        return motetSuccess;
    }
    if (*moved || !blocked || receives || motet_cycle_may_be_broken(batch->comm))
        motet_cycle_unblock(batch);
    else
        TRY(motet_cycle_look(batch, blocked));
    return motetInProgress;
}

static bool copies_from_me(const void *context, int position)
{
    const struct motet_batch *batch = context;
    const struct motet_control_area *control = motet_region_control(batch->comm->peers[position].region);
    return atomic_load(&control->copies_from) == batch->comm->position + 1;
}

/* The receivers of direct sends may be copying from the caller's buffers. */
static void await_receivers(const struct motet_batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        const struct motet_transfer *message = &batch->transfers[i];
        if (!message->done && message->is_send && message->wait_until)
            motet_comm_await_readers(batch->comm, &message->peer, 1, copies_from_me, batch);
    }
}

void motet_batch_end(struct motet_batch *batch)
{
    if (batch->comm && batch->transfers)
        await_receivers(batch);
    for (int i = 0; i < batch->count; i++)
        if (!batch->transfers[i].done && batch->transfers[i].number) {
            motet_record_message_end(batch->comm, batch->transfers[i].number, MOTET_RECORD_FAILED, 0);
            motetResult_t error = motet_comm_async_error(batch->comm);
            motet_profile_stop_message(batch->comm, &batch->transfers[i], error != motetSuccess ? error : motetSystemError);
        }
    if (batch->comm && batch->comm->pairs)
        for (int p = 0; p < batch->comm->nranks; p++)
            if (batch->comm->pairs[p].into && batch->comm->pairs[p].into->batch == batch)
                batch->comm->pairs[p].into = NULL; /* nothing more is received into the caller's memory */
    if (batch->comm)
        batch->comm->messages_broken = true; /* rings may end in half a message */
    if (batch->announced)
        motet_cycle_unblock(batch);
    if (batch->comm)
        leave(batch);
}

void motet_p2p_free(motetComm_t comm)
{
    for (int p = 0; comm->pairs && p < comm->nranks; p++)
        for (struct unexpected *entry = comm->pairs[p].first, *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    free(comm->pairs);
    comm->pairs = NULL;
}
