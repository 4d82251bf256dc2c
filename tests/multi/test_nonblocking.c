/* SPDX-License-Identifier: Apache-2.0
 * Communicators that do not block: what they return at once, and how their state is found out. And abort, which wakes every thread, wherever
 * it is: in init, in a group, in a wait for a stream, in finalize, in a creation in the background. */
/* test: slow idle timeout=600 */
#include <stdatomic.h>

#include "survivors.h"

/* Polls until the state is no longer motetInProgress. */
static motetResult_t settled(motetComm_t comm)
{
    motetResult_t state = motetInProgress;
    while (motetCommGetAsyncError(comm, &state) == motetSuccess && state == motetInProgress)
        world_sleep_ms(1);
    return state;
}

static motetConfig_t nonblocking(void)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
}

/* ---- Everything in the background, on one parent ---- */

static int all_kinds(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = nonblocking();
    motetComm_t split = NULL, none = NULL, fewer = NULL;
    int excluded[] = {nranks - 1};
    (void)argument;
    EXPECT(motetInProgress, motetCommSplit(comm, 0, -rank, &split, &config));
    CHECK(split && settled(split) == motetSuccess && settled(comm) == motetSuccess);
    CHECK(probe(comm, 1) == 0 && probe(split, 2) == 0);
    EXPECT(motetInProgress, motetCommSplit(comm, rank == 0 ? MOTET_SPLIT_NOCOLOR : 0, 0, &none, &config));
    CHECK((none == NULL) == (rank == 0));
    CHECK(settled(comm) == motetSuccess);
    CHECK(probe(comm, 3) == 0);
    if (none) {
        CHECK(settled(none) == motetSuccess);
        CHECK(probe(none, 4) == 0);
        EXPECT(motetInProgress, motetCommFinalize(none)); /* it inherited nothing: config said so */
        CHECK(settled(none) == motetSuccess);
        CALL(motetCommDestroy(none));
    }
    if (rank != nranks - 1) {
        EXPECT(motetInProgress, motetCommShrink(comm, excluded, 1, &fewer, &config, MOTET_SHRINK_DEFAULT));
        CHECK(settled(fewer) == motetSuccess && settled(comm) == motetSuccess);
        CHECK(survivors_judge(fewer) == 0);
        EXPECT(motetInProgress, motetCommFinalize(fewer));
        CALL(motetCommDestroy(fewer)); /* waits for it */
    }
    CHECK(probe(split, 5) == 0);
    CALL(motetCommDestroy(split));
    return probe(comm, 6);
}

static void test_nonblocking_split_shrink_and_finalize(void **state)
{
    (void)state;
    survivors_run(all_kinds, NULL, 0);
}

/* Init and grow, in a group and outside. One thread drives the inits of all ranks without a group: nothing blocks. */
static int grow_in_background(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    motetConfig_t config = nonblocking();
    motetComm_t comms[4] = {NULL}, grown[4] = {NULL};
    motetUniqueId id;
    (void)unused, (void)unused_rank, (void)argument;
    CALL(motetGetUniqueId(&id));
    for (int r = 0; r < 3; r++)
        EXPECT(motetInProgress, motetCommInitRankConfig(&comms[r], 3, id, r, &config));
    for (int r = 0; r < 3; r++)
        CHECK(settled(comms[r]) == motetSuccess);
    CALL(motetCommGetUniqueId(comms[1], &id));
    CALL(motetGroupStart());
    for (int r = 0; r < 3; r++)
        CALL(motetCommGrow(comms[r], nranks, r == 1 ? &id : NULL, -1, &grown[r], NULL));
    EXPECT(motetInProgress, motetGroupEnd());
    EXPECT(motetInProgress, motetCommGrow(NULL, nranks, &id, 3, &grown[3], &config));
    for (int r = 0; r < nranks; r++)
        CHECK(settled(grown[r]) == motetSuccess);
    int64_t mine[4], sum[4] = {0};
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++) {
        mine[r] = probe_value(r, 1, 1);
        CALL(motetAllReduce(&mine[r], &sum[r], 1, motetInt64, motetSum, grown[r], NULL));
    }
    CALL(motetGroupEnd()); /* operations are complete when it returns, whatever the communicators */
    for (int r = 0; r < nranks; r++)
        CHECK(sum[r] == probe_sum(nranks, 1, 1));
    CALL(motetCommRevoke(grown[2], 0)); /* nothing ran: over at once */
    for (int r = 0; r < nranks; r++)
        (void)motetCommDestroy(grown[r]);
    for (int r = 0; r < 3; r++)
        CALL(motetCommDestroy(comms[r]));
    return 0;
}

