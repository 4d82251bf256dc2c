/* SPDX-License-Identifier: Apache-2.0
 * See ledger.h. One lock guards the list of communicators and everything in it; it is held for what takes microseconds, and never while
 * waiting for anybody. Only communicators of this process are in the list, so a rank is looked after by its own process alone. */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "account.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "clock.h"
#include "footprint.h"
#include "process.h"
#include "report.h"
#include "timing.h"

#define TICK_NS    MOTET_CLOCK_PERIOD_NS
#define ACCOUNT_NS 1000000000ull /* between two accounts that a rank writes while it makes calls */
#define LOCK_TRIES 100           /* of a millisecond each, at exit */
#define FINISH_NS  5000000000ull /* rank 0 waits so long for the last accounts of the others */

struct motet_ledger {
    motetComm_t comm;
    uint64_t id;              /* of the communicator: a pointer may be used again */
    struct motet_ledger *job; /* of the job's communicator; itself there. NULL: that one is gone */
    int *rank_of;             /* rank in the job by position; NULL: unknown */
    uint64_t compared;        /* samples before this one have been compared */
    uint64_t accounted_ns;    /* when the account was written last */
    bool finished;
    bool reporting; /* its report is being written, without the lock: it must stay */
    struct motet_ledger *next;

    /* Of a job's communicator. */
    uint64_t begun_ns, step_ns, step_exposed_ns; /* step: when the current one began; exposed until then */
    _Atomic uint64_t blocked_ns;
    struct motet_account closed;    /* what communicators that are gone counted, and the steps */
    struct motet_account *accounts; /* rank 0: what others said, by rank */
};

static void install_at_exit(void);
static void write_report(motetComm_t comm, uint64_t id);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct motet_ledger *ledgers;

/* ---- Accounts. The lock is held. ---- */

/* Estimates may exceed what there was: of the time of one thread that calls, and of one that runs streams, no more than all. */
static void fit(struct motet_account *account)
{
    uint64_t most = account->stream_ns > 0 ? 2 * account->wall_ns : account->wall_ns, time = account->time_ns;
    if (time <= most)
        return;
    double scale = (double)most / (double)time;
    account->time_ns = most;
    account->stream_ns = (uint64_t)((double)account->stream_ns * scale);
    account->wait_ns = (uint64_t)((double)account->wait_ns * scale);
    account->wait_late_ns = (uint64_t)((double)account->wait_late_ns * scale);
    account->reduce_ns = (uint64_t)((double)account->reduce_ns * scale);
}

static void add_up(struct motet_ledger *job, struct motet_account *account)
{
    *account = job->closed;
    for (struct motet_ledger *ledger = ledgers; ledger; ledger = ledger->next)
        if (ledger->job == job)
            motet_account_add(account, ledger->comm, ledger->rank_of);
    account->known = 1;
    account->wall_ns = motet_now_ns() - job->begun_ns;
    account->blocked_ns = motet_tally_read(&job->blocked_ns);
    fit(account);
}

/* Time in which the program waited for the library: in its own calls, and for streams. */
static uint64_t exposed(const struct motet_account *account)
{
    return account->time_ns - account->stream_ns + account->blocked_ns;
}

static struct motet_account_page *page_of(motetComm_t comm, int position)
{
    struct motet_tally *tally = (struct motet_tally *)(comm->peers[position].region + comm->layout.tally);
    return motet_tally_account(tally, comm->nranks);
}

/* Shows the account to those who map the region, and sends it to rank 0 if it does not. */
static void show_account(struct motet_ledger *job, bool final)
{
    motetComm_t comm = job->comm;
    struct motet_account account;
    struct motet_peer *root = &comm->peers[comm->position_of[0]];
    add_up(job, &account);
    account.final = final;
    account.rank = comm->rank;
    motet_account_write(page_of(comm, comm->position), &account);
    if (!root->mapped)
        motet_endpoint_control(root->endpoint, root->key, MOTET_CONTROL_ACCOUNT, &account, sizeof account);
}

/* Compares and accounts what one communicator did. */
static void look_after(struct motet_ledger *ledger, uint64_t now_ns)
{
    ledger->compared = motet_account_compare(ledger->comm, ledger->compared);
    motet_account_look_at_thread(ledger->comm, now_ns);
    motet_timing_work_out(ledger->comm);
    if (ledger->job == ledger && now_ns - ledger->accounted_ns >= ACCOUNT_NS) {
        ledger->accounted_ns = now_ns;
        show_account(ledger, ledger->finished);
    }
}

