/* SPDX-License-Identifier: Apache-2.0
 * Counters, stragglers and memory through the public interface. Times on a busy machine are what they are, so only what must hold is
 * checked: counts and bytes exactly, times against each other, and a late rank by name. */
/* test: serial */
#include <sched.h>
#include <sys/resource.h>

#include "world.h"

#define CALL_SECONDS 12.0

/* ---- Counting ---- */

static int counts(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static _Thread_local float a[65536], b[65536 * 4];
    motetCommStats_t stats = {.size = sizeof stats};
    (void)argument;
    for (int i = 0; i < 65536; i++)
        a[i] = (float)(rank + i);
    for (int i = 0; i < 100; i++)
        CALL(motetAllReduce(a, b, 16, motetFloat32, motetSum, comm, NULL)); /* 64 bytes */
    for (int i = 0; i < 30; i++)
        CALL(motetAllReduce(a, b, 17, motetFloat32, motetSum, comm, NULL));
    for (int i = 0; i < 7; i++)
        CALL(motetAllGather(a, b, 65536, motetFloat32, comm, NULL));
    CALL(motetAllReduce(a, b, 0, motetFloat32, motetSum, comm, NULL));
    CALL(motetGroupStart());
    CALL(motetSend(a, 300, motetFloat32, (rank + 1) % nranks, comm, NULL));
    CALL(motetRecv(b, 300, motetFloat32, (rank + nranks - 1) % nranks, comm, NULL));
    CALL(motetGroupEnd());
    CALL(motetCommStats(comm, &stats));
    CHECK(stats.calls[motetStatsAllReduce][0] == 101 && stats.bytes[motetStatsAllReduce][0] == 6400);
    CHECK(stats.calls[motetStatsAllReduce][1] == 30 && stats.bytes[motetStatsAllReduce][1] == 30 * 68);
    int class = nranks * 262144 <= 262144 ? 3 : 4;
    CHECK(stats.calls[motetStatsAllGather][class] == 7);
    CHECK(stats.bytes[motetStatsAllGather][class] == 7ull * 262144 * (uint64_t)nranks);
    CHECK(stats.calls[motetStatsSend][2] == 1 && stats.bytes[motetStatsSend][2] == 1200);
    CHECK(stats.calls[motetStatsRecv][2] == 1 && stats.bytes[motetStatsRecv][2] == 1200);
    CHECK(stats.timeNs == stats.waitNs + stats.moveNs + stats.reduceNs && stats.streamTimeNs == 0);
    CHECK(stats.timeNs > 0 && stats.waitLateNs <= stats.waitNs);
    uint64_t moved = 0;
    for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++)
        moved += stats.receivedBytes[t];
    CHECK(moved >= 7ull * 262144 * (uint64_t)(nranks - 1) + 1200); /* all blocks of the all-gathers come from others */
    return 0;
}

