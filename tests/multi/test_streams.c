/* SPDX-License-Identifier: Apache-2.0
 * Streams and events: calls return at once, run in order beside the caller, and obey events, host functions and the order of the
 * communicator. */
#include "probe.h"

#include <stdatomic.h>

static const struct world worlds[] = {
    {WORLD_PROCESSES, 2, {NULL}, 0, 0}, {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0},
    {WORLD_THREADS, 2, {NULL}, 0, 0},   {WORLD_PROCESSES, 3, {NULL}, 0, 0},
    {WORLD_PROCESSES, 1, {NULL}, 0, 0}, {WORLD_THREADS, 4, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(world_run(&worlds[i], function, NULL), 0);
}

/* Rank 0 comes late: the others' calls must return at once, and Query says InProgress until rank 0 has come. */
static int late_peer(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 30000 };
    int64_t *mine = malloc(N * 8), *sum = calloc(N, 8);
    motetStream_t stream;
    (void)argument;
    CHECK(mine && sum);
    probe_fill(mine, N, rank, 0);
    CALL(motetStreamCreate(&stream));
    CALL(motetBarrier(comm, NULL));
    if (rank == 0)
        world_sleep_ms(300);
    double start = world_now();
    CALL(motetAllReduce(mine, sum, N, motetInt64, motetSum, comm, stream));
    if (rank != 0) {
        EXPECT(motetInProgress, motetStreamQuery(stream));
        CHECK(world_now() - start < 0.2);
    }
    CALL(motetStreamSynchronize(stream));
    CALL(motetStreamQuery(stream));
    CHECK(probe_is_sum(sum, N, nranks, 0));
    CHECK(rank == 0 || world_now() - start > 0.1);
    CALL(motetStreamDestroy(stream));
    free(mine);
    free(sum);
    return 0;
}

static void test_stream_call_returns_before_a_late_peer_comes(void **state)
{
    (void)state;
    run_everywhere(late_peer);
}

/* Each result is the next call's input, all queued at once: order within the stream. */
static int chained(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { STEPS = 30, N = 700 };
    static __thread uint32_t data[STEPS + 1][N];
    motetStream_t stream;
    (void)argument;
    CALL(motetStreamCreate(&stream));
    for (int i = 0; i < N; i++)
        data[0][i] = (uint32_t)(rank * 17 + i);
    for (int step = 0; step < STEPS; step++)
        CALL(motetAllReduce(data[step], data[step + 1], N, motetUint32, motetSum, comm, stream));
    CALL(motetStreamSynchronize(stream));
    for (int i = 0; i < N; i++) {
        uint32_t expected = 0;
        for (int r = 0; r < nranks; r++)
            expected += (uint32_t)(r * 17 + i);
        for (int step = 1; step < STEPS; step++)
            expected *= (uint32_t)nranks;
        CHECK(data[STEPS][i] == expected);
    }
    CALL(motetStreamDestroy(stream));
    return 0;
}

static void test_stream_runs_calls_in_order(void **state)
{
    (void)state;
    run_everywhere(chained);
}

/* A NULL-stream call waits for earlier calls on the communicator, on whatever stream. */
static int null_after_stream(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 100000 };
    static __thread int64_t mine[N], first[N], second[N];
    motetStream_t a, b;
    (void)argument;
    CALL(motetStreamCreate(&a));
    CALL(motetStreamCreate(&b));
    for (int round = 0; round < 10; round++) {
        probe_fill(mine, N, rank, round);
        memset(first, 0xA5, sizeof first);
        memset(second, 0xA5, sizeof second);
        CALL(motetAllReduce(mine, first, N, motetInt64, motetSum, comm, a));
        CALL(motetAllReduce(mine, second, N, motetInt64, motetMax, comm, b));
        CALL(motetBarrier(comm, NULL));
        CHECK(probe_is_sum(first, N, nranks, round) && probe_is(second, N, nranks - 1, round));
    }
    CALL(motetStreamDestroy(a));
    CALL(motetStreamDestroy(b));
    return 0;
}

static void test_stream_null_call_waits_for_earlier_calls(void **state)
{
    (void)state;
    run_everywhere(null_after_stream);
}

struct note {
    int64_t *sum;
    int nranks;
    _Atomic(int) calls;
    bool right;
};

