/* SPDX-License-Identifier: Apache-2.0
 * Staging through the cache and past it: the same results, whichever way the setting asks for, and when it changes from call to call as it is
 * measured. */
#include "world.h"

#define ROOM 300007

static const size_t counts[] = {1, 511, 512, 513, 1023, 1024, 4095, 4096, 4097, 16384, 65537, ROOM / 2};

static int one_count(motetComm_t comm, int rank, int nranks, size_t n, float *send, float *recv)
{
    for (size_t i = 0; i < n; i++)
        send[i] = (float)(rank + 1) * (float)(i % 1000 + 1);
    memset(recv, 0xa5, n * (size_t)nranks * sizeof *recv);
    CALL(motetAllReduce(send, recv, n, motetFloat32, motetSum, comm, NULL));
    for (size_t i = 0; i < n; i++)
        CHECK(recv[i] == (float)(nranks * (nranks + 1) / 2) * (float)(i % 1000 + 1));
    memset(recv, 0xa5, n * (size_t)nranks * sizeof *recv);
    CALL(motetAllGather(send, recv, n, motetFloat32, comm, NULL));
    for (size_t i = 0; i < n * (size_t)nranks; i++)
        CHECK(recv[i] == (float)(i / n + 1) * (float)(i % n % 1000 + 1));
    int previous = (rank + nranks - 1) % nranks;
    memset(recv, 0xa5, n * sizeof *recv);
    CALL(motetGroupStart());
    CALL(motetSend(send, n, motetFloat32, (rank + 1) % nranks, comm, NULL));
    CALL(motetRecv(recv, n, motetFloat32, previous, comm, NULL));
    CALL(motetGroupEnd());
    for (size_t i = 0; i < n; i++)
        CHECK(recv[i] == (float)(previous + 1) * (float)(i % 1000 + 1));
    return 0;
}

static int all_counts(motetComm_t comm, int rank, int nranks, const void *argument)
{
    float *send = malloc(ROOM * sizeof *send), *recv = malloc((size_t)nranks * ROOM * sizeof *recv);
    int failed = !send || !recv;
    (void)argument;
    for (int turn = 0; turn < 3; turn++)
        for (size_t c = 0; !failed && c < sizeof counts / sizeof *counts; c++)
            failed = one_count(comm, rank, nranks, counts[c], send, recv);
    free(send);
    free(recv);
    return failed;
}

static void test_bypass_either_way_gives_the_same_results(void **state)
{
    static const char *const ways[] = {"MOTET_CACHE_BYPASS=0", "MOTET_CACHE_BYPASS=1", "MOTET_CACHE_BYPASS=-1"};
    (void)state;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (int nranks = 2; nranks <= 3; nranks++) {
            struct world processes = {.kind = WORLD_PROCESSES, .nranks = nranks, .environment = {ways[w]}};
            struct world threads = {.kind = WORLD_THREADS, .nranks = nranks, .environment = {ways[w]}};
            assert_int_equal(world_run(&processes, all_counts, NULL), 0);
            assert_int_equal(world_run(&threads, all_counts, NULL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bypass_either_way_gives_the_same_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
