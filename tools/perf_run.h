/* SPDX-License-Identifier: Apache-2.0
 * Measures: the sweep of sizes, types, operations and roots, nccl-tests' way of timing, and the check of every result. */
#ifndef MOTET_TOOLS_PERF_RUN_H
#define MOTET_TOOLS_PERF_RUN_H

#include "perf_baseline.h"
#include "perf_pattern.h"
#include "perf_result.h"
#include "perf_settings.h"
#include "perf_team.h"

struct perf_run {
    struct perf_settings settings; /* max_bytes may be lowered to what memory allows */
    struct team team;
    struct pattern pattern;
    struct perf_results results;   /* of the last cycle; filled on global rank 0 only */
    struct perf_baseline baseline; /* rows NULL: none */
    int64_t out_of_bounds;
    double started; /* Unix time */
};

/* Runs all local ranks as threads, until the end or the first error. false: run->team.error. */
bool perf_run_ranks(struct perf_run *run);

/* Whether this process prints. */
bool perf_run_reports(const struct perf_run *run);

#endif
