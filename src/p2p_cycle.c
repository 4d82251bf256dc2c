/* SPDX-License-Identifier: Apache-2.0
 * See p2p_cycle.h. Each rank shows to whom it waits in Send; who waits long follows the words of the others. */
#include "p2p_cycle.h"

#include <stdio.h>

#include "base/error.h"
#include "base/os.h"

#define CYCLE_LOOK_NS (150 * 1000 * 1000ull) /* a send that finds no room this long looks for a cycle, twice */
#define BLOCK_DIRECT  0x80000000u            /* the message lies in the sender's buffer until the receiver has read it */

/* Tells stream peers the word that this rank shows. False: not all know it yet. */
static bool tell_block(struct motet_batch *batch)
{
    motetComm_t comm = batch->comm;
    uint64_t word = atomic_load_explicit(&comm->control->blocked_send, memory_order_relaxed);
    for (; batch->told < comm->nranks; batch->told++) {
        const struct motet_peer *peer = &comm->peers[batch->told];
        if (!peer->mapped &&
            !motet_endpoint_put(peer->endpoint, peer->key, 0, NULL, 0, offsetof(struct motet_control_area, blocked_send), word))
            return false;
    }
    return true;
}

static void show_block(struct motet_batch *batch, uint64_t word)
{
    atomic_store_explicit(&batch->comm->control->blocked_send, word, memory_order_release);
    batch->told = 0;
    (void)tell_block(batch); /* the rest later */
}

static uint64_t block_of(motetComm_t comm, int position)
{
    return atomic_load_explicit(&motet_region_control(comm->peers[position].region)->blocked_send, memory_order_acquire);
}

static int blocked_to(uint64_t word)
{
    return (int)(word & ~BLOCK_DIRECT & 0xffffffff) - 1;
}

/* Whether every rank that says it waits in Send to this one still has to. One whose message was taken may not have run since: what it says
 * is old, and whoever waits for this rank meanwhile is in no cycle. */
static bool blocks_hold(motetComm_t comm)
{
    for (int p = 0; p < comm->nranks; p++) {
        uint64_t word = block_of(comm, p), held = motet_p2p_held(comm, p);
        if (blocked_to(word) == comm->position && (word & BLOCK_DIRECT ? held == 0 : held < comm->layout.ring_bytes))
            return false;
    }
    return true;
}

/* Follows who waits in Send to whom from this rank. Returns the length of the cycle back to it, 0 if there is none; *sum identifies the
 * state seen, so that two looks can be compared. */
static int follow_cycle(motetComm_t comm, uint64_t *sum, char *text, size_t len)
{
    int at = comm->position, used = 0;
    *sum = 0;
    for (int n = 1; n <= comm->nranks; n++) {
        uint64_t word = block_of(comm, at);
        int next = blocked_to(word);
        if (next < 0 || next >= comm->nranks)
            return 0;
        *sum = *sum * 31 + word;
        if (used >= 0 && (size_t)used < len)
            used += snprintf(text + used, len - (size_t)used, "%srank %d waits in Send to rank %d", n > 1 ? ", " : "",
                             comm->rank_at[at], comm->rank_at[next]);
        if (next == comm->position)
            return n;
        at = next;
    }
    return 0;
}

static _Atomic int nstreams; /* relaxed: a count that orders nothing */

void motet_cycle_note_streams(int n)
{
    atomic_store_explicit(&nstreams, n, memory_order_relaxed);
}

bool motet_cycle_may_be_broken(const struct motetComm *comm)
{
    bool any = false;
    for (const struct motet_batch *batch = comm->batches; batch; batch = batch->next)
        any |= batch->on_stream;
    return any && atomic_load_explicit(&nstreams, memory_order_relaxed) > 1;
}

bool motet_cycle_unblock(struct motet_batch *batch)
{
    if (batch->announced)
        show_block(batch, 0);
    batch->announced = false;
    batch->blocked_since_ns = 0;
    batch->cycle = 0;
    return tell_block(batch);
}

motetResult_t motet_cycle_look(struct motet_batch *batch, const struct motet_transfer *blocked)
{
    motetComm_t comm = batch->comm;
    uint64_t now = motet_now_ns(), sum;
    char text[400] = "";
    (void)tell_block(batch);
    if (batch->blocked_since_ns == 0) {
        batch->blocked_since_ns = now;
        batch->looks = 0;
    }
    if (now - batch->blocked_since_ns < CYCLE_LOOK_NS * (uint64_t)(batch->looks + 1))
        return motetSuccess;
    if (!blocks_hold(comm)) {
        motet_cycle_unblock(batch);
        return motetSuccess;
    }
    if (batch->looks++ == 0) {
        batch->announced = true;
        show_block(batch, ++comm->block_count << 32 | (blocked->wait_until ? BLOCK_DIRECT : 0) | (uint32_t)(blocked->peer + 1));
        return motetSuccess;
    }
    int length = follow_cycle(comm, &sum, text, sizeof text);
    bool same = length > 0 && sum == batch->cycle;
    batch->cycle = length > 0 ? sum : 0;
    if (!same)
        return motetSuccess;
    motet_fail_quiet(motetInvalidUsage, "comm \"%s\" (%d ranks): deadlock: %s; put sends and receives in one group",
                     comm->options.name, comm->nranks, text);
    return motet_comm_fault(comm, motetInvalidUsage);
}
