/* SPDX-License-Identifier: Apache-2.0
 * CommSplit: members and order by color and key, children beside parents, children of children, parents that go first. */
#include "probe.h"

static const struct world worlds[] = {
    {WORLD_PROCESSES, 6, {NULL}, 0, 0}, {WORLD_PROCESSES, 5, {"MOTET_SHM_DISABLE=1"}, 0, 0},
    {WORLD_THREADS, 6, {NULL}, 0, 0},   {WORLD_PROCESSES, 1, {NULL}, 0, 0},
    {WORLD_PROCESSES, 2, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(world_run(&worlds[i], function, NULL), 0);
}

/* Whether `child` has the members first, first + step, ... (count of them) in the order of `ascending`: their old ranks are gathered. */
static int has_members(motetComm_t child, int old_rank, int first, int step, int count, bool ascending)
{
    int rank, nranks, olds[16];
    CALL(motetCommUserRank(child, &rank));
    CALL(motetCommCount(child, &nranks));
    CHECK(nranks == count);
    CALL(motetAllGather(&old_rank, olds, 1, motetInt32, child, NULL));
    CHECK(olds[rank] == old_rank);
    for (int i = 0; i < count; i++)
        CHECK(olds[i] == first + step * (ascending ? i : count - 1 - i));
    return 0;
}

static int by_color_and_key(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetComm_t parity, reversed, none;
    (void)argument;
    CALL(motetCommSplit(comm, rank % 2, 0, &parity, NULL)); /* equal keys: old order */
    CHECK(has_members(parity, rank, rank % 2, 2, (nranks + 1 - rank % 2) / 2, true) == 0);
    CALL(motetCommSplit(comm, 7, -rank, &reversed, NULL)); /* any color, negative keys */
    CHECK(has_members(reversed, rank, 0, 1, nranks, false) == 0);
    none = comm;
    CALL(motetCommSplit(comm, rank == 0 ? 3 : MOTET_SPLIT_NOCOLOR, 0, &none, NULL));
    CHECK((rank == 0) == (none != NULL));
    for (int round = 0; round < 5; round++) /* all of them at once, in turns */
        CHECK(probe(parity, round) == 0 && probe(comm, round + 10) == 0 && probe(reversed, round + 20) == 0);
    if (none) {
        CHECK(probe(none, 1) == 0);
        CALL(motetCommDestroy(none));
    }
    CALL(motetCommDestroy(reversed));
    CALL(motetCommDestroy(parity));
    return probe(comm, 3);
}

static void test_split_orders_members_by_color_and_key(void **state)
{
    (void)state;
    run_everywhere(by_color_and_key);
}

/* Halves, and halves of halves; each parent is destroyed before its child is used. */
static int generations(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetComm_t parent = NULL, child;
    (void)argument;
    CALL(motetCommSplit(comm, 0, rank, &parent, NULL));
    for (int size = nranks; size > 1; size = (size + 1) / 2) {
        int here, count;
        CALL(motetCommUserRank(parent, &here));
        CALL(motetCommCount(parent, &count));
        CALL(motetCommSplit(parent, here < (count + 1) / 2, here, &child, NULL));
        CALL(motetCommDestroy(parent));
        parent = child;
        CHECK(probe(parent, size) == 0);
    }
    CALL(motetCommDestroy(parent));
    return probe(comm, 9);
}

static void test_split_child_survives_its_parent(void **state)
{
    (void)state;
    run_everywhere(generations);
}

/* Many subgroups: made and dropped, and many alive at once. */
static int many(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { ALIVE = 24 };
    motetComm_t children[ALIVE];
    (void)argument;
    for (int i = 0; i < ALIVE; i++)
        CALL(motetCommSplit(comm, (rank + i) % 2, rank, &children[i], NULL));
    for (int i = 0; i < ALIVE; i++)
        CHECK(probe(children[i], i) == 0);
    for (int i = ALIVE - 1; i >= 0; i--)
        CALL(motetCommDestroy(children[i]));
    (void)nranks;
    return probe(comm, 5);
}

static void test_split_many_children_work_side_by_side(void **state)
{
    (void)state;
    run_everywhere(many);
}

/* An argument error in a split leaves the parent usable. */
static int refused(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetComm_t child;
    (void)argument, (void)rank, (void)nranks;
    EXPECT(motetInvalidArgument, motetCommSplit(comm, -2, 0, &child, NULL));
    EXPECT(motetInvalidArgument, motetCommSplit(comm, 0, 0, NULL, NULL));
    EXPECT(motetInvalidArgument, motetCommSplit(NULL, 0, 0, &child, NULL));
    return probe(comm, 2);
}

static void test_split_with_bad_arguments_leaves_the_parent_usable(void **state)
{
    (void)state;
    run_everywhere(refused);
}

/* One thread splits all its ranks in a group. */
static int grouped(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    motetComm_t comms[8], children[8];
    int64_t mine[8], sum[8];
    (void)unused, (void)unused_rank, (void)argument;
    CALL(motetCommInitAll(comms, nranks, NULL));
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++)
        CALL(motetCommSplit(comms[r], r % 2, r, &children[r], NULL));
    CALL(motetGroupEnd());
    CALL(motetGroupStart());
    for (int r = 0; r < nranks; r++) {
        mine[r] = 1 << r;
        CALL(motetAllReduce(&mine[r], &sum[r], 1, motetInt64, motetSum, children[r], NULL));
    }
    CALL(motetGroupEnd());
    for (int r = 0; r < nranks; r++) {
        int64_t expected = 0;
        for (int i = r % 2; i < nranks; i += 2)
            expected += 1 << i;
        CHECK(sum[r] == expected);
        CALL(motetCommDestroy(children[r]));
        CALL(motetCommDestroy(comms[r]));
    }
    return 0;
}

static void test_split_in_a_group_serves_one_thread(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.kind = WORLD_ALONE, .nranks = 7}, grouped, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_orders_members_by_color_and_key),
        cmocka_unit_test(test_split_child_survives_its_parent),
        cmocka_unit_test(test_split_many_children_work_side_by_side),
        cmocka_unit_test(test_split_with_bad_arguments_leaves_the_parent_usable),
        cmocka_unit_test(test_split_in_a_group_serves_one_thread),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
