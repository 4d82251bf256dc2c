/* SPDX-License-Identifier: Apache-2.0
 * The order of operations on a communicator, and who may be inside it. See queue.h. */
#include "queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/os.h"
#include "recorder.h"
#include "run.h"
#include "ticket.h"

/* ---- Operations ---- */

struct motet_op *motet_op_collective(motetComm_t comm, struct motet_call *call)
{
    struct motet_op *op = malloc(sizeof *op);
    if (!op) {
        motet_call_free(call);
        return NULL;
    }
    memset(op, 0, offsetof(struct motet_op, few));
    op->comm = comm;
    op->call = call;
    op->result = motetInProgress;
    return op;
}

struct motet_op *motet_op_begun(motetComm_t comm, struct motet_run *run)
{
    struct motet_op *op = motet_op_collective(comm, NULL);
    if (op) {
        op->call = run->call;
        op->run = run;
        op->started = op->moves = true;
    }
    return op;
}

struct motet_op *motet_op_batch(motetComm_t comm)
{
    struct motet_op *op = motet_op_collective(comm, NULL);
    if (op) {
        op->transfers = op->few;
        op->statuses = op->few_statuses;
        op->capacity = sizeof op->few / sizeof op->few[0];
    }
    return op;
}

static void drop_arrays(struct motet_op *op)
{
    if (op->transfers != op->few) {
        free(op->transfers);
        free(op->statuses);
    }
}

/* Room for twice as many messages. */
static motetResult_t grow(struct motet_op *op)
{
    size_t n = 2 * (size_t)op->capacity;
    struct motet_transfer *transfers = malloc(n * sizeof *transfers);
    motetStatus_t **statuses = malloc(n * sizeof(motetStatus_t *));
    if (!transfers || !statuses) {
        free(transfers);
        free(statuses);
        return motet_fail(motetSystemError, "out of memory for a message on communicator %s", op->comm->options.name);
    }
    memcpy(transfers, op->transfers, (size_t)op->ntransfers * sizeof *transfers);
    memcpy(statuses, op->statuses, (size_t)op->ntransfers * sizeof(motetStatus_t *));
    drop_arrays(op);
    op->transfers = transfers;
    op->statuses = statuses;
    op->capacity = (int)n;
    return motetSuccess;
}

motetResult_t motet_op_add(struct motet_op *op, const struct motet_transfer *transfer, motetStatus_t *status)
{
    if (op->ntransfers == op->capacity)
        TRY(grow(op));
    op->transfers[op->ntransfers] = *transfer;
    op->statuses[op->ntransfers++] = status;
    return motetSuccess;
}

void motet_op_free(struct motet_op *op)
{
    if (!op)
        return;
    if (!op->started)
        motet_call_free(op->call);
    drop_arrays(op);
    free(op);
}

/* ---- Order ---- */

/* For those who ask how much is waiting. */
static void count_queued(motetComm_t comm, uint32_t more)
{
    atomic_fetch_add_explicit(&comm->control->progress.queued, more, memory_order_relaxed);
}

static bool describe(const struct motet_scheduled *scheduled, int index, struct motet_record *out)
{
    const struct motet_op *op = (const struct motet_op *)(const void *)scheduled;
    if (index >= (op->call ? 1 : op->ntransfers))
        return false;
    *out = op->call ? motet_ticket_record(op->call, op->comm->nranks)
                    : motet_transfer_record(op->comm, &op->transfers[index], op->ntransfers);
    out->state = MOTET_RECORD_SCHEDULED;
    return true;
}

