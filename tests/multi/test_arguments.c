/* SPDX-License-Identifier: Apache-2.0
 * Argument errors: each is refused on the caller before anything is sent, says why, and leaves the communicator usable. */
#include "probe.h"

static const struct world worlds[] = {
    {WORLD_PROCESSES, 2, {NULL}, 0, 0},
    {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0},
    {WORLD_THREADS, 3, {NULL}, 0, 0},
    {WORLD_PROCESSES, 1, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(world_run(&worlds[i], function, NULL), 0);
}

/* Refused as an argument error, with a sentence. */
#define REFUSED(call)                                \
    do {                                             \
        EXPECT(motetInvalidArgument, call);          \
        CHECK(strlen(motetGetLastError(NULL)) > 10); \
    } while (0)

#define HUGE_COUNT (SIZE_MAX / 4)

static __thread int64_t a[64], b[64];

static int nulls(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)argument, (void)rank, (void)nranks;
    REFUSED(motetAllReduce(NULL, b, 4, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAllReduce(a, NULL, 4, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAllReduce(a, b, 4, motetInt64, motetSum, NULL, NULL));
    REFUSED(motetReduceScatter(NULL, b, 4, motetInt64, motetSum, comm, NULL));
    REFUSED(motetReduceScatter(a, NULL, 4, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAllGather(NULL, b, 4, motetInt64, comm, NULL));
    REFUSED(motetAllGather(a, NULL, 4, motetInt64, comm, NULL));
    REFUSED(motetAlltoAll(NULL, b, 4, motetInt64, comm, NULL));
    REFUSED(motetAlltoAll(a, NULL, 4, motetInt64, comm, NULL));
    REFUSED(motetBcast(NULL, 4, motetInt64, 0, comm, NULL));
    REFUSED(motetBroadcast(a, NULL, 4, motetInt64, 0, comm, NULL));
    REFUSED(motetReduce(NULL, b, 4, motetInt64, motetSum, 0, comm, NULL));
    REFUSED(motetGather(NULL, b, 4, motetInt64, 0, comm, NULL));
    REFUSED(motetScatter(a, NULL, 4, motetInt64, 0, comm, NULL));
    REFUSED(motetAllGatherV(a, 4, b, NULL, NULL, motetInt64, comm, NULL));
    REFUSED(motetReduceScatterV(a, b, NULL, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAlltoAllV(a, NULL, NULL, b, NULL, NULL, motetInt64, comm, NULL));
    REFUSED(motetSend(NULL, 4, motetInt64, 0, comm, NULL));
    REFUSED(motetRecv(NULL, 4, motetInt64, 0, comm, NULL));
    REFUSED(motetBarrier(NULL, NULL));
    REFUSED(motetCommCount(comm, NULL));
    REFUSED(motetCommUserRank(comm, NULL));
    REFUSED(motetCommCuDevice(comm, NULL));
    REFUSED(motetCommGetAsyncError(comm, NULL));
    REFUSED(motetCommCount(NULL, &nranks));
    REFUSED(motetCommFinalize(NULL));
    return probe(comm, 1);
}

static void test_arguments_null_is_refused(void **state)
{
    (void)state;
    run_everywhere(nulls);
}

static int ranges(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static const int bad_types[] = {-1, motetNumTypes, 1000, INT_MAX, INT_MIN};
    static const int bad_ops[] = {-1, motetNumOps, motetNumOps + 1, motetMaxRedOp, INT_MIN};
    static const int bad_peers[] = {-1, -2, INT_MIN, INT_MAX};
    (void)argument, (void)rank;
    for (int i = 0; i < 5; i++) {
        motetDataType_t dtype = (motetDataType_t)bad_types[i];
        motetRedOp_t op = (motetRedOp_t)bad_ops[i];
        REFUSED(motetAllReduce(a, b, 4, dtype, motetSum, comm, NULL));
        REFUSED(motetAllReduce(a, b, 4, motetInt64, op, comm, NULL));
        REFUSED(motetReduce(a, b, 4, motetInt64, op, 0, comm, NULL));
        REFUSED(motetReduceScatter(a, b, 4, dtype, motetSum, comm, NULL));
        REFUSED(motetBcast(a, 4, dtype, 0, comm, NULL));
        REFUSED(motetAllGather(a, b, 1, dtype, comm, NULL));
        REFUSED(motetAlltoAll(a, b, 1, dtype, comm, NULL));
        REFUSED(motetSend(a, 4, dtype, 0, comm, NULL));
        REFUSED(motetRecv(a, 4, dtype, 0, comm, NULL));
    }
    for (int i = 0; i < 5; i++) {
        int peer = i < 4 ? bad_peers[i] : nranks;
        REFUSED(motetReduce(a, b, 4, motetInt64, motetSum, peer, comm, NULL));
        REFUSED(motetBroadcast(a, b, 4, motetInt64, peer, comm, NULL));
        REFUSED(motetBcast(a, 4, motetInt64, peer, comm, NULL));
        REFUSED(motetGather(a, b, 1, motetInt64, peer, comm, NULL));
        REFUSED(motetScatter(a, b, 1, motetInt64, peer, comm, NULL));
        REFUSED(motetSend(a, 4, motetInt64, peer, comm, NULL));
        REFUSED(motetRecv(a, 4, motetInt64, peer, comm, NULL));
        REFUSED(motetSendTag(a, 4, motetInt64, peer, 0, comm, NULL));
        if (peer != MOTET_ANY_SOURCE)
            REFUSED(motetRecvTag(a, 4, motetInt64, peer, 0, NULL, comm, NULL));
    }
    REFUSED(motetSendTag(a, 4, motetInt64, 0, -1, comm, NULL));
    REFUSED(motetRecvTag(a, 4, motetInt64, 0, -2, NULL, comm, NULL));
    return probe(comm, 2);
}

static void test_arguments_out_of_range_are_refused(void **state)
{
    (void)state;
    run_everywhere(ranges);
}

/* Operations that a type does not have. */
static int undefined(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static const struct {
        motetDataType_t dtype;
        motetRedOp_t op;
    } pairs[] = {
        {motetBool, motetAvg},       {motetComplex64, motetProd}, {motetComplex64, motetMax},  {motetComplex128, motetMin},
        {motetFloat32, motetBand},   {motetFloat64, motetBor},    {motetFloat16, motetBxor},   {motetBfloat16, motetBand},
        {motetFloat8e4m3, motetBor}, {motetFloat8e5m2, motetBor}, {motetComplex64, motetBxor},
    };
    (void)argument, (void)rank, (void)nranks;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        REFUSED(motetAllReduce(a, b, 4, pairs[i].dtype, pairs[i].op, comm, NULL));
        REFUSED(motetReduce(a, b, 4, pairs[i].dtype, pairs[i].op, 0, comm, NULL));
        REFUSED(motetReduceScatter(a, b, 1, pairs[i].dtype, pairs[i].op, comm, NULL));
    }
    return probe(comm, 3);
}

static void test_arguments_undefined_operation_is_refused(void **state)
{
    (void)state;
    run_everywhere(undefined);
}

/* Sizes that overflow when multiplied by the element size or the number of ranks. */
static int overflows(motetComm_t comm, int rank, int nranks, const void *argument)
{
    size_t counts[8] = {HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT, HUGE_COUNT};
    (void)argument, (void)rank, (void)nranks;
    REFUSED(motetAllReduce(a, b, HUGE_COUNT, motetInt64, motetSum, comm, NULL));
    REFUSED(motetBcast(a, HUGE_COUNT, motetInt64, 0, comm, NULL));
    REFUSED(motetAllGather(a, b, HUGE_COUNT, motetInt64, comm, NULL));
    REFUSED(motetReduceScatter(a, b, HUGE_COUNT, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAlltoAll(a, b, HUGE_COUNT, motetInt64, comm, NULL));
    REFUSED(motetAllGatherV(a, HUGE_COUNT, b, counts, NULL, motetInt64, comm, NULL));
    REFUSED(motetSend(a, HUGE_COUNT, motetInt64, 0, comm, NULL));
    REFUSED(motetRecv(a, HUGE_COUNT, motetInt64, 0, comm, NULL));
    return probe(comm, 4);
}

static void test_arguments_sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    run_everywhere(overflows);
}

/* Overlaps other than the documented in-place forms. */
static int overlaps(motetComm_t comm, int rank, int nranks, const void *argument)
{
    size_t n = (size_t)nranks, r = (size_t)rank;
    size_t counts[4] = {4, 4, 4, 4};
    (void)argument;
    REFUSED(motetAllReduce(a, a + 1, 8, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAllReduce(a + 7, a, 8, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAllReduce(a, (char *)a + 1, 8, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAllGather(a + 4 * r + 1, a, 4, motetInt64, comm, NULL));
    REFUSED(motetReduceScatter(a, a + 4 * r + 1, 4, motetInt64, motetSum, comm, NULL));
    REFUSED(motetAlltoAll(a, a, 4, motetInt64, comm, NULL));
    REFUSED(motetAlltoAll(a, a + 4 * n - 1, 4, motetInt64, comm, NULL));
    REFUSED(motetAllGatherV(a + 4 * r + 1, 4, a, counts, NULL, motetInt64, comm, NULL));
    REFUSED(motetAlltoAllV(a, counts, NULL, a, counts, NULL, motetInt64, comm, NULL));
    if (rank == 0) { /* Reduce and Gather do not look at recvbuff elsewhere */
        REFUSED(motetReduce(a, a + 3, 8, motetInt64, motetSum, 0, comm, NULL));
        REFUSED(motetGather(a + 1, a, 4, motetInt64, 0, comm, NULL));
        REFUSED(motetScatter(a, a + 1, 4, motetInt64, 0, comm, NULL));
        REFUSED(motetBroadcast(a, a + 2, 8, motetInt64, 0, comm, NULL));
    }
    probe_fill(a, 64, rank, 9); /* buffers that touch do not overlap */
    CALL(motetAllReduce(a, a + 8, 8, motetInt64, motetSum, comm, NULL));
    CHECK(probe_is(a, 8, rank, 9) && probe_is_sum(a + 8, 8, nranks, 9));
    return probe(comm, 5);
}

static void test_arguments_overlap_is_refused(void **state)
{
    (void)state;
    run_everywhere(overlaps);
}

/* A rank that alone makes an error starts nothing: its next correct call meets the others' first. */
static int one_rank_errs(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)argument;
    for (int round = 0; round < 10; round++) {
        if (rank == round % nranks) {
            REFUSED(motetAllReduce(a, NULL, 8, motetInt64, motetSum, comm, NULL));
            REFUSED(motetBcast(a, 8, motetInt64, nranks, comm, NULL));
        }
        CHECK(probe(comm, round) == 0);
    }
    return 0;
}

static void test_arguments_error_on_one_rank_does_not_disturb_the_others(void **state)
{
    (void)state;
    run_everywhere(one_rank_errs);
}

/* Zero counts touch nothing, accept null buffers, and count as calls. */
static int zero_counts(motetComm_t comm, int rank, int nranks, const void *argument)
{
    size_t zeros[4] = {0};
    (void)argument, (void)rank, (void)nranks;
    for (int round = 0; round < 3; round++) {
        CALL(motetAllReduce(NULL, NULL, 0, motetFloat32, motetSum, comm, NULL));
        CALL(motetReduce(NULL, NULL, 0, motetFloat32, motetSum, 0, comm, NULL));
        CALL(motetBroadcast(NULL, NULL, 0, motetFloat32, 0, comm, NULL));
        CALL(motetBcast(NULL, 0, motetFloat32, 0, comm, NULL));
        CALL(motetAllGather(NULL, NULL, 0, motetFloat32, comm, NULL));
        CALL(motetReduceScatter(NULL, NULL, 0, motetFloat32, motetSum, comm, NULL));
        CALL(motetAlltoAll(NULL, NULL, 0, motetFloat32, comm, NULL));
        CALL(motetGather(NULL, NULL, 0, motetFloat32, 0, comm, NULL));
        CALL(motetScatter(NULL, NULL, 0, motetFloat32, 0, comm, NULL));
        CALL(motetAllGatherV(NULL, 0, NULL, zeros, NULL, motetFloat32, comm, NULL));
        CALL(motetAlltoAllV(NULL, zeros, zeros, NULL, zeros, zeros, motetFloat32, comm, NULL));
        CHECK(probe(comm, round) == 0);
    }
    return 0;
}

static void test_arguments_zero_counts_touch_nothing(void **state)
{
    (void)state;
    run_everywhere(zero_counts);
}

/* A handle that was destroyed is refused, not followed. */
static int destroyed(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetComm_t child;
    motetResult_t state;
    (void)argument;
    CALL(motetCommSplit(comm, 0, rank, &child, NULL));
    CALL(motetCommDestroy(child));
    motetResult_t result = motetAllReduce(a, b, 4, motetInt64, motetSum, child, NULL);
    CHECK(result == motetInvalidArgument || result == motetInvalidUsage);
    result = motetCommCount(child, &nranks);
    CHECK(result == motetInvalidArgument || result == motetInvalidUsage);
    result = motetCommGetAsyncError(child, &state);
    CHECK(result == motetInvalidArgument || result == motetInvalidUsage);
    result = motetCommDestroy(child);
    CHECK(result == motetInvalidArgument || result == motetInvalidUsage);
    CALL(motetCommDestroy(NULL));
    CALL(motetCommAbort(NULL));
    return probe(comm, 6);
}

static void test_arguments_destroyed_communicator_is_refused(void **state)
{
    (void)state;
    run_everywhere(destroyed);
}

/* Custom operations: their own communicator, datatype and lifetime. */
static int custom_ops(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetRedOp_t op;
    motetComm_t child;
    float scalar = 0.5f, x = (float)(rank + 1), y = 0;
    (void)argument;
    REFUSED(motetRedOpCreatePreMulSum(NULL, &scalar, motetFloat32, motetScalarDevice, comm));
    REFUSED(motetRedOpCreatePreMulSum(&op, NULL, motetFloat32, motetScalarDevice, comm));
    REFUSED(motetRedOpCreatePreMulSum(&op, &scalar, motetNumTypes, motetScalarDevice, comm));
    REFUSED(motetRedOpCreatePreMulSum(&op, &scalar, motetFloat32, (motetScalarResidence_t)7, comm));
    REFUSED(motetRedOpDestroy(motetSum, comm));
    CALL(motetRedOpCreatePreMulSum(&op, &scalar, motetFloat32, motetScalarHostImmediate, comm));
    CHECK(op >= motetNumOps && op <= motetMaxRedOp);
    REFUSED(motetAllReduce(&x, &y, 1, motetFloat64, op, comm, NULL));
    CALL(motetCommSplit(comm, 0, rank, &child, NULL));
    REFUSED(motetAllReduce(&x, &y, 1, motetFloat32, op, child, NULL));
    CALL(motetCommDestroy(child));
    scalar = 100;
    CALL(motetAllReduce(&x, &y, 1, motetFloat32, op, comm, NULL));
    CHECK(y == 0.25f * (float)(nranks * (nranks + 1)));
    CALL(motetRedOpDestroy(op, comm));
    REFUSED(motetAllReduce(&x, &y, 1, motetFloat32, op, comm, NULL));
    REFUSED(motetRedOpDestroy(op, comm));
    return probe(comm, 7);
}

static void test_arguments_custom_operation_belongs_to_its_communicator(void **state)
{
    (void)state;
    run_everywhere(custom_ops);
}

/* Calls that need no communicator. */
static int without_communicator(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int version = 0, count = 0;
    motetParamInfo_t info;
    const char *value;
    motetStream_t stream;
    (void)comm, (void)rank, (void)nranks, (void)argument;
    CALL(motetGetVersion(&version));
    CHECK(version == MOTET_VERSION_CODE);
    REFUSED(motetGetVersion(NULL));
    for (int code = 0; code < motetNumResults; code++)
        CHECK(strlen(motetGetErrorString(code)) > 5 && strcmp(motetGetErrorString(code), "unknown result code") != 0);
    CHECK(strcmp(motetGetErrorString((motetResult_t)99), "unknown result code") == 0);
    CHECK(strcmp(motetGetErrorString((motetResult_t)-1), "unknown result code") == 0);
    CALL(motetParamCount(&count));
    CHECK(count > 20);
    for (int i = 0; i < count; i++) {
        CALL(motetParamInfo(i, &info));
        CHECK(strncmp(info.name, "MOTET_", 6) == 0 && info.sentence[0] && info.type[0] && info.error == NULL);
        CALL(motetParamGet(info.name, &value));
        CHECK(strcmp(value, info.value) == 0);
        CHECK(strcmp(info.source, getenv(info.name) ? "environment" : "default") == 0);
        CHECK(strcmp(info.name, "MOTET_EAGER") != 0 || strcmp(value, "4K") == 0);
    }
    REFUSED(motetParamInfo(count, &info));
    REFUSED(motetParamInfo(-1, &info));
    REFUSED(motetParamGet("MOTET_EAGRE", &value));
    CHECK(strstr(motetGetLastError(NULL), "MOTET_EAGER") != NULL);
    REFUSED(motetStreamCreate(NULL));
    REFUSED(motetEventCreate(NULL));
    REFUSED(motetEventRecord(NULL, NULL));
    REFUSED(motetEventQuery(NULL));
    CALL(motetStreamCreate(&stream));
    REFUSED(motetStreamWaitEvent(stream, NULL));
    CALL(motetStreamDestroy(stream));
    return 0;
}

static void test_arguments_of_calls_without_communicator(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_ALONE, .environment = {"MOTET_EAGER=4K"}};
    assert_int_equal(world_run(&world, without_communicator, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments_null_is_refused),
        cmocka_unit_test(test_arguments_out_of_range_are_refused),
        cmocka_unit_test(test_arguments_undefined_operation_is_refused),
        cmocka_unit_test(test_arguments_sizes_that_overflow_are_refused),
        cmocka_unit_test(test_arguments_overlap_is_refused),
        cmocka_unit_test(test_arguments_error_on_one_rank_does_not_disturb_the_others),
        cmocka_unit_test(test_arguments_zero_counts_touch_nothing),
        cmocka_unit_test(test_arguments_destroyed_communicator_is_refused),
        cmocka_unit_test(test_arguments_custom_operation_belongs_to_its_communicator),
        cmocka_unit_test(test_arguments_of_calls_without_communicator),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
