/* SPDX-License-Identifier: Apache-2.0
 * The public life of a communicator: the ways to create one, split, finalize, destroy, abort, and the questions about it. Every creation is
 * a job: it runs on the caller's thread, or on a thread of its own inside a group and for non-blocking communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "group.h"
#include "stream.h"

#define ABORT_WAIT_NS \
    (10ull * 1000 * 1000 * 1000) /* for calls of other threads to leave; they are woken, so this is for stopped ones */

enum source { FROM_ID, FROM_ENVIRONMENT, FROM_STORE, FROM_FILE, FROM_PARENT };

struct creation {
    enum source source;
    motetComm_t comm;  /* the handle being made */
    motetComm_t *user; /* where the caller finds it; set NULL when creation fails */
    int nranks, rank;  /* FROM_PARENT: color, key */
    motetUniqueId id;
    motetStore_t store;
    char *directory;
    motetComm_t parent;
};

/* ---- Creating ---- */

static motetResult_t open_boot(struct creation *creation, struct motet_boot *boot)
{
    uint64_t deadline = motet_deadline_ns(creation->comm->options.init_timeout_ms);
    const _Atomic(_Bool) *abort = &creation->comm->abort;
    switch (creation->source) {
    case FROM_ID:
        return motet_boot_open_id(boot, &creation->id, creation->nranks, creation->rank, deadline, abort);
    case FROM_STORE:
        return motet_boot_open_store(boot, &creation->store, creation->nranks, creation->rank, deadline, abort);
    case FROM_FILE:
        return motet_boot_open_file(boot, creation->directory, creation->nranks, creation->rank, deadline, abort);
    default:
        return motet_boot_open_env(boot, &creation->nranks, &creation->rank, deadline, abort);
    }
}

static motetResult_t create_over_boot(struct creation *creation)
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

/* Runs on the parent like any of its operations: after all earlier ones. */
static motetResult_t create_by_split(struct creation *creation)
{
    TRY(motet_comm_enter(creation->parent, "CommSplit"));
    motetResult_t result = motet_queue_drain(creation->parent);
    if (result == motetSuccess)
        result = motet_comm_split(creation->parent, creation->nranks, creation->rank, creation->comm);
    motet_comm_leave(creation->parent);
    return result;
}

static void free_creation(struct creation *creation)
{
    free(creation->directory);
    free(creation);
}

static motetResult_t create(struct creation *creation)
{
    return creation->source == FROM_PARENT ? create_by_split(creation) : create_over_boot(creation);
}

/* Blocking creation, also inside a group: the caller's handle is valid exactly when this succeeds. */
static motetResult_t run_creation(void *context)
{
    struct creation *creation = context;
    motetResult_t result = create(creation);
    bool no_member = creation->source == FROM_PARENT && creation->nranks < 0;
    if (result != motetSuccess || no_member) {
        motet_comm_close(creation->comm);
        creation->comm = NULL;
        *creation->user = NULL;
    }
    free_creation(creation);
    return result;
}

static void drop_creation(void *context)
{
    struct creation *creation = context;
    motet_comm_close(creation->comm);
    *creation->user = NULL;
    free_creation(creation);
}

/* Non-blocking creation: the handle stays, with its outcome in init_state. */
static void *creation_thread(void *context)
{
    struct creation *creation = context;
    motetComm_t comm = creation->comm;
    motetResult_t result = create(creation);
    if (result != motetSuccess)
        snprintf(comm->error_text, sizeof comm->error_text, "%s", motet_error_text());
    free_creation(creation);
    atomic_store(&comm->init_state, (int)result);
    return NULL;
}

static motetResult_t start_creation_thread(struct creation *creation)
{
    motetComm_t comm = creation->comm;
    int error = pthread_create(&comm->init_thread, NULL, creation_thread, creation);
    if (error) {
        drop_creation(creation);
        return motet_fail(motetSystemError, "cannot start a thread for a non-blocking communicator: %s", strerror(error));
    }
    comm->has_init_thread = true;
    return motetInProgress;
}

