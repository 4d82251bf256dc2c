/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "perf_table.h"

#define GUARD_BYTES   4096       /* behind every buffer: poisoned, checked */
#define CHECKED_GUARD 256        /* bytes behind the output that must not change */
#define STAMPED_BYTES (64 << 10) /* from this size on, reading the clock for each call costs nothing that shows */
#define WRONG_SHOWN   3

/* One rank's side of the run. */
struct runner {
    struct team_rank self;
    struct perf_run *run;
    void *blocks[2];  /* allocations: send, recv */
    char *buffers[2]; /* after -u */
    size_t block_bytes;
    void *handles[2];
    motetWindow_t windows[2];
    double *samples;
    struct perf_expected *expected;
    int shown;

    /* the measurement at hand */
    const struct perf_type *type;
    enum perf_op op;
    motetRedOp_t op_value;
    int root;
    struct perf_sizes sizes;
};

bool perf_run_reports(const struct perf_run *run)
{
    return run->team.process == 0;
}

static bool reports(const struct runner *runner)
{
    return runner->self.rank == 0;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* ---- buffers */

static bool fail_call(struct runner *runner, const char *what)
{
    return team_fail(&runner->self, "%s: %s", what, motetGetLastError(runner->self.comm));
}

static bool allocate(struct runner *runner)
{
    struct perf_run *run = runner->run;
    const struct perf_settings *settings = &run->settings;
    runner->block_bytes = (size_t)settings->max_bytes + (size_t)settings->unalign * 16 + GUARD_BYTES;
    runner->samples = calloc((size_t)settings->iterations, sizeof *runner->samples);
    runner->expected = calloc((size_t)run->team.nranks + 2, sizeof *runner->expected);
    if (!runner->samples || !runner->expected)
        return team_fail(&runner->self, "out of memory");
    for (int i = 0; i < 2; i++) {
        if (settings->registration) {
            if (motetMemAlloc(&runner->blocks[i], runner->block_bytes) != motetSuccess)
                return fail_call(runner, "motetMemAlloc");
        } else {
            runner->blocks[i] = mmap(NULL, runner->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (runner->blocks[i] == MAP_FAILED) {
                runner->blocks[i] = NULL;
                return team_fail(&runner->self, "cannot allocate a buffer of %zu bytes: %s", runner->block_bytes, strerror(errno));
            }
        }
        /* Pages that were never written are all the same one, which would make reading them look too fast. */
        memset(runner->blocks[i], 1, runner->block_bytes);
        if (settings->registration == 1 &&
            motetCommRegister(runner->self.comm, runner->blocks[i], runner->block_bytes, &runner->handles[i]) != motetSuccess)
            return fail_call(runner, "motetCommRegister");
        if (settings->registration == 2 && motetCommWindowRegister(runner->self.comm, runner->blocks[i], runner->block_bytes,
                                                                   &runner->windows[i], MOTET_WIN_COLL_SYMMETRIC) != motetSuccess)
            return fail_call(runner, "motetCommWindowRegister");
    }
    return true;
}

static void release(struct runner *runner)
{
    motetComm_t comm = runner->self.comm;
    for (int i = 0; i < 2; i++) {
        if (comm && runner->handles[i])
            motetCommDeregister(comm, runner->handles[i]);
        if (comm && runner->windows[i])
            motetCommWindowDeregister(comm, runner->windows[i]);
    }
    team_leave(&runner->self);
    for (int i = 0; i < 2; i++) {
        if (runner->run->settings.registration)
            motetMemFree(runner->blocks[i]);
        else if (runner->blocks[i])
            munmap(runner->blocks[i], runner->block_bytes);
    }
    free(runner->samples);
    free(runner->expected);
}

/* ---- one call */

/* Where a call reads and writes. `turn` moves through the buffers from call to call, so that caches are as warm as in a program. */
static void place_call(const struct runner *runner, bool in_place, int64_t turn, struct perf_call *call)
{
    const struct perf_sizes *sizes = &runner->sizes;
    size_t element = (size_t)runner->type->size;
    size_t larger = (sizes->send > sizes->recv ? sizes->send : sizes->recv) * element;
    size_t steps = larger ? (size_t)runner->run->settings.max_bytes / larger : 1;
    size_t shift = larger * ((size_t)turn % (steps ? steps : 1));
    size_t rank = (size_t)runner->self.rank;
    char *recv = runner->buffers[1] + shift;
    bool common = in_place && runner->run->settings.collective->in_place;
    *call = (struct perf_call){
        .send = common ? recv + rank * sizes->send_step * element : runner->buffers[0] + shift,
        .recv = common ? recv + rank * sizes->recv_step * element : recv,
        .count = sizes->param,
        .type = runner->type->type,
        .element_size = element,
        .op = runner->op_value,
        .root = runner->root < 0 ? 0 : runner->root,
        .rank = runner->self.rank,
        .nranks = runner->run->team.nranks,
        .comm = runner->self.comm,
        .stream = runner->self.stream,
    };
}

static bool complain(struct runner *runner, motetResult_t result)
{
    return team_fail(&runner->self, "%s of %zu %s elements: %s: %s", runner->run->settings.collective->name, runner->sizes.param,
                     runner->type->name, motetGetErrorString(result), motetGetLastError(runner->self.comm));
}

/* A call, or as many as -m says in one group. */
static bool call_once(struct runner *runner, bool in_place, int64_t turn)
{
    const struct perf_settings *settings = &runner->run->settings;
    motetResult_t result = motetSuccess;
    if (settings->aggregation > 1)
        result = motetGroupStart();
    for (int64_t i = 0; result == motetSuccess && i < settings->aggregation; i++) {
        struct perf_call call;
        place_call(runner, in_place, turn * settings->aggregation + i, &call);
        result = settings->collective->call(&call);
    }
    if (settings->aggregation > 1) {
        motetResult_t ended = motetGroupEnd();
        result = result != motetSuccess ? result : ended;
    }
    return result == motetSuccess || complain(runner, result);
}

static bool finish_calls(struct runner *runner)
{
    motetResult_t result = runner->self.stream ? motetStreamSynchronize(runner->self.stream) : motetSuccess;
    return result == motetSuccess || complain(runner, result);
}

/* All ranks begin together: first the threads wait for each other, then a barrier of the library, which nobody leaves late. */
static bool line_up(struct runner *runner)
{
    if (!finish_calls(runner) || !team_barrier(&runner->self))
        return false;
    motetResult_t result = motetBarrier(runner->self.comm, NULL);
    return result == motetSuccess || complain(runner, result);
}

/* ---- timing */

struct timing {
    double seconds; /* per call, of this rank */
    double launch;  /* per call, until the last call returned */
    double cpu;     /* per call, of this process */
};

static bool time_loop(struct runner *runner, bool in_place, bool stamped, bool synchronize, struct timing *timing)
{
    const struct perf_settings *settings = &runner->run->settings;
    int64_t calls = settings->iterations * settings->aggregation;
    if (!line_up(runner))
        return false;
    double cpu = cpu_now(), start = now();
    for (int64_t i = 0; i < settings->iterations; i++) {
        double begin = stamped ? now() : 0;
        if (!call_once(runner, in_place, i) || (synchronize && !finish_calls(runner)))
            return false;
        if (stamped)
            runner->samples[i] = (now() - begin) * 1e6 / (double)settings->aggregation;
        if (settings->blocking == 1 && (!finish_calls(runner) || motetBarrier(runner->self.comm, NULL) != motetSuccess))
            return complain(runner, motetRemoteError);
    }
    double launched = now();
    if (!finish_calls(runner))
        return false;
    if (settings->blocking == 3 && motetBarrier(runner->self.comm, NULL) != motetSuccess)
        return complain(runner, motetRemoteError);
    double end = now();
    *timing = (struct timing){(end - start) / (double)calls, (launched - start) / (double)calls, (cpu_now() - cpu) / (double)calls};
    return true;
}

static bool combine_samples(struct runner *runner, struct perf_half *half)
{
    struct perf_half mine = {0};
    const struct perf_settings *settings = &runner->run->settings;
    int64_t skip = settings->per_iteration_skip < settings->iterations ? settings->per_iteration_skip : settings->iterations - 1;
    perf_half_fill_samples(&mine, runner->samples + skip, (size_t)(settings->iterations - skip));
    return team_combine(&runner->self, mine.min, TEAM_MIN, &half->min) &&
           team_combine(&runner->self, mine.p50, TEAM_MAX, &half->p50) &&
           team_combine(&runner->self, mine.p99, TEAM_MAX, &half->p99) &&
           team_combine(&runner->self, mine.max, TEAM_MAX, &half->max) &&
           team_combine(&runner->self, mine.spread, TEAM_MAX, &half->spread);
}

static bool measure(struct runner *runner, bool in_place, struct perf_half *half)
{
    const struct perf_settings *settings = &runner->run->settings;
    struct team *team = &runner->run->team;
    struct timing timing, second;
    double seconds, cpu;
    size_t larger = runner->sizes.send > runner->sizes.recv ? runner->sizes.send : runner->sizes.recv;
    /* The same decision on all ranks. Reading the clock would show in times of small calls: those are timed singly afterwards. */
    bool stamped = larger * (size_t)runner->type->size >= STAMPED_BYTES && !runner->self.stream;
    bool singly = !stamped && (!settings->no_latency || settings->per_iteration);
    if (!call_once(runner, in_place, 0) || !time_loop(runner, in_place, stamped, false, &timing))
        return false;
    if (singly && !time_loop(runner, in_place, true, true, &second))
        return false;
    if (!team_combine(&runner->self, settings->cpu_time ? timing.launch : timing.seconds, (enum team_mode)settings->average,
                      &seconds) ||
        !team_combine(&runner->self, timing.cpu, TEAM_MEAN, &cpu))
        return false;
    if ((stamped || singly) && !combine_samples(runner, half))
        return false;
    struct bandwidth bandwidth =
        bandwidth_of(settings->collective->kind, runner->sizes.param, (size_t)runner->type->size, team->nranks, seconds);
    half->time = seconds * 1e6;
    half->algbw = bandwidth.algorithm;
    half->busbw = bandwidth.bus;
    half->cpu = cpu * 1e6 / team->nlocal;
    return true;
}

/* ---- checking */

static void show_wrong(struct runner *runner, const struct perf_expected *part, const void *recv, size_t where, bool in_place)
{
    const struct perf_type *type = runner->type;
    char right[16] = {0};
    if (runner->shown++ >= WRONG_SHOWN)
        return;
    pattern_fill(&runner->run->pattern, part->source, part->first + where, 1, right);
    const char *got = (const char *)recv + (part->at + where) * (size_t)type->size;
    fprintf(stderr, "# wrong: rank %d, %s of %zu %s elements, %s: element %zu is %.17g, not %.17g\n", runner->self.rank,
            runner->run->settings.collective->name, runner->sizes.param, type->name, in_place ? "in place" : "out of place",
            part->at + where, perf_type_decode(type, got), perf_type_decode(type, right));
}

/* In place: what the call reads but must not write, beside the output. */
static int untouched_parts(const struct runner *runner, struct perf_expected *parts)
{
    const struct perf_sizes *sizes = &runner->sizes;
    size_t begin = (size_t)runner->self.rank * sizes->recv_step, end = begin + sizes->recv;
    if (!sizes->recv_step)
        return 0;
    parts[0] = (struct perf_expected){.at = 0, .count = begin, .source = runner->self.rank};
    parts[1] = (struct perf_expected){.at = end, .count = sizes->send - end, .source = runner->self.rank, .first = end};
    return 2;
}

static int64_t check_parts(struct runner *runner, const void *base, const struct perf_expected *parts, int n, bool in_place)
{
    int64_t wrong = 0;
    for (int i = 0; i < n; i++) {
        size_t where = 0;
        const char *at = (const char *)base + parts[i].at * (size_t)runner->type->size;
        int64_t count = pattern_check(&runner->run->pattern, parts[i].source, parts[i].first, parts[i].count, at, &where);
        if (count < 0)
            return -1;
        if (count)
            show_wrong(runner, &parts[i], base, where, in_place);
        wrong += count;
    }
    return wrong;
}

static int64_t check_guard(const char *end)
{
    int64_t changed = 0;
    char poison;
    memset(&poison, PATTERN_POISON_BYTE, 1);
    for (int i = 0; i < CHECKED_GUARD; i++)
        changed += end[i] != poison;
    return changed;
}

/* Fresh inputs, poisoned outputs, one call, then every element is compared. */
static bool check_call(struct runner *runner, bool in_place, int64_t *wrong, int64_t *outside)
{
    struct perf_run *run = runner->run;
    struct perf_call call;
    const struct perf_sizes *sizes = &runner->sizes;
    size_t element = (size_t)runner->type->size;
    size_t larger = sizes->send > sizes->recv ? sizes->send : sizes->recv;
    bool common = in_place && run->settings.collective->in_place;
    struct perf_expected untouched[2];
    place_call(runner, in_place, 0, &call);
    char *base = runner->buffers[1];
    memset(base, PATTERN_POISON_BYTE, larger * element + CHECKED_GUARD);
    if (!pattern_fill(&run->pattern, runner->self.rank, 0, sizes->send, (void *)(uintptr_t)call.send))
        return team_fail(&runner->self, "out of memory");
    if (!line_up(runner))
        return false;
    motetResult_t result = run->settings.collective->call(&call);
    if (result != motetSuccess)
        return complain(runner, result);
    if (!finish_calls(runner))
        return false;
    int n = run->settings.collective->expect(sizes, runner->self.rank, run->team.nranks, call.root, common, runner->expected);
    int64_t found = check_parts(runner, call.recv, runner->expected, n, in_place);
    int64_t beside = common ? check_parts(runner, base, untouched, untouched_parts(runner, untouched), true) : 0;
    if (found < 0 || beside < 0)
        return team_fail(&runner->self, "out of memory");
    *wrong += found + beside;
    *outside += check_guard(base + larger * element);
    /* An input must not have been written either. */
    if (!common)
        *outside += pattern_check(&run->pattern, runner->self.rank, 0, sizes->send, call.send, &(size_t){0});
    return true;
}

static bool check(struct runner *runner, bool in_place, struct perf_half *half)
{
    const struct perf_settings *settings = &runner->run->settings;
    int64_t wrong = 0, outside = 0;
    double wrong_sum, outside_sum;
    half->wrong = -1;
    if (!settings->checks)
        return true;
    for (int64_t i = 0; i < settings->checks; i++)
        if (!check_call(runner, in_place, &wrong, &outside))
            return false;
    if (!team_combine(&runner->self, (double)wrong, TEAM_SUM, &wrong_sum) ||
        !team_combine(&runner->self, (double)outside, TEAM_SUM, &outside_sum))
        return false;
    if (!in_place || settings->collective->in_place)
        half->wrong = (int64_t)wrong_sum;
    if (reports(runner))
        runner->run->out_of_bounds += (int64_t)(wrong_sum + outside_sum);
    return true;
}

/* ---- the sweep */

static void set_size(struct runner *runner, size_t bytes)
{
    runner->run->settings.collective->divide(bytes / (size_t)runner->type->size, (size_t)runner->type->size,
                                             runner->run->team.nranks, &runner->sizes);
}

static void show_progress(const struct runner *runner, size_t bytes)
{
    if (reports(runner) && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO))
        fprintf(stderr, "\r%s: %s %s, %zu of %lld bytes\033[K", runner->run->settings.collective->name, runner->type->name,
                perf_op_name(runner->op), bytes, (long long)runner->run->settings.max_bytes);
}

static bool run_size(struct runner *runner, size_t bytes)
{
    struct perf_run *run = runner->run;
    size_t element = (size_t)runner->type->size;
    struct perf_row local = {0}, *row = &local;
    set_size(runner, bytes);
    show_progress(runner, bytes);
    if (reports(runner) && !(row = perf_results_add(&run->results)))
        return team_fail(&runner->self, "out of memory");
    size_t larger = runner->sizes.send > runner->sizes.recv ? runner->sizes.send : runner->sizes.recv;
    *row = (struct perf_row){.size = larger * element,
                             .count = runner->sizes.param,
                             .type = runner->type->name,
                             .op = perf_op_name(runner->op),
                             .root = runner->root};
    if (reports(runner))
        perf_table_row_begin(row);
    for (int half = 0; half < 2; half++) {
        if (!measure(runner, half, &row->half[half]) || !check(runner, half, &row->half[half]))
            return false;
        row->half[half].ratio = perf_baseline_ratio(&run->baseline, row, half);
        if (reports(runner))
            perf_table_row_half(&run->settings, &row->half[half]);
    }
    if (reports(runner))
        perf_table_row_end(&run->settings);
    return true;
}

static bool warm_up(struct runner *runner)
{
    const struct perf_settings *settings = &runner->run->settings;
    const int64_t sizes[2] = {settings->max_bytes, settings->min_bytes};
    for (int i = 0; i < 2; i++) {
        set_size(runner, (size_t)sizes[i]);
        for (int64_t turn = 0; turn < settings->warmups; turn++)
            if (!call_once(runner, false, turn) || !call_once(runner, true, turn))
                return false;
        if (!finish_calls(runner))
            return false;
    }
    return true;
}

static bool prepare_op(struct runner *runner)
{
    char scalar[16] = {0};
    const struct perf_type *type = runner->type;
    runner->op_value = perf_op_value(runner->op);
    if (runner->op != PERF_MULSUM)
        return true;
    int factor = pattern_scalar(runner->self.rank);
    union perf_number number = {.u = (uint64_t)factor};
    if (type->class == PERF_FLOAT)
        number.f = factor;
    perf_type_encode(type, number, scalar); /* a complex scalar has the imaginary part 0 */
    return motetRedOpCreatePreMulSum(&runner->op_value, scalar, type->type, motetScalarHostImmediate, runner->self.comm) ==
               motetSuccess ||
           fail_call(runner, "motetRedOpCreatePreMulSum");
}

/* One local rank prepares the data that all share. */
static bool prepare_pattern(struct runner *runner)
{
    struct perf_run *run = runner->run;
    if (!team_barrier(&runner->self))
        return false;
    if (runner->self.local == 0 && !pattern_prepare(&run->pattern, runner->type, runner->op, run->team.nranks,
                                                    (size_t)run->settings.max_bytes / (size_t)runner->type->size))
        return team_fail(&runner->self, "out of memory");
    if (!team_barrier(&runner->self))
        return false;
    size_t count = (size_t)run->settings.max_bytes / (size_t)runner->type->size;
    return pattern_fill(&run->pattern, runner->self.rank, 0, count, runner->buffers[0]) ||
           team_fail(&runner->self, "out of memory");
}

static bool sweep(struct runner *runner)
{
    const struct perf_settings *settings = &runner->run->settings;
    for (int i = 0; i < 2; i++)
        runner->buffers[i] = (char *)runner->blocks[i] + settings->unalign * runner->type->size;
    if (!prepare_pattern(runner) || !prepare_op(runner) || !warm_up(runner))
        return false;
    for (int64_t bytes = settings->min_bytes; bytes <= settings->max_bytes;) {
        if (!run_size(runner, (size_t)bytes))
            return false;
        if (settings->collective->kind == PERF_BARRIER || (settings->step_factor <= 1 && settings->step_bytes == 0))
            break;
        bytes = settings->step_factor > 1 && bytes ? bytes * settings->step_factor : bytes + settings->step_bytes;
    }
    if (runner->op == PERF_MULSUM && motetRedOpDestroy(runner->op_value, runner->self.comm) != motetSuccess)
        return fail_call(runner, "motetRedOpDestroy");
    return true;
}

static bool sweep_roots(struct runner *runner)
{
    const struct perf_settings *settings = &runner->run->settings;
    int first = settings->root < 0 ? 0 : settings->root, last = settings->root < 0 ? runner->run->team.nranks - 1 : settings->root;
    runner->root = -1;
    if (!settings->collective->rooted)
        return sweep(runner);
    for (int root = first; root <= last; root++) {
        runner->root = root;
        if (!sweep(runner))
            return false;
    }
    return true;
}

static bool sweep_ops(struct runner *runner)
{
    const struct perf_settings *settings = &runner->run->settings;
    runner->op = PERF_COPY;
    if (!settings->collective->reduces)
        return sweep_roots(runner);
    for (int op = 0; op < PERF_OPS; op++) {
        if ((settings->op >= 0 && op != settings->op) || !perf_op_fits((enum perf_op)op, runner->type))
            continue;
        runner->op = (enum perf_op)op;
        if (!sweep_roots(runner))
            return false;
    }
    return true;
}

static bool one_cycle(struct runner *runner)
{
    struct perf_run *run = runner->run;
    if (reports(runner))
        run->results.n = 0;
    for (int type = 0; type < perf_ntypes; type++) {
        if (run->settings.type >= 0 && type != run->settings.type)
            continue;
        runner->type = &perf_types[type];
        if (!sweep_ops(runner))
            return false;
    }
    if (reports(runner) && !run->settings.no_latency)
        perf_table_latencies(&run->settings, &run->results);
    return true;
}

static void *rank_main(void *context)
{
    struct runner *runner = context;
    struct perf_run *run = runner->run;
    bool ok = team_join(&runner->self);
    if (ok && reports(runner)) {
        perf_table_header(&run->settings, &run->team);
        perf_table_columns(&run->settings);
    }
    if (ok && run->settings.stream && motetStreamCreate(&runner->self.stream) != motetSuccess)
        ok = fail_call(runner, "motetStreamCreate");
    ok = ok && allocate(runner);
    for (int64_t cycle = 0; ok && (run->settings.cycles == 0 || cycle < run->settings.cycles); cycle++)
        ok = one_cycle(runner);
    if (ok)
        team_barrier(&runner->self);
    release(runner);
    return NULL;
}

bool perf_run_ranks(struct perf_run *run)
{
    int n = run->team.nlocal;
    struct runner *runners = calloc((size_t)n, sizeof *runners);
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    int started = 0;
    for (; runners && threads && started < n; started++) {
        runners[started].run = run;
        runners[started].self = (struct team_rank){.team = &run->team, .local = started, .rank = run->team.process * n + started};
        if (pthread_create(&threads[started], NULL, rank_main, &runners[started])) {
            team_fail(&runners[started].self, "cannot start a thread: %s", strerror(errno));
            break;
        }
    }
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(runners);
    free(threads);
    return started == n && !run->team.failed;
}
