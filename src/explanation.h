/* SPDX-License-Identifier: Apache-2.0
 * The answer to "what would this collective do and cost": candidates with volume and time, the library's choice, ranges of sizes, and on
 * request messages and holdings of one candidate. Puts together what tune, cost and playback know; knows no algorithm. */
#ifndef MOTET_EXPLANATION_H
#define MOTET_EXPLANATION_H

#include "cost.h"
#include "playback.h"
#include "tune.h"

#define MOTET_EXPLANATION_RANKS        4096
#define MOTET_EXPLANATION_ROUNDS_RANKS 128 /* rounds of more ranks are not counted: all schedules would be held at once */

/* A query, checked: where the ranks are and what is moved. world points into it: it stays where it was made. */
struct motet_explanation_scene {
    enum motet_collective collective;
    struct motet_shape shape; /* host_first belongs to the scene */
    int *network_host;        /* NULL: as in shape */
    int network_hosts;
    struct motet_cost_machine machine;
    struct motet_cost_world world;
    struct motet_cost_load load;
};

/* What all ranks of one candidate move. */
struct motet_explanation_volume {
    double sent_most, received_most, total, host_most, messages, connections;
    int sent_most_rank, received_most_rank, host_most_host, messages_most, rounds, phases, parts;
};

struct motet_explanation_candidate {
    const struct motet_algorithm *algorithm;
    const char *excluded_by;
    bool fits, is_measured;
    double measured_ns; /* from the table, where it has one */
    struct motet_cost_time time;
    struct motet_explanation_volume volume;
    struct motet_playback *playback; /* made when it is asked for */
};

struct motetExplanation {
    struct motet_explanation_scene scene;
    motetDataType_t dtype;
    motetRedOp_t op;
    char *algorithms; /* NULL: MOTET_ALGO */
    struct motet_tuner *tuner;
    struct motet_explanation_candidate *candidates;
    int ncandidates, chosen;
};

/* Checks a query. Errors name the member. real: ranks, hosts and machines of a communicator, which count instead of the query's; NULL:
 * none. */
motetResult_t motet_explanation_scene_make(const motetExplainQuery_t *query, int most_ranks, const struct motet_tune_world *real,
                                           struct motet_explanation_scene *scene);
void motet_explanation_scene_free(struct motet_explanation_scene *scene);

/* What the library would run. */
motetResult_t motet_explanation_pick(const struct motet_explanation_scene *scene, const motetExplainQuery_t *query,
                                     const struct motet_algorithm **algorithm);

motetResult_t motet_explanation_make(const motetExplainQuery_t *query, const struct motet_tune_world *real,
                                     struct motetExplanation **explanation);
void motet_explanation_free(struct motetExplanation *explanation);

/* The candidate that the library would run for so many bytes. */
motetResult_t motet_explanation_choose(struct motetExplanation *explanation, double bytes, int *index);

/* Ranges of sizes with one choice each, from 1 byte to 1 GiB: looked for in steps of four, and then between where the choice changes. */
motetResult_t motet_explanation_ranges(struct motetExplanation *explanation, motetExplainRange_t *ranges, int room, int *n);

/* Builds the schedules of all positions, one after the other, and adds up. */
motetResult_t motet_explanation_measure(const struct motet_explanation_scene *scene, const struct motet_algorithm *algorithm,
                                        struct motet_explanation_volume *volume);

/* Messages and holdings of a candidate that fits. */
motetResult_t motet_explanation_play(struct motetExplanation *explanation, int index, const struct motet_playback **playback);

#endif
