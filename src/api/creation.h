/* SPDX-License-Identifier: Apache-2.0
 * A communicator in the making, whatever it is made from: a job that runs on the caller's thread, on a thread of its group, or on a thread of
 * its own when the communicator does not block. */
#ifndef MOTET_API_CREATION_H
#define MOTET_API_CREATION_H

#include "comm.h"

enum motet_source {
    MOTET_FROM_ID,
    MOTET_FROM_ENVIRONMENT,
    MOTET_FROM_STORE,
    MOTET_FROM_FILE,
    MOTET_FROM_SPLIT,
    MOTET_FROM_SHRINK,
    MOTET_FROM_SUBSET,
    MOTET_FROM_GROWTH
};

struct motet_creation {
    enum motet_source source;
    int nranks, rank;
    motetUniqueId id;
    bool has_id; /* growth: this rank brings the id */
    motetStore_t store;
    char *directory;    /* owned */
    motetComm_t parent; /* split, shrink, subset, growth: checked */
    int color, key;
    int *excluded, nexcluded; /* owned; ascending */
    int *listed, nlisted;     /* owned; the ranks of a subset in its order */
    uint64_t subject;         /* of a subset */
    bool abort_parent;        /* shrink: end what runs on the parent first */
    /* Filled by motet_creation_begin. */
    motetComm_t comm;  /* the handle being made; NULL: this rank is no member */
    motetComm_t *user; /* where the caller finds it; set NULL when a blocking creation fails */
    bool entered;      /* the parent */
    bool in_background;
};

/* Makes what `description` says, now, in the open group, or in the background (motetInProgress). Takes what it owns, also on failure. */
motetResult_t motet_creation_begin(const struct motet_creation *description, motetComm_t *comm, const motetConfig_t *config);

#endif
