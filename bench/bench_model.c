/* SPDX-License-Identifier: Apache-2.0
 * Samples for bench/model: times of every algorithm of every collective, each with the state in which the machine was before and after, and
 * the start-up numbers of the library, measured again and again. A virtual machine changes its state many times in a minute, so a
 * turn whose two probes differ is thrown away. Judges nothing: bench/model does.
 *
 *   bench_model RANKS SECONDS LARGEST FACTOR [COLLECTIVE]...
 *
 *   S collective bytes algorithm state round_trip_ns measured_us predicted_us preempted      one sample
 *   V line copy shared memory pass start exchange start combine switch socket_latency socket_bandwidth      start-up numbers */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "comm.h"
#include "cost.h"
#include "measurement.h"
#include "motet.h"
#include "tune.h"

#define RANKS_MOST      64
#define ALGORITHMS_MOST 24
#define BATCH_S         0.0006 /* longer than a start out of step */
#define CALLS_MOST      1000
#define TURNS_MOST      40
#define CLOCK_S         25e-9 /* one look at the clock is within the time */
#define MUTE            ((size_t)-1)
#define HOPELESS        8 /* times the best: measured once */

struct job {
    pthread_barrier_t all;
    motetUniqueId id;
    int nranks, ncpus, ncollectives;
    double seconds;
    size_t largest, factor;
    char **collectives;
    double took_s[RANKS_MOST];
    double begun_s[RANKS_MOST][CALLS_MOST], done_s[RANKS_MOST][CALLS_MOST]; /* of calls that some ranks leave early */
    long preempted[RANKS_MOST];
    int calls[ALGORITHMS_MOST];
    _Atomic int goes_on;
};

struct rank {
    struct job *job;
    int number;
    motetComm_t comm, comms[ALGORITHMS_MOST];
    const char *names[ALGORITHMS_MOST];
    int nalgorithms;
    char *send, *recv;
};

static double now_s(void)
{
    return (double)motet_now_ns() * 1e-9;
}

static void must(motetResult_t result, const char *what)
{
    if (result == motetSuccess)
        return;
    fprintf(stderr, "bench_model: %s: %s\n", what, motetGetLastError(NULL));
    exit(1);
}

/* ---- The calls ---- */

static motetResult_t call(const struct rank *rank, const char *collective, size_t n, motetComm_t comm)
{
    const void *send = rank->send;
    size_t block = n / (size_t)rank->job->nranks;
    if (!strcmp(collective, "AllReduce"))
        return motetAllReduce(send, rank->recv, n, motetFloat32, motetSum, comm, NULL);
    if (!strcmp(collective, "Broadcast"))
        return motetBroadcast(send, rank->recv, n, motetFloat32, 0, comm, NULL);
    if (!strcmp(collective, "Reduce"))
        return motetReduce(send, rank->recv, n, motetFloat32, motetSum, 0, comm, NULL);
    if (!strcmp(collective, "AllGather"))
        return motetAllGather(send, rank->recv, block, motetFloat32, comm, NULL);
    if (!strcmp(collective, "ReduceScatter"))
        return motetReduceScatter(send, rank->recv, block, motetFloat32, motetSum, comm, NULL);
    if (!strcmp(collective, "AlltoAll"))
        return motetAlltoAll(send, rank->recv, block, motetFloat32, comm, NULL);
    if (!strcmp(collective, "Gather"))
        return motetGather(send, rank->recv, block, motetFloat32, 0, comm, NULL);
    if (!strcmp(collective, "Scatter"))
        return motetScatter(send, rank->recv, block, motetFloat32, 0, comm, NULL);
    return motetBarrier(comm, NULL);
}

