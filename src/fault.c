/* SPDX-License-Identifier: Apache-2.0
 * Errors that concern the whole communicator. Whoever finds one writes it into every local rank's region (the first writer of each record
 * wins), rings them, and sends it over the control links to all others, who do the same for their side. So every rank reports one cause. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "call_text.h"
#include "comm.h"
#include "dump.h"
#include "council.h"
#include "engine.h"
#include "ledger.h"
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

struct audit_message { /* question: what did you call as number seq? The answer carries the record. */
    uint64_t seq;
    int32_t position; /* of the asker / the one asked */
    uint32_t known;   /* answer: the record is there */
    uint64_t last;    /* answer: newest collective of the one asked */
    struct motet_record record;
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

/* ---- Mismatch ---- */

/* Copies a record that another rank may be rewriting; false if it is not (or no longer) that of `seq`. */
static bool read_record(const struct motet_layout *layout, char *region, uint64_t seq, struct motet_record *out)
{
    struct motet_record *record = motet_region_record(layout, region, seq);
    if (atomic_load_explicit(&record->seq, memory_order_acquire) != seq + 1)
        return false;
    motet_record_copy(out, record);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&record->seq, memory_order_relaxed) == seq + 1;
}

static bool same_call(const struct motet_record *a, const struct motet_record *b)
{
    return a->collective == b->collective && a->count == b->count && a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
           a->counts_hash == b->counts_hash && a->counts == b->counts && (a->group != 0) == (b->group != 0);
}

/* Compares the own call number seq with a peer's record of the same number; faults the communicator when they differ. */
static motetResult_t compare(motetComm_t comm, int peer, uint64_t seq, const struct motet_record *theirs)
{
    struct motet_record mine;
    char mine_text[128], theirs_text[128];
    if (!read_record(&comm->layout, comm->region, seq, &mine) || (same_call(&mine, theirs) && mine.history == theirs->history))
        return motetSuccess;
    motet_call_text(mine_text, sizeof mine_text, &mine);
    motet_call_text(theirs_text, sizeof theirs_text, theirs);
    int a = comm->rank, b = comm->rank_at[peer];
    const char *first = mine_text, *second = theirs_text;
    if (a > b) {
        int swap = a;
        a = b, b = swap;
        first = theirs_text, second = mine_text;
    }
    const char *note = same_call(&mine, theirs) ? "; an earlier call differed" : "";
    motet_fail_quiet(motetInvalidUsage, "comm \"%s\" (%d ranks), call %" PRIu64 ": rank %d called %s, rank %d called %s%s",
                     comm->options.name, comm->nranks, seq, a, first, b, second, note);
    return motet_comm_fault(comm, motetInvalidUsage);
}

/* The first call in which both ranks' histories differ, at most `seq`. */
static motetResult_t compare_back(motetComm_t comm, int peer, uint64_t seq)
{
    struct motet_record mine, theirs, first;
    uint64_t differs = 0;
    for (uint64_t s = seq; s > 0 && s + comm->layout.nrecords > seq + 1; s--) {
        if (!read_record(&comm->layout, comm->region, s, &mine) ||
            !read_record(&comm->layout, comm->peers[peer].region, s, &theirs))
            continue;
        if (mine.history == theirs.history)
            break;
        differs = s;
        first = theirs;
    }
    return differs ? compare(comm, peer, differs, &first) : motetSuccess;
}

motetResult_t motet_comm_mismatch(motetComm_t comm, int position, uint64_t seq, uint64_t theirs)
{
    TRY(motet_comm_check(comm));
    if (comm->peers[position].mapped)
        TRY(compare_back(comm, position, seq));
    else if (comm->asked_seq != seq) { /* once: the slot is looked at again and again until the answer comes */
        comm->asked_seq = seq;
        motet_comm_audit(comm);
    }
    /* The peer's record is gone or remote: the audit's answer will say more; until then nothing is wrong enough to end the call, unless
     * both are at the same number with different histories. */
    if ((uint32_t)theirs != (uint32_t)seq || !comm->peers[position].mapped)
        return motetSuccess;
    motet_fail_quiet(motetInvalidUsage, "comm \"%s\" (%d ranks), call %" PRIu64 ": ranks %d and %d made different calls before",
                     comm->options.name, comm->nranks, seq, comm->rank, comm->rank_at[position]);
    return motet_comm_fault(comm, motetInvalidUsage);
}

/* ---- Audit: compares the current call with everybody's. Local records are read in place, remote ones asked for. ---- */

motetResult_t motet_comm_audit(motetComm_t comm)
{
    struct audit_message question = {.seq = motet_comm_seq(comm), .position = comm->position};
    for (int p = 0; p < comm->nranks; p++) {
        if (p == comm->position)
            continue;
        if (comm->peers[p].mapped)
            TRY(compare_back(comm, p, motet_comm_seq(comm)));
        else
            motet_endpoint_control(comm->peers[p].endpoint, comm->peers[p].key, MOTET_CONTROL_AUDIT, &question, sizeof question);
    }
    return motetSuccess;
}

static void answer_audit(motetComm_t comm, const struct audit_message *question)
{
    struct audit_message answer = {.seq = question->seq, .position = comm->position};
    if (question->position < 0 || question->position >= comm->nranks)
        return;
    answer.known = read_record(&comm->layout, comm->region, question->seq, &answer.record);
    struct motet_peer *peer = &comm->peers[question->position];
    motet_endpoint_control(peer->endpoint, peer->key, MOTET_CONTROL_ANSWER, &answer, sizeof answer);
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
    else if (comm->placed && kind == MOTET_CONTROL_AUDIT && len == sizeof(struct audit_message))
        answer_audit(comm, bytes);
    else if (kind == MOTET_CONTROL_WAIT_QUESTION)
        motet_comm_take_question(comm, bytes, len);
    else if (kind == MOTET_CONTROL_WAIT_ANSWER)
        motet_comm_take_answer(comm, bytes, len);
    else if (comm->placed && kind == MOTET_CONTROL_ACCOUNT)
        motet_ledger_take(comm, bytes, len);
    else if (comm->placed && kind == MOTET_CONTROL_ANSWER && len == sizeof(struct audit_message)) {
        const struct audit_message *answer = bytes;
        if (answer->known && answer->position >= 0 && answer->position < comm->nranks)
            compare(comm, answer->position, answer->seq, &answer->record);
    }
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
