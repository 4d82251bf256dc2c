/* SPDX-License-Identifier: Apache-2.0
 * One job from start to end: its hosts, its attempts, who failed first, and the order to end the others. */
#ifndef MOTET_TOOLS_LAUNCH_H
#define MOTET_TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "binding.h"
#include "hosts.h"

struct launch_settings {
    char **argv;        /* program and arguments */
    char **variables;   /* of --env, "NAME=VALUE" */
    struct hosts hosts; /* none: this host without ssh */
    int nranks;
    enum binding binding;
    const char *ssh;
    const char *program;   /* motet on the other hosts */
    const char *directory; /* NULL: the current one */
    const char *master_address;
    int master_port; /* 0: a free one */
    int max_restarts;
    int64_t timeout_ms, grace_ms, start_timeout_ms; /* 0: none */
    bool prefixes, quiet, keep_going;
};

/* Body for shepherd_run; context is a struct launch_settings. Returns the exit code. */
int launch_main(void *context, int lifeline);

#endif
