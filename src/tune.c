/* SPDX-License-Identifier: Apache-2.0
 * The choice. A row is eligible if it fits the shape, serves the counts, is allowed by MOTET_ALGO, and adds in the order that floats need;
 * the cheapest eligible one runs. One order: measurements may change what is cheapest, but never the bits of a sum, since all rows among
 * which they choose combine along the same tree. */
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "cost.h"
#include "reduce/reduce.h"
#include "tuning.h"
#include "verify.h"

/* Between more hosts than this, sums of floats may run in another fixed order than the canonical one. */
#define CANONICAL_HOSTS 64

/* What a block is taken for when only the two ends of each know its size. */
#define UNKNOWN_BLOCK_BYTES 32768

struct choice {
    uint32_t key; /* 0: free */
    int32_t row;
};

struct motet_tuner {
    struct motet_tune_world world;
    int *host_first;
    struct motet_cost_machine machine; /* copy of the world's */
    bool deterministic;
    struct motet_preference preference;
    int8_t *canonical;      /* by row: 1 if it adds along the canonical tree on this shape, 0 if not, -1 unknown */
    int8_t *needs_hosts;    /* by row: 1 if it is made for several hosts and there is one, 0 if not, -1 unknown */
    struct choice *choices; /* open addressing; nchoices <= capacity / 2 */
    uint32_t nchoices, capacity;
    const struct motet_tuning_shape *measured; /* times for this world; NULL: none */
    struct motet_tune_request last; /* the call of last_algorithm, if that is not NULL: most programs repeat themselves */
    const struct motet_algorithm *last_algorithm;
};

/* What MOTET_ALGO says, or who made the tuner. */
static const char *algorithms_named(const struct motet_tuner *tuner)
{
    return tuner->world.algorithms ? tuner->world.algorithms : motet_setting_string(MOTET_SET_ALGO);
}

static struct motet_shape shape_of(const struct motet_tuner *tuner)
{
    return (struct motet_shape){.nranks = tuner->world.nranks, .nhosts = tuner->world.nhosts, .host_first = tuner->host_first};
}

static bool fits(const struct motet_tuner *tuner, int row)
{
    struct motet_shape shape = shape_of(tuner);
    return !motet_algorithms[row].fits || motet_algorithms[row].fits(&shape);
}

/* ---- Order ---- */

/* Whether the schedules of a few positions would be the same on other hosts. */
static motetResult_t ignores_hosts(const struct motet_algorithm *algorithm, const struct motet_shape *shape, int nhosts,
                                   const int *host_first, bool *answer)
{
    const int positions[3] = {0, shape->nranks / 2, shape->nranks - 1};
    struct motet_schedule real = {0}, flat = {0};
    *answer = true;
    bool ok = true;
    for (int k = 0; k < 3 && ok && *answer; k++) {
        struct motet_shape here = *shape, there = *shape;
        here.position = there.position = positions[k];
        there.nhosts = nhosts;
        there.host_first = host_first;
        algorithm->build(&real, &here);
        algorithm->build(&flat, &there);
        ok = !real.out_of_memory && !flat.out_of_memory;
        *answer = ok && real.nsteps == flat.nsteps && real.parts == flat.parts;
        for (int s = 0; s < real.nsteps && *answer; s++)
            *answer = memcmp(&real.steps[s], &flat.steps[s], sizeof(real.steps[s])) == 0;
    }
    motet_schedule_free(&real);
    motet_schedule_free(&flat);
    return ok ? motetSuccess : motet_fail(motetSystemError, "out of memory for the schedule of %s", algorithm->name);
}

/* Hosts of one size, a power of two: each is a subtree of the canonical tree. */
static bool hosts_are_aligned(const struct motet_shape *shape)
{
    int size = shape->host_first[1] - shape->host_first[0];
    for (int h = 0; h < shape->nhosts; h++) {
        if (shape->host_first[h + 1] - shape->host_first[h] != size)
            return false;
    }
    return (size & (size - 1)) == 0;
}

