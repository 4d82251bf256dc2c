/* SPDX-License-Identifier: Apache-2.0
 * Streams, events and the progress thread. One lock guards all lists; operations are progressed without it. Only the progress thread removes
 * items, so an item at the head stays valid while it works on it. */
#include "stream.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "ledger.h"
#include "p2p_cycle.h"

#define STREAM_MAGIC 0x6d6f74657473746dull
#define EVENT_MAGIC  0x6d6f746574657674ull

struct motetEvent {
    uint64_t magic;
    int references;          /* the handle, and items that name it */
    uint64_t recorded, done; /* tickets: complete when equal */
    uint64_t done_ns;
};

enum item_kind { ITEM_OPS, ITEM_CALL, ITEM_RECORD, ITEM_WAIT };

struct item {
    enum item_kind kind;
    struct motet_op **ops;
    int nops;
    motetComm_t comm; /* of the first operation; only compared */
    uint64_t comm_id;
    motetHostFn_t fn;
    void *user_data;
    motetEvent_t event;
    uint64_t ticket;
    motetResult_t error; /* first of its operations */
    char text[MOTET_ERROR_TEXT_MAX];
    struct item *next;
};

struct motetStream {
    uint64_t magic;
    struct item *first, *last;
    motetResult_t error; /* first since the last synchronize */
    char error_text[MOTET_ERROR_TEXT_MAX];
    struct motetStream *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t thread;
    bool running, asleep; /* asleep: the progress thread announced that it sleeps on the doorbell */
    uint64_t generation;  /* of the progress thread; an older one ends */
    motetStream_t streams;
    int nstreams;
    uint64_t submitted;          /* items ever */
    const struct waiter *waiter; /* of the progress thread; NULL: it does not wait */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

/* ---- Items. The lock is held. ---- */

static void drop_event(motetEvent_t event)
{
    if (--event->references == 0) {
        event->magic = 0;
        free(event);
    }
}

static void append(motetStream_t stream, struct item *item)
{
    item->next = NULL;
    if (stream->first)
        stream->last->next = item;
    else
        stream->first = item;
    stream->last = item;
    all.submitted++;
    pthread_cond_broadcast(&all.work);
}

static motetResult_t submit(motetStream_t stream, const struct item *description)
{
    struct item *item = malloc(sizeof *item + (size_t)description->nops * sizeof(struct motet_op *));
    if (!item)
        return motet_fail(motetSystemError, "out of memory for work on a stream");
    *item = *description;
    item->ops = (struct motet_op **)(item + 1);
    if (item->nops > 0)
        memcpy(item->ops, description->ops, (size_t)item->nops * sizeof(struct motet_op *));
    pthread_mutex_lock(&all.lock);
    if (item->event) {
        item->event->references++;
        item->ticket = item->kind == ITEM_RECORD ? ++item->event->recorded : item->event->recorded;
    }
    append(stream, item);
    bool wake = all.asleep;
    pthread_mutex_unlock(&all.lock);
    if (wake)
        motet_doorbell_ring_self();
    return motetSuccess;
}

/* Removes the head of a stream, which is complete. */
static void pop(motetStream_t stream)
{
    struct item *item = stream->first;
    stream->first = item->next;
    if (item->kind == ITEM_RECORD && (int64_t)(item->ticket - item->event->done) > 0) {
        item->event->done = item->ticket;
        item->event->done_ns = motet_now_ns();
    }
    if (item->event)
        drop_event(item->event);
    free(item);
    pthread_cond_broadcast(&all.done);
}

/* ---- The progress thread ---- */

#define WAITING_MAX 32

/* Operations at the heads of streams that are not complete. Those beyond the limit are looked at ten times a second. */
struct waiting {
    struct motet_op *ops[WAITING_MAX];
    int n;
};

/* Progresses the operations of an item. Returns whether all are complete; those that are not go to `waiting`. */
static bool progress_ops(struct item *item, bool *moved, struct waiting *waiting)
{
    bool all_complete = true;
    for (int i = 0; i < item->nops; i++) {
        struct motet_op *op = item->ops[i];
        if (op->result == motetInProgress)
            motet_op_progress(op, moved);
        if (op->result == motetInProgress) {
            all_complete = false;
            if (waiting->n < WAITING_MAX)
                waiting->ops[waiting->n++] = op;
        } else if (op->result != motetSuccess && !item->error) {
            item->error = op->result;
            snprintf(item->text, sizeof item->text, "%s", motet_error_text());
        }
    }
    return all_complete;
}

static void free_ops(struct item *item)
{
    for (int i = 0; i < item->nops; i++)
        motet_op_free(item->ops[i]);
}

/* Works on the head of a stream. Called and returns with the lock held; gives it up while it works. */
static void work_on(motetStream_t stream, bool *moved, struct waiting *waiting)
{
    struct item *item = stream->first;
    if (item->kind == ITEM_WAIT && (int64_t)(item->event->done - item->ticket) < 0)
        return;
    pthread_mutex_unlock(&all.lock);
    bool complete = true;
    if (item->kind == ITEM_CALL)
        item->fn(item->user_data);
    if (item->kind == ITEM_OPS)
        complete = progress_ops(item, moved, waiting);
    if (item->kind == ITEM_OPS && complete)
        free_ops(item);
    pthread_mutex_lock(&all.lock);
    if (!complete)
        return;
    *moved = true;
    if (item->error && !stream->error) {
        stream->error = item->error;
        memcpy(stream->error_text, item->text, sizeof stream->error_text);
    }
    pop(stream);
}

/* One look at all streams. Returns whether any has work. The lock is held. */
static bool work_on_all(bool *moved, struct waiting *waiting)
{
    bool any = false;
    waiting->n = 0;
    for (motetStream_t stream = all.streams; stream; stream = stream->next) {
        if (!stream->first)
            continue;
        any = true;
        work_on(stream, moved, waiting);
    }
    return any;
}

/* What one progress thread waits in; a new thread may start while an older one ends. */
struct waiter {
    struct motet_wait wait;
    motetComm_t comms[WAITING_MAX]; /* that it waits in */
    int ncomms;                     /* 0: it does not wait */
};

/* The wait is over: the thread lets go of the communicators it waited in. The lock is held. */
static void end_wait(struct waiter *waiter)
{
    if (waiter->ncomms == 0)
        return;
    motet_wait_end(&waiter->wait);
    waiter->ncomms = 0;
    all.waiter = NULL;
    pthread_cond_broadcast(&all.done); /* motet_stream_forget */
}

/* Nothing moved: waits as a caller would, for all that wait. The lock is held on entry and exit. */
static void wait_for(struct waiter *waiter, const struct waiting *waiting)
{
    motetComm_t comms[WAITING_MAX];
    struct motet_driven driven = {waiting->ops, waiting->n};
    int n = motet_driven_comms(&driven, comms);
    if (n != waiter->ncomms || memcmp(comms, waiter->comms, (size_t)n * sizeof *comms) != 0) {
        end_wait(waiter);
        memcpy(waiter->comms, comms, (size_t)n * sizeof *comms);
        waiter->ncomms = n;
        all.waiter = waiter;
        motet_wait_begin(&waiter->wait, waiter->comms, n);
    }
    uint64_t seen = all.submitted;
    all.asleep = waiter->wait.asleep_announced;
    pthread_mutex_unlock(&all.lock);
    (void)motet_wait_pause(&waiter->wait, &motet_driven_waiting, &driven); /* an error is on the communicator: progress finds it */
    pthread_mutex_lock(&all.lock);
    all.asleep = false;
    if (all.submitted != seen)
        motet_wait_progressed(&waiter->wait);
}

/* The lock is held. */
static bool is_waited_in(motetComm_t comm)
{
    for (int i = 0; all.waiter && i < all.waiter->ncomms; i++)
        if (all.waiter->comms[i] == comm)
            return true;
    return false;
}

void motet_stream_forget(motetComm_t comm)
{
    pthread_mutex_lock(&all.lock);
    while (is_waited_in(comm))
        pthread_cond_wait(&all.done, &all.lock);
    pthread_mutex_unlock(&all.lock);
}

static void *progress_thread(void *generation)
{
    struct waiter waiter = {.ncomms = 0};
    struct waiting waiting;
    pthread_setname_np(pthread_self(), "motet-progress");
    motet_timing_on_stream();
    pthread_mutex_lock(&all.lock);
    while (all.generation == (uintptr_t)generation) {
        bool moved = false;
        bool any = work_on_all(&moved, &waiting);
        if (moved || !any)
            end_wait(&waiter);
        if (!any)
            pthread_cond_wait(&all.work, &all.lock);
        else if (!moved && waiting.n > 0)
            wait_for(&waiter, &waiting);
    }
    end_wait(&waiter);
    pthread_mutex_unlock(&all.lock);
    return NULL;
}

/* The lock is held. All signals are blocked in the thread: they belong to the program. */
static motetResult_t start_thread(void)
{
    sigset_t everything, before;
    sigfillset(&everything);
    pthread_sigmask(SIG_SETMASK, &everything, &before);
    int error = pthread_create(&all.thread, NULL, progress_thread, (void *)(uintptr_t)++all.generation);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return motet_fail(motetSystemError, "cannot start the progress thread: %s", strerror(error));
    all.running = true;
    return motetSuccess;
}

/* ---- Streams ---- */

motetResult_t motet_stream_check(motetStream_t stream, const char *function)
{
    if (stream->magic == STREAM_MAGIC)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "%s: the stream was destroyed or never was one", function);
}