/* Common to all ways: makes the handle, then creates now, in the group, or in the background. */
static motetResult_t begin_creation(const struct creation *description, motetComm_t *comm, const motetConfig_t *config)
{
    struct motet_options options;
    if (!comm)
        return motet_group_failed(motet_fail(motetInvalidArgument, "the pointer to the new communicator is NULL"));
    *comm = NULL;
    motetResult_t result = motet_resolve_options(config, description->parent ? &description->parent->options : NULL, &options);
    if (result != motetSuccess)
        return motet_group_failed(result);
    struct creation *creation = malloc(sizeof *creation);
    motetComm_t made = motet_comm_new(&options);
    if (!creation || !made) {
        free(creation);
        if (made)
            motet_comm_close(made);
        return motet_group_failed(motet_fail(motetSystemError, "out of memory for a communicator"));
    }
    *creation = *description;
    creation->comm = *comm = made;
    creation->user = comm;
    if (motet_group_is_open())
        return motet_group_job(run_creation, drop_creation, creation);
    if (!options.blocking && creation->source != FROM_STORE && creation->source != FROM_PARENT)
        return start_creation_thread(creation);
    return run_creation(creation);
}

static motetResult_t check_size(motetComm_t *comm, int nranks, int rank)
{
    if (comm)
        *comm = NULL;
    if (nranks < 1)
        return motet_fail(motetInvalidArgument, "a communicator of %d ranks", nranks);
    if (rank < 0 || rank >= nranks)
        return motet_fail(motetInvalidArgument, "rank %d is outside a communicator of %d ranks", rank, nranks);
    return motetSuccess;
}

motetResult_t motetGetUniqueId(motetUniqueId *uniqueId)
{
    if (!uniqueId)
        return motet_fail(motetInvalidArgument, "GetUniqueId: uniqueId is NULL");
    TRY(motet_settings_load());
    return motet_boot_root_start(uniqueId);
}

motetResult_t motetCommInitRank(motetComm_t *comm, int nranks, motetUniqueId commId, int rank)
{
    return motetCommInitRankConfig(comm, nranks, commId, rank, NULL);
}

motetResult_t motetCommInitRankConfig(motetComm_t *comm, int nranks, motetUniqueId commId, int rank, motetConfig_t *config)
{
    motetResult_t result = check_size(comm, nranks, rank);
    if (result != motetSuccess)
        return motet_group_failed(result);
    return begin_creation(&(struct creation){.source = FROM_ID, .nranks = nranks, .rank = rank, .id = commId}, comm, config);
}

motetResult_t motetCommInitAll(motetComm_t *comm, int ndev, const int *devlist)
{
    motetUniqueId id;
    (void)devlist;
    if (!comm || ndev < 1)
        return motet_group_failed(
            motet_fail(motetInvalidArgument, "CommInitAll: %s", comm ? "ndev must be at least 1" : "comm is NULL"));
    motetResult_t result = motetGetUniqueId(&id);
    if (result != motetSuccess)
        return motet_group_failed(result);
    motet_group_start();
    for (int i = 0; i < ndev; i++)
        (void)motetCommInitRank(&comm[i], ndev, id, i); /* errors are kept by the group */
    result = motet_group_end();
    for (int i = 0; result != motetSuccess && i < ndev; i++) {
        if (comm[i])
            motetCommAbort(comm[i]);
        comm[i] = NULL;
    }
    return result;
}

motetResult_t motetCommInitEnv(motetComm_t *comm, motetConfig_t *config)
{
    return begin_creation(&(struct creation){.source = FROM_ENVIRONMENT}, comm, config);
}

motetResult_t motetCommInitStore(motetComm_t *comm, int nranks, const motetStore_t *store, int rank, motetConfig_t *config)
{
    motetResult_t result = check_size(comm, nranks, rank);
    if (result == motetSuccess && (!store || !store->set || !store->get))
        result = motet_fail(motetInvalidArgument, "CommInitStore: the store or one of its callbacks is NULL");
    if (result != motetSuccess)
        return motet_group_failed(result);
    return begin_creation(&(struct creation){.source = FROM_STORE, .nranks = nranks, .rank = rank, .store = *store}, comm, config);
}

