/* SPDX-License-Identifier: Apache-2.0
 * The counters of all communicators of this process, added up by rank of the job. A job is the first communicator of the process and
 * everything split from it; its rank 0 knows the accounts of all ranks: of those whose memory it maps by looking, of others by
 * messages. The service thread does the work about ten times a second while calls are made, so that calls need not. */
#ifndef MOTET_LEDGER_H
#define MOTET_LEDGER_H

#include "comm.h"
#include "straggler.h"
#include "tally.h"

/* The communicator is complete: counting is looked after from now on. parent: what it was split from, with parent_ranks[rank * stride] the
 * parent's rank of each of its ranks; NULL: neither. Without memory for it nothing is looked after. */
void motet_ledger_open(motetComm_t comm, motetComm_t parent, const int32_t *parent_ranks, size_t stride);

/* The communicator ends in an orderly way: says what this rank counted; rank 0 of a job waits a short time for what the others say, where
 * there is a report to write, and writes it. Before the rank shows that it is finalized. Idempotent. */
void motet_ledger_finish(motetComm_t comm);

/* Takes the communicator off the list. Harmless when it was not on it. */
void motet_ledger_close(motetComm_t comm);

/* An account of another rank came (a control message). */
void motet_ledger_take(motetComm_t comm, const void *bytes, size_t len);

/* A caller was blocked for so long until something on a stream of `comm` was complete; the communicator may be gone by now. */
void motet_ledger_blocked(motetComm_t comm, uint64_t id, uint64_t ns);

/* A step of the program ends on this rank. */
motetResult_t motet_ledger_step(motetComm_t comm);

/* What this rank's communicator counted, with what its host's first rank and, for rank 0 of the job, all ranks know. */
void motet_ledger_stats(motetComm_t comm, motetCommStats_t *stats);

/* The same for the rank whose region it is, if it is of a communicator of this process, and the sentence about the rank that stands out (""
 * if none does). Of other ranks of the host only times and bytes by transport are known. False: the region is of no such communicator. */
bool motet_ledger_look(const char *region, motetCommStats_t *stats, char *sentence, size_t len);

/* Calls look(context, comm) for the communicator of this process whose own region it is; not when there is none. It stays meanwhile. */
void motet_ledger_find(const char *region, void (*look)(void *context, motetComm_t comm), void *context);

/* Number of communicators of this process that are looked after. */
int motet_ledger_count(void);

#endif
