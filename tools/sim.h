/* SPDX-License-Identifier: Apache-2.0
 * What the parts of `motet sim` share: the answer as it is shown, and the files it reads and writes. */
#ifndef MOTET_TOOLS_SIM_H
#define MOTET_TOOLS_SIM_H

#include <stdbool.h>
#include <stdio.h>

#include "bandwidth.h"
#include "motet.h"

struct sim_view {
    const motetSimulateQuery_t *query;
    motetSimulation_t simulation;
    motetSimulateResult_t result;
    enum perf_kind kind; /* of the first operation */
    const char *what;    /* "AllReduce of 1 GiB of float32" */
    const char *network; /* as it was written */
    bool is_step;        /* a training step */
    double compute_ns;   /* of it */
};

/* A link and how much of the time it was busy. */
struct sim_link {
    motetSimulateLinkUse_t use;
    double share;
};

/* The busiest links, most first; returns how many, at most `room`. *used: links that carried anything; *mean: their mean share. */
int sim_busiest_links(const struct sim_view *view, struct sim_link *links, int room, int *used, double *mean);

/* busbw of an operation, as motet perf counts it. */
double sim_busbw(const struct sim_view *view, const motetSimulateOperationResult_t *operation);

/* The chain that ended last, as a paragraph. */
void sim_print_path(const struct sim_view *view, FILE *out);

void sim_print(const struct sim_view *view);
bool sim_print_json(const struct sim_view *view);

/* Messages as a trace for Perfetto, and the use of links over time as a picture. */
void sim_write_trace(const struct sim_view *view, FILE *out);
void sim_draw(const struct sim_view *view, FILE *out);

#endif