/* Shows dumps what will begin, with the numbers that it will have: operations begin in this order. The lock is held. */
static void schedule(struct motet_op *op)
{
    motetComm_t comm = op->comm;
    uint64_t calls = motet_comm_seq(comm), messages = atomic_load_explicit(&comm->control->progress.messages, memory_order_relaxed);
    if (comm->scheduled_calls < calls)
        comm->scheduled_calls = calls;
    if (comm->scheduled_messages < messages)
        comm->scheduled_messages = messages;
    op->scheduled = (struct motet_scheduled){.since_ns = op->queued_ns,
                                             .calls = comm->scheduled_calls + 1,
                                             .messages = comm->scheduled_messages + 1,
                                             .describe = describe};
    comm->scheduled_calls += op->call != NULL;
    comm->scheduled_messages += op->call ? 0 : (uint64_t)op->ntransfers;
    if (comm->scheduled_first)
        comm->scheduled_last->next = &op->scheduled;
    else
        comm->scheduled_first = &op->scheduled;
    comm->scheduled_last = &op->scheduled;
}

void motet_queue_append(struct motet_op *op)
{
    motetComm_t comm = op->comm;
    op->next = NULL;
    op->queued_ns = motet_clock_now();
    pthread_mutex_lock(&comm->queue_lock);
    if (!op->started) {
        count_queued(comm, 1);
        schedule(op);
    }
    if (comm->queue_first)
        comm->queue_last->next = op;
    else
        atomic_store(&comm->queue_first, op);
    comm->queue_last = op;
    pthread_mutex_unlock(&comm->queue_lock);
}

/* Whether it is the operation's turn: it is the first, or messages on streams, as are all before it, which have started. */
static bool may_start(const struct motet_op *op)
{
    motetComm_t comm = op->comm;
    if (atomic_load_explicit(&comm->queue_first, memory_order_acquire) == op)
        return true;
    if (op->call || !op->on_stream)
        return false;
    pthread_mutex_lock(&comm->queue_lock);
    const struct motet_op *before = atomic_load(&comm->queue_first);
    while (before && before != op && !before->call && before->on_stream && before->started)
        before = before->next;
    pthread_mutex_unlock(&comm->queue_lock);
    return before == op;
}

/* The operation is complete. Another thread may wait for its turn, or for the end of the queue, and then free the communicator: it is not
 * touched after the unlock. */
static void leave_queue(struct motet_op *op)
{
    motetComm_t comm = op->comm;
    pthread_mutex_lock(&comm->queue_lock);
    struct motet_op *first = atomic_load(&comm->queue_first), *before = first;
    if (first == op) {
        atomic_store(&comm->queue_first, first = op->next);
    } else {
        while (before->next != op)
            before = before->next;
        before->next = op->next;
        if (comm->queue_last == op)
            comm->queue_last = before;
    }
    bool ring = first || atomic_load(&comm->caller), last = !first && atomic_load(&comm->abandoned);
    pthread_mutex_unlock(&comm->queue_lock);
    if (ring)
        motet_doorbell_ring_self();
    if (last)
        motet_comm_close_if_idle(comm);
}

/* It is among those that wait no longer: from here on nobody else looks at it. */
static void leave_schedule(struct motet_op *op)
{
    pthread_mutex_lock(&op->comm->queue_lock);
    op->started = true;
    op->comm->scheduled_first = op->scheduled.next; /* only the head of the queue begins */
    pthread_mutex_unlock(&op->comm->queue_lock);
    count_queued(op->comm, -1u);
}

static motetResult_t start(struct motet_op *op)
{
    if (op->unlisted)
        op->started = true;
    else
        leave_schedule(op);
    op->comm->queued_ns = op->queued_ns;
    if (op->call)
        return motet_engine_start(op->comm, op->call, &op->run);
    size_t bytes = 0;
    for (int i = 0; i < op->ntransfers; i++)
        bytes += op->transfers[i].bytes;
    motet_timing_begin(&op->timing, op->comm, op->comm->messages + 1, bytes);
    return motet_batch_begin(&op->batch, op->comm, op->transfers, op->ntransfers, op->on_stream);
}

