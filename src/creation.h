/* SPDX-License-Identifier: Apache-2.0
 * The parts that every way to make a communicator puts together: comm.c makes one over a boot, membership.c from an existing one. */
#ifndef MOTET_CREATION_H
#define MOTET_CREATION_H

#include "comm.h"

/* What ranks tell each other once each has its region. */
struct motet_whereabouts {
    uint64_t region;    /* offset in the segment */
    uint64_t first_key; /* window of rank r: first_key + r */
};

/* Tables and the own region of a communicator of `nranks` ranks. */
motetResult_t motet_comm_allocate(motetComm_t comm, int nranks, int rank);

/* Mirrors of the regions of ranks behind streams, and the windows through which they are written. Endpoints are by rank. */
motetResult_t motet_comm_open_windows(motetComm_t comm, struct motet_endpoint *const endpoints[]);

/* Groups ranks into hosts: a rank joins the first host all of whose members it maps, and they it. `maps(context, a, b)` must be known alike
 * on all ranks. Fills positions. With MOTET_DETERMINISTIC position == rank, and hosts that are not contiguous fall apart into single ranks. */
motetResult_t motet_comm_place(motetComm_t comm, bool (*maps)(const void *context, int a, int b), const void *context);

/* Brings peers into position order and finds their regions; `where` is by rank. */
motetResult_t motet_comm_place_peers(motetComm_t comm, const struct motet_whereabouts *const *where);

/* The last local step. What remains is that all ranks know of each other's success; then the caller sets the magic. */
motetResult_t motet_comm_complete(motetComm_t comm);

#endif
