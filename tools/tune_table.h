/* SPDX-License-Identifier: Apache-2.0
 * The table of measured times as a file: one JSON object, shape by shape. What it means: docs/tune.md. The library reads it by itself. */
#ifndef MOTET_TOOLS_TUNE_TABLE_H
#define MOTET_TOOLS_TUNE_TABLE_H

#include "tune_measure.h"

/* The file in the cache directory, whose folders are made. false: why. */
bool tune_table_usual_file(char *file, size_t len, char *why, size_t why_len);

/* Puts the points of plan->shape into the file, in place of those that it had for this shape; all else stays. The file changes at once or
 * not at all. false: why, with file, line and element where an old file cannot be read. */
bool tune_table_merge(const char *file, const struct tune_plan *plan, const struct tune_point *points, int n, char *why,
                      size_t why_len);

/* Prints the points as a table of their own, with predictions and choices. */
void tune_table_print(const struct tune_plan *plan, const struct tune_point *points, int n);

#endif