static void test_stats_calls_and_bytes_are_exact(void **state)
{
    (void)state;
    struct world worlds[] = {{.kind = WORLD_PROCESSES, .nranks = 2},
                             {.kind = WORLD_THREADS, .nranks = 4},
                             {.kind = WORLD_PROCESSES, .nranks = 3, .per_host = 1}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        assert_int_equal(world_run(&worlds[i], counts, NULL), 0);
}

static int arguments(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetCommStats_t stats = {.size = 0};
    uint64_t value;
    (void)rank, (void)nranks, (void)argument;
    EXPECT(motetInvalidArgument, motetCommStats(comm, &stats));
    EXPECT(motetInvalidArgument, motetCommStats(comm, NULL));
    stats = (motetCommStats_t){.size = offsetof(motetCommStats_t, bytes), .blockedNs = 4711};
    CALL(motetCommStats(comm, &stats));
    CHECK(stats.blockedNs == 4711); /* an older program's structure is not written beyond its end */
    EXPECT(motetInvalidArgument, motetCommMemStats(comm, (motetCommMemStat_t)10, &value));
    EXPECT(motetInvalidArgument, motetCommMemStats(comm, motetStatMemTotal, NULL));
    EXPECT(motetInvalidArgument, motetStepMark(NULL));
    CALL(motetStepMark(comm));
    return 0;
}

static void test_stats_bad_arguments_are_refused(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    assert_int_equal(world_run(&world, arguments, NULL), 0);
}

/* ---- Streams: what nobody waits for is overlapped ---- */

static int on_streams(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static float a[1 << 20], b[1 << 20];
    motetStream_t stream;
    motetCommStats_t before = {.size = sizeof before}, stats = before;
    (void)rank, (void)nranks, (void)argument;
    CALL(motetCommStats(comm, &before)); /* creation was the caller's time */
    CALL(motetStreamCreate(&stream));
    for (int i = 0; i < 20; i++)
        CALL(motetAllReduce(a, b, 1 << 20, motetFloat32, motetSum, comm, stream));
    while (motetStreamQuery(stream) == motetInProgress)
        world_sleep_ms(1);
    CALL(motetCommStats(comm, &stats));
    CHECK(stats.streamTimeNs > 0 && stats.blockedNs == 0);
    CHECK(stats.timeNs - stats.streamTimeNs == before.timeNs);
    CHECK(stats.reduceNs > 0);
    for (int i = 0; i < 20; i++)
        CALL(motetAllReduce(a, b, 1 << 20, motetFloat32, motetSum, comm, stream));
    CALL(motetStreamSynchronize(stream));
    CALL(motetCommStats(comm, &stats));
    CHECK(stats.blockedNs > 0);
    CALL(motetStreamDestroy(stream));
    return 0;
}

static void test_stats_streams_tell_what_callers_waited_for(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    assert_int_equal(world_run(&world, on_streams, NULL), 0);
}

/* ---- Stragglers ---- */

struct trial {
    int late; /* rank, -1: nobody */
    int us;   /* by so much, computing; negative: sleeping */
};

static void spend(int us)
{
    double end = world_now() + us * 1e-6;
    while (world_now() < end)
        continue;
}

/* Calls until this rank knows what is expected, or the time is over; all ranks stop together. */
static int straggle(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct trial *trial = argument;
    motetCommStats_t stats = {.size = sizeof stats};
    double end = world_now() + CALL_SECONDS;
    int32_t go_on = 1;
    float a = (float)rank, b;
    (void)nranks;
    while (go_on) {
        for (int i = 0; i < 500; i++) {
            if (rank == trial->late && trial->us > 0)
                spend(trial->us);
            if (rank == trial->late && trial->us < 0)
                usleep((unsigned)-trial->us);
            CALL(motetAllReduce(&a, &b, 1, motetFloat32, motetSum, comm, NULL));
        }
        CALL(motetCommStats(comm, &stats));
        bool known = stats.compared >= 40 && stats.lateRank == trial->late && stats.lateCause != motetLateUnknown;
        int32_t mine = !known && world_now() < end;
        CALL(motetAllReduce(&mine, &go_on, 1, motetInt32, motetMax, comm, NULL));
    }
    CALL(motetCommStats(comm, &stats));
    fprintf(stderr, "rank %d: late %d, cause %d, share %.2f of %llu, saved %.2f, p50 %.1f us, p99 %.1f us\n", rank, stats.lateRank,
            stats.lateCause, stats.lateShare, (unsigned long long)stats.compared, stats.lateSaved, (double)stats.lateP50Ns / 1e3,
            (double)stats.lateP99Ns / 1e3);
    CHECK(stats.compared >= 40);
    CHECK(stats.lateRank == trial->late);
    if (trial->late < 0)
        CHECK(stats.lateCause == motetLateNobody);
    else if (trial->us > 0) /* where other programs keep it from running, that is the cause, and true */
        CHECK(stats.lateCause == motetLateComputing || stats.lateCause == motetLateNotRunning);
    else
        CHECK(stats.lateCause == motetLateSleeping);
    if (trial->late >= 0)
        CHECK(stats.lateP50Ns >= 2000 && stats.lateP99Ns >= stats.lateP50Ns && stats.lateSaved >= 0.1);
    return 0;
}

static void test_stats_rank_delayed_in_each_call_is_named(void **state)
{
    (void)state;
    static const struct trial trials[] = {{1, 50}, {0, 300}, {1, -2000}};
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        for (int n = 2; n <= 3; n++) {
            struct world world = {.kind = WORLD_PROCESSES, .nranks = n};
            assert_int_equal(world_run(&world, straggle, &trials[i]), 0);
        }
}

static void test_stats_eight_equal_ranks_name_nobody(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 8};
    assert_int_equal(world_run(&world, straggle, &(struct trial){.late = -1}), 0);
}

/* One CPU, and a program that loops there; rank 1 is the nicest. */
static int starve(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetCommStats_t stats = {.size = sizeof stats};
    double end = world_now() + 5 * CALL_SECONDS;
    cpu_set_t cpu;
    int32_t go_on = 1;
    static float a[65536], b[65536]; /* so large that each call is timed */
    pid_t busy = 0;
    (void)argument;
    if (rank == 1) {
        CPU_ZERO(&cpu);
        CPU_SET(0, &cpu);
        CHECK(sched_setaffinity(0, sizeof cpu, &cpu) == 0);
        busy = fork();
        if (busy == 0)
            for (;;)
                continue;
        CHECK(busy > 0 && setpriority(PRIO_PROCESS, 0, 19) == 0);
    }
    while (go_on) {
        for (int i = 0; i < 5; i++) {
            for (volatile int work = 0; work < 5000000; work++) /* everybody has the same */
                continue;
            CALL(motetAllReduce(a, b, 65536, motetFloat32, motetSum, comm, NULL));
        }
        CALL(motetCommStats(comm, &stats));
        bool known = stats.compared >= 20 && stats.lateRank == 1 && stats.lateCause == motetLateNotRunning;
        int32_t mine = !known && world_now() < end;
        CALL(motetAllReduce(&mine, &go_on, 1, motetInt32, motetMax, comm, NULL));
    }
    CALL(motetCommStats(comm, &stats));
    if (busy > 0) {
        kill(busy, SIGKILL);
        waitpid(busy, NULL, 0);
    }
    fprintf(stderr, "rank %d of %d: late %d, cause %d, share %.2f of %llu, saved %.2f\n", rank, nranks, stats.lateRank,
            stats.lateCause, stats.lateShare, (unsigned long long)stats.compared, stats.lateSaved);
    CHECK(stats.lateRank == 1 && stats.lateCause == motetLateNotRunning);
    return 0;
}

