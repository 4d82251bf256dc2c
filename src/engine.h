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
};

void motet_call_free(struct motet_call *call);

struct motet_run; /* one collective in progress */

/* Takes the next number of the communicator, records the call, chooses the algorithm. Owns `call` from here, also on failure.
 * Arguments were checked. Must be called in the communicator's order, when earlier operations are complete. */
motetResult_t motet_engine_start(motetComm_t comm, struct motet_call *call, struct motet_run **run);

/* Does what can be done now. *moved: anything happened. motetInProgress, motetSuccess, or an error (also of the communicator). */
motetResult_t motet_engine_progress(struct motet_run *run, bool *moved);

/* Runs a call to its end on the calling thread: start, progress, wait. Owns `call`. */
motetResult_t motet_engine_run(motetComm_t comm, struct motet_call *call);

/* Frees the run, in any state. */
void motet_engine_end(struct motet_run *run);

/* What a wait asks about a run (comm.h). */
void motet_engine_describe(void *run, char *text, size_t len);
bool motet_engine_needs(void *run, motetComm_t comm, int position);
int motet_engine_whom(void *run, motetComm_t comm);

#endif
