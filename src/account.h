/* SPDX-License-Identifier: Apache-2.0
 * Adding up: what one communicator of one rank contributes to the rank's account, comparing calls among the ranks of a host, and what
 * the thread that calls was doing. No lists, no locks: ledger.c has them. */
#ifndef MOTET_ACCOUNT_H
#define MOTET_ACCOUNT_H

#include "comm.h"
#include "tally.h"

/* Adds the counters of a communicator to *account. rank_of[position]: rank in the job, -1 unknown; NULL: unknown for all. */
void motet_account_add(struct motet_account *account, motetComm_t comm, const int *rank_of);

/* Adds what a tally alone tells, also that of another rank: times, waits, bytes by transport. */
void motet_account_add_tally(struct motet_account *account, const struct motet_tally *tally);

/* Compares the timed calls after `from` among the ranks of this host; for the host's first rank, others do nothing. Returns where to go on. */
uint64_t motet_account_compare(motetComm_t comm, uint64_t from);

/* Looks what the thread that makes the calls has been doing. */
void motet_account_look_at_thread(motetComm_t comm, uint64_t now_ns);

/* Writes, and reads, an account that others read while it changes. The reader gets false when it was never written. */
void motet_account_write(struct motet_account_page *page, const struct motet_account *account);
bool motet_account_read(const struct motet_account_page *page, struct motet_account *account);

/* What the host's first rank counted of the rank at `position` of this communicator. */
struct motet_candidate motet_account_candidate(motetComm_t comm, int position);

/* Why the rank at `position`, of this host, is late. */
motetLateCause_t motet_account_cause(motetComm_t comm, int position);

/* Of this rank's waiting in compared calls, the share that was for ranks of the host which had not called yet. */
double motet_account_late_share(motetComm_t comm);

#endif