static void test_stats_rank_that_gets_no_cpu_is_named(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2, .timeout_s = 120};
    assert_int_equal(world_run(&world, starve, NULL), 0);
}

/* ---- Memory ---- */

static int memory(motetComm_t comm, int rank, int nranks, const void *argument)
{
    uint64_t sum = 0, value, before, total, resident;
    void *buffer, *handle;
    static float a[4096], b[4096];
    (void)rank, (void)nranks, (void)argument;
    for (int part = motetStatMemStaging; part <= motetStatMemSockets; part++) {
        CALL(motetCommMemStats(comm, (motetCommMemStat_t)part, &value));
        sum += value;
    }
    CALL(motetCommMemStats(comm, motetStatMemTotal, &total));
    CHECK(total == sum);
    CALL(motetCommMemStats(comm, motetStatMemStaging, &value));
    CHECK(value == 2u << 20); /* two lanes of MOTET_BUFFSIZE */
    CALL(motetAllReduce(a, b, 4096, motetFloat32, motetSum, comm, NULL));
    CALL(motetCommMemStats(comm, motetStatMemSchedules, &value));
    CHECK(value > 0);
    CALL(motetCommMemStats(comm, motetStatMemResident, &resident));
    CHECK(resident > 0 && resident <= total);
    CALL(motetMemAlloc(&buffer, 12345));
    CALL(motetCommMemStats(comm, motetStatMemRegistrations, &before));
    CALL(motetCommRegister(comm, buffer, 12345, &handle));
    CALL(motetCommMemStats(comm, motetStatMemRegistrations, &value));
    CHECK(before == 0 && value == 12345);
    CALL(motetCommDeregister(comm, handle));
    CALL(motetCommMemStats(comm, motetStatMemRegistrations, &value));
    CHECK(value == 0);
    CALL(motetMemFree(buffer));
    return 0;
}

static void test_stats_memory_by_what_it_is_for(void **state)
{
    (void)state;
    struct world here = {.kind = WORLD_PROCESSES, .nranks = 2, .environment = {"MOTET_BUFFSIZE=1M", "MOTET_NCHANNELS=2"}};
    struct world apart = here;
    apart.per_host = 1;
    assert_int_equal(world_run(&here, memory, NULL), 0);
    assert_int_equal(world_run(&apart, memory, NULL), 0);
}

/* The address space is limited when the second communicator is made: the error says what there is and what lowers it. */
static int short_of_memory(motetComm_t comm, int rank, int nranks, const void *argument)
{
    char line[256] = "", *table = NULL;
    size_t len = 0;
    unsigned long pages = 0;
    struct rlimit limit;
    motetComm_t child = NULL;
    int out[2], saved = dup(STDERR_FILENO);
    (void)nranks, (void)argument;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fgets(line, sizeof line, statm) && sscanf(line, "%lu", &pages) == 1 && fclose(statm) == 0);
    limit = (struct rlimit){pages * 4096 + (1 << 20), RLIM_INFINITY};
    CHECK(pipe(out) == 0 && dup2(out[1], STDERR_FILENO) >= 0);
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    motetResult_t result = motetCommSplit(comm, 0, rank, &child, NULL);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    dup2(saved, STDERR_FILENO);
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    CHECK(said && getdelim(&table, &len, '\0', said) > 0);
    CHECK(result == motetSystemError || result == motetRemoteError);
    CHECK(strstr(motetGetLastError(NULL), "MOTET_BUFFSIZE") || result == motetRemoteError);
    CHECK(strstr(table, "memory of comm") && strstr(table, "staging") && strstr(table, "lowered by MOTET_BUFFSIZE"));
    fclose(said);
    free(table);
    return WORLD_ABORTED;
}

static void test_stats_allocation_that_fails_says_what_lowers_it(void **state)
{
    (void)state;
    if (WORLD_SANITIZED)
        skip(); /* shadow memory needs the address space */
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2, .per_host = 1, .environment = {"MOTET_BUFFSIZE=64M"}};
    assert_int_equal(world_run(&world, short_of_memory, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats_calls_and_bytes_are_exact),
        cmocka_unit_test(test_stats_bad_arguments_are_refused),
        cmocka_unit_test(test_stats_streams_tell_what_callers_waited_for),
        cmocka_unit_test(test_stats_rank_delayed_in_each_call_is_named),
        cmocka_unit_test(test_stats_eight_equal_ranks_name_nobody),
        cmocka_unit_test(test_stats_rank_that_gets_no_cpu_is_named),
        cmocka_unit_test(test_stats_memory_by_what_it_is_for),
        cmocka_unit_test(test_stats_allocation_that_fails_says_what_lowers_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
