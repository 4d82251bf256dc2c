/* SPDX-License-Identifier: Apache-2.0
 * Times motet, a peer and the machine's limits in the same processes, sample by sample in turn, with a cache-line ping-pong before and
 * after each round, since a machine's state may change between one second and the next. Prints one JSON object per size; what is made
 * of the samples is the script's business (bench/run).
 *
 *   compare --arena FILE [--op NAME] [--type NAME] [--sizes A,B,...] [--samples N] [--batch-us N] [--in-place] [--dirty] [--free] [--tails N]
 *
 * A sample is the mean time of one call in a batch of calls, of the slowest rank. dirty: owners rewrite their input and read their output
 * between calls, which is not counted. free: ranks are not bound to a CPU each. */
#define _GNU_SOURCE
#include <getopt.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arena.h"
#include "contender.h"

#define CONTENDERS  4
#define SAMPLES_MAX 101
#define TAILS_MAX   20000
#define CALLS_MAX   20000
#define ALIGNMENT   4096

static const char *const operation_names[NOPERATIONS] = {"all_reduce",     "broadcast",  "reduce",  "all_gather",
                                                         "reduce_scatter", "all_to_all", "barrier", "exchange"};
static const char *const type_names[NDATATYPES] = {"float32", "bfloat16", "float16", "int8"};
static const size_t type_sizes[NDATATYPES] = {4, 2, 2, 1};

struct settings {
    const char *arena, *sizes;
    enum operation operation;
    enum datatype datatype;
    int samples, tails;
    double batch_ns;
    bool in_place, dirty, unbound;
};

struct run {
    const struct contender *contender;
    char *send, *recv;
    int calls; /* per sample */
    double samples[SAMPLES_MAX], p50, p99;
};

static int rank, nranks;
static uint64_t checksum; /* of outputs that dirty runs read: nothing is optimised away */

static _Noreturn void fail(const char *what, const char *culprit)
{
    fprintf(stderr, "compare: %s: %s\n", culprit, what);
    exit(2);
}

static int index_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i]))
            return i;
    fail("no such name", name);
}

static struct settings parse(int argc, char **argv)
{
    static const struct option options[] = {{"arena", 1, NULL, 'a'},    {"op", 1, NULL, 'o'},      {"type", 1, NULL, 't'},
                                            {"sizes", 1, NULL, 's'},    {"samples", 1, NULL, 'n'}, {"batch-us", 1, NULL, 'b'},
                                            {"in-place", 0, NULL, 'i'}, {"dirty", 0, NULL, 'd'},   {"free", 0, NULL, 'f'},
                                            {"tails", 1, NULL, 'p'},    {NULL, 0, NULL, 0}};
    struct settings s = {.sizes = "8", .samples = 15, .batch_ns = 1e6};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'a':
            s.arena = optarg;
            break;
        case 'o':
            s.operation = (enum operation)index_of(optarg, operation_names, NOPERATIONS);
            break;
        case 't':
            s.datatype = (enum datatype)index_of(optarg, type_names, NDATATYPES);
            break;
        case 's':
            s.sizes = optarg;
            break;
        case 'n':
            s.samples = atoi(optarg);
            break;
        case 'b':
            s.batch_ns = atof(optarg) * 1e3;
            break;
        case 'p':
            s.tails = atoi(optarg);
            break;
        case 'i':
            s.in_place = true;
            break;
        case 'd':
            s.dirty = true;
            break;
        case 'f':
            s.unbound = true;
            break;
        default:
            exit(2);
        }
    if (!s.arena || s.samples < 1 || s.samples > SAMPLES_MAX || s.tails > TAILS_MAX)
        fail("needs --arena FILE, 1 to 101 samples, at most 20000 tails", argv[0]);
    return s;
}

static void bind_to_cpu(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("cannot be bound to a CPU", "rank");
}

