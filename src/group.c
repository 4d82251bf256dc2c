/* SPDX-License-Identifier: Apache-2.0
 * Collecting calls and launching them together. The list is per thread, so no locks. Launch order is call order, except that the messages of
 * a communicator form one batch in front of its collectives: the same on all ranks, whatever the order of calls inside the group. */
#include "group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stream.h"

struct entry {
    struct motet_op *op;
    motetStream_t stream;
};

/* A stream that has messages in a batch which runs on another one: each waits for the other's work before it. */
struct join {
    struct motet_op *batch;
    motetStream_t stream;
    motetStream_t primary; /* where the batch runs; known at launch */
};

struct job {
    motetResult_t (*run)(void *);
    void (*drop)(void *);
    void *context;
    motetResult_t result;
    char text[MOTET_ERROR_TEXT_MAX];
    pthread_t thread;
    bool threaded;
};

_Thread_local int motet_group_depth;

static _Thread_local struct {
    motetResult_t error;   /* first of a call inside */
    char *text;            /* its sentence; on the heap, for thread-local storage is scarce. NULL: out of memory */
    struct entry *entries; /* NULL: none yet; `few` until they are too many */
    int nentries, entry_capacity;
    struct entry few[4];
    struct join *joins;
    int njoins, join_capacity;
    struct job *jobs;
    int njobs, job_capacity;
} group;

motetResult_t motet_group_start(void)
{
    motet_group_depth++;
    return motetSuccess;
}

motetResult_t motet_group_failed(motetResult_t result)
{
    if (motet_group_depth > 0 && group.error == motetSuccess && result != motetSuccess) {
        group.error = result;
        group.text = strdup(motet_error_text());
    }
    return result;
}

