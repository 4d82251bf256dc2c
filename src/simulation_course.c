/* SPDX-License-Identifier: Apache-2.0
 * Normal form, sharing and matching of courses. A schedule is built, stripped of what does not matter to times, and compared with those
 * seen before: bytes with bytes, the hash only finds the candidate. */
#include "simulation_course.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Steps of schedules that are looked at to prove a period: some seconds. */
#define COMPARED_STEPS INT64_C(600000000)
#define HITS_MOST      (INT64_C(1) << 25) /* answers that are remembered: 512 MB */
#define COMPARED_SOME  64                 /* positions of each kind, where not all are */

/* ---- Normal form ---- */

/* Divisions are what this costs; most numbers are in range. */
static inline int32_t in_range(int32_t at, int32_t nranks)
{
    return at >= 0 && at < nranks ? at : at < 0 && at >= -nranks ? at + nranks : motet_mod(at, nranks);
}

/* Peers counted from the position. Their order matters where they are sent to, not where they are waited for. */
static struct motet_peers relative(struct motet_peers peers, int position, int nranks, bool any_order)
{
    if (peers.n <= 0)
        return (struct motet_peers){0, 0, 0};
    peers.first = in_range(peers.first - position, nranks);
    if (peers.n == 1) {
        peers.stride = 0;
        return peers;
    }
    peers.stride = peers.stride == 0 ? 1 : in_range(peers.stride, nranks);
    if (any_order && peers.stride > 0 && (int64_t)peers.n * peers.stride == nranks)
        peers.first %= peers.stride; /* all the way round: begins anywhere */
    return peers;
}

/* Whether a step surely does something; where not, schedule.h says. */
static bool reaches_one(struct motet_peers peers, int position, int nranks)
{
    return peers.n == 1 && peers.first != position && peers.first >= 0 && peers.first < nranks;
}

static bool does_nothing(const struct motet_step *step, int position, int nranks)
{
    return !reaches_one(step->from, position, nranks) && !reaches_one(step->to, position, nranks) &&
           motet_step_does_nothing(step, position, nranks);
}

/* A step in normal form: peers become relative, spans vanish. */
static inline void normalize(struct motet_step *step, int position, int nranks)
{
    struct motet_span none = {0};
    step->from = relative(step->from, position, nranks, step->each == 0);
    step->to = relative(step->to, position, nranks, false);
    step->dst_at = step->src_at = none;
    step->each = step->each != 0;
}

/* Brings the steps into normal form, in place; what moves nothing is dropped as when a schedule is expanded. */
static void strip(struct motet_schedule *schedule)
{
    int kept = 0, round_start = 0, n = schedule->nranks;
    for (int s = 0; s < schedule->nsteps; s++) {
        struct motet_step step = schedule->steps[s];
        bool ends = step.flags & MOTET_ENDS_ROUND;
        if (does_nothing(&step, schedule->position, n)) {
            if (ends && kept > round_start)
                schedule->steps[kept - 1].flags |= MOTET_ENDS_ROUND;
        } else {
            normalize(&step, schedule->position, n);
            schedule->steps[kept++] = step;
        }
        round_start = ends ? kept : round_start;
    }
    schedule->nsteps = kept;
}

/* Whether strip would make `key` of it; false where it is not worth finding out. Large schedules of many ranks are read once, not written. */
static bool strips_to(const struct motet_schedule *schedule, const struct motet_step *key, int nkey)
{
    if (schedule->nsteps != nkey)
        return false;
    for (int s = 0; s < nkey; s++) {
        struct motet_step step = schedule->steps[s];
        if (does_nothing(&step, schedule->position, schedule->nranks))
            return false;
        normalize(&step, schedule->position, schedule->nranks);
        if (memcmp(&step, &key[s], sizeof(step)) != 0)
            return false;
    }
    return true;
}

static uint64_t hash_of(const struct motet_step *steps, int n)
{
    const char *bytes = (const char *)steps;
    uint64_t hash = (uint64_t)n * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = 0; at + 4 <= (size_t)n * sizeof(*steps); at += 4) {
        uint32_t word;
        memcpy(&word, bytes + at, 4);
        hash = (hash ^ word) * UINT64_C(0xd6e8feb86659fd93);
        hash ^= hash >> 32;
    }
    return hash;
}

