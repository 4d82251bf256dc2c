/* SPDX-License-Identifier: Apache-2.0
 * Councils: see council.h. Each rank numbers its councils on a communicator, the failed ones too; members whose numbers differ, because some
 * were in councils without the others, take the highest. Messages that come before this rank's own council of that number are kept. A
 * council with a subject has no number: what comes under its subject is its own, and each message is read once, so that the next council of
 * the same subject finds only what was said for it. Knows nothing of what is agreed on. */
#include "council.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"

#define SLICE_NS    (100 * 1000 * 1000ull)  /* deaths, departures and aborts are looked for at least this often */
#define PATIENCE_NS (2000 * 1000 * 1000ull) /* what a rank said before it left, or will say next, may still be under way */

enum kind {
    KIND_BLOB,
    KIND_FAILED,    /* to members: code and sentence */
    KIND_NO_MEMBER, /* to all others: this council is without you */
    KIND_WITHDRAWN, /* to the same: it failed, the next may be with you */
    KIND_LEFT
};

struct head {
    uint64_t subject; /* 0: the session counts */
    uint32_t kind, session, round;
    int32_t rank; /* of the sender */
    int32_t code; /* KIND_FAILED: motetResult_t; the sentence follows */
    uint32_t len;
};

struct motet_council_message {
    struct motet_council_message *next;
    struct head head;
    char bytes[];
};

_Static_assert(sizeof(struct head) + MOTET_COUNCIL_BLOB_MAX <= 4096, "a control message holds a blob");

static const struct motet_peer *peer_of(motetComm_t comm, int rank)
{
    return &comm->peers[comm->position_of[rank]];
}

/* ---- Sending ---- */

static void send_to(motetComm_t comm, int rank, const struct head *head, const void *bytes)
{
    char message[sizeof *head + MOTET_COUNCIL_BLOB_MAX];
    const struct motet_peer *peer = peer_of(comm, rank);
    memcpy(message, head, sizeof *head);
    if (head->len > 0)
        memcpy(message + sizeof *head, bytes, head->len);
    motet_endpoint_control(peer->endpoint, peer->key, MOTET_CONTROL_COUNCIL, message, sizeof *head + head->len);
}

static struct head head_of(const struct motet_council *council, enum kind kind)
{
    return (struct head){.subject = council->subject,
                         .kind = kind,
                         .session = council->session,
                         .round = council->round,
                         .rank = council->comm->rank};
}

static void send_to_all(const struct motet_council *council, bool members, const struct head *head, const void *bytes)
{
    for (int r = 0; r < council->comm->nranks; r++)
        if (r != council->comm->rank && council->member[r] == members)
            send_to(council->comm, r, head, bytes);
}

void motet_council_give_up(struct motet_council *council, motetResult_t code)
{
    char text[MOTET_ERROR_TEXT_MAX];
    if (council->told)
        return;
    council->told = true;
    snprintf(text, sizeof text, "%s", motet_error_text());
    struct head head = head_of(council, KIND_FAILED);
    head.code = code;
    head.len = (uint32_t)strlen(text) + 1;
    send_to_all(council, true, &head, text);
    head = head_of(council, KIND_WITHDRAWN);
    if (!council->subject)
        send_to_all(council, false, &head, NULL);
    motet_fail_quiet(code, "%s", text); /* sending may have failed meanwhile: that is not the cause */
}

void motet_council_leave(motetComm_t comm)
{
    struct head head = {.kind = KIND_LEFT, .session = UINT32_MAX, .rank = comm->rank};
    for (int r = 0; comm->placed && r < comm->nranks; r++)
        if (!peer_of(comm, r)->mapped)
            send_to(comm, r, &head, NULL);
}

/* ---- Receiving ---- */

void motet_council_receive(motetComm_t comm, const void *bytes, size_t len)
{
    struct head head;
    if (len < sizeof head)
        return;
    memcpy(&head, bytes, sizeof head);
    if (head.len != len - sizeof head || head.len > MOTET_COUNCIL_BLOB_MAX || head.rank < 0 || head.rank >= comm->nranks)
        return;
    struct motet_council_message *message = malloc(sizeof *message + head.len + 1), **last = &comm->council_mail;
    if (!message) /* the council ends at its deadline */
        return;
    message->next = NULL;
    message->head = head;
    memcpy(message->bytes, (const char *)bytes + sizeof head, head.len);
    message->bytes[head.len] = '\0';
    while (*last)
        last = &(*last)->next;
    *last = message;
    motet_doorbell_ring_self();
}

void motet_council_free(motetComm_t comm)
{
    for (struct motet_council_message *message = comm->council_mail, *next; message; message = next) {
        next = message->next;
        free(message);
    }
    comm->council_mail = NULL;
}

/* Drops what earlier councils did not read. The lock is held. */
static void drop_old(motetComm_t comm)
{
    struct motet_council_message **at = &comm->council_mail;
    while (*at) {
        struct motet_council_message *message = *at;
        if (message->head.session >= comm->councils || message->head.subject) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        free(message);
    }
}

