/* SPDX-License-Identifier: Apache-2.0
 * Regions of communicators that are gone, while a peer may still touch them: one that was stopped, or that has not closed its end yet. A peer
 * that lives lets go by itself; one that dies is let go here. */
#ifndef MOTET_QUARANTINE_H
#define MOTET_QUARANTINE_H

#include "comm.h"

/* The region lingers in the segment under `number`; its holders are numbered like the ranks of peers[0..n). Watches the lives of those in
 * other processes. Without memory for that, a peer that dies while it holds the region keeps it until the process closes. */
void motet_quarantine_add(uint64_t number, const struct motet_peer *peers, int n);

/* Forgets those that nobody holds any more; when the library closes in this process, all of them. */
void motet_quarantine_sweep(bool all);

#endif
