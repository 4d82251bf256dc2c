/* SPDX-License-Identifier: Apache-2.0
 * Runs one plan: the only code that moves collective data. The caller's layout is cut into tiles (the same part of every block), tile t
 * runs the whole plan in lane (seq + t) mod nlanes, and several tiles are in flight. A step advances piece by piece as its operands
 * arrive. Non-blocking: progress does what is possible now, so that one thread can drive many operations. */
#ifndef MOTET_ENGINE_H
#define MOTET_ENGINE_H

#include "comm.h"
#include "reduce/reduce.h"

/* One collective call, as the user made it; arrays are by rank and owned by the call (malloced). */
struct motet_call {
    enum motet_collective collective;
    const char *name; /* "AllGatherV": for errors and logs */
    const void *send;
    void *recv;
    size_t count; /* per block; v-variants: unused */
    motetDataType_t dtype;
    motetRedOp_t op; /* built-in */
    bool premul;     /* PreMulSum: op is Sum, the own input is multiplied by `scalar` first */
    _Alignas(16) char scalar[16];
    int root; /* rank */
    enum motet_counts counts;
    size_t *send_counts, *send_displs, *recv_counts,
        *recv_displs;    /* v-variants; NULL otherwise. AllGatherV: recv_*; ReduceScatterV: send_*, packed */
    void *premultiplied; /* PreMulSum: the scaled input, made when the call starts; NULL if it lies in recv */
    int group;           /* operations in the same group */
    /* For calls like this one (flat.h): it has passed all checks, lengths of its buffers, where send lies in recv in place. */
    bool checked;
    size_t send_bytes, recv_bytes;
    ptrdiff_t in_place;
};

void motet_call_free(struct motet_call *call);

/* Frees what a call owns, but not the call itself. */
void motet_call_drop_arrays(const struct motet_call *call);

/* From this size on, a message is read where it lies instead of being staged (threads, shared memory): below, the copy into a warm
 * staging line costs less than waiting for the readers at the end. */
#define MOTET_DIRECT_FROM_BYTES (16 * 1024)

struct motet_run; /* one collective in progress */

/* Takes the next number of the communicator, records the call, chooses the algorithm. Owns `call` from here, also on failure.
 * Arguments were checked. Must be called in the communicator's order, when earlier operations are complete. */
motetResult_t motet_engine_start(motetComm_t comm, struct motet_call *call, struct motet_run **run);

/* Does what can be done now. *moved: anything happened. motetInProgress, motetSuccess, or an error (also of the communicator). */
motetResult_t motet_engine_progress(struct motet_run *run, bool *moved);

/* Runs a call to its end on the calling thread: start, progress, wait. `call` is read before it returns; its arrays are owned. */
motetResult_t motet_engine_run(motetComm_t comm, const struct motet_call *call);

/* The same on the short way of calls like this one (flat.h), for callers that have found it. With `rest` it does not wait long:
 * motetInProgress, and *rest is to be progressed; on failure it is to be ended. */
struct motet_flat;
motetResult_t motet_engine_run_flat(motetComm_t comm, const struct motet_flat *flat, const void *send, void *recv,
                                    struct motet_run **rest);

/* The first position that still reads what this rank published by `plan`: whose done word has not reached `need`. The dead read no more.
 * -1: none. */
int motet_engine_reader_at_work(motetComm_t comm, const struct motet_plan *plan, uint64_t need);

/* Frees the run, in any state. */
void motet_engine_end(struct motet_run *run);

/* What a wait asks about a run (comm.h). */
void motet_engine_describe(void *run, char *text, size_t len);
bool motet_engine_needs(void *run, motetComm_t comm, int position);
int motet_engine_whom(void *run, motetComm_t comm);

#endif
