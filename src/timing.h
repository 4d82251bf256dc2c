/* SPDX-License-Identifier: Apache-2.0
 * Where the time of calls goes, without a clock in most of them. All ranks time the same calls: every call of 256 KB and more, one of 16
 * from 16 KB on, one of 64 below, drawn from the call's number. In a timed call the clock is read when it begins, ends, starts to stall
 * and moves again; in one of eight of those also around reductions. Its times count as often as calls of its size are left out.
 *
 * Long waits are not drawn: when a wait leaves the spin phase it takes the clock anyway, and from there on it counts exactly, once
 * (wait.c); in timed calls that part is left out of what is multiplied. So a rank that is seconds late once is counted once.
 *
 * Waiting is: nothing of the operation could be done in this process. Reducing is time in reduction kernels. Moving is the rest. */
#ifndef MOTET_TIMING_H
#define MOTET_TIMING_H

#include "comm.h"
#include "tally.h"

#define MOTET_TIMED_ALWAYS (256 * 1024)
#define MOTET_TIMED_OFTEN  (16 * 1024)

/* One operation, as far as it is timed. Zero: it is not. */
struct motet_timing {
    uint64_t begin_ns;            /* 0: not timed */
    uint64_t away_ns;             /* as in struct motet_sample */
    uint64_t stalled_ns, look_ns; /* nothing moves since; this look began */
    uint64_t wait_ns, long_ns;    /* stalled so far; the part of it that wait.c counts */
    uint64_t long_before_ns;      /* what wait.c had counted when the stall began */
    uint64_t reduce_ns;
    uint32_t weight; /* calls that this one stands for */
    bool split;      /* reductions are timed too */
    int32_t missing; /* position that the stall was for; -1 */
};

/* Bytes that a schedule moves by transport, for each byte of payload; counted by payload, worked out when somebody reads. */
struct motet_moved {
    _Atomic uint64_t payload, wide_payload;
    double sent[MOTET_STATS_TRANSPORTS][2], received[MOTET_STATS_TRANSPORTS][2]; /* [wide] */
    struct motet_moved *next;
};

/* ---- An operation ---- */

/* Out of line: draws. */
void motet_timing_start(struct motet_timing *timing, motetComm_t comm, uint64_t draw, size_t bytes);

/* Fibonacci hashing: no pattern of calls falls in step with it. */
static inline uint64_t motet_timing_draw(uint64_t seq)
{
    return seq * 0x9e3779b97f4a7c15ull;
}

/* The operation of that number begins; bytes: what all ranks know of its size. About 1 ns where it is not timed. */
static inline void motet_timing_begin(struct motet_timing *timing, motetComm_t comm, uint64_t seq, size_t bytes)
{
    uint64_t draw = motet_timing_draw(seq);
    uint64_t limit = bytes >= MOTET_TIMED_ALWAYS ? UINT64_MAX : bytes >= MOTET_TIMED_OFTEN ? UINT64_MAX / 16 : UINT64_MAX / 64;
    if (__builtin_expect(draw <= limit, 0))
        motet_timing_start(timing, comm, draw, bytes);
}

void motet_timing_note_look(struct motet_timing *timing, int missing);
void motet_timing_note_seen(struct motet_timing *timing, motetComm_t comm, bool moved);
void motet_timing_note_end(struct motet_timing *timing, motetComm_t comm, uint64_t sample_seq);

/* Before and after each look at what can be done. `missing`: the position that the last look found missing, -1. */
static inline void motet_timing_look(struct motet_timing *timing, int missing)
{
    if (__builtin_expect(timing->begin_ns != 0, 0))
        motet_timing_note_look(timing, missing);
}
static inline void motet_timing_seen(struct motet_timing *timing, motetComm_t comm, bool moved)
{
    if (__builtin_expect(timing->begin_ns != 0, 0))
        motet_timing_note_seen(timing, comm, moved);
}

/* Around a reduction. */
uint64_t motet_timing_now(void);
static inline uint64_t motet_timing_reduces(const struct motet_timing *timing)
{
    return __builtin_expect(timing->split, 0) ? motet_timing_now() : 0;
}
static inline void motet_timing_reduced(struct motet_timing *timing, uint64_t began_ns)
{
    if (__builtin_expect(began_ns != 0, 0))
        timing->reduce_ns += motet_timing_now() - began_ns;
}

/* It is complete. A collective's number makes its times comparable; 0: none. */
static inline void motet_timing_end(struct motet_timing *timing, motetComm_t comm, uint64_t seq)
{
    if (__builtin_expect(timing->begin_ns != 0, 0))
        motet_timing_note_end(timing, comm, seq);
}

/* ---- A communicator ---- */

static inline struct motet_tally *motet_timing_tally(motetComm_t comm)
{
    return (struct motet_tally *)(comm->region + comm->layout.tally);
}

/* Counts the bytes of plans made by this schedule. NULL: out of memory, then they are not counted. */
struct motet_moved *motet_timing_plan(motetComm_t comm, const struct motet_plan *plan);

void motet_timing_note_left(motetComm_t comm);

/* A collective of `payload` bytes is complete; wide: times as large as accumulators are, where partial sums travel. */
static inline void motet_timing_count(motetComm_t comm, unsigned kind, struct motet_moved *moved, uint64_t payload, uint64_t wide)
{
    motet_tally_count(motet_timing_tally(comm), kind, payload);
    if (__builtin_expect(motet_timing_draw(comm->seq + 1) <= UINT64_MAX / 64, 0))
        motet_timing_note_left(comm); /* the next one is timed, whatever its size */
    if (__builtin_expect(moved != NULL, 1)) {
        motet_tally_add(&moved->payload, payload);
        motet_tally_add(&moved->wide_payload, payload * wide);
    }
}

/* A message is complete. transport: index, see motet_timing_transport. */
void motet_timing_count_message(motetComm_t comm, bool is_send, int peer, uint64_t bytes);

/* Index of motetCommStats_t's transports. */
static inline int motet_timing_transport(const struct motet_peer *peer)
{
    return peer->same_process ? motetStatsThreads : peer->mapped ? motetStatsShm : motetStatsNet;
}

/* Brings `sent` and `received` of the tally up to date. Any thread, one at a time. */
void motet_timing_work_out(motetComm_t comm);

/* Frees what plans were counted in. */
void motet_timing_free(motetComm_t comm);

/* ---- Waits that last (wait.c) ---- */

void motet_timing_long_begin(motetComm_t comm, uint64_t now_ns);
/* `rank` is the last one that was missing, -1: unknown. */
void motet_timing_long_end(motetComm_t comm, uint64_t now_ns, int rank);

/* The calling thread runs streams: what it drives is not the callers' time. */
void motet_timing_on_stream(void);
bool motet_timing_is_on_stream(void);

#endif