/* Proves the row on as many hosts with two ranks each at most: how it adds between hosts does not depend on how many a host has. */
static motetResult_t is_canonical_between_hosts(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                                bool *answer)
{
    int host_first[CANONICAL_HOSTS + 1], size = shape->host_first[1] > 1 ? 2 : 1;
    struct motet_shape small = {.nranks = size * shape->nhosts, .nhosts = shape->nhosts, .host_first = host_first};
    struct motet_verdict verdict;
    for (int h = 0; h <= shape->nhosts; h++)
        host_first[h] = h * size;
    TRY(motet_verify(algorithm, &small, NULL, &verdict));
    *answer = verdict.ok && verdict.order == MOTET_ORDER_CANONICAL;
    motet_verdict_free(&verdict);
    return motetSuccess;
}

motetResult_t motet_tune_is_canonical(const struct motet_algorithm *algorithm, const struct motet_shape *shape, bool *answer)
{
    *answer = algorithm->order == MOTET_ORDER_CANONICAL;
    if (!*answer || shape->nhosts == 1)
        return motetSuccess;
    TRY(ignores_hosts(algorithm, shape, 1, (const int[]){0, shape->nranks}, answer));
    if (!*answer && shape->nhosts <= CANONICAL_HOSTS && hosts_are_aligned(shape))
        return is_canonical_between_hosts(algorithm, shape, answer);
    return motetSuccess;
}

static bool order_matters(const struct motet_tune_request *request)
{
    const struct motet_dtype *dtype = motet_dtype_row(request->dtype);
    bool adds = request->op == motetSum || request->op == motetProd || request->op == motetAvg;
    return motet_collective_reduces(request->collective) && adds && dtype &&
           (dtype->kind == MOTET_KIND_FLOAT || dtype->kind == MOTET_KIND_COMPLEX);
}

static motetResult_t is_canonical(struct motet_tuner *tuner, int row, bool *answer)
{
    if (tuner->canonical[row] < 0) {
        struct motet_shape shape = shape_of(tuner);
        TRY(motet_tune_is_canonical(&motet_algorithms[row], &shape, answer));
        tuner->canonical[row] = *answer;
    }
    *answer = tuner->canonical[row];
    return motetSuccess;
}

/* ---- Eligibility ---- */

/* On one host, what would look at hosts if there were two has nothing to gain. */
static motetResult_t needs_hosts(struct motet_tuner *tuner, int row, bool *answer)
{
    if (tuner->needs_hosts[row] < 0) {
        struct motet_shape shape = shape_of(tuner);
        int n = shape.nranks, two_hosts[3] = {0, n / 2, n};
        struct motet_shape halves = {.nranks = n, .nhosts = 2, .host_first = two_hosts};
        bool ignores = shape.nhosts > 1 || n < 2;
        if (!ignores && (!motet_algorithms[row].fits || motet_algorithms[row].fits(&halves)))
            TRY(ignores_hosts(&motet_algorithms[row], &shape, 2, two_hosts, &ignores));
        tuner->needs_hosts[row] = !ignores;
    }
    *answer = tuner->needs_hosts[row];
    return motetSuccess;
}

/* *reason: why the row cannot run the call, NULL if it can. */
static motetResult_t exclude(struct motet_tuner *tuner, const struct motet_tune_request *request, int row, bool heed_preference,
                             const char **reason)
{
    const struct motet_algorithm *algorithm = &motet_algorithms[row];
    enum motet_preference_kind kind = tuner->preference.kind[request->collective];
    bool forced = heed_preference && (kind == MOTET_PREFER_NAMED || kind == MOTET_PREFER_SOMEWHERE), canonical = true,
         misplaced = false;
    *reason = NULL;
    if (heed_preference && !tuner->preference.allowed[row])
        *reason = "MOTET_ALGO";
    else if (!fits(tuner, row))
        *reason = "not for this number of ranks and hosts";
    else if (algorithm->counts < request->counts)
        *reason = "not for blocks of different counts";
    if (!*reason && !forced)
        TRY(needs_hosts(tuner, row, &misplaced));
    if (misplaced)
        *reason = "made for several hosts";
    if (*reason || !order_matters(request))
        return motetSuccess;
    TRY(is_canonical(tuner, row, &canonical));
    if (tuner->deterministic && (!canonical || tuner->world.rotated))
        *reason = "MOTET_DETERMINISTIC";
    else if (!canonical && !forced && tuner->world.nhosts <= CANONICAL_HOSTS)
        *reason = "adds in another order; MOTET_ALGO can name it";
    return motetSuccess;
}

/* ---- Price ---- */

/* Two classes per factor of two, so that all calls of a class have one answer on all ranks, whichever comes first. */
static uint32_t size_class(size_t bytes)
{
    if (bytes == 0)
        return 0;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes);
    return 1 + 2 * log + (log > 0 ? (uint32_t)(bytes >> (log - 1)) & 1 : 0);
}