static void take_note(void *pointer)
{
    struct note *note = pointer;
    note->right = probe_is_sum(note->sum, 1000, note->nranks, 1);
    world_sleep_ms(30);
    atomic_fetch_add(&note->calls, 1);
}

/* A host function sees the result of the call before it, and the call after it waits for it. */
static int host_function(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t mine[1000], sum[1000] = {0};
    motetStream_t stream;
    struct note note = {.sum = sum, .nranks = nranks};
    (void)argument;
    CALL(motetStreamCreate(&stream));
    probe_fill(mine, 1000, rank, 1);
    CALL(motetAllReduce(mine, sum, 1000, motetInt64, motetSum, comm, stream));
    CALL(motetLaunchHostFunc(stream, take_note, &note));
    CALL(motetAllReduce(sum, sum, 1000, motetInt64, motetMin, comm, stream));
    CALL(motetLaunchHostFunc(stream, take_note, &note));
    CALL(motetStreamSynchronize(stream));
    CHECK(note.calls == 2 && note.right);
    CALL(motetLaunchHostFunc(NULL, take_note, &note));
    CHECK(note.calls == 3);
    EXPECT(motetInvalidArgument, motetLaunchHostFunc(stream, NULL, NULL));
    CALL(motetStreamDestroy(stream));
    return 0;
}

static void test_stream_host_function_runs_in_its_place(void **state)
{
    (void)state;
    run_everywhere(host_function);
}

static void pause_100(void *pointer)
{
    world_sleep_ms(100);
    *(_Atomic(int) *)pointer = 1;
}

/* Work on `after` waits for an event of `before`, whose function takes 100 ms. */
static int events(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetStream_t before, after;
    motetEvent_t start, end, never;
    _Atomic(int) slept = 0, then = 0;
    float ms = -1;
    (void)comm, (void)rank, (void)nranks, (void)argument;
    CALL(motetStreamCreate(&before));
    CALL(motetStreamCreate(&after));
    CALL(motetEventCreate(&start));
    CALL(motetEventCreate(&end));
    CALL(motetEventCreate(&never));
    CALL(motetEventQuery(never));
    CALL(motetEventSynchronize(never));
    EXPECT(motetInvalidUsage, motetEventElapsedTime(&ms, never, never));
    CALL(motetEventRecord(start, before));
    CALL(motetLaunchHostFunc(before, pause_100, &slept));
    CALL(motetEventRecord(end, before));
    CALL(motetStreamWaitEvent(after, end));
    CALL(motetEventRecord(never, after));
    EXPECT(motetInProgress, motetEventQuery(end));
    EXPECT(motetInProgress, motetStreamQuery(after));
    EXPECT(motetInProgress, motetEventElapsedTime(&ms, start, end));
    CHECK(!slept);
    CALL(motetEventSynchronize(never));
    CHECK(slept);
    CALL(motetEventQuery(end));
    CALL(motetEventElapsedTime(&ms, start, end));
    CHECK(ms > 95 && ms < 5000);
    CALL(motetLaunchHostFunc(before, pause_100, &then)); /* the NULL stream waits here */
    CALL(motetEventRecord(end, before));
    CALL(motetStreamWaitEvent(NULL, end));
    CHECK(then);
    CALL(motetLaunchHostFunc(before, pause_100, &then)); /* an event may go while it is waited for */
    CALL(motetEventRecord(end, before));
    CALL(motetStreamWaitEvent(after, end));
    CALL(motetEventDestroy(end));
    CALL(motetStreamSynchronize(after));
    CALL(motetEventDestroy(start));
    CALL(motetEventDestroy(never));
    CALL(motetStreamDestroy(after));
    CALL(motetStreamDestroy(before));
    return 0;
}

static void test_event_orders_streams_and_measures_time(void **state)
{
    (void)state;
    run_everywhere(events);
}

/* Destroying a stream waits for its work; many streams come and go. */
static int short_lived(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t mine[100], sum[100];
    (void)argument;
    for (int round = 0; round < 30; round++) {
        motetStream_t stream;
        probe_fill(mine, 100, rank, round);
        CALL(motetStreamCreate(&stream));
        CALL(motetAllReduce(mine, sum, 100, motetInt64, motetSum, comm, stream));
        CALL(motetStreamDestroy(stream));
        CHECK(probe_is_sum(sum, 100, nranks, round));
    }
    CALL(motetStreamDestroy(NULL));
    CALL(motetStreamSynchronize(NULL));
    CALL(motetStreamQuery(NULL));
    return 0;
}