/* On the service thread, ten times a second while the cheap clock runs, that is while calls are made. */
static uint64_t tick(uint64_t now_ns)
{
    static uint64_t due_ns;
    if (now_ns < due_ns)
        return due_ns;
    if (atomic_load_explicit(&motet_clock.now_ns, memory_order_relaxed) == 0 && motet_clock_error_ns() != 0)
        return UINT64_MAX;
    pthread_mutex_lock(&lock);
    for (struct motet_ledger *ledger = ledgers; ledger; ledger = ledger->next)
        look_after(ledger, now_ns);
    pthread_mutex_unlock(&lock);
    due_ns = now_ns + TICK_NS;
    return due_ns;
}

/* ---- The list ---- */

static struct motet_ledger *find(motetComm_t comm)
{
    struct motet_ledger *ledger = ledgers;
    while (ledger && ledger->comm != comm)
        ledger = ledger->next;
    return ledger;
}

/* The job of communicator `id`, which was not split from another: the process's first one, if this process is one rank of it only, and is
 * not about to become another one by this. */
static struct motet_ledger *only_job(uint64_t id)
{
    struct motet_ledger *job = NULL;
    for (struct motet_ledger *ledger = ledgers; ledger; ledger = ledger->next)
        if (ledger->job == ledger)
            job = ledger; /* the list is newest first */
    for (struct motet_ledger *ledger = ledgers; job && ledger; ledger = ledger->next)
        if (ledger != job && ledger->id == job->id)
            return NULL;
    return job && job->id != id ? job : NULL;
}

/* The job's only rank in the process behind an endpoint, which all communicators share; -1: none, or several. */
static int rank_behind(motetComm_t job, const struct motet_endpoint *endpoint)
{
    int rank = -1, n = 0;
    for (int p = 0; p < job->nranks; p++)
        if (job->peers[p].endpoint == endpoint) {
            rank = job->rank_at[p];
            n++;
        }
    return n == 1 ? rank : -1;
}

/* Ranks in the job by position: of the job's communicator its own, after a split what the parent's were, else by process. */
static int *ranks_in_job(motetComm_t comm, const struct motet_ledger *job, const struct motet_ledger *parent,
                         const int32_t *parent_ranks, size_t stride)
{
    int *ranks = malloc((size_t)comm->nranks * sizeof *ranks);
    for (int p = 0; ranks && p < comm->nranks; p++) {
        int rank = comm->rank_at[p];
        if (parent && parent->rank_of)
            rank = parent->rank_of[parent->comm->position_of[parent_ranks[(size_t)rank * stride]]];
        else if (job)
            rank = rank_behind(job->comm, comm->peers[p].endpoint);
        ranks[p] = rank;
    }
    return ranks;
}

static void open_locked(struct motet_ledger *ledger, motetComm_t comm, motetComm_t parent, const int32_t *parent_ranks,
                        size_t stride)
{
    struct motet_ledger *from = parent ? find(parent) : NULL, *job = from ? from->job : parent ? NULL : only_job(comm->id);
    ledger->comm = comm;
    ledger->id = comm->id;
    ledger->job = job ? job : ledger;
    ledger->rank_of = ranks_in_job(comm, job, job ? from : NULL, parent_ranks, stride);
    ledger->begun_ns = ledger->step_ns = motet_now_ns();
    atomic_store_explicit(&motet_timing_tally(comm)->begun_ns, ledger->begun_ns, memory_order_relaxed);
    for (int w = 0; w < MOTET_ACCOUNT_WAITS; w++)
        ledger->closed.waits[w].rank = ledger->closed.links[w].rank = -1;
    for (int c = 0; c < MOTET_ACCOUNT_CANDIDATES; c++)
        ledger->closed.candidates[c].rank = -1;
    if (comm->rank == 0 && ledger->job == ledger)
        ledger->accounts = calloc((size_t)comm->nranks, sizeof *ledger->accounts);
    ledger->next = ledgers;
    ledgers = ledger;
    comm->ledger = ledger;
}

void motet_ledger_open(motetComm_t comm, motetComm_t parent, const int32_t *parent_ranks, size_t stride)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct motet_ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger)
        return;
    pthread_mutex_lock(&lock);
    open_locked(ledger, comm, parent, parent_ranks, stride);
    pthread_mutex_unlock(&lock);
    motet_process_also(tick);
    if (motet_report_wanted())
        pthread_once(&once, install_at_exit);
}