static void report_statuses(struct motet_op *op)
{
    for (int i = 0; i < op->ntransfers; i++) {
        const struct motet_transfer *transfer = &op->transfers[i];
        const struct motet_dtype *dtype = motet_dtype_row(transfer->dtype);
        if (op->statuses[i])
            *op->statuses[i] = (motetStatus_t){
                .source = transfer->source, .tag = transfer->received_tag, .count = transfer->received / dtype->size};
    }
}

static void complete(struct motet_op *op, motetResult_t result)
{
    if (op->call && op->started)
        motet_engine_end(op->run);
    else if (op->started && result != motetSuccess)
        motet_batch_end(&op->batch);
    else if (result == motetSuccess)
        report_statuses(op);
    if (!op->call && result == motetSuccess)
        motet_timing_end(&op->timing, op->comm, 0);
    if (!op->unlisted)
        leave_queue(op);
    op->result = result;
}

static motetResult_t progress_batch(struct motet_op *op, bool *moved)
{
    motet_timing_look(&op->timing, -1);
    motetResult_t result = motet_batch_progress(&op->batch, moved);
    motet_timing_seen(&op->timing, op->comm, *moved);
    return result;
}

void motet_op_progress(struct motet_op *op, bool *moved)
{
    bool mine = false;
    if (!op->started && !op->unlisted && !may_start(op))
        return;
    mine = !op->started || op->moves; /* to start is to move */
    if (op->moves)
        atomic_store_explicit(&op->comm->control->driver, motet_thread_id(), memory_order_relaxed);
    op->moves = false;
    motetResult_t result = !op->started ? start(op) : op->call ? motet_comm_check(op->comm) : motetSuccess;
    if (result == motetSuccess && op->call)
        result = motet_engine_progress(op->run, &mine);
    else if (result == motetSuccess)
        result = progress_batch(op, &mine);
    if (result == motetInProgress)
        motet_comm_poll(op->comm, &mine);
    if (result == motetInProgress && !mine) {
        motetResult_t fault = motet_comm_check(op->comm);
        result = fault != motetSuccess ? fault : result;
    }
    *moved |= mine || result != motetInProgress;
    if (result != motetInProgress)
        complete(op, result);
}

static void op_describe(void *context, char *text, size_t len)
{
    struct motet_op *op = context;
    if (!op->started)
        snprintf(text, len, "the operations before it");
    else if (op->call)
        motet_engine_describe(op->run, text, len);
    else
        motet_batch_describe(&op->batch, text, len);
}

static bool op_needs(void *context, motetComm_t comm, int position)
{
    struct motet_op *op = context;
    if (!op->started || op->result != motetInProgress)
        return false;
    return op->call ? motet_engine_needs(op->run, comm, position) : motet_batch_needs(&op->batch, comm, position);
}

/* ---- Driving ---- */

int motet_driven_comms(const struct motet_driven *driven, motetComm_t *comms)
{
    int count = 0;
    for (int i = 0; i < driven->n; i++) {
        int c = 0;
        while (c < count && comms[c] != driven->ops[i]->comm)
            c++;
        if (c == count)
            comms[count++] = driven->ops[i]->comm;
    }
    return count;
}

static int op_whom(void *context, motetComm_t comm)
{
    struct motet_op *op = context;
    if (!op->started || op->result != motetInProgress)
        return -1;
    return op->call ? motet_engine_whom(op->run, comm) : motet_batch_whom(&op->batch, comm);
}

static const struct motet_transfer *op_message(void *context, motetComm_t comm, int position)
{
    struct motet_op *op = context;
    if (!op->started || op->result != motetInProgress || op->call)
        return NULL;
    return motet_batch_message(&op->batch, comm, position);
}

static void describe_first(void *context, char *text, size_t len)
{
    const struct motet_driven *driven = context;
    for (int started = 1; started >= 0; started--)
        for (int i = 0; i < driven->n; i++)
            if (driven->ops[i]->result == motetInProgress && driven->ops[i]->started == (started == 1)) {
                op_describe(driven->ops[i], text, len);
                return;
            }
}

