/* SPDX-License-Identifier: Apache-2.0
 * Calls that do not match on all ranks: an error on every rank that names both sides, soon, whatever differs; never a hang, and
 * never a wrong value without an error. */
#include "probe.h"

enum difference { COUNT, DTYPE, OP, ROOT, KIND, ORDER, GROUPING, VCOUNTS, ZERO, EXTRA_CALL, NDIFFERENCES };

struct trial {
    enum difference what;
    int odd_rank;
    size_t n;
};

/* The call of a rank; `odd` says whether this is the rank that differs. */
static motetResult_t call(const struct trial *trial, bool odd, int nranks, motetComm_t comm, char *a, char *b)
{
    size_t n = trial->n, counts[8];
    motetResult_t first = motetSuccess, second;
    for (int r = 0; r < 8; r++)
        counts[r] = n / 8 + (odd && r == nranks - 1);
    switch (trial->what) {
    case COUNT:
        return motetAllReduce(a, b, odd ? n + 1 : n, motetInt32, motetSum, comm, NULL);
    case DTYPE:
        return motetAllReduce(a, b, n, odd ? motetFloat32 : motetInt32, motetSum, comm, NULL);
    case OP:
        return motetAllReduce(a, b, n, motetInt32, odd ? motetMax : motetSum, comm, NULL);
    case ROOT:
        return motetBroadcast(a, b, n, motetInt32, odd ? 1 : 0, comm, NULL);
    case KIND:
        return odd ? motetReduce(a, b, n, motetInt32, motetSum, 0, comm, NULL)
                   : motetAllReduce(a, b, n, motetInt32, motetSum, comm, NULL);
    case ORDER:
        for (int i = 0; i < 2 && first == motetSuccess; i++)
            first = i == odd ? motetBcast(b, n, motetInt32, 0, comm, NULL) : motetBarrier(comm, NULL);
        return first;
    case GROUPING:
        motetGroupStart();
        first = motetAllReduce(a, b, n, motetInt32, motetSum, comm, NULL);
        second = odd ? motetGroupEnd() : motetBarrier(comm, NULL);
        if (odd)
            return second != motetSuccess ? second : motetBarrier(comm, NULL);
        second = motetGroupEnd();
        return first != motetSuccess ? first : second;
    case VCOUNTS:
        return motetReduceScatterV(a, b, counts, motetInt32, motetSum, comm, NULL);
    case ZERO:
        return motetAllReduce(a, b, odd ? 0 : n, motetInt32, motetSum, comm, NULL);
    default:
        if (odd)
            first = motetBarrier(comm, NULL);
        return first != motetSuccess ? first : motetAllReduce(a, b, n, motetInt32, motetSum, comm, NULL);
    }
}

/* Where a call could return before the others were seen, the next ones tell. */
static int mismatch(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct trial *trial = argument;
    char *a = calloc(8, trial->n + 64), *b = calloc(8, trial->n + 64);
    bool odd = rank == trial->odd_rank % nranks;
    CHECK(a && b);
    double start = world_now();
    motetResult_t result = motetBarrier(comm, NULL), state; /* a quick rank's error may come while this one is still inside */
    if (result == motetSuccess)
        result = call(trial, odd, nranks, comm, a, b);
    for (int next = 0; next < 3 && result == motetSuccess; next++)
        result = motetAllReduce(a, b, 1, motetInt32, motetSum, comm, NULL);
    if (result != motetInvalidUsage)
        return world_complain(__FILE__, __LINE__, "rank %d: %s (%s)", rank, motetGetErrorString(result), motetGetLastError(comm));
    CHECK(world_now() - start < 5);
    CHECK(strlen(motetGetLastError(comm)) > 20);
    CALL(motetCommGetAsyncError(comm, &state));
    CHECK(state == motetInvalidUsage);
    EXPECT(motetInvalidUsage, motetBarrier(comm, NULL)); /* the first error stays */
    CALL(motetCommAbort(comm));
    free(a);
    free(b);
    return WORLD_ABORTED;
}

static void try_all(const struct world *world, const size_t *lens, size_t nlens)
{
    for (int what = 0; what < NDIFFERENCES; what++) {
        for (size_t i = 0; i < nlens; i++) {
            struct trial trial = {what, what % world->nranks, lens[i]};
            if (world_run(world, mismatch, &trial))
                fail_msg("difference %d, count %zu", what, lens[i]);
        }
    }
}

