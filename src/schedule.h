/* SPDX-License-Identifier: Apache-2.0
 * A collective algorithm is data: a schedule of steps, built by a small pure function per rank. It holds no pointers, counts or
 * datatypes, so it can be cached, proved (verify), priced (cost), printed and executed (plan, engine) from this one description.
 *
 * One universal step. For each i in [0, n):
 *     value[i] = combine(what every peer of `from` sent as its i-th chunk, and chunk src_at[i] of the local planes src .. src+nsrc-1)
 *     store value[i] in chunk dst_at[i] of plane dst (if any), and send value[] to every peer of `to` as one message.
 * dst_at also names the chunk whose length value[i] has, so it is set even when dst is NONE (then it equals src_at where there is a src).
 * Sends, receives, receive-reduce-forward, copies, multicasts and fused k-input reductions are all this step.
 *
 * Positions. Schedules speak of positions, not ranks: positions order ranks so that each host is contiguous. Blocks of the user's
 * layout are numbered by position too. The communicator translates both; inside one host position == rank.
 *
 * Chunks. chunk = block * parts + part. All planes share the index. An empty chunk (by count) is skipped at both ends.
 *
 * Order of operands. Peers and the local planes (which stand at the own position) are combined in position order, as a balanced tree
 * split at the largest power of two below their number (reduce.h); so the expression is a function of the schedule alone.
 *
 * Rounds. Steps of a round run concurrently and piece by piece. A step reads what earlier rounds wrote. Two writes to one place in a
 * round are forbidden. A place may be written in the round in which earlier-listed steps read it: the write waits for them.
 *
 * Messages. The i-th send of a that includes b meets the i-th receive of b from a; both have the same number of chunks. A step with
 * n == 0 and peers is a signal: an empty message that is really sent (barrier).
 *
 * Wide values. A combination that is stored in a PARTIAL plane or only sent is an accumulator ("wide"). Storing a combination or a wide
 * value in OUTPUT or SCRATCH finishes it (average divides, one rounding), and what such a step sends is the finished value. A single
 * narrow operand is moved as it is. Receivers mark steps whose arriving data is wide with WIDE. Signals carry nothing. */
#ifndef MOTET_SCHEDULE_H
#define MOTET_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum motet_plane {
    MOTET_NONE,
    MOTET_INPUT,                       /* the caller's send buffer; never written */
    MOTET_OUTPUT,                      /* the caller's receive buffer; may be the same memory as INPUT */
    MOTET_SCRATCH,                     /* + k, k < MOTET_PLANES_EACH: private memory of elements */
    MOTET_PARTIAL = MOTET_SCRATCH + 3, /* + k: private memory of accumulators */
    MOTET_NPLANES = MOTET_PARTIAL + 3,
};
#define MOTET_PLANES_EACH 3

/* The i-th chunk is (first + (i / run) * stride + i % run) mod nchunks. run 0 means one run of everything: first + i. */
struct motet_span {
    int32_t first, run, stride;
};

/* Peers first, first + stride, ... (n of them, mod nranks, stride 0 reads as 1) in positions; the own position is skipped. n == 0: nobody. */
struct motet_peers {
    int32_t first, n, stride;
};

enum motet_step_flag {
    MOTET_ENDS_ROUND = 1, /* the next step belongs to the next round */
    MOTET_WIDE = 2,       /* what arrives is in the accumulator type */
};

struct motet_step {
    struct motet_peers from, to;
    struct motet_span dst_at, src_at;
    int32_t n; /* chunks per message */
    int32_t
        each; /* not 0: one step per peer in one row. The i-th peer (own position counts in i and is skipped) gets spans whose `first`
                     is shifted by i * each. Exactly one of from, to may then name peers. */
    uint8_t dst, src, nsrc, flags;
};

struct motet_schedule {
    struct motet_step *steps;
    int32_t nsteps, capacity;
    int32_t nranks, position;
    int32_t nblocks;      /* blocks of the user's layout: 1, or nranks */
    int32_t parts;        /* chunks per block */
    int32_t stage_chunks; /* equal on all ranks: no rank sends more chunks than this (a chunk to several peers counts once) */
    bool out_of_memory;   /* an append failed: the schedule must not be used */
};

