/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_collective.h"

#include <string.h>

/* ---- how a size is divided */

static void divide_whole(size_t count, size_t element_size, int nranks, struct perf_sizes *sizes)
{
    (void)element_size;
    (void)nranks;
    *sizes = (struct perf_sizes){.send = count, .recv = count, .param = count};
}

/* Elements per rank, whole lines of 16 bytes. */
static size_t block_of(size_t count, size_t element_size, int nranks)
{
    size_t line = element_size < 16 ? 16 / element_size : 1;
    return count / (size_t)nranks / line * line;
}

static void divide_gathering(size_t count, size_t element_size, int nranks, struct perf_sizes *sizes)
{
    size_t block = block_of(count, element_size, nranks);
    *sizes = (struct perf_sizes){.send = block, .recv = block * (size_t)nranks, .param = block, .send_step = block};
}

static void divide_scattering(size_t count, size_t element_size, int nranks, struct perf_sizes *sizes)
{
    size_t block = block_of(count, element_size, nranks);
    *sizes = (struct perf_sizes){.send = block * (size_t)nranks, .recv = block, .param = block, .recv_step = block};
}

static void divide_exchanging(size_t count, size_t element_size, int nranks, struct perf_sizes *sizes)
{
    size_t block = block_of(count, element_size, nranks);
    *sizes = (struct perf_sizes){.send = block * (size_t)nranks, .recv = block * (size_t)nranks, .param = block};
}

static void divide_nothing(size_t count, size_t element_size, int nranks, struct perf_sizes *sizes)
{
    (void)count;
    (void)element_size;
    (void)nranks;
    *sizes = (struct perf_sizes){0};
}

/* ---- the calls */

static motetResult_t call_all_reduce(const struct perf_call *call)
{
    return motetAllReduce(call->send, call->recv, call->count, call->type, call->op, call->comm, call->stream);
}

static motetResult_t call_all_gather(const struct perf_call *call)
{
    return motetAllGather(call->send, call->recv, call->count, call->type, call->comm, call->stream);
}

static motetResult_t call_broadcast(const struct perf_call *call)
{
    return motetBroadcast(call->send, call->recv, call->count, call->type, call->root, call->comm, call->stream);
}

static motetResult_t call_reduce(const struct perf_call *call)
{
    return motetReduce(call->send, call->recv, call->count, call->type, call->op, call->root, call->comm, call->stream);
}

static motetResult_t call_reduce_scatter(const struct perf_call *call)
{
    return motetReduceScatter(call->send, call->recv, call->count, call->type, call->op, call->comm, call->stream);
}

static motetResult_t call_alltoall(const struct perf_call *call)
{
    return motetAlltoAll(call->send, call->recv, call->count, call->type, call->comm, call->stream);
}

static motetResult_t call_gather(const struct perf_call *call)
{
    return motetGather(call->send, call->recv, call->count, call->type, call->root, call->comm, call->stream);
}

static motetResult_t call_scatter(const struct perf_call *call)
{
    return motetScatter(call->send, call->recv, call->count, call->type, call->root, call->comm, call->stream);
}

static motetResult_t first_error(motetResult_t a, motetResult_t b)
{
    return a != motetSuccess ? a : b;
}

/* Around the circle of ranks. */
static motetResult_t call_sendrecv(const struct perf_call *call)
{
    int next = (call->rank + 1) % call->nranks, previous = (call->rank + call->nranks - 1) % call->nranks;
    motetResult_t result = motetGroupStart();
    if (result != motetSuccess)
        return result;
    result = motetSend(call->send, call->count, call->type, next, call->comm, call->stream);
    result = first_error(result, motetRecv(call->recv, call->count, call->type, previous, call->comm, call->stream));
    return first_error(result, motetGroupEnd());
}

/* All-gather by exchanges along the edges of a hypercube: log2(n) rounds, what was gathered doubles in each. */
static motetResult_t call_hypercube(const struct perf_call *call)
{
    char *recv = call->recv;
    size_t block = call->count * call->element_size;
    if (recv + (size_t)call->rank * block != call->send)
        memcpy(recv + (size_t)call->rank * block, call->send, block);
    for (int edge = 1; edge < call->nranks; edge <<= 1) {
        int mine = call->rank & ~(edge - 1), theirs = mine ^ edge, peer = call->rank ^ edge;
        size_t count = call->count * (size_t)edge;
        motetResult_t result = motetGroupStart();
        if (result != motetSuccess)
            return result;
        result = motetSend(recv + (size_t)mine * block, count, call->type, peer, call->comm, call->stream);
        result = first_error(result, motetRecv(recv + (size_t)theirs * block, count, call->type, peer, call->comm, call->stream));
        result = first_error(result, motetGroupEnd());
        if (result != motetSuccess)
            return result;
    }
    return motetSuccess;
}

static motetResult_t call_barrier(const struct perf_call *call)
{
    return motetBarrier(call->comm, call->stream);
}

/* ---- what must come out */

static int one(struct perf_expected *expected, size_t count, int source, uint64_t first)
{
    expected[0] = (struct perf_expected){.count = count, .source = source, .first = first};
    return 1;
}

