/* SPDX-License-Identifier: Apache-2.0
 * The short way for small messages. A plan of one round in which this rank first sends from its input and then only receives into its
 * output (one-shot, direct, gather, scatter, barrier) needs no lanes in flight, no pieces and no state per step: its steps are done one
 * after another, as a loop, in the caller's thread. The loop is made from the plan, so there is no second description of an algorithm,
 * and it reads and writes the same slots and done words as the engine: a rank on the short way meets ranks on the long one. It knows
 * nothing of deaths, deadlines and faults: a wait that lasts is handed to the engine, with what was done so far. */
#ifndef MOTET_FLAT_H
#define MOTET_FLAT_H

#include "engine.h"
#include "segment.h"
#include "ticket.h"
#include "timing.h"

/* What makes two calls the same, as far as all ranks know. op is the built-in operation, 0 where nothing is reduced. */
struct motet_flat_key {
    size_t count;
    enum motet_collective collective;
    motetDataType_t dtype;
    motetRedOp_t op;
    int root;
};

/* One kind of call, made ready. */
struct motet_flat {
    struct motet_flat_key key;
    const char *name; /* of the public function */
    /* For the API: lengths of the buffers and where send lies in recv in place, known once a call like it has passed all checks. */
    bool checked;
    size_t send_bytes, recv_bytes;
    ptrdiff_t in_place;
    bool is_small;                /* always staged, too little to be worth a thread */
    bool shows_output;            /* what is sent also lies in the receive buffer, where the engine lets peers read it */
    struct motet_flat_loop *loop; /* private to flat.c */
};

#define MOTET_FLATS 64 /* kinds of calls remembered per communicator: a program repeats few. A power of two */

/* One that collides with another takes its place. */
struct motet_flats {
    struct motet_flat at[MOTET_FLATS];
};

/* How far a call came. */
struct motet_flat_state {
    struct motet_ticket ticket;
    struct motet_timing timing;
    int steps_done; /* of the plan, in order */
    bool begun;     /* the lane is this call's */
};

static inline struct motet_flat *motet_flat_place(struct motet_flats *flats, const struct motet_flat_key *key)
{
    uint64_t h = key->count * 0x9e3779b97f4a7c15ull + (uint64_t)key->collective * 0x85ebca6b00000001ull +
                 (uint64_t)key->dtype * 0xc2b2ae3500000000ull + (uint64_t)key->root * 0x27d4eb2f16500000ull + (uint64_t)key->op;
    return &flats->at[(h >> 32 ^ h) & (MOTET_FLATS - 1)];
}

/* The short way of calls with this key, NULL where none is known. */
static inline struct motet_flat *motet_flat_find(motetComm_t comm, const struct motet_flat_key *key)
{
    if (!comm->flats)
        return NULL;
    struct motet_flat *flat = motet_flat_place(comm->flats, key);
    bool same = flat->loop && flat->key.count == key->count && flat->key.collective == key->collective &&
                flat->key.dtype == key->dtype && flat->key.op == key->op && flat->key.root == key->root;
    return same ? flat : NULL;
}

/* Whether it is the way for these buffers: what lies where peers can map it is better read there. */
static inline bool motet_flat_takes(const struct motet_flat *flat, const void *send, const void *recv)
{
    uint64_t offset;
    return __builtin_expect(flat->is_small, 1) || !motet_segment_offset(flat->shows_output ? recv : send, 1, &offset);
}

/* The same for a call; calls with counts by rank, in groups, or that multiply first have none. */
struct motet_flat *motet_flat_of(motetComm_t comm, const struct motet_call *call);

/* Whether a plan can run as a loop, where all peers are mapped and messages small. motet_cost_is_short says the same of schedules. */
bool motet_flat_suits(const struct motet_plan *plan);

/* Remembers that calls like this one run `plan`, if it is flat on this communicator and their messages are small. */
void motet_flat_learn(motetComm_t comm, const struct motet_call *call, const struct motet_reduction *reduction,
                      const struct motet_plan *plan);

/* A call like it has passed all checks: what the API may assume of the next. */
void motet_flat_check(struct motet_flat *flat, const struct motet_call *call);

/* The call that a short way stands for. */
struct motet_call motet_flat_call(const struct motet_flat *flat, const void *send, void *recv);

/* Runs a call. motetInProgress: a peer is late, or calls something else; the engine goes on from `state` (motet_engine_run_flat does). */
motetResult_t motet_flat_run(const struct motet_flat *flat, motetComm_t comm, const void *send, void *recv, struct motet_wait *wait,
                             struct motet_flat_state *state);

/* Frees what was learnt. */
void motet_flat_free(motetComm_t comm);

#endif
