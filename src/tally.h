/* SPDX-License-Identifier: Apache-2.0
 * The counters of one rank in one communicator, in its region so that peers and other processes can read them. Only the owner writes:
 * plain (relaxed) loads and stores, so that a call pays two additions to a line of its own. Who reads them while they change sees each
 * word whole and the words a moment apart. What the words mean for people is in docs/report.md; how times are taken in timing.h. */
#ifndef MOTET_TALLY_H
#define MOTET_TALLY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"

#define MOTET_TALLY_KINDS   MOTET_STATS_OPERATIONS /* collectives by number, then Send and Recv */
#define MOTET_TALLY_CLASSES MOTET_STATS_CLASSES
#define MOTET_SAMPLES       256 /* calls whose times ranks can compare; a power of two */
#define MOTET_LAG_BUCKETS   48  /* two per doubling, from 128 ns to 2 s */

enum motet_tally_kind { MOTET_TALLY_SEND = MOTET_TALLY_KINDS - 2, MOTET_TALLY_RECV };

struct motet_tally_cell {
    _Atomic uint64_t calls, bytes;
};

/* Where the time of operations went. `brief` times are estimated: of every k-th call, times k. `long_wait_ns` is exact: waits that left the
 * spin phase, from then on. The time of an operation is brief_ns + long_wait_ns, its waiting brief_wait_ns + long_wait_ns. */
struct motet_tally_times {
    _Atomic uint64_t brief_ns, brief_wait_ns, long_wait_ns, reduce_ns, long_waits;
};

enum motet_tally_driver { MOTET_TALLY_CALLER, MOTET_TALLY_STREAM, MOTET_TALLY_DRIVERS };

/* One timed collective. All ranks time the same calls, so the k-th sample of one belongs to the k-th of another. */
struct motet_sample {
    _Atomic uint64_t seq; /* written last: number of the call + 1; 0: empty or being written */
    _Atomic uint64_t begin_ns, end_ns, wait_ns, weight;
    _Atomic uint64_t away_ns; /* since this rank left the collective before; UINT64_MAX: unknown */
};

struct motet_tally {
    struct motet_tally_cell cells[MOTET_TALLY_KINDS][MOTET_TALLY_CLASSES];
    struct motet_tally_times times[MOTET_TALLY_DRIVERS];
    _Atomic uint64_t sent[MOTET_STATS_TRANSPORTS], received[MOTET_STATS_TRANSPORTS]; /* of messages; collectives' shares are added
                                                                                        about ten times a second */
    _Atomic uint64_t compared;           /* the host's first rank: samples that it compared among the ranks of the host */
    _Atomic uint64_t decided;            /* of them: some rank came last and was waited for */
    _Atomic uint64_t compared_ns;        /* waiting of all those ranks in them */
    _Atomic int32_t thread;              /* kernel's number of the thread that made the last timed call */
    _Atomic uint64_t begun_ns;           /* counting began */
    _Atomic uint64_t seen_ns;            /* until when the next two reach */
    _Atomic uint64_t ran_ns, delayed_ns; /* that thread ran; was ready to run and had no CPU */
    _Alignas(64) _Atomic uint64_t samples_written;
    struct motet_sample samples[MOTET_SAMPLES];
};

/* By position, behind the tally: how others made this rank, or this host, wait. */
struct motet_late {
    _Atomic uint64_t wait_ns;      /* this rank waited while that one was the last it found missing */
    _Atomic uint64_t last;         /* the host's first rank only: compared calls in which that rank came last and was waited for */
    _Atomic uint64_t saved_ns;     /* waiting of all others that its being in time would have saved */
    _Atomic uint64_t late_wait_ns; /* of that rank's own waiting: for ranks of the host that had not called yet */
    _Atomic uint64_t wait_all_ns;  /* all of that rank's waiting in the compared calls */
    _Atomic uint32_t lag[MOTET_LAG_BUCKETS];
};

/* ---- The account of a rank: all its communicators together ---- */

#define MOTET_ACCOUNT_WAITS      16
#define MOTET_ACCOUNT_CANDIDATES 4

/* A rank of the host as its first rank saw it. */
struct motet_candidate {
    uint64_t compared, decided, last, saved_ns, compared_ns; /* as in struct motet_late and motet_tally */
    int64_t rank;                                            /* in the job; -1: none */
    uint32_t lag[MOTET_LAG_BUCKETS];
};