/* ---- Making a course ---- */

static struct motet_course_peers peers_of(struct motet_peers peers, int nranks)
{
    struct motet_course_peers made = {.first = peers.first, .n = peers.n, .stride = peers.stride, .own = -1};
    for (int32_t k = 0; k < peers.n && made.own < 0; k++) {
        if ((peers.first + (int64_t)k * peers.stride) % nranks == 0)
            made.own = k;
        if (peers.stride == 1 && k == 0 && peers.first > 0)
            k = nranks - peers.first - 1; /* where a run of neighbours comes round */
    }
    return made;
}

/* Work of one step of an entry, in chunks. */
static void fill_work(const struct motet_courses *courses, const struct motet_step *step, struct motet_course_entry *entry)
{
    struct motet_step one = *step;
    struct motet_cost_load chunks = courses->load;
    one.each = 0;
    if (step->each && one.to.n > 0)
        one.to = motet_peer(1);
    else if (step->each)
        one.from = motet_peer(1);
    chunks.bytes = 1;
    struct motet_cost_work work = motet_cost_step_work(&one, 0, &courses->shape, &courses->world, &chunks, 1);
    entry->out = (float)work.out;
    entry->in = (float)work.in;
    entry->core = (float)work.core;
    entry->combined = (float)work.combined;
    entry->nsources = work.receives;
}

static bool fill_entries(const struct motet_courses *courses, const struct motet_schedule *schedule, struct motet_course *course)
{
    int n = schedule->nsteps, round = 0, nstarters = 0;
    course->entries = calloc((size_t)n + 1, sizeof(*course->entries));
    course->round_first = calloc((size_t)n + 2, sizeof(*course->round_first));
    course->round_steps = calloc((size_t)n + 2, sizeof(*course->round_steps));
    course->starters = calloc((size_t)n + 1, sizeof(*course->starters));
    course->starter_first = calloc((size_t)n + 2, sizeof(*course->starter_first));
    if (!course->entries || !course->round_first || !course->round_steps || !course->starters || !course->starter_first)
        return false;
    for (int s = 0; s < n; s++) {
        const struct motet_step *step = &schedule->steps[s];
        struct motet_course_entry *entry = &course->entries[course->nentries++];
        entry->from = peers_of(step->from, schedule->nranks);
        entry->to = peers_of(step->to, schedule->nranks);
        entry->count = step->each ? motet_course_npeers(step->to.n > 0 ? &entry->to : &entry->from) : 1;
        entry->round = round;
        fill_work(courses, step, entry);
        entry->multi = entry->nsources > 1 ? course->nmulti++ : -1;
        entry->ordinals = -1;
        course->round_steps[round] += entry->count;
        entry->first_message = course->nsent;
        course->nsent += motet_course_npeers(&entry->to);
        if (entry->nsources == 0)
            course->starters[nstarters++] = s;
        if ((step->flags & MOTET_ENDS_ROUND) || s == n - 1) {
            course->round_first[++round] = course->nentries;
            course->starter_first[round] = nstarters;
        }
    }
    course->nrounds = round;
    return true;
}

/* ---- Matching ---- */

/* A message end: peer (distance), place in the list. */
struct message_end {
    int32_t distance, entry, k;
};

static int compare_ends(const void *a, const void *b)
{
    const struct message_end *left = a, *right = b;
    if (left->distance != right->distance)
        return left->distance < right->distance ? -1 : 1;
    if (left->entry != right->entry)
        return left->entry < right->entry ? -1 : 1;
    return left->k < right->k ? -1 : left->k > right->k;
}

