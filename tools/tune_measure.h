/* SPDX-License-Identifier: Apache-2.0
 * Times of every algorithm of every collective on one communicator, within a budget. Algorithms take turns in short batches, and what is
 * kept of each is its median ratio to the others in the same turn: machines that change their speed meanwhile change it for all. */
#ifndef MOTET_TOOLS_TUNE_MEASURE_H
#define MOTET_TOOLS_TUNE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

#include "motet.h"

#define TUNE_ALGORITHMS 16 /* of one collective, at most */

struct tune_time {
    const char *name; /* of the algorithm; lives as long as the process */
    double us;        /* per call, on the slowest rank */
    double predicted_us;
    int samples;
};

/* One collective at one size. */
struct tune_point {
    const char *collective; /* "AllReduce" */
    size_t bytes;           /* as motet explain counts them */
    double probe_us;        /* an all-reduce of 8 bytes between the turns: the state of the machine */
    const char *chosen;     /* what the library would run without the new table */
    struct tune_time times[TUNE_ALGORITHMS];
    int n;
};

struct tune_plan {
    motetComm_t comm;
    int nranks, rank, nhosts;
    double budget_s;
    size_t min_bytes, max_bytes;
    int factor;             /* from size to size */
    const char *only;       /* a collective, or NULL: all */
    bool shows_progress;    /* on stderr, by rank 0 */
    motetTuneShape_t shape; /* of comm */
};

/* Collective over plan->comm. points: malloced, the same times on all ranks. Returns the number of points; -1: *why says what failed. */
int tune_measure(const struct tune_plan *plan, struct tune_point **points, char why[1200]);

#endif
