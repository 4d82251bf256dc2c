/* SPDX-License-Identifier: Apache-2.0
 * See account.h. */
#include "account.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "footprint.h"
#include "straggler.h"
#include "timing.h"

#define COMPARED_AT_ONCE 4096 /* samples of all ranks together that one look compares: about 200 us */
#define SAMPLES_AHEAD    32   /* a sample this close to being overwritten is passed over */

/* ---- Comparing ---- */

static struct motet_tally *tally_at(motetComm_t comm, int position)
{
    return (struct motet_tally *)(comm->peers[position].region + comm->layout.tally);
}

static int host_first(const struct motetComm *comm, int *end)
{
    int h = 0;
    while (comm->host_first[h + 1] <= comm->position)
        h++;
    *end = comm->host_first[h + 1];
    return comm->host_first[h];
}

/* 1: the sample of that number and call is there and was read whole; 0: not yet; -1: not any more, or of another call. */
static int read_sample(struct motet_tally *tally, uint64_t number, uint64_t seq, struct motet_arrival *arrival)
{
    struct motet_sample *sample = &tally->samples[number & (MOTET_SAMPLES - 1)];
    if (atomic_load_explicit(&tally->samples_written, memory_order_acquire) <= number)
        return 0;
    if (atomic_load_explicit(&sample->seq, memory_order_acquire) != seq)
        return -1;
    arrival->begin_ns = motet_tally_read(&sample->begin_ns);
    arrival->wait_ns = motet_tally_read(&sample->wait_ns);
    arrival->away_ns = motet_tally_read(&sample->away_ns);
    atomic_thread_fence(memory_order_acquire); /* the times were read before seq is read again */
    return motet_tally_read(&sample->seq) == seq ? 1 : -1;
}

uint64_t motet_account_compare(motetComm_t comm, uint64_t from)
{
    int end, first = host_first(comm, &end), n = end - first;
    struct motet_tally *own = motet_timing_tally(comm);
    uint64_t written = motet_tally_read(&own->samples_written), budget = (uint64_t)(COMPARED_AT_ONCE / n) + 1;
    if (first != comm->position || n < 2)
        return written;
    struct motet_arrival *arrivals = calloc((size_t)n, sizeof *arrivals);
    if (written - from > MOTET_SAMPLES - SAMPLES_AHEAD)
        from = written - (MOTET_SAMPLES - SAMPLES_AHEAD);
    for (; arrivals && from < written && budget > 0; from++, budget--) {
        struct motet_sample *sample = &own->samples[from & (MOTET_SAMPLES - 1)];
        uint64_t seq = motet_tally_read(&sample->seq), weight = motet_tally_read(&sample->weight);
        int there = 1;
        for (int r = 0; r < n && there == 1; r++)
            there = read_sample(tally_at(comm, first + r), from, seq, &arrivals[r]);
        if (there == 0)
            break; /* some rank is still in the call */
        if (there == 1)
            motet_straggler_compare(own, motet_tally_late(own) + first, arrivals, n, weight);
    }
    free(arrivals);
    return from;
}

double motet_account_late_share(motetComm_t comm)
{
    int end, first = host_first(comm, &end);
    const struct motet_late *late = &motet_tally_late(tally_at(comm, first))[comm->position];
    uint64_t all = motet_tally_read(&late->wait_all_ns), share = motet_tally_read(&late->late_wait_ns);
    return all > 0 ? (double)share / (double)all : 0;
}

struct motet_candidate motet_account_candidate(motetComm_t comm, int position)
{
    int end, first = host_first(comm, &end);
    struct motet_tally *tally = tally_at(comm, first);
    struct motet_late *late = &motet_tally_late(tally)[position];
    struct motet_candidate candidate = {.compared = motet_tally_read(&tally->compared),
                                        .decided = motet_tally_read(&tally->decided),
                                        .last = motet_tally_read(&late->last),
                                        .saved_ns = motet_tally_read(&late->saved_ns),
                                        .compared_ns = motet_tally_read(&tally->compared_ns),
                                        .rank = comm->rank_at[position]};
    for (int b = 0; b < MOTET_LAG_BUCKETS; b++)
        candidate.lag[b] = atomic_load_explicit(&late->lag[b], memory_order_relaxed);
    return candidate;
}