/* All sends, or all receives, by peer; malloced. */
static struct message_end *list_ends(const struct motet_course *course, int nranks, bool sends, int64_t *n)
{
    *n = 0;
    for (int32_t e = 0; e < course->nentries; e++)
        *n += motet_course_npeers(sends ? &course->entries[e].to : &course->entries[e].from);
    struct message_end *ends = *n < INT32_MAX ? malloc(((size_t)*n + 1) * sizeof(*ends)) : NULL;
    bool sorted = true;
    int64_t at = 0;
    for (int32_t e = 0; ends && e < course->nentries; e++) {
        const struct motet_course_peers *peers = sends ? &course->entries[e].to : &course->entries[e].from;
        for (int32_t k = 0; k < motet_course_npeers(peers); k++, at++) {
            ends[at] = (struct message_end){.distance = motet_course_peer(peers, k, 0, nranks), .entry = e, .k = k};
            sorted = sorted && (at == 0 || ends[at - 1].distance <= ends[at].distance);
        }
    }
    if (ends && !sorted)
        qsort(ends, (size_t)*n, sizeof(*ends), compare_ends);
    return ends;
}

/* Of each send, the how manieth to its peer it is. */
static bool number_sends(struct motet_course *course, int nranks)
{
    int64_t n;
    struct message_end *ends = list_ends(course, nranks, true, &n);
    int32_t *ordinal = calloc((size_t)n + 1, sizeof(*ordinal)), *first = calloc((size_t)course->nentries + 1, sizeof(*first));
    bool ok = ends && ordinal && first;
    for (int32_t e = 0; ok && e < course->nentries; e++)
        first[e + 1] = first[e] + motet_course_npeers(&course->entries[e].to);
    for (int64_t i = 0, rank = 0; ok && i < n; i++) {
        rank = i > 0 && ends[i].distance == ends[i - 1].distance ? rank + 1 : 0;
        ordinal[first[ends[i].entry] + ends[i].k] = (int32_t)rank;
    }
    for (int32_t e = 0; ok && e < course->nentries; e++) {
        struct motet_course_entry *entry = &course->entries[e];
        int32_t from = first[e], to = first[e + 1];
        entry->ordinal = to > from ? ordinal[from] : 0;
        for (int32_t m = from + 1; m < to && entry->ordinals < 0; m++)
            entry->ordinals = ordinal[m] == ordinal[from] ? -1 : from;
        course->nordinals = entry->ordinals >= 0 ? to : course->nordinals;
    }
    free(ends);
    free(first);
    if (course->nordinals > 0)
        course->ordinals = ordinal;
    else
        free(ordinal);
    return ok;
}

static bool list_receives(struct motet_course *course, int nranks)
{
    int64_t n;
    struct message_end *ends = list_ends(course, nranks, false, &n);
    course->receives = ends ? malloc(((size_t)n + 1) * sizeof(*course->receives)) : NULL;
    course->senders = ends ? malloc(((size_t)n + 1) * sizeof(int32_t)) : NULL;
    course->first = ends ? malloc(((size_t)n + 2) * sizeof(int32_t)) : NULL;
    bool ok = course->receives && course->senders && course->first;
    for (int64_t i = 0; ok && i < n; i++) {
        if (i == 0 || ends[i].distance != ends[i - 1].distance) {
            course->senders[course->nsenders] = ends[i].distance;
            course->first[course->nsenders++] = (int32_t)i;
        }
        bool is_row = course->entries[ends[i].entry].count > 1;
        course->receives[i] = (struct motet_course_receive){.entry = ends[i].entry, .step = is_row ? ends[i].k : 0};
    }
    if (ok) {
        course->first[course->nsenders] = course->nreceives = (int32_t)n;
        int32_t *fewer = realloc(course->senders, ((size_t)course->nsenders + 1) * sizeof(int32_t));
        course->senders = fewer ? fewer : course->senders;
        fewer = realloc(course->first, ((size_t)course->nsenders + 1) * sizeof(int32_t));
        course->first = fewer ? fewer : course->first;
    }
    free(ends);
    return ok;
}

const struct motet_course_receive *motet_course_match(const struct motet_course *course, int32_t distance, int32_t ordinal,
                                                      int32_t nranks)
{
    int32_t low = 0, high = course->nsenders - 1,
            sender = nranks - distance; /* who stands behind stands ahead the other way round */
    if (course->nsenders == nranks - 1)
        low = high = sender - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (course->senders[middle] < sender)
            low = middle + 1;
        else
            high = middle;
    }
    if (course->nsenders == 0 || course->senders[low] != sender || ordinal >= course->first[low + 1] - course->first[low])
        return NULL;
    return &course->receives[course->first[low] + ordinal];
}

