/* SPDX-License-Identifier: Apache-2.0
 * The number of a collective, its record, and the word by which peers see that they call the same: what every call takes first. */
#ifndef MOTET_TICKET_H
#define MOTET_TICKET_H

#include "engine.h"

struct motet_ticket {
    uint64_t seq;
    uint64_t call_word; /* {history32, seq32} */
    struct motet_record *record;
};

/* The record of the call as it starts: all but its number, history and times. */
struct motet_record motet_ticket_record(const struct motet_call *call, int nranks);

/* What all ranks must agree on, in one word: collective, counts (their hash from the record), datatype, operation, root, size of the
 * group. */
uint64_t motet_ticket_fingerprint(const struct motet_call *call, uint32_t counts_hash);

/* Takes the next number of the communicator, mixes the fingerprint into its history, writes the record. */
struct motet_ticket motet_ticket_take(motetComm_t comm, const struct motet_record *record, uint64_t fingerprint);

/* The line that NCCL prints of each call. */
void motet_ticket_say(motetComm_t comm, uint64_t seq, const struct motet_call *call, const struct motet_algorithm *algorithm);

#endif
