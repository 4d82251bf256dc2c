/* SPDX-License-Identifier: Apache-2.0
 * How a communicator is made: see creation.h. The caller's handle is valid exactly when a blocking creation succeeds; a non-blocking one keeps
 * its handle, with the outcome in init_state, until it is aborted or destroyed. */
#include "api/creation.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "group.h"
#include "membership.h"
#include "process.h"

/* ---- Over a meeting point ---- */

static motetResult_t open_boot(struct motet_creation *creation, struct motet_boot *boot)
{
    uint64_t deadline = motet_deadline_ns(creation->comm->options.init_timeout_ms);
    const _Atomic(_Bool) *abort = &creation->comm->abort;
    switch (creation->source) {
    case MOTET_FROM_STORE:
        return motet_boot_open_store(boot, &creation->store, creation->nranks, creation->rank, deadline, abort);
    case MOTET_FROM_FILE:
        return motet_boot_open_file(boot, creation->directory, creation->nranks, creation->rank, deadline, abort);
    case MOTET_FROM_ENVIRONMENT:
        return motet_boot_open_env(boot, &creation->nranks, &creation->rank, deadline, abort);
    default:
        return motet_boot_open_id(boot, &creation->id, creation->nranks, creation->rank, deadline, abort);
    }
}

static motetResult_t create_over_boot(struct motet_creation *creation)
{
    struct motet_boot boot = {0};
    TRY(open_boot(creation, &boot));
    motet_log_set_rank(creation->rank);
    INFO(MOTET_LOG_INIT, "comm %p rank %d nranks %d name %s - Init START", (void *)creation->comm, boot.rank, boot.nranks,
         creation->comm->options.name);
    motetResult_t result = motet_comm_create(creation->comm, &boot);
    motet_boot_close(&boot);
    if (result == motetSuccess)
        INFO(MOTET_LOG_INIT, "comm %p rank %d nranks %d name %s - Init COMPLETE", (void *)creation->comm, boot.rank, boot.nranks,
             creation->comm->options.name);
    return result;
}

/* ---- From a parent ---- */

static const char *name_of(const struct motet_creation *creation)
{
    switch (creation->source) {
    case MOTET_FROM_SPLIT:
        return "CommSplit";
    case MOTET_FROM_SHRINK:
        return "CommShrink";
    case MOTET_FROM_SUBSET:
        return "CommSubset";
    default:
        return "CommGrow";
    }
}

/* A subset is made beside what other threads do in the parent, which must only stay. */
static motetResult_t accompany(struct motet_creation *creation)
{
    motetComm_t parent = creation->parent;
    TRY(motet_process_check_fork());
    if (!creation->in_background) { /* else its thread is counted already */
        pthread_mutex_lock(&parent->queue_lock);
        atomic_fetch_add(&parent->background, 1);
        pthread_mutex_unlock(&parent->queue_lock);
        creation->in_background = true;
    }
    return motetSuccess;
}

/* The end of one that has not entered the parent; an Abort may have left it to the last. */
static void leave_beside(motetComm_t parent)
{
    pthread_mutex_lock(&parent->queue_lock);
    bool last = atomic_fetch_sub(&parent->background, 1) == 1 && atomic_load(&parent->abandoned);
    pthread_mutex_unlock(&parent->queue_lock);
    if (last)
        motet_comm_close_if_idle(parent);
}

/* Takes the parent for this creation, which runs like any of its operations. Only shrink, and split after a mere revocation, do without the
 * parent's health. */
static motetResult_t enter_parent(struct motet_creation *creation)
{
    motetComm_t parent = creation->parent;
    if (creation->source == MOTET_FROM_SUBSET)
        return accompany(creation);
    if (creation->abort_parent)
        motet_comm_revoke(parent);
    TRY(motet_comm_claim_until(parent, name_of(creation), creation->abort_parent ? motet_now_ns() + MOTET_LEAVE_NS : 0));
    creation->entered = true;
    motetResult_t failed = motet_comm_check(parent);
    if (failed == motetSuccess || creation->source == MOTET_FROM_SHRINK ||
        (creation->source == MOTET_FROM_SPLIT && motet_comm_was_revoked(parent)))
        return motetSuccess;
    char cause[MOTET_ERROR_TEXT_MAX];
    snprintf(cause, sizeof cause, "%s", motet_error_text());
    return motet_fail(failed, "%s: communicator %s has failed: only CommShrink makes a new one from it. It failed because: %s",
                      name_of(creation), parent->options.name, cause);
}