static struct work work_of(const struct settings *s, size_t bytes)
{
    size_t size = type_sizes[s->datatype];
    struct work work = {.operation = s->operation, .datatype = s->datatype, .in_place = s->in_place};
    work.count = bytes / size > 0 ? bytes / size : 1;
    work.block_count = work.count / (size_t)nranks > 0 ? work.count / (size_t)nranks : 1;
    if (s->operation == ALLGATHER || s->operation == REDUCESCATTER || s->operation == ALLTOALL)
        work.count = work.block_count * (size_t)nranks;
    work.bytes = work.count * size;
    return work;
}

/* ---- Data: int8 bit patterns are small numbers in each type ---- */

static const uint8_t small_numbers[NDATATYPES][4] = {{0, 0, 0x80, 0x3f}, {0x80, 0x3f}, {0, 0x3c}, {1}};

static void fill(const struct work *work, char *memory)
{
    size_t size = type_sizes[work->datatype];
    for (size_t i = 0; i < work->count; i++)
        memcpy(memory + i * size, small_numbers[work->datatype], size); /* ones */
}

static void *get_memory(const struct contender *contender, size_t bytes)
{
    void *memory =
        contender->own_memory ? contender->allocate(bytes) : aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    if (!memory)
        fail("out of memory", contender->name);
    memset(memory, 0, bytes);
    return memory;
}

static void drop_memory(const struct contender *contender, void *memory)
{
    if (contender->own_memory)
        contender->release(memory);
    else
        free(memory);
}

/* Where a rank's own part lies, by MPI's and NCCL's rules of calls in place. */
static void place_buffers(const struct work *work, struct run *run)
{
    size_t block = work->block_count * type_sizes[work->datatype];
    run->recv = get_memory(run->contender, work->bytes);
    run->send = run->recv;
    if (!work->in_place)
        run->send = get_memory(run->contender, work->bytes);
    else if (work->operation == ALLGATHER)
        run->send = run->recv + (size_t)rank * block;
    fill(work, work->in_place ? run->recv : run->send);
}

/* The sums of all ones, where this rank gets a sum. */
static void check(const struct work *work, const struct run *run)
{
    bool summed = work->operation == ALLREDUCE || (work->operation == REDUCE && rank == 0) || work->operation == REDUCESCATTER;
    size_t n = work->operation == REDUCESCATTER ? work->block_count : work->count;
    if (work->datatype != FLOAT32 || work->operation == BARRIER || (work->operation == REDUCE && rank != 0) ||
        run->contender == &limit_memcpy)
        return;
    if (work->operation == BROADCAST && rank == 0 && !work->in_place)
        return; /* peers do not write there */
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, run->recv + i * sizeof value, sizeof value);
        if (value != (summed ? (float)nranks : 1.0f))
            fail("a wrong result", run->contender->name);
    }
}

/* ---- Timing ---- */

static void call(const struct work *work, struct run *run)
{
    run->contender->call(work, run->send, run->recv);
}

static void dirty(const struct work *work, struct run *run)
{
    uint64_t sum = 0, word;
    for (size_t at = 0; at + sizeof word <= work->bytes; at += 64) {
        memcpy(&word, run->recv + at, sizeof word);
        sum += word;
    }
    checksum += sum;
    if (!work->in_place)
        memset(run->send, (int)(sum & 1), work->bytes);
}

