/* SPDX-License-Identifier: Apache-2.0
 * Errors that concern the whole communicator. Whoever finds one writes it into every local rank's region (the first writer of each record
 * wins), rings them, and sends it over the control links to all others, who do the same for their side. So every rank reports one cause. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "comm.h"
#include "dump.h"
#include "council.h"
#include "ledger.h"
#include "mismatch.h"
#include "process.h"
#include "service.h"
#include "unmatched.h"

/* For readers of a failed call to leave it: they are awake, so this is for stopped ones. What those read is lost: motet_comm_check_read. */
#define READERS_NS (2ull * 1000 * 1000 * 1000)

struct fault_message {
    int32_t code;
    uint32_t revoked;
    char text[sizeof((struct motet_fault_record *)0)->text];
};

/* ---- Storing ---- */

/* Returns whether this call wrote the record (false: an earlier fault is there). */
static bool store(struct motet_fault_record *record, motetResult_t code, bool revoked, const char *text)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&record->state, &none, 1))
        return false;
    record->code = code;
    record->revoked = revoked;
    snprintf(record->text, sizeof record->text, "%s", text);
    atomic_store_explicit(&record->state, 2, memory_order_release);
    return true;
}

static void store_in_local_ranks(motetComm_t comm, motetResult_t code, bool revoked, const char *text)
{
    for (int p = 0; p < comm->nranks; p++) {
        struct motet_peer *peer = &comm->peers[p];
        if (!peer->mapped || p == comm->position)
            continue;
        store(&motet_region_control(peer->region)->fault, code, revoked, text);
        motet_doorbell_ring(peer->endpoint);
    }
    motet_doorbell_ring_self();
}

static void tell_remote_ranks(motetComm_t comm, motetResult_t code, bool revoked, const char *text)
{
    struct fault_message message = {.code = code, .revoked = revoked};
    snprintf(message.text, sizeof message.text, "%s", text);
    for (int p = 0; p < comm->nranks; p++)
        if (!comm->peers[p].mapped && comm->peers[p].endpoint)
            motet_endpoint_control(comm->peers[p].endpoint, comm->peers[p].key, MOTET_CONTROL_FAULT, &message, sizeof message);
}

void motet_comm_fault_unplaced(motetComm_t comm, motetResult_t code)
{
    struct fault_message message = {.code = code};
    snprintf(message.text, sizeof message.text, "comm \"%s\" (%d ranks): rank %d could not take part: %s", comm->options.name,
             comm->nranks, comm->rank, motet_error_text());
    for (int r = 0; r < comm->nranks; r++)
        if (r != comm->rank && comm->peers[r].endpoint)
            motet_endpoint_control(comm->peers[r].endpoint, comm->peers[r].key, MOTET_CONTROL_FAULT, &message, sizeof message);
}

/* The first time this rank knows: what it remembers is written, if a setting wants it. On the service thread a thread of its own does. */
static void note_failure(motetComm_t comm, const char *text)
{
    if (atomic_load_explicit(&comm->dumped, memory_order_relaxed) || atomic_exchange(&comm->dumped, true))
        return;
    if (motet_service_is_self())
        motet_dump_start(text, false);
    else
        motet_dump_failure(text);
}

static motetResult_t fault(motetComm_t comm, motetResult_t code, bool revoked, const char *text)
{
    struct motet_fault_record *own = &comm->control->fault;
    if (store(own, code, revoked, text)) {
        WARN(MOTET_LOG_COLL, "communicator %s rank %d: %s", comm->options.name, comm->rank, text);
        if (!revoked)
            motet_process_note_failure(text);
        if (comm->placed)
            tell_remote_ranks(comm, code, revoked, text);
    } else if (atomic_load_explicit(&own->state, memory_order_acquire) ==
               2) { /* the first one is on its way to the others, and wins */
        code = (motetResult_t)own->code;
        revoked = own->revoked;
        text = own->text;
    }
    if (comm->placed)
        store_in_local_ranks(comm, code, revoked, text);
    int none = motetSuccess;
    atomic_compare_exchange_strong(&comm->async_error, &none, (int)code);
    if (motet_service_is_self()) /* others learn of it in motet_comm_check */
        note_failure(comm, own->text);
    return code;
}

