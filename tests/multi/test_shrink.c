/* SPDX-License-Identifier: Apache-2.0
 * Revoke, shrink, and split of communicators that failed: survivors go on with right results, over threads, shared memory and sockets; who
 * is to blame when they cannot is named on every rank. */
/* test: slow timeout=900 */
#include "survivors.h"

/* ---- Death, then shrink ---- */

struct death {
    int flags, victim;
    bool twice; /* another rank is excluded from what is left */
};

static int shrink_after_death(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct death *death = argument;
    motetComm_t fewer = NULL, fewest = NULL;
    int excluded[] = {death->victim}, last[] = {1}, n, r;
    char gone[32];
    CHECK(probe(comm, 1) == 0);
    if (rank == death->victim) {
        CHECK(survivors_call(comm, rank, 0) == motetSuccess); /* now the others have all of the probe */
        kill(getpid(), SIGKILL);
        return 1;
    }
    EXPECT(motetRemoteError, survivors_work(comm));
    snprintf(gone, sizeof gone, "rank %d", death->victim);
    CHECK(survivors_said(gone) == 0);
    CHECK(motetCommSplit(comm, 0, 0, &fewest, NULL) == motetRemoteError && fewest == NULL);
    CHECK(survivors_said("only CommShrink") == 0 && survivors_said(gone) == 0);
    CALL(motetCommShrink(comm, excluded, 1, &fewer, NULL, death->flags));
    (void)motetCommDestroy(comm); /* says what it died of */
    CALL(motetCommCount(fewer, &n));
    CALL(motetCommUserRank(fewer, &r));
    CHECK(n == nranks - 1 && r == rank - (rank > death->victim));
    CHECK(survivors_judge(fewer) == 0);
    if (death->twice && r != 1) {
        CALL(motetCommShrink(fewer, last, 1, &fewest, NULL, MOTET_SHRINK_DEFAULT));
        CHECK(survivors_judge(fewest) == 0);
        CALL(motetCommDestroy(fewest));
    }
    CALL(motetCommDestroy(fewer));
    return WORLD_ABORTED;
}

static void test_shrink_after_a_death_survivors_go_on(void **state)
{
    (void)state;
    survivors_run(shrink_after_death, &(struct death){MOTET_SHRINK_DEFAULT, 0, false}, 1);
    survivors_run(shrink_after_death, &(struct death){MOTET_SHRINK_ABORT, 2, true}, 4);
    survivors_run(shrink_after_death, &(struct death){MOTET_SHRINK_DEFAULT, 3, true}, 8);
}

/* ---- Revoke ---- */

struct waiting {
    motetComm_t comm;
    _Atomic(int) entered, result;
};

static void *wait_inside(void *pointer)
{
    struct waiting *self = pointer;
    int64_t mine = 1, sum = 0;
    self->entered = 1;
    self->result = motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, self->comm, NULL);
    return NULL;
}