motetLateCause_t motet_account_cause(motetComm_t comm, int position)
{
    struct motet_tally *tally = tally_at(comm, position);
    uint64_t slept = 0;
    for (int d = 0; d < MOTET_TALLY_DRIVERS; d++)
        slept += motet_tally_read(&tally->times[d].long_wait_ns);
    return motet_straggler_cause(motet_tally_read(&tally->seen_ns), motet_tally_read(&tally->ran_ns),
                                 motet_tally_read(&tally->delayed_ns), slept);
}

/* ---- Adding up ---- */

/* Keeps the candidates with the most to save. A rank that is there already is added to. */
static void add_candidate(struct motet_account *account, const struct motet_candidate *more)
{
    int place = -1;
    for (int c = 0; c < MOTET_ACCOUNT_CANDIDATES; c++) {
        struct motet_candidate *there = &account->candidates[c];
        if (there->compared > 0 && there->rank == more->rank) {
            there->compared += more->compared;
            there->decided += more->decided;
            there->last += more->last;
            there->saved_ns += more->saved_ns;
            there->compared_ns += more->compared_ns;
            for (int b = 0; b < MOTET_LAG_BUCKETS; b++)
                there->lag[b] += more->lag[b];
            return;
        }
        if (there->compared == 0 || there->saved_ns < more->saved_ns)
            place = place < 0 || account->candidates[place].compared > 0 ? c : place;
    }
    if (place >= 0)
        account->candidates[place] = *more;
}

static void add_wait(struct motet_account *account, int rank, uint64_t ns)
{
    int place = 0;
    for (int w = 0; w < MOTET_ACCOUNT_WAITS; w++) {
        if (account->waits[w].ns > 0 && account->waits[w].rank == rank) {
            account->waits[w].ns += ns;
            return;
        }
        place = account->waits[w].ns < account->waits[place].ns ? w : place;
    }
    if (account->waits[place].ns < ns) {
        account->waits[place].rank = rank;
        account->waits[place].ns = ns;
    }
}

/* What the connections to other hosts tell: since the process began, whatever communicator used them. */
static void note_links(struct motet_account *account, motetComm_t comm, const int *rank_of)
{
    int end, first = host_first(comm, &end);
    for (int p = 0; rank_of && p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        if (rank_of[p] < 0 || (p >= first && p < end) || peer->mapped)
            continue;
        uint64_t busy_ns = motet_endpoint_busy_ns(peer->endpoint);
        int place = 0;
        for (int l = 0; l < MOTET_ACCOUNT_WAITS && account->links[place].rank != rank_of[p]; l++)
            place = account->links[l].rank == rank_of[p] || account->links[l].ns < account->links[place].ns ? l : place;
        if (busy_ns > account->links[place].ns) {
            account->links[place].rank = rank_of[p];
            account->links[place].ns = busy_ns;
        }
    }
}

static void add_others(struct motet_account *account, motetComm_t comm, const int *rank_of)
{
    int end, first = host_first(comm, &end);
    for (int p = 0; rank_of && p < comm->nranks; p++) {
        uint64_t waited = motet_tally_read(&motet_tally_late(motet_timing_tally(comm))[p].wait_ns);
        if (rank_of[p] < 0 || p == comm->position)
            continue;
        if (p < first || p >= end)
            add_wait(account, rank_of[p], waited);
    }
    for (int p = first; rank_of && first == comm->position && p < end; p++) {
        struct motet_candidate candidate = motet_account_candidate(comm, p);
        candidate.rank = rank_of[p];
        if (candidate.rank >= 0 && candidate.last > 0)
            add_candidate(account, &candidate);
    }
}

