/* SPDX-License-Identifier: Apache-2.0
 * MemAlloc, registration and windows: results do not depend on which ranks use them, sizes around pages and staging included. */
#include "probe.h"

static const struct world worlds[] = {
    {WORLD_PROCESSES, 2, {NULL}, 0, 0}, {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0},
    {WORLD_THREADS, 2, {NULL}, 0, 0},   {WORLD_PROCESSES, 4, {NULL}, 0, 0},
    {WORLD_THREADS, 3, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(world_run(&worlds[i], function, NULL), 0);
}

static const size_t lens[] = {1, 8, 511, 512, 513, 4096, 30000, 70001, 600000};

/* All-reduce and all-to-all on buffers of which each rank takes its own from MemAlloc or malloc. */
static int mixed(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)argument;
    for (unsigned mask = 0; mask < 4; mask++) {
        for (size_t s = 0; s < sizeof lens / sizeof lens[0]; s++) {
            size_t n = lens[s], total = n * (size_t)nranks;
            int64_t *out, *in;
            bool shared_out = (mask ^ (unsigned)rank) & 1, shared_in = (mask ^ (unsigned)rank / 2) & 2;
            if (shared_out)
                CALL(motetMemAlloc((void **)&out, total * 8));
            else
                out = malloc(total * 8);
            if (shared_in)
                CALL(motetMemAlloc((void **)&in, total * 8));
            else
                in = malloc(total * 8);
            CHECK(out && in);
            probe_fill(out, total, rank, (int)s);
            memset(in, 0xA5, total * 8);
            CALL(motetAllReduce(out, in, n, motetInt64, motetSum, comm, NULL));
            CHECK(probe_is_sum(in, n, nranks, (int)s) && probe_is(out, total, rank, (int)s));
            for (int p = 0; p < nranks; p++)
                probe_fill(out + n * (size_t)p, n, rank * 16 + p, (int)s);
            CALL(motetAlltoAll(out, in, n, motetInt64, comm, NULL));
            for (int p = 0; p < nranks; p++)
                CHECK(probe_is(in + n * (size_t)p, n, p * 16 + rank, (int)s));
            probe_fill(in, n, rank, 77);
            CALL(motetAllReduce(in, in, n, motetInt64, motetMax, comm, NULL));
            CHECK(probe_is(in, n, nranks - 1, 77));
            if (shared_out)
                CALL(motetMemFree(out));
            else
                free(out);
            if (shared_in)
                CALL(motetMemFree(in));
            else
                free(in);
        }
    }
    return 0;
}

static void test_memory_of_any_kind_gives_the_same_results(void **state)
{
    (void)state;
    run_everywhere(mixed);
}

/* Blocks do not overlap, are zeroed and page aligned, and come back after being freed. */
static int allocations(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { BLOCKS = 40 };
    uint8_t *blocks[BLOCKS];
    int local;
    void *nothing = &local;
    (void)argument, (void)nranks;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = 1 + (size_t)(i * 7919 + round * 131) % 70000;
            CALL(motetMemAlloc((void **)&blocks[i], size));
            CHECK((uintptr_t)blocks[i] % 4096 == 0);
            for (size_t k = 0; k < size; k++)
                CHECK(blocks[i][k] == 0);
            memset(blocks[i], i + 1, size);
        }
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = 1 + (size_t)(i * 7919 + round * 131) % 70000;
            for (size_t k = 0; k < size; k++)
                CHECK(blocks[i][k] == i + 1);
        }
        for (int i = 0; i < BLOCKS; i++)
            CALL(motetMemFree(blocks[(i * 17 + round) % BLOCKS]));
    }
    CALL(motetMemAlloc(&nothing, 0));
    CHECK(nothing == NULL);
    CALL(motetMemFree(NULL));
    EXPECT(motetInvalidArgument, motetMemFree(&local));
    EXPECT(motetInvalidArgument, motetMemAlloc(NULL, 10));
    CHECK(motetMemAlloc(&nothing, SIZE_MAX / 2) != motetSuccess && nothing == NULL);
    return probe(comm, rank * 0 + 1);
}

static void test_memory_blocks_are_separate_and_zeroed(void **state)
{
    (void)state;
    run_everywhere(allocations);
}