static const size_t lens[] = {1, 64, 5000, 300000};

static void test_mismatch_over_shared_memory_is_an_error_everywhere(void **state)
{
    (void)state;
    for (int nranks = 2; nranks <= 5; nranks += 3)
        try_all(&(struct world){.kind = WORLD_PROCESSES, .nranks = nranks, .timeout_s = 20}, lens, 4);
}

static void test_mismatch_over_tcp_is_an_error_everywhere(void **state)
{
    (void)state;
    for (int nranks = 2; nranks <= 3; nranks++)
        try_all(&(struct world){WORLD_PROCESSES, nranks, {"MOTET_SHM_DISABLE=1"}, 20, 0}, lens, 4);
}

static void test_mismatch_between_threads_is_an_error_everywhere(void **state)
{
    (void)state;
    try_all(&(struct world){.kind = WORLD_THREADS, .nranks = 3, .timeout_s = 20}, lens, 4);
}

/* ---- Who is on which side */

/* Rank 4 differs, and with `three` rank 1 in another way: each rank's sentence counts all ranks. */
static int sides(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const int *three = argument;
    float a[1001] = {0}, b[1001 * 6];
    const char *words =
        *three ? "call 2: ranks 0, 2, 3, 5 called AllReduce(1000 x float32, sum), rank 1 called AllReduce(1000 x float32, "
                 "max), rank 4 called AllGather(500 x float32)"
               : "call 2: ranks 0-3, 5 called AllReduce(1000 x float32, sum), rank 4 called AllGather(500 x float32)";
    motetResult_t result;
    if (rank == 4)
        result = motetAllGather(a, b, 500, motetFloat32, comm, NULL);
    else
        result = motetAllReduce(a, b, 1000, motetFloat32, *three && rank == 1 ? motetMax : motetSum, comm, NULL);
    CHECK(nranks == 6 && result == motetInvalidUsage);
    if (!strstr(motetGetLastError(comm), words))
        return world_complain(__FILE__, __LINE__, "rank %d: %s", rank, motetGetLastError(comm));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_mismatch_names_every_side_and_all_its_ranks(void **state)
{
    static const struct world worlds[] = {{WORLD_PROCESSES, 6, {NULL}, 30, 0},
                                          {WORLD_THREADS, 6, {NULL}, 30, 0},
                                          {WORLD_PROCESSES, 6, {"MOTET_SHM_DISABLE=1"}, 30, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        for (int three = 0; three < 2; three++)
            assert_int_equal(world_run(&worlds[i], sides, &three), 0);
}

/* Roots of two broadcasts that nobody else reads from go on; the first of the calls that differ is named, across hosts too. */
static int first_difference(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t value = rank;
    motetResult_t result = motetSuccess;
    (void)argument, (void)nranks;
    CALL(motetBarrier(comm, NULL));
    result = motetBroadcast(&value, &value, 1, motetInt64, rank, comm, NULL); /* each one is the root */
    for (int i = 0; i < 4 && result == motetSuccess; i++)
        result = motetReduce(&value, &value, 1, motetInt64, motetSum, 0, comm, NULL);
    if (result == motetSuccess)
        result = motetBarrier(comm, NULL);
    CHECK(result == motetInvalidUsage);
    if (!strstr(motetGetLastError(comm),
                "call 3: rank 0 called Broadcast(1 x int64, root 0), rank 1 called Broadcast(1 x int64, root 1)"))
        return world_complain(__FILE__, __LINE__, "rank %d: %s", rank, motetGetLastError(comm));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_mismatch_names_the_first_call_that_differs(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {NULL}, 30, 0}, first_difference, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 30, 0}, first_difference, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch_over_shared_memory_is_an_error_everywhere),
        cmocka_unit_test(test_mismatch_over_tcp_is_an_error_everywhere),
        cmocka_unit_test(test_mismatch_between_threads_is_an_error_everywhere),
        cmocka_unit_test(test_mismatch_names_every_side_and_all_its_ranks),
        cmocka_unit_test(test_mismatch_names_the_first_call_that_differs),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
