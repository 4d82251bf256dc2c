/* SPDX-License-Identifier: Apache-2.0
 * Why a process ended, in words, from whoever knows: the kernel (its exit status, through the pidfd), the launcher (a table of ended ranks
 * whose descriptor the ranks inherit), the control group (whether the OOM killer was at work). Called by the service thread only. */
#ifndef MOTET_OBITUARY_H
#define MOTET_OBITUARY_H

#include <stdbool.h>

#include "transport/transport.h"

struct motet_obituary {
    bool orderly; /* it exited with status 0 */
    char text[144];
};

/* Notes what the OOM killer has done so far: what it does later may be the cause of a death. */
void motet_obituary_open(void);

/* False: not known, or not yet. pidfd of the process, -1: there is none (another host's, or an old kernel's). */
bool motet_obituary_find(const struct motet_process *process, int pidfd, struct motet_obituary *obituary);

/* Whether the launcher tells deaths to this process. */
bool motet_obituary_has_launcher(void);

#endif
