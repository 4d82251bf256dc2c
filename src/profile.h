/* SPDX-License-Identifier: Apache-2.0
 * Calls and steps told to whoever wants to know: the callbacks of motetProfiler_t, and the probes for tools outside. Without a profiler an
 * operation has no struct motet_profile, and nothing here is called; a communicator with a profiler learns no short way (flat.c). */
#ifndef MOTET_PROFILE_H
#define MOTET_PROFILE_H

#include "base/probe.h"
#include "p2p.h"
#include "run.h"

/* The probes, the same on all ways:
 *   call_begin(communicator's id, its name, rank, number, operation's name, count, datatype, root or peer)
 *   call_end(communicator's id, rank, number, operation's name, result)
 *   step_begin, step_end(communicator's id, rank, number, round, step, tile, peer, bytes): only while somebody looks */
#define MOTET_PROBE_CALL_BEGIN(comm_id, comm_name, rank, number, name, count, dtype, peer) \
    MOTET_PROBE8(call_begin, "0", comm_id, comm_name, rank, number, name, count, dtype, peer)
#define MOTET_PROBE_CALL_END(comm_id, rank, number, name, result) MOTET_PROBE5(call_end, "0", comm_id, rank, number, name, result)

extern volatile uint16_t motet_semaphore_step_begin, motet_semaphore_step_end;

/* An operation that a profiler hears of. */
struct motet_profile;

/* Whose callbacks the communicators made from now on call; NULL: nobody's. Checked by the caller. */
void motet_profile_register(const motetProfiler_t *profiler);

/* The one registered; size 0: none. */
motetProfiler_t motet_profile_registered(void);

/* Whether this thread is inside of a callback. One load. */
extern _Thread_local bool motet_profile_calls __attribute__((tls_model("initial-exec")));
static inline bool motet_profile_is_calling(void)
{
    return motet_profile_calls;
}

/* A collective, or a message, begins. NULL: its communicator has no profiler, or memory is short. */
struct motet_profile *motet_profile_start_run(const struct motet_run *run);
struct motet_profile *motet_profile_make_message(motetComm_t comm, const struct motet_transfer *message);
static inline struct motet_profile *motet_profile_start_message(motetComm_t comm, const struct motet_transfer *message)
{
    return __builtin_expect(comm->options.profiler.size != 0, 0) ? motet_profile_make_message(comm, message) : NULL;
}

/* It ended; frees profile (may be NULL). received_from: rank that a message came from, -1. */
void motet_profile_stop(struct motet_profile *profile, motetResult_t result);
void motet_profile_end_message(struct motet_transfer *message, motetResult_t result);
static inline void motet_profile_stop_message(motetComm_t comm, struct motet_transfer *message, motetResult_t result)
{
    MOTET_PROBE_CALL_END(comm->id, comm->rank, message->number, message->name, (int)result);
    if (__builtin_expect(message->profile != NULL, 0))
        motet_profile_end_message(message, result);
}

/* A step of a lane of run->profile begins, and is complete. */
void motet_profile_start_step(const struct motet_run *run, const struct motet_lane *lane, int step, uint64_t now_ns);
void motet_profile_stop_step(const struct motet_run *run, const struct motet_lane *lane, int step, size_t bytes, uint64_t now_ns);

#endif