void motet_ledger_close(motetComm_t comm)
{
    struct motet_ledger *ledger = comm->ledger;
    if (ledger && comm->rank == 0 && motet_report_wanted())
        write_report(comm, comm->id); /* aborted: with what is known */
    pthread_mutex_lock(&lock);
    while (ledger && ledger->reporting) { /* by a thread that exits */
        const struct timespec pause = {.tv_nsec = 1000000};
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
    }
    if (ledger) {
        struct motet_ledger **link = &ledgers;
        if (ledger->job && ledger->job != ledger) {
            motet_account_add(&ledger->job->closed, comm, ledger->rank_of);
            ledger->job->closed.communicators--;
            ledger->job->closed.memory_bytes -= motet_footprint_total(comm);
        }
        for (struct motet_ledger *other = ledgers; other; other = other->next)
            other->job = other->job == ledger && other != ledger ? NULL : other->job;
        while (*link != ledger)
            link = &(*link)->next;
        *link = ledger->next;
        comm->ledger = NULL;
        free(ledger->rank_of);
        free(ledger->accounts);
        free(ledger);
    }
    pthread_mutex_unlock(&lock);
}

int motet_ledger_count(void)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (struct motet_ledger *ledger = ledgers; ledger; ledger = ledger->next)
        n++;
    pthread_mutex_unlock(&lock);
    return n;
}

void motet_ledger_blocked(motetComm_t comm, uint64_t id, uint64_t ns)
{
    pthread_mutex_lock(&lock);
    struct motet_ledger *ledger = comm ? find(comm) : NULL;
    if (ledger && ledger->id == id && ledger->job)
        motet_tally_add(&ledger->job->blocked_ns, ns);
    pthread_mutex_unlock(&lock);
}

/* ---- Steps ---- */

motetResult_t motet_ledger_step(motetComm_t comm)
{
    struct motet_account account;
    uint64_t now = motet_now_ns();
    pthread_mutex_lock(&lock);
    struct motet_ledger *job = comm->ledger ? comm->ledger->job : NULL;
    if (job) {
        add_up(job, &account);
        uint64_t length = now - job->step_ns, so_far = exposed(&account),
                 spent = so_far > job->step_exposed_ns ? so_far - job->step_exposed_ns : 0;
        struct motet_account *sum = &job->closed;
        sum->steps++;
        sum->step_ns += length;
        sum->step_exposed_ns += spent < length ? spent : length;
        sum->step_longest_ns = length > sum->step_longest_ns ? length : sum->step_longest_ns;
        sum->step_lengths[motet_lag_bucket(length)]++;
        job->step_ns = now;
        job->step_exposed_ns = so_far;
    }
    pthread_mutex_unlock(&lock);
    return motetSuccess;
}

/* ---- What others say ---- */

void motet_ledger_take(motetComm_t comm, const void *bytes, size_t len)
{
    struct motet_account account;
    if (len != sizeof account)
        return;
    memcpy(&account, bytes, sizeof account);
    pthread_mutex_lock(&lock);
    struct motet_ledger *ledger = comm->ledger;
    if (ledger && ledger->accounts && account.rank > 0 && account.rank < comm->nranks)
        ledger->accounts[account.rank] = account;
    pthread_mutex_unlock(&lock);
}

/* The newest account of a rank; false: it has said nothing. The lock is held. */
static bool account_of(struct motet_ledger *job, int rank, struct motet_account *account)
{
    motetComm_t comm = job->comm;
    if (rank == comm->rank) {
        add_up(job, account);
        return true;
    }
    if (comm->peers[comm->position_of[rank]].mapped)
        return motet_account_read(page_of(comm, comm->position_of[rank]), account);
    if (!job->accounts)
        return false;
    *account = job->accounts[rank];
    return account->known;
}

static int host_of(const struct motetComm *comm, int rank)
{
    int h = 0;
    while (comm->host_first[h + 1] <= comm->position_of[rank])
        h++;
    return h;
}

/* Standings of all ranks of a job, with their accounts behind them in the same block. NULL: out of memory. The lock is held. */
static struct motet_standing *stand(struct motet_ledger *job)
{
    size_t n = (size_t)job->comm->nranks;
    struct motet_standing *standings = calloc(1, n * (sizeof *standings + sizeof(struct motet_account)));
    struct motet_account *accounts = standings ? (struct motet_account *)(standings + n) : NULL;
    for (int r = 0; standings && r < job->comm->nranks; r++)
        standings[r] = (struct motet_standing){account_of(job, r, &accounts[r]) ? &accounts[r] : NULL, host_of(job->comm, r)};
    return standings;
}

/* ---- The end ---- */

/* Ledgers of other ranks of the process change `job` when they go. The lock is held. */
static bool is_unfinished_job(const struct motet_ledger *ledger)
{
    return ledger->job == ledger && !ledger->finished;
}