/* The last rank revokes while another thread of its own and other ranks are inside a call, to which rank 0 does not come. */
static int revoke_in_calls(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int flags = *(const int *)argument, excluded[] = {1}, last = nranks - 1;
    int64_t mine = 1, sum = 0;
    motetResult_t state;
    motetComm_t child = NULL;
    char by[32];
    snprintf(by, sizeof by, "rank %d revoked", last);
    survivors_await_all(nranks);
    if (rank == last) {
        struct waiting waiting = {.comm = comm};
        pthread_t thread;
        motetStream_t stream;
        CALL(motetStreamCreate(&stream));
        CHECK(pthread_create(&thread, NULL, wait_inside, &waiting) == 0);
        while (!waiting.entered)
            world_sleep_ms(1);
        world_sleep_ms(100);
        if (flags == MOTET_SHRINK_DEFAULT)
            CALL(motetCommRevoke(comm, MOTET_REVOKE_DEFAULT));
        else /* revokes by itself */
            CALL(motetCommShrink(comm, excluded, 1, &child, NULL, flags));
        pthread_join(thread, NULL);
        CHECK(waiting.result == motetInvalidUsage);
        CALL(motetCommGetAsyncError(comm, &state));
        CHECK(state == motetSuccess);
        CALL(motetStreamDestroy(stream));
    } else {
        if (rank != 0) {
            EXPECT(motetInvalidUsage, motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, comm, NULL));
            CHECK(survivors_said(by) == 0);
        }
        do {
            world_sleep_ms(1);
            CALL(motetCommGetAsyncError(comm, &state));
        } while (state == motetSuccess);
        CHECK(state == motetInvalidUsage);
    }
    EXPECT(motetInvalidUsage, motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, comm, NULL));
    CHECK(survivors_said(by) == 0);
    EXPECT(motetInvalidUsage, motetCommFinalize(comm));
    if (rank != 1 && !child)
        CALL(motetCommShrink(comm, excluded, 1, &child, NULL, flags));
    if (child) {
        CHECK(survivors_judge(child) == 0);
        CALL(motetCommDestroy(child));
    }
    (void)motetCommDestroy(comm);
    return WORLD_ABORTED;
}

static void test_revoke_ends_calls_everywhere_then_shrink(void **state)
{
    (void)state;
    survivors_run(revoke_in_calls, &(int){MOTET_SHRINK_DEFAULT}, 0);
    survivors_run(revoke_in_calls, &(int){MOTET_SHRINK_ABORT}, 0);
}

/* Nothing is wrong with a communicator that was only revoked: it can be split, by all ranks. */
static int split_revoked(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetComm_t child;
    int n, r;
    (void)argument;
    if (rank == 2) { /* one call as in survivors_work: then nobody is in init any more */
        CALL(survivors_call(comm, rank, 0));
        CALL(motetCommRevoke(comm, MOTET_REVOKE_DEFAULT));
    }
    if (rank != 2)
        EXPECT(motetInvalidUsage, survivors_work(comm));
    CALL(motetCommSplit(comm, rank == 1 ? MOTET_SPLIT_NOCOLOR : rank & 1, -rank, &child, NULL));
    CHECK((child == NULL) == (rank == 1));
    if (child) {
        CALL(motetCommCount(child, &n));
        CALL(motetCommUserRank(child, &r));
        CHECK(rank == 3 ? n == 1 : n == (nranks + 1) / 2);
        CHECK(rank == 3 || r == (rank == 0));
        CHECK(survivors_judge(child) == 0);
        CALL(motetCommDestroy(child));
    }
    (void)motetCommDestroy(comm);
    return WORLD_ABORTED;
}

static void test_split_of_a_revoked_communicator_works(void **state)
{
    (void)state;
    survivors_run(split_revoked, NULL, 0);
}

/* ---- A healthy parent ---- */

static int shrink_healthy(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int excluded[] = {2, 0, 2};
    motetComm_t child;
    motetStream_t stream;
    int64_t *mine = calloc(60000, sizeof *mine), *sum = mine + 30000;
    (void)argument;
    CHECK(mine);
    CALL(motetStreamCreate(&stream));
    probe_fill(mine, 30000, rank, 5);
    CALL(motetAllReduce(mine, sum, 30000, motetInt64, motetSum, comm, stream)); /* completed by the shrink */
    if (rank == 1 || rank == 3) {
        CALL(motetCommShrink(comm, excluded, 3, &child, NULL, MOTET_SHRINK_DEFAULT));
        CHECK(probe_is_sum(sum, 30000, nranks, 5));
        CHECK(survivors_judge(child) == 0);
    }
    CALL(motetStreamSynchronize(stream));
    CHECK(probe(comm, 7) == 0);
    if (rank == 1 || rank == 3)
        CALL(motetCommDestroy(child));
    CALL(motetStreamDestroy(stream));
    free(mine);
    return 0;
}

static void test_shrink_of_a_healthy_parent_leaves_it_working(void **state)
{
    (void)state;
    survivors_run(shrink_healthy, NULL, 0);
}