/* The last touch of the parent. */
static void leave_parent(struct motet_creation *creation)
{
    motetComm_t parent = creation->parent;
    if (!parent)
        return;
    pthread_mutex_lock(&creation->comm->peers_lock);
    creation->comm->parent = NULL;
    pthread_mutex_unlock(&creation->comm->peers_lock);
    bool entered = creation->entered;
    creation->entered = false;
    if (entered && creation->in_background)
        motet_comm_leave_background(parent);
    else if (entered)
        motet_comm_leave(parent);
    else if (creation->in_background)
        leave_beside(parent);
}

static motetResult_t derive(struct motet_creation *creation)
{
    motetComm_t parent = creation->parent;
    if (creation->source == MOTET_FROM_SHRINK)
        return motet_comm_shrink(parent, creation->excluded, creation->nexcluded, creation->comm);
    if (creation->source == MOTET_FROM_SUBSET)
        return motet_comm_subset(parent, creation->listed, creation->nlisted, creation->subject, creation->comm);
    if (creation->source == MOTET_FROM_SPLIT)
        return motet_comm_split(parent, creation->color, creation->key, creation->comm);
    TRY(motet_comm_agree_growth(parent, creation->nranks, creation->has_id ? &creation->id : NULL, &creation->comm->options,
                                &creation->id));
    return create_over_boot(creation);
}

/* Waits until the operations of the parent have ended; a parent that may have failed may end them as it likes. A subset is made beside
 * them: it uses nothing of the parent that they change. */
static motetResult_t complete_earlier(const struct motet_creation *creation)
{
    if (creation->source == MOTET_FROM_SUBSET)
        return motetSuccess;
    motetResult_t result = motet_queue_drain(creation->parent);
    bool minds = creation->source == MOTET_FROM_GROWTH ||
                 (creation->source == MOTET_FROM_SPLIT && !motet_comm_was_revoked(creation->parent));
    return minds ? result : motetSuccess;
}

static motetResult_t create_from_parent(struct motet_creation *creation)
{
    motetResult_t result = creation->entered ? motetSuccess : enter_parent(creation);
    if (result == motetSuccess)
        result = complete_earlier(creation);
    if (result == motetSuccess)
        result = derive(creation);
    leave_parent(creation);
    return result;
}

/* ---- Jobs ---- */

static void free_creation(struct motet_creation *creation)
{
    free(creation->directory);
    free(creation->excluded);
    free(creation->listed);
    free(creation);
}

static motetResult_t create(struct motet_creation *creation)
{
    return creation->parent ? create_from_parent(creation) : create_over_boot(creation);
}

static bool makes_none(const struct motet_creation *creation)
{
    return creation->source == MOTET_FROM_SPLIT && creation->color < 0;
}

/* Ends a blocking creation: from then on the handle is the caller's, unless it failed; an Abort that came before leaves it to this thread. */
static motetResult_t settle(motetComm_t comm, motetResult_t result)
{
    int running = MOTET_CREATION_RUNS;
    if (atomic_compare_exchange_strong(&comm->creation, &running,
                                       result == motetSuccess ? MOTET_CREATION_DONE : MOTET_CREATION_ABORTED) ||
        result != motetSuccess)
        return result;
    return motet_fail(motetInvalidUsage, "communicator %s was aborted while it was made", comm->options.name);
}

static motetResult_t run_creation(void *context)
{
    struct motet_creation *creation = context;
    motetComm_t comm = creation->comm;
    motetResult_t result = create(creation);
    atomic_store(&comm->init_state, (int)result);
    result = settle(comm, result);
    if (result != motetSuccess || makes_none(creation)) {
        *creation->user = NULL;
        motet_comm_close(comm);
    }
    free_creation(creation);
    return result;
}

static void drop_creation(void *context)
{
    struct motet_creation *creation = context;
    leave_parent(creation);
    *creation->user = NULL;
    motet_comm_close(creation->comm);
    free_creation(creation);
}