static double class_bytes(uint32_t class)
{
    double power = class ? (double)(UINT64_C(1) << (class - 1) / 2) : 0;
    return power * ((class - 1) % 2 ? 1.75 : 1.25);
}

static size_t known_bytes(const struct motet_tuner *tuner, const struct motet_tune_request *request)
{
    return request->counts == MOTET_COUNTS_PAIR_KNOWS ? (size_t)tuner->world.nranks * UNKNOWN_BLOCK_BYTES : request->bytes;
}

/* Times of a row for calls of these classes. */
static motetResult_t predict_classes(const struct motet_tuner *tuner, const struct motet_tune_request *request, int row,
                                     const double *bytes, int nsizes, struct motet_cost_time *times)
{
    struct motet_shape shape = shape_of(tuner);
    struct motet_cost_world world = {.machine = tuner->world.machine,
                                     .host = tuner->world.network_host,
                                     .ncpus = tuner->world.ncpus,
                                     .local_ranks = tuner->world.local_ranks,
                                     .same_process = tuner->world.same_process,
                                     .lane_bytes = (double)tuner->world.lane_bytes};
    struct motet_cost_load load = {.size = 1, .wide_size = 1};
    if (motet_collective_reduces(request->collective)) {
        struct motet_reduction reduction;
        TRY(motet_reduction_init(&reduction, request->dtype, request->op, tuner->world.nranks));
        load.size = (double)reduction.size;
        load.wide_size = (double)reduction.wide_size;
    }
    return motet_cost_predict_sizes(&motet_algorithms[row], &shape, &world, &load, bytes, nsizes, times);
}

static motetResult_t predict(const struct motet_tuner *tuner, const struct motet_tune_request *request, int row, double *time_ns)
{
    double bytes = class_bytes(size_class(known_bytes(tuner, request)));
    struct motet_cost_time time = {0};
    TRY(predict_classes(tuner, request, row, &bytes, 1, &time));
    *time_ns = time.ns;
    return motetSuccess;
}

/* ---- Choice ---- */

#define ROWS_MAX 128 /* of the table */

/* Rows that may run a call, in the order of the table. */
struct eligible {
    int rows[ROWS_MAX], n;
    bool allowed[ROWS_MAX]; /* by row */
};

static motetResult_t find_eligible(struct motet_tuner *tuner, const struct motet_tune_request *request, bool heed_preference,
                                   struct eligible *eligible)
{
    *eligible = (struct eligible){.n = 0};
    for (int row = 0; row < motet_nalgorithms; row++) {
        const char *reason;
        if (motet_algorithms[row].collective != request->collective)
            continue;
        TRY(exclude(tuner, request, row, heed_preference, &reason));
        if (reason)
            continue;
        eligible->rows[eligible->n++] = row;
        eligible->allowed[row] = true;
    }
    return motetSuccess;
}

/* What a rule says, else the fastest of those that were measured; -1: nothing is known. */
static int known_row(const struct motet_tuner *tuner, const struct motet_tune_request *request, const struct eligible *eligible,
                     double bytes)
{
    const struct motet_tuning *tuning = tuner->world.tuning;
    int best =
        tuning ? motet_tuning_rule(tuning, request->collective, bytes, tuner->world.nranks, tuner->world.nhosts, eligible->allowed)
               : -1;
    double best_ns = 0;
    if (best >= 0)
        return best;
    for (int i = 0; tuner->measured && i < eligible->n; i++) {
        double ns = motet_tuning_time(tuning, tuner->measured, eligible->rows[i], bytes);
        if (ns > 0 && (best < 0 || ns < best_ns)) {
            best = eligible->rows[i];
            best_ns = ns;
        }
    }
    return best;
}

/* Cheapest predicted rows, the first of equals, where rows[k] is -1 still. times: room for all sizes, twice. */
static motetResult_t pick_cheapest(const struct motet_tuner *tuner, const struct motet_tune_request *request,
                                   const struct eligible *eligible, const double *bytes, int nsizes, struct motet_cost_time *times,
                                   int *rows)
{
    struct motet_cost_time *best = times + nsizes;
    bool open[MOTET_TUNE_SIZES];
    for (int k = 0; k < nsizes; k++)
        open[k] = rows[k] < 0;
    for (int i = 0; i < eligible->n; i++) {
        TRY(predict_classes(tuner, request, eligible->rows[i], bytes, nsizes, times));
        for (int k = 0; k < nsizes; k++) {
            if (!open[k] || (rows[k] >= 0 && times[k].ns >= best[k].ns))
                continue;
            rows[k] = eligible->rows[i];
            best[k] = times[k];
        }
    }
    return motetSuccess;
}

