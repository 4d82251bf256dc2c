/* SPDX-License-Identifier: Apache-2.0
 * The public ends of a communicator: finalize, destroy, revoke, abort, and the questions about it. Every one of them returns in bounded time:
 * what it waits for is this rank's own threads, which a fault, an abort or a deadline wakes. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "api/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "ledger.h"
#include "stream.h"
#include "unmatched.h"

#define CREATION_NS (300ull * 1000 * 1000) /* for a creation to see that it was aborted, before its parent must fail for that */

static void pause_shortly(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* ---- Finalize ---- */

/* Inside the communicator. */
static motetResult_t finalize(motetComm_t comm)
{
    motetResult_t result = motet_queue_drain(comm);
    if (result == motetSuccess)
        result = motet_comm_audit(comm);
    if (result == motetSuccess)
        result = motet_comm_check(comm);
    comm->finalized = true;
    motet_comm_finish(comm);
    return result;
}

static void *finalize_thread(void *context)
{
    motetComm_t comm = context;
    (void)finalize(comm); /* an error is the communicator's */
    motet_comm_leave_background(comm);
    return NULL;
}

static void join_thread(motetComm_t comm)
{
    if (comm->has_init_thread)
        pthread_join(comm->init_thread, NULL);
    comm->has_init_thread = false;
}

/* The thread that made the communicator, if one did, has ended. */
static motetResult_t finalize_in_background(motetComm_t comm)
{
    sigset_t all, before;
    join_thread(comm);
    sigfillset(&all);
    atomic_fetch_add(&comm->background, 1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&comm->init_thread, NULL, finalize_thread, comm);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    comm->has_init_thread = error == 0;
    if (error == 0)
        return motetInProgress;
    motet_comm_leave_background(comm);
    return motet_fail(motetSystemError, "CommFinalize: cannot start a thread for communicator %s: %s", comm->options.name,
                      strerror(error));
}

motetResult_t motetCommFinalize(motetComm_t comm)
{
    TRY(motet_check_comm(comm, "CommFinalize"));
    TRY(motet_comm_enter(comm, "CommFinalize"));
    if (!comm->options.blocking)
        return finalize_in_background(comm);
    motetResult_t result = finalize(comm);
    motet_comm_leave(comm);
    return result;
}

/* ---- Destroy ---- */

motetResult_t motetCommDestroy(motetComm_t comm)
{
    if (!comm)
        return motetSuccess;
    TRY(motet_process_check_fork());
    if (comm->magic == MOTET_COMM_INIT_MAGIC)
        return motetCommAbort(comm);
    if (comm->magic != MOTET_COMM_MAGIC)
        return motet_fail(motetInvalidArgument, "CommDestroy: the communicator was destroyed or never was one");
    join_thread(comm); /* a finalize that runs in the background */
    if (atomic_load(&comm->background) > 0)
        return motet_fail(motetInvalidUsage, "CommDestroy: a communicator is being made from communicator %s", comm->options.name);
    TRY(motet_comm_claim(comm, "CommDestroy"));
    motetResult_t result = motet_queue_drain(comm);
    if (atomic_load(&comm->revoked) && motet_comm_was_revoked(comm))
        result = motetSuccess; /* what was revoked has ended as asked */
    motet_ledger_finish(comm);
    motet_comm_finish(comm);
    INFO(MOTET_LOG_INIT | MOTET_LOG_DESTROY, "comm %p rank %d nranks %d - Destroy COMPLETE", (void *)comm, comm->rank,
         comm->nranks);
    motet_stream_forget(comm);
    motet_comm_close(comm);
    return result;
}

/* ---- Revoke ---- */

motetResult_t motetCommRevoke(motetComm_t comm, int revokeFlags)
{
    TRY(motet_check_comm(comm, "CommRevoke"));
    if (revokeFlags != MOTET_REVOKE_DEFAULT)
        return motet_fail(motetInvalidArgument, "CommRevoke: %#x are not flags of CommRevoke", (unsigned)revokeFlags);
    motet_comm_revoke(comm);
    if (!comm->options.blocking)
        return motet_comm_is_idle(comm) ? motetSuccess : motetInProgress;
    TRY(motet_comm_claim_until(comm, "CommRevoke", motet_now_ns() + MOTET_LEAVE_NS));
    (void)motet_queue_drain(comm); /* its result is the revocation */
    motet_comm_leave(comm);
    return motetSuccess;
}

/* ---- Abort ---- */

/* A creation from a parent may wait in a collective of that parent, which only a fault of the parent ends. */
static void fault_parent(motetComm_t comm)
{
    pthread_mutex_lock(&comm->peers_lock);
    motetComm_t parent = comm->parent;
    if (parent) {
        motet_fail_quiet(motetInvalidUsage,
                         "comm \"%s\" (%d ranks): rank %d aborted communicator %s while it was being made from it",
                         parent->options.name, parent->nranks, parent->rank, comm->options.name);
        motet_comm_fault(parent, motetInvalidUsage);
    }
    pthread_mutex_unlock(&comm->peers_lock);
}

/* Ends a creation in the background. */
static void stop_creation(motetComm_t comm)
{
    uint64_t deadline_ns = motet_now_ns() + CREATION_NS;
    while (comm->has_init_thread && comm->magic == MOTET_COMM_INIT_MAGIC && atomic_load(&comm->init_state) == motetInProgress &&
           motet_now_ns() < deadline_ns)
        pause_shortly();
    if (comm->has_init_thread && comm->magic == MOTET_COMM_INIT_MAGIC && atomic_load(&comm->init_state) == motetInProgress)
        fault_parent(comm);
    join_thread(comm);
}

/* Another thread is inside the call that makes this communicator: it sees the flag, frees the handle, and returns an error. */
static motetResult_t abort_blocking_creation(motetComm_t comm)
{
    uint64_t start_ns = motet_now_ns();
    bool told = false;
    while (comm->magic != 0 && motet_now_ns() < start_ns + MOTET_LEAVE_NS) {
        pause_shortly();
        if (!told && motet_now_ns() > start_ns + CREATION_NS) {
            told = true;
            fault_parent(comm);
        }
    }
    return motetSuccess;
}

motetResult_t motetCommAbort(motetComm_t comm)
{
    int running = MOTET_CREATION_RUNS;
    if (!comm)
        return motetSuccess;
    TRY(motet_process_check_fork());
    if (comm->magic != MOTET_COMM_MAGIC && comm->magic != MOTET_COMM_INIT_MAGIC)
        return motet_fail(motetInvalidArgument, "CommAbort: the communicator was destroyed or never was one");
    atomic_store(&comm->abort, true); /* first: once the creating thread knows, it frees the handle */
    if (atomic_compare_exchange_strong(&comm->creation, &running, MOTET_CREATION_ABORTED) || running == MOTET_CREATION_ABORTED)
        return abort_blocking_creation(comm);
    if (comm->magic == 0)
        return motetSuccess; /* it failed by itself in this moment */
    stop_creation(comm);
    if (comm->placed)
        motet_comm_tell_abort(comm);
    if (motet_comm_wait_idle(comm, motet_now_ns() + MOTET_LEAVE_NS)) {
        motet_stream_forget(comm);
        motet_comm_close_if_idle(comm);
        return motetSuccess;
    }
    atomic_store(&comm->abandoned, true); /* a call that has not left by now frees the rest when it does */
    pause_shortly();                      /* one that is just leaving may not have seen it */
    motet_comm_close_if_idle(comm);
    return motetSuccess;
}

/* ---- Questions ---- */

motetResult_t motetCommGetAsyncError(motetComm_t comm, motetResult_t *asyncError)
{
    if (!asyncError)
        return motet_fail(motetInvalidArgument, "CommGetAsyncError: asyncError is NULL");
    TRY(motet_process_check_fork());
    if (!comm || (comm->magic != MOTET_COMM_MAGIC && comm->magic != MOTET_COMM_INIT_MAGIC))
        return motet_fail(motetInvalidArgument, "CommGetAsyncError: the communicator is NULL or was destroyed");
    if (comm->magic == MOTET_COMM_INIT_MAGIC)
        *asyncError = (motetResult_t)atomic_load(&comm->init_state);
    else if (atomic_load(&comm->background) > 0 || (atomic_load(&comm->revoked) && !motet_comm_is_idle(comm)))
        *asyncError = motetInProgress;
    else /* who revoked it knows, and there is nothing else wrong */
        *asyncError = atomic_load(&comm->revoked) && motet_comm_was_revoked(comm) ? motetSuccess : motet_comm_async_error(comm);
    return motetSuccess;
}

motetResult_t motetCommCount(const motetComm_t comm, int *count)
{
    TRY(motet_check_comm(comm, "CommCount"));
    if (!count)
        return motet_fail(motetInvalidArgument, "CommCount: count is NULL");
    *count = comm->nranks;
    return motetSuccess;
}

motetResult_t motetCommUserRank(const motetComm_t comm, int *rank)
{
    TRY(motet_check_comm(comm, "CommUserRank"));
    if (!rank)
        return motet_fail(motetInvalidArgument, "CommUserRank: rank is NULL");
    *rank = comm->rank;
    return motetSuccess;
}

motetResult_t motetCommCuDevice(const motetComm_t comm, int *device)
{
    TRY(motet_check_comm(comm, "CommCuDevice"));
    if (!device)
        return motet_fail(motetInvalidArgument, "CommCuDevice: device is NULL");
    *device = comm->peers[comm->position].local_index;
    return motetSuccess;
}
