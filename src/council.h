/* SPDX-License-Identifier: Apache-2.0
 * A council: some ranks of a communicator agree on something by exchanging small blobs over the control connections. It needs nothing of the
 * communicator but its endpoints, so it works when a collective has failed and the ranks no longer agree on what was called. Every wait in
 * it ends: by the blob, by word that a member gave up, by a member's death or departure, by abort, or at the deadline. */
#ifndef MOTET_COUNCIL_H
#define MOTET_COUNCIL_H

#include "comm.h"

#define MOTET_COUNCIL_BLOB_MAX 2048

struct motet_council {
    motetComm_t comm;
    const char *what;   /* "CommShrink", for sentences */
    const bool *member; /* by rank of comm: who takes part, this rank included; the caller's */
    uint64_t subject;   /* not 0: members meet under this number, councils of other subjects beside it, and nobody else is told */
    uint64_t deadline_ns;
    const char *limit_from;      /* who set that limit */
    const _Atomic(_Bool) *abort; /* of the communicator being made */
    /* Private to council.c. */
    uint32_t session, round;
    uint64_t since_ns, warn_ns;
    uint64_t gone_ns, refused_ns; /* patience with a member that has left, or that does not count this rank in, ends; 0: none has */
    bool told;                    /* that this rank failed. Also after another's word: its members need not be the same */
};

/* Begins a council: ranks that are no members are told so, and find out if they come to one. The caller is inside the communicator and no
 * lock is held. */
void motet_council_open(struct motet_council *council);

/* All-gather among the members: blob of rank r at all + r * len; places of others are left alone. len is the same on all members and at
 * most MOTET_COUNCIL_BLOB_MAX. The sentence of a failure names the rank to blame. */
motetResult_t motet_council_gather(struct motet_council *council, const void *mine, void *all, size_t len);

/* Says that this rank failed for the reason in motet_error_text(): members that wait in this council get the same error. Harmless after a
 * failed gather, which has done so already. */
void motet_council_give_up(struct motet_council *council, motetResult_t code);

/* ---- Called by the others ---- */

/* A message for a council of `comm` has come. Its lock is held (handlers). */
void motet_council_receive(motetComm_t comm, const void *bytes, size_t len);

/* This rank is about to close `comm`: members behind streams that wait for it in a council hear it. */
void motet_council_leave(motetComm_t comm);

/* Frees messages that nobody read. */
void motet_council_free(motetComm_t comm);

#endif
