/* SPDX-License-Identifier: Apache-2.0
 * The forms in which `motet explain` answers. Each reads one explanation through motet.h; none knows an algorithm by itself, but for the
 * pages that compare named ones (sweep, why). */
#ifndef MOTET_TOOLS_EXPLAIN_H
#define MOTET_TOOLS_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "bandwidth.h"
#include "motet.h"

/* The most candidates a collective has. */
#define EXPLAIN_CANDIDATES 64

/* An explanation, and what the forms need of it. */
struct explain_view {
    const motetExplainQuery_t *query;
    motetExplanation_t explanation;
    const char *collective; /* "AllReduce" */
    const char *what;       /* "1 MiB of float32" */
    enum perf_kind kind;
    bool moves; /* false: nothing is moved (barrier) */
    motetExplainCandidate_t candidates[EXPLAIN_CANDIDATES];
    int n, chosen, shown; /* shown: whose steps and pictures are wanted */
};

/* 10^9 bytes per second as motet perf counts them. */
double explain_busbw(const struct explain_view *view, const motetExplainCandidate_t *candidate);

/* What keeps a candidate busy: "host 0's link to the other hosts". */
char *explain_resource(const motetExplainCandidate_t *candidate, char *text, size_t size);

/* The share of a candidate's time in which its busiest resource works, 0..1. */
double explain_busy_share(const motetExplainCandidate_t *candidate);

void explain_print_candidates(const struct explain_view *view);
void explain_print_reasons(const struct explain_view *view);
bool explain_print_ranges(const struct explain_view *view);
bool explain_print_steps(const struct explain_view *view, int rank);
void explain_print_sizes(const struct explain_view *view);
void explain_print_why(const struct explain_view *view);
bool explain_print_json(const struct explain_view *view, int rank);
bool explain_print_mermaid(const struct explain_view *view);

/* Time runs to the right, ranks downwards, messages are arrows. */
bool explain_draw(const struct explain_view *view, FILE *out);

/* Round by round; waits for Enter in between when `wait` is true. */
bool explain_play(const struct explain_view *view, bool wait);

/* Ring, a serial binomial tree, one pipelined tree and two of them from `low` to `high` ranks (powers of two), each rank behind its own
 * link. drawn: NULL, or where an SVG goes. */
bool explain_sweep(const motetExplainQuery_t *query, int low, int high, bool json, FILE *drawn);

#endif
