/* SPDX-License-Identifier: Apache-2.0
 * Groups: what a thread calls between GroupStart and GroupEnd is collected and launched together at the outermost end. */
#ifndef MOTET_GROUP_H
#define MOTET_GROUP_H

#include "queue.h"

/* Depth of the groups that the calling thread has open. One load: initial-exec storage needs no call to find it. */
extern _Thread_local int motet_group_depth __attribute__((tls_model("initial-exec")));

static inline bool motet_group_is_open(void)
{
    return motet_group_depth > 0;
}

motetResult_t motet_group_start(void);
motetResult_t motet_group_end(void);

/* A call inside the group failed: nothing of the group will start, GroupEnd returns the first such error. Returns `result`. */
motetResult_t motet_group_failed(motetResult_t result);

/* Collects a collective. Owns call. */
motetResult_t motet_group_collective(motetComm_t comm, struct motet_call *call, motetStream_t stream);

/* Collects a message; all of one communicator become one batch, which starts before the group's collectives on every rank. */
motetResult_t motet_group_message(motetComm_t comm, const struct motet_transfer *transfer, motetStatus_t *status,
                                  motetStream_t stream);

/* Collects a job that may block (an init, a split); all jobs of a group run side by side, before the operations. run gets the context, owns
 * it, and returns the outcome; `drop` frees the context when the group failed before. */
motetResult_t motet_group_job(motetResult_t (*run)(void *context), void (*drop)(void *context), void *context);

#endif
