/* SPDX-License-Identifier: Apache-2.0
 * Ranks that make different calls: found by the history in every slot, and by waits that last, which compare the records of all ranks. The
 * sentence names every side, and all ranks that are on it. What the engine calls of it is in comm.h. */
#ifndef MOTET_MISMATCH_H
#define MOTET_MISMATCH_H

#include "comm.h"

/* Remote ranks answered what differs, but not all of them have answered: after a while faults the communicator by what is known. Cheap. */
motetResult_t motet_comm_audit_end(motetComm_t comm);

/* Question: what did you call as number seq? The answer carries the record. */
struct motet_audit_message {
    uint64_t seq;
    int32_t position; /* of the asker, or the one asked */
    uint32_t known;   /* answer: the record is there */
    uint64_t last;    /* answer: newest collective of the one asked */
    struct motet_record record;
};

/* The service thread's, peers_lock is held. */
void motet_comm_answer_audit(motetComm_t comm, const struct motet_audit_message *question);
void motet_comm_take_audit(motetComm_t comm, const struct motet_audit_message *answer);

/* Frees what was answered. */
void motet_comm_audit_free(motetComm_t comm);

#endif
