/* SPDX-License-Identifier: Apache-2.0
 * Whether what this rank stages goes through its cache or past it. Between cores that share a cache, a reader is served fastest from the
 * writer's cache. Between cores that do not, each line is fetched from the other core's cache at several times the price of memory; there
 * streaming stores win, three times over on the machines measured. Which of the two it is depends on where two threads run right
 * now, so it is measured: readers time the first lines of a staged message now and then and show the result in their control area;
 * a writer compares it with what its own streaming stores cost, and tries the cache again now and then while it goes past it. */
#ifndef MOTET_BYPASS_H
#define MOTET_BYPASS_H

#include "comm.h"
#include "reduce/reduce.h"

#define MOTET_BYPASS_FROM_BYTES 2048 /* smaller messages always go through the cache */

struct motet_plan;

/* Out of line parts. */
void motet_bypass_choose(motetComm_t comm, const struct motet_plan *plan, uint64_t seq);
bool motet_bypass_message_passes(motetComm_t comm, int position);
void motet_bypass_probe(motetComm_t comm, const char *staged, size_t len);

/* A call begins in which this rank stages messages of `bytes`, read by plan->readers: decides how. */
static inline void motet_bypass_begin(motetComm_t comm, const struct motet_plan *plan, uint64_t seq, size_t bytes)
{
    comm->bypass.on = false;
    if (bytes >= MOTET_BYPASS_FROM_BYTES)
        motet_bypass_choose(comm, plan, seq);
}

/* Writes to staging. dst starts on a cache line. */
static inline void motet_bypass_stage(const struct motetComm *comm, void *dst, const void *src, size_t len)
{
    if (comm->bypass.on && len >= MOTET_BYPASS_FROM_BYTES)
        motet_copy_past_cache(dst, src, len);
    else
        motet_copy_shared(dst, src, len);
}

/* Before this rank reads a staged message of call `seq` from a peer that maps it: times its first lines now and then. */
static inline void motet_bypass_look(motetComm_t comm, int position, uint64_t seq, const char *staged, size_t len)
{
    if (len < MOTET_BYPASS_FROM_BYTES || seq < comm->bypass.next_probe)
        return;
    const struct motet_peer *peer = &comm->peers[position];
    /* relaxed: whoever sees the message sees this word, which was stored before. */
    if (peer->mapped && atomic_load_explicit(&motet_region_control(peer->region)->progress.cached, memory_order_relaxed) == seq)
        motet_bypass_probe(comm, staged, len);
}

/* Whether a message to the peer at `position`, which maps it, goes past the cache. One to this rank itself never does. */
static inline bool motet_bypass_message(motetComm_t comm, int position, size_t bytes)
{
    return bytes >= MOTET_BYPASS_FROM_BYTES && position != comm->position && motet_bypass_message_passes(comm, position);
}

/* Before this rank reads a message that went through its sender's cache. */
static inline void motet_bypass_look_message(motetComm_t comm, int position, const char *staged, size_t len)
{
    if (len >= MOTET_BYPASS_FROM_BYTES && position != comm->position && comm->messages >= comm->bypass.next_message)
        motet_bypass_probe(comm, staged, len);
}

#endif