static bool has_ended(struct motet_ledger *job, int rank)
{
    motetComm_t comm = job->comm;
    struct motet_peer *peer = &comm->peers[comm->position_of[rank]];
    struct motet_account account;
    if (peer->same_process || atomic_load(&peer->dead))
        return true;
    if (peer->mapped && atomic_load(&motet_region_control(peer->region)->state) != MOTET_RANK_ALIVE)
        return true;
    return account_of(job, rank, &account) && account.final;
}

/* The job of that communicator, if nobody has finished or closed it: a program may exit while another thread destroys. The lock is held. */
static struct motet_ledger *unfinished_job(motetComm_t comm, uint64_t id)
{
    struct motet_ledger *ledger = find(comm);
    return ledger && ledger->id == id && is_unfinished_job(ledger) ? ledger : NULL;
}

static bool all_have_ended(motetComm_t comm, uint64_t id)
{
    bool all = true;
    pthread_mutex_lock(&lock);
    struct motet_ledger *job = unfinished_job(comm, id);
    for (int r = 0; job && all && r < comm->nranks; r++)
        all = has_ended(job, r);
    pthread_mutex_unlock(&lock);
    return all;
}

/* Once. */
static void write_report(motetComm_t comm, uint64_t id)
{
    pthread_mutex_lock(&lock);
    struct motet_ledger *job = unfinished_job(comm, id);
    struct motet_standing *standings = job ? stand(job) : NULL;
    if (job)
        job->finished = job->reporting = true;
    pthread_mutex_unlock(&lock);
    if (standings)
        motet_report_write(comm, standings);
    free(standings);
    pthread_mutex_lock(&lock);
    if (job)
        job->reporting = false;
    pthread_mutex_unlock(&lock);
}

/* Ranks of this process may be driven by one thread, which destroys them one after the other: they say now what they know. The lock is
 * held. */
static void show_all(struct motet_ledger *job)
{
    for (struct motet_ledger *ledger = ledgers; ledger; ledger = ledger->next) {
        if (ledger->id == job->id)
            ledger->compared = motet_account_compare(ledger->comm, ledger->compared);
        if (ledger->id == job->id && ledger->job == ledger)
            show_account(ledger, ledger == job || ledger->finished);
    }
}

static void finish(motetComm_t comm, uint64_t id)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    pthread_mutex_lock(&lock);
    struct motet_ledger *job = unfinished_job(comm, id);
    bool reports = job && comm->rank == 0 && motet_report_wanted();
    if (job) {
        show_all(job);
        job->finished = comm->rank != 0;
    }
    pthread_mutex_unlock(&lock);
    uint64_t deadline_ns = motet_now_ns() + FINISH_NS;
    while (reports && !all_have_ended(comm, id) && motet_now_ns() < deadline_ns)
        nanosleep(&pause, NULL);
    if (reports)
        write_report(comm, id);
}

void motet_ledger_finish(motetComm_t comm)
{
    finish(comm, comm->id);
}

/* ---- Questions ---- */

static void fill_late(motetComm_t comm, motetCommStats_t *stats)
{
    struct motet_straggler worst = {.rank = -1}, found;
    struct motet_ledger *job = comm->ledger && comm->ledger->job == comm->ledger && comm->rank == 0 ? comm->ledger : NULL;
    for (int p = 0; p < comm->nranks; p++) {
        struct motet_candidate candidate;
        if (comm->peers[p].local_index < 0)
            continue;
        candidate = motet_account_candidate(comm, p);
        stats->compared = candidate.compared;
        if (!motet_straggler_stands_out(&candidate, comm->nlocal, &found) || (worst.rank >= 0 && worst.saved >= found.saved))
            continue;
        worst = found;
        worst.cause = motet_account_cause(comm, p);
    }
    struct motet_standing *standings = worst.rank < 0 && job ? stand(job) : NULL;
    if (standings)
        worst = motet_straggler_find(standings, comm->nranks);
    free(standings);
    stats->lateRank = worst.rank;
    stats->lateCause = worst.rank < 0 ? motetLateNobody : worst.cause;
    stats->lateShare = worst.share;
    stats->lateSaved = worst.saved;
    stats->lateP50Ns = worst.p50_ns;
    stats->lateP99Ns = worst.p99_ns;
}

static void fill_times(const struct motet_account *sum, motetCommStats_t *stats)
{
    memcpy(stats->sentBytes, sum->sent, sizeof stats->sentBytes);
    memcpy(stats->receivedBytes, sum->received, sizeof stats->receivedBytes);
    stats->timeNs = sum->time_ns;
    stats->streamTimeNs = sum->stream_ns;
    stats->waitNs = sum->wait_ns;
    stats->waitLateNs = sum->wait_late_ns;
    stats->reduceNs = sum->reduce_ns;
    stats->moveNs = sum->time_ns - sum->wait_ns - sum->reduce_ns;
    stats->longWaits = sum->long_waits;
}

