/* SPDX-License-Identifier: Apache-2.0
 * Calls that repeat earlier ones, which the library answers by a short way, mixed with all others: a random sequence, the same on all
 * ranks, in which every rank chooses for itself how it calls (blocking, in a group, on a stream, in place) and how late it comes. */
#include "probe.h"

enum { STEPS = WORLD_SANITIZED ? 400 : 3000, LARGEST = 6000 };

/* Around the payload of a slot's line, lines, and where messages grow out of the short way; in elements of 8 bytes. */
static const size_t counts[] = {0, 1, 2, 5, 6, 7, 8, 63, 64, 65, 512, 2047, 2048, 2049, LARGEST};

enum operation {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    BARRIER,
    EXCHANGE,
    NOPERATIONS
};

struct step {
    enum operation operation;
    size_t count;
    int root, number;
};

struct buffers {
    int64_t *in, *out; /* nranks blocks of LARGEST, and one element behind them */
    motetStream_t stream;
};

static uint64_t random_next(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static int64_t value(int number, int rank, int block, size_t i)
{
    return (int64_t)number * 1000003 + rank * 7919 + block * 104729 + (int64_t)i * 31 + 1;
}

static motetResult_t call(const struct step *s, const int64_t *in, int64_t *out, int rank, int nranks, motetComm_t comm,
                          motetStream_t stream)
{
    switch (s->operation) {
    case ALL_REDUCE:
        return motetAllReduce(in, out, s->count, motetInt64, motetSum, comm, stream);
    case REDUCE:
        return motetReduce(in, out, s->count, motetInt64, motetSum, s->root, comm, stream);
    case BROADCAST:
        return motetBroadcast(in, out, s->count, motetInt64, s->root, comm, stream);
    case ALL_GATHER:
        return motetAllGather(in, out, s->count, motetInt64, comm, stream);
    case REDUCE_SCATTER:
        return motetReduceScatter(in, out, s->count, motetInt64, motetSum, comm, stream);
    case ALL_TO_ALL:
        return motetAlltoAll(in, out, s->count, motetInt64, comm, stream);
    case GATHER:
        return motetGather(in, out, s->count, motetInt64, s->root, comm, stream);
    case SCATTER:
        return motetScatter(in, out, s->count, motetInt64, s->root, comm, stream);
    case BARRIER:
        return motetBarrier(comm, stream);
    default:
        break;
    }
    motetResult_t result = motetGroupStart();
    if (result == motetSuccess)
        result = motetSend(in, s->count, motetInt64, (rank + 1) % nranks, comm, stream);
    if (result == motetSuccess)
        result = motetRecv(out, s->count, motetInt64, (rank + nranks - 1) % nranks, comm, stream);
    return result == motetSuccess ? motetGroupEnd() : result;
}

static bool sends(const struct step *s, int rank)
{
    return s->operation != BARRIER && ((s->operation != BROADCAST && s->operation != SCATTER) || s->root == rank);
}

static int blocks_in(const struct step *s, int nranks)
{
    return s->operation == REDUCE_SCATTER || s->operation == ALL_TO_ALL || s->operation == SCATTER ? nranks : 1;
}

static int blocks_out(const struct step *s, int rank, int nranks)
{
    if (s->operation == BARRIER || ((s->operation == REDUCE || s->operation == GATHER) && rank != s->root))
        return 0;
    return s->operation == ALL_GATHER || s->operation == ALL_TO_ALL || s->operation == GATHER ? nranks : 1;
}

static int64_t expected(const struct step *s, int rank, int nranks, int block, size_t i)
{
    int64_t sum = 0;
    switch (s->operation) {
    case ALL_REDUCE:
    case REDUCE:
    case REDUCE_SCATTER:
        for (int r = 0; r < nranks; r++)
            sum += value(s->number, r, s->operation == REDUCE_SCATTER ? rank : 0, i);
        return sum;
    case BROADCAST:
        return value(s->number, s->root, 0, i);
    case ALL_TO_ALL:
        return value(s->number, block, rank, i);
    case SCATTER:
        return value(s->number, s->root, rank, i);
    case EXCHANGE:
        return value(s->number, (rank + nranks - 1) % nranks, 0, i);
    default:
        return value(s->number, block, 0, i);
    }
}

/* Where the input lies in place; NULL: the operation has no such form here. */
static int64_t *place_in(const struct step *s, int64_t *out, int rank)
{
    if (s->operation == ALL_REDUCE || s->operation == BROADCAST || s->operation == REDUCE)
        return out;
    return s->operation == ALL_GATHER ? out + (size_t)rank * s->count : NULL;
}

/* Blocking, in a group of its own, or on a stream. */
static int call_somehow(const struct step *s, const struct buffers *b, const int64_t *in, int how, motetComm_t comm, int rank,
                        int nranks)
{
    if (how == 1)
        CALL(motetGroupStart());
    CALL(call(s, in, b->out, rank, nranks, comm, how == 2 ? b->stream : NULL));
    if (how == 1)
        CALL(motetGroupEnd());
    if (how == 2)
        CALL(motetStreamSynchronize(b->stream));
    return 0;
}

static int one_step(const struct step *s, const struct buffers *b, uint64_t *own, motetComm_t comm, int rank, int nranks)
{
    size_t all = (size_t)nranks * LARGEST + 1;
    int nin = sends(s, rank) ? blocks_in(s, nranks) : 0, nout = blocks_out(s, rank, nranks);
    uint64_t dice = random_next(own);
    int64_t *joint = dice % 3 == 0 && s->operation != EXCHANGE ? place_in(s, b->out, rank) : NULL, *in = joint ? joint : b->in;
    memset(b->out, 0xA5, (size_t)(nout > 0 ? nout : 1) * s->count * 8 + 8);
    for (int block = 0; block < nin; block++)
        for (size_t i = 0; i < s->count; i++)
            in[(size_t)block * s->count + i] = value(s->number, rank, block, i);
    if (dice % 29 == 0)
        usleep((useconds_t)(random_next(own) % 2000));
    int failed = call_somehow(s, b, in, (int)(dice / 3 % 12), comm, rank, nranks);
    if (failed)
        return failed;
    for (int block = 0; block < nout; block++)
        for (size_t i = 0; i < s->count; i++)
            CHECK(b->out[(size_t)block * s->count + i] == expected(s, rank, nranks, block, i));
    for (int block = 0; !joint && block < nin; block++)
        for (size_t i = 0; i < s->count; i++)
            CHECK(b->in[(size_t)block * s->count + i] == value(s->number, rank, block, i));
    if (!joint)
        CHECK(b->out[(size_t)nout * s->count] == (int64_t)0xA5A5A5A5A5A5A5A5);
    CHECK(b->in[all - 1] == 77);
    return 0;
}

static int random_calls(motetComm_t comm, int rank, int nranks, const void *argument)
{
    uint64_t common = 17 + (uint64_t)nranks, own = common * 31 + (uint64_t)rank;
    size_t all = (size_t)nranks * LARGEST + 1;
    struct buffers b = {.in = calloc(all, 8), .out = calloc(all, 8)};
    int failed = 0;
    (void)argument;
    CHECK(b.in && b.out);
    b.in[all - 1] = 77;
    CALL(motetStreamCreate(&b.stream));
    for (int number = 0; number < STEPS && !failed; number++) {
        struct step s = {.number = number};
        s.operation = (enum operation)(random_next(&common) % NOPERATIONS);
        s.count = counts[random_next(&common) % (sizeof counts / sizeof counts[0])];
        s.root = (int)(random_next(&common) % (uint64_t)nranks);
        failed = one_step(&s, &b, &own, comm, rank, nranks);
    }
    motetStreamDestroy(b.stream);
    free(b.in);
    free(b.out);
    return failed;
}

static void test_repeated_calls_in_every_form_give_the_right_values(void **state)
{
    (void)state;
    static const struct world kinds[] = {
        {WORLD_PROCESSES, 2, {NULL}, 0, 0}, {WORLD_PROCESSES, 3, {NULL}, 0, 0},
        {WORLD_PROCESSES, 5, {NULL}, 0, 0}, {WORLD_THREADS, 2, {NULL}, 0, 0},
        {WORLD_THREADS, 4, {NULL}, 0, 0},   {WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 0, 0},
        {WORLD_PROCESSES, 1, {NULL}, 0, 0}, {WORLD_PROCESSES, 2, {"MOTET_PROTO=Simple"}, 0, 0},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        assert_int_equal(world_run(&kinds[i], random_calls, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_repeated_calls_in_every_form_give_the_right_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
