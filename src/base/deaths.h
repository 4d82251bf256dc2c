/* SPDX-License-Identifier: Apache-2.0
 * The launcher's table of ranks that have ended: a memfd that all ranks of a host inherit (MOTET_DEATHS_FD), appended to by motet run and its
 * agents, a line "host<TAB>pid<TAB>rank<TAB>cause" per rank. Nothing else is shared with the launcher; what makes no sense is passed over. */
#ifndef MOTET_BASE_DEATHS_H
#define MOTET_BASE_DEATHS_H

#include <stdbool.h>
#include <sys/types.h>

struct motet_death {
    char host[64]; /* without domain */
    int pid, rank; /* rank as the launcher counts */
    char cause[160];
};

/* Whether there is a table: the launcher tells deaths to this process. */
bool motet_deaths_are_told(void);

/* The line at *at (0 at first), and moves on. False: there is none yet. Any thread. */
bool motet_deaths_next(off_t *at, struct motet_death *death);

#endif
