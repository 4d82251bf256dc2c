/* SPDX-License-Identifier: Apache-2.0
 * The sentence of a mismatch: the communicator, the number of the call and both sides' calls, the same on every rank, over shared memory,
 * TCP and threads; also where threads order their calls differently, groups differ, messages do not fit, or a rank leaves too early. */
#include "world.h"

#define SOON_S 20 /* a loaded machine needs seconds for what takes a tenth */

struct sentence {
    int odd_rank;
    const char *texts[3]; /* all must be in it */
};

/* Every rank gets the error within its call or the next ones, and it has all that is expected. */
static int expect_sentence(motetComm_t comm, int rank, motetResult_t result, const struct sentence *expected)
{
    float one = 1, sum;
    double end = world_now() + SOON_S;
    while (result == motetSuccess && world_now() < end)
        result = motetAllReduce(&one, &sum, 1, motetFloat32, motetSum, comm, NULL);
    if (result != motetInvalidUsage)
        return world_complain(__FILE__, __LINE__, "rank %d: %s (%s)", rank, motetGetErrorString(result), motetGetLastError(comm));
    for (int i = 0; i < 3 && expected->texts[i]; i++)
        if (!strstr(motetGetLastError(comm), expected->texts[i]))
            return world_complain(__FILE__, __LINE__, "rank %d: \"%s\" is not in \"%s\"", rank, expected->texts[i],
                                  motetGetLastError(comm));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

/* A communicator called "world" of the same ranks: the sentence names it. */
static int named(motetComm_t comm, int rank, motetComm_t *world)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    config.commName = "world";
    CALL(motetCommSplit(comm, 0, rank, world, &config));
    return 0;
}

static void try_everywhere(int nranks, world_function function, const struct sentence *expected)
{
    const struct world worlds[] = {
        {.kind = WORLD_PROCESSES, .nranks = nranks},
        {.kind = WORLD_PROCESSES, .nranks = nranks, .environment = {"MOTET_SHM_DISABLE=1"}},
        {.kind = WORLD_THREADS, .nranks = nranks},
    };
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        if (world_run(&worlds[i], function, expected))
            fail_msg("world %zu", i);
}

static int other_operation(motetComm_t parent, int rank, int nranks, const void *argument)
{
    float mine[1000] = {(float)rank}, all[4000];
    motetComm_t comm;
    const struct sentence *expected = argument;
    CHECK(named(parent, rank, &comm) == 0 && nranks <= 4);
    motetResult_t result = rank == expected->odd_rank ? motetAllGather(mine, all, 500, motetFloat32, comm, NULL)
                                                      : motetAllReduce(mine, all, 1000, motetFloat32, motetSum, comm, NULL);
    return expect_sentence(comm, rank, result, expected);
}

static void test_mismatch_026_of_operations_prints_both_sides_on_every_rank(void **state)
{
    (void)state;
    try_everywhere(2, other_operation,
                   &(struct sentence){1,
                                      {"comm \"world\" (2 ranks), call 1: rank 0 called AllReduce(1000 x float32, sum), rank 1 "
                                       "called AllGather(500 x float32)"}});
    try_everywhere(
        4, other_operation,
        &(struct sentence){
            2, {"comm \"world\" (4 ranks), call 1: ", "AllReduce(1000 x float32, sum)", "rank 2 called AllGather(500 x float32)"}});
}

/* One of two threads of a rank makes its call. */
struct turn {
    motetComm_t comm;
    int thread;
    motetResult_t result;
};

static void *make_call(void *context)
{
    struct turn *turn = context;
    float mine[2] = {1, 2}, result[2];
    turn->result = turn->thread == 0 ? motetAllReduce(mine, result, 2, motetFloat32, motetMax, turn->comm, NULL)
                                     : motetBroadcast(mine, result, 2, motetFloat32, 0, turn->comm, NULL);
    return NULL;
}

/* Two threads of each rank take turns on one communicator, in another order on the last rank. */
static int other_order(motetComm_t parent, int rank, int nranks, const void *argument)
{
    struct turn turn = {.result = motetSuccess};
    CHECK(named(parent, rank, &turn.comm) == 0);
    for (int i = 0; i < 2 && turn.result == motetSuccess; i++) {
        pthread_t thread;
        turn.thread = rank == nranks - 1 ? 1 - i : i;
        CHECK(pthread_create(&thread, NULL, make_call, &turn) == 0);
        pthread_join(thread, NULL);
    }
    return expect_sentence(turn.comm, rank, turn.result, argument);
}

static void test_mismatch_028_of_order_between_threads_prints_both_sides_on_every_rank(void **state)
{
    (void)state;
    try_everywhere(3, other_order,
                   &(struct sentence){2,
                                      {"comm \"world\" (3 ranks), call 1: ", "called AllReduce(2 x float32, max)",
                                       "rank 2 called Broadcast(2 x float32, root 0)"}});
}

