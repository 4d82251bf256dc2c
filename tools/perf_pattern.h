/* SPDX-License-Identifier: Apache-2.0
 * Test data whose reduction is known exactly, whatever the order of the operations: values differ by rank and index, and no partial
 * result of any order is rounded. Tables of a prime number of elements, shifted from block to block, make filling and checking as
 * fast as copying. Shared by the threads of a process. */
#ifndef MOTET_TOOLS_PERF_PATTERN_H
#define MOTET_TOOLS_PERF_PATTERN_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "perf_type.h"

#define PATTERN_RESULT (-1) /* a "rank": the reduction of all ranks' data */
#define PATTERN_POISON (-2) /* what outputs are filled with */

#define PATTERN_POISON_BYTE 0xa5

struct pattern {
    const struct perf_type *type;
    enum perf_op op;
    int nranks;
    size_t period; /* elements of a table */
    void **tables; /* [nranks], made when first needed; [nranks]: the result */
    pthread_mutex_t lock;
};

/* The scalar that rank multiplies with in PERF_MULSUM. */
int pattern_scalar(int rank);

/* Prepares for a type and operation; max_count bounds the indexes that will be asked for. false: out of memory. Not for use while
 * other threads fill or check. */
bool pattern_prepare(struct pattern *pattern, const struct perf_type *type, enum perf_op op, int nranks, size_t max_count);
void pattern_free(struct pattern *pattern);

/* One number of the sequence, part 0 or 1; for tests and tables. */
union perf_number pattern_value(const struct pattern *pattern, int rank, uint64_t index);
union perf_number pattern_result(const struct pattern *pattern, uint64_t index);

/* dst[0..count) = elements first.. of a rank's data, the result's, or poison. false: out of memory. */
bool pattern_fill(struct pattern *pattern, int rank, uint64_t first, size_t count, void *dst);

/* Counts elements of src that differ from what pattern_fill would write. *where: index in src of the first one, untouched when all
 * are right. -1: out of memory. */
int64_t pattern_check(struct pattern *pattern, int rank, uint64_t first, size_t count, const void *src, size_t *where);

#endif
