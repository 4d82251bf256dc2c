/* SPDX-License-Identifier: Apache-2.0
 * The ranks of a job on this host: started, listened to, signalled, reaped. Used by the launcher for its own host and by its agents
 * for theirs; it knows nothing about other hosts, and reports through three calls. */
#ifndef MOTET_TOOLS_CREW_H
#define MOTET_TOOLS_CREW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "binding.h"
#include "death.h"
#include "deaths.h"
#include "loop.h"

/* What all hosts of a job must know. Strings belong to whoever fills it. */
struct job {
    char **argv;      /* program and arguments, NULL at the end */
    char **variables; /* "NAME=VALUE" of --env and what a remote host inherits; NULL at the end */
    const char *directory;
    int nranks, nnodes;
    const char *master_address;
    int master_port;
    const char *root;      /* host:port for MOTET_ROOT */
    const char *secret;    /* hexadecimal */
    const char *unique_id; /* hexadecimal, "" when there is none */
    const char *run_id;
    int restart, max_restarts;
    enum binding binding;
};

struct crew_calls {
    void *context;
    void (*text)(void *context, int rank, int stream, const char *data, size_t len);
    void (*ended)(void *context, const struct death *death); /* after the last text that the rank itself wrote */
    bool (*full)(void *context);                             /* output is not wanted for now */
};

struct crew_rank {
    int rank;
    pid_t pid;  /* 0: not running */
    int out[2]; /* read ends of its stdout and stderr, -1 closed */
    struct crew *crew;
};

struct crew {
    struct loop *loop;
    struct crew_calls calls;
    struct crew_rank *ranks;
    int n, alive;
    int node;
    char host[64];
    int stdin_fd; /* write end of rank 0's stdin when it is relayed, else -1 */
    bool paused;
    struct oom_baseline oom;
    struct deaths deaths; /* of this host and, as far as the launcher says, of others */
};

/* Starts `n` ranks, the first is `first_rank` of the job. stdin_fd: what rank 0 reads, -1: nothing, -2: a pipe whose write end is
 * left in crew->stdin_fd. On failure false and a sentence; exit_code is 126 or 127 when the program cannot be run. Ranks that were
 * started before the failure are running: the caller ends them. */
bool crew_start(struct crew *crew, const struct job *job, int node, int first_rank, int n, int stdin_fd, char *error,
                size_t error_len, int *exit_code);

/* The number of OpenMP threads each rank gets: the environment's, or CPUs / ranks, at least 1. */
int crew_threads(const struct job *job, int nlocal);

/* Signals the process group of every living rank. */
void crew_signal(struct crew *crew, int signal_number);

/* Reaps the ranks that have ended, deaths by signal first: what is reported first is most likely the cause. */
void crew_reap(struct crew *crew);

/* Whether pid is a rank of this crew. */
bool crew_owns(const struct crew *crew, pid_t pid);

/* Reads output that is there already; for the end, when pipes may be held open by others. */
void crew_read_rest(struct crew *crew);

/* Starts or stops reading output, following calls.full. */
void crew_throttle(struct crew *crew);

void crew_free(struct crew *crew);

#endif