/* The lock is held. */
static void fill_stats(motetComm_t comm, motetCommStats_t *stats)
{
    struct motet_account sum = {.known = 1};
    if (comm->ledger)
        comm->ledger->compared = motet_account_compare(comm, comm->ledger->compared);
    motet_account_look_at_thread(comm, motet_now_ns());
    motet_account_add(&sum, comm, NULL);
    fill_late(comm, stats);
    if (comm->ledger && comm->ledger->job)
        stats->blockedNs = motet_tally_read(&comm->ledger->job->blocked_ns);
    memcpy(stats->calls, sum.calls, sizeof stats->calls);
    memcpy(stats->bytes, sum.bytes, sizeof stats->bytes);
    fill_times(&sum, stats);
}

void motet_ledger_stats(motetComm_t comm, motetCommStats_t *stats)
{
    pthread_mutex_lock(&lock);
    fill_stats(comm, stats);
    pthread_mutex_unlock(&lock);
}

/* Who stands out, in a sentence. The lock is held. */
static void say_late(motetComm_t comm, const motetCommStats_t *stats, char *sentence, size_t len)
{
    const struct motet_straggler late = {.rank = stats->lateRank,
                                         .cause = stats->lateCause,
                                         .compared = stats->lateP50Ns ? stats->compared : 0, /* slow links are not compared */
                                         .share = stats->lateShare,
                                         .saved = stats->lateSaved,
                                         .p50_ns = stats->lateP50Ns,
                                         .p99_ns = stats->lateP99Ns};
    if (late.rank >= 0)
        motet_report_straggler_text(&late, motet_report_host(comm, late.rank), sentence, len);
}

/* Whether the region is of another rank of the communicator that can be read here: then what its tally tells. The lock is held. */
static bool look_at_peer(motetComm_t comm, const char *region, motetCommStats_t *stats)
{
    int p = 0;
    while (p < comm->nranks && !(comm->peers[p].mapped && comm->peers[p].region == region))
        p++;
    if (p == comm->nranks)
        return false;
    struct motet_account sum = {.known = 1};
    motet_account_add_tally(&sum, (const struct motet_tally *)(const void *)(region + comm->layout.tally));
    fill_times(&sum, stats);
    stats->lateRank = -1;
    return true;
}

bool motet_ledger_look(const char *region, motetCommStats_t *stats, char *sentence, size_t len)
{
    bool found = false;
    sentence[0] = '\0';
    pthread_mutex_lock(&lock);
    for (struct motet_ledger *ledger = ledgers; ledger && !found; ledger = ledger->next)
        if (ledger->comm->region == region) {
            fill_stats(ledger->comm, stats);
            say_late(ledger->comm, stats, sentence, len);
            found = true;
        }
    for (struct motet_ledger *ledger = ledgers; ledger && !found; ledger = ledger->next)
        found = look_at_peer(ledger->comm, region, stats);
    pthread_mutex_unlock(&lock);
    return found;
}

void motet_ledger_find(const char *region, void (*look)(void *context, motetComm_t comm), void *context)
{
    pthread_mutex_lock(&lock);
    for (struct motet_ledger *ledger = ledgers; ledger; ledger = ledger->next)
        if (ledger->comm->region == region)
            look(context, ledger->comm);
    pthread_mutex_unlock(&lock);
}

/* ---- A program that ends without destroying its communicators ---- */

/* The service thread holds the lock for moments; whoever holds it for longer may be stuck. */
static bool lock_briefly(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int tries = 0;
    while (pthread_mutex_trylock(&lock) != 0) {
        if (++tries > LOCK_TRIES)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static void at_exit(void)
{
    struct {
        motetComm_t comm;
        uint64_t id;
    } jobs[64];
    int n = 0;
    if (motet_process_check_fork() != motetSuccess || !lock_briefly())
        return; /* a child of fork; or another thread is busy here and will not be stopped */
    for (struct motet_ledger *ledger = ledgers; ledger && n < 64; ledger = ledger->next)
        if (is_unfinished_job(ledger)) {
            jobs[n].comm = ledger->comm;
            jobs[n++].id = ledger->id;
        }
    pthread_mutex_unlock(&lock);
    for (int i = n - 1; i >= 0; i--)
        finish(jobs[i].comm, jobs[i].id);
}

static void install_at_exit(void)
{
    atexit(at_exit);
}