struct motet_account {
    uint64_t known, final; /* 0 or 1. final: nothing more will come */
    int64_t rank;          /* in the job */
    uint64_t wall_ns;      /* since the first communicator was made */
    uint64_t time_ns, stream_ns, wait_ns, wait_late_ns, reduce_ns, blocked_ns, long_waits;
    uint64_t calls[MOTET_TALLY_KINDS][MOTET_TALLY_CLASSES], bytes[MOTET_TALLY_KINDS][MOTET_TALLY_CLASSES];
    uint64_t sent[MOTET_STATS_TRANSPORTS], received[MOTET_STATS_TRANSPORTS];
    uint64_t ran_ns, delayed_ns, seen_ns; /* of the thread that calls, in so much time */
    uint64_t steps, step_ns, step_exposed_ns, step_longest_ns;
    uint64_t communicators, memory_bytes; /* alive, and theirs */
    struct {
        int64_t rank; /* in the job, of other hosts; -1: none */
        uint64_t ns;
    } waits[MOTET_ACCOUNT_WAITS], links[MOTET_ACCOUNT_WAITS]; /* waited for that rank; the network was at work on bytes to it */
    struct motet_candidate candidates[MOTET_ACCOUNT_CANDIDATES];
    uint32_t step_lengths[MOTET_LAG_BUCKETS];
};

_Static_assert(sizeof(struct motet_account) % 8 == 0 && sizeof(struct motet_account) < 4000, "fits in a control message");

/* In the region of the job's communicator, behind the late ranks. Written by one thread at a time. */
struct motet_account_page {
    _Atomic uint64_t version; /* odd: being written */
    struct motet_account account;
};

static inline size_t motet_tally_size(int nranks)
{
    return sizeof(struct motet_tally) + (size_t)nranks * sizeof(struct motet_late) + sizeof(struct motet_account_page);
}

static inline struct motet_late *motet_tally_late(struct motet_tally *tally)
{
    return (struct motet_late *)(tally + 1);
}

static inline struct motet_account_page *motet_tally_account(struct motet_tally *tally, int nranks)
{
    return (struct motet_account_page *)(motet_tally_late(tally) + nranks);
}

/* One writer: no read-modify-write is needed. relaxed: the words order nothing. */
static inline void motet_tally_add(_Atomic uint64_t *word, uint64_t more)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + more, memory_order_relaxed);
}

static inline uint64_t motet_tally_read(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Up to 64 bytes, 1 KB, 16 KB, 256 KB, 4 MB, 64 MB, 1 GB, and more. */
static inline unsigned motet_tally_class(uint64_t bytes)
{
    unsigned bits = bytes <= 64 ? 6 : 64 - (unsigned)__builtin_clzll(bytes - 1); /* the least with bytes <= 1 << bits */
    unsigned class = (bits - 6 + 3) / 4;
    return class < MOTET_TALLY_CLASSES ? class : MOTET_TALLY_CLASSES - 1;
}

static inline void motet_tally_count(struct motet_tally *tally, unsigned kind, uint64_t bytes)
{
    struct motet_tally_cell *cell = &tally->cells[kind][motet_tally_class(bytes)];
    motet_tally_add(&cell->calls, 1);
    motet_tally_add(&cell->bytes, bytes);
}

#define MOTET_USUAL_NS 100000 /* twice the spin phase of a wait */

/* What `ns` of a call that stands for `weight` ones count. Only what calls of its size usually take stands for others: a thread that loses
 * its CPU in the middle of a spin would else be counted many times over. */
static inline uint64_t motet_tally_weigh(uint64_t weight, uint64_t ns)
{
    uint64_t usual = weight == 1 || ns < MOTET_USUAL_NS ? ns : MOTET_USUAL_NS;
    return usual * weight + (ns - usual);
}

/* Two buckets per doubling; the least time of bucket i is (2 + i % 2) << (6 + i / 2). */
static inline unsigned motet_lag_bucket(uint64_t ns)
{
    if (ns < 128)
        return 0;
    unsigned bits = 63 - (unsigned)__builtin_clzll(ns), bucket = 2 * (bits - 7) + (unsigned)(ns >> (bits - 1) & 1);
    return bucket < MOTET_LAG_BUCKETS ? bucket : MOTET_LAG_BUCKETS - 1;
}

static inline uint64_t motet_lag_least_ns(unsigned bucket)
{
    return (uint64_t)(2 + bucket % 2) << (6 + bucket / 2);
}

#endif
