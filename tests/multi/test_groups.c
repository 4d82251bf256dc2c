/* SPDX-License-Identifier: Apache-2.0
 * Groups: sends and receives to each other never deadlock at any size, several collectives and communicators in one group give
 * each its result, groups nest, and an argument error starts nothing. */
#include "probe.h"

/* Both sides of the eager limit, of usual tile sizes, and larger than any buffer between two ranks. In elements of 8 bytes. */
static const size_t sizes[] = {0, 1, 2, 511, 512, 513, 2047, 2048, 2049, 8191, 8192, 8193, 131071, 131072, 131073, 1500001};

static const struct world kinds[] = {
    {WORLD_PROCESSES, 2, {NULL}, 0, 0}, {WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 0, 0}, {WORLD_PROCESSES, 4, {NULL}, 0, 0},
    {WORLD_THREADS, 2, {NULL}, 0, 0},   {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0}, {WORLD_THREADS, 5, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        assert_int_equal(world_run(&kinds[i], function, NULL), 0);
}

/* Everybody sends a block to everybody, itself too; sends come first in even ranks, last in odd ones. */
static int exchange(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)argument;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t n = sizes[s] / (size_t)(s > 12 ? nranks - 1 : 1);
        int64_t *out = malloc((n * (size_t)nranks + 1) * 8), *in = malloc((n * (size_t)nranks + 1) * 8);
        CHECK(out && in);
        memset(in, 0xA5, (n * (size_t)nranks + 1) * 8);
        for (int p = 0; p < nranks; p++)
            probe_fill(out + n * (size_t)p, n, rank * 16 + p, (int)s);
        CALL(motetGroupStart());
        for (int phase = 0; phase < 2; phase++)
            for (int p = 0; p < nranks; p++)
                if (phase == (rank & 1))
                    CALL(motetSend(out + n * (size_t)p, n, motetInt64, p, comm, NULL));
                else
                    CALL(motetRecv(in + n * (size_t)p, n, motetInt64, p, comm, NULL));
        CALL(motetGroupEnd());
        for (int p = 0; p < nranks; p++)
            CHECK(probe_is(in + n * (size_t)p, n, p * 16 + rank, (int)s));
        CHECK(in[n * (size_t)nranks] == (int64_t)0xA5A5A5A5A5A5A5A5);
        free(out);
        free(in);
    }
    return probe(comm, 1);
}

static void test_group_exchange_at_every_size_completes(void **state)
{
    (void)state;
    run_everywhere(exchange);
}

/* Several messages of one pair in one group arrive in order; the later ones are larger than the first. */
static int ordered(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { MESSAGES = 20 };
    static const size_t lens[MESSAGES] = {3, 9000, 1, 0, 70000, 2, 5, 16, 30000, 7, 1, 1, 1, 2048, 4096, 2, 8, 1, 100000, 1};
    int64_t *out[MESSAGES], *in[MESSAGES];
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    (void)argument;
    CALL(motetGroupStart());
    for (int m = 0; m < MESSAGES; m++) {
        out[m] = malloc(lens[m] * 8 + 8);
        in[m] = calloc(lens[m] + 1, 8);
        CHECK(out[m] && in[m]);
        probe_fill(out[m], lens[m], rank, m);
        CALL(motetSend(out[m], lens[m], motetInt64, next, comm, NULL));
    }
    for (int m = 0; m < MESSAGES; m++)
        CALL(motetRecv(in[m], lens[m], motetInt64, previous, comm, NULL));
    CALL(motetGroupEnd());
    for (int m = 0; m < MESSAGES; m++) {
        CHECK(probe_is(in[m], lens[m], previous, m));
        free(out[m]);
        free(in[m]);
    }
    return 0;
}

static void test_group_messages_of_a_pair_stay_in_order(void **state)
{
    (void)state;
    run_everywhere(ordered);
}

