/* SPDX-License-Identifier: Apache-2.0
 * Rows of a perf run: what the table prints, JSON stores, the plot draws and a baseline is compared with. */
#ifndef MOTET_TOOLS_PERF_RESULT_H
#define MOTET_TOOLS_PERF_RESULT_H

#include <stddef.h>
#include <stdint.h>

/* Times in microseconds per call. */
struct perf_half {
    double time, algbw, busbw;
    int64_t wrong;                     /* -1: not checked */
    double min, p50, p99, max, spread; /* over the calls of all ranks; spread: standard deviation / mean, percent */
    double cpu;                        /* CPU time of one rank */
    double ratio;                      /* time / baseline's, 0: no baseline */
};

struct perf_row {
    size_t size, count; /* bytes of the size column, elements of the count column */
    const char *type, *op;
    int root;                 /* -1: none */
    struct perf_half half[2]; /* out of place, in place */
};

struct perf_results {
    struct perf_row *rows;
    int n, capacity;
};

/* A new zeroed row; NULL: out of memory. */
struct perf_row *perf_results_add(struct perf_results *results);

/* Mean of all busbw values, 0 without rows. */
double perf_results_average(const struct perf_results *results);

/* Sorts samples and fills min, p50, p99, max and spread. */
void perf_half_fill_samples(struct perf_half *half, double *samples, size_t n);

#endif
