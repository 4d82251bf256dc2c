/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_measure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf_collective.h"

#define BATCH_S    0.0004 /* longer than the clock is coarse and than a start out of step */
#define ROUNDS_MIN 3
#define ROUNDS_MAX 25
#define PROBES     64  /* calls of 8 bytes */
#define TRIALS     3   /* turns before the first that counts; the first of them takes page faults and makes plans */
#define HOPELESS   6.0 /* times the best of the trials: not measured again */
#define PROGRESS_S 0.2

/* Everything of a rank while it measures. */
struct bench {
    const struct tune_plan *plan;
    struct tune_point *points;
    int npoints, room, planned, begun;
    double started_s, shown_s;
    void *send, *recv;
    char *why;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool fail(struct bench *bench, const char *what)
{
    if (!bench->why[0])
        snprintf(bench->why, 1200, "%s: %.1000s", what, motetGetLastError(NULL));
    return false;
}

static bool combine(struct bench *bench, double *values, int n, motetRedOp_t op)
{
    return motetAllReduce(values, values, (size_t)n, motetFloat64, op, bench->plan->comm, NULL) == motetSuccess ||
           fail(bench, "the ranks cannot combine their times");
}

/* ---- Progress ---- */

static void show(struct bench *bench, const char *collective, size_t bytes)
{
    double now = now_s();
    if (!bench->plan->shows_progress || bench->plan->rank != 0 || now - bench->shown_s < PROGRESS_S)
        return;
    bench->shown_s = now;
    fprintf(stderr, "\r\033[K%d ranks: %s, %zu bytes: %d of %d points, %.0f of %.0f s", bench->plan->nranks, collective, bytes,
            bench->begun, bench->planned, now - bench->started_s, bench->plan->budget_s);
    fflush(stderr);
}

static void end_progress(const struct bench *bench)
{
    if (bench->plan->shows_progress && bench->plan->rank == 0)
        fputs("\r\033[K", stderr);
}

/* ---- One point ---- */

/* One collective with a communicator for each of its algorithms. */
struct contest {
    const struct perf_collective *collective;
    const char *name; /* "AllReduce" */
    const char *names[TUNE_ALGORITHMS];
    motetComm_t comms[TUNE_ALGORITHMS];
    int n;
};

/* Time of one call in a batch of `calls`. */
static bool time_batch(struct bench *bench, const struct contest *contest, int a, const struct perf_call *call, int calls,
                       double *seconds)
{
    struct perf_call own = *call;
    own.comm = contest->comms[a];
    if (motetBarrier(bench->plan->comm, NULL) != motetSuccess)
        return fail(bench, "barrier");
    double begin = now_s();
    for (int i = 0; i < calls; i++)
        if (contest->collective->call(&own) != motetSuccess)
            return fail(bench, contest->names[a]);
    *seconds = (now_s() - begin) / calls;
    return true;
}

static bool probe(struct bench *bench, double *seconds)
{
    double in = 1, out;
    double begin = now_s();
    for (int i = 0; i < PROBES; i++)
        if (motetAllReduce(&in, &out, 1, motetFloat64, motetSum, bench->plan->comm, NULL) != motetSuccess)
            return fail(bench, "probe");
    *seconds = (now_s() - begin) / PROBES;
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Samples of a point: [round][algorithm], 0 where none was taken. */
struct samples {
    double seconds[ROUNDS_MAX][TUNE_ALGORITHMS], probe[ROUNDS_MAX];
    int rounds;
};

/* An algorithm's time: the median of its ratio to the best of the turn, times the median of that best. */
static void settle(struct tune_point *point, const struct contest *contest, struct samples *samples)
{
    double best[ROUNDS_MAX], probes[ROUNDS_MAX];
    for (int r = 0; r < samples->rounds; r++) {
        best[r] = 1e30;
        probes[r] = samples->probe[r];
        for (int a = 0; a < contest->n; a++)
            if (samples->seconds[r][a] > 0 && samples->seconds[r][a] < best[r])
                best[r] = samples->seconds[r][a];
    }
    for (int a = 0; a < contest->n; a++) {
        double ratios[ROUNDS_MAX];
        struct tune_time *time = &point->times[a];
        time->name = contest->names[a];
        for (int r = 0; r < samples->rounds; r++)
            if (samples->seconds[r][a] > 0)
                ratios[time->samples++] = samples->seconds[r][a] / best[r];
        time->us = median(ratios, time->samples);
    }
    double usual = median(best, samples->rounds) * 1e6;
    for (int a = 0; a < contest->n; a++)
        point->times[a].us *= usual;
    point->probe_us = median(probes, samples->rounds) * 1e6;
    point->n = contest->n;
}

/* One turn of all algorithms that are still in it. All ranks have the same times afterwards. */
static bool take_turn(struct bench *bench, const struct contest *contest, const struct perf_call *call, const int *calls,
                      struct samples *samples)
{
    double values[TUNE_ALGORITHMS + 1] = {0};
    int r = samples->rounds;
    for (int k = 0; k < contest->n; k++) {
        int a = (k + r) % contest->n; /* nobody always follows the same one */
        if (calls[a] > 0 && !time_batch(bench, contest, a, call, calls[a], &values[a]))
            return false;
    }
    if (!probe(bench, &values[TUNE_ALGORITHMS]) || !combine(bench, values, TUNE_ALGORITHMS + 1, motetMax))
        return false;
    memcpy(samples->seconds[r], values, sizeof samples->seconds[r]);
    samples->probe[r] = values[TUNE_ALGORITHMS];
    samples->rounds++;
    return true;
}

/* First times, and how many calls make a batch; 0: too slow to be measured again. */
static bool try_once(struct bench *bench, const struct contest *contest, const struct perf_call *call, int *calls, double *first)
{
    struct samples trial = {0};
    double best = 1e30;
    for (int a = 0; a < contest->n; a++)
        calls[a] = 2;
    for (int turn = 0; turn < TRIALS; turn++)
        if (!take_turn(bench, contest, call, calls, &trial))
            return false;
    for (int a = 0; a < contest->n; a++) {
        first[a] = 1e30;
        for (int turn = 1; turn < TRIALS; turn++) /* the least: a rank that lost its CPU for a moment says nothing */
            first[a] = trial.seconds[turn][a] < first[a] ? trial.seconds[turn][a] : first[a];
        first[a] = first[a] > 1e-9 ? first[a] : 1e-9;
        best = first[a] < best ? first[a] : best;
    }
    for (int a = 0; a < contest->n; a++) {
        double wanted = BATCH_S / first[a];
        calls[a] = first[a] > HOPELESS * best && first[a] > 1e-4 ? 0 : wanted < 1 ? 1 : wanted > 2000 ? 2000 : (int)wanted;
    }
    return true;
}

/* Measures until `until_s`. */
static bool measure_point(struct bench *bench, const struct contest *contest, const struct perf_call *call, double until_s,
                          struct tune_point *point)
{
    static struct samples samples;
    int calls[TUNE_ALGORITHMS] = {0};
    double first[TUNE_ALGORITHMS], goes_on = 1;
    samples.rounds = 0;
    if (!try_once(bench, contest, call, calls, first))
        return false;
    while (samples.rounds < ROUNDS_MAX && goes_on > 0) {
        if (!take_turn(bench, contest, call, calls, &samples))
            return false;
        goes_on = samples.rounds < ROUNDS_MIN || now_s() < until_s;
        if (!combine(bench, &goes_on, 1, motetMax))
            return false;
    }
    for (int a = 0; a < contest->n; a++)
        if (calls[a] == 0)
            samples.seconds[0][a] = first[a];
    settle(point, contest, &samples);
    return true;
}

/* ---- One collective ---- */

/* What may run, and what the library would choose. Integers: no algorithm is left out for the order in which it adds. */
static bool ask(struct bench *bench, const char *name, size_t bytes, motetDataType_t type, motetExplanation_t *explanation)
{
    motetExplainQuery_t query = MOTET_EXPLAIN_QUERY_INITIALIZER;
    query.collective = name;
    query.bytes = bytes;
    query.datatype = type;
    return motetCommExplain(bench->plan->comm, &query, explanation) == motetSuccess || fail(bench, name);
}

static bool open_contest(struct bench *bench, struct contest *contest)
{
    motetExplanation_t explanation;
    int n;
    if (!ask(bench, contest->name, 8, motetInt32, &explanation))
        return false;
    bool ok = motetExplainCount(explanation, &n) == motetSuccess || fail(bench, contest->name);
    for (int i = 0; ok && i < n && contest->n < TUNE_ALGORITHMS; i++) {
        motetExplainCandidate_t candidate;
        motetConfig_t config = MOTET_CONFIG_INITIALIZER;
        char algo[128];
        ok = motetExplainCandidate(explanation, i, &candidate) == motetSuccess || fail(bench, contest->name);
        if (!ok || !candidate.fits || candidate.excludedBy)
            continue;
        snprintf(algo, sizeof algo, "%s:%s", contest->name, candidate.name);
        config.algo = algo;
        config.commName = candidate.name;
        ok = motetCommSplit(bench->plan->comm, 0, bench->plan->rank, &contest->comms[contest->n], &config) == motetSuccess ||
             fail(bench, algo);
        contest->names[contest->n] = candidate.name;
        contest->n += ok;
    }
    motetExplainFree(explanation);
    return ok;
}

static void close_contest(struct contest *contest)
{
    for (int a = 0; a < contest->n; a++)
        motetCommDestroy(contest->comms[a]);
}

/* Predictions and the choice, for sums of floats. */
static bool add_predictions(struct bench *bench, struct tune_point *point)
{
    motetExplanation_t explanation;
    int n;
    if (!ask(bench, point->collective, point->bytes, motetFloat32, &explanation))
        return false;
    bool ok = motetExplainCount(explanation, &n) == motetSuccess || fail(bench, point->collective);
    for (int i = 0; ok && i < n; i++) {
        motetExplainCandidate_t candidate;
        ok = motetExplainCandidate(explanation, i, &candidate) == motetSuccess || fail(bench, point->collective);
        if (ok && candidate.chosen)
            point->chosen = candidate.name;
        for (int a = 0; ok && a < point->n; a++)
            if (!strcmp(point->times[a].name, candidate.name))
                point->times[a].predicted_us = candidate.timeNs / 1e3;
    }
    motetExplainFree(explanation);
    return ok;
}

static bool measure_size(struct bench *bench, const struct contest *contest, size_t bytes)
{
    const struct tune_plan *plan = bench->plan;
    struct perf_sizes sizes;
    contest->collective->divide(bytes / 4, 4, plan->nranks, &sizes);
    size_t total = (sizes.send > sizes.recv ? sizes.send : sizes.recv) * 4;
    bool moves = contest->collective->kind != PERF_BARRIER;
    double now = now_s(), left = plan->budget_s - (now - bench->started_s);
    struct tune_point *point = &bench->points[bench->npoints];
    bench->begun++;
    if (moves && total == 0)
        return true;
    show(bench, contest->name, bytes);
    struct perf_call call = {.send = bench->send,
                             .recv = bench->recv,
                             .count = sizes.param,
                             .type = motetFloat32,
                             .element_size = 4,
                             .op = motetSum,
                             .rank = plan->rank,
                             .nranks = plan->nranks};
    *point = (struct tune_point){.collective = contest->name, .bytes = moves ? total : 0};
    if (!measure_point(bench, contest, &call, now + left / (bench->planned - bench->begun + 1), point) ||
        !add_predictions(bench, point))
        return false;
    bench->npoints++;
    return true;
}

static const char *name_of(const struct perf_collective *collective)
{
    static const char *const names[PERF_KINDS] = {
        [PERF_ALL_REDUCE] = "AllReduce", [PERF_ALL_GATHER] = "AllGather", [PERF_BROADCAST] = "Broadcast",
        [PERF_REDUCE] = "Reduce",        [PERF_ALLTOALL] = "AlltoAll",    [PERF_REDUCE_SCATTER] = "ReduceScatter",
        [PERF_GATHER] = "Gather",        [PERF_SCATTER] = "Scatter",      [PERF_BARRIER] = "Barrier"};
    return names[collective->kind];
}

static bool measure_collective(struct bench *bench, const struct perf_collective *collective)
{
    struct contest contest = {.collective = collective, .name = name_of(collective)};
    const struct tune_plan *plan = bench->plan;
    bool ok = open_contest(bench, &contest);
    if (ok && collective->kind == PERF_BARRIER)
        ok = measure_size(bench, &contest, 0);
    else
        for (size_t bytes = plan->min_bytes; ok && bytes <= plan->max_bytes; bytes *= (size_t)plan->factor)
            ok = measure_size(bench, &contest, bytes);
    close_contest(&contest);
    return ok;
}

static bool is_wanted(const struct tune_plan *plan, const struct perf_collective *collective)
{
    return name_of(collective) && (!plan->only || collective == perf_collective_find(plan->only));
}

static int count_points(const struct tune_plan *plan)
{
    int sizes = 0, n = 0;
    for (size_t bytes = plan->min_bytes; bytes <= plan->max_bytes; bytes *= (size_t)plan->factor)
        sizes++;
    for (int i = 0; i < perf_ncollectives; i++)
        n += !is_wanted(plan, &perf_collectives[i]) ? 0 : perf_collectives[i].kind == PERF_BARRIER ? 1 : sizes;
    return n;
}

int tune_measure(const struct tune_plan *plan, struct tune_point **points, char why[1200])
{
    struct bench bench = {.plan = plan, .planned = count_points(plan), .started_s = now_s(), .why = why};
    size_t room = plan->max_bytes + 4096 * (size_t)plan->nranks;
    why[0] = '\0';
    bench.points = calloc((size_t)bench.planned + 1, sizeof *bench.points);
    bench.send = malloc(room);
    bench.recv = malloc(room);
    bool ok = bench.points && bench.send && bench.recv;
    if (ok) {
        memset(bench.send, 1, room);
        memset(bench.recv, 2, room);
    } else {
        snprintf(why, 1200, "out of memory: two buffers of %zu bytes", room);
    }
    for (int i = 0; ok && i < perf_ncollectives; i++)
        if (is_wanted(plan, &perf_collectives[i]))
            ok = measure_collective(&bench, &perf_collectives[i]);
    end_progress(&bench);
    free(bench.send);
    free(bench.recv);
    *points = bench.points;
    if (ok)
        return bench.npoints;
    free(bench.points);
    *points = NULL;
    return -1;
}