static void test_nonblocking_init_and_grow_by_one_thread(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_ALONE, 4, {NULL}, 60, 0}, grow_in_background, NULL), 0);
}

/* A creation in the background fails: the handle says why, and the parent is free. */
static int fails_in_background(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = nonblocking();
    motetComm_t child = NULL;
    int excluded[] = {0};
    (void)nranks, (void)argument;
    config.initTimeoutMs = 1500;
    if (rank == 1) {
        EXPECT(motetInProgress, motetCommShrink(comm, excluded, 1, &child, &config, 0));
        EXPECT(motetInvalidUsage, motetBarrier(comm, NULL)); /* the parent is in use */
        CHECK(settled(child) == motetTimeout);
        CHECK(strstr(motetGetLastError(child), "from ranks: 2"));
        EXPECT(motetInvalidUsage, motetBarrier(child, NULL));
        CALL(motetCommAbort(child));
    }
    return probe(comm, 1);
}

static void test_nonblocking_failure_is_kept_by_the_handle(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {NULL}, 60, 0}, fails_in_background, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_THREADS, 3, {NULL}, 60, 0}, fails_in_background, NULL), 0);
}

/* ---- Abort of creations ---- */

/* Rank 0 aborts what the others do not come to make. */
static int abort_creations(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = nonblocking();
    motetComm_t child = NULL;
    motetResult_t state = motetSuccess;
    bool splits = argument != NULL;
    int excluded[] = {nranks - 1};
    CHECK(survivors_call(comm, rank, 0) == motetSuccess);
    if (rank == 0) {
        if (splits)
            EXPECT(motetInProgress, motetCommSplit(comm, 0, 0, &child, &config));
        else
            EXPECT(motetInProgress, motetCommShrink(comm, excluded, 1, &child, &config, 0));
        world_sleep_ms(200);
        double start = world_now();
        CALL(motetCommAbort(child));
        CHECK(world_now() - start < 8);
    }
    if (!splits) /* a shrink is no operation of the parent */
        return probe(comm, 1);
    while (state == motetSuccess) {
        world_sleep_ms(1);
        CALL(motetCommGetAsyncError(comm, &state));
    }
    CHECK(state == motetInvalidUsage);
    EXPECT(motetInvalidUsage, motetBarrier(comm, NULL));
    CHECK(survivors_said("rank 0 aborted communicator world while it was being made") == 0);
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_abort_ends_a_creation_in_the_background(void **state)
{
    (void)state;
    survivors_run(abort_creations, NULL, 0);
    survivors_run(abort_creations, "split", 0);
}

struct caller {
    motetComm_t comm;
    motetStream_t stream;
    motetUniqueId id;
    pthread_t thread;
    _Atomic(int) entered, result;
};

static void *call_init(void *pointer)
{
    struct caller *self = pointer;
    self->entered = 1;
    self->result = motetCommInitRank(&self->comm, 2, self->id, 0);
    return NULL;
}

static void *call_synchronize(void *pointer)
{
    struct caller *self = pointer;
    self->entered = 1;
    self->result = motetStreamSynchronize(self->stream);
    return NULL;
}

static void *call_finalize(void *pointer)
{
    struct caller *self = pointer;
    self->entered = 1;
    self->result = motetCommFinalize(self->comm);
    return NULL;
}

static void *call_group(void *pointer)
{
    struct caller *self = pointer;
    int64_t a = 1, b = 0, c = 0;
    motetGroupStart();
    motetSend(&a, 1, motetInt64, 1, self->comm, NULL);
    motetRecv(&b, 1, motetInt64, 1, self->comm, NULL);
    motetAllReduce(&a, &c, 1, motetInt64, motetSum, self->comm, NULL);
    self->entered = 1;
    self->result = motetGroupEnd();
    return NULL;
}

static void *call_split(void *pointer)
{
    struct caller *self = pointer;
    motetComm_t child;
    self->entered = 1;
    self->result = motetCommSplit(self->comm, 0, 0, &child, NULL);
    return NULL;
}

static void *call_shrink(void *pointer)
{
    struct caller *self = pointer;
    int excluded[] = {2};
    motetComm_t child;
    self->entered = 1;
    self->result = motetCommShrink(self->comm, excluded, 1, &child, NULL, 0);
    return NULL;
}

static int start(struct caller *self, void *(*function)(void *))
{
    CHECK(pthread_create(&self->thread, NULL, function, self) == 0);
    while (!self->entered)
        world_sleep_ms(1);
    world_sleep_ms(200);
    return 0;
}

/* Nobody else calls anything: rank 0's thread waits until its abort. */
static int abort_wakes(motetComm_t comm, int rank, int nranks, const void *argument)
{
    void *(*function)(void *);
    struct caller caller = {.comm = comm};
    int64_t mine = 1, sum;
    motetResult_t state = motetSuccess;
    (void)nranks;
    memcpy(&function, argument, sizeof function);
    CHECK(survivors_call(comm, rank, 0) == motetSuccess);
    if (rank != 0) {
        while (state == motetSuccess) {
            world_sleep_ms(1);
            CALL(motetCommGetAsyncError(comm, &state));
        }
        CHECK(state == motetRemoteError);
        CALL(motetCommAbort(comm));
        return WORLD_ABORTED;
    }
    if (function == call_synchronize || function == call_finalize) {
        CALL(motetStreamCreate(&caller.stream));
        CALL(motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, comm, caller.stream));
    }
    CHECK(start(&caller, function) == 0);
    double begin = world_now();
    CALL(motetCommAbort(comm));
    pthread_join(caller.thread, NULL);
    CHECK(world_now() - begin < 8);
    CHECK(caller.result == motetInvalidUsage);
    if (caller.stream)
        (void)motetStreamDestroy(caller.stream);
    return WORLD_ABORTED;
}