/* What a builder may know: nothing of counts, datatypes, pointers. All numbers are positions. */
struct motet_shape {
    int nranks, position, root; /* root 0 for collectives without one */
    int nhosts;
    const int *host_first; /* nhosts + 1 entries: host h holds positions host_first[h] .. host_first[h + 1] - 1 */
};

/* ---- Building. Builders call these; an append that runs out of memory is remembered in out_of_memory. ---- */

/* Empties a schedule for `shape`; keeps its memory. nblocks, parts and stage_chunks are set by the builder. */
void motet_schedule_begin(struct motet_schedule *schedule, const struct motet_shape *shape, int nblocks, int parts);
void motet_schedule_free(struct motet_schedule *schedule);

/* Appends a zeroed step and returns it for the builder to fill. Never NULL. */
struct motet_step *motet_schedule_append(struct motet_schedule *schedule);

/* Common cases, all of n consecutive chunks (mod nchunks) from chunk `at`. */
void motet_send(struct motet_schedule *schedule, enum motet_plane src, int at, int n, int to);
void motet_recv(struct motet_schedule *schedule, enum motet_plane dst, int at, int n, int from);
/* dst = from (+) src at the same chunks; wide: the arriving data is accumulators. */
void motet_recv_reduce(struct motet_schedule *schedule, enum motet_plane dst, enum motet_plane src, int at, int n, int from,
                       bool wide);
void motet_copy_chunks(struct motet_schedule *schedule, enum motet_plane dst, int dst_at, enum motet_plane src, int src_at, int n);

/* Ends the current round, if it has steps. */
void motet_end_round(struct motet_schedule *schedule);

static inline struct motet_peers motet_peer(int position)
{
    return (struct motet_peers){.first = position, .n = 1, .stride = 1};
}

static inline struct motet_peers motet_everybody(int nranks)
{
    return (struct motet_peers){.first = 0, .n = nranks, .stride = 1};
}

/* first, first + 1, ... */
static inline struct motet_span motet_range(int first)
{
    return (struct motet_span){.first = first};
}

/* Mathematical modulo: 0 <= result < m. */
static inline int motet_mod(int a, int m)
{
    int r = a % m;
    return r < 0 ? r + m : r;
}

/* ---- Reading ---- */

static inline int motet_schedule_nchunks(const struct motet_schedule *schedule)
{
    return schedule->nblocks * schedule->parts;
}

/* i-th chunk of a span. */
int motet_span_chunk(struct motet_span span, int i, int nchunks);

/* Number of peers without the own position, and the i-th of those. */
int motet_peers_count(struct motet_peers peers, int position, int nranks);
int motet_peers_at(struct motet_peers peers, int i, int position, int nranks);

/* Replaces every step with `each` by its single steps, so that readers meet each == 0 only; drops steps that name no peer, no destination.
 * In place; sets out_of_memory on failure. */
void motet_schedule_expand(struct motet_schedule *schedule);

/* A step that reaches nobody and stores nothing, or moves no chunk without being a signal: expanding drops it. */
bool motet_step_does_nothing(const struct motet_step *step, int position, int nranks);

/* Facts of a step that follow from the rules above, in one place for every reader (each == 0).  Operands: peers + local planes. */
int motet_step_operands(const struct motet_step *step, int position, int nranks);
bool motet_step_finishes(const struct motet_step *step, int position,
                         int nranks); /* stores a combination or a wide value in OUTPUT/SCRATCH */
bool motet_step_sends_wide(const struct motet_step *step, int position, int nranks);
static inline bool motet_plane_is_wide(int plane)
{
    return plane >= MOTET_PARTIAL;
}

/* Prints the schedule for people, one line a step, grouped by round: what `explain` and failing tests show. */
void motet_schedule_print(FILE *out, const struct motet_schedule *schedule);
const char *motet_plane_name(int plane); /* "in", "out", "scratch0", "partial1", "-" */

#endif