motetResult_t motet_comm_fault(motetComm_t comm, motetResult_t code)
{
    if (atomic_load(&comm->abort))
        return code;
    fault(comm, code, false, motet_error_text());
    return motet_comm_check(comm);
}

motetResult_t motet_comm_check(motetComm_t comm)
{
    struct motet_fault_record *own = &comm->control->fault;
    if (__builtin_expect(atomic_load_explicit(&comm->abort, memory_order_relaxed), 0))
        return motet_fail_quiet(motetInvalidUsage, "communicator %s (rank %d of %d) was aborted", comm->options.name, comm->rank,
                                comm->nranks);
    if (__builtin_expect(atomic_load_explicit(&own->state, memory_order_acquire) != 2, 1))
        return motetSuccess;
    int none = motetSuccess;
    atomic_compare_exchange_strong(&comm->async_error, &none, own->code);
    note_failure(comm, own->text);
    return motet_fail_quiet((motetResult_t)own->code, "%s", own->text);
}

motetResult_t motet_comm_check_read(motetComm_t comm)
{
    const struct timespec pause = {.tv_nsec = 50000};
    struct motet_fault_record *own = &comm->control->fault;
    uint64_t deadline_ns = 0;
    /* acquire: what was read was read before this look. Whoever saw a byte that the owner wrote after its call failed sees the fault, too. */
    atomic_thread_fence(memory_order_acquire);
    uint32_t state = atomic_load_explicit(&own->state, memory_order_relaxed);
    if (__builtin_expect(state == 0, 1))
        return motetSuccess;
    while (state == 1 &&
           (deadline_ns == 0 || motet_now_ns() < deadline_ns)) { /* its writer is at it, or was stopped in the middle */
        deadline_ns = deadline_ns ? deadline_ns : motet_now_ns() + READERS_NS;
        nanosleep(&pause, NULL);
        state = atomic_load(&own->state);
    }
    TRY(motet_comm_check(comm));
    return motet_fail_quiet(motetRemoteError,
                            "comm \"%s\" (%d ranks), rank %d: another rank's call failed while this one read its data",
                            comm->options.name, comm->nranks, comm->rank);
}

void motet_comm_await_readers(motetComm_t comm, const int *positions, int n, bool (*reads)(const void *context, int position),
                              const void *context)
{
    const struct timespec pause = {.tv_nsec = 50000};
    uint64_t deadline_ns = motet_now_ns() + READERS_NS;
    if (atomic_load(&comm->abort)) /* the thread that aborts may not have told yet */
        motet_comm_tell_abort(comm);
    motet_wait_barrier();
    for (int i = 0; i < n; i++) {
        const struct motet_peer *peer = &comm->peers[positions[i]];
        while (peer->mapped && !atomic_load(&peer->dead) && reads(context, positions[i]) && motet_now_ns() < deadline_ns) {
            motet_doorbell_ring(peer->endpoint);
            nanosleep(&pause, NULL);
        }
    }
}

motetResult_t motet_comm_async_error(motetComm_t comm)
{
    const struct motet_fault_record *own = &comm->control->fault;
    if (atomic_load_explicit(&own->state, memory_order_acquire) == 2)
        return (motetResult_t)own->code;
    return (motetResult_t)atomic_load(&comm->async_error);
}

/* Whether a rank is dead that did not say goodbye: its position, -1. A program often aborts one communicator because of what another
 * one told. */
static int find_dead(motetComm_t comm)
{
    for (int p = 0; p < comm->nranks; p++)
        if (p != comm->position && atomic_load(&comm->peers[p].dead) && !comm->peers[p].endpoint->left)
            return p;
    return -1;
}

static void describe_death(motetComm_t comm, int position, char *text, size_t len)
{
    const struct motet_peer *peer = &comm->peers[position];
    snprintf(text, len, "comm \"%s\" (%d ranks): rank %d (pid %d on %s) is gone: %s", comm->options.name, comm->nranks, peer->rank,
             (int)peer->endpoint->process.pid, peer->endpoint->process.host_name, peer->endpoint->cause);
}