/* The rows that run, into rows; -1: none. The price is asked only if there is a choice and nothing was measured. */
static motetResult_t pick(struct motet_tuner *tuner, const struct motet_tune_request *request, bool heed_preference,
                          const double *bytes, int nsizes, struct motet_cost_time *times, int *rows)
{
    struct eligible eligible;
    bool all_known = true;
    TRY(find_eligible(tuner, request, heed_preference, &eligible));
    for (int k = 0; k < nsizes; k++) {
        rows[k] = eligible.n == 0 ? -1 : eligible.n == 1 ? eligible.rows[0] : known_row(tuner, request, &eligible, bytes[k]);
        all_known &= rows[k] >= 0;
    }
    if (eligible.n == 0 || all_known)
        return motetSuccess;
    return pick_cheapest(tuner, request, &eligible, bytes, nsizes, times, rows);
}

static motetResult_t fail_for_lack(struct motet_tuner *tuner, const struct motet_tune_request *request)
{
    char reasons[768] = "";
    for (int row = 0; row < motet_nalgorithms; row++) {
        const char *reason;
        if (motet_algorithms[row].collective != request->collective)
            continue;
        TRY(exclude(tuner, request, row, true, &reason));
        size_t len = strlen(reasons);
        snprintf(reasons + len, sizeof(reasons) - len, "%s%s (%s)", len ? ", " : "", motet_algorithms[row].name,
                 reason ? reason : "?");
    }
    return motet_fail(motetInvalidUsage, "no algorithm for %s on %d ranks on %d hosts with MOTET_ALGO=%s: %s",
                      motet_collective_name(request->collective), tuner->world.nranks, tuner->world.nhosts, algorithms_named(tuner),
                      reasons);
}

/* A preference that leaves nothing is heeded only where it names algorithms. */
static motetResult_t pick_or_fail(struct motet_tuner *tuner, const struct motet_tune_request *request, const double *bytes,
                                  int nsizes, struct motet_cost_time *times, int *rows)
{
    TRY(pick(tuner, request, true, bytes, nsizes, times, rows));
    if (rows[0] < 0 && tuner->preference.kind[request->collective] != MOTET_PREFER_NAMED)
        TRY(pick(tuner, request, false, bytes, nsizes, times, rows));
    return rows[0] < 0 ? fail_for_lack(tuner, request) : motetSuccess;
}

static void log_choice(const struct motet_tuner *tuner, const struct motet_tune_request *request, int row)
{
    char protocols[32] = "";
    unsigned allowed = tuner->preference.protocols[request->collective];
    for (unsigned p = MOTET_PROTO_LL; p < MOTET_PROTO_ALL; p <<= 1) {
        if (allowed & p)
            snprintf(protocols + strlen(protocols), sizeof(protocols) - strlen(protocols), "%s%s", protocols[0] ? "/" : "",
                     motet_protocol_name((enum motet_protocol)p));
    }
    INFO(MOTET_LOG_TUNING, "%s: %zu bytes -> Algo %s proto %s", motet_collective_name(request->collective), request->bytes,
         motet_algorithms[row].name, protocols);
}

static uint32_t key_of(const struct motet_tuner *tuner, const struct motet_tune_request *request)
{
    uint32_t key = UINT32_C(1) << 31 | (uint32_t)request->collective | (uint32_t)request->counts << 4;
    if (motet_collective_reduces(request->collective))
        key |= (uint32_t)request->dtype << 6 | (uint32_t)order_matters(request) << 11 | (uint32_t)(request->op == motetAvg) << 12;
    return key | size_class(known_bytes(tuner, request)) << 13;
}

static struct choice *find_choice(const struct choice *choices, uint32_t capacity, uint32_t key)
{
    uint32_t at = key * UINT32_C(0x9e3779b1) & (capacity - 1);
    while (choices[at].key && choices[at].key != key)
        at = (at + 1) & (capacity - 1);
    return (struct choice *)&choices[at];
}