static void test_abort_wakes_every_kind_of_call(void **state)
{
    static void *(*const functions[])(void *) = {call_synchronize, call_finalize, call_group, call_split, call_shrink};
    static const struct world worlds[] = {{WORLD_PROCESSES, 3, {NULL}, 60, 0},
                                          {WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 60, 0},
                                          {WORLD_THREADS, 3, {NULL}, 60, 0}};
    (void)state;
    for (int w = 0; w < 3; w++)
        for (int f = 0; f < 5; f++) {
            print_message("world %d, call %d\n", w, f);
            assert_int_equal(world_run(&worlds[w], abort_wakes, &functions[f]), 0);
        }
}

/* A blocking init of which the other rank never comes; the handle is there already, and another thread aborts it. */
static int abort_init(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    struct caller caller = {.comm = NULL};
    motetComm_t comm;
    (void)unused, (void)unused_rank, (void)nranks, (void)argument;
    CALL(motetGetUniqueId(&caller.id));
    CHECK(start(&caller, call_init) == 0);
    memcpy(&comm, &caller.comm, sizeof comm);
    CHECK(comm != NULL);
    double begin = world_now();
    CALL(motetCommAbort(comm));
    pthread_join(caller.thread, NULL);
    CHECK(world_now() - begin < 8);
    CHECK(caller.result == motetInvalidUsage || caller.result == motetRemoteError);
    CHECK(caller.comm == NULL);
    EXPECT(motetInvalidArgument, motetCommAbort(comm));
    return 0;
}

static void test_abort_ends_a_blocking_init_of_another_thread(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_ALONE, 2, {NULL}, 60, 0}, abort_init, NULL), 0);
}

/* ---- Limits ---- */

/* The limits of the configuration hold for each communicator: one that is short, beside one that is not. */
static int limits(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t hasty, calm;
    int64_t mine = rank, sum = -1;
    (void)argument;
    config.timeoutMs = 700;
    CALL(motetCommSplit(comm, 0, rank, &hasty, &config));
    config.timeoutMs = 60000;
    CALL(motetCommSplit(comm, 0, rank, &calm, &config));
    if (rank == 0) {
        double begin = world_now();
        EXPECT(motetTimeout, motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, hasty, NULL));
        CHECK(world_now() - begin > 0.6);
        CHECK(survivors_said("no progress") == 0);
        EXPECT(motetTimeout, motetCommFinalize(hasty));
    }
    if (rank != 0)
        world_sleep_ms(1500);
    CALL(motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, calm, NULL)); /* rank 0 waited longer here, and that is fine */
    CHECK(sum == (int64_t)nranks * (nranks - 1) / 2);
    if (rank != 0)
        EXPECT(motetTimeout, motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, hasty, NULL));
    (void)motetCommDestroy(hasty);
    CALL(motetCommDestroy(calm));
    return 0;
}

static void test_limits_are_each_communicators_own(void **state)
{
    (void)state;
    survivors_run(limits, NULL, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nonblocking_split_shrink_and_finalize),
        cmocka_unit_test(test_nonblocking_init_and_grow_by_one_thread),
        cmocka_unit_test(test_nonblocking_failure_is_kept_by_the_handle),
        cmocka_unit_test(test_abort_ends_a_creation_in_the_background),
        cmocka_unit_test(test_abort_wakes_every_kind_of_call),
        cmocka_unit_test(test_abort_ends_a_blocking_init_of_another_thread),
        cmocka_unit_test(test_limits_are_each_communicators_own),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