/* Non-blocking creation. The order at the end matters: the parent is free before the outcome shows, and the outcome is the last touch. */
static void *creation_thread(void *context)
{
    struct motet_creation *creation = context;
    motetComm_t comm = creation->comm;
    bool none = makes_none(creation);
    motetResult_t result = create(creation);
    if (result != motetSuccess)
        snprintf(comm->error_text, sizeof comm->error_text, "%s", motet_error_text());
    free_creation(creation);
    if (none)
        motet_comm_close(comm);
    else
        atomic_store(&comm->init_state, (int)result);
    return NULL;
}

/* Signals are the program's: none is delivered to the thread. */
static int start_thread(pthread_t *thread, struct motet_creation *creation)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, creation_thread, creation);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* This rank is short of something before it could begin, and lives on: the parent's other ranks would wait for it. Those of a shrink do
 * not: their council hears of it when they ask. */
static motetResult_t tell_parent(const struct motet_creation *creation, motetResult_t result)
{
    motetComm_t parent = creation->parent;
    char cause[MOTET_ERROR_TEXT_MAX];
    if (!parent || creation->source == MOTET_FROM_SHRINK || creation->source == MOTET_FROM_SUBSET || result != motetSystemError)
        return result;
    snprintf(cause, sizeof cause, "%s", motet_error_text());
    motet_fail(result, "comm \"%s\" (%d ranks): rank %d could not take part in %s: %s", parent->options.name, parent->nranks,
               parent->rank, name_of(creation), cause);
    return motet_comm_fault(parent, result);
}

static motetResult_t run_in_background(void *context)
{
    struct motet_creation *creation = context;
    motetComm_t comm = creation->comm;
    bool none = makes_none(creation);
    pthread_t thread;
    if (creation->parent) {
        atomic_fetch_add(&creation->parent->background, 1);
        creation->in_background = true;
    }
    /* Entered here, so that no later call of this thread comes first; to wait until others have left is the background's affair. */
    motetResult_t result = creation->parent && !creation->abort_parent ? enter_parent(creation) : motetSuccess;
    if (result != motetSuccess) {
        drop_creation(creation);
        return result;
    }
    atomic_store(&comm->creation, MOTET_CREATION_DONE); /* Abort waits for the thread instead */
    comm->has_init_thread = !none;
    if (none)
        *creation->user = NULL;
    int error = start_thread(none ? &thread : &comm->init_thread, creation);
    if (error) {
        motetResult_t failed =
            motet_fail(motetSystemError, "cannot start a thread for a non-blocking communicator: %s", strerror(error));
        failed = tell_parent(creation, failed);
        drop_creation(creation);
        return failed;
    }
    if (none)
        pthread_detach(thread);
    return motetInProgress;
}

static motetResult_t make(const struct motet_creation *description, motetComm_t *comm, const motetConfig_t *config,
                          struct motet_creation **out)
{
    struct motet_options options;
    motetComm_t parent = description->parent;
    if (!comm)
        return motet_fail(motetInvalidArgument, "the pointer to the new communicator is NULL");
    *comm = NULL;
    TRY(motet_resolve_options(config, parent ? &parent->options : NULL, &options));
    struct motet_creation *creation = malloc(sizeof *creation);
    motetComm_t made = motet_comm_new(&options);
    if (!creation || !made) {
        free(creation);
        if (made)
            motet_comm_close(made);
        return motet_fail(motetSystemError, "out of memory for a communicator");
    }
    *creation = *description;
    made->parent = parent;
    atomic_store(&made->creation, MOTET_CREATION_RUNS);
    creation->comm = *comm = made;
    creation->user = comm;
    *out = creation;
    return motetSuccess;
}

motetResult_t motet_creation_begin(const struct motet_creation *description, motetComm_t *comm, const motetConfig_t *config)
{
    struct motet_creation *creation = NULL;
    motetResult_t result = make(description, comm, config, &creation);
    if (result != motetSuccess) {
        free(description->directory);
        free(description->excluded);
        free(description->listed);
        return motet_group_failed(tell_parent(description, result));
    }
    /* Store callbacks run on the caller's thread only. */
    bool blocking = creation->comm->options.blocking || creation->source == MOTET_FROM_STORE;
    motetResult_t (*run)(void *) = blocking ? run_creation : run_in_background;
    return motet_group_is_open() ? motet_group_job(run, drop_creation, creation) : run(creation);
}