motetResult_t motet_stream_create(motetStream_t *stream)
{
    motetResult_t result = motetSuccess;
    motetStream_t made = calloc(1, sizeof *made);
    if (!made)
        return motet_fail(motetSystemError, "out of memory for a stream");
    made->magic = STREAM_MAGIC;
    pthread_mutex_lock(&all.lock);
    if (!all.running)
        result = start_thread();
    if (result == motetSuccess) {
        made->next = all.streams;
        all.streams = made;
        motet_cycle_note_streams(++all.nstreams);
        *stream = made;
    } else {
        free(made);
    }
    pthread_mutex_unlock(&all.lock);
    return result;
}

/* The lock is held. */
static motetResult_t take_error(motetStream_t stream)
{
    motetResult_t result = stream->error;
    if (result != motetSuccess)
        motet_fail_quiet(result, "%s", stream->error_text);
    stream->error = motetSuccess;
    return result;
}

/* What a caller is blocked for: the communicator of the newest operation of a stream. The lock is held. */
struct blocked {
    motetComm_t comm;
    uint64_t id, since_ns;
};

static struct blocked begin_blocked(motetStream_t stream)
{
    struct blocked blocked = {.comm = NULL};
    for (struct item *item = stream->first; item; item = item->next)
        if (item->comm)
            blocked = (struct blocked){item->comm, item->comm_id, 0};
    blocked.since_ns = blocked.comm ? motet_now_ns() : 0;
    return blocked;
}

