/* SPDX-License-Identifier: Apache-2.0
 * The table of ranks that have ended, for those that run on: a file without a name whose descriptor every rank inherits (MOTET_DEATHS_FD).
 * A line per rank: host, pid, rank and cause, separated by tabs. The library reads it when a peer is gone. */
#ifndef MOTET_TOOLS_DEATHS_H
#define MOTET_TOOLS_DEATHS_H

#include "death.h"

struct deaths {
    int writing, reading; /* the same file; -1: there is none, and nobody is told */
};

void deaths_open(struct deaths *deaths);
void deaths_append(struct deaths *deaths, const struct death *death);
void deaths_close(struct deaths *deaths);

#endif
