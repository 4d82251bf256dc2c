/* SPDX-License-Identifier: Apache-2.0
 * The receiving side of the rings between pairs of ranks: matching of messages to receives, and the batches that both sides belong to.
 *
 * A message is offered to the posted receives in call order; the first that matches takes it. When receives wait for this source but none
 * matches, the message is moved to the unexpected list so that those behind it can come. */
#include "p2p.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bypass.h"
#include "p2p_cycle.h"
#include "p2p_ring.h"
#include "profile.h"
#include "recorder.h"
#include "reduce/reduce.h"
#include "timing.h"

/* ---- Receiving ---- */

static uint64_t arrived(motetComm_t comm, int peer)
{
    return atomic_load_explicit(&motet_ring_head_of(comm, peer, comm->position)->written, memory_order_acquire) -
           comm->pairs[peer].consumed;
}

uint64_t motet_p2p_held(motetComm_t comm, int peer)
{
    return arrived(comm, peer) + (comm->pairs[peer].consumed - comm->pairs[peer].told_taken);
}

/* Tells the sender how much has been taken. A stream without room is told by a later call. */
static void tell_taken(motetComm_t comm, int peer)
{
    struct motet_pair *pair = &comm->pairs[peer];
    const struct motet_peer *from = &comm->peers[peer];
    if (from->mapped) {
        atomic_store_explicit(&motet_ring_head_of(comm, comm->position, peer)->taken, pair->consumed, memory_order_release);
        pair->told_taken = pair->consumed;
    } else if (pair->told_taken != pair->consumed) {
        size_t word = motet_layout_ring_head(&comm->layout, peer) + offsetof(struct motet_ring_head, taken);
        atomic_store_explicit(&motet_ring_head_of(comm, comm->position, peer)->taken, pair->consumed, memory_order_release);
        if (motet_endpoint_put(from->endpoint, from->key, 0, NULL, 0, word, pair->consumed))
            pair->told_taken = pair->consumed;
    }
}

static motetResult_t call_mismatch(motetComm_t comm, int peer, const struct motet_ring_header *header,
                                   const struct motet_transfer *message)
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

static bool matches(const struct motet_transfer *message, int peer, const struct motet_ring_header *header)
{
    if (message->is_send || message->done || message->posted || (message->peer >= 0 && message->peer != peer))
        return false;
    if (message->tag == MOTET_ANY_TAG)
        return header->tag != MOTET_UNTAGGED;
    return message->tag == header->tag;
}

static struct motet_transfer *find_receive(motetComm_t comm, int peer, const struct motet_ring_header *header, bool *waits_here)
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

static motetResult_t accept_header(motetComm_t comm, int peer, const struct motet_ring_header *header,
                                   struct motet_transfer *message)
{
    bool tagged = header->tag != MOTET_UNTAGGED;
    if (header->dtype != (uint8_t)message->dtype || header->bytes > message->bytes || (!tagged && header->bytes != message->bytes))
        return call_mismatch(comm, peer, header, message);
    message->posted = true;
    message->received = header->bytes;
    message->source = comm->peers[peer].rank;
    message->received_tag = header->tag;
    return motetSuccess;
}