/* Room for one more element; false: out of memory. */
static bool grow(void **array, int count, int *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    int wanted = *capacity ? 2 * *capacity : 16;
    void *grown = realloc(*array, (size_t)wanted * size);
    if (!grown)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

/* Small groups need no memory. */
static bool grow_entries(void)
{
    const int nfew = sizeof group.few / sizeof group.few[0];
    if (group.nentries < nfew && !group.entry_capacity) {
        group.entries = group.few;
        return true;
    }
    struct entry *heap = group.entry_capacity ? group.entries : NULL;
    if (!grow((void **)&heap, group.nentries, &group.entry_capacity, sizeof *heap))
        return false;
    if (group.entries == group.few)
        memcpy(heap, group.few, sizeof group.few);
    group.entries = heap;
    return true;
}

static motetResult_t add(struct motet_op *op, motetStream_t stream, int index)
{
    if (!op || !grow_entries()) {
        motet_op_free(op);
        return motet_group_failed(motet_fail(motetSystemError, "out of memory in a group"));
    }
    if (index < group.nentries)
        memmove(&group.entries[index + 1], &group.entries[index], (size_t)(group.nentries - index) * sizeof *group.entries);
    group.entries[index] = (struct entry){op, stream};
    group.nentries++;
    return motetSuccess;
}

motetResult_t motet_group_collective(motetComm_t comm, struct motet_call *call, motetStream_t stream)
{
    return add(motet_op_collective(comm, call), stream, group.nentries);
}

/* A message on `stream` becomes part of a batch of another stream's. A message of the caller (NULL) makes the batch the caller's: it must be complete when
 * GroupEnd returns. */
static motetResult_t join(struct entry *entry, motetStream_t stream)
{
    if (!stream) {
        stream = entry->stream;
        entry->stream = NULL;
    }
    for (int i = 0; i < group.njoins; i++)
        if (group.joins[i].batch == entry->op && group.joins[i].stream == stream)
            return motetSuccess;
    if (!grow((void **)&group.joins, group.njoins, &group.join_capacity, sizeof *group.joins))
        return motet_fail(motetSystemError, "out of memory in a group");
    group.joins[group.njoins++] = (struct join){.batch = entry->op, .stream = stream};
    return motetSuccess;
}

motetResult_t motet_group_message(motetComm_t comm, const struct motet_transfer *transfer, motetStatus_t *status,
                                  motetStream_t stream)
{
    int first = 0;
    while (first < group.nentries && group.entries[first].op->comm != comm)
        first++;
    if (first == group.nentries || group.entries[first].op->call)
        TRY(add(motet_op_batch(comm), stream, first));
    struct entry *entry = &group.entries[first];
    motetResult_t result = entry->stream == stream ? motetSuccess : join(entry, stream);
    if (result == motetSuccess)
        result = motet_op_add(entry->op, transfer, status);
    return result == motetSuccess ? motetSuccess : motet_group_failed(result);
}

motetResult_t motet_group_job(motetResult_t (*run)(void *), void (*drop)(void *), void *context)
{
    if (!grow((void **)&group.jobs, group.njobs, &group.job_capacity, sizeof *group.jobs)) {
        drop(context);
        return motet_group_failed(motet_fail(motetSystemError, "out of memory in a group"));
    }
    group.jobs[group.njobs++] = (struct job){.run = run, .drop = drop, .context = context};
    return motetSuccess;
}

/* ---- Launching ---- */

static void *run_job(void *context)
{
    struct job *job = context;
    job->result = job->run(job->context);
    if (job->result != motetSuccess)
        strncpy(job->text, motet_error_text(), sizeof job->text - 1);
    return NULL;
}

/* All at once: each may wait for the others. Without threads for all, the rest runs here, one by one. */
static motetResult_t run_jobs(void)
{
    motetResult_t result = motetSuccess;
    for (int i = 0; i + 1 < group.njobs; i++)
        group.jobs[i].threaded = pthread_create(&group.jobs[i].thread, NULL, run_job, &group.jobs[i]) == 0;
    for (int i = 0; i < group.njobs; i++)
        if (!group.jobs[i].threaded)
            run_job(&group.jobs[i]);
    for (int i = 0; i < group.njobs; i++)
        if (group.jobs[i].threaded)
            pthread_join(group.jobs[i].thread, NULL);
    for (int i = 0; i < group.njobs && result == motetSuccess; i++)
        if (group.jobs[i].result != motetSuccess && group.jobs[i].result != motetInProgress)
            result = motet_fail_quiet(group.jobs[i].result, "%s", group.jobs[i].text);
    for (int i = 0; i < group.njobs && result == motetSuccess; i++)
        result = group.jobs[i].result; /* motetInProgress: it goes on in the background */
    return result;
}

/* Whether entry i is the first of its communicator. */
static bool is_first(int i)
{
    for (int j = 0; j < i; j++)
        if (group.entries[j].op->comm == group.entries[i].op->comm)
            return false;
    return true;
}

static motetResult_t enter_all(int *entered)
{
    for (*entered = 0; *entered < group.nentries; ++*entered)
        if (is_first(*entered))
            TRY(motet_comm_enter(group.entries[*entered].op->comm, "GroupEnd"));
    return motetSuccess;
}

static void leave_all(motetComm_t *comms, int n)
{
    for (int i = 0; i < n; i++)
        motet_comm_leave(comms[i]);
}

/* A collective that shares its group with others says so in its fingerprint: grouping must match on all ranks. */
static void number_collectives(void)
{
    for (int i = 0; i < group.nentries; i++) {
        int n = 0;
        for (int j = 0; j < group.nentries; j++)
            n += group.entries[j].op->comm == group.entries[i].op->comm && group.entries[j].op->call;
        if (group.entries[i].op->call)
            group.entries[i].op->call->group = n > 1 ? n : 0;
    }
}

/* The operations of one stream (NULL: of the caller) in call order, each stream's once. Returns their number. */
static int collect(motetStream_t stream, struct motet_op **ops)
{
    int n = 0;
    for (int i = 0; i < group.nentries; i++)
        if (group.entries[i].op && group.entries[i].stream == stream) {
            ops[n++] = group.entries[i].op;
            group.entries[i].op = NULL;
        }
    return n;
}

/* What is called on `follower` from now on waits for what has been called on `leader`. */
static motetResult_t follow(motetStream_t follower, motetStream_t leader)
{
    motetEvent_t event;
    TRY(motet_event_create(&event));
    motetResult_t result = motet_event_record(event, leader);
    if (result == motetSuccess)
        result = motet_stream_wait_event(follower, event);
    motetResult_t destroyed = motet_event_destroy(event);
    return result != motetSuccess ? result : destroyed;
}

/* Batches wait for the earlier work of all streams that have messages in them. */
static motetResult_t follow_joined(void)
{
    for (int i = 0; i < group.njoins; i++) {
        for (int e = 0; e < group.nentries; e++)
            if (group.entries[e].op == group.joins[i].batch)
                group.joins[i].primary = group.entries[e].stream;
        TRY(follow(group.joins[i].primary, group.joins[i].stream));
    }
    return motetSuccess;
}

/* Later work of those streams waits for the batches; where the caller drives one, it is over before there is any. */
static motetResult_t precede_joined(void)
{
    motetResult_t result = motetSuccess;
    for (int i = 0; i < group.njoins && result == motetSuccess; i++)
        if (group.joins[i].primary)
            result = follow(group.joins[i].stream, group.joins[i].primary);
    return result;
}

/* Operations on streams go to their streams, together; the others are driven here to their end. */
static motetResult_t launch(struct motet_op **ops)
{
    TRY(follow_joined());
    number_collectives();
    for (int i = 0; i < group.nentries; i++)
        motet_queue_append(group.entries[i].op);
    for (int i = 0; i < group.nentries; i++) {
        motetStream_t stream = group.entries[i].stream;
        int n = stream && group.entries[i].op ? collect(stream, ops) : 0;
        if (n > 0 && motet_stream_submit(stream, ops, n) != motetSuccess)
            for (int k = 0, e = 0; k < n; e++) /* without memory for the stream's list they run here */
                if (!group.entries[e].op && group.entries[e].stream == stream)
                    group.entries[e] = (struct entry){ops[k++], NULL};
    }
    motetResult_t result = precede_joined();
    int n = collect(NULL, ops);
    motetResult_t driven = n > 0 ? motet_queue_drive(ops, n) : motetSuccess;
    result = driven != motetSuccess ? driven : result;
    for (int i = 0; i < n; i++)
        motet_op_free(ops[i]);
    group.nentries = 0;
    return result;
}

/* The group is one batch of the caller's: an exchange. */
static bool is_one_batch(void)
{
    return group.nentries == 1 && !group.entries[0].stream && !group.entries[0].op->call && group.njoins == 0;
}

static motetResult_t run_one_batch(void)
{
    struct motet_op *op = group.entries[0].op;
    motetComm_t comm = op->comm;
    TRY(motet_comm_enter(comm, "GroupEnd"));
    group.nentries = 0;
    motetResult_t result = motet_queue_run(op);
    motet_comm_leave(comm);
    return result;
}

static motetResult_t launch_entered(void)
{
    enum { FEW = 8 };
    motetComm_t few_comms[FEW];
    struct motet_op *few_ops[FEW];
    bool few = group.nentries <= FEW;
    int entered = 0, n = 0;
    motetComm_t *comms = few ? few_comms : calloc((size_t)group.nentries, sizeof(motetComm_t));
    struct motet_op **ops = few ? few_ops : calloc((size_t)group.nentries, sizeof *ops);
    motetResult_t result = comms && ops ? enter_all(&entered) : motet_fail(motetSystemError, "out of memory in a group");
    for (int i = 0; comms && i < entered; i++)
        if (is_first(i))
            comms[n++] = group.entries[i].op->comm;
    if (result == motetSuccess)
        result = launch(ops);
    leave_all(comms, n);
    if (!few) {
        free(comms);
        free(ops);
    }
    return result;
}

static void drop_all(bool jobs)
{
    for (int i = 0; i < group.nentries; i++)
        motet_op_free(group.entries[i].op);
    for (int i = 0; jobs && i < group.njobs; i++)
        group.jobs[i].drop(group.jobs[i].context);
    if (group.entry_capacity)
        free(group.entries);
    free(group.text);
    free(group.joins);
    free(group.jobs);
    group.text = NULL;
    group.entries = NULL;
    group.joins = NULL;
    group.jobs = NULL;
    group.nentries = group.entry_capacity = group.njoins = group.join_capacity = group.njobs = group.job_capacity = 0;
    group.error = motetSuccess;
    motet_group_depth = 0;
}

motetResult_t motet_group_end(void)
{
    if (motet_group_depth == 0)
        return motet_fail(motetInvalidUsage, "GroupEnd without GroupStart");
    if (motet_group_depth > 1) {
        motet_group_depth--;
        return motetSuccess;
    }
    motetResult_t result = group.error;
    if (result != motetSuccess) {
        motet_fail_quiet(result, "%s", group.text ? group.text : motetGetErrorString(result));
        drop_all(true);
        return result;
    }
    motet_group_depth = 0; /* jobs and operations below are not collected again */
    if (group.njobs > 0)
        result = run_jobs();
    if ((result == motetSuccess || result == motetInProgress) && group.nentries > 0) {
        motetResult_t launched = is_one_batch() ? run_one_batch() : launch_entered();
        result = launched != motetSuccess ? launched : result;
    }
    drop_all(false);
    return result;
}
