/* SPDX-License-Identifier: Apache-2.0 */
#include <motet.h>
#include <stdio.h>
#include <stdlib.h>

#include "contender.h"

static motetComm_t comm;
static int rank_here;
static const motetDataType_t datatypes[NDATATYPES] = {motetFloat32, motetBfloat16, motetFloat16, motetInt8};

static void must(motetResult_t result)
{
    if (result == motetSuccess)
        return;
    fprintf(stderr, "motet: %s: %s\n", motetGetErrorString(result), motetGetLastError(comm));
    exit(1);
}

void motet_begin(int rank, int nranks)
{
    motetUniqueId id;
    rank_here = rank;
    if (rank == 0)
        must(motetGetUniqueId(&id));
    launch_broadcast(&id, sizeof id);
    must(motetCommInitRank(&comm, nranks, id, rank));
}

void motet_end(void)
{
    must(motetCommDestroy(comm));
}

static bool can(const struct work *work)
{
    (void)work;
    return true;
}

static void call(const struct work *work, void *send, void *recv)
{
    motetDataType_t type = datatypes[work->datatype];
    switch (work->operation) {
    case ALLREDUCE:
        must(motetAllReduce(send, recv, work->count, type, motetSum, comm, NULL));
        break;
    case BROADCAST:
        must(motetBcast(rank_here == 0 ? send : recv, work->count, type, 0, comm, NULL));
        break;
    case REDUCE:
        must(motetReduce(send, recv, work->count, type, motetSum, 0, comm, NULL));
        break;
    case ALLGATHER:
        must(motetAllGather(send, recv, work->block_count, type, comm, NULL));
        break;
    case REDUCESCATTER:
        must(motetReduceScatter(send, recv, work->block_count, type, motetSum, comm, NULL));
        break;
    case ALLTOALL:
        must(motetAlltoAll(send, recv, work->block_count, type, comm, NULL));
        break;
    case EXCHANGE:
        must(motetGroupStart());
        must(motetSend(send, work->count, type, rank_here ^ 1, comm, NULL));
        must(motetRecv(recv, work->count, type, rank_here ^ 1, comm, NULL));
        must(motetGroupEnd());
        break;
    default:
        must(motetBarrier(comm, NULL));
    }
}

static void *allocate(size_t bytes)
{
    void *memory;
    must(motetMemAlloc(&memory, bytes));
    return memory;
}

static void release(void *memory)
{
    must(motetMemFree(memory));
}

const struct contender motet_plain = {.name = "motet", .can = can, .call = call};
const struct contender motet_allocated = {
    .name = "motet-alloc", .own_memory = true, .allocate = allocate, .release = release, .can = can, .call = call};