/* ---- Who is to blame ---- */

static int lists_differ(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int mine[] = {3, 2};
    motetComm_t child = (motetComm_t)(uintptr_t)1;
    (void)nranks, (void)argument;
    if (rank == 3)
        return probe(comm, 1);
    /* Ranks 0 and 1 do not agree; rank 2 stands on the list of rank 1. Whichever of the two is noticed first, rank 1 differs. */
    EXPECT(motetInvalidUsage, motetCommShrink(comm, mine, rank == 1 ? 2 : 1, &child, NULL, 0));
    CHECK(child == NULL && survivors_said("rank 1") == 0);
    CHECK(strstr(motetGetLastError(NULL), "rank 0 excludes 3, rank 1 excludes 2, 3") || survivors_said("same list") == 0);
    if (rank < 2) /* a second attempt, all alike */
        CALL(motetCommShrink(comm, mine, 2, &child, NULL, 0));
    if (rank < 2) {
        CHECK(probe(child, 2) == 0);
        CALL(motetCommDestroy(child));
    }
    return probe(comm, 1);
}

static int dies_meanwhile(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int excluded[] = {0};
    motetComm_t child;
    char gone[64];
    (void)argument;
    survivors_await_all(nranks);
    if (rank == 3) {
        world_sleep_ms(300);
        kill(getpid(), SIGKILL);
    }
    if (rank > 0) {
        double start = world_now();
        EXPECT(motetRemoteError, motetCommShrink(comm, excluded, 1, &child, NULL, 0));
        snprintf(gone, sizeof gone, "rank 3 (pid ");
        CHECK(child == NULL && survivors_said(gone) == 0 && world_now() - start < 20);
        excluded[0] = 3; /* rank 0 is there after all */
    }
    if (rank == 0)
        excluded[0] = 3;
    CALL(motetCommShrink(comm, excluded, 1, &child, NULL, 0));
    CHECK(probe(child, 2) == 0);
    CALL(motetCommDestroy(child));
    (void)motetCommAbort(comm);
    return WORLD_ABORTED;
}

static int leaves_meanwhile(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int excluded[] = {0};
    motetComm_t child, other;
    bool aborts = argument != NULL;
    CALL(motetCommSplit(comm, 0, rank, &other, NULL)); /* so that the process does not end its connections */
    survivors_await_all(nranks);
    if (rank == 3) {
        world_sleep_ms(300);
        CALL(aborts ? motetCommAbort(comm) : motetCommDestroy(comm));
    } else if (rank > 0) {
        EXPECT(motetRemoteError, motetCommShrink(comm, excluded, 1, &child, NULL, 0));
        CHECK(child == NULL && survivors_said("rank 3 (pid ") == 0);
    }
    CHECK(probe(other, 4) == 0);
    if (rank != 3)
        (void)motetCommDestroy(comm);
    CALL(motetCommDestroy(other));
    return WORLD_ABORTED;
}

static int never_comes(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int excluded[] = {0};
    motetComm_t child;
    (void)nranks, (void)argument;
    if (rank == 1 || rank == 2) {
        motetConfig_t config = MOTET_CONFIG_INITIALIZER;
        config.initTimeoutMs = 1000 + rank * 2000;
        EXPECT(motetTimeout, motetCommShrink(comm, excluded, 1, &child, &config, 0));
        CHECK(child == NULL && survivors_said("from ranks: 3") == 0);
        CHECK(survivors_said(" s (initTimeoutMs of the configuration) from") == 0);
    }
    CHECK(probe(comm, 4) == 0);
    return 0;
}

static void test_shrink_that_cannot_be_names_the_culprit(void **state)
{
    (void)state;
    survivors_run(lists_differ, NULL, 0);
    survivors_run(dies_meanwhile, NULL, 8);
    survivors_run(leaves_meanwhile, NULL, 0);
    survivors_run(leaves_meanwhile, "abort", 0);
    survivors_run(never_comes, NULL, 0);
}