/* ---- Sharing ---- */

static void free_course(struct motet_course *course)
{
    free(course->entries);
    free(course->round_first);
    free(course->round_steps);
    free(course->starters);
    free(course->starter_first);
    free(course->ordinals);
    free(course->senders);
    free(course->first);
    free(course->receives);
    free(course->key);
    free(course->hits);
    *course = (struct motet_course){0};
}

/* Of a schedule that is not stripped; false may be wrong. */
static bool looks_like(const struct motet_course *course, const struct motet_schedule *schedule)
{
    return course->stage_chunks == schedule->stage_chunks && strips_to(schedule, course->key, course->nkey);
}

static bool is_course(const struct motet_course *course, const struct motet_schedule *schedule, uint64_t hash)
{
    return course->hash == hash && course->nkey == schedule->nsteps && course->stage_chunks == schedule->stage_chunks &&
           memcmp(course->key, schedule->steps, (size_t)schedule->nsteps * sizeof(*schedule->steps)) == 0;
}

/* Place in the table: of the course of this schedule, or free. */
static int32_t *find_place(const struct motet_courses *courses, const struct motet_schedule *schedule, uint64_t hash)
{
    uint32_t mask = (uint32_t)courses->table_size - 1, at = (uint32_t)(hash >> 16) & mask;
    while (courses->table[at] >= 0 && !is_course(&courses->courses[courses->table[at]], schedule, hash))
        at = (at + 1) & mask;
    return &courses->table[at];
}

static bool make_room(struct motet_courses *courses)
{
    int32_t room = courses->room ? 2 * courses->room : 64;
    if (courses->ncourses < courses->room)
        return true;
    struct motet_course *more = realloc(courses->courses, (size_t)room * sizeof(*more));
    int32_t *table = malloc((size_t)room * 4 * sizeof(*table));
    courses->courses = more ? more : courses->courses;
    if (!more || !table) {
        free(table);
        return false;
    }
    free(courses->table);
    courses->room = room;
    courses->table = table;
    courses->table_size = room * 4;
    memset(table, 0xff, (size_t)room * 4 * sizeof(*table));
    for (int32_t c = 0; c < courses->ncourses; c++) {
        uint32_t mask = (uint32_t)courses->table_size - 1, at = (uint32_t)(courses->courses[c].hash >> 16) & mask;
        while (table[at] >= 0)
            at = (at + 1) & mask;
        table[at] = c;
    }
    return true;
}

/* The course of a schedule; -1: no memory. guess: which it may be, or -1. */
static int32_t course_of(struct motet_courses *courses, struct motet_schedule *schedule, int32_t guess)
{
    if (guess >= 0 && looks_like(&courses->courses[guess], schedule))
        return guess;
    strip(schedule);
    size_t bytes = (size_t)schedule->nsteps * sizeof(*schedule->steps);
    uint64_t hash = hash_of(schedule->steps, schedule->nsteps);
    if (!make_room(courses))
        return -1;
    int32_t *place = find_place(courses, schedule, hash);
    if (*place >= 0)
        return *place;
    struct motet_course *course = &courses->courses[courses->ncourses];
    *course = (struct motet_course){.hash = hash,
                                    .nkey = schedule->nsteps,
                                    .nblocks = schedule->nblocks,
                                    .parts = schedule->parts,
                                    .stage_chunks = schedule->stage_chunks,
                                    .key = malloc(bytes + 1)};
    if (!course->key || !fill_entries(courses, schedule, course) || !number_sends(course, schedule->nranks) ||
        !list_receives(course, schedule->nranks)) {
        free_course(course);
        return -1;
    }
    memcpy(course->key, schedule->steps, bytes);
    if (courses->nhits + course->nsent <= HITS_MOST && (course->hits = malloc((size_t)course->nsent * sizeof(*course->hits) + 1))) {
        memset(course->hits, 0xff, (size_t)course->nsent * sizeof(*course->hits));
        courses->nhits += course->nsent;
    }
    return *place = courses->ncourses++;
}

