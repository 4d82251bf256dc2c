/* SPDX-License-Identifier: Apache-2.0
 * See mismatch.h. Records of ranks that share memory are read in place. Those of other hosts are asked for, all at once: the first answer that
 * differs waits for the others, so that the sentence can count everybody; a rank that has not called yet is waited for a moment. */
#include "mismatch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/os.h"
#include "call_text.h"

#define ANSWERS_NS (200 * 1000 * 1000ull) /* for the rest of the answers: who does not answer by then stands still */
#define CALLS_NS   (100 * 1000 * 1000ull) /* for ranks that share memory to make the call */
#define STEPS_BACK 32 /* calls before the current one in which remote ranks are asked for the first difference */
#define SIDES      6  /* different calls that a sentence tells of */

struct audit_answer {
    uint64_t seq; /* number + 1 of the call that it is about; 0: there is none */
    bool known;
    struct motet_record record;
};

/* Questions to all remote ranks about one call. */
struct motet_audit {
    uint64_t seq;
    uint64_t differs_ns;           /* an answer differs, since then; 0: none does */
    bool asked_again;              /* those that had not called it yet */
    int steps_back;                /* how far before the call that was current */
    struct audit_answer answers[]; /* by position */
};

/* ---- Records ---- */

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

/* What a rank called as number seq, as far as this one can know now. peers_lock is held. */
static bool record_of(motetComm_t comm, int position, uint64_t seq, struct motet_record *out)
{
    const struct motet_peer *peer = &comm->peers[position];
    if (position == comm->position || peer->mapped)
        return read_record(&comm->layout, position == comm->position ? comm->region : peer->region, seq, out);
    const struct audit_answer *answer = comm->audit ? &comm->audit->answers[position] : NULL;
    if (!answer || answer->seq != seq + 1 || !answer->known)
        return false;
    *out = answer->record;
    return true;
}

/* ---- The sentence ---- */

struct side {
    struct motet_record record;
    int nranks;
};

struct sides {
    struct side at[SIDES];
    int n, nothers; /* others: ranks on further sides */
    uint8_t *of;    /* by rank: side + 1; 0: not known, or a further one */
};

/* Sides in the order of their first ranks. */
static void sort_into_sides(motetComm_t comm, uint64_t seq, struct sides *sides)
{
    for (int r = 0; r < comm->nranks; r++) {
        struct motet_record record;
        int s = 0;
        if (!record_of(comm, comm->position_of[r], seq, &record))
            continue;
        while (s < sides->n && !(same_call(&record, &sides->at[s].record) && record.history == sides->at[s].record.history))
            s++;
        if (s == SIDES) {
            sides->nothers++;
            continue;
        }
        if (s == sides->n)
            sides->at[sides->n++] = (struct side){.record = record};
        sides->at[s].nranks++;
        sides->of[r] = (uint8_t)(s + 1);
    }
}

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

#define RANGES 5 /* of ranks, named in one list */

/* "rank 4", "ranks 0-3, 5". */
static void append_ranks(char *text, size_t size, const struct sides *sides, int side, int nranks)
{
    int nranges = 0, named = 0;
    append(text, size, "rank%s ", sides->at[side].nranks > 1 ? "s" : "");
    for (int r = 0; r < nranks && nranges < RANGES; r++) {
        int last = r;
        if (sides->of[r] != side + 1)
            continue;
        while (last + 1 < nranks && sides->of[last + 1] == side + 1)
            last++;
        append(text, size, last > r + 1 ? "%s%d-%d" : last > r ? "%s%d, %d" : "%s%d", nranges++ ? ", " : "", r, last);
        named += last - r + 1;
        r = last;
    }
    if (named < sides->at[side].nranks)
        append(text, size, " and %d more", sides->at[side].nranks - named);
}

static bool looks_alike(const struct sides *sides)
{
    for (int a = 0; a < sides->n; a++)
        for (int b = a + 1; b < sides->n; b++)
            if (same_call(&sides->at[a].record, &sides->at[b].record))
                return true;
    return false;
}

