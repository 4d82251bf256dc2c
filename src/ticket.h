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

/* What all ranks must agree on, in one word: collective, counts, datatype, operation, root, size of the group. */
uint64_t motet_ticket_fingerprint(const struct motet_call *call, int nranks);

/* Takes the next number of the communicator, mixes the fingerprint into its history, writes the record. */
struct motet_ticket motet_ticket_take(motetComm_t comm, const struct motet_call *call, uint64_t fingerprint);

#endif
