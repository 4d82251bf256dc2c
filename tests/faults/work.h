/* SPDX-License-Identifier: Apache-2.0
 * What ranks do while faults are injected: rounds of every kind of operation, the same on all ranks by a seed, each result checked. An error
 * ends the rounds and is given back; a wrong value that was returned with success is never excused. Knows only motet.h. */
#ifndef MOTET_TESTS_FAULTS_WORK_H
#define MOTET_TESTS_FAULTS_WORK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

#define WORK_MAX_RANKS 16
#define WORK_MAX_COUNT 120000

struct work {
    motetComm_t comm;
    motetStream_t stream;
    int rank, nranks;
    uint64_t random; /* equal on all ranks */
    int64_t *send, *recv;
    int round, wrong;
    const char *operation; /* the current one */
    char text[1024];       /* sentence of the error that ended it */
};

static inline uint64_t work_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Element i of what `from` sends to `to` (-1: to all) in this round. */
static inline int64_t work_value(const struct work *work, int from, int to, size_t i)
{
    return (int64_t)(from + 1) * 100003 + (int64_t)(to + 2) * 811 + (int64_t)(i % 8191) * 17 + work->round * 5;
}

static inline void work_fill(struct work *work, int nblocks, size_t count)
{
    for (int b = 0; b < nblocks; b++)
        for (size_t i = 0; i < count; i++)
            work->send[(size_t)b * count + i] = work_value(work, work->rank, nblocks > 1 ? b : -1, i);
    memset(work->recv, 0xA5, (size_t)work->nranks * WORK_MAX_COUNT * sizeof *work->recv);
}

/* Block `b` of the receive buffer must hold what `from` sent to `to`; from -1: the sum over all ranks. */
static inline void work_expect(struct work *work, int b, size_t count, int from, int to)
{
    for (size_t i = 0; i < count; i++) {
        int64_t right = 0, got = work->recv[(size_t)b * count + i];
        for (int r = from < 0 ? 0 : from; r < (from < 0 ? work->nranks : from + 1); r++)
            right += work_value(work, r, to, i);
        if (got == right)
            continue;
        work->wrong++;
        fprintf(stderr, "rank %d of %d, round %d, %s of %zu: element %zu of block %d is %lld, must be %lld\n", work->rank,
                work->nranks, work->round, work->operation, count, i, b, (long long)got, (long long)right);
        return;
    }
}

#define WORK_TRY(call)                  \
    do {                                \
        motetResult_t result_ = (call); \
        if (result_ != motetSuccess)    \
            return result_;             \
    } while (0)

static inline motetResult_t work_reduce(struct work *work, size_t count, int root, bool to_all)
{
    work->operation = to_all ? "AllReduce" : "Reduce";
    work_fill(work, 1, count);
    WORK_TRY(to_all ? motetAllReduce(work->send, work->recv, count, motetInt64, motetSum, work->comm, NULL)
                    : motetReduce(work->send, work->recv, count, motetInt64, motetSum, root, work->comm, NULL));
    if (to_all || work->rank == root)
        work_expect(work, 0, count, -1, -1);
    return motetSuccess;
}

static inline motetResult_t work_broadcast(struct work *work, size_t count, int root)
{
    work->operation = "Broadcast";
    work_fill(work, 1, count);
    WORK_TRY(motetBroadcast(work->send, work->recv, count, motetInt64, root, work->comm, NULL));
    work_expect(work, 0, count, root, -1);
    return motetSuccess;
}

static inline motetResult_t work_gather(struct work *work, size_t count, int root, bool to_all)
{
    work->operation = to_all ? "AllGather" : "Gather";
    work_fill(work, 1, count);
    WORK_TRY(to_all ? motetAllGather(work->send, work->recv, count, motetInt64, work->comm, NULL)
                    : motetGather(work->send, work->recv, count, motetInt64, root, work->comm, NULL));
    for (int b = 0; (to_all || work->rank == root) && b < work->nranks; b++)
        work_expect(work, b, count, b, -1);
    return motetSuccess;
}

static inline motetResult_t work_scatter(struct work *work, size_t count, int root)
{
    work->operation = "Scatter";
    work_fill(work, work->nranks, count);
    WORK_TRY(motetScatter(work->send, work->recv, count, motetInt64, root, work->comm, NULL));
    work_expect(work, 0, count, root, work->nranks > 1 ? work->rank : -1);
    return motetSuccess;
}

static inline motetResult_t work_blocks(struct work *work, size_t count, bool reduces)
{
    work->operation = reduces ? "ReduceScatter" : "AlltoAll";
    work_fill(work, work->nranks, count);
    int to = work->nranks > 1 ? work->rank : -1;
    WORK_TRY(reduces ? motetReduceScatter(work->send, work->recv, count, motetInt64, motetSum, work->comm, NULL)
                     : motetAlltoAll(work->send, work->recv, count, motetInt64, work->comm, NULL));
    for (int b = 0; b < (reduces ? 1 : work->nranks); b++)
        work_expect(work, b, count, reduces ? -1 : b, to);
    return motetSuccess;
}