/* What the ranks of the communicator called as number seq becomes this thread's error. peers_lock is held. */
static void describe(motetComm_t comm, uint64_t seq)
{
    char text[sizeof comm->control->fault.text] = "", call[128];
    struct sides sides = {.of = calloc((size_t)comm->nranks, 1)};
    if (sides.of)
        sort_into_sides(comm, seq, &sides);
    for (int s = 0; s < sides.n; s++) {
        append(text, sizeof text, "%s", s ? ", " : "");
        append_ranks(text, sizeof text, &sides, s, comm->nranks);
        append(text, sizeof text, " called %s", motet_call_text(call, sizeof call, &sides.at[s].record));
    }
    if (sides.nothers)
        append(text, sizeof text, ", %d more called something else", sides.nothers);
    if (looks_alike(&sides))
        append(text, sizeof text, "; an earlier call differed");
    free(sides.of);
    motet_fail_quiet(motetInvalidUsage, "comm \"%s\" (%d ranks), call %" PRIu64 ": %s", comm->options.name, comm->nranks, seq,
                     sides.n > 1 ? text : "ranks made different calls");
}

/* Whether all ranks that share memory, and live, have called something as number seq. */
static bool all_called(motetComm_t comm, uint64_t seq)
{
    for (int p = 0; p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        if (p != comm->position && peer->mapped && !atomic_load(&peer->dead) && !motet_comm_has_finished(comm, p) &&
            atomic_load_explicit(&motet_region_control(peer->region)->progress.calls, memory_order_acquire) < seq)
            return false;
    }
    return true;
}

/* Those that have not called yet may do so within moments: the sentence shall count them. */
static motetResult_t say(motetComm_t comm, uint64_t seq)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t deadline_ns = motet_now_ns() + CALLS_NS;
    while (!all_called(comm, seq) && motet_now_ns() < deadline_ns) {
        TRY(motet_comm_check(comm));
        nanosleep(&pause, NULL);
    }
    pthread_mutex_lock(&comm->peers_lock);
    describe(comm, seq);
    pthread_mutex_unlock(&comm->peers_lock);
    return motet_comm_fault(comm, motetInvalidUsage);
}

/* ---- Ranks that share memory ---- */

/* The first call, at most `seq`, in which a mapped peer's history differs from the own one; 0: none that both remember. */
static uint64_t first_difference(motetComm_t comm, int peer, uint64_t seq)
{
    struct motet_record mine, theirs;
    uint64_t differs = 0;
    for (uint64_t s = seq; s > 0 && s + comm->layout.nrecords > seq + 1; s--) {
        if (!read_record(&comm->layout, comm->region, s, &mine) ||
            !read_record(&comm->layout, comm->peers[peer].region, s, &theirs))
            continue;
        if (mine.history == theirs.history)
            break;
        differs = s;
    }
    return differs;
}