/* Nanoseconds per call of the slowest rank. */
static double sample(const struct work *work, struct run *run, bool rewrites)
{
    double spent = 0;
    arena_barrier();
    double begin = now_ns();
    for (int i = 0; i < run->calls; i++) {
        if (rewrites) {
            dirty(work, run);
            begin = now_ns();
        }
        call(work, run);
        if (rewrites)
            spent += now_ns() - begin;
    }
    if (!rewrites)
        spent = now_ns() - begin;
    return arena_max(spent / run->calls);
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure_tails(const struct work *work, struct run *run, int n)
{
    static double times[TAILS_MAX];
    arena_barrier();
    for (int i = 0; i < n; i++) {
        double begin = now_ns();
        call(work, run);
        times[i] = now_ns() - begin;
    }
    qsort(times, (size_t)n, sizeof *times, compare_numbers);
    run->p50 = times[n / 2];
    run->p99 = times[n - 1 - n / 100];
}

static int prepare(const struct settings *s, const struct work *work, struct run *runs)
{
    const struct contender *all[CONTENDERS] = {&motet_plain, &motet_allocated, &launch_peer, &limit_memcpy};
    int n = 0;
    for (int c = 0; c < CONTENDERS; c++) {
        struct run *run = &runs[n];
        if (!all[c]->name || !all[c]->can(work))
            continue;
        *run = (struct run){.contender = all[c]};
        place_buffers(work, run);
        arena_barrier();
        call(work, run);
        check(work, run);
        for (int i = 0; i < 5; i++)
            call(work, run);
        run->calls = 5;
        double ns = arena_of_root(sample(work, run, false));
        run->calls = ns < s->batch_ns / CALLS_MAX ? CALLS_MAX : (int)(s->batch_ns / ns) + 1;
        n++;
    }
    return n;
}

static void print_result(const struct settings *s, const struct work *work, const struct run *runs, int n, const double *lines)
{
    printf(
        "{\"op\": \"%s\", \"type\": \"%s\", \"bytes\": %zu, \"ranks\": %d, \"in_place\": %s, \"dirty\": %s, \"bound\": %s, \"line_ns\": [",
        operation_names[work->operation], type_names[work->datatype], work->bytes, nranks, work->in_place ? "true" : "false",
        s->dirty ? "true" : "false", s->unbound ? "false" : "true");
    for (int i = 0; i <= s->samples; i++)
        printf("%s%.1f", i ? ", " : "", lines[i]);
    printf("], \"contenders\": {");
    for (int c = 0; c < n; c++) {
        printf("%s\"%s\": {\"p50_ns\": %.0f, \"p99_ns\": %.0f, \"ns\": [", c ? ", " : "", runs[c].contender->name, runs[c].p50,
               runs[c].p99);
        for (int i = 0; i < s->samples; i++)
            printf("%s%.1f", i ? ", " : "", runs[c].samples[i]);
        printf("]}");
    }
    printf("}}\n");
    fflush(stdout);
}

static void compare(const struct settings *s, size_t bytes)
{
    static struct run runs[CONTENDERS];
    static double lines[SAMPLES_MAX + 1];
    struct work work = work_of(s, bytes);
    int n = prepare(s, &work, runs);
    for (int i = 0; i < s->samples; i++) {
        lines[i] = arena_line_ns();
        for (int c = 0; c < n; c++) { /* each begins in its turn: nobody always follows the same one */
            struct run *run = &runs[(c + i) % n];
            run->samples[i] = sample(&work, run, s->dirty);
        }
    }
    lines[s->samples] = arena_line_ns();
    for (int c = 0; c < n && s->tails > 0; c++)
        measure_tails(&work, &runs[c], s->tails);
    if (rank == 0)
        print_result(s, &work, runs, n, lines);
    for (int c = 0; c < n; c++) {
        if (!work.in_place)
            drop_memory(runs[c].contender, runs[c].send);
        drop_memory(runs[c].contender, runs[c].recv);
    }
}

int main(int argc, char **argv)
{
    launch(&argc, &argv, &rank, &nranks);
    struct settings s = parse(argc, argv);
    if (s.operation == EXCHANGE && nranks % 2)
        fail("needs an even number of ranks", "exchange");
    arena_open(s.arena, rank, nranks);
    if (!s.unbound)
        bind_to_cpu();
    motet_begin(rank, nranks);
    for (char *at = (char *)(uintptr_t)s.sizes; *at; at += *at == ',')
        compare(&s, strtoull(at, &at, 10));
    motet_end();
    launch_end();
    return checksum == 1; /* it is not */
}
