/* SPDX-License-Identifier: Apache-2.0
 * The short way for small messages. A plan of one round in which this rank first sends from its input and then only receives into its
 * output (one-shot, direct, gather, scatter, barrier) needs no lanes in flight, no pieces and no state per step: its steps are done one
 * after another, as a loop, in the caller's thread. The loop is made from the plan, so there is no second description of an algorithm,
 * and it reads and writes the same slots and done words as the engine: a rank on the short way meets ranks on the long one. It knows
 * nothing of deaths, deadlines and faults: a wait that lasts is handed to the engine, with what was done so far. */
#ifndef MOTET_FLAT_H
#define MOTET_FLAT_H

#include "engine.h"
#include "ticket.h"

struct motet_flat; /* one kind of call, made ready */

/* How far a call came. */
struct motet_flat_state {
    struct motet_ticket ticket;
    int steps_done; /* of the plan, in order */
    bool begun;     /* the lane is this call's */
};

/* The short way of a call, NULL where there is none. One load and compare for a call like an earlier one. */
const struct motet_flat *motet_flat_find(motetComm_t comm, const struct motet_call *call);

/* Remembers that calls like this one run `plan`, if it is flat on this communicator and their messages are small. */
void motet_flat_learn(motetComm_t comm, const struct motet_call *call, const struct motet_reduction *reduction,
                      const struct motet_plan *plan);

/* Runs the call. motetInProgress: a peer is late, or calls something else; the engine goes on from `state` (motet_engine_run does). */
motetResult_t motet_flat_run(const struct motet_flat *flat, motetComm_t comm, const struct motet_call *call, struct motet_wait *wait,
                             struct motet_flat_state *state);

/* Frees what was learnt. */
void motet_flat_free(motetComm_t comm);

#endif
