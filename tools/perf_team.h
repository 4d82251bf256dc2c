/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a perf run: threads of this process, times the processes of a launcher. Gives them a communicator to measure, a
 * barrier, and reductions of single numbers for reports. A rank that fails makes all others leave: nobody waits for ever. */
#ifndef MOTET_TOOLS_PERF_TEAM_H
#define MOTET_TOOLS_PERF_TEAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "motet.h"

enum team_mode { TEAM_FIRST, TEAM_MEAN, TEAM_MIN, TEAM_MAX, TEAM_SUM }; /* the first four are -a 0..3 */

/* One line of the header's list of ranks. */
struct team_member {
    int32_t pid, cpu;
    char host[64];
    char model[64];
};

struct team {
    int nlocal; /* ranks in this process */
    int nprocesses, process;
    int nranks;
    motetComm_t processes; /* one rank per process; NULL when there is one process */
    motetUniqueId id;
    struct team_member *members; /* [nranks], filled by team_join */

    pthread_mutex_t lock;
    pthread_cond_t turn;
    int waiting;
    unsigned generation;
    bool failed;
    char error[1400]; /* of the rank that failed first */
    double *numbers;  /* [nlocal] */
    double combined;
};

/* One rank. */
struct team_rank {
    struct team *team;
    int local, rank;
    motetComm_t comm;
    motetStream_t stream;
};

/* Number of processes that a launcher's environment announces; *launcher is its name, NULL without one. */
int team_launched_processes(const char **launcher);

/* Meets the other processes, if a launcher says that there are any. false: team->error says why. */
bool team_open(struct team *team, int nlocal);

/* Joins the communicator that is measured and fills team->members; called by all local ranks together. */
bool team_join(struct team_rank *self);

/* Records an error (the first one counts), and makes all other ranks leave their calls. Returns false. */
bool team_fail(struct team_rank *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All ranks of all processes. false: some rank failed. */
bool team_barrier(struct team_rank *self);

/* Combines one number of every rank; the result is the same everywhere. false: some rank failed. */
bool team_combine(struct team_rank *self, double number, enum team_mode mode, double *combined);

/* Leaves the communicator. */
void team_leave(struct team_rank *self);

void team_close(struct team *team);

#endif
