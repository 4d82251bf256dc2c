/* SPDX-License-Identifier: Apache-2.0
 * Operations of communicators: each is appended to its communicator's queue when it is called, starts when all before it are complete, and is
 * driven by one thread: the caller (NULL stream) or the progress thread (stream.c). Messages on streams do not wait for messages on other
 * streams: what is called first starts first, but a receive that lasts keeps no send back. */
#ifndef MOTET_QUEUE_H
#define MOTET_QUEUE_H

#include "engine.h"
#include "p2p.h"
#include "timing.h"

/* A collective, or a batch of messages. */
struct motet_op {
    struct motet_scheduled scheduled; /* first: motet_scheduled leads to its op */
    motetComm_t comm;
    struct motet_call *call;          /* collective: owned until it starts */
    struct motet_transfer *transfers; /* batch: owned */
    motetStatus_t **statuses;         /* batch: by transfer, where the caller wants its result; entries may be NULL */
    int ntransfers, capacity;         /* beyond `few`, the arrays are on the heap */
    struct motet_run *run;
    struct motet_batch batch;
    struct motet_timing timing; /* of the batch; a collective has its own */
    uint64_t queued_ns;         /* when it got its place */
    bool started;
    bool moves;            /* begun by one thread, it is driven by another, which has not touched it yet */
    bool on_stream;        /* the progress thread drives it */
    bool unlisted;         /* nothing is before it, and its caller drives it: it needs no place in the order */
    motetResult_t result;  /* motetInProgress until complete */
    struct motet_op *next; /* in the communicator's queue */
    /* Not zeroed. */
    struct motet_transfer few[2]; /* an exchange needs no more */
    motetStatus_t *few_statuses[2];
};

/* An operation of one collective call. Owns call, also on failure (then NULL is returned: out of memory). */
struct motet_op *motet_op_collective(motetComm_t comm, struct motet_call *call);

/* The rest of a collective that has begun elsewhere. The caller is inside, and nothing was before it in the order. NULL: out of memory. */
struct motet_op *motet_op_begun(motetComm_t comm, struct motet_run *run);

/* An empty batch, and one more message in it. */
struct motet_op *motet_op_batch(motetComm_t comm);
motetResult_t motet_op_add(struct motet_op *op, const struct motet_transfer *transfer, motetStatus_t *status);

void motet_op_free(struct motet_op *op);

/* Gives the operation its place in the communicator's order. */
void motet_queue_append(struct motet_op *op);

/* Advances an operation if it is its turn; sets op->result and leaves the queue when it is complete. */
void motet_op_progress(struct motet_op *op, bool *moved);

/* Operations of one thread that are driven together. */
struct motet_driven {
    struct motet_op *const *ops;
    int n;
};

/* Their communicators, each once; returns how many. comms has room for n. */
int motet_driven_comms(const struct motet_driven *driven, motetComm_t *comms);

/* What a wait asks about them (comm.h); the context is a struct motet_driven. */
extern const struct motet_waiting motet_driven_waiting;

/* Drives appended operations to their end on the calling thread. Returns the first error. */
motetResult_t motet_queue_drive(struct motet_op *const ops[], int n);

/* Appends and drives one operation that is not on a stream; frees it. The caller is inside its communicator. */
motetResult_t motet_queue_run(struct motet_op *op);

/* Waits until all operations of the communicator are complete (those on streams). The caller is inside. */
motetResult_t motet_queue_drain(motetComm_t comm);

/* ---- Entering a communicator ---- */

/* One call at a time: a second thread gets motetInvalidUsage that names the first. Also: NULL, destroyed, still initialising, failed before. */
motetResult_t motet_comm_enter(motetComm_t comm, const char *function);
/* As enter, but a communicator that failed can be entered too. */
motetResult_t motet_comm_claim(motetComm_t comm, const char *function);
/* As claim, but waits for a call of another thread to leave, until deadline_ns: then motetTimeout. */
motetResult_t motet_comm_claim_until(motetComm_t comm, const char *function, uint64_t deadline_ns);
void motet_comm_leave(motetComm_t comm);
/* As leave, for what ran in the background: comm->background goes down with it. */
void motet_comm_leave_background(motetComm_t comm);

/* How long revoked and aborted calls of other threads may take to leave: they are woken, so this is for stopped ones. */
#define MOTET_LEAVE_NS (10ull * 1000 * 1000 * 1000)

/* Whether no thread is inside, nothing runs in the background and no operation is left. */
bool motet_comm_is_idle(motetComm_t comm);

/* Waits for that; false at the deadline. */
bool motet_comm_wait_idle(motetComm_t comm, uint64_t deadline_ns);

/* Closes an aborted communicator if it is idle; true if it is gone. For Abort, and for the last to leave once Abort has given up waiting. */
bool motet_comm_close_if_idle(motetComm_t comm);

#endif
