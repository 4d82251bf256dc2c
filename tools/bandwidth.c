/* SPDX-License-Identifier: Apache-2.0 */
#include "bandwidth.h"

/* How the bytes scale with the count column, and the factor. */
static const struct {
    enum { ONCE, TIMES_RANKS, TIMES_OTHERS } bytes;
    enum { FACTOR_ONE, FACTOR_SHARE, FACTOR_TWICE_SHARE } factor;
} rules[PERF_KINDS] = {
    [PERF_ALL_REDUCE] = {ONCE, FACTOR_TWICE_SHARE},
    [PERF_ALL_GATHER] = {TIMES_RANKS, FACTOR_SHARE},
    [PERF_BROADCAST] = {ONCE, FACTOR_ONE},
    [PERF_REDUCE] = {ONCE, FACTOR_ONE},
    [PERF_REDUCE_SCATTER] = {TIMES_RANKS, FACTOR_SHARE},
    [PERF_ALLTOALL] = {TIMES_RANKS, FACTOR_SHARE},
    [PERF_GATHER] = {TIMES_RANKS, FACTOR_SHARE},
    [PERF_SCATTER] = {TIMES_RANKS, FACTOR_SHARE},
    [PERF_SENDRECV] = {ONCE, FACTOR_ONE},
    [PERF_HYPERCUBE] = {TIMES_OTHERS, FACTOR_ONE},
    [PERF_BARRIER] = {ONCE, FACTOR_ONE},
};

double bandwidth_factor(enum perf_kind kind, int nranks)
{
    double share = (double)(nranks - 1) / nranks;
    if (rules[kind].factor == FACTOR_TWICE_SHARE)
        return 2 * share;
    return rules[kind].factor == FACTOR_SHARE ? share : 1;
}

const char *bandwidth_formula(enum perf_kind kind)
{
    if (rules[kind].factor == FACTOR_TWICE_SHARE)
        return "2(n-1)/n";
    return rules[kind].factor == FACTOR_SHARE ? "(n-1)/n" : "1";
}

double bandwidth_bytes(enum perf_kind kind, size_t count, size_t element_size, int nranks)
{
    double bytes = (double)count * (double)element_size;
    if (rules[kind].bytes == TIMES_RANKS)
        return bytes * nranks;
    return rules[kind].bytes == TIMES_OTHERS ? bytes * (nranks - 1) : bytes;
}

struct bandwidth bandwidth_of(enum perf_kind kind, size_t count, size_t element_size, int nranks, double seconds)
{
    struct bandwidth bandwidth = {0};
    if (seconds > 0)
        bandwidth.algorithm = bandwidth_bytes(kind, count, element_size, nranks) / 1e9 / seconds;
    bandwidth.bus = bandwidth.algorithm * bandwidth_factor(kind, nranks);
    return bandwidth;
}