void motet_account_add_tally(struct motet_account *account, const struct motet_tally *tally)
{
    for (int d = 0; d < MOTET_TALLY_DRIVERS; d++) {
        const struct motet_tally_times *times = &tally->times[d];
        uint64_t brief = motet_tally_read(&times->brief_ns), wait = motet_tally_read(&times->brief_wait_ns),
                 lasting = motet_tally_read(&times->long_wait_ns), reduce = motet_tally_read(&times->reduce_ns);
        wait = wait < brief ? wait : brief;
        reduce = reduce < brief - wait ? reduce : brief - wait; /* an estimate from fewer calls */
        account->time_ns += brief + lasting;
        account->stream_ns += d == MOTET_TALLY_STREAM ? brief + lasting : 0;
        account->reduce_ns += reduce;
        account->long_waits += motet_tally_read(&times->long_waits);
        account->wait_ns += wait + lasting;
    }
    for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++) {
        account->sent[t] += motet_tally_read(&tally->sent[t]);
        account->received[t] += motet_tally_read(&tally->received[t]);
    }
}

void motet_account_add(struct motet_account *account, motetComm_t comm, const int *rank_of)
{
    struct motet_tally *tally = motet_timing_tally(comm);
    motet_timing_work_out(comm);
    account->known = 1;
    uint64_t waited_before = account->wait_ns;
    motet_account_add_tally(account, tally);
    account->wait_late_ns += (uint64_t)(motet_account_late_share(comm) * (double)(account->wait_ns - waited_before));
    for (int k = 0; k < MOTET_TALLY_KINDS; k++)
        for (int c = 0; c < MOTET_TALLY_CLASSES; c++) {
            account->calls[k][c] += motet_tally_read(&tally->cells[k][c].calls);
            account->bytes[k][c] += motet_tally_read(&tally->cells[k][c].bytes);
        }
    /* One thread may call on several communicators: the longest look at it counts. */
    if (motet_tally_read(&tally->seen_ns) > account->seen_ns) {
        account->seen_ns = motet_tally_read(&tally->seen_ns);
        account->ran_ns = motet_tally_read(&tally->ran_ns);
        account->delayed_ns = motet_tally_read(&tally->delayed_ns);
    }
    account->communicators++;
    account->memory_bytes += motet_footprint_total(comm);
    add_others(account, comm, rank_of);
    note_links(account, comm, rank_of);
}

/* ---- The thread that calls ---- */

void motet_account_look_at_thread(motetComm_t comm, uint64_t now_ns)
{
    struct motet_tally *tally = motet_timing_tally(comm);
    char path[64], text[96] = "";
    uint64_t ran, delayed;
    int thread = atomic_load_explicit(&tally->thread, memory_order_relaxed);
    if (thread == 0)
        return;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", thread);
    int file = motet_descriptor_lift(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t len = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    if (len <= 0 || sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &delayed) != 2)
        return;                        /* the thread has ended, or the kernel does not count */
    if (comm->thread_seen != thread) { /* what it did before does not concern this communicator */
        comm->thread_seen = thread;
        comm->thread_ran_ns = ran;
        comm->thread_delayed_ns = delayed;
        comm->thread_since_ns = now_ns;
        return;
    }
    motet_tally_add(&tally->ran_ns, ran - comm->thread_ran_ns);
    motet_tally_add(&tally->delayed_ns, delayed - comm->thread_delayed_ns);
    motet_tally_add(&tally->seen_ns, now_ns - comm->thread_since_ns);
    comm->thread_ran_ns = ran;
    comm->thread_delayed_ns = delayed;
    comm->thread_since_ns = now_ns;
}

/* ---- Pages ---- */

static void copy_words(void *to, const void *from)
{
    uint64_t *target = to;
    const uint64_t *source = from;
    for (size_t i = 0; i < sizeof(struct motet_account) / sizeof *target; i++)
        __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

void motet_account_write(struct motet_account_page *page, const struct motet_account *account)
{
    uint64_t version = atomic_load_explicit(&page->version, memory_order_relaxed);
    atomic_store_explicit(&page->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* a reader that sees a new word sees the odd version, or a later one */
    copy_words(&page->account, account);
    atomic_store_explicit(&page->version, version + 2, memory_order_release);
}

bool motet_account_read(const struct motet_account_page *page, struct motet_account *account)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t version = atomic_load_explicit(&page->version, memory_order_acquire);
        if (version == 0)
            return false;
        copy_words(account, &page->account);
        atomic_thread_fence(memory_order_acquire);
        if (version % 2 == 0 && atomic_load_explicit(&page->version, memory_order_relaxed) == version)
            return true;
    }
    return false; /* its writer was stopped in the middle */
}
