/* SPDX-License-Identifier: Apache-2.0
 * What motetStatus told about a job: rows read from its JSON, sorted by communicator and rank, each rank once. It prints nothing. */
#ifndef MOTET_TOOLS_STATUS_JOB_H
#define MOTET_TOOLS_STATUS_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct status_call {
    const char *what, *name, *algorithm, *protocol, *transport;
    bool is_message;
    int64_t number, history;
    double began_s, ended_s;
};

/* One rank of one communicator. Strings belong to the job. */
struct status_row {
    const char *comm, *id, *host, *state, *error; /* error: NULL when there is none */
    int nranks, rank, pid;
    char process; /* letter of /proc/PID/stat; '?' unknown */
    int64_t calls, messages, bytes, queued;
    int direct, shm, net; /* other ranks by transport */
    bool has_current, has_last, waits;
    struct status_call current, last;
    double idle_s, waits_s;
    int waits_for; /* rank; -1: nobody in particular */
    bool has_counters;
    double time_s, wait_s, move_s, reduce_s;
    int64_t long_waits, sent, received;
    const char *late; /* the sentence about the rank that keeps others waiting; NULL: nobody does */
    double late_saved;
    json_t *source;
};

struct status_silent {
    const char *host;
    int pid;
};

struct status_job {
    struct status_row *rows;
    size_t n;
    struct status_silent *silent;
    size_t nsilent;
    json_t **documents;
    size_t ndocuments;
};

/* Adds one answer. False when it is not what motetStatus prints; then *why says what is wrong and the job is as before. */
bool status_job_add(struct status_job *job, const char *text, char *why, size_t len);

/* Keeps the rows of communicators that are called `word`, or whose id begins with it. */
void status_job_filter(struct status_job *job, const char *word);

/* Keeps the rows of communicators in which some rank has this pid. */
void status_job_filter_pid(struct status_job *job, int pid);

/* Number of rows of the communicator that begins at rows[first]. */
size_t status_job_comm(const struct status_job *job, size_t first);

void status_job_free(struct status_job *job);

/* ---- status_verdict.c ---- */

/* What is the matter with the communicator whose rows are rows[first .. first + n), in a sentence or several. *stuck: somebody waits for
 * longer than a second, or it failed. Returns text. */
const char *status_verdict(const struct status_job *job, size_t first, size_t n, char *text, size_t len, bool *stuck);

/* The sentence about the rank of rows[first .. first + n) that keeps the others waiting most; NULL: nobody stands out. */
const char *status_late(const struct status_job *job, size_t first, size_t n);

/* "312 s", "45 ms", "2 h 3 min": for people. Returns text. */
const char *status_duration(char text[32], double seconds);

#endif
