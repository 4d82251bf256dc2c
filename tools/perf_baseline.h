/* SPDX-License-Identifier: Apache-2.0
 * Results as JSON, in the shape that nccl-tests writes with -J plus what motet adds, and their comparison with earlier ones. */
#ifndef MOTET_TOOLS_PERF_BASELINE_H
#define MOTET_TOOLS_PERF_BASELINE_H

#include <stdbool.h>

#include "perf_result.h"
#include "perf_settings.h"
#include "perf_team.h"

struct perf_run;

/* A row of an earlier run. Strings are malloced. */
struct perf_baseline_row {
    size_t size;
    char *type, *op;
    int root;
    double time[2];
};

struct perf_baseline {
    struct perf_baseline_row *rows;
    int n;
};

/* Reads a file that perf_json_write or nccl-tests wrote. false and a sentence on failure. */
bool perf_baseline_read(struct perf_baseline *baseline, const char *path, char *error, size_t len);

/* New time / old time; 0 when the baseline has no such row. */
double perf_baseline_ratio(const struct perf_baseline *baseline, const struct perf_row *row, int half);

void perf_baseline_free(struct perf_baseline *baseline);

/* Writes the file; an existing one is replaced at once, never left half written. false and a sentence on failure. */
bool perf_json_write(const char *path, const struct perf_run *run, int argc, char **argv, char *error, size_t len);

#endif
