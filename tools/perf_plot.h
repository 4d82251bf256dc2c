/* SPDX-License-Identifier: Apache-2.0
 * Draws the results of a perf run as SVG: time and bus bandwidth over size, logarithmic axes. Needs nothing but a file. */
#ifndef MOTET_TOOLS_PERF_PLOT_H
#define MOTET_TOOLS_PERF_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "perf_result.h"

/* title and subtitle are plain text. false and a sentence when the file cannot be written. */
bool perf_plot_write(const char *path, const struct perf_results *results, const char *title, const char *subtitle, char *error,
                     size_t len);

/* "8 B", "64 KB", "1 MB", ... of a number of bytes, binary multiples. */
void perf_plot_size_label(double bytes, char *text, size_t size);

#endif
