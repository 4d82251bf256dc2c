/* SPDX-License-Identifier: Apache-2.0
 * The tables of perf on stdout. The main one has nccl-tests' format to the character; whatever motet adds stands in lines that
 * begin with '#', which parsers of that format pass over. */
#ifndef MOTET_TOOLS_PERF_TABLE_H
#define MOTET_TOOLS_PERF_TABLE_H

#include "perf_result.h"
#include "perf_settings.h"
#include "perf_team.h"

void perf_table_header(const struct perf_settings *settings, const struct team *team);

/* Column titles. */
void perf_table_columns(const struct perf_settings *settings);

/* A row appears in three pieces, as it is measured. */
void perf_table_row_begin(const struct perf_row *row);
void perf_table_row_half(const struct perf_settings *settings, const struct perf_half *half);
void perf_table_row_end(const struct perf_settings *settings);

/* Latency percentiles, CPU time and the comparison with a baseline. */
void perf_table_latencies(const struct perf_settings *settings, const struct perf_results *results);

/* out_of_bounds: elements outside of the output that were changed, or wrong values. min_bandwidth: 0 none. */
void perf_table_footer(const struct perf_settings *settings, const struct perf_results *results, int64_t out_of_bounds,
                       double min_bandwidth);

/* A number in at most `width` characters: %.2f, %.1f, %.0f or %.1e. */
void perf_table_squeeze(double number, int width, char *text, size_t size);

#endif
