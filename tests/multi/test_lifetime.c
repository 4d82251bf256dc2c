/* SPDX-License-Identifier: Apache-2.0
 * Communicators come and go: nothing is left behind after many of them, after abort, after a failed init; abort frees blocked
 * calls; the parent survives its forks. */
/* test: serial */
/* No large thread-local arrays here: every thread of the process carries them in its stack, so that they would show as growth whenever two
 * short-lived threads of the library overlap for the first time. */
#include "probe.h"

#include <stdatomic.h>

#include "usage.h"

struct meeting {
    _Atomic(int) turn;
    motetUniqueId id;
};

/* Meets the other ranks once more: rank 0 makes a fresh id for `turn`. */
static int join_turn(struct meeting *meeting, int rank, int nranks, int turn, motetComm_t *comm)
{
    if (rank == 0) {
        CALL(motetGetUniqueId(&meeting->id));
        meeting->turn = turn;
    }
    while (meeting->turn < turn)
        world_sleep_ms(1);
    CALL(motetCommInitRank(comm, nranks, meeting->id, rank));
    return 0;
}

static int one_cycle(struct meeting *meeting, int rank, int nranks, int turn)
{
    motetComm_t comm, child;
    motetStream_t stream;
    motetRedOp_t op;
    int64_t scalar = 3;
    void *memory;
    int64_t *data = calloc(20000, sizeof *data);
    CHECK(data);
    CHECK(join_turn(meeting, rank, nranks, turn, &comm) == 0);
    CHECK(probe(comm, turn) == 0);
    CALL(motetStreamCreate(&stream));
    CALL(motetAllReduce(data, data, 20000, motetInt64, motetSum, comm, stream));
    CALL(motetStreamSynchronize(stream));
    CALL(motetStreamDestroy(stream));
    CALL(motetCommSplit(comm, rank & 1, 0, &child, NULL));
    CALL(motetMemAlloc(&memory, 1 << 20));
    memset(memory, 1, 1 << 20);
    CALL(motetAllReduce(memory, memory, 1 << 20, motetUint8, motetMax, child, NULL));
    CALL(motetMemFree(memory));
    CALL(motetRedOpCreatePreMulSum(&op, &scalar, motetInt64, motetScalarHostImmediate, comm)); /* goes with the communicator */
    CALL(motetBarrier(comm, NULL));
    CALL(motetCommDestroy(child));
    CALL(motetCommDestroy(comm));
    free(data);
    return 0;
}

/* After a warm-up the process must look the same after every further cycle. */
static int cycles(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct meeting *meeting = (void *)(uintptr_t)argument;
    struct usage before = {0};
    enum { WARM = 20, CYCLES = 120 };
    (void)comm;
    for (int turn = 1; turn <= CYCLES; turn++) {
        CHECK(one_cycle(meeting, rank, nranks, turn) == 0);
        if (turn == WARM)
            before = usage_measure();
    }
    return usage_is_flat(&before, rank);
}

static void test_lifetime_many_cycles_leave_the_process_flat(void **state)
{
    const char *settings[] = {NULL, "MOTET_SHM_DISABLE=1"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct world world = {WORLD_BARE, 3, {settings[i]}, 120, 0};
        int files = count_entries("/dev/shm");
        assert_true(meeting != MAP_FAILED);
        assert_int_equal(world_run(&world, cycles, meeting), 0);
        assert_int_equal(count_entries("/dev/shm"), files);
        munmap(meeting, sizeof *meeting);
    }
}

static int thread_cycles(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    struct usage before = {0};
    motetComm_t comms[8];
    (void)unused, (void)unused_rank, (void)argument;
    for (int turn = 0; turn < 200; turn++) {
        CALL(motetCommInitAll(comms, nranks, NULL));
        for (int r = 0; r < nranks; r++)
            CALL(motetCommDestroy(comms[r]));
        if (turn == 50)
            before = usage_measure();
    }
    return usage_is_flat(&before, 0);
}

static void test_lifetime_thread_ranks_leave_the_process_flat(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.kind = WORLD_ALONE, .nranks = 4}, thread_cycles, NULL), 0);
}

/* Once the last communicator, stream and event are gone, so are threads and descriptors. */
static int nothing_left(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct usage before = usage_measure(), after;
    struct meeting *meeting = (void *)(uintptr_t)argument;
    (void)comm;
    CHECK(one_cycle(meeting, rank, nranks, 1) == 0);
    for (int wait = 0; wait < 400; wait++) {
        after = usage_measure();
        if (after.threads <= before.threads + WORLD_SANITIZED && after.fds == before.fds)
            return 0;
        world_sleep_ms(5);
    }
    return world_complain(__FILE__, __LINE__, "rank %d: fds %d -> %d, threads %d -> %d", rank, before.fds, after.fds,
                          before.threads, after.threads);
}

