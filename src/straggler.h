/* SPDX-License-Identifier: Apache-2.0
 * Who keeps the others waiting. Inside a host the times at which ranks began the same timed calls are compared: whoever came last made
 * each other rank wait, at most from the last but one on. Where one rank was longer in its own program than all others, that decides: a
 * rank that was made to wait is woken late, and comes last through no fault of its own. Between hosts there is no common clock: there the waits themselves are
 * compared. Who is late waits for nobody; behind a slow link both sides wait. */
#ifndef MOTET_STRAGGLER_H
#define MOTET_STRAGGLER_H

#include <stdbool.h>

#include "tally.h"

/* The times of one call on one rank. */
struct motet_arrival {
    uint64_t begin_ns, wait_ns;
    uint64_t away_ns; /* in the program since the collective before; UINT64_MAX: unknown */
};

/* Adds one call of n ranks of a host, made by all of them, to late[0..n) and the tally. */
void motet_straggler_compare(struct motet_tally *tally, struct motet_late *late, const struct motet_arrival *arrivals, int n,
                             uint64_t weight);

struct motet_straggler {
    int rank; /* -1: nobody stands out */
    motetLateCause_t cause;
    uint64_t compared;
    double share, saved;
    uint64_t p50_ns, p99_ns;
};

/* What is known of one rank of a job. */
struct motet_standing {
    const struct motet_account *account; /* NULL: unknown */
    int host;                            /* ranks with the same number share one */
};

/* The rank of a job that stands out; rank -1 if none does. */
struct motet_straggler motet_straggler_find(const struct motet_standing *standings, int nranks);

/* Whether one rank of nlocal stands out in what their host's first rank counted of it, and how. The cause is left to the caller. */
bool motet_straggler_stands_out(const struct motet_candidate *candidate, int nlocal, struct motet_straggler *out);

/* Why a rank is late that is not behind a slow link: what its thread did in `seen_ns`; slept_ns: of it, asleep inside the library. */
motetLateCause_t motet_straggler_cause(uint64_t seen_ns, uint64_t ran_ns, uint64_t delayed_ns, uint64_t slept_ns);

/* "computing", "not running", "sleeping", "slow link", "unknown". */
const char *motet_straggler_cause_name(motetLateCause_t cause);

#endif
