/* SPDX-License-Identifier: Apache-2.0
 * What is timed side by side: motet, a peer, and the machine's own limits, all in the same processes, on data of the same kind. The program
 * that times (compare.c) knows nothing else of them. */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>

enum operation { ALLREDUCE, BROADCAST, REDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL, BARRIER, EXCHANGE, NOPERATIONS };
enum datatype { FLOAT32, BFLOAT16, FLOAT16, INT8, NDATATYPES };

/* One kind of call. bytes: of the whole message as nccl-tests counts it (all blocks together); blocks: bytes / nranks. */
struct work {
    enum operation operation;
    enum datatype datatype;
    size_t bytes, count, block_count; /* elements of the message, of a block */
    bool in_place;
};

struct contender {
    const char *name;
    bool own_memory; /* buffers come from allocate(), else from the heap */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
    bool (*can)(const struct work *work);
    /* One call on this rank; root 0, partner of an exchange: rank ^ 1. Exits with a message on failure. */
    void (*call)(const struct work *work, void *send, void *recv);
};

/* The launcher's part, in the file of the peer (mpi.c, alone.c). */
void launch(int *argc, char ***argv, int *rank, int *nranks);
void launch_end(void);
/* Gives all ranks what rank 0 has. */
void launch_broadcast(void *bytes, int len);
extern const struct contender launch_peer; /* name NULL: none */

/* motet.c */
void motet_begin(int rank, int nranks);
void motet_end(void);
extern const struct contender motet_plain, motet_allocated;

/* limit.c */
extern const struct contender limit_memcpy;

#endif