static void test_stream_destroy_waits_for_its_work(void **state)
{
    (void)state;
    run_everywhere(short_lived);
}

/* Two communicators on two streams, called in opposite orders by the ranks: no deadlock. */
static int crossed(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 20000 };
    static __thread int64_t mine[N], sums[2][N];
    motetComm_t comms[2] = {comm, NULL};
    motetStream_t streams[2];
    (void)argument;
    CALL(motetCommSplit(comm, 0, rank, &comms[1], NULL));
    CALL(motetStreamCreate(&streams[0]));
    CALL(motetStreamCreate(&streams[1]));
    for (int round = 0; round < 20; round++) {
        probe_fill(mine, N, rank, round);
        for (int i = 0; i < 2; i++) {
            int which = i ^ (rank & 1);
            CALL(motetAllReduce(mine, sums[which], N, motetInt64, motetSum, comms[which], streams[which]));
        }
        for (int i = 0; i < 2; i++) {
            CALL(motetStreamSynchronize(streams[i]));
            CHECK(probe_is_sum(sums[i], N, nranks, round));
        }
    }
    for (int i = 0; i < 2; i++)
        CALL(motetStreamDestroy(streams[i]));
    CALL(motetCommDestroy(comms[1]));
    return 0;
}

static void test_stream_communicators_in_opposite_orders_do_not_deadlock(void **state)
{
    (void)state;
    run_everywhere(crossed);
}

/* The others tell the late rank once their call has returned, on another communicator; only then does it call. */
static int meet_late(motetComm_t comm, motetComm_t words, int rank, int nranks, int late, size_t n, motetStream_t stream)
{
    int64_t *mine = malloc(n * 8), *sums[2] = {calloc(n, 8), calloc(n, 8)};
    CHECK(mine && sums[0] && sums[1]);
    probe_fill(mine, n, rank, late);
    for (int r = 0, word = 0; r < nranks && rank == late; r++)
        if (r != late)
            CALL(motetRecv(&word, 1, motetInt32, r, words, NULL));
    CALL(motetAllReduce(mine, sums[0], n, motetInt64, motetSum, comm, stream));
    if (rank != late) {
        EXPECT(motetInProgress, motetStreamQuery(stream));
        CALL(motetSend(&rank, 1, motetInt32, late, words, NULL));
    }
    CALL(motetAllReduce(mine, sums[1], n, motetInt64, motetSum, comm, stream)); /* behind the first, or at once */
    CALL(motetStreamSynchronize(stream));
    CHECK(probe_is_sum(sums[0], n, nranks, late) && probe_is_sum(sums[1], n, nranks, late));
    memset(sums[0], 0x55, n * 8);
    CALL(motetAllReduce(mine, sums[0], n, motetInt64, motetSum, comm, NULL));
    CHECK(probe_is_sum(sums[0], n, nranks, late));
    free(mine);
    free(sums[0]);
    free(sums[1]);
    return 0;
}

/* Small calls that were made before, up to where they are no longer small: each rank in turn comes late. */
static int handed_over(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static const size_t sizes[] = {1, 64, 2047, 2048, 2049};
    motetComm_t words;
    motetStream_t stream;
    (void)argument;
    CALL(motetCommSplit(comm, 0, rank, &words, NULL));
    CALL(motetStreamCreate(&stream));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int late = 0; late < 2 * nranks; late++) /* in the first round they are new */
            if (meet_late(comm, words, rank, nranks, late % nranks, sizes[i], stream) != 0)
                return 1;
    CALL(motetStreamDestroy(stream));
    CALL(motetCommDestroy(words));
    return 0;
}

static void test_stream_small_call_is_handed_over_when_a_peer_is_late(void **state)
{
    (void)state;
    run_everywhere(handed_over);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_call_returns_before_a_late_peer_comes),
        cmocka_unit_test(test_stream_runs_calls_in_order),
        cmocka_unit_test(test_stream_null_call_waits_for_earlier_calls),
        cmocka_unit_test(test_stream_host_function_runs_in_its_place),
        cmocka_unit_test(test_event_orders_streams_and_measures_time),
        cmocka_unit_test(test_stream_destroy_waits_for_its_work),
        cmocka_unit_test(test_stream_communicators_in_opposite_orders_do_not_deadlock),
        cmocka_unit_test(test_stream_small_call_is_handed_over_when_a_peer_is_late),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
