/* SPDX-License-Identifier: Apache-2.0
 * Every row of the algorithm table, forced by MOTET_ALGO, on real links: shared memory, TCP, threads, and ranks spread over pretended
 * hosts. Walks the table, so a new row is tested before anybody writes a test for it. */
/* test: slow timeout=600 */
#include "world.h"

#include "coll/coll.h"
#include "judge.h"

static const size_t counts[] = {1, 2, 3, 7, 64, 65, 1000, 4097, 40000};

static const enum judge_coll equal_forms[MOTET_NCOLLECTIVES] = {
    [MOTET_ALLREDUCE] = JUDGE_ALLREDUCE,
    [MOTET_REDUCE] = JUDGE_REDUCE,
    [MOTET_BROADCAST] = JUDGE_BROADCAST,
    [MOTET_ALLGATHER] = JUDGE_ALLGATHER,
    [MOTET_REDUCESCATTER] = JUDGE_REDUCESCATTER,
    [MOTET_ALLTOALL] = JUDGE_ALLTOALL,
    [MOTET_GATHER] = JUDGE_GATHER,
    [MOTET_SCATTER] = JUDGE_SCATTER,
};

struct trial {
    const struct motet_algorithm *row;
    bool exact;
};

/* The v-variant that a row serves too; the equal form if there is none. */
static enum judge_coll v_form(const struct motet_algorithm *row)
{
    bool pairs = row->counts == MOTET_COUNTS_PAIR_KNOWS, all = row->counts != MOTET_COUNTS_EQUAL;
    if (row->collective == MOTET_ALLGATHER && all)
        return JUDGE_ALLGATHERV;
    if (row->collective == MOTET_REDUCESCATTER && all)
        return JUDGE_REDUCESCATTERV;
    if (row->collective == MOTET_ALLTOALL && pairs)
        return JUDGE_ALLTOALLV;
    if (row->collective == MOTET_GATHER && pairs)
        return JUDGE_GATHERV;
    if (row->collective == MOTET_SCATTER && pairs)
        return JUDGE_SCATTERV;
    return equal_forms[row->collective];
}

/* No rank leaves before the last one came. */
static int barriers(motetComm_t comm, int rank, int nranks)
{
    for (int round = 0; round < 3 * nranks; round++) {
        double times[JUDGE_MAX_RANKS], leave;
        if (rank == round % nranks)
            world_sleep_ms(5);
        times[rank] = world_now();
        CALL(motetBarrier(comm, NULL));
        leave = world_now();
        CALL(motetAllGather(&times[rank], times, 1, motetFloat64, comm, NULL));
        for (int r = 0; r < nranks; r++)
            CHECK(leave >= times[r]);
    }
    return 0;
}

static int run_case(const struct judge_case *c, int rank, motetComm_t comm)
{
    struct judge_seat seat;
    CHECK(judge_seat_prepare(&seat, c, rank) == 0);
    motetResult_t result = judge_call(c, rank, &seat, c->op, comm, NULL);
    int wrong = result == motetSuccess ? judge_seat_verify(&seat, c, rank) : 1;
    if (result != motetSuccess)
        fprintf(stderr, "%s: %s\n", motetGetErrorString(result), motetGetLastError(comm));
    judge_seat_free(&seat);
    return wrong;
}

static int forced(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static const motetDataType_t dtypes[] = {motetFloat32, motetBfloat16, motetInt8, motetFloat64};
    const struct trial *trial = argument;
    if (trial->row->collective == MOTET_BARRIER)
        return barriers(comm, rank, nranks);
    for (int k = 0; k < 24; k++) {
        uint64_t h = oracle_mix((uint64_t)k * 1000 + (uint64_t)nranks);
        struct judge_case c = {.dtype = dtypes[k % 4], .op = k % 5 == 4 ? motetMax : k % 5 == 3 ? motetAvg : motetSum};
        c.coll = k % 3 == 2 ? v_form(trial->row) : equal_forms[trial->row->collective];
        c.exact = trial->exact;
        c.count = counts[k % 9];
        c.nranks = nranks;
        c.root = (int)(h % (uint64_t)nranks);
        c.in_place = h >> 8 & 1 ? JUDGE_MIXED : JUDGE_OUT_OF_PLACE;
        c.unaligned = h >> 9 & 1;
        c.seed = h >> 16;
        if (run_case(&c, rank, comm))
            return 1;
    }
    return 0;
}