static motetResult_t remember(struct motet_tuner *tuner, uint32_t key, int row)
{
    if (2 * (tuner->nchoices + 1) > tuner->capacity) {
        uint32_t capacity = 2 * tuner->capacity;
        struct choice *choices = calloc(capacity, sizeof(*choices));
        if (!choices)
            return motet_fail(motetSystemError, "out of memory for the choice of algorithms");
        for (uint32_t c = 0; c < tuner->capacity; c++) {
            if (tuner->choices[c].key)
                *find_choice(choices, capacity, tuner->choices[c].key) = tuner->choices[c];
        }
        free(tuner->choices);
        tuner->choices = choices;
        tuner->capacity = capacity;
    }
    *find_choice(tuner->choices, tuner->capacity, key) = (struct choice){.key = key, .row = row};
    tuner->nchoices++;
    return motetSuccess;
}

static bool same_request(const struct motet_tune_request *a, const struct motet_tune_request *b)
{
    return a->collective == b->collective && a->counts == b->counts && a->dtype == b->dtype && a->op == b->op &&
           a->bytes == b->bytes;
}

motetResult_t motet_tune_choose(struct motet_tuner *tuner, const struct motet_tune_request *request,
                                const struct motet_algorithm **algorithm)
{
    *algorithm = tuner->last_algorithm;
    if (*algorithm && same_request(request, &tuner->last))
        return motetSuccess;
    uint32_t key = key_of(tuner, request);
    const struct choice *choice = find_choice(tuner->choices, tuner->capacity, key);
    int row = choice->row;
    if (!choice->key) {
        double bytes = class_bytes(size_class(known_bytes(tuner, request)));
        struct motet_cost_time times[2];
        TRY(pick_or_fail(tuner, request, &bytes, 1, times, &row));
        TRY(remember(tuner, key, row));
        log_choice(tuner, request, row);
    }
    *algorithm = tuner->last_algorithm = &motet_algorithms[row];
    tuner->last = *request;
    return motetSuccess;
}

motetResult_t motet_tune_choose_sizes(struct motet_tuner *tuner, const struct motet_tune_request *request, const size_t *bytes,
                                      int nsizes, const struct motet_algorithm **choices)
{
    size_t n = (size_t)nsizes + 1;
    struct motet_cost_time *times = calloc(2 * n, sizeof(*times));
    double *middles = calloc(n, sizeof(*middles));
    int *rows = calloc(n, sizeof(*rows));
    motetResult_t result = motetSuccess;
    if (!times || !middles || !rows)
        result = motet_fail(motetSystemError, "out of memory for the choice of algorithms");
    for (int k = 0; result == motetSuccess && k < nsizes; k++)
        middles[k] = class_bytes(size_class(bytes[k]));
    if (result == motetSuccess && nsizes > 0)
        result = pick_or_fail(tuner, request, middles, nsizes, times, rows);
    for (int k = 0; result == motetSuccess && k < nsizes; k++)
        choices[k] = &motet_algorithms[rows[k]];
    free(times);
    free(middles);
    free(rows);
    return result;
}

static double measured_time(const struct motet_tuner *tuner, const struct motet_tune_request *request, int row)
{
    double bytes = class_bytes(size_class(known_bytes(tuner, request)));
    return tuner->measured ? motet_tuning_time(tuner->world.tuning, tuner->measured, row, bytes) : 0;
}

motetResult_t motet_tune_candidates(struct motet_tuner *tuner, const struct motet_tune_request *request,
                                    struct motet_tune_candidate *candidates, int room, int *ncandidates)
{
    *ncandidates = 0;
    for (int row = 0; row < motet_nalgorithms; row++) {
        struct motet_tune_candidate candidate = {.algorithm = &motet_algorithms[row]};
        if (motet_algorithms[row].collective != request->collective)
            continue;
        TRY(exclude(tuner, request, row, true, &candidate.excluded_by));
        if (!candidate.excluded_by)
            TRY(predict(tuner, request, row, &candidate.time_ns));
        double measured_ns = measured_time(tuner, request, row);
        candidate.is_measured = measured_ns > 0 && !candidate.excluded_by;
        if (candidate.is_measured)
            candidate.time_ns = measured_ns;
        if (*ncandidates < room)
            candidates[*ncandidates] = candidate;
        ++*ncandidates;
    }
    return motetSuccess;
}

