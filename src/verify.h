/* SPDX-License-Identifier: Apache-2.0
 * Proves a schedule right for every count, datatype, timing and mix of in-place and out-of-place ranks, or says in one sentence what is
 * wrong. Works on symbols: the value of a place is the tree of inputs that were combined there. See verify.c for the argument.
 *
 * Conventions that it fixes. Block b belongs to position b. INPUT and OUTPUT exist where the collective gives them a meaning only:
 *   AllReduce      INPUT everywhere                    OUTPUT everywhere              in place: all of it
 *   Reduce         INPUT everywhere                    OUTPUT at the root             in place: all of it
 *   Broadcast      INPUT at the root                   OUTPUT everywhere, root too    in place: all of it
 *   AllGather      INPUT only block `position`         OUTPUT everywhere              in place: block `position`
 *   ReduceScatter  INPUT everywhere                    OUTPUT only block `position`   in place: block `position`
 *   AlltoAll       INPUT everywhere                    OUTPUT everywhere              never in place
 *   Gather         INPUT only block `position`         OUTPUT at the root             in place: the root's block, at the root
 *   Scatter        INPUT at the root                   OUTPUT only block `position`   in place: the root's block, at the root
 *   Barrier        nothing: every rank must hear of every other, by signals */
#ifndef MOTET_VERIFY_H
#define MOTET_VERIFY_H

#include "coll/coll.h"
#include "motet.h"

#define MOTET_VERIFY_ALL_MIXES 5 /* most ranks whose mixes are enumerated */

struct motet_proof;

struct motet_verify_options {
    uint64_t seed;     /* of the interleavings */
    int interleavings; /* random ones beside those that carry the proof, each with a mix of in-place ranks: random, or for few ranks
                           the bits of 0, 1, 2, ... (2^nranks interleavings are every mix) */
    const int *rank_at; /* rank by position (the canonical order is over ranks); NULL: equal */
    /* Sees the state at the end of the first execution, out of place; proof is in verify_proof.h. NULL: nobody watches. */
    void (*watch)(const struct motet_proof *proof, void *context);
    void *context;
};

struct motet_verdict {
    bool ok;
    char text[384];          /* what is wrong: algorithm, ranks, position, step, chunk; "" when ok */
    enum motet_order order;  /* NONE where nothing is reduced */
    int rounds;              /* most rounds of a position */
    int sends;               /* most sends (steps with receivers) of a position */
    int nchunks;             /* of each plane */
    int64_t *chunks_sent;    /* by position; a chunk to two peers counts twice; malloced */
    int64_t *wide_sent;      /* of these, accumulators; same allocation as chunks_sent */
    int64_t chunks_total;    /* sum of chunks_sent */
    bool direct_ok;          /* readers may read every send where it lies in the sender's planes until the end, out of place */
    bool direct_ok_in_place; /* and in place */
    bool unbuffered_ok;      /* no deadlock even if no message leaves before its receiver has reached the round that takes it */
};

/* Builds the schedules of all positions (shape->position is ignored) and proves them. The result is an error only when memory runs out:
 * a wrong schedule is motetSuccess with verdict->ok == false. The verdict must be freed in each case. */
motetResult_t motet_verify(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                           const struct motet_verify_options *options, struct motet_verdict *verdict);

/* The same for schedules that the caller made: nranks of them, expanded in place here. The algorithm gives name, collective and counts. */
motetResult_t motet_verify_schedules(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                     struct motet_schedule *schedules, const struct motet_verify_options *options,
                                     struct motet_verdict *verdict);

void motet_verdict_free(struct motet_verdict *verdict);

/* Whether OUTPUT and INPUT of this chunk are the same memory at `position` when the caller works in place. */
bool motet_chunk_is_shared_in_place(enum motet_collective collective, const struct motet_shape *shape, int position, int block);

#endif