static bool any_needs(void *context, motetComm_t comm, int position)
{
    const struct motet_driven *driven = context;
    for (int i = 0; i < driven->n; i++)
        if (op_needs(driven->ops[i], comm, position))
            return true;
    return false;
}

static int first_whom(void *context, motetComm_t comm)
{
    const struct motet_driven *driven = context;
    for (int i = 0; i < driven->n; i++)
        if (driven->ops[i]->comm == comm && driven->ops[i]->started && driven->ops[i]->result == motetInProgress)
            return op_whom(driven->ops[i], comm);
    return -1;
}

static const struct motet_transfer *first_message(void *context, motetComm_t comm, int position)
{
    const struct motet_driven *driven = context;
    for (int i = 0; i < driven->n; i++) {
        const struct motet_transfer *message = op_message(driven->ops[i], comm, position);
        if (message)
            return message;
    }
    return NULL;
}

/* Progresses all that are not complete. Returns whether all are. */
static bool progress_all(const struct motet_driven *driven, bool *moved)
{
    bool all = true;
    for (int i = 0; i < driven->n; i++) {
        if (driven->ops[i]->result == motetInProgress)
            motet_op_progress(driven->ops[i], moved);
        all &= driven->ops[i]->result != motetInProgress;
    }
    return all;
}

const struct motet_waiting motet_driven_waiting = {
    .describe = describe_first, .needs = any_needs, .whom = first_whom, .message = first_message};

motetResult_t motet_queue_drive(struct motet_op *const ops[], int n)
{
    struct motet_driven driven = {ops, n};
    struct motet_wait wait;
    motetComm_t few[8], *many = n > 8 ? calloc((size_t)n, sizeof(motetComm_t)) : NULL, *comms = many ? many : few;
    motetResult_t result = motetSuccess;
    /* Without memory for all, the wait sleeps for the first eight communicators' peers; the others are looked at every 100 ms. */
    motet_wait_begin(&wait, comms, motet_driven_comms(&(struct motet_driven){ops, many || n <= 8 ? n : 8}, comms));
    for (;;) {
        bool moved = false;
        if (progress_all(&driven, &moved))
            break;
        if (moved)
            motet_wait_progressed(&wait);
        else
            (void)motet_wait_pause(&wait, &motet_driven_waiting, &driven); /* an error is on its communicator: progress finds it */
    }
    motet_wait_end(&wait);
    free(many);
    for (int i = 0; i < n && result == motetSuccess; i++)
        result = ops[i]->result;
    return result;
}

/* The brief part of driving a batch that is alone: most are over before a wait leaves its spin phase. */
static void run_briefly(struct motet_op *op)
{
    struct motet_wait wait;
    motet_wait_begin(&wait, &op->comm, 1);
    motetResult_t result = start(op);
    for (unsigned looks = 1; result == motetSuccess || result == motetInProgress; looks++) {
        bool moved = false;
        result = progress_batch(op, &moved);
        if (result != motetInProgress)
            break;
        motet_comm_poll(op->comm, &moved);
        if (!moved && !motet_wait_brief(&wait))
            return;
        if (looks % 256 == 0) /* other traffic of a shared connection moves, too */
            result = motet_comm_check(op->comm);
    }
    complete(op, result);
}

motetResult_t motet_queue_run(struct motet_op *op)
{
    /* acquire: what the operation that left last did is seen. Only this thread appends while it is inside. */
    op->unlisted = !atomic_load_explicit(&op->comm->queue_first, memory_order_acquire);
    if (!op->unlisted)
        motet_queue_append(op);
    else if (!op->call)
        run_briefly(op);
    motetResult_t result = op->result == motetInProgress ? motet_queue_drive(&op, 1) : op->result;
    motet_op_free(op);
    return result;
}

static void describe_drain(void *context, char *text, size_t len)
{
    (void)context;
    snprintf(text, len, "the operations on streams");
}

