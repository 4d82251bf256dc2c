/* SPDX-License-Identifier: Apache-2.0
 * Waits that can never end although nobody is dead: for a rank that has finished, or that waits in a collective which cannot complete without
 * the rank that waits for it. Found by waits that last; costs nothing before. */
#ifndef MOTET_UNMATCHED_H
#define MOTET_UNMATCHED_H

#include "comm.h"

/* This rank has finished with the communicator: nothing more will come from it. Every other rank can see it, after all that was sent. */
void motet_comm_finish(motetComm_t comm);

/* The rank at `position`, which finished or left in good order, is still needed: says by whom and for what, and faults the communicator. */
motetResult_t motet_comm_finished(motetComm_t comm, int position, const struct motet_waiting *waiting, void *context);

/* A rank with which this one waits to exchange a message, and that waits in a collective which needs this rank. */
struct motet_unmatched {
    int position;
    uint64_t call; /* number of that collective; 0: there is no such rank */
    char text[96]; /* the collective */
};

/* Looks for one. Remote ranks are asked, and known to wait when their answer is there. */
struct motet_unmatched motet_comm_find_unmatched(motetComm_t comm, const struct motet_waiting *waiting, void *context);

/* The same answer came twice with nothing moved between: faults the communicator. */
motetResult_t motet_comm_unmatched(motetComm_t comm, const struct motet_unmatched *found, const struct motet_waiting *waiting,
                                   void *context);

struct motet_standstill; /* circle.h */

/* What a rank of another host said last about its wait; asks it again. False: it has not, or not lately. */
bool motet_comm_wait_answer(motetComm_t comm, int position, struct motet_standstill *still);

/* Question and answer between ranks of different hosts; the service thread's, peers_lock is held. */
void motet_comm_take_question(motetComm_t comm, const void *bytes, size_t len);
void motet_comm_take_answer(motetComm_t comm, const void *bytes, size_t len);

#endif
