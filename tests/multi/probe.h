/* SPDX-License-Identifier: Apache-2.0
 * "Does this communicator still work?": a few small collectives with values that differ by rank, index and call. */
#ifndef MOTET_TESTS_MULTI_PROBE_H
#define MOTET_TESTS_MULTI_PROBE_H

#include "world.h"

#define PROBE_N 33

/* Value of element i of rank's buffer number `salt`; small enough for exact sums. */
static inline int64_t probe_value(int rank, size_t i, int salt)
{
    return (int64_t)(rank + 1) * 1009 + (int64_t)(i % 4099) * 31 + salt * 7;
}

static inline int64_t probe_sum(int nranks, size_t i, int salt)
{
    int64_t sum = 0;
    for (int r = 0; r < nranks; r++)
        sum += probe_value(r, i, salt);
    return sum;
}

static inline void probe_fill(int64_t *data, size_t n, int rank, int salt)
{
    for (size_t i = 0; i < n; i++)
        data[i] = probe_value(rank, i, salt);
}

/* Whether data[0..n) is what `rank` filled in. */
static inline bool probe_is(const int64_t *data, size_t n, int rank, int salt)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != probe_value(rank, i, salt))
            return false;
    return true;
}

static inline bool probe_is_sum(const int64_t *data, size_t n, int nranks, int salt)
{
    for (size_t i = 0; i < n; i++)
        if (data[i] != probe_sum(nranks, i, salt))
            return false;
    return true;
}

/* Collective: an all-reduce, an all-gather and a broadcast. 0 when all is right. */
static inline int probe(motetComm_t comm, int salt)
{
    int64_t mine[PROBE_N], sum[PROBE_N];
    int rank, nranks;
    CALL(motetCommUserRank(comm, &rank));
    CALL(motetCommCount(comm, &nranks));
    probe_fill(mine, PROBE_N, rank, salt);
    memset(sum, 0xA5, sizeof sum);
    CALL(motetAllReduce(mine, sum, PROBE_N, motetInt64, motetSum, comm, NULL));
    CHECK(probe_is_sum(sum, PROBE_N, nranks, salt));
    int64_t *all = malloc((size_t)nranks * sizeof mine);
    CHECK(all);
    memset(all, 0xA5, (size_t)nranks * sizeof mine);
    CALL(motetAllGather(mine, all, PROBE_N, motetInt64, comm, NULL));
    for (int r = 0; r < nranks; r++)
        CHECK(probe_is(all + r * PROBE_N, PROBE_N, r, salt));
    free(all);
    CALL(motetBroadcast(mine, mine, PROBE_N, motetInt64, nranks - 1, comm, NULL));
    CHECK(probe_is(mine, PROBE_N, nranks - 1, salt));
    return 0;
}

#endif
