/* SPDX-License-Identifier: Apache-2.0
 * Messages that nobody will ever send or take: their rank has finished, or waits in a collective for the one who waits for it. Every rank hears
 * both sides within the limit of a dead peer. And the good twins: late, but coming, is no error. */
/* test: idle timeout=300 */
#include "probe.h"

#define LIMIT_S 8 /* the limit is 2 s, 5 s between hosts; a loaded machine gets more */

enum other { DESTROYS, FINALIZES, EXITS, IN_ALLREDUCE, IN_BARRIER, IN_BROADCAST };

struct unmatched {
    enum other other;
    bool sends; /* rank 2 waits in Send, else in Recv */
    const char *first, *second;
};

static const struct unmatched cases[] = {
    {DESTROYS, false, "rank 2 waits in Recv(3 x float32) from rank 0", "rank 0 finished normally and sent nothing to rank 2"},
    {FINALIZES, false, "rank 2 waits in Recv(3 x float32) from rank 0", "rank 0 finished normally and sent nothing to rank 2"},
    {EXITS, false, "rank 2 waits in Recv(3 x float32) from rank 0", "rank 0 finished normally and sent nothing to rank 2"},
    {DESTROYS, true, "rank 2 waits in Send(500000 x float32) to rank 0",
     "rank 0 finished normally and received nothing from rank 2"},
    {IN_ALLREDUCE, false, "rank 2 waits in Recv(3 x float32) from rank 0",
     "waits in AllReduce(1 x float32, sum) (call 3), which rank 2 has not called"},
    {IN_BARRIER, true, "rank 2 waits in Send(500000 x float32) to rank 0",
     "waits in Barrier() (call 3), which rank 2 has not called"},
    {IN_BROADCAST, false, "rank 2 waits in Recv(3 x float32) from rank 0",
     "waits in Broadcast(1 x float32, root 2) (call 3), which rank 2 has not called"},
};

static int says(motetResult_t result, const struct unmatched *what, double since)
{
    const char *text = motetGetLastError(NULL);
    CHECK(result != motetSuccess && result != motetInProgress);
    if (!strstr(text, what->first) || !strstr(text, what->second))
        return world_complain(__FILE__, __LINE__, "said: %s", text);
    CHECK(world_now() - since < LIMIT_S);
    return 0;
}

/* Rank 0, whom rank 2 waits for. */
static int act_other(motetComm_t comm, const struct unmatched *what, double since)
{
    float value = 1, sum = 0;
    switch (what->other) {
    case DESTROYS:
        CALL(motetCommDestroy(comm));
        world_sleep_ms(3000); /* the process lives on: it is not a death */
        return WORLD_ABORTED;
    case FINALIZES:
        CALL(motetCommFinalize(comm));
        world_sleep_ms(3000);
        CALL(motetCommDestroy(comm));
        return WORLD_ABORTED;
    case EXITS:
        _exit(0);
    case IN_ALLREDUCE:
        return says(motetAllReduce(&value, &sum, 1, motetFloat32, motetSum, comm, NULL), what, since);
    case IN_BARRIER:
        return says(motetBarrier(comm, NULL), what, since);
    default:
        return says(motetBroadcast(&value, &sum, 1, motetFloat32, 2, comm, NULL), what, since);
    }
}

static int unmatched(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct unmatched *what = argument;
    float value = 1, three[3] = {0};
    (void)nranks;
    CALL(motetBarrier(comm, NULL));
    double since = world_now();
    if (rank == 0) {
        int failed = act_other(comm, what, since);
        if (failed)
            return failed;
    } else if (rank == 1) {
        CHECK(says(motetRecv(&value, 1, motetFloat32, 2, comm, NULL), what, since) == 0);
    } else if (what->sends) {
        float *much = calloc(500000, sizeof *much);
        CHECK(much && says(motetSend(much, 500000, motetFloat32, 0, comm, NULL), what, since) == 0);
        free(much);
    } else {
        CHECK(says(motetRecv(three, 3, motetFloat32, 0, comm, NULL), what, since) == 0);
    }
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static const struct world places[] = {{WORLD_PROCESSES, 3, {NULL}, 40, 0},
                                      {WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 40, 0},
                                      {WORLD_THREADS, 3, {NULL}, 40, 0},
                                      {WORLD_PROCESSES, 3, {NULL}, 40, 1},
                                      {WORLD_PROCESSES, 3, {"MOTET_NSOCKS=4"}, 40, 2}};

static void run_case(const struct unmatched *what)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (what->other != EXITS || i == 0 || i == 4) /* where somebody sees the exit status, and rank 2 lives on */
            assert_int_equal(world_run(&places[i], unmatched, what), 0);
}

static void test_unmatched_message_of_a_rank_that_finished_is_an_error_everywhere(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        run_case(&cases[i]);
}

static void test_unmatched_message_of_a_rank_in_a_collective_is_an_error_everywhere(void **state)
{
    (void)state;
    for (int i = 4; i < 7; i++)
        run_case(&cases[i]);
}

/* What was sent before the sender finished, or went into a collective, counts. */
static int early(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t value = 77 + rank, got = 0, sum = 0;
    bool finishes = argument != NULL;
    if (rank == 0)
        for (int r = 1; r < nranks; r++)
            CALL(motetSend(&value, 1, motetInt64, r, comm, NULL));
    if (rank != 0) {
        world_sleep_ms(1500);
        CALL(motetRecv(&got, 1, motetInt64, 0, comm, NULL));
        CHECK(got == 77);
    }
    if (!finishes) {
        CALL(motetAllReduce(&value, &sum, 1, motetInt64, motetSum, comm, NULL));
        CHECK(sum == 77 * nranks + nranks * (nranks - 1) / 2);
    }
    return 0;
}

/* A sender that is late, and one that has a collective before it which can end without the receiver. */
static int late(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t value = 77 + rank, got = 0, sum = 0;
    bool reduces = argument != NULL;
    if (rank == 0) {
        if (reduces)
            CALL(motetReduce(&value, &sum, 1, motetInt64, motetSum, 1, comm, NULL));
        world_sleep_ms(1800);
        CALL(motetSend(&value, 1, motetInt64, 2, comm, NULL));
    }
    if (rank == 2) {
        CALL(motetRecv(&got, 1, motetInt64, 0, comm, NULL));
        CHECK(got == 77);
    }
    if (reduces && rank != 0)
        CALL(motetReduce(&value, &sum, 1, motetInt64, motetSum, 1, comm, NULL));
    CHECK(rank != 1 || !reduces || sum == 77 * nranks + nranks * (nranks - 1) / 2);
    return 0;
}

static void test_unmatched_late_messages_are_no_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (int variant = 0; variant < 2; variant++) {
            assert_int_equal(world_run(&places[i], early, variant ? "finishes" : NULL), 0);
            assert_int_equal(world_run(&places[i], late, variant ? "reduces" : NULL), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unmatched_message_of_a_rank_that_finished_is_an_error_everywhere),
        cmocka_unit_test(test_unmatched_message_of_a_rank_in_a_collective_is_an_error_everywhere),
        cmocka_unit_test(test_unmatched_late_messages_are_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
