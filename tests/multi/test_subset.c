/* SPDX-License-Identifier: Apache-2.0
 * CommSubset: some ranks make a communicator without the others; in any order, beside other operations, of a parent that failed; who is to
 * blame when it cannot be is named. */
#include "survivors.h"

#define SUBSETS 12

/* Whether the communicator has these ranks of the parent in this order. */
static int check_members(motetComm_t comm, const int *ranks, int nranks, int rank)
{
    int n, r;
    int64_t mine = 1000 + rank, all[8];
    CALL(motetCommCount(comm, &n));
    CALL(motetCommUserRank(comm, &r));
    CHECK(n == nranks && ranks[r] == rank);
    CALL(motetAllGather(&mine, all, 1, motetInt64, comm, NULL));
    for (int i = 0; i < nranks; i++)
        CHECK(all[i] == 1000 + ranks[i]);
    return 0;
}

/* Every pair, the triples with rank 0 in descending order and all ranks, while a message of the parent is being waited for. Ranks come to
 * their subsets in different orders where that cannot block: neighbours meet first, and the last rank is late. */
static int overlap(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)argument;
    motetComm_t made[SUBSETS];
    int n = 0, all[8];
    int64_t word = 0, sent = probe_value(rank, 1, nranks);
    motetStream_t stream, other;
    CALL(motetStreamCreate(&stream));
    CALL(motetStreamCreate(&other));
    CALL(motetRecv(&word, 1, motetInt64, (rank + 1) % nranks, comm, stream));
    if (rank == nranks - 1)
        world_sleep_ms(50);
    for (int distance = 1; distance < nranks; distance++)
        for (int low = 0; low + distance < nranks; low++) {
            int pair[] = {low + distance, low};
            if (rank != low && rank != low + distance)
                continue;
            CALL(motetCommSubset(comm, pair, 2, "pair", &made[n], NULL));
            CHECK(check_members(made[n++], pair, 2, rank) == 0);
        }
    for (int i = 0; i < nranks; i++)
        all[i] = nranks - 1 - i;
    CHECK(motetStreamQuery(stream) == motetInProgress); /* who sends has been in the subset of all */
    for (int again = 0; again < 3; again++) {           /* the same tag and list, one after the other */
        CALL(motetCommSubset(comm, all, nranks, NULL, &made[n], NULL));
        CHECK(check_members(made[n++], all, nranks, rank) == 0);
    }
    CALL(motetSend(&sent, 1, motetInt64, (rank + nranks - 1) % nranks, comm, other));
    CALL(motetStreamSynchronize(other));
    CALL(motetStreamSynchronize(stream));
    CHECK(word == probe_value((rank + 1) % nranks, 1, nranks));
    CHECK(survivors_judge(made[n - 1]) == 0 && survivors_judge(comm) == 0);
    for (int i = 0; i < n; i++)
        CALL(motetCommDestroy(made[i]));
    CALL(motetStreamDestroy(stream));
    CALL(motetStreamDestroy(other));
    return 0;
}

static void test_subset_overlapping_in_any_order_each_has_its_ranks(void **state)
{
    (void)state;
    survivors_run(overlap, NULL, 0);
}

/* A rank that is not there yet is waited for longer than a shrink would believe in it. */
static int outlast(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int first[] = {0, 1}, second[] = {0, 2};
    motetComm_t pair;
    (void)argument;
    if (rank == 1)
        world_sleep_ms(2500);
    for (int i = 0; i < 2; i++)
        if (rank == 0 || rank == i + 1) {
            CALL(motetCommSubset(comm, i ? second : first, 2, "late", &pair, NULL));
            CHECK(check_members(pair, i ? second : first, 2, rank) == 0);
            CALL(motetCommDestroy(pair));
        }
    CHECK(probe(comm, nranks) == 0);
    return 0;
}

static void test_subset_waits_for_a_late_rank(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {NULL}, 60, 0}, outlast, NULL), 0);
}