motetResult_t motet_comm_mismatch(motetComm_t comm, int position, uint64_t seq, uint64_t theirs)
{
    TRY(motet_comm_check(comm));
    if (comm->peers[position].mapped) {
        uint64_t differs = first_difference(comm, position, seq);
        if (differs)
            return say(comm, differs);
    } else if (comm->asked_seq != seq) { /* once: the slot is looked at again and again until the answer comes */
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

/* ---- Ranks of other hosts ---- */

/* The ones without an answer, or that had not made the call. peers_lock is held. */
static void ask_again(motetComm_t comm)
{
    const struct motet_audit_message question = {.seq = comm->audit->seq, .position = comm->position};
    for (int p = 0; p < comm->nranks; p++)
        if (p != comm->position && !comm->peers[p].mapped && !comm->audit->answers[p].known)
            motet_endpoint_control(comm->peers[p].endpoint, comm->peers[p].key, MOTET_CONTROL_AUDIT, &question, sizeof question);
}

/* Asks all of them about call `seq`. peers_lock is held. */
static void ask(motetComm_t comm, uint64_t seq, int steps_back)
{
    size_t n = (size_t)comm->nranks;
    if (!comm->audit)
        comm->audit = calloc(1, sizeof *comm->audit + n * sizeof comm->audit->answers[0]);
    if (!comm->audit)
        return; /* once more in a second */
    memset(comm->audit, 0, sizeof *comm->audit + n * sizeof comm->audit->answers[0]);
    comm->audit->seq = seq;
    comm->audit->steps_back = steps_back;
    ask_again(comm);
}

motetResult_t motet_comm_audit(motetComm_t comm)
{
    uint64_t seq = motet_comm_seq(comm);
    for (int p = 0; p < comm->nranks; p++) {
        uint64_t differs = p != comm->position && comm->peers[p].mapped ? first_difference(comm, p, seq) : 0;
        if (differs)
            return say(comm, differs);
    }
    if (comm->nmapped == comm->nranks)
        return motetSuccess;
    TRY(motet_comm_audit_end(comm));
    pthread_mutex_lock(&comm->peers_lock);
    if (!comm->audit || !comm->audit->differs_ns)
        ask(comm, seq, 0);
    pthread_mutex_unlock(&comm->peers_lock);
    return motetSuccess;
}

motetResult_t motet_comm_audit_end(motetComm_t comm)
{
    if (comm->nmapped == comm->nranks)
        return motetSuccess;
    pthread_mutex_lock(&comm->peers_lock);
    struct motet_audit *audit = comm->audit;
    bool ends = audit && audit->differs_ns && motet_now_ns() - audit->differs_ns > ANSWERS_NS;
    if (audit && audit->differs_ns && !ends && !audit->asked_again) {
        audit->asked_again = true;
        ask_again(comm);
    }
    uint64_t seq = ends ? audit->seq : 0;
    pthread_mutex_unlock(&comm->peers_lock);
    return ends ? say(comm, seq) : motetSuccess;
}

void motet_comm_answer_audit(motetComm_t comm, const struct motet_audit_message *question)
{
    struct motet_audit_message answer = {.seq = question->seq, .position = comm->position};
    if (question->position < 0 || question->position >= comm->nranks)
        return;
    answer.known = read_record(&comm->layout, comm->region, question->seq, &answer.record);
    struct motet_peer *peer = &comm->peers[question->position];
    motet_endpoint_control(peer->endpoint, peer->key, MOTET_CONTROL_ANSWER, &answer, sizeof answer);
}

static bool all_known(const struct motetComm *comm)
{
    for (int p = 0; p < comm->nranks; p++)
        if (p != comm->position && !comm->peers[p].mapped && !comm->audit->answers[p].known && !atomic_load(&comm->peers[p].dead))
            return false;
    return true;
}

void motet_comm_take_audit(motetComm_t comm, const struct motet_audit_message *answer)
{
    struct motet_audit *audit = comm->audit;
    struct motet_record mine;
    if (!audit || answer->seq != audit->seq || answer->position < 0 || answer->position >= comm->nranks)
        return;
    audit->answers[answer->position] =
        (struct audit_answer){.seq = answer->seq + 1, .known = answer->known != 0, .record = answer->record};
    if (answer->known && read_record(&comm->layout, comm->region, audit->seq, &mine) && mine.history != answer->record.history) {
        if (same_call(&mine, &answer->record) && audit->seq > 1 && audit->steps_back < STEPS_BACK) {
            ask(comm, audit->seq - 1, audit->steps_back + 1); /* an earlier call differed */
            return;
        }
        audit->differs_ns = audit->differs_ns ? audit->differs_ns : motet_now_ns();
    }
    if (!audit->differs_ns || !all_known(comm))
        return;
    describe(comm, audit->seq);
    motet_comm_fault(comm, motetInvalidUsage);
}

void motet_comm_audit_free(motetComm_t comm)
{
    free(comm->audit);
    comm->audit = NULL;
}
