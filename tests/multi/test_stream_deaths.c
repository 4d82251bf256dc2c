/* SPDX-License-Identifier: Apache-2.0
 * One thread drives all streams: a death is noticed for each of them, whatever the others wait for. */
#include "world.h"

#define DYING    2
#define NOTICE_S 20.0 /* far above the limit of two seconds, far below the timeout of a call */

/* Waits until the communicator says that it has failed. */
static int hear(motetComm_t comm)
{
    motetResult_t error = motetSuccess;
    for (double end = world_now() + NOTICE_S; error == motetSuccess && world_now() < end; world_sleep_ms(5))
        CHECK(motetCommGetAsyncError(comm, &error) == motetSuccess || error != motetSuccess);
    CHECK(error != motetSuccess);
    return 0;
}

/* Rank 0 receives from the one that dies on an older stream, and on a newer one from rank 1, which sends later, on `lasting`. */
static int receive_both(motetComm_t comm, motetComm_t lasting)
{
    motetStream_t older, newer;
    float from_dead = 0, from_living = 0;
    CALL(motetStreamCreate(&older));
    CALL(motetStreamCreate(&newer));
    CALL(motetRecv(&from_dead, 1, motetFloat32, DYING, comm, older));
    CALL(motetRecv(&from_living, 1, motetFloat32, 1, lasting, newer));
    double begin = world_now();
    CHECK(motetStreamSynchronize(older) != motetSuccess);
    CHECK(world_now() - begin < NOTICE_S);
    if (lasting != comm) {
        CALL(motetStreamSynchronize(newer));
        CHECK(from_living == 17);
    } else {
        CHECK(motetStreamSynchronize(newer) != motetSuccess);
    }
    CALL(motetStreamDestroy(older));
    CALL(motetStreamDestroy(newer));
    return 0;
}

static int one_dies(motetComm_t comm, int rank, int nranks, const void *separate)
{
    motetComm_t lasting = comm;
    float value = 17;
    (void)nranks;
    if (separate)
        CALL(motetCommSplit(comm, rank == DYING ? MOTET_SPLIT_NOCOLOR : 0, rank, &lasting, NULL));
    CALL(motetBarrier(comm, NULL));
    if (rank == DYING) {
        world_sleep_ms(300);
        raise(SIGKILL);
    }
    if (rank == 0 && receive_both(comm, lasting) != 0)
        return 1;
    if (rank == 1) {
        if (hear(comm) != 0)
            return 1;
        world_sleep_ms(300);
        if (separate)
            CALL(motetSend(&value, 1, motetFloat32, 0, lasting, NULL));
    }
    if (separate)
        CALL(motetCommDestroy(lasting));
    CALL(motetCommAbort(comm));
    return 2;
}

static void test_stream_waiting_for_the_dead_fails_beside_one_that_waits_for_the_living(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 3};
    assert_int_equal(world_run_with_deaths(&world, one_dies, NULL, 1u << DYING), 0);
    assert_int_equal(world_run_with_deaths(&world, one_dies, "separate", 1u << DYING), 0);
}

static void test_stream_waiting_for_the_dead_over_tcp_fails_too(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 3, .per_host = 1};
    assert_int_equal(world_run_with_deaths(&world, one_dies, NULL, 1u << DYING), 0);
    assert_int_equal(world_run_with_deaths(&world, one_dies, "separate", 1u << DYING), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_waiting_for_the_dead_fails_beside_one_that_waits_for_the_living),
        cmocka_unit_test(test_stream_waiting_for_the_dead_over_tcp_fails_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
