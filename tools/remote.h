/* SPDX-License-Identifier: Apache-2.0
 * The launcher's end of an agent on another host: an ssh process and the frames through it. */
#ifndef MOTET_TOOLS_REMOTE_H
#define MOTET_TOOLS_REMOTE_H

#include "crew.h"
#include "frames.h"
#include "hosts.h"

enum remote_state { REMOTE_CONNECTING, REMOTE_IDLE, REMOTE_RUNNING, REMOTE_GONE };

struct remote;

struct remote_calls {
    void *context;
    void (*text)(void *context, int rank, int stream, const char *data, size_t len);
    void (*ended)(void *context, const struct death *death);
    void (*refused)(void *context, struct remote *remote, int exit_code, const char *why);
    void (*lost)(void *context, struct remote *remote, const char *why);  /* the agent is gone before it was done */
    void (*said)(void *context, struct remote *remote, const char *line); /* a line that ssh wrote on stderr */
};

struct remote {
    const struct host *host;
    struct loop *loop;
    struct remote_calls calls;
    enum remote_state state;
    pid_t pid; /* of ssh; 0: reaped */
    struct sink in;
    int in_fd, out_fd, err_fd;
    bool greeted;
    struct frame_reader reader;
    char last_words[256]; /* last line on ssh's stderr */
    char name[64];        /* what the host calls itself */
    int cpus, master_port, root_port;
    int alive; /* ranks that have not ended */
};

/* Starts `ssh_command HOST exec program run --agent`. The command is split at spaces. false and a sentence on failure. */
bool remote_open(struct remote *remote, struct loop *loop, const struct host *host, const char *ssh_command, const char *program,
                 char *error, size_t len);

/* Starts the host's share. */
bool remote_start(struct remote *remote, const struct job_share *share);

void remote_signal(struct remote *remote, int signal_number);

/* ssh has ended with this wait status. */
void remote_exited(struct remote *remote, int status);

/* Stops or starts reading what the ranks print. */
void remote_throttle(struct remote *remote, bool pause);

/* Closes the agent's stdin, on which it ends itself and its ranks, and frees. */
void remote_close(struct remote *remote);

#endif