/* A communicator for each algorithm that may run. Integers: none is left out for the order in which it adds. */
static void open_algorithms(struct rank *rank, const char *collective)
{
    motetExplainQuery_t query = MOTET_EXPLAIN_QUERY_INITIALIZER;
    motetExplanation_t explanation;
    int n;
    query.collective = collective;
    query.datatype = motetInt32;
    must(motetCommExplain(rank->comm, &query, &explanation), collective);
    must(motetExplainCount(explanation, &n), collective);
    rank->nalgorithms = 0;
    for (int i = 0; i < n && rank->nalgorithms < ALGORITHMS_MOST; i++) {
        motetExplainCandidate_t candidate;
        motetConfig_t config = MOTET_CONFIG_INITIALIZER;
        char algo[128];
        must(motetExplainCandidate(explanation, i, &candidate), collective);
        if (!candidate.fits || candidate.excludedBy)
            continue;
        snprintf(algo, sizeof algo, "%s:%s", collective, candidate.name);
        config.algo = algo;
        must(motetCommSplit(rank->comm, 0, rank->number, &rank->comms[rank->nalgorithms], &config), algo);
        rank->names[rank->nalgorithms++] = candidate.name;
    }
    motetExplainFree(explanation);
}

/* ---- One turn ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static long times_preempted(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* Calls that some ranks leave before others are done overlap with the next one. */
static bool is_rooted(const char *collective)
{
    return !strcmp(collective, "Broadcast") || !strcmp(collective, "Reduce") || !strcmp(collective, "Gather") ||
           !strcmp(collective, "Scatter");
}

/* One after the other, each from when the ranks enter, in the mean, until the last one is done: all ranks see the same clock. */
static void make_rooted_calls(const struct rank *rank, const char *collective, int a, size_t n)
{
    struct job *job = rank->job;
    for (int i = 0; i < job->calls[a]; i++) {
        must(motetBarrier(rank->comm, NULL), "barrier");
        job->begun_s[rank->number][i] = now_s();
        must(call(rank, collective, n, rank->comms[a]), collective);
        job->done_s[rank->number][i] = now_s();
    }
}

static double rooted_time(const struct job *job, int calls)
{
    static double times[CALLS_MOST];
    for (int i = 0; i < calls; i++) {
        double begun = 0, done = 0;
        for (int r = 0; r < job->nranks; r++) {
            begun += job->begun_s[r][i] / job->nranks;
            done = job->done_s[r][i] > done ? job->done_s[r][i] : done;
        }
        times[i] = done - begun - CLOCK_S;
    }
    qsort(times, (size_t)calls, sizeof *times, compare);
    return times[calls / 2];
}

/* Time of a call of the slowest rank; *preempted: a rank lost its CPU meanwhile. */
static double time_batch(const struct rank *rank, const char *collective, int a, size_t n, long *preempted)
{
    struct job *job = rank->job;
    int calls = job->calls[a];
    double most = 0;
    pthread_barrier_wait(&job->all);
    must(motetBarrier(rank->comm, NULL), "barrier");
    long before = times_preempted();
    double begin = now_s();
    if (is_rooted(collective))
        make_rooted_calls(rank, collective, a, n);
    for (int i = 0; i < calls && !is_rooted(collective); i++)
        must(call(rank, collective, n, rank->comms[a]), collective);
    job->took_s[rank->number] = (now_s() - begin) / calls;
    job->preempted[rank->number] = times_preempted() - before;
    pthread_barrier_wait(&job->all);
    *preempted = 0;
    for (int r = 0; r < job->nranks; r++) {
        most = job->took_s[r] > most ? job->took_s[r] : most;
        *preempted += job->preempted[r];
    }
    return is_rooted(collective) ? rooted_time(job, calls) : most;
}

/* The others sleep meanwhile. */
static double probe(const struct rank *rank)
{
    double ns = rank->number == 0 ? motet_measurement_probe(motet_now_ns() + 20000000) : 0;
    pthread_barrier_wait(&rank->job->all);
    return ns;
}

/* The newest of each state. On rank 0. */
static struct motet_speeds known[MOTET_NDISTANCES];