/* Runs every row in one world per size given; sizes end with 0. Without shared memory every rank counts as a host, and a row's order
 * class speaks of one host. */
static void walk_table(struct world world, const int *sizes)
{
    bool several_hosts = world.environment[1] && strcmp(world.environment[1], "MOTET_SHM_DISABLE=1") == 0;
    for (int i = 0; i < motet_nalgorithms; i++) {
        struct trial trial = {.row = &motet_algorithms[i]};
        char setting[96];
        bool rotated = trial.row->order == MOTET_ORDER_ROTATED;
        trial.exact = rotated || world.per_host != 0 || several_hosts;
        snprintf(setting, sizeof setting, "MOTET_ALGO=%s:%s", motet_collective_name(trial.row->collective), trial.row->name);
        world.environment[0] = setting;
        for (int k = 0; sizes[k]; k++) {
            struct motet_shape shape = {.nranks = sizes[k], .nhosts = 1, .host_first = (const int[]){0, sizes[k]}};
            if (trial.row->fits && !trial.row->fits(&shape))
                continue;
            world.nranks = sizes[k];
            if (world_run(&world, forced, &trial))
                fail_msg("%s on %d ranks", setting, sizes[k]);
        }
    }
}

static void test_algorithms_over_shared_memory_are_right(void **state)
{
    (void)state;
    walk_table((struct world){.kind = WORLD_PROCESSES, .timeout_s = 30}, (const int[]){3, 4, 7, 0});
}

static void test_algorithms_over_tcp_are_right(void **state)
{
    (void)state;
    walk_table((struct world){WORLD_PROCESSES, 0, {NULL, "MOTET_SHM_DISABLE=1"}, 30, 0}, (const int[]){3, 0});
}

static void test_algorithms_between_threads_are_right(void **state)
{
    (void)state;
    walk_table((struct world){.kind = WORLD_THREADS, .timeout_s = 30}, (const int[]){2, 5, 0});
}

static void test_algorithms_on_several_hosts_are_right(void **state)
{
    (void)state;
    walk_table((struct world){.kind = WORLD_PROCESSES, .timeout_s = 30, .per_host = 2}, (const int[]){6, 0});
    walk_table((struct world){.kind = WORLD_PROCESSES, .timeout_s = 30, .per_host = -2}, (const int[]){4, 0});
}

/* A pipe-lined tile boundary: small staging makes many tiles out of small messages. */
static void test_algorithms_with_many_tiles_are_right(void **state)
{
    (void)state;
    walk_table((struct world){WORLD_PROCESSES, 0, {NULL, "MOTET_BUFFSIZE=64K"}, 30, 0}, (const int[]){4, 0});
    walk_table((struct world){WORLD_PROCESSES, 0, {NULL, "MOTET_BUFFSIZE=64K", "MOTET_NCHANNELS=1"}, 30, 0}, (const int[]){3, 0});
    walk_table((struct world){WORLD_PROCESSES, 0, {NULL, "MOTET_BUFFSIZE=64K", "MOTET_NCHANNELS=4"}, 30, -2}, (const int[]){4, 0});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_algorithms_over_shared_memory_are_right),
        cmocka_unit_test(test_algorithms_over_tcp_are_right),
        cmocka_unit_test(test_algorithms_between_threads_are_right),
        cmocka_unit_test(test_algorithms_on_several_hosts_are_right),
        cmocka_unit_test(test_algorithms_with_many_tiles_are_right),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