static void end_blocked(const struct blocked *blocked)
{
    if (blocked->comm)
        motet_ledger_blocked(blocked->comm, blocked->id, motet_now_ns() - blocked->since_ns);
}

motetResult_t motet_stream_synchronize(motetStream_t stream)
{
    pthread_mutex_lock(&all.lock);
    struct blocked blocked = begin_blocked(stream);
    while (stream->first)
        pthread_cond_wait(&all.done, &all.lock);
    motetResult_t result = take_error(stream);
    pthread_mutex_unlock(&all.lock);
    end_blocked(&blocked);
    return result;
}

motetResult_t motet_stream_query(motetStream_t stream)
{
    pthread_mutex_lock(&all.lock);
    motetResult_t result = stream->error != motetSuccess ? stream->error : stream->first ? motetInProgress : motetSuccess;
    if (result == stream->error && result != motetSuccess)
        motet_fail_quiet(result, "%s", stream->error_text);
    pthread_mutex_unlock(&all.lock);
    return result;
}

motetResult_t motet_stream_destroy(motetStream_t stream)
{
    pthread_t thread = 0;
    bool last = false;
    pthread_mutex_lock(&all.lock);
    while (stream->first)
        pthread_cond_wait(&all.done, &all.lock);
    motetResult_t result = take_error(stream);
    motetStream_t *link = &all.streams;
    while (*link && *link != stream)
        link = &(*link)->next;
    if (*link) {
        *link = stream->next;
        motet_cycle_note_streams(--all.nstreams);
        last = all.nstreams == 0;
    }
    if (last) {
        thread = all.thread;
        all.generation++;
        all.running = false;
        pthread_cond_broadcast(&all.work);
    }
    pthread_mutex_unlock(&all.lock);
    if (last)
        pthread_join(thread, NULL);
    stream->magic = 0;
    free(stream);
    return result;
}

/* Who drives the operations; read by the progress thread once they are submitted. */
static void mark(struct motet_op *const ops[], int n, bool on_stream)
{
    for (int i = 0; i < n; i++)
        ops[i]->on_stream = on_stream;
}

motetResult_t motet_stream_submit(motetStream_t stream, struct motet_op *const ops[], int n)
{
    mark(ops, n, true);
    motetResult_t result = submit(stream, &(struct item){.kind = ITEM_OPS,
                                                         .ops = (struct motet_op **)(uintptr_t)ops,
                                                         .nops = n,
                                                         .comm = ops[0]->comm,
                                                         .comm_id = ops[0]->comm->id});
    if (result != motetSuccess)
        mark(ops, n, false);
    return result;
}

bool motet_stream_is_idle(motetStream_t stream)
{
    if (stream->magic != STREAM_MAGIC)
        return false;
    pthread_mutex_lock(&all.lock);
    bool idle = !stream->first;
    pthread_mutex_unlock(&all.lock);
    return idle;
}