/* The same twice in one world: a rank may be in the second before others have left the first. */
static void await_all(int nranks, int times)
{
    atomic_fetch_add(survivors_came, 1);
    while (atomic_load(survivors_came) < times * nranks)
        world_sleep_ms(1);
}

/* The parent fails by a mismatch; a rank dies; another does not come; then the rest goes on. */
static int blame(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t made = NULL, apart = NULL;
    int64_t value[2] = {rank, rank};
    int rest[] = {2, 0};
    (void)argument;
    config.initTimeoutMs = 1500;
    CHECK(nranks == 4 && probe(comm, 1) == 0);
    await_all(nranks, 1); /* what fails next must not reach who is in the probe still */
    CHECK(motetAllReduce(value, value, rank == 2 ? 2 : 1, motetInt64, motetSum, comm, NULL) != motetSuccess);
    await_all(nranks, 2);
    if (rank == 3)
        kill(getpid(), SIGKILL);
    CHECK(motetCommSubset(comm, (int[]){0, 1, 2, 3}, 4, "all", &made, NULL) == motetRemoteError && !made);
    CHECK(survivors_said("CommSubset") == 0 && survivors_said("rank 3") == 0);
    if (rank == 1)
        return WORLD_ABORTED; /* once it has heard */
    CALL(motetCommSubset(comm, rest, 2, "rest", &made, NULL));
    CHECK(check_members(made, rest, 2, rank) == 0);
    CHECK(survivors_judge(made) == 0);
    /* The lists differ: neither rank comes to the other's. */
    int mine[] = {rank, 2 - rank};
    EXPECT(motetTimeout, motetCommSubset(comm, mine, 2, "apart", &apart, &config));
    CHECK(!apart);
    CHECK(survivors_said(rank == 0 ? "ranks: 2" : "ranks: 0") == 0);
    CALL(motetBarrier(made, NULL)); /* who leaves is not late any more */
    CALL(motetCommDestroy(made));
    (void)motetCommAbort(comm);
    return WORLD_ABORTED;
}

static void test_subset_of_a_failed_parent_names_who_is_missing(void **state)
{
    (void)state;
    survivors_run(blame, NULL, 8);
}

static int wrong(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetComm_t made = comm;
    (void)argument;
    EXPECT(motetInvalidArgument, motetCommSubset(comm, (int[]){rank, rank}, 2, "a", &made, NULL));
    CHECK(made == comm && survivors_said("twice") == 0);
    EXPECT(motetInvalidArgument, motetCommSubset(comm, (int[]){rank, nranks}, 2, "a", &made, NULL));
    EXPECT(motetInvalidArgument, motetCommSubset(comm, (int[]){(rank + 1) % nranks}, 1, "a", &made, NULL));
    CHECK(survivors_said("own list") == 0);
    EXPECT(motetInvalidArgument, motetCommSubset(comm, NULL, 1, "a", &made, NULL));
    EXPECT(motetInvalidArgument, motetCommSubset(comm, &rank, 0, "a", &made, NULL));
    EXPECT(motetInvalidArgument, motetCommSubset(comm, &rank, 1, "a", NULL, NULL));
    CALL(motetCommSubset(comm, &rank, 1, "alone", &made, NULL));
    CHECK(check_members(made, &rank, 1, rank) == 0);
    CALL(motetCommDestroy(made));
    CHECK(probe(comm, nranks) == 0);
    return 0;
}

static void test_subset_wrong_arguments_start_nothing(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 3, {NULL}, 60, 0}, wrong, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subset_overlapping_in_any_order_each_has_its_ranks),
        cmocka_unit_test(test_subset_waits_for_a_late_rank),
        cmocka_unit_test(test_subset_of_a_failed_parent_names_who_is_missing),
        cmocka_unit_test(test_subset_wrong_arguments_start_nothing),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
