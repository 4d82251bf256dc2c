/* SPDX-License-Identifier: Apache-2.0
 * What the options of `motet perf` say, after checking. */
#ifndef MOTET_TOOLS_PERF_SETTINGS_H
#define MOTET_TOOLS_PERF_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "perf_collective.h"

struct perf_settings {
    const struct perf_collective *collective;
    int64_t threads, devices, processes; /* -t, -g, --ranks */
    int64_t expect_ranks;
    int64_t min_bytes, max_bytes, step_bytes, step_factor;
    int64_t iterations, warmups, aggregation, cycles, checks;
    int64_t average, blocking, registration, unalign;
    int64_t timeout_s, parallel_init, null_stream, graph, cpu_time, timestamps, memory, per_iteration, per_iteration_skip;
    const char *op_name, *type_name, *root_name;
    const char *json_path, *plot_path, *baseline_path, *tolerance_text;
    bool stream, no_latency;

    /* derived */
    double tolerance; /* 0.1: ten percent slower is still as fast */
    int op;           /* enum perf_op, -1: all */
    int type;         /* index in perf_types, -1: all */
    int root;         /* -1: all */
};

#endif
