/* SPDX-License-Identifier: Apache-2.0
 * What the bandwidth columns mean: nccl-tests' definitions. Pure arithmetic. */
#ifndef MOTET_TOOLS_BANDWIDTH_H
#define MOTET_TOOLS_BANDWIDTH_H

#include <stddef.h>

enum perf_kind {
    PERF_ALL_REDUCE,
    PERF_ALL_GATHER,
    PERF_BROADCAST,
    PERF_REDUCE,
    PERF_REDUCE_SCATTER,
    PERF_ALLTOALL,
    PERF_GATHER,
    PERF_SCATTER,
    PERF_SENDRECV,
    PERF_HYPERCUBE,
    PERF_BARRIER,
    PERF_KINDS
};

struct bandwidth {
    double algorithm; /* 10^9 bytes per second: the size that nccl-tests counts, divided by the time */
    double bus;       /* algorithm * factor: what a link carries one way, comparable with its speed for any number of ranks */
};

/* busbw / algbw: all_reduce 2(n-1)/n; all_gather, reduce_scatter, alltoall, gather, scatter (n-1)/n; the others 1. */
double bandwidth_factor(enum perf_kind kind, int nranks);

/* The formula in words, for headers: "2(n-1)/n". */
const char *bandwidth_formula(enum perf_kind kind);

/* Bytes that algbw counts, for `count` elements of the count column. */
double bandwidth_bytes(enum perf_kind kind, size_t count, size_t element_size, int nranks);

/* time in seconds of one call; 0 seconds or 0 bytes give 0. */
struct bandwidth bandwidth_of(enum perf_kind kind, size_t count, size_t element_size, int nranks, double seconds);

#endif
