/* SPDX-License-Identifier: Apache-2.0
 * Every collective x datatype x operation, 1 to 9 ranks, as processes over shared memory and over TCP, as threads, and as ranks
 * that one thread drives in groups, against plain loops. Without arguments: every combination in every kind of world, with count, root,
 * placement in memory, alignment and stream drawn from a fixed seed. `test_collectives SEED [ROUNDS]` draws others,
 * `test_collectives full` walks the whole product (hours). */
/* test: timeout=600 */
#include "world.h"

#include "judge.h"

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 65537, 1048579};
#define NCOUNTS ((int)(sizeof counts / sizeof counts[0]))
#define NSMALL  (NCOUNTS - 2)

struct plan {
    uint64_t seed;
    int rounds, ranks; /* ranks 0: all of 1..9 */
    int every;         /* only every so many-th combination, others with the next number of ranks */
    bool full, grouped, exact;
};

static struct plan chosen = {.seed = 1, .rounds = 1, .every = 1};

struct combination {
    enum judge_coll coll;
    motetDataType_t dtype;
    motetRedOp_t op;
    bool premul;
};

static struct combination combinations[2048];
static int ncombinations;

static void add(enum judge_coll coll, motetDataType_t dtype, motetRedOp_t op, bool premul)
{
    combinations[ncombinations++] = (struct combination){coll, dtype, op, premul};
}

static void list_combinations(void)
{
    for (int coll = 0; coll < JUDGE_NCOLLS; coll++) {
        for (int dtype = 0; dtype < motetNumTypes; dtype++) {
            if (coll > JUDGE_REDUCESCATTERV) {
                add(coll, dtype, motetSum, false);
                continue;
            }
            for (int op = 0; op < motetNumOps; op++)
                if (oracle_defined(dtype, op))
                    add(coll, dtype, op, false);
            if (dtype != motetBool)
                add(coll, dtype, motetSum, true);
        }
    }
}

/* The k-th case of a world; false when there is none. */
static bool case_at(const struct plan *plan, int nranks, int k, struct judge_case *c)
{
    const struct combination *combination = &combinations[k % ncombinations];
    int variant = k / ncombinations;
    uint64_t h = oracle_mix(plan->seed * 7919 + (uint64_t)k * 104729 + (uint64_t)nranks);
    *c = (struct judge_case){.coll = combination->coll, .dtype = combination->dtype, .op = combination->op};
    c->premul = combination->premul;
    c->nranks = nranks;
    c->seed = h >> 20;
    c->exact = plan->exact;
    c->unaligned = h >> 1 & 1;
    c->on_stream = (h >> 2) % 4 == 0;
    if (plan->full) {
        int roots = judge_is_rooted(c->coll) ? nranks : 1;
        c->count = counts[variant % NCOUNTS];
        c->root = variant / NCOUNTS % nranks;
        c->in_place = variant / NCOUNTS / nranks % 3;
        if (c->root >= roots)
            c->count = 0;
        return variant < NCOUNTS * nranks * 3;
    }
    size_t size = oracle_types[c->dtype].size;
    c->count = counts[(h >> 8) % NSMALL];
    if ((h >> 24) % 64 == 0)
        c->count = 65537;
    else if ((h >> 24) % 256 == 1 && nranks <= 4 && size <= 4)
        c->count = 1048579;
    c->root = (int)((h >> 32) % (uint64_t)nranks);
    c->in_place = (h >> 40) % 3;
    return variant < plan->rounds;
}

static int make_op(const struct judge_case *c, int rank, motetComm_t comm, void *scalar, motetRedOp_t *op)
{
    *op = c->op;
    if (!c->premul)
        return 0;
    motetScalarResidence_t residence = c->seed & 1 ? motetScalarHostImmediate : motetScalarDevice;
    judge_scalar(c, rank, scalar);
    CALL(motetRedOpCreatePreMulSum(op, scalar, c->dtype, residence, comm));
    if (residence == motetScalarHostImmediate)
        memset(scalar, 0xEE, 16);
    return 0;
}

static int complain(const struct judge_case *c, int rank, motetComm_t comm, motetResult_t result)
{
    char text[256];
    judge_describe(c, rank, text, sizeof text);
    return world_complain(__FILE__, __LINE__, "%s: %s: %s", text, motetGetErrorString(result), motetGetLastError(comm));
}

/* Runs one case on the ranks first .. first + n - 1, whose communicators are comms[0..n); adds to their checksums. */
static int run_case(const struct judge_case *c, int first, int n, motetComm_t *comms, motetStream_t stream, uint64_t *checksums)
{
    struct judge_seat seats[JUDGE_MAX_RANKS];
    motetRedOp_t ops[JUDGE_MAX_RANKS];
    uint8_t scalars[JUDGE_MAX_RANKS][16];
    motetResult_t result = motetSuccess;
    motetStream_t here = c->on_stream ? stream : NULL;
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        CHECK(judge_seat_prepare(&seats[i], c, first + i) == 0);
        if (make_op(c, first + i, comms[i], scalars[i], &ops[i]))
            return 1;
    }
    if (n > 1)
        CALL(motetGroupStart());
    for (int i = 0; i < n && result == motetSuccess; i++)
        result = judge_call(c, first + i, &seats[i], ops[i], comms[i], here);
    if (n > 1 && result == motetSuccess)
        result = motetGroupEnd();
    if (here && result == motetSuccess)
        result = motetStreamSynchronize(here);
    if (result != motetSuccess)
        return complain(c, first, comms[0], result);
    for (int i = 0; i < n; i++) {
        checksums[i] = judge_seat_checksum(&seats[i], c, checksums[i]);
        wrong += judge_seat_verify(&seats[i], c, first + i);
        judge_seat_free(&seats[i]);
        if (c->premul)
            CALL(motetRedOpDestroy(ops[i], comms[i]));
    }
    return wrong;
}

