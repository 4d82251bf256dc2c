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

/* Hash of the counts by rank that all know; 0 where there are none. */
uint32_t motet_ticket_counts(const struct motet_call *call, int nranks);

/* What all ranks must agree on, in one word: collective, counts, datatype, operation, root, size of the group. */
uint64_t motet_ticket_fingerprint(const struct motet_call *call, int nranks);

/* The record of the call as it starts: all but its number, history, times, and (v-variants) the hash of its counts. */
struct motet_record motet_ticket_record(const struct motet_call *call);

/* Takes the next number of the communicator, mixes the fingerprint into its history, writes the record. */
struct motet_ticket motet_ticket_take(motetComm_t comm, const struct motet_record *record, uint64_t fingerprint);

#endif