motetResult_t motetCommInitFile(motetComm_t *comm, int nranks, const char *directory, int rank, motetConfig_t *config)
{
    motetResult_t result = check_size(comm, nranks, rank);
    char *copy = directory && directory[0] ? strdup(directory) : NULL;
    if (result == motetSuccess && !copy)
        result = motet_fail(motetInvalidArgument, "CommInitFile: the directory is NULL or empty");
    if (result != motetSuccess) {
        free(copy);
        return motet_group_failed(result);
    }
    return begin_creation(&(struct creation){.source = FROM_FILE, .nranks = nranks, .rank = rank, .directory = copy}, comm, config);
}

motetResult_t motetCommSplit(motetComm_t comm, int color, int key, motetComm_t *newcomm, motetConfig_t *config)
{
    motetResult_t result = motet_check_comm(comm, "CommSplit");
    if (result == motetSuccess && color < 0 && color != MOTET_SPLIT_NOCOLOR)
        result = motet_fail(motetInvalidArgument, "CommSplit: color %d is negative and not MOTET_SPLIT_NOCOLOR", color);
    if (result != motetSuccess)
        return motet_group_failed(result);
    return begin_creation(&(struct creation){.source = FROM_PARENT, .nranks = color, .rank = key, .parent = comm}, newcomm, config);
}

/* ---- Ending ---- */

motetResult_t motetCommFinalize(motetComm_t comm)
{
    TRY(motet_check_comm(comm, "CommFinalize"));
    TRY(motet_comm_enter(comm, "CommFinalize"));
    motetResult_t result = motet_queue_drain(comm);
    if (result == motetSuccess)
        result = motet_comm_audit(comm);
    if (result == motetSuccess)
        result = motet_comm_check(comm);
    comm->finalized = true;
    atomic_store(&comm->control->state, MOTET_RANK_FINALIZED);
    motet_comm_leave(comm);
    return result;
}

motetResult_t motetCommDestroy(motetComm_t comm)
{
    if (!comm)
        return motetSuccess;
    TRY(motet_process_check_fork());
    if (comm->magic == MOTET_COMM_INIT_MAGIC)
        return motetCommAbort(comm);
    if (comm->magic != MOTET_COMM_MAGIC)
        return motet_fail(motetInvalidArgument, "CommDestroy: the communicator was destroyed or never was one");
    TRY(motet_comm_claim(comm, "CommDestroy"));
    motetResult_t result = motet_queue_drain(comm);
    atomic_store(&comm->control->state, MOTET_RANK_FINALIZED);
    if (comm->has_init_thread)
        pthread_join(comm->init_thread, NULL);
    INFO(MOTET_LOG_INIT | MOTET_LOG_DESTROY, "comm %p rank %d nranks %d - Destroy COMPLETE", (void *)comm, comm->rank,
         comm->nranks);
    motet_stream_forget(comm);
    motet_comm_close(comm);
    return result;
}

motetResult_t motetCommAbort(motetComm_t comm)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    if (!comm)
        return motetSuccess;
    TRY(motet_process_check_fork());
    if (comm->magic != MOTET_COMM_MAGIC && comm->magic != MOTET_COMM_INIT_MAGIC)
        return motet_fail(motetInvalidArgument, "CommAbort: the communicator was destroyed or never was one");
    atomic_store(&comm->abort, true);
    if (comm->has_init_thread)
        pthread_join(comm->init_thread, NULL); /* sees the flag within 100 ms */
    comm->has_init_thread = false;
    if (comm->magic == MOTET_COMM_MAGIC)
        motet_comm_tell_abort(comm);
    uint64_t deadline = motet_now_ns() + ABORT_WAIT_NS;
    while (!motet_comm_is_idle(comm) && motet_now_ns() < deadline)
        nanosleep(&pause, NULL);
    if (motet_comm_is_idle(comm)) {
        motet_stream_forget(comm);
        motet_comm_close_if_idle(comm);
        return motetSuccess;
    }
    atomic_store(&comm->abandoned, true); /* a call that has not left by now frees the rest when it does */
    nanosleep(&pause, NULL);              /* one that is just leaving may not have seen it */
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
    *asyncError =
        comm->magic == MOTET_COMM_INIT_MAGIC ? (motetResult_t)atomic_load(&comm->init_state) : motet_comm_async_error(comm);
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