/* Collectives of different kinds and sizes, and a message, in one group. */
static int fused(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 40000 };
    int64_t *mine = malloc(N * 8), *sum = calloc(N, 8), *all = calloc((size_t)nranks * 100, 8), *cast = malloc(N * 8), got[10];
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    (void)argument;
    CHECK(mine && sum && all && cast);
    for (int round = 0; round < 5; round++) {
        probe_fill(mine, N, rank, round);
        probe_fill(cast, N, rank, round + 50);
        memset(got, 0, sizeof got);
        CALL(motetGroupStart());
        CALL(motetAllReduce(mine, sum, N, motetInt64, motetSum, comm, NULL));
        CALL(motetAllGather(mine, all, 100, motetInt64, comm, NULL));
        CALL(motetGroupStart());
        CALL(motetSend(mine, 10, motetInt64, next, comm, NULL));
        CALL(motetBroadcast(cast, cast, N, motetInt64, round % nranks, comm, NULL));
        CALL(motetRecv(got, 10, motetInt64, previous, comm, NULL));
        CALL(motetGroupEnd());
        CALL(motetGroupEnd());
        CHECK(probe_is_sum(sum, N, nranks, round));
        CHECK(probe_is(cast, N, round % nranks, round + 50));
        CHECK(probe_is(got, 10, previous, round));
        for (int r = 0; r < nranks; r++)
            CHECK(probe_is(all + r * 100, 100, r, round));
    }
    free(mine);
    free(sum);
    free(all);
    free(cast);
    return 0;
}

static void test_group_of_collectives_and_messages_gives_each_result(void **state)
{
    (void)state;
    run_everywhere(fused);
}

static void fill_late(void *pointer)
{
    world_sleep_ms(50);
    probe_fill(pointer, 30000, 5, 5);
}

/* Messages of one group on several streams and on none: each stream's earlier work comes before, its later work after. */
static int several_streams(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 30000 };
    static __thread int64_t out[2][N], in[2][N], copy[N];
    motetStream_t sending, receiving;
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    (void)argument;
    CALL(motetStreamCreate(&sending));
    CALL(motetStreamCreate(&receiving));
    for (int round = 0; round < 4; round++) {
        memset(in, 0xA5, sizeof in);
        memset(out[0], 0x5A, sizeof out[0]);
        probe_fill(out[1], N, rank, round);
        CALL(motetLaunchHostFunc(sending, fill_late, out[0])); /* the send must wait for it */
        CALL(motetGroupStart());
        CALL(motetRecv(in[0], N, motetInt64, previous, comm, receiving));
        CALL(motetSend(out[0], N, motetInt64, next, comm, sending));
        if (round & 1) {
            CALL(motetSend(out[1], N, motetInt64, next, comm, NULL));
            CALL(motetRecv(in[1], N, motetInt64, previous, comm, NULL));
        }
        CALL(motetGroupEnd());
        CHECK(!(round & 1) || probe_is(in[1], N, previous, round));
        CALL(motetAllReduce(in[0], copy, N, motetInt64, motetMax, comm, receiving));
        CALL(motetStreamSynchronize(receiving));
        CHECK(probe_is(in[0], N, 5, 5) && probe_is(copy, N, 5, 5));
        CALL(motetStreamSynchronize(sending));
    }
    CALL(motetStreamDestroy(sending));
    CALL(motetStreamDestroy(receiving));
    return 0;
}

static void test_group_messages_on_several_streams_obey_each(void **state)
{
    (void)state;
    run_everywhere(several_streams);
}