static int expect_result(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                         struct perf_expected *expected)
{
    (void)rank;
    (void)nranks;
    (void)root;
    (void)in_place;
    return one(expected, sizes->recv, PATTERN_RESULT, 0);
}

/* Everybody but root keeps its buffer as it was. */
static int expect_reduce(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                         struct perf_expected *expected)
{
    (void)nranks;
    return one(expected, sizes->recv, rank == root ? PATTERN_RESULT : in_place ? rank : PATTERN_POISON, 0);
}

static int expect_broadcast(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                            struct perf_expected *expected)
{
    (void)rank;
    (void)nranks;
    (void)in_place;
    return one(expected, sizes->recv, root, 0);
}

static int expect_blocks(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                         struct perf_expected *expected)
{
    (void)rank;
    (void)root;
    (void)in_place;
    for (int i = 0; i < nranks; i++)
        expected[i] = (struct perf_expected){.at = (size_t)i * sizes->param, .count = sizes->param, .source = i};
    return nranks;
}

static int expect_reduce_scatter(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                                 struct perf_expected *expected)
{
    (void)nranks;
    (void)root;
    (void)in_place;
    return one(expected, sizes->recv, PATTERN_RESULT, (uint64_t)rank * sizes->param);
}

static int expect_alltoall(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                           struct perf_expected *expected)
{
    expect_blocks(sizes, rank, nranks, root, in_place, expected);
    for (int i = 0; i < nranks; i++)
        expected[i].first = (uint64_t)rank * sizes->param;
    return nranks;
}

static int expect_gather(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                         struct perf_expected *expected)
{
    if (rank == root)
        return expect_blocks(sizes, rank, nranks, root, in_place, expected);
    if (!in_place)
        return one(expected, sizes->recv, PATTERN_POISON, 0);
    size_t at = (size_t)rank * sizes->param, end = at + sizes->param;
    expected[0] = (struct perf_expected){.count = at, .source = PATTERN_POISON};
    expected[1] = (struct perf_expected){.at = at, .count = sizes->param, .source = rank};
    expected[2] = (struct perf_expected){.at = end, .count = sizes->recv - end, .source = PATTERN_POISON};
    return 3;
}

static int expect_scatter(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                          struct perf_expected *expected)
{
    (void)nranks;
    (void)in_place;
    return one(expected, sizes->recv, root, (uint64_t)rank * sizes->param);
}

static int expect_sendrecv(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                           struct perf_expected *expected)
{
    (void)root;
    (void)in_place;
    return one(expected, sizes->recv, (rank + nranks - 1) % nranks, 0);
}

static int expect_nothing(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place,
                          struct perf_expected *expected)
{
    (void)rank;
    (void)nranks;
    (void)root;
    (void)in_place;
    return one(expected, sizes->recv, PATTERN_POISON, 0);
}

/*    name, kind, reduces, rooted, in place, power of two, ... */
const struct perf_collective perf_collectives[] = {
    {"all_reduce", PERF_ALL_REDUCE, true, false, true, false, divide_whole, call_all_reduce, expect_result},
    {"all_gather", PERF_ALL_GATHER, false, false, true, false, divide_gathering, call_all_gather, expect_blocks},
    {"broadcast", PERF_BROADCAST, false, true, true, false, divide_whole, call_broadcast, expect_broadcast},
    {"reduce", PERF_REDUCE, true, true, true, false, divide_whole, call_reduce, expect_reduce},
    {"reduce_scatter", PERF_REDUCE_SCATTER, true, false, true, false, divide_scattering, call_reduce_scatter,
     expect_reduce_scatter},
    {"alltoall", PERF_ALLTOALL, false, false, false, false, divide_exchanging, call_alltoall, expect_alltoall},
    {"gather", PERF_GATHER, false, true, true, false, divide_gathering, call_gather, expect_gather},
    {"scatter", PERF_SCATTER, false, true, true, false, divide_scattering, call_scatter, expect_scatter},
    {"sendrecv", PERF_SENDRECV, false, false, false, false, divide_whole, call_sendrecv, expect_sendrecv},
    {"hypercube", PERF_HYPERCUBE, false, false, true, true, divide_gathering, call_hypercube, expect_blocks},
    {"barrier", PERF_BARRIER, false, false, false, false, divide_nothing, call_barrier, expect_nothing},
};

const int perf_ncollectives = sizeof perf_collectives / sizeof perf_collectives[0];

/* Whether two names are equal but for underscores, dashes and case. */
static bool same_name(const char *a, const char *b)
{
    for (;;) {
        a += strspn(a, "_-");
        b += strspn(b, "_-");
        int x = *a >= 'A' && *a <= 'Z' ? *a + 32 : *a, y = *b >= 'A' && *b <= 'Z' ? *b + 32 : *b;
        if (x != y)
            return false;
        if (!x)
            return true;
        a++;
        b++;
    }
}

const struct perf_collective *perf_collective_find(const char *name)
{
    if (same_name(name, "bcast"))
        name = "broadcast";
    for (int i = 0; i < perf_ncollectives; i++)
        if (same_name(perf_collectives[i].name, name))
            return &perf_collectives[i];
    return NULL;
}