static int wrong_arguments(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int self[] = {rank}, outside[] = {nranks}, negative[] = {-1}, other[] = {(rank + 1) % nranks};
    motetComm_t child;
    (void)argument;
    EXPECT(motetInvalidArgument, motetCommShrink(NULL, other, 1, &child, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, self, 1, &child, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, outside, 1, &child, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, negative, 1, &child, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, NULL, 1, &child, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, other, -1, &child, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, other, 1, NULL, NULL, 0));
    EXPECT(motetInvalidArgument, motetCommShrink(comm, other, 1, &child, NULL, 2));
    EXPECT(motetInvalidArgument, motetCommRevoke(NULL, 0));
    EXPECT(motetInvalidArgument, motetCommRevoke(comm, 1));
    CALL(motetCommShrink(comm, NULL, 0, &child, NULL, 0)); /* nobody: the same ranks once more */
    CHECK(probe(child, 9) == 0 && probe(comm, 10) == 0);
    CALL(motetCommDestroy(child));
    return 0;
}

static void test_shrink_wrong_arguments_start_nothing(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {NULL}, 60, 0}, wrong_arguments, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_THREADS, 3, {NULL}, 60, 0}, wrong_arguments, NULL), 0);
}

/* ---- Many ranks ---- */

static int many(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int excluded[64], n = 0;
    motetComm_t child;
    (void)argument;
    for (int r = 0; r < nranks; r += 3)
        excluded[n++] = r;
    if (rank == 1)
        CALL(motetCommRevoke(comm, 0));
    if (rank % 3 == 0)
        return (void)motetCommDestroy(comm), WORLD_ABORTED;
    CALL(motetCommShrink(comm, excluded, n, &child, NULL, MOTET_SHRINK_ABORT));
    CHECK(probe(child, 1) == 0);
    CALL(motetCommDestroy(child));
    (void)motetCommDestroy(comm);
    return WORLD_ABORTED;
}

static void test_shrink_of_more_ranks_than_a_word_has_bits(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_THREADS, 70, {"MOTET_BUFFSIZE=64K"}, 240, 0}, many, NULL), 0);
}

/* One thread that drives several ranks groups their calls. */
static int grouped(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    motetComm_t comms[4], fewer[4];
    int excluded[] = {1};
    int64_t mine[4], sum[4] = {0};
    (void)unused, (void)unused_rank, (void)argument;
    CALL(motetCommInitAll(comms, nranks, NULL));
    CALL(motetCommRevoke(comms[2], 0));
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++)
        if (r != 1)
            CALL(motetCommShrink(comms[r], excluded, 1, &fewer[r], NULL, 0));
    CALL(motetGroupEnd());
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++) {
        mine[r] = probe_value(r, 0, 0);
        if (r != 1)
            CALL(motetAllReduce(&mine[r], &sum[r], 1, motetInt64, motetSum, fewer[r], NULL));
    }
    CALL(motetGroupEnd());
    for (int r = 0; r < nranks; r++) {
        CHECK(r == 1 || sum[r] == mine[0] + mine[2] + mine[3]);
        if (r != 1)
            CALL(motetCommDestroy(fewer[r]));
        (void)motetCommDestroy(comms[r]);
    }
    return 0;
}

static void test_shrink_in_a_group_by_one_thread(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_ALONE, 4, {NULL}, 60, 0}, grouped, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrink_after_a_death_survivors_go_on),
        cmocka_unit_test(test_revoke_ends_calls_everywhere_then_shrink),
        cmocka_unit_test(test_split_of_a_revoked_communicator_works),
        cmocka_unit_test(test_shrink_of_a_healthy_parent_leaves_it_working),
        cmocka_unit_test(test_shrink_that_cannot_be_names_the_culprit),
        cmocka_unit_test(test_shrink_wrong_arguments_start_nothing),
        cmocka_unit_test(test_shrink_of_more_ranks_than_a_word_has_bits),
        cmocka_unit_test(test_shrink_in_a_group_by_one_thread),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
