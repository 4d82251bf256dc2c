/* SPDX-License-Identifier: Apache-2.0
 * A schedule told round by round: which messages go, and what each position has of each chunk afterwards. Taken from the verifier's
 * execution, so it shows what was proved. A round here is one link of a chain of messages of which each needs the one before, not a round
 * of the schedule, in which many such links may lie. */
#ifndef MOTET_PLAYBACK_H
#define MOTET_PLAYBACK_H

#include "cost.h"

#define MOTET_PLAYBACK_RANKS 64 /* a set of positions is one word */

struct motet_playback_message {
    int32_t from, to, round, chunk, chunks;
    bool sum; /* an accumulator, or a sum that was finished */
    double bytes, sent_ns, arrived_ns;
};

/* A value that a position had in hand or stored. */
struct motet_playback_value {
    int32_t position, round, chunk, origin; /* origin: of which chunk of the inputs */
    bool is_result;                         /* it was stored in the receive buffer */
    uint64_t inputs;                        /* whose */
};

struct motet_playback {
    int nranks, nchunks, nrounds;
    struct motet_playback_message *messages; /* by round, sender, receiver */
    int nmessages;
    struct motet_playback_value *values; /* by position, then round */
    int nvalues;
    int first_value[MOTET_PLAYBACK_RANKS + 1];
};

/* The longest chain of messages of all schedules, which are expanded; 0 where there are none. False: out of memory, or they do not match. */
bool motet_playback_rounds(const struct motet_schedule *schedules, int nranks, int *rounds);

/* Up to MOTET_PLAYBACK_RANKS positions; times are those of the first tile. */
motetResult_t motet_playback_make(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                  const struct motet_cost_world *world, const struct motet_cost_load *load,
                                  struct motet_playback **playback);
void motet_playback_free(struct motet_playback *playback);

/* The value nearest to the result that `position` has of `chunk` after `round`; NULL: none. */
const struct motet_playback_value *motet_playback_find(const struct motet_playback *playback, int round, int position, int chunk);

#endif
