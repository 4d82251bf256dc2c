/* SPDX-License-Identifier: Apache-2.0
 * The root: one thread that serves the meeting point of a job over stream sockets. Strangers cost it one descriptor each for a few
 * seconds; they cannot stall, crash or fail the job. All signals are blocked in the thread; a forked child loses its descriptors. */
#ifndef MOTET_BOOT_ROOT_H
#define MOTET_BOOT_ROOT_H

#include "boot/unique_id.h"

enum motet_root_listen {
    MOTET_ROOT_EVERYWHERE, /* on all addresses that work (a unique id's); none is an error */
    MOTET_ROOT_FIRST,      /* on the first that works (candidates of a launcher's environment); waits while this process's last root
                            * still holds it */
};

struct motet_root_options {
    enum motet_root_listen listen;
    bool keep;            /* serve one job after the other, until the process ends */
    uint64_t deadline_ns; /* ends then, unless a rank is there */
};

/* Listens and starts the thread. *place: addresses (port 0 = any) and secret on entry; on return the addresses really listened on. */
motetResult_t motet_root_start(struct motet_root_place *place, const struct motet_root_options *options,
                               const _Atomic(_Bool) *abort);

/* Number of roots in this process that have not ended (tests). */
int motet_root_count(void);

#endif