void motet_council_open(struct motet_council *council)
{
    motetComm_t comm = council->comm;
    if (!council->subject) {
        pthread_mutex_lock(&comm->peers_lock);
        council->session = ++comm->councils;
        drop_old(comm);
        pthread_mutex_unlock(&comm->peers_lock);
    }
    council->since_ns = motet_now_ns();
    council->warn_ns =
        comm->options.warn_after_ms > 0 ? council->since_ns + (uint64_t)comm->options.warn_after_ms * 1000000 : UINT64_MAX;
    struct head head = head_of(council, KIND_NO_MEMBER);
    if (!council->subject)
        send_to_all(council, false, &head, NULL);
}

/* ---- Gathering ---- */

static motetResult_t blame(const struct motet_council *council, motetResult_t code, int rank, const char *what)
{
    const struct motet_peer *peer = peer_of(council->comm, rank);
    return motet_fail_quiet(code, "%s on comm \"%s\" (%d ranks), rank %d: rank %d (pid %d on %s) %s", council->what,
                            council->comm->options.name, council->comm->nranks, council->comm->rank, rank,
                            (int)peer->endpoint->process.pid, peer->endpoint->process.host_name, what);
}

/* Whether a later message of its sender says that the council of this one is over. */
static bool is_superseded(const struct motet_council_message *message)
{
    for (const struct motet_council_message *later = message->next; later; later = later->next)
        if (later->head.rank == message->head.rank &&
            ((later->head.kind == KIND_BLOB && later->head.session > message->head.session) ||
             (later->head.kind == KIND_WITHDRAWN && later->head.session >= message->head.session)))
            return true;
    return false;
}

/* Waits a little before it ends the council: the ranks to blame may be about to see for themselves. */
static bool is_patient(uint64_t *until_ns)
{
    uint64_t now_ns = motet_now_ns();
    if (*until_ns == 0)
        *until_ns = now_ns + PATIENCE_NS;
    return now_ns < *until_ns;
}

/* Word from a member that ends this council. */
static motetResult_t take_refusal(struct motet_council *council, const struct motet_council_message *message)
{
    const struct head *head = &message->head;
    if (head->subject != council->subject || head->session < council->session || !council->member[head->rank])
        return motetSuccess;
    if (head->kind == KIND_NO_MEMBER && !is_superseded(message) && !is_patient(&council->refused_ns))
        return blame(council, motetInvalidUsage, head->rank, "does not count this rank in: both must give the same list");
    if (head->kind != KIND_FAILED || head->session != council->session)
        return motetSuccess;
    bool known = head->code > motetSuccess && head->code < motetNumResults;
    return motet_fail_quiet(known ? (motetResult_t)head->code : motetRemoteError, "%s", message->bytes);
}

/* A member that is further than this rank began with: it failed in no council of this number, so it will never come to one. The lock is
 * held. Returns whether this rank must speak again. */
static bool catch_up(struct motet_council *council)
{
    uint32_t highest = council->session;
    for (struct motet_council_message *message = council->comm->council_mail; message; message = message->next)
        if (message->head.kind == KIND_BLOB && council->member[message->head.rank] && message->head.session > highest)
            highest = message->head.session;
    if (council->subject || council->round > 0 || highest == council->session)
        return false;
    council->session = council->comm->councils = highest;
    return true;
}

/* Takes the blobs of this round, those of a subject for good. The lock is held. */
static motetResult_t take_mail(struct motet_council *council, bool *have, char *all, size_t len)
{
    for (struct motet_council_message **at = &council->comm->council_mail, *message = *at; message; message = *at) {
        const struct head *head = &message->head;
        bool mine = head->kind == KIND_BLOB && head->subject == council->subject && head->session == council->session &&
                    head->round == council->round && head->len == len && council->member[head->rank] && !have[head->rank];
        if (mine) {
            memcpy(all + (size_t)head->rank * len, message->bytes, len);
            have[head->rank] = true;
        }
        if (mine && council->subject) {
            *at = message->next;
            free(message);
        } else {
            at = &message->next;
        }
    }
    for (struct motet_council_message *message = council->comm->council_mail; message; message = message->next)
        TRY(take_refusal(council, message));
    return motetSuccess;
}

static bool said_farewell(motetComm_t comm, int rank)
{
    for (struct motet_council_message *message = comm->council_mail; message; message = message->next)
        if (message->head.kind == KIND_LEFT && message->head.rank == rank)
            return true;
    return false;
}

