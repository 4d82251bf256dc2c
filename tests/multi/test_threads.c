/* SPDX-License-Identifier: Apache-2.0
 * Threads and crowds: one call at a time per communicator, different communicators in parallel, and more ranks than cores. */
#include "probe.h"

#include <stdatomic.h>

static const struct world worlds[] = {
    {WORLD_PROCESSES, 2, {NULL}, 0, 0},
    {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0},
    {WORLD_THREADS, 2, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(world_run(&worlds[i], function, NULL), 0);
}

struct caller {
    motetComm_t comm;
    int rank, rounds, failed;
    _Atomic(int) entered;
};

static void *call_once(void *pointer)
{
    struct caller *self = pointer;
    int64_t mine = self->rank + 1, sum = 0;
    self->entered = 1;
    self->failed = motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, self->comm, NULL) != motetSuccess || sum != 3;
    return NULL;
}

/* Rank 0's first thread is inside a call; the second is refused and disturbs nothing. */
static int second_caller(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct caller caller = {.comm = comm, .rank = rank};
    pthread_t thread;
    motetResult_t state;
    (void)argument, (void)nranks;
    if (rank == 1)
        world_sleep_ms(400);
    CHECK(pthread_create(&thread, NULL, call_once, &caller) == 0);
    if (rank == 0) {
        while (!caller.entered)
            world_sleep_ms(1);
        world_sleep_ms(100);
        EXPECT(motetInvalidUsage, motetBarrier(comm, NULL));
        CHECK(strstr(motetGetLastError(NULL), "thread") != NULL);
        CALL(motetCommGetAsyncError(comm, &state));
        CHECK(state == motetSuccess);
    }
    pthread_join(thread, NULL);
    CHECK(!caller.failed);
    return probe(comm, 1);
}

static void test_threads_second_caller_is_refused(void **state)
{
    (void)state;
    run_everywhere(second_caller);
}

static void *call_many(void *pointer)
{
    struct caller *self = pointer;
    for (int i = 0; i < self->rounds && !self->failed; i++)
        self->failed = probe(self->comm, i);
    return NULL;
}

/* Threads of one rank, each with a communicator of its own, all at once. */
static int parallel(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { THREADS = 6 };
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    (void)argument, (void)nranks;
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.rank = rank, .rounds = 100};
        CALL(motetCommSplit(comm, 0, rank, &callers[i].comm, NULL));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, call_many, &callers[i]) == 0);
    CHECK(probe(comm, 77) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!callers[i].failed);
        CALL(motetCommDestroy(callers[i].comm));
    }
    return 0;
}

static void test_threads_drive_communicators_in_parallel(void **state)
{
    (void)state;
    run_everywhere(parallel);
}

static int crowd(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t mine[128], sum[128];
    (void)argument;
    for (int round = 0; round < 200; round++) {
        probe_fill(mine, 128, rank, round);
        CALL(motetAllReduce(mine, sum, 128, motetInt64, motetSum, comm, NULL));
        CHECK(probe_is_sum(sum, 128, nranks, round));
    }
    return 0;
}

/* 200 all-reduces of 1 KB with up to 16 ranks: time may grow with the ranks, but no rank waits a time slice per call. */
static void test_threads_more_ranks_than_cores_make_no_cliff(void **state)
{
    (void)state;
    for (int kind = WORLD_PROCESSES; kind <= WORLD_THREADS; kind++) {
        for (int nranks = 2; nranks <= 16; nranks *= 2) {
            double start = world_now();
            assert_int_equal(world_run(&(struct world){.kind = kind, .nranks = nranks}, crowd, NULL), 0);
            double took = world_now() - start;
            printf("%d ranks as %s: %.3f s\n", nranks, kind == WORLD_THREADS ? "threads" : "processes", took);
            assert_true(took < 0.5 + 0.25 * nranks);
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_second_caller_is_refused),
        cmocka_unit_test(test_threads_drive_communicators_in_parallel),
        cmocka_unit_test(test_threads_more_ranks_than_cores_make_no_cliff),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
