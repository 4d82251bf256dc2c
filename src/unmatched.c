/* SPDX-License-Identifier: Apache-2.0
 * A rank waits in Recv or Send for one that will never serve it. Two cases. The other one has finished: it says so in its control area, by the
 * way that its data took, so whoever sees the word has seen all data before. Or the other one waits in a collective that this rank has
 * not called: as operations of a communicator go in order, each waits for the other for ever. In the second case nothing may be in flight
 * between the two: between ranks that share memory a second look shows that; others tell how far their ends of the pair's rings are. */
#include "unmatched.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/os.h"
#include "call_text.h"
#include "circle.h"
#include "engine.h"
#include "p2p.h"
#include "recorder.h"
#include "reduce/reduce.h"

#define FRESH_NS (3000 * 1000 * 1000ull) /* a wait is asked about every second */
#define TELL_NS  (200 * 1000 * 1000ull)  /* how long finishing tries to tell a rank whose stream is full */

/* What a rank says about itself to one that waits for it. The question has position and seq only. */
struct motet_unmatched_answer {
    int32_t position;        /* of the sender */
    uint64_t seq;            /* the asker's newest collective */
    uint64_t call;           /* answer: it waits in this collective, which needs the one who asks; 0: it does not */
    char text[96];           /* that collective */
    uint64_t written, taken; /* its ring to the asker; what it took of the asker's ring */
    struct motet_standstill still;
    uint64_t came_ns; /* filled in by the asker */
};

/* ---- Finishing ---- */

void motet_comm_finish(motetComm_t comm)
{
    uint64_t alive = MOTET_RANK_ALIVE, deadline_ns = motet_now_ns() + TELL_NS;
    if (!atomic_compare_exchange_strong(&comm->control->state, &alive, MOTET_RANK_FINALIZED))
        return;
    for (int p = 0; p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        const struct timespec pause = {.tv_nsec = 1000000};
        if (p == comm->position)
            continue;
        if (peer->mapped) {
            motet_doorbell_ring(peer->endpoint);
            continue;
        }
        while (!motet_endpoint_put(peer->endpoint, peer->key, 0, NULL, 0, offsetof(struct motet_control_area, state),
                                   MOTET_RANK_FINALIZED) &&
               motet_now_ns() < deadline_ns)
            nanosleep(&pause, NULL); /* the service thread sends what waits */
    }
}

/* ---- Words ---- */

/* "rank 2 waits in Recv(3 x float32) from rank 0"; returns what the other one did not do. */
static const char *describe_wait(motetComm_t comm, int position, const struct motet_waiting *waiting, void *context, char *text,
                                 size_t len)
{
    const struct motet_transfer *message = waiting->message ? waiting->message(context, comm, position) : NULL;
    int other = comm->rank_at[position];
    if (!message) {
        char what[200] = "";
        waiting->describe(context, what, sizeof what);
        snprintf(text, len, "rank %d: %s", comm->rank, what);
        return NULL;
    }
    const struct motet_dtype *dtype = motet_dtype_row(message->dtype);
    snprintf(text, len, "rank %d waits in %s(%zu x %s) %s %srank %d", comm->rank, message->name, message->bytes / dtype->size,
             dtype->name, message->is_send ? "to" : "from", message->peer < 0 ? "any rank, of which only " : "", other);
    return message->is_send ? "received nothing from" : "sent nothing to";
}

motetResult_t motet_comm_finished(motetComm_t comm, int position, const struct motet_waiting *waiting, void *context)
{
    const struct motet_peer *peer = &comm->peers[position];
    char wait[320];
    const char *missing = describe_wait(comm, position, waiting, context, wait, sizeof wait);
    if (missing)
        motet_fail_quiet(motetRemoteError, "comm \"%s\" (%d ranks): %s; rank %d finished normally and %s rank %d (pid %d on %s)",
                         comm->options.name, comm->nranks, wait, peer->rank, missing, comm->rank, (int)peer->endpoint->process.pid,
                         peer->endpoint->process.host_name);
    else
        motet_fail_quiet(motetRemoteError, "comm \"%s\" (%d ranks): %s; rank %d (pid %d on %s) finished normally without that call",
                         comm->options.name, comm->nranks, wait, peer->rank, (int)peer->endpoint->process.pid,
                         peer->endpoint->process.host_name);
    return motet_comm_fault(comm, motetRemoteError);
}

motetResult_t motet_comm_unmatched(motetComm_t comm, const struct motet_unmatched *found, const struct motet_waiting *waiting,
                                   void *context)
{
    const struct motet_peer *peer = &comm->peers[found->position];
    char wait[320];
    const char *missing = describe_wait(comm, found->position, waiting, context, wait, sizeof wait);
    motet_fail_quiet(motetInvalidUsage,
                     "comm \"%s\" (%d ranks): %s; rank %d (pid %d on %s) waits in %s (call %" PRIu64
                     "), which rank %d has not called, and %s it",
                     comm->options.name, comm->nranks, wait, peer->rank, (int)peer->endpoint->process.pid,
                     peer->endpoint->process.host_name, found->text, found->call, comm->rank, missing ? missing : "waits for");
    return motet_comm_fault(comm, motetInvalidUsage);
}

/* ---- Who waits in a collective for whom ---- */

/* Whether a rank's call cannot complete without that of another one. */
static bool needs_rank(const struct motet_record *record, int caller, int other)
{
    switch (record->collective) {
    case MOTET_BROADCAST:
    case MOTET_SCATTER:
        return record->root == other;
    case MOTET_REDUCE:
    case MOTET_GATHER:
        return record->root == caller;
    default:
        return true;
    }
}