/* The sender's call may fail meanwhile: motet_comm_await_readers. */
static motetResult_t copy_direct(motetComm_t comm, int peer, const struct motet_ring_header *header, void *to)
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
    *(message->is_send ? &batch->sends : &batch->receives) -= 1;
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
    struct motet_ring_unexpected *previous = NULL, *entry = pair->first;
    while (entry) {
        bool waits;
        struct motet_transfer *message = entry == pair->storing ? NULL : find_receive(comm, peer, &entry->header, &waits);
        struct motet_ring_unexpected *next = entry->next;
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
    struct motet_ring_unexpected *entry = pair->header.bytes <= SIZE_MAX / 2 ? malloc(sizeof *entry + pair->header.bytes) : NULL;
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

/* acquire: what was written before the stamp, or before the count, is seen. */
static bool has_header(motetComm_t comm, int peer, const struct motet_ring_header *header)
{
    if (comm->peers[peer].mapped)
        return atomic_load_explicit(&header->stamp, memory_order_acquire) == motet_ring_stamp(comm, comm->pairs[peer].consumed);
    return arrived(comm, peer) >= sizeof *header;
}

/* Bytes of the open message's payload that can be read, as far as they have to be known: the sender's word is only looked at when fewer
 * than `wanted` are known to be there. */
static uint64_t readable(motetComm_t comm, int peer, uint64_t wanted)
{
    struct motet_pair *pair = &comm->pairs[peer];
    if (pair->seen - pair->consumed < wanted)
        pair->seen = pair->consumed + arrived(comm, peer);
    return pair->seen - pair->consumed;
}

/* Reads the header at the head of the ring and decides who takes the message. *stuck: nobody does now. */
static motetResult_t open_message(motetComm_t comm, int peer, bool *stuck, bool *moved)
{
    struct motet_pair *pair = &comm->pairs[peer];
    uint64_t contiguous;
    bool waits;
    *stuck = true;
    if (!pair->open) {
        const struct motet_ring_header *header =
            (const struct motet_ring_header *)(const void *)motet_ring_read(comm, peer, &contiguous);
        if (!has_header(comm, peer, header))
            return motetSuccess;
        memcpy(&pair->header, header, sizeof pair->header);
        pair->seen = pair->consumed + sizeof pair->header + (uint64_t)header->there * MOTET_LINE;
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

/* Reads payload of the open message. */
static void take(motetComm_t comm, int peer, void *to, const char *from, size_t n)
{
    const struct motet_pair *pair = &comm->pairs[peer];
    if (!comm->peers[peer].mapped) {
        memcpy(to, from, n);
        return;
    }
    if (!(pair->header.flags & MOTET_RING_PAST_CACHE) && pair->got == 0)
        motet_bypass_look_message(comm, peer, from, n);
    motet_copy_private(to, from, n);
}

/* Moves payload of the open message. *stuck: more must arrive first. */
static motetResult_t move_message(motetComm_t comm, int peer, bool *stuck, bool *moved)
{
    struct motet_pair *pair = &comm->pairs[peer];
    char *to = pair->into ? pair->into->buf : pair->storing->bytes;
    if (pair->header.flags & MOTET_RING_DIRECT) {
        TRY(copy_direct(comm, peer, &pair->header, to));
        pair->got = pair->header.bytes;
    } else if (pair->header.bytes <= MOTET_RING_INSIDE) {
        motet_copy_line(to, pair->header.inside, pair->header.bytes);
        pair->got = pair->header.bytes;
    }
    while (pair->got < pair->header.bytes) {
        uint64_t contiguous, n = pair->header.bytes - pair->got, there = readable(comm, peer, motet_ring_lines(n));
        const char *from = motet_ring_read(comm, peer, &contiguous);
        n = n > contiguous ? contiguous : n;
        n = n > there ? there / MOTET_LINE * MOTET_LINE : n;
        if (n == 0) {
            *stuck = true;
            return motetSuccess;
        }
        take(comm, peer, to + pair->got, from, n);
        pair->got += n;
        pair->consumed += motet_ring_lines(n);
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

/* Whether a receive waits. When none does, nothing is looked at: to look at a line before it is written is to slow its writer down. */
static bool is_asked(motetComm_t comm)
{
    const struct motet_batch *batch = comm->batches;
    while (batch && batch->receives == 0)
        batch = batch->next;
    return batch != NULL;
}

static motetResult_t receive_from(motetComm_t comm, int peer, bool *moved)
{
    bool stuck = false;
    if (comm->pairs[peer].first)
        TRY(take_unexpected(comm, peer, moved));
    while (!stuck && is_asked(comm)) {
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
    *batch =
        (struct motet_batch){.comm = comm, .on_stream = on_stream, .transfers = transfers, .count = count, .told = comm->nranks};
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
        batch->sends += transfers[i].is_send;
        batch->receives += !transfers[i].is_send;
        batch->any_source |= !transfers[i].is_send && transfers[i].peer < 0;
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
    for (int p = 0; batch->any_source && p < comm->nranks; p++)
        TRY(receive_from(comm, p, moved));
    for (int i = 0; !batch->any_source && i < batch->count; i++)
        if (!batch->transfers[i].is_send && !batch->transfers[i].done)
            TRY(receive_from(comm, batch->transfers[i].peer, moved));
    return motetSuccess;
}

/* Moves what one of the active batches can. *blocked: a send that has no room; *receives: a receive waits. */
static motetResult_t progress_one(struct motet_batch *batch, const struct motet_transfer **blocked, bool *receives, bool *moved)
{
    for (int i = 0; batch->sends > 0 && i < batch->count; i++) {
        struct motet_transfer *message = &batch->transfers[i];
        if (!message->is_send || message->done || waits_for_earlier(message))
            continue;
        if (motet_ring_send(batch->comm, message, moved))
            complete(message), *moved = true;
        else
            *blocked = message;
    }
    if (batch->receives == 0)
        return motetSuccess;
    *receives = true;
    return progress_receives(batch, moved);
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
    if (batch->sends + batch->receives ==
        0) { /* not before all know that this rank waits no more: they might take it for part of a cycle later */
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
        for (struct motet_ring_unexpected *entry = comm->pairs[p].first, *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    free(comm->pairs);
    comm->pairs = NULL;
}
