/* SPDX-License-Identifier: Apache-2.0
 * Ranks that all wait in Send for each other: nobody will ever receive. Found by looking twice at the same state. */
#ifndef MOTET_P2P_CYCLE_H
#define MOTET_P2P_CYCLE_H

#include "p2p.h"

/* The batch's send `blocked` finds no room, and nothing else of it moves: shows that after a while, and looks whether it is in a cycle;
 * then that is the communicator's error. */
motetResult_t motet_cycle_look(struct motet_batch *batch, const struct motet_transfer *blocked);

/* The batch does not wait in Send, or no longer: takes back what it showed. Returns whether all know. */
bool motet_cycle_unblock(struct motet_batch *batch);

/* How many streams there are in this process. */
void motet_cycle_note_streams(int n);

/* Whether what another stream of this process may call ends the waiting of a send: then a cycle is not for ever. */
bool motet_cycle_may_be_broken(const struct motetComm *comm);

#endif