static void measure_speeds(const struct rank *rank)
{
    struct motet_speeds s = {0};
    if (rank->number == 0 && motet_measurement_run(motet_now_ns() + 200000000, &s)) {
        known[s.distance] = s;
        printf("V %.4g %.4g %.4g %.4g %.4g %.4g %.4g %.4g %.4g %.5g %.5g %.4g\n", s.line_ns, s.copy_bytes_per_ns,
               s.shared_bytes_per_ns, s.memory_bytes_per_ns, s.pass_bytes_per_ns, s.pass_start_ns, s.exchange_bytes_per_ns,
               s.exchange_start_ns, s.combine_bytes_per_ns, s.switch_ns, s.socket_latency_ns, s.socket_bytes_per_ns);
    }
    pthread_barrier_wait(&rank->job->all);
}

/* By the numbers of this state, with the line as it is now. 0: this state was not measured yet. */
static double predict_us(const struct rank *rank, const char *collective, int a, double bytes, double round_trip_ns)
{
    struct motet_speeds speeds = known[motet_measurement_distance(round_trip_ns)];
    const struct motet_tune_world *of = motet_tuner_world(rank->comm->tuner);
    struct motet_cost_machine machine;
    struct motet_cost_world world = {.machine = &machine,
                                     .ncpus = of->ncpus,
                                     .local_ranks = of->local_ranks,
                                     .same_process = of->same_process,
                                     .lane_bytes = (double)of->lane_bytes};
    struct motet_cost_load load = {.bytes = bytes, .size = 4, .wide_size = 4};
    struct motet_shape shape = {.nranks = of->nranks, .nhosts = of->nhosts, .host_first = of->host_first};
    double ns = 0;
    speeds.line_ns = round_trip_ns / 2;
    motet_cost_machine_measured(&speeds, &machine);
    for (int row = 0; speeds.is_measured && row < motet_nalgorithms; row++) {
        const struct motet_algorithm *algorithm = &motet_algorithms[row];
        if (!strcmp(algorithm->name, rank->names[a]) && !strcmp(motet_collective_name(algorithm->collective), collective))
            must(motet_cost_predict(algorithm, &shape, &world, &load, &ns), collective);
    }
    return ns / 1e3;
}

static void print_samples(const struct rank *rank, const char *collective, size_t bytes, double round_trip_ns, const double *took_s,
                          const long *preempted)
{
    static const char *const states[] = {"near", "middle", "far"};
    for (int a = 0; a < rank->nalgorithms; a++) {
        if (rank->job->calls[a] == 0)
            continue;
        printf("S %s %zu %s %s %.1f %.6g %.6g %ld\n", collective, bytes, rank->names[a],
               states[motet_measurement_distance(round_trip_ns)], round_trip_ns, took_s[a] * 1e6,
               predict_us(rank, collective, a, (double)bytes, round_trip_ns), preempted[a]);
    }
}

static void set_calls(const struct rank *rank, const double *first_s)
{
    double best = 1e30;
    for (int a = 0; a < rank->nalgorithms; a++)
        best = first_s[a] < best ? first_s[a] : best;
    for (int a = 0; a < rank->nalgorithms; a++) {
        double wanted = BATCH_S / first_s[a];
        int calls = wanted < 1 ? 1 : wanted > CALLS_MOST ? CALLS_MOST : (int)wanted;
        rank->job->calls[a] = first_s[a] > HOPELESS * best && first_s[a] > 1e-4 ? 0 : calls;
    }
}

static void measure_point(struct rank *rank, const char *collective, size_t n, size_t bytes, double until_s)
{
    struct job *job = rank->job;
    double took[ALGORITHMS_MOST], first[ALGORITHMS_MOST];
    long preempted[ALGORITHMS_MOST];
    for (int turn = 0; turn < TURNS_MOST; turn++) {
        double before = probe(rank);
        if (rank->number == 0 && turn < 2)
            for (int a = 0; a < rank->nalgorithms; a++)
                job->calls[a] = 2;
        if (rank->number == 0 && turn == 2)
            set_calls(rank, first);
        pthread_barrier_wait(&job->all);
        for (int k = 0; k < rank->nalgorithms; k++) {
            int a = (k + turn) % rank->nalgorithms; /* nobody always follows the same one */
            if (job->calls[a] > 0)
                first[a] = took[a] = time_batch(rank, collective, a, n, &preempted[a]);
        }
        double after = probe(rank);
        if (rank->number == 0) {
            bool same = before > 0 && after > 0 && motet_measurement_distance(before) == motet_measurement_distance(after);
            if (turn > 1 && same && bytes != MUTE)
                print_samples(rank, collective, bytes, (before + after) / 2, took, preempted);
            atomic_store(&job->goes_on, turn < 4 || now_s() < until_s);
        }
        pthread_barrier_wait(&job->all);
        if (!atomic_load(&job->goes_on))
            return;
    }
}