/* Registration of any memory is accepted and changes no result; one rank registers, another does not. */
static int registered(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 300000 };
    int64_t *plain = malloc(N * 8), *shared, *sum = malloc(N * 8);
    void *handles[3] = {NULL, NULL, NULL};
    (void)argument;
    CHECK(plain && sum);
    CALL(motetMemAlloc((void **)&shared, N * 8));
    int64_t *mapped = mmap(NULL, N * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    if (rank != 1) {
        CALL(motetCommRegister(comm, plain, N * 8, &handles[0]));
        CALL(motetCommRegister(comm, shared, N * 8, &handles[1]));
        CALL(motetCommRegister(comm, mapped, N * 8, &handles[2]));
    }
    int64_t *buffers[3] = {plain, shared, mapped};
    for (int b = 0; b < 9; b++) {
        int64_t *buffer = buffers[(b + rank) % 3];
        probe_fill(buffer, N, rank, b);
        memset(sum, 0xA5, N * 8);
        CALL(motetAllReduce(buffer, sum, N, motetInt64, motetSum, comm, NULL));
        CHECK(probe_is_sum(sum, N, nranks, b));
    }
    for (int i = 0; i < 3 && rank != 1; i++)
        CALL(motetCommDeregister(comm, handles[i]));
    EXPECT(motetInvalidArgument, motetCommRegister(comm, NULL, 8, &handles[0]));
    EXPECT(motetInvalidArgument, motetCommRegister(comm, plain, 8, NULL));
    CALL(motetMemFree(shared));
    munmap(mapped, N * 8);
    free(plain);
    free(sum);
    return probe(comm, 3);
}

static void test_memory_registration_changes_no_result(void **state)
{
    (void)state;
    run_everywhere(registered);
}

/* Windows over MemAlloc and over plain memory; collectives inside them at equal and at different offsets. */
static int windows(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 100000 };
    (void)argument;
    for (int kind = 0; kind < 3; kind++) {
        int64_t *data;
        motetWindow_t window;
        void *pointer;
        bool shared = kind == 0 || (kind == 1 && rank % 2 == 0);
        if (shared)
            CALL(motetMemAlloc((void **)&data, N * 16));
        else
            CHECK((data = aligned_alloc(4096, (N * 16 + 4095) / 4096 * 4096)) != NULL);
        CALL(motetCommWindowRegister(comm, data, N * 16, &window, kind == 2 ? MOTET_WIN_DEFAULT : MOTET_WIN_COLL_SYMMETRIC));
        CALL(motetWinGetUserPtr(comm, window, &pointer));
        CHECK(pointer == data);
        for (int shift = 0; shift < 3; shift++) {
            size_t offset = shift == 2 ? (size_t)rank : (size_t)shift, n = N - 2 - (size_t)nranks;
            probe_fill(data + offset, n, rank, shift);
            CALL(motetAllReduce(data + offset, data + N + offset, n, motetInt64, motetSum, comm, NULL));
            CHECK(probe_is_sum(data + N + offset, n, nranks, shift) && probe_is(data + offset, n, rank, shift));
            CALL(motetAllReduce(data + offset, data + offset, n, motetInt64, motetMin, comm, NULL));
            CHECK(probe_is(data + offset, n, 0, shift));
        }
        CALL(motetCommWindowDeregister(comm, window));
        CALL(motetCommWindowDeregister(comm, NULL));
        EXPECT(motetInvalidArgument, motetCommWindowRegister(comm, data, N * 16, &window, 0x40));
        EXPECT(motetInvalidArgument, motetCommWindowRegister(comm, data, N * 16, NULL, 0));
        CALL(motetBarrier(comm, NULL));
        if (shared)
            CALL(motetMemFree(data));
        else
            free(data);
    }
    return probe(comm, 4);
}

static void test_memory_windows_carry_collectives(void **state)
{
    (void)state;
    run_everywhere(windows);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_any_kind_gives_the_same_results),
        cmocka_unit_test(test_memory_blocks_are_separate_and_zeroed),
        cmocka_unit_test(test_memory_registration_changes_no_result),
        cmocka_unit_test(test_memory_windows_carry_collectives),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