/* The last rank makes one call more and others are through: they hear of it in their next call. */
static int one_more(motetComm_t parent, int rank, int nranks, const void *argument)
{
    float mine[3] = {(float)rank}, all[3];
    motetComm_t comm;
    motetResult_t result = motetSuccess;
    CHECK(named(parent, rank, &comm) == 0);
    if (rank == nranks - 1)
        result = motetAllReduce(mine, all, 3, motetFloat32, motetMin, comm, NULL);
    return expect_sentence(comm, rank, result, argument);
}

static void test_mismatch_028_of_a_call_too_many_prints_both_sides_on_every_rank(void **state)
{
    (void)state;
    try_everywhere(3, one_more,
                   &(struct sentence){2,
                                      {"comm \"world\" (3 ranks), call 1: ", "called AllReduce(1 x float32, sum)",
                                       "rank 2 called AllReduce(3 x float32, min)"}});
}

static int other_group(motetComm_t parent, int rank, int nranks, const void *argument)
{
    float mine[5] = {(float)rank}, all[5], more[5];
    motetComm_t comm;
    bool grouped = rank == nranks - 1;
    CHECK(named(parent, rank, &comm) == 0);
    if (grouped)
        CALL(motetGroupStart());
    motetResult_t result = motetAllReduce(mine, all, 5, motetFloat32, motetSum, comm, NULL);
    if (result == motetSuccess)
        result = motetAllReduce(mine, more, 5, motetFloat32, motetSum, comm, NULL);
    if (grouped)
        result = motetGroupEnd();
    return expect_sentence(comm, rank, result, argument);
}

static void test_mismatch_050_of_groups_prints_both_sides_on_every_rank(void **state)
{
    (void)state;
    try_everywhere(2, other_group,
                   &(struct sentence){1,
                                      {"comm \"world\" (2 ranks), call 1: rank 0 called AllReduce(5 x float32, sum), rank 1 called "
                                       "AllReduce(5 x float32, sum, in a group)"}});
}

static int other_size(motetComm_t parent, int rank, int nranks, const void *argument)
{
    float buf[8] = {(float)rank};
    motetComm_t comm;
    motetResult_t result = motetSuccess;
    (void)nranks;
    CHECK(named(parent, rank, &comm) == 0);
    if (rank == 0)
        result = motetSend(buf, 3, motetFloat32, 1, comm, NULL);
    else if (rank == 1)
        result = motetRecv(buf, 4, motetFloat32, 0, comm, NULL);
    return expect_sentence(comm, rank, result, argument);
}

static void test_mismatch_026_of_a_message_prints_both_sides_on_every_rank(void **state)
{
    (void)state;
    try_everywhere(
        3, other_size,
        &(struct sentence){1,
                           {"comm \"world\" (3 ranks): rank 1 called Recv(4 x float32) from rank 0, rank 0 called Send(3 "
                            "x float32) to rank 1"}});
}

/* The last rank leaves while the others have called something: they get an error that names it. */
static int leaver(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const bool *exits = argument;
    float mine = (float)rank, sum;
    char name[32];
    CALL(motetBarrier(comm, NULL));
    if (rank == nranks - 1) {
        if (*exits)
            _exit(0);
        CALL(motetCommDestroy(comm));
        return WORLD_ABORTED;
    }
    motetResult_t result = motetSuccess;
    for (double end = world_now() + SOON_S; result == motetSuccess && world_now() < end;)
        result = motetAllReduce(&mine, &sum, 1, motetFloat32, motetSum, comm, NULL);
    CHECK(result == motetRemoteError || result == motetInvalidUsage);
    snprintf(name, sizeof name, "rank %d ", nranks - 1);
    if (!strstr(motetGetLastError(comm), name))
        return world_complain(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", name, motetGetLastError(comm));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_call_029_that_a_rank_left_before_names_it_on_every_rank(void **state)
{
    (void)state;
    for (int exits = 0; exits < 2; exits++) {
        bool argument = exits != 0;
        assert_int_equal(world_run(&(struct world){.kind = WORLD_PROCESSES, .nranks = 3}, leaver, &argument), 0);
        assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 0, 0}, leaver, &argument), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch_026_of_operations_prints_both_sides_on_every_rank),
        cmocka_unit_test(test_mismatch_028_of_order_between_threads_prints_both_sides_on_every_rank),
        cmocka_unit_test(test_mismatch_028_of_a_call_too_many_prints_both_sides_on_every_rank),
        cmocka_unit_test(test_mismatch_050_of_groups_prints_both_sides_on_every_rank),
        cmocka_unit_test(test_mismatch_026_of_a_message_prints_both_sides_on_every_rank),
        cmocka_unit_test(test_call_029_that_a_rank_left_before_names_it_on_every_rank),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