/* ---- The job ---- */

static void measure_all(struct rank *rank)
{
    struct job *job = rank->job;
    double begin = now_s();
    int npoints = 0, done = 0;
    for (size_t bytes = 8; bytes <= job->largest; bytes *= job->factor)
        npoints += job->ncollectives;
    for (int c = 0; c < job->ncollectives; c++) {
        open_algorithms(rank, job->collectives[c]);
        for (size_t bytes = 8; bytes <= job->largest; bytes *= job->factor) {
            size_t n = bytes / 4 / (size_t)job->nranks * (size_t)job->nranks;
            bool barrier = !strcmp(job->collectives[c], "Barrier");
            done++;
            if (n == 0 || (barrier && bytes > 8))
                continue;
            measure_speeds(rank);
            if (bytes == 8) /* what is new is slow */
                measure_point(rank, job->collectives[c], n, MUTE, 0);
            measure_point(rank, job->collectives[c], n, barrier ? 0 : n * 4, begin + job->seconds * done / npoints);
        }
        for (int a = 0; a < rank->nalgorithms; a++)
            must(motetCommDestroy(rank->comms[a]), "CommDestroy");
    }
}

static int run_rank(struct job *job, int number)
{
    struct rank rank = {.job = job, .number = number};
    size_t room = job->largest + 4096 * (size_t)job->nranks;
    if (job->nranks <= job->ncpus) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)number, &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    if (number == 0)
        must(motetGetUniqueId(&job->id), "GetUniqueId");
    pthread_barrier_wait(&job->all);
    must(motetCommInitRank(&rank.comm, job->nranks, job->id, number), "CommInitRank");
    rank.send = malloc(room);
    rank.recv = malloc(room);
    if (!rank.send || !rank.recv)
        return 1;
    memset(rank.send, 1, room);
    memset(rank.recv, 2, room);
    measure_all(&rank);
    fflush(stdout);
    must(motetCommDestroy(rank.comm), "CommDestroy");
    return 0;
}

int main(int argc, char **argv)
{
    static char *all[] = {"AllReduce", "AllGather", "Broadcast", "Reduce", "ReduceScatter",
                          "AlltoAll",  "Gather",    "Scatter",   "Barrier"};
    struct job *job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int failed = 0, status;
    if (argc < 5 || job == MAP_FAILED) {
        fprintf(stderr, "usage: bench_model RANKS SECONDS LARGEST FACTOR [COLLECTIVE]...\n");
        return 2;
    }
    job->nranks = atoi(argv[1]);
    job->seconds = atof(argv[2]);
    job->largest = strtoull(argv[3], NULL, 10);
    job->factor = strtoull(argv[4], NULL, 10);
    job->ncpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    job->collectives = argc > 5 ? argv + 5 : all;
    job->ncollectives = argc > 5 ? argc - 5 : (int)(sizeof all / sizeof *all);
    if (job->nranks < 2 || job->nranks > RANKS_MOST || job->factor < 2) {
        fprintf(stderr, "bench_model: 2 to %d ranks, factor at least 2\n", RANKS_MOST);
        return 2;
    }
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&job->all, &shared, (unsigned)job->nranks);
    for (int r = 0; r < job->nranks; r++) {
        pid_t child = fork();
        if (child == 0)
            _exit(run_rank(job, r));
        failed |= child < 0;
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
