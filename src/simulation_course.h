/* SPDX-License-Identifier: Apache-2.0
 * Schedules as a simulation needs them: who waits for which message, what it costs, who gets it; without chunks and planes, and with peers
 * counted from the own position. Positions whose schedules are the same but for a shift share one course, so that 10,000 positions of a
 * ring, of 20,000 steps each, take the memory of one. One schedule is held at a time.
 *
 * An entry is one step of the schedule, or a row of steps (`each`), of which step i is a step of its own with one peer. Messages between
 * two positions are matched as schedules say: the i-th send that includes the receiver meets its i-th receive from the sender. */
#ifndef MOTET_SIMULATION_COURSE_H
#define MOTET_SIMULATION_COURSE_H

#include "cost.h"

/* Peers first, first + stride, ... of n entries, modulo nranks, counted from the own position; entry `own` (-1: none) is oneself. */
struct motet_course_peers {
    int32_t first, n, stride, own;
};

struct motet_course_entry {
    struct motet_course_peers from, to;
    int32_t count; /* steps: 1, or one for each peer but oneself */
    int32_t round;
    int32_t nsources;      /* of one step */
    int32_t multi;         /* number among the entries whose step has several sources; -1 */
    int32_t ordinal;       /* of its first message among those to the same peer; the others' if `ordinals` is -1 */
    int32_t ordinals;      /* into course->ordinals, one for each message of the entry */
    int64_t first_message; /* of all that the course sends */
    /* Of one step, in chunks: as struct motet_cost_work. */
    float out, in, core, combined;
};

struct motet_course_receive {
    int32_t entry, step;
};

/* Who took a message before: the same, where the receiver has the same course. */
struct motet_course_hit {
    int32_t course, entry, step, round;
};

struct motet_course {
    struct motet_course_entry *entries;
    int32_t nentries, nrounds, nmulti;
    int32_t *round_first;              /* nrounds + 1: its first entry */
    int64_t *round_steps;              /* of a round */
    int32_t *starters, *starter_first; /* entries that wait for nothing but their round; nrounds + 1: those of a round */
    int32_t *ordinals;
    int32_t nordinals;
    int64_t nsent; /* messages of one tile */
    /* Receives by sender: distinct senders, counted from the own position, in ascending order; of sender k receives[first[k] ..]. */
    int32_t nsenders;
    int32_t *senders, *first;
    struct motet_course_receive *receives;
    int32_t nreceives;
    struct motet_course_hit *hits; /* of each message sent; NULL: nothing is remembered */
    int32_t nblocks, parts, stage_chunks;
    uint64_t hash;
    struct motet_step *key; /* its schedule, with what does not matter here taken out */
    int32_t nkey;
};

/* The courses of all positions of one algorithm on one shape. */
struct motet_courses {
    const struct motet_algorithm *algorithm;
    struct motet_shape shape;
    int32_t period;   /* position p does what p mod period does; nranks: no such thing was found */
    int32_t compared; /* positions whose schedules were looked at */
    int32_t *of;      /* course of a position below `period` */
    struct motet_course *courses;
    int32_t ncourses, room;
    struct motet_cost_world world;
    struct motet_cost_load load;
    int64_t nhits;
    int32_t *table; /* courses by hash */
    int32_t table_size;
};

/* period: 0, or a number of positions after which the network looks the same: it is kept if all schedules agree. Where comparing them all
 * would take long, some are compared (those of all hosts at distances 1, 2, 4, ... and some others), and courses->compared says so. */
motetResult_t motet_courses_make(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                 const struct motet_cost_world *world, const struct motet_cost_load *load, int period,
                                 struct motet_courses *courses);
void motet_courses_free(struct motet_courses *courses);

/* Position of peer k of `peers` for position p. */
static inline int32_t motet_course_peer(const struct motet_course_peers *peers, int32_t k, int32_t p, int32_t nranks)
{
    int64_t entry = k + (peers->own >= 0 && k >= peers->own);
    int32_t at = (int32_t)((p + peers->first + entry * peers->stride) % nranks);
    return at < 0 ? at + nranks : at;
}

static inline int32_t motet_course_npeers(const struct motet_course_peers *peers)
{
    return peers->n - (peers->own >= 0);
}

/* What receives message number `ordinal` from the position that stands `distance` (0 < distance < nranks) behind; NULL: nothing does. */
const struct motet_course_receive *motet_course_match(const struct motet_course *course, int32_t distance, int32_t ordinal,
                                                      int32_t nranks);

#endif