/* ---- All positions ---- */

static bool build(struct motet_courses *courses, int32_t position, struct motet_schedule *schedule)
{
    struct motet_shape own = courses->shape;
    own.position = position;
    courses->algorithm->build(schedule, &own);
    return !schedule->out_of_memory;
}

/* Whether position p looks the same as p mod period. */
static bool agrees(struct motet_courses *courses, int32_t p, struct motet_schedule *schedule, bool *same)
{
    int32_t guess = courses->of[p % courses->period];
    courses->compared++;
    if (!build(courses, p, schedule))
        return false;
    *same = looks_like(&courses->courses[guess], schedule);
    if (!*same) {
        strip(schedule);
        *same = is_course(&courses->courses[guess], schedule, hash_of(schedule->steps, schedule->nsteps));
    }
    return true;
}

/* Compares positions with those one or more periods before: all, or some of each place. */
static bool prove_period(struct motet_courses *courses, struct motet_schedule *schedule, bool *proved)
{
    int32_t period = courses->period, turns = courses->shape.nranks / period;
    int64_t steps = 1;
    for (int32_t c = 0; c < courses->ncourses; c++)
        steps = courses->courses[c].nkey > steps ? courses->courses[c].nkey : steps;
    bool all = steps * courses->shape.nranks <= COMPARED_STEPS;
    *proved = true;
    for (int32_t turn = 1, some = 0; turn < turns && *proved; turn++) {
        bool chosen = all || (turn & (turn - 1)) == 0 || turn == turns - 1;
        if (!chosen && some < COMPARED_SOME && turn >= (int64_t)some * turns / COMPARED_SOME) {
            some++;
            chosen = true;
        }
        for (int32_t place = 0; chosen && place < period && *proved; place++) {
            if (!agrees(courses, turn * period + place, schedule, proved))
                return false;
        }
    }
    return true;
}

static bool fill(struct motet_courses *courses, int period)
{
    struct motet_schedule schedule = {0};
    int32_t n = courses->shape.nranks;
    bool ok = courses->of != NULL, proved = period > 0;
    courses->period = period > 0 ? period : n;
    for (int32_t p = 0; ok && p < courses->period; p++) {
        ok = build(courses, p, &schedule);
        courses->of[p] = ok ? course_of(courses, &schedule, p > 0 ? courses->of[p - 1] : -1) : -1;
        ok = courses->of[p] >= 0;
        courses->compared++;
    }
    if (ok && period > 0)
        ok = prove_period(courses, &schedule, &proved);
    if (ok && period > 0 && !proved) {
        courses->period = n;
        courses->compared = n;
        for (int32_t p = period; ok && p < n; p++) {
            ok = build(courses, p, &schedule);
            courses->of[p] = ok ? course_of(courses, &schedule, courses->of[p - 1]) : -1;
            ok = courses->of[p] >= 0;
        }
    }
    motet_schedule_free(&schedule);
    return ok;
}

motetResult_t motet_courses_make(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                 const struct motet_cost_world *world, const struct motet_cost_load *load, int period,
                                 struct motet_courses *courses)
{
    *courses = (struct motet_courses){
        .algorithm = algorithm,
        .shape = *shape,
        .of = calloc((size_t)shape->nranks, sizeof(int32_t)),
        .world = *world,
        .load = *load,
    };
    if (fill(courses, period < shape->nranks ? period : 0))
        return motetSuccess;
    motet_courses_free(courses);
    return motet_fail(motetSystemError, "Simulate: out of memory for the schedules of %s on %d ranks", algorithm->name,
                      shape->nranks);
}

void motet_courses_free(struct motet_courses *courses)
{
    for (int32_t c = 0; c < courses->ncourses; c++)
        free_course(&courses->courses[c]);
    free(courses->courses);
    free(courses->table);
    free(courses->of);
    *courses = (struct motet_courses){0};
}