/* Everybody sends to its right neighbour: in one group, or one after the other in an order that cannot block. */
static inline motetResult_t work_messages(struct work *work, size_t count, bool grouped)
{
    int right = (work->rank + 1) % work->nranks, left = (work->rank + work->nranks - 1) % work->nranks;
    motetResult_t result;
    work->operation = grouped ? "Send and Recv in a group" : "Send and Recv";
    work_fill(work, 1, count);
    if (work->nranks == 1)
        return motetSuccess;
    if (grouped) {
        motetGroupStart();
        (void)motetSend(work->send, count, motetInt64, right, work->comm, NULL);
        (void)motetRecv(work->recv, count, motetInt64, left, work->comm, NULL);
        WORK_TRY(motetGroupEnd());
    } else if (work->rank == 0) {
        WORK_TRY(motetSend(work->send, count, motetInt64, right, work->comm, NULL));
        WORK_TRY(motetRecv(work->recv, count, motetInt64, left, work->comm, NULL));
    } else {
        result = motetRecv(work->recv, count, motetInt64, left, work->comm, NULL);
        WORK_TRY(result);
        WORK_TRY(motetSend(work->send, count, motetInt64, right, work->comm, NULL));
    }
    work_expect(work, 0, count, left, -1);
    return motetSuccess;
}

static inline motetResult_t work_on_stream(struct work *work, size_t count)
{
    work->operation = "AllReduce on a stream";
    work_fill(work, 1, count);
    WORK_TRY(motetAllReduce(work->send, work->recv, count, motetInt64, motetSum, work->comm, work->stream));
    WORK_TRY(motetStreamSynchronize(work->stream));
    work_expect(work, 0, count, -1, -1);
    return motetSuccess;
}

static inline motetResult_t work_two_in_a_group(struct work *work, size_t count, int root)
{
    int64_t mine = work->rank + 1, sum = -1;
    work->operation = "two collectives in a group";
    work_fill(work, 1, count);
    motetGroupStart();
    (void)motetBroadcast(work->send, work->recv, count, motetInt64, root, work->comm, NULL);
    (void)motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, work->comm, NULL);
    WORK_TRY(motetGroupEnd());
    work_expect(work, 0, count, root, -1);
    work->wrong += sum != (int64_t)work->nranks * (work->nranks + 1) / 2;
    return motetSuccess;
}

/* Even and odd ranks apart, each with a communicator for one call. */
static inline motetResult_t work_split(struct work *work)
{
    motetComm_t child = NULL;
    int64_t mine = work->rank, sum = -1, right = 0;
    work->operation = "CommSplit";
    WORK_TRY(motetCommSplit(work->comm, work->rank % 2, work->rank, &child, NULL));
    for (int r = work->rank % 2; r < work->nranks; r += 2)
        right += r;
    motetResult_t result = motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, child, NULL);
    if (result != motetSuccess) {
        snprintf(work->text, sizeof work->text, "%s", motetGetLastError(NULL));
        motetCommAbort(child);
        return result;
    }
    work->wrong += sum != right;
    return motetCommDestroy(child);
}

/* One round. The sentence of an error is in work->text. */
static inline motetResult_t work_round(struct work *work)
{
    static const size_t counts[] = {0, 1, 5, 6, 100, 511, 512, 513, 2047, 2048, 2049, 8191, 8192, 20000, 65536, WORK_MAX_COUNT};
    uint64_t r = work_next(&work->random);
    size_t count = counts[(r >> 8) % (sizeof counts / sizeof counts[0])];
    int root = (int)((r >> 16) % (uint64_t)work->nranks);
    motetResult_t result;
    work->round++;
    work->text[0] = '\0';
    switch (r % 14) {
    case 0:
        result = work_reduce(work, count, root, false);
        break;
    case 1:
        result = work_broadcast(work, count, root);
        break;
    case 2:
        result = work_gather(work, count, root, true);
        break;
    case 3:
        result = work_gather(work, count, root, false);
        break;
    case 4:
        result = work_scatter(work, count, root);
        break;
    case 5:
        result = work_blocks(work, count, true);
        break;
    case 6:
        result = work_blocks(work, count, false);
        break;
    case 7:
        result = work_messages(work, count, true);
        break;
    case 8:
        result = work_messages(work, count, false);
        break;
    case 9:
        result = work_on_stream(work, count);
        break;
    case 10:
        result = work_two_in_a_group(work, count, root);
        break;
    case 11:
        result = work_split(work);
        break;
    case 12:
        work->operation = "Barrier";
        result = motetBarrier(work->comm, NULL);
        break;
    default:
        result = work_reduce(work, count, root, true);
        break;
    }
    if (result != motetSuccess && !work->text[0])
        snprintf(work->text, sizeof work->text, "%s", motetGetLastError(NULL));
    return result;
}

static inline bool work_open(struct work *work)
{
    size_t bytes = (size_t)work->nranks * WORK_MAX_COUNT * sizeof *work->send;
    work->send = malloc(bytes);
    work->recv = malloc(bytes);
    return work->send && work->recv;
}

static inline void work_close(struct work *work)
{
    free(work->send);
    free(work->recv);
}

#endif
