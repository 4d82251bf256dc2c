/* SPDX-License-Identifier: Apache-2.0
 * The job report: what all ranks of a job did with their time, for people (text) or programs (JSON), written once by rank 0 to where
 * MOTET_REPORT says. Waiting is never shown as work. */
#ifndef MOTET_REPORT_H
#define MOTET_REPORT_H

#include <stdio.h>

#include "comm.h"
#include "straggler.h"

/* Whether MOTET_REPORT is set. */
bool motet_report_wanted(void);

/* Writes the report of the job that `comm` stands for; standings by rank. What cannot be written is one WARN line. */
void motet_report_write(motetComm_t comm, const struct motet_standing *standings);

/* ---- The parts, for report_text.c and report_json.c ---- */

/* Time of a rank in which the program waited for the library, and time of streams in which it did not. */
uint64_t motet_report_exposed(const struct motet_account *account);
uint64_t motet_report_overlapped(const struct motet_account *account);

struct motet_verdict_of_job {
    double exposed, waiting, late; /* shares: of all ranks' time; of the exposed part: waiting; of the waiting: for late ranks */
    bool communication_bound;
    struct motet_straggler straggler;
};

struct motet_verdict_of_job motet_report_judge(const struct motet_standing *standings, int nranks);

/* The verdict and the sentence about the straggler; the latter is "" where nobody stands out. */
void motet_report_verdict_text(const struct motet_verdict_of_job *verdict, char *text, size_t len);
void motet_report_straggler_text(const struct motet_straggler *straggler, const char *host, char *text, size_t len);

/* What to do about it: the index-th remedy, NULL after the last. */
const char *motet_report_remedy(const struct motet_verdict_of_job *verdict, int index);

extern const char *const motet_report_operations[MOTET_TALLY_KINDS], *const motet_report_classes[MOTET_TALLY_CLASSES],
                                                                         *const motet_report_transports[MOTET_STATS_TRANSPORTS];

const char *motet_report_host(motetComm_t comm, int rank);

void motet_report_print_text(FILE *out, motetComm_t comm, const struct motet_standing *standings);
void motet_report_print_json(FILE *out, motetComm_t comm, const struct motet_standing *standings);

#endif
