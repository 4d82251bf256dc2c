/* SPDX-License-Identifier: Apache-2.0
 * Communicators made from others: split, shrink, subset, and what the ranks of a communicator agree on before it grows. In all of them the
 * caller is inside the parent, whose operations have ended in all but subset. */
#ifndef MOTET_MEMBERSHIP_H
#define MOTET_MEMBERSHIP_H

#include "comm.h"

/* Makes `child` the communicator of the ranks of `parent` with the same color, ordered by (key, rank). Collective over parent; color < 0: not
 * a member, child stays empty and is the caller's to close. No new endpoints, threads or sockets. A parent that was revoked can be split. */
motetResult_t motet_comm_split(motetComm_t parent, int color, int key, motetComm_t child);

/* Makes `child` the communicator of all ranks of `parent` but the nexcluded ranks in `excluded` (ascending, without this rank), in the
 * parent's order. Called by those ranks only, with the same list; the parent may be in any state. */
motetResult_t motet_comm_shrink(motetComm_t parent, const int *excluded, int nexcluded, motetComm_t child);

/* Makes `child` the communicator of the nranks ranks of `parent` in `ranks`, in that order, this one among them. Called by those ranks only,
 * with the same list and subject (not 0), beside whatever else is made or runs; the parent may be in any state. A subject under which
 * something failed is not used again. */
motetResult_t motet_comm_subset(motetComm_t parent, const int *ranks, int nranks, uint64_t subject, motetComm_t child);

/* Collective over parent: exactly one rank has the unique id (`mine`; NULL on the others), all have the same nranks. Fills *id on all. */
motetResult_t motet_comm_agree_growth(motetComm_t parent, int nranks, const motetUniqueId *mine, const struct motet_options *limits,
                                      motetUniqueId *id);

#endif
