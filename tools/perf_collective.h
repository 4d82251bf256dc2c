/* SPDX-License-Identifier: Apache-2.0
 * The tests of perf: for each, how the size is divided (nccl-tests' rules), the call, and what the output must be. */
#ifndef MOTET_TOOLS_PERF_COLLECTIVE_H
#define MOTET_TOOLS_PERF_COLLECTIVE_H

#include "bandwidth.h"
#include "motet.h"
#include "perf_pattern.h"

/* Counts in elements. */
struct perf_sizes {
    size_t send, recv;           /* what a rank reads and writes at most */
    size_t param;                /* the count column and the argument of the call */
    size_t send_step, recv_step; /* in place: rank * step is where its part begins in the common buffer */
};

struct perf_call {
    const void *send;
    void *recv;
    size_t count;
    motetDataType_t type;
    size_t element_size;
    motetRedOp_t op;
    int root, rank, nranks;
    motetComm_t comm;
    motetStream_t stream;
};

/* A part of an output and where its data come from. */
struct perf_expected {
    size_t at, count; /* elements of the output */
    int source;       /* rank, PATTERN_RESULT or PATTERN_POISON */
    uint64_t first;   /* index in the source */
};

struct perf_collective {
    const char *name; /* "all_reduce" */
    enum perf_kind kind;
    bool reduces, rooted;
    bool
        in_place; /* false: nothing sensible exists; the columns repeat the other measurement and #wrong is N/A, as in nccl-tests */
    bool power_of_two; /* needs such a number of ranks */
    void (*divide)(size_t count, size_t element_size, int nranks, struct perf_sizes *sizes);
    motetResult_t (*call)(const struct perf_call *call);
    /* Fills expected[0..n) for the output of `rank`, n <= nranks + 2, in place or not. In place the output is what the call may
     * touch: the part that begins at rank * recv_step. */
    int (*expect)(const struct perf_sizes *sizes, int rank, int nranks, int root, bool in_place, struct perf_expected *expected);
};

extern const struct perf_collective perf_collectives[];
extern const int perf_ncollectives;

/* Also by NCCL's and MPI's ways of writing: "allreduce", "all-to-all". NULL: unknown. */
const struct perf_collective *perf_collective_find(const char *name);

#endif