motetResult_t motet_stream_run_flat(motetStream_t stream, motetComm_t comm, const struct motet_flat *flat, const void *send,
                                    void *recv)
{
    struct motet_run *rest = NULL;
    motetResult_t result = motet_engine_run_flat(comm, flat, send, recv, &rest);
    struct motet_op *op = result == motetInProgress ? motet_op_begun(comm, rest) : NULL;
    if (result == motetInProgress && !op) {
        motet_fail(motetSystemError, "comm \"%s\" (%d ranks): rank %d is out of memory for a collective on a stream",
                   comm->options.name, comm->nranks, comm->rank);
        result = motet_comm_fault(comm, motetSystemError); /* the others have met it */
    }
    if (!op) {
        motet_engine_end(rest);
        return result;
    }
    motet_queue_append(op);
    if (motet_stream_submit(stream, &op, 1) == motetSuccess)
        return motetSuccess;
    result = motet_queue_drive(&op, 1);
    motet_op_free(op);
    return result;
}

motetResult_t motet_stream_call(motetStream_t stream, motetHostFn_t fn, void *user_data)
{
    return submit(stream, &(struct item){.kind = ITEM_CALL, .fn = fn, .user_data = user_data});
}

/* ---- Events ---- */

static motetResult_t check_event(motetEvent_t event)
{
    if (event && event->magic == EVENT_MAGIC)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "the event is NULL, was destroyed, or never was one");
}

motetResult_t motet_event_create(motetEvent_t *event)
{
    *event = calloc(1, sizeof **event);
    if (!*event)
        return motet_fail(motetSystemError, "out of memory for an event");
    (*event)->magic = EVENT_MAGIC;
    (*event)->references = 1;
    return motetSuccess;
}

motetResult_t motet_event_destroy(motetEvent_t event)
{
    TRY(check_event(event));
    pthread_mutex_lock(&all.lock);
    drop_event(event);
    pthread_mutex_unlock(&all.lock);
    return motetSuccess;
}

motetResult_t motet_event_record(motetEvent_t event, motetStream_t stream)
{
    TRY(check_event(event));
    if (stream)
        return submit(stream, &(struct item){.kind = ITEM_RECORD, .event = event});
    pthread_mutex_lock(&all.lock);
    event->done = ++event->recorded;
    event->done_ns = motet_now_ns();
    pthread_cond_broadcast(&all.done);
    pthread_mutex_unlock(&all.lock);
    return motetSuccess;
}

motetResult_t motet_event_query(motetEvent_t event)
{
    TRY(check_event(event));
    pthread_mutex_lock(&all.lock);
    bool complete = event->done == event->recorded;
    pthread_mutex_unlock(&all.lock);
    return complete ? motetSuccess : motetInProgress;
}

motetResult_t motet_event_synchronize(motetEvent_t event)
{
    TRY(check_event(event));
    pthread_mutex_lock(&all.lock);
    event->references++; /* it may be destroyed while this thread waits */
    uint64_t ticket = event->recorded;
    struct blocked blocked = {.comm = NULL};
    for (motetStream_t stream = all.streams; stream && !blocked.comm && (int64_t)(event->done - ticket) < 0; stream = stream->next)
        for (struct item *item = stream->first; item && !blocked.comm; item = item->next)
            if (item->event == event && item->kind == ITEM_RECORD)
                blocked = begin_blocked(stream);
    while ((int64_t)(event->done - ticket) < 0)
        pthread_cond_wait(&all.done, &all.lock);
    drop_event(event);
    pthread_mutex_unlock(&all.lock);
    end_blocked(&blocked);
    return motetSuccess;
}

motetResult_t motet_stream_wait_event(motetStream_t stream, motetEvent_t event)
{
    TRY(check_event(event));
    return stream ? submit(stream, &(struct item){.kind = ITEM_WAIT, .event = event}) : motet_event_synchronize(event);
}

motetResult_t motet_event_elapsed(float *milliseconds, motetEvent_t start, motetEvent_t end)
{
    TRY(check_event(start));
    TRY(check_event(end));
    pthread_mutex_lock(&all.lock);
    bool recorded = start->recorded && end->recorded, complete = start->done == start->recorded && end->done == end->recorded;
    *milliseconds = (float)((double)(int64_t)(end->done_ns - start->done_ns) / 1e6);
    pthread_mutex_unlock(&all.lock);
    if (!recorded)
        return motet_fail(motetInvalidUsage, "EventElapsedTime: an event was never recorded");
    return complete ? motetSuccess : motetInProgress;
}