/* One thread, three communicators of all ranks and sizes 2 and 4, all driven in one group, on NULL and on streams. */
static int many_comms(motetComm_t unused, int unused_rank, int unused_nranks, const void *argument)
{
    enum { N = 5000 };
    static const int nranks[3] = {4, 2, 4};
    static int64_t mine[3][4][N], sum[3][4][N];
    motetComm_t comms[3][4];
    motetStream_t stream;
    (void)unused, (void)unused_rank, (void)unused_nranks, (void)argument;
    CALL(motetStreamCreate(&stream));
    for (int k = 0; k < 3; k++)
        CALL(motetCommInitAll(comms[k], nranks[k], NULL));
    for (int round = 0; round < 6; round++) {
        CALL(motetGroupStart());
        for (int r = 0; r < 4; r++) {
            for (int k = 0; k < 3; k++) {
                if (r >= nranks[k])
                    continue;
                probe_fill(mine[k][r], N, r, round + k);
                memset(sum[k][r], 0xA5, sizeof sum[k][r]);
                CALL(motetAllReduce(mine[k][r], sum[k][r], N, motetInt64, motetSum, comms[k][r], round & 1 ? stream : NULL));
            }
        }
        CALL(motetGroupEnd());
        CALL(motetStreamSynchronize(stream));
        for (int k = 0; k < 3; k++)
            for (int r = 0; r < nranks[k]; r++)
                CHECK(probe_is_sum(sum[k][r], N, nranks[k], round + k));
    }
    CALL(motetStreamDestroy(stream));
    for (int k = 0; k < 3; k++)
        for (int r = 0; r < nranks[k]; r++)
            CALL(motetCommDestroy(comms[k][r]));
    return 0;
}

static void test_group_of_several_communicators_completes(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.kind = WORLD_ALONE}, many_comms, NULL), 0);
}

/* The NCCL idiom: one thread initialises its ranks by CommInitRank inside a group. */
static int grouped_init(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    motetUniqueId id;
    motetComm_t comms[8];
    int64_t mine[8], sum[8];
    (void)unused, (void)unused_rank, (void)argument;
    CALL(motetGetUniqueId(&id));
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++)
        CALL(motetCommInitRank(&comms[r], nranks, id, r));
    CALL(motetGroupEnd());
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++) {
        int rank, count;
        CALL(motetCommUserRank(comms[r], &rank));
        CALL(motetCommCount(comms[r], &count));
        CHECK(rank == r && count == nranks);
        probe_fill(&mine[r], 1, r, 3);
        CALL(motetAllReduce(&mine[r], &sum[r], 1, motetInt64, motetSum, comms[r], NULL));
    }
    CALL(motetGroupEnd());
    for (int r = 0; r < nranks; r++) {
        CHECK(probe_is_sum(&sum[r], 1, nranks, 3));
        CALL(motetCommDestroy(comms[r]));
    }
    return 0;
}

static void test_group_of_inits_makes_one_communicator(void **state)
{
    (void)state;
    for (int nranks = 1; nranks <= 8; nranks += 3)
        assert_int_equal(world_run(&(struct world){.kind = WORLD_ALONE, .nranks = nranks}, grouped_init, NULL), 0);
}

/* The same argument error on all ranks: nothing of the group starts, the result buffer keeps its poison, the next call works. */
static int refused(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t mine[4], sum[4] = {-1, -1, -1, -1};
    (void)argument;
    probe_fill(mine, 4, rank, 0);
    CALL(motetGroupStart());
    CALL(motetAllReduce(mine, sum, 4, motetInt64, motetSum, comm, NULL));
    EXPECT(motetInvalidArgument, motetAllReduce(mine, sum, 4, motetNumTypes, motetSum, comm, NULL));
    EXPECT(motetInvalidArgument, motetGroupEnd());
    for (int i = 0; i < 4; i++)
        CHECK(sum[i] == -1);
    EXPECT(motetInvalidUsage, motetGroupEnd());
    CALL(motetGroupStart());
    CALL(motetGroupEnd());
    (void)nranks;
    return probe(comm, 2);
}

static void test_group_with_an_argument_error_starts_nothing(void **state)
{
    (void)state;
    run_everywhere(refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group_exchange_at_every_size_completes),
        cmocka_unit_test(test_group_messages_of_a_pair_stay_in_order),
        cmocka_unit_test(test_group_of_collectives_and_messages_gives_each_result),
        cmocka_unit_test(test_group_messages_on_several_streams_obey_each),
        cmocka_unit_test(test_group_of_several_communicators_completes),
        cmocka_unit_test(test_group_of_inits_makes_one_communicator),
        cmocka_unit_test(test_group_with_an_argument_error_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
