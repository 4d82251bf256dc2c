/* SPDX-License-Identifier: Apache-2.0
 * Everything that this process started, directly or not, also what left its session: the process is a subreaper, so orphans of its
 * descendants become its children and stay reachable. */
#ifndef MOTET_TOOLS_DESCENDANTS_H
#define MOTET_TOOLS_DESCENDANTS_H

#include <stdbool.h>
#include <sys/types.h>

/* Sends a signal to every descendant but `spare` (0: none); returns how many there are. */
int descendants_signal(int signal_number, pid_t spare);

/* SIGTERM, grace_ms of waiting, then SIGKILL until nothing is left; reaps. For the end of a job. */
void descendants_end(int grace_ms);

#endif