static void test_lifetime_last_destroy_leaves_nothing(void **state)
{
    (void)state;
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(meeting != MAP_FAILED);
    assert_int_equal(world_run(&(struct world){.kind = WORLD_BARE, .nranks = 2}, nothing_left, meeting), 0);
    munmap(meeting, sizeof *meeting);
}

struct blocked {
    motetComm_t comm;
    _Atomic(int) entered, result;
    bool receive;
};

static void *block(void *pointer)
{
    struct blocked *self = pointer;
    int64_t a = 1, b = 0;
    self->entered = 1;
    self->result = self->receive ? motetRecv(&b, 1, motetInt64, 1, self->comm, NULL)
                                 : motetAllReduce(&a, &b, 1, motetInt64, motetSum, self->comm, NULL);
    return NULL;
}

/* A call that waits for a rank that never comes returns when another thread aborts. */
static int abort_wakes(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)nranks;
    if (rank != 0) {
        world_sleep_ms(1500);
        CALL(motetCommAbort(comm));
        return WORLD_ABORTED;
    }
    struct blocked blocked = {.comm = comm, .receive = argument != NULL};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, block, &blocked) == 0);
    while (!blocked.entered)
        world_sleep_ms(1);
    world_sleep_ms(300);
    double start = world_now();
    CALL(motetCommAbort(comm));
    CHECK(world_now() - start < 1);
    pthread_join(thread, NULL);
    CHECK(world_now() - start < 1);
    CHECK(blocked.result != motetSuccess && blocked.result != motetInProgress);
    return WORLD_ABORTED;
}

static void test_lifetime_abort_wakes_a_blocked_call(void **state)
{
    static const struct world worlds[] = {{WORLD_PROCESSES, 2, {NULL}, 20, 0},
                                          {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 20, 0},
                                          {WORLD_THREADS, 2, {NULL}, 20, 0}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world_run(&worlds[i], abort_wakes, NULL), 0);
        assert_int_equal(world_run(&worlds[i], abort_wakes, "receive"), 0);
    }
}

/* Work that is still on a stream: abort does not wait for it, destroy and finalize do. */
static int pending(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t *mine = calloc(100000, sizeof *mine), *sum = mine + 50000;
    motetStream_t stream;
    (void)argument;
    CHECK(mine);
    CALL(motetStreamCreate(&stream));
    probe_fill(mine, 50000, rank, 1);
    if (rank == 0)
        world_sleep_ms(200);
    CALL(motetAllReduce(mine, sum, 50000, motetInt64, motetSum, comm, stream));
    CALL(motetCommFinalize(comm));
    CHECK(probe_is_sum(sum, 50000, nranks, 1));
    CHECK(motetAllReduce(mine, sum, 1, motetInt64, motetSum, comm, NULL) != motetSuccess);
    CALL(motetStreamDestroy(stream));
    free(mine);
    return 0;
}

static void test_lifetime_finalize_completes_pending_work(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {NULL}, 20, 0}, pending, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_THREADS, 3, {NULL}, 20, 0}, pending, NULL), 0);
}

/* Children of a rank come and go, one of them with exec, while the rank goes on. */
static int forks(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)rank, (void)nranks, (void)argument;
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0 && i % 2)
            execl("/bin/true", "true", (char *)NULL);
        if (child == 0)
            _exit(0);
        CHECK(child > 0);
        CHECK(probe(comm, i) == 0);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    return 0;
}

static void test_lifetime_fork_leaves_the_parent_working(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {NULL}, 20, 0}, forks, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 20, 0}, forks, NULL), 0);
}

/* Signals with handlers interrupt every system call; results stay right. */
static void on_alarm(int number)
{
    (void)number;
}

static int interrupted(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec every = {{0, 700000}, {0, 700000}};
    int64_t *mine = calloc(200000, sizeof *mine), *sum = mine + 100000;
    (void)argument;
    CHECK(mine);
    sigaction(SIGALRM, &action, NULL);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &every, NULL) == 0);
    for (int round = 0; round < 60; round++) {
        probe_fill(mine, 100000, rank, round);
        CALL(motetAllReduce(mine, sum, 100000, motetInt64, motetSum, comm, NULL));
        CHECK(probe_is_sum(sum, 100000, nranks, round));
        CHECK(probe(comm, round) == 0);
    }
    timer_delete(timer);
    free(mine);
    return 0;
}

static void test_lifetime_interrupting_signals_change_nothing(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {NULL}, 30, 0}, interrupted, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 30, 0}, interrupted, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lifetime_many_cycles_leave_the_process_flat),
        cmocka_unit_test(test_lifetime_thread_ranks_leave_the_process_flat),
        cmocka_unit_test(test_lifetime_last_destroy_leaves_nothing),
        cmocka_unit_test(test_lifetime_abort_wakes_a_blocked_call),
        cmocka_unit_test(test_lifetime_finalize_completes_pending_work),
        cmocka_unit_test(test_lifetime_fork_leaves_the_parent_working),
        cmocka_unit_test(test_lifetime_interrupting_signals_change_nothing),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