motetResult_t motet_queue_drain(motetComm_t comm)
{
    static const struct motet_waiting waiting = {.describe = describe_drain};
    struct motet_wait wait;
    motetResult_t result = motetSuccess;
    motet_wait_begin(&wait, &comm, 1);
    while (atomic_load(&comm->queue_first)) {
        motetResult_t paused = motet_wait_pause(&wait, &waiting, NULL);
        result = result == motetSuccess ? paused : result; /* a fault ends the operations too: they still have to leave */
    }
    motet_wait_end(&wait);
    return result;
}

/* ---- Entering ---- */

motetResult_t motet_comm_claim(motetComm_t comm, const char *function)
{
    pid_t none = 0, me = motet_thread_id();
    TRY(motet_process_check_fork());
    if (!comm)
        return motet_fail(motetInvalidArgument, "%s: the communicator is NULL", function);
    if (comm->magic != MOTET_COMM_MAGIC) {
        if (comm->magic == MOTET_COMM_INIT_MAGIC)
            return motet_fail(motetInvalidUsage,
                              "%s: the communicator is still being initialised (or failed to): see motetCommGetAsyncError",
                              function);
        return motet_fail(motetInvalidArgument, "%s: the communicator was destroyed or never was one", function);
    }
    if (!atomic_compare_exchange_strong(&comm->caller, &none, me))
        return motet_fail(motetInvalidUsage, "%s: thread %d is inside a call on communicator %s already", function, (int)none,
                          comm->options.name);
    return motetSuccess;
}

motetResult_t motet_comm_claim_until(motetComm_t comm, const char *function, uint64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (comm->magic == MOTET_COMM_MAGIC && atomic_load(&comm->caller) != 0 && motet_now_ns() < deadline_ns)
        nanosleep(&pause, NULL);
    motetResult_t result = motet_comm_claim(comm, function);
    bool late = result == motetInvalidUsage && deadline_ns != 0 && motet_now_ns() >= deadline_ns;
    return late ? motet_fail(motetTimeout, "%s: the call of another thread on communicator %s does not return", function,
                             comm->options.name)
                : result;
}

motetResult_t motet_comm_enter(motetComm_t comm, const char *function)
{
    TRY(motet_comm_claim(comm, function));
    motetResult_t result = motet_comm_check(comm);
    if (result != motetSuccess)
        motet_comm_leave(comm);
    return result;
}

void motet_comm_leave(motetComm_t comm)
{
    bool abandoned = __builtin_expect(atomic_load(&comm->abandoned), 0);
    atomic_store_explicit(&comm->caller, 0, memory_order_release); /* the last touch, unless nobody else is left to free it */
    if (abandoned)
        motet_comm_close_if_idle(comm);
}

void motet_comm_leave_background(motetComm_t comm)
{
    pthread_mutex_lock(&comm->queue_lock); /* is_idle must not see one without the other, and then free the communicator */
    atomic_store_explicit(&comm->caller, 0, memory_order_release);
    bool last = atomic_fetch_sub(&comm->background, 1) == 1 && atomic_load(&comm->abandoned);
    pthread_mutex_unlock(&comm->queue_lock);
    if (last)
        motet_comm_close_if_idle(comm);
}

bool motet_comm_is_idle(motetComm_t comm)
{
    pthread_mutex_lock(&comm->queue_lock);
    bool idle = atomic_load(&comm->caller) == 0 && !atomic_load(&comm->queue_first) && atomic_load(&comm->background) == 0;
    pthread_mutex_unlock(&comm->queue_lock);
    return idle;
}

bool motet_comm_wait_idle(motetComm_t comm, uint64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!motet_comm_is_idle(comm)) {
        if (motet_now_ns() >= deadline_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool motet_comm_close_if_idle(motetComm_t comm)
{
    if (!motet_comm_is_idle(comm))
        return false;
    if (!atomic_exchange(&comm->closing, true))
        motet_comm_close(comm);
    return true;
}