/* A fault that made this rank abort is on its way to the others already, but may come after this word: it is said again. */
void motet_comm_tell_abort(motetComm_t comm)
{
    struct motet_fault_record *own = &comm->control->fault;
    char text[sizeof own->text];
    motetResult_t code = motetRemoteError;
    int dead = find_dead(comm);
    bool revoked = false;
    if (atomic_load_explicit(&own->state, memory_order_acquire) == 2) {
        code = (motetResult_t)own->code;
        revoked = own->revoked;
        snprintf(text, sizeof text, "%s", own->text);
    } else if (dead >= 0) {
        describe_death(comm, dead, text, sizeof text);
    } else {
        snprintf(text, sizeof text, "comm \"%s\" (%d ranks): rank %d aborted", comm->options.name, comm->nranks, comm->rank);
    }
    if (!revoked)
        motet_process_note_failure(text);
    tell_remote_ranks(comm, code, revoked, text);
    store_in_local_ranks(comm, code, revoked, text);
}

void motet_comm_revoke(motetComm_t comm)
{
    char text[sizeof comm->control->fault.text];
    snprintf(text, sizeof text, "comm \"%s\" (%d ranks): rank %d revoked it", comm->options.name, comm->nranks, comm->rank);
    atomic_store(&comm->revoked, true);
    fault(comm, motetInvalidUsage, true, text);
}

bool motet_comm_was_revoked(motetComm_t comm)
{
    const struct motet_fault_record *own = &comm->control->fault;
    return atomic_load_explicit(&own->state, memory_order_acquire) == 2 && own->revoked;
}

static void take_fault(motetComm_t comm, const struct fault_message *message)
{
    char text[sizeof message->text];
    snprintf(text, sizeof text, "%.*s", (int)sizeof message->text - 1, message->text);
    bool known = message->code > motetSuccess && message->code < motetNumResults;
    fault(comm, known ? (motetResult_t)message->code : motetRemoteError, message->revoked, text);
}

static void take_death(motetComm_t comm, const struct motet_endpoint *from)
{
    for (int p = 0; p < comm->nranks; p++)
        if (comm->peers[p].endpoint == from)
            atomic_store(&comm->peers[p].dead, true);
    motet_doorbell_ring_self();
}

static void control(motetComm_t comm, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len)
{
    if (kind == MOTET_CONTROL_DEATH)
        take_death(comm, from);
    else if (kind == MOTET_CONTROL_FAULT && len == sizeof(struct fault_message))
        take_fault(comm, bytes);
    else if (kind == MOTET_CONTROL_COUNCIL)
        motet_council_receive(comm, bytes, len);
    else if (comm->placed && kind == MOTET_CONTROL_AUDIT && len == sizeof(struct motet_audit_message))
        motet_comm_answer_audit(comm, bytes);
    else if (kind == MOTET_CONTROL_WAIT_QUESTION)
        motet_comm_take_question(comm, bytes, len);
    else if (kind == MOTET_CONTROL_WAIT_ANSWER)
        motet_comm_take_answer(comm, bytes, len);
    else if (comm->placed && kind == MOTET_CONTROL_ACCOUNT)
        motet_ledger_take(comm, bytes, len);
    else if (comm->placed && kind == MOTET_CONTROL_ANSWER && len == sizeof(struct motet_audit_message))
        motet_comm_take_audit(comm, bytes);
}

void motet_comm_control(void *context, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len)
{
    motetComm_t comm = context;
    pthread_mutex_lock(&comm->peers_lock);
    control(comm, from, kind, bytes, len);
    pthread_mutex_unlock(&comm->peers_lock);
}

/* A peer died and an operation needs it: says so to everybody. */
motetResult_t motet_comm_dead(motetComm_t comm, int position)
{
    char text[sizeof comm->control->fault.text];
    describe_death(comm, position, text, sizeof text);
    motet_fail_quiet(motetRemoteError, "%s", text);
    return motet_comm_fault(comm, motetRemoteError);
}
