/* SPDX-License-Identifier: Apache-2.0
 * An MPI library as launcher and peer. Compiled once per library, with its own mpi.h. */
#include <mpi.h>

#include "contender.h"

static int rank_here;

void launch(int *argc, char ***argv, int *rank, int *nranks)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, nranks);
    rank_here = *rank;
}

void launch_end(void)
{
    MPI_Finalize();
}

void launch_broadcast(void *bytes, int len)
{
    MPI_Bcast(bytes, len, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static bool reduces(enum operation operation)
{
    return operation == ALLREDUCE || operation == REDUCE || operation == REDUCESCATTER;
}

/* MPI has no 16-bit floats; what is only moved, moves as bytes. */
static bool can(const struct work *work)
{
    return !reduces(work->operation) || work->datatype == FLOAT32 || work->datatype == INT8;
}

static void call(const struct work *work, void *send, void *recv)
{
    static const int sizes[NDATATYPES] = {4, 2, 2, 1};
    MPI_Datatype type = work->datatype == FLOAT32 ? MPI_FLOAT : MPI_INT8_T;
    int count = (int)work->count, block = (int)work->block_count;
    const void *from = work->in_place ? MPI_IN_PLACE : send;
    if (work->datatype != FLOAT32) {
        count *= sizes[work->datatype];
        block *= sizes[work->datatype];
    }
    switch (work->operation) {
    case ALLREDUCE:
        MPI_Allreduce(from, recv, count, type, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BROADCAST:
        MPI_Bcast(rank_here == 0 ? send : recv, count, type, 0, MPI_COMM_WORLD);
        break;
    case REDUCE:
        MPI_Reduce(rank_here == 0 ? from : send, recv, count, type, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
    case ALLGATHER:
        MPI_Allgather(from, block, type, recv, block, type, MPI_COMM_WORLD);
        break;
    case REDUCESCATTER:
        MPI_Reduce_scatter_block(from, recv, block, type, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALLTOALL:
        MPI_Alltoall(from, block, type, recv, block, type, MPI_COMM_WORLD);
        break;
    case EXCHANGE:
        MPI_Sendrecv(send, count, type, rank_here ^ 1, 0, recv, count, type, rank_here ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

const struct contender launch_peer = {.name = "peer", .can = can, .call = call};