static int walk(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct plan *plan = argument;
    motetStream_t stream;
    struct judge_case c;
    uint64_t checksum = 1, all[JUDGE_MAX_RANKS];
    CALL(motetStreamCreate(&stream));
    for (int k = nranks % plan->every; case_at(plan, nranks, k, &c); k += plan->every)
        if (run_case(&c, rank, 1, &comm, stream, &checksum))
            return 1;
    CALL(motetStreamDestroy(stream));
    CALL(motetAllGather(&checksum, all, 1, motetUint64, comm, NULL));
    for (int r = 0; r < nranks; r++)
        CHECK(all[r] == checksum);
    return 0;
}

static int walk_grouped(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct plan *plan = argument;
    motetComm_t comms[JUDGE_MAX_RANKS];
    motetStream_t stream;
    struct judge_case c;
    uint64_t checksums[JUDGE_MAX_RANKS] = {0};
    (void)comm, (void)rank;
    CALL(motetCommInitAll(comms, nranks, NULL));
    CALL(motetStreamCreate(&stream));
    for (int k = 0; case_at(plan, nranks, k, &c); k++)
        if (run_case(&c, 0, nranks, comms, stream, checksums))
            return 1;
    CALL(motetStreamDestroy(stream));
    for (int i = 0; i < nranks; i++)
        CHECK(checksums[i] == checksums[0]);
    for (int i = 0; i < nranks; i++)
        CALL(motetCommDestroy(comms[i]));
    return 0;
}

static void judge_worlds(enum world_kind kind, const char *setting, int per_host, uint64_t salt)
{
    struct plan plan = chosen;
    plan.exact = per_host < 0 && !setting; /* positions differ from ranks: the order is another one, unless it is asked for */
    plan.seed = plan.seed * 16 + salt;
    plan.grouped = kind == WORLD_ALONE;
    plan.every = plan.full || (!per_host && !setting) ? 1 : 2;
    for (int nranks = per_host ? 3 : 1; nranks <= (WORLD_SANITIZED ? 4 : 9); nranks += per_host ? 3 : 1) {
        struct world world = {kind, nranks, {setting}, plan.full ? 86400 : 120 * plan.rounds, per_host};
        if (chosen.ranks && chosen.ranks != nranks)
            continue;
        double start = world_now();
        int failed = world_run(&world, plan.grouped ? walk_grouped : walk, &plan);
        printf("%d ranks: %.1f s%s\n", nranks, world_now() - start, failed ? ", FAILED" : "");
        if (failed)
            fail_msg("%d ranks: %d processes failed", nranks, failed);
    }
}

static void test_collectives_as_processes_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_PROCESSES, NULL, 0, 0);
}

static void test_collectives_over_tcp_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_PROCESSES, "MOTET_SHM_DISABLE=1", 0, 1);
}

static void test_collectives_staged_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_THREADS, "MOTET_P2P_DISABLE=1", 0, 2);
}

static void test_collectives_as_threads_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_THREADS, NULL, 0, 3);
}

static void test_collectives_driven_by_one_thread_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_ALONE, NULL, 0, 4);
}

static void test_collectives_on_several_hosts_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_PROCESSES, NULL, 2, 5);
}

static void test_collectives_dealt_round_robin_match_plain_loops(void **state)
{
    (void)state;
    judge_worlds(WORLD_PROCESSES, NULL, -3, 6);
}

static void test_collectives_deterministic_do_not_depend_on_placement(void **state)
{
    (void)state;
    judge_worlds(WORLD_PROCESSES, "MOTET_DETERMINISTIC=1", -2, 7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives_as_processes_match_plain_loops),
        cmocka_unit_test(test_collectives_over_tcp_match_plain_loops),
        cmocka_unit_test(test_collectives_staged_match_plain_loops),
        cmocka_unit_test(test_collectives_as_threads_match_plain_loops),
        cmocka_unit_test(test_collectives_driven_by_one_thread_match_plain_loops),
        cmocka_unit_test(test_collectives_on_several_hosts_match_plain_loops),
        cmocka_unit_test(test_collectives_dealt_round_robin_match_plain_loops),
        cmocka_unit_test(test_collectives_deterministic_do_not_depend_on_placement),
    };
    if (argc > 1 && strcmp(argv[1], "full") == 0)
        chosen.full = true;
    else if (argc > 1)
        chosen.seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        chosen.rounds = atoi(argv[2]);
    if (argc > 3)
        chosen.ranks = atoi(argv[3]);
    if (argc > 4)
        cmocka_set_test_filter(argv[4]);
    list_combinations();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