unsigned motet_tune_protocols(const struct motet_tuner *tuner, enum motet_collective collective)
{
    return tuner->preference.protocols[collective];
}

/* ---- Creation ---- */

/* A list that names only rows which this shape cannot build is an error if it was meant for this collective. */
static motetResult_t check_shape(struct motet_tuner *tuner, int collective)
{
    char names[512] = "";
    if (tuner->preference.kind[collective] != MOTET_PREFER_NAMED)
        return motetSuccess;
    for (int row = 0; row < motet_nalgorithms; row++) {
        if ((int)motet_algorithms[row].collective != collective)
            continue;
        if (tuner->preference.allowed[row] && fits(tuner, row))
            return motetSuccess;
        size_t len = strlen(names);
        if (fits(tuner, row))
            snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", motet_algorithms[row].name);
    }
    return motet_fail(motetInvalidUsage, "MOTET_ALGO=%s: none of these algorithms of %s is for %d ranks on %d hosts; %s are",
                      algorithms_named(tuner), motet_collective_name((enum motet_collective)collective), tuner->world.nranks,
                      tuner->world.nhosts, names);
}

/* One line that says where a list without a collective does not apply. */
static void log_automatic(const struct motet_tuner *tuner)
{
    char names[256] = "";
    bool somewhere = false;
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        size_t len = strlen(names);
        somewhere |= tuner->preference.kind[c] == MOTET_PREFER_SOMEWHERE;
        if (tuner->preference.kind[c] == MOTET_PREFER_NOTHING)
            snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", motet_collective_name((enum motet_collective)c));
    }
    if (somewhere && names[0])
        INFO(MOTET_LOG_INIT | MOTET_LOG_TUNING, "MOTET_ALGO=%s: no such algorithm for %s: chosen automatically",
             algorithms_named(tuner), names);
}

static motetResult_t fill(struct motet_tuner *tuner, const struct motet_tune_world *world)
{
    size_t nhosts = (size_t)world->nhosts + 1;
    tuner->world = *world;
    tuner->capacity = 64;
    tuner->host_first = malloc(nhosts * sizeof(*tuner->host_first));
    tuner->canonical = malloc((size_t)motet_nalgorithms);
    tuner->needs_hosts = malloc((size_t)motet_nalgorithms);
    tuner->choices = calloc(tuner->capacity, sizeof(*tuner->choices));
    if (!tuner->host_first || !tuner->canonical || !tuner->needs_hosts || !tuner->choices)
        return motet_fail(motetSystemError, "out of memory for the choice of algorithms");
    memcpy(tuner->host_first, world->host_first, nhosts * sizeof(*tuner->host_first));
    tuner->world.host_first = tuner->host_first;
    if (world->tuning && world->machines)
        tuner->measured = motet_tuning_find(world->tuning, world->machines, world->nranks, world->nhosts,
                                            motet_tune_crowded_cpus(world), world->same_process);
    if (world->machine) {
        tuner->machine = *world->machine;
        tuner->world.machine = &tuner->machine;
    }
    memset(tuner->canonical, -1, (size_t)motet_nalgorithms);
    memset(tuner->needs_hosts, -1, (size_t)motet_nalgorithms);
    tuner->deterministic = motet_setting_int(MOTET_SET_DETERMINISTIC) != 0;
    TRY(motet_preference_parse(&tuner->preference, algorithms_named(tuner), motet_setting_string(MOTET_SET_PROTO)));
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++)
        TRY(check_shape(tuner, c));
    log_automatic(tuner);
    return motetSuccess;
}

motetResult_t motet_tuner_create(const struct motet_tune_world *world, struct motet_tuner **tuner)
{
    *tuner = calloc(1, sizeof(**tuner));
    if (!*tuner)
        return motet_fail(motetSystemError, "out of memory for the choice of algorithms");
    motetResult_t result = fill(*tuner, world);
    if (result != motetSuccess) {
        motet_tuner_free(*tuner);
        *tuner = NULL;
    }
    return result;
}

const struct motet_tune_world *motet_tuner_world(const struct motet_tuner *tuner)
{
    return &tuner->world;
}

void motet_tuner_free(struct motet_tuner *tuner)
{
    if (!tuner)
        return;
    motet_preference_free(&tuner->preference);
    free(tuner->host_first);
    free(tuner->canonical);
    free(tuner->needs_hosts);
    free(tuner->choices);
    free(tuner);
}