/* The number of the collective in which the owner of a region waits for `other` (a rank), whose newest is `seq`; 0: it does not. */
static uint64_t waits_in(motetComm_t comm, char *region, int owner, int other, uint64_t seq, char *text, size_t len)
{
    const struct motet_progress *progress = &motet_region_control(region)->progress;
    struct motet_record copy;
    uint64_t call = atomic_load_explicit(&progress->calls, memory_order_acquire);
    const struct motet_record *record = motet_region_record(&comm->layout, region, call);
    if (call <= seq || atomic_load_explicit(&progress->wait_ns, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&record->seq, memory_order_acquire) != call + 1)
        return 0;
    motet_record_copy(&copy, record);
    atomic_thread_fence(memory_order_acquire);
    bool whole = atomic_load_explicit(&record->seq, memory_order_relaxed) == call + 1;
    if (!whole || copy.state != MOTET_RECORD_STARTED || !needs_rank(&copy, owner, other))
        return 0;
    motet_call_text(text, len, &copy);
    return call;
}

/* ---- Ranks of other hosts ---- */

static void ask(motetComm_t comm, int position)
{
    struct motet_unmatched_answer question = {.position = comm->position, .seq = motet_comm_seq(comm)};
    const struct motet_peer *peer = &comm->peers[position];
    motet_endpoint_control(peer->endpoint, peer->key, MOTET_CONTROL_WAIT_QUESTION, &question, sizeof question);
}

static struct motet_ring_head *ring(motetComm_t comm, int owner, int other)
{
    return (struct motet_ring_head *)(comm->peers[owner].region + motet_layout_ring_head(&comm->layout, other));
}

void motet_comm_take_question(motetComm_t comm, const void *bytes, size_t len)
{
    const struct motet_unmatched_answer *question = bytes;
    if (len != sizeof *question || !comm->placed || question->position < 0 || question->position >= comm->nranks)
        return;
    int p = question->position;
    const struct motet_peer *peer = &comm->peers[p];
    struct motet_unmatched_answer answer = {.position = comm->position, .seq = question->seq};
    answer.call = waits_in(comm, comm->region, comm->rank, peer->rank, question->seq, answer.text, sizeof answer.text);
    /* After that look: while it waits there, these do not change. */
    answer.written = atomic_load_explicit(&ring(comm, comm->position, p)->written, memory_order_acquire);
    answer.taken = atomic_load_explicit(&ring(comm, comm->position, p)->taken, memory_order_acquire);
    answer.still = motet_standstill_read(comm, comm->region);
    motet_endpoint_control(peer->endpoint, peer->key, MOTET_CONTROL_WAIT_ANSWER, &answer, sizeof answer);
}

void motet_comm_take_answer(motetComm_t comm, const void *bytes, size_t len)
{
    const struct motet_unmatched_answer *answer = bytes;
    if (len == sizeof *answer && comm->wait_answers && answer->position >= 0 && answer->position < comm->nranks) {
        comm->wait_answers[answer->position] = *answer;
        comm->wait_answers[answer->position].came_ns = motet_now_ns();
    }
    motet_doorbell_ring_self();
}

/* What a remote rank said last; asks it again. */
static struct motet_unmatched_answer last_answer(motetComm_t comm, int position)
{
    struct motet_unmatched_answer answer = {0};
    pthread_mutex_lock(&comm->peers_lock);
    if (!comm->wait_answers)
        comm->wait_answers = calloc((size_t)comm->nranks, sizeof *comm->wait_answers);
    if (comm->wait_answers)
        answer = comm->wait_answers[position];
    pthread_mutex_unlock(&comm->peers_lock);
    ask(comm, position);
    return answer;
}

bool motet_comm_wait_answer(motetComm_t comm, int position, struct motet_standstill *still)
{
    struct motet_unmatched_answer answer = last_answer(comm, position);
    *still = answer.still;
    still->what[sizeof still->what - 1] = '\0';
    return answer.came_ns != 0 && motet_now_ns() - answer.came_ns < FRESH_NS;
}

/* What the last answer of a remote rank says now, when nothing is in flight between the two; 0: nothing. Asks again. */
static uint64_t answered(motetComm_t comm, int position, char *text, size_t len)
{
    struct motet_unmatched_answer answer = last_answer(comm, position);
    const struct motet_ring_head *mirror = ring(comm, position, comm->position);
    bool all_here = atomic_load_explicit(&mirror->written, memory_order_acquire) == answer.written &&
                    atomic_load_explicit(&mirror->taken, memory_order_acquire) == answer.taken;
    snprintf(text, len, "%.*s", (int)sizeof answer.text - 1, answer.text);
    return answer.seq == motet_comm_seq(comm) && all_here ? answer.call : 0;
}

struct motet_unmatched motet_comm_find_unmatched(motetComm_t comm, const struct motet_waiting *waiting, void *context)
{
    struct motet_unmatched found = {.call = 0};
    for (int p = 0; waiting->message && p < comm->nranks && found.call == 0; p++) {
        const struct motet_transfer *message = p == comm->position ? NULL : waiting->message(context, comm, p);
        if (!message || message->peer < 0)
            continue;
        found.position = p;
        found.call = comm->peers[p].mapped ? waits_in(comm, comm->peers[p].region, comm->rank_at[p], comm->rank,
                                                      motet_comm_seq(comm), found.text, sizeof found.text)
                                           : answered(comm, p, found.text, sizeof found.text);
    }
    return found;
}
