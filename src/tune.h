/* SPDX-License-Identifier: Apache-2.0
 * Which algorithm runs a call: the cheapest eligible row by the cost model, or what MOTET_ALGO and MOTET_PROTO say. The answer depends only
 * on what every rank knows, so all ranks choose alike; it is cached per kind of call and size class. */
#ifndef MOTET_TUNE_H
#define MOTET_TUNE_H

#include "coll/coll.h"
#include "motet.h"
#include "preference.h"

#define MOTET_TUNE_SIZES 64 /* that motet_tune_choose_sizes takes at once */

struct motet_tuner;
struct motet_cost_machine;
struct motet_tuning; /* tuning.h */

/* What all ranks know of a call. */
struct motet_tune_request {
    enum motet_collective collective;
    enum motet_counts counts;
    motetDataType_t dtype;
    motetRedOp_t op; /* built-in; ignored where nothing is reduced */
    size_t
        bytes; /* total of the larger side: count x size for one-block collectives, the sum of all blocks otherwise; 0 where only pairs
                        know (PAIR_KNOWS), and for barriers */
    int root; /* position */
};

/* What all ranks know of a communicator. */
struct motet_tune_world {
    int nranks, nhosts;
    const int *host_first; /* copied */
    int ncpus;         /* of the host with the fewest CPUs per rank: waiting costs a context switch when its ranks outnumber them */
    int local_ranks;   /* ranks on that host */
    bool same_process; /* all ranks are threads of one process */
    bool rotated;      /* positions differ from ranks: no row is canonical */
    size_t lane_bytes; /* tiles are at most this long */
    const struct motet_cost_machine *machine; /* what things cost; copied. NULL: motet_cost_default */
    const int *network_host;           /* of a position as links see it; lives as long as the tuner. NULL: as host_first says */
    const char *algorithms;            /* instead of MOTET_ALGO; NULL: MOTET_ALGO */
    uint64_t machines;                 /* identity of the kinds of machines; 0: unknown, no table is for them */
    const struct motet_tuning *tuning; /* measured times; lives as long as the tuner. NULL: none */
};

/* Reads MOTET_ALGO, MOTET_PROTO and MOTET_DETERMINISTIC. A named algorithm that a named collective lacks is an error that lists what it has. */
motetResult_t motet_tuner_create(const struct motet_tune_world *world, struct motet_tuner **tuner);
void motet_tuner_free(struct motet_tuner *tuner);

/* CPUs that local_ranks share, 0 where each has one: what tells crowded worlds apart. */
static inline int motet_tune_crowded_cpus(const struct motet_tune_world *world)
{
    return world->ncpus > 0 && world->ncpus < world->local_ranks ? world->ncpus : 0;
}

/* What it was made for. Lives as long as the tuner. */
const struct motet_tune_world *motet_tuner_world(const struct motet_tuner *tuner);

/* The row that runs this call. An error (nothing eligible) names the collective, the shape and the settings that excluded the rows. */
motetResult_t motet_tune_choose(struct motet_tuner *tuner, const struct motet_tune_request *request,
                                const struct motet_algorithm **algorithm);

/* The same for several sizes at once, which share the schedules: choices[k] is for bytes[k], at most MOTET_TUNE_SIZES of them;
 * request->bytes is ignored, nothing is remembered. */
motetResult_t motet_tune_choose_sizes(struct motet_tuner *tuner, const struct motet_tune_request *request, const size_t *bytes,
                                      int nsizes, const struct motet_algorithm **choices);

/* How payload of this collective may travel: a set of enum motet_protocol that always has SIMPLE. */
unsigned motet_tune_protocols(const struct motet_tuner *tuner, enum motet_collective collective);

/* A row as the choice sees it. */
struct motet_tune_candidate {
    const struct motet_algorithm *algorithm;
    const char *excluded_by; /* a phrase; NULL: it may run the call */
    double time_ns;          /* predicted or measured; 0 if it is excluded */
    bool is_measured;        /* time_ns comes from the table */
};

/* All rows of the collective, in table order; at most `room` of them. *ncandidates: how many there are. */
motetResult_t motet_tune_candidates(struct motet_tuner *tuner, const struct motet_tune_request *request,
                                    struct motet_tune_candidate *candidates, int room, int *ncandidates);

/* Whether the row adds along the canonical tree over positions on this shape; false where that is not known. Declared for one host and
 * proved by the verifier. On several hosts it holds if the row does not look at them; else, for up to 64 hosts that are subtrees (equal
 * sizes, a power of two), the verifier is asked. */
motetResult_t motet_tune_is_canonical(const struct motet_algorithm *algorithm, const struct motet_shape *shape, bool *answer);

#endif
