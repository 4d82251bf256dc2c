/* SPDX-License-Identifier: Apache-2.0
 * The number of a collective, its record, and the word by which peers see that they call the same: what every call takes first. */
#ifndef MOTET_TICKET_H
#define MOTET_TICKET_H

#include "engine.h"
#include "recorder.h"

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

/* The numbers' low part wraps: what was seen of ranks that this one has not needed since may be so old that it would compare as new. Looks
 * at it anew. */
void motet_ticket_refresh_done(motetComm_t comm);

/* Takes the next number of the communicator, mixes the fingerprint into its history, writes the record. The fingerprint is mixed well
 * already: one odd factor carries every difference, and the order of calls, into the upper half. */
static inline struct motet_ticket motet_ticket_take(motetComm_t comm, const struct motet_record *record, uint64_t fingerprint)
{
    struct motet_ticket ticket = {.seq = comm->seq + 1};
    __atomic_store_n(&comm->seq, ticket.seq, __ATOMIC_RELAXED); /* audits of other threads read it */
    if (__builtin_expect((uint32_t)ticket.seq == 0, 0))
        motet_ticket_refresh_done(comm);
    uint64_t mixed = (comm->history ^ fingerprint) * 0x9e3779b97f4a7c15ull;
    comm->history = (uint32_t)(mixed >> 32);
    ticket.call_word = (mixed & ~0xffffffffull) | (uint32_t)ticket.seq;
    ticket.record = motet_record_call(comm, record, comm->history);
    return ticket;
}

/* The line that NCCL prints of each call. */
void motet_ticket_say(motetComm_t comm, uint64_t seq, const struct motet_call *call, const struct motet_algorithm *algorithm);

#endif