/* Whether a member that has not answered never will. The lock is held. */
static motetResult_t check_lives(struct motet_council *council, const bool *have)
{
    char what[sizeof((struct motet_endpoint *)0)->cause + 16];
    for (int r = 0; r < council->comm->nranks; r++) {
        const struct motet_peer *peer = peer_of(council->comm, r);
        if (!council->member[r] || have[r])
            continue;
        if (atomic_load_explicit(&peer->dead, memory_order_acquire)) {
            snprintf(what, sizeof what, "is gone: %s", peer->endpoint->cause);
            return blame(council, motetRemoteError, r, what);
        }
        if (said_farewell(council->comm, r))
            return blame(council, motetRemoteError, r, "has destroyed or aborted its end");
        if (!peer->mapped || atomic_load(&motet_region_control(peer->region)->state) == MOTET_RANK_ALIVE)
            continue;
        if (!is_patient(&council->gone_ns))
            return blame(council, motetRemoteError, r, "has finalized, destroyed or aborted its end");
    }
    return motetSuccess;
}

/* "2, 5" of the members that have not answered. */
static void list_missing(const struct motet_council *council, const bool *have, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int r = 0; r < council->comm->nranks && at + 24 < size; r++)
        if (council->member[r] && !have[r])
            at += (size_t)snprintf(text + at, size - at, "%s%d", at ? ", " : "", r);
}

static motetResult_t check_abort(const struct motet_council *council)
{
    motetComm_t comm = council->comm;
    if (atomic_load(&comm->abort) || atomic_load(council->abort))
        return motet_fail_quiet(motetInvalidUsage, "%s on comm \"%s\" (%d ranks): rank %d aborted", council->what,
                                comm->options.name, comm->nranks, comm->rank);
    return motetSuccess;
}

static motetResult_t check_time(struct motet_council *council, const bool *have)
{
    char missing[160];
    motetComm_t comm = council->comm;
    uint64_t now_ns = motet_now_ns();
    if (now_ns < council->warn_ns && now_ns < council->deadline_ns)
        return motetSuccess;
    list_missing(council, have, missing, sizeof missing);
    double seconds = (double)(now_ns - council->since_ns) / 1e9;
    if (now_ns >= council->deadline_ns)
        return motet_fail_quiet(motetTimeout, "%s on comm \"%s\" (%d ranks), rank %d: no word for %.1f s (%s) from ranks: %s",
                                council->what, comm->options.name, comm->nranks, comm->rank, seconds, council->limit_from, missing);
    council->warn_ns = now_ns + (uint64_t)comm->options.warn_after_ms * 1000000;
    WARN(MOTET_LOG_INIT, "%s on comm \"%s\" (%d ranks), rank %d: no word for %.1f s from ranks: %s", council->what,
         comm->options.name, comm->nranks, comm->rank, seconds, missing);
    return motetSuccess;
}

static bool is_complete(const struct motet_council *council, const bool *have)
{
    for (int r = 0; r < council->comm->nranks; r++)
        if (council->member[r] && !have[r])
            return false;
    return true;
}

/* One look at the mail, and at the members. *complete: all blobs are there. */
static motetResult_t look(struct motet_council *council, bool *have, char *all, size_t len, bool *complete, bool *again)
{
    TRY(take_mail(council, have, all, len));
    *again = catch_up(council);
    if (*again) {
        memset(have, 0, (size_t)council->comm->nranks * sizeof *have);
        have[council->comm->rank] = true;
        return motetSuccess;
    }
    *complete = is_complete(council, have);
    return *complete ? motetSuccess : check_lives(council, have);
}

static motetResult_t wait_for_all(struct motet_council *council, bool *have, char *all, size_t len)
{
    motetComm_t comm = council->comm;
    const char *mine = all + (size_t)comm->rank * len;
    for (bool again = true;;) {
        bool moved = false, complete = false;
        if (again) {
            struct head head = head_of(council, KIND_BLOB);
            head.len = (uint32_t)len;
            send_to_all(council, true, &head, mine);
        }
        uint32_t ticket = motet_doorbell_ticket(); /* before the look: mail that comes after it rings */
        motet_comm_poll(comm, &moved);             /* data that nobody waits for any more must not keep the sleep short */
        TRY(check_abort(council));                 /* first: the others may leave because of it */
        pthread_mutex_lock(&comm->peers_lock);
        motetResult_t result = look(council, have, all, len, &complete, &again);
        pthread_mutex_unlock(&comm->peers_lock);
        if (complete || result != motetSuccess)
            return result;
        TRY(check_time(council, have));
        if (!moved && !again)
            motet_doorbell_wait(ticket, motet_now_ns() + SLICE_NS);
    }
}

motetResult_t motet_council_gather(struct motet_council *council, const void *mine, void *all, size_t len)
{
    motetComm_t comm = council->comm;
    bool *have = calloc((size_t)comm->nranks, sizeof *have);
    motetResult_t result;
    if (have) {
        memcpy((char *)all + (size_t)comm->rank * len, mine, len);
        have[comm->rank] = true;
        result = wait_for_all(council, have, all, len);
    } else {
        result = motet_fail(motetSystemError, "out of memory: %s on communicator %s", council->what, comm->options.name);
    }
    free(have);
    council->round++;
    council->gone_ns = 0;
    if (result != motetSuccess)
        motet_council_give_up(council, result);
    return result;
}
