/* SPDX-License-Identifier: Apache-2.0
 * A stream transport inside one process, for tests: short sends and receives, delays and breakage, all drawn from a seed, so that a
 * failure repeats. Not in the table: nothing reaches a peer with it by itself. */
#ifndef MOTET_TRANSPORT_SIM_H
#define MOTET_TRANSPORT_SIM_H

#include "transport/transport.h"

struct motet_sim_options {
    size_t capacity;        /* bytes in flight per direction and lane; 0: 64 KB */
    size_t longest;         /* longest send or receive; 0: no limit. Each is cut to a random length up to it */
    unsigned stall_percent; /* how often a send or receive does nothing this time */
    uint64_t break_after;   /* the connection breaks after this many bytes in both directions together; 0: never */
    int nlanes;             /* 0: 1 */
};

extern const struct motet_transport motet_sim_transport;

/* Two ends of one connection. options may be NULL. Each is closed by the transport's close. */
motetResult_t motet_sim_channel_pair(uint64_t seed, const struct motet_sim_options *options, struct motet_channel **a,
                                     struct motet_channel **b);

/* Breaks the connection now, as a reset would. */
void motet_sim_break(struct motet_channel *channel);

/* Bytes that have entered or left the streams so far, of both ends together: each byte that arrived counts twice. */
uint64_t motet_sim_moved(const struct motet_channel *channel);

#endif
