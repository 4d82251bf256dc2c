/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_result.h"

#include <math.h>
#include <stdlib.h>

struct perf_row *perf_results_add(struct perf_results *results)
{
    if (results->n == results->capacity) {
        int capacity = results->capacity ? 2 * results->capacity : 64;
        struct perf_row *rows = realloc(results->rows, (size_t)capacity * sizeof *rows);
        if (!rows)
            return NULL;
        results->rows = rows;
        results->capacity = capacity;
    }
    results->rows[results->n] = (struct perf_row){0};
    return &results->rows[results->n++];
}

double perf_results_average(const struct perf_results *results)
{
    double sum = 0;
    for (int i = 0; i < results->n; i++)
        sum += results->rows[i].half[0].busbw + results->rows[i].half[1].busbw;
    return results->n ? sum / (2 * results->n) : 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest sample that is not exceeded by `share` of all. */
static double percentile(const double *sorted, size_t n, double share)
{
    size_t at = (size_t)ceil(share * (double)n);
    return sorted[at > 0 ? at - 1 : 0];
}

void perf_half_fill_samples(struct perf_half *half, double *samples, size_t n)
{
    double sum = 0, squares = 0;
    if (!n)
        return;
    qsort(samples, n, sizeof *samples, compare);
    for (size_t i = 0; i < n; i++)
        sum += samples[i];
    double mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (samples[i] - mean) * (samples[i] - mean);
    half->min = samples[0];
    half->p50 = percentile(samples, n, 0.5);
    half->p99 = percentile(samples, n, 0.99);
    half->max = samples[n - 1];
    half->spread = mean > 0 ? 100 * sqrt(squares / (double)n) / mean : 0;
}
