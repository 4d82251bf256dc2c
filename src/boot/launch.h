/* SPDX-License-Identifier: Apache-2.0
 * What launchers say in the environment: rank, size, and where the job can meet. Reading is separate from meeting, so that it can be
 * tested without a launcher. Precedence: motet run, torchrun, Open MPI, srun, MPICH and Intel MPI; none of them is a job of one rank. */
#ifndef MOTET_BOOT_LAUNCH_H
#define MOTET_BOOT_LAUNCH_H

#include "boot/place.h"

struct motet_launch {
    const char *launcher; /* "torchrun"; "no launcher" */
    int rank, nranks;
    bool has_id; /* motet run: id is set, name is not */
    motetUniqueId id;
    struct motet_place_name name; /* where rank 0 serves the root */
    char identity[512];           /* what tells this job from others; equal on all ranks */
};

/* Variables of the process. */
motetResult_t motet_launch_read(struct motet_launch *launch);

/* The secret of a job that has only texts in common: from MOTET_SECRET when it is set (at least 32 hexadecimal digits), else from
 * `identity` alone, which keeps other jobs out but not somebody who can read this user's environment. `kind` separates uses. */
motetResult_t motet_launch_secret(const char *kind, const char *identity, struct motet_secret *secret);

/* First host of a Slurm list such as "n[01-04,7],m3". False when there is none or it does not fit. */
bool motet_launch_first_host(const char *list, char *host, size_t size);

/* A meeting point by address or by name (launch, id); see rendezvous.c. */
motetResult_t motet_boot_open_place(struct motet_boot *boot, struct motet_root_place *place, struct motet_place_name *name);

#endif
