/* SPDX-License-Identifier: Apache-2.0
 * See straggler.h. All thresholds are here: a rank is named only where chance would hardly do what it did. */
#include "straggler.h"

#include <string.h>

#define LEAST_COMPARED 20   /* calls: below, chance has too much of a say */
#define LEAST_DECIDED  10   /* one of so many calls must have had a last rank that was waited for */
#define LEAST_SAVED    0.10 /* of all waiting: whoever costs less is nobody's problem */
#define LEAST_LAG_NS   2000 /* half of its delays must be longer: ranks that only lose the race by a cache miss are equal */

/* ---- Counting ---- */

static void count_last(struct motet_tally *tally, struct motet_late *late, const struct motet_arrival *arrivals, int n, int last,
                       uint64_t lag_ns, uint64_t weight)
{
    uint64_t saved = 0, longest = 0, waiting = 0;
    for (int r = 0; r < n; r++) {
        uint64_t wait = arrivals[r].wait_ns, mine = wait < lag_ns ? wait : lag_ns;
        waiting += motet_tally_weigh(weight, wait);
        saved += r == last ? 0 : motet_tally_weigh(weight, mine);
        longest = r != last && mine > longest ? mine : longest;
    }
    motet_tally_add(&tally->compared, 1);
    motet_tally_add(&tally->compared_ns, waiting);
    if (longest == 0 || longest < lag_ns / 2)
        return; /* nobody waited for it: the call does not need it (a leaf of a broadcast), or all were late together */
    motet_tally_add(&tally->decided, 1);
    motet_tally_add(&late->last, 1);
    motet_tally_add(&late->saved_ns, saved);
    _Atomic uint32_t *bucket = &late->lag[motet_lag_bucket(lag_ns)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* By how much longer one rank was in its own program than any other; 0 where that is not known of all. */
static uint64_t lag_by_absence(const struct motet_arrival *arrivals, int n, int *longest)
{
    uint64_t most = 0, second = 0;
    *longest = 0;
    for (int r = 0; r < n; r++) {
        uint64_t away = arrivals[r].away_ns;
        if (away == UINT64_MAX)
            return 0;
        if (away > most) {
            second = most;
            most = away;
            *longest = r;
        } else if (away > second) {
            second = away;
        }
    }
    return most - second;
}

void motet_straggler_compare(struct motet_tally *tally, struct motet_late *late, const struct motet_arrival *arrivals, int n,
                             uint64_t weight)
{
    int last = 0;
    uint64_t before_ns = 0;
    for (int r = 1; r < n; r++)
        last = arrivals[r].begin_ns > arrivals[last].begin_ns ? r : last;
    for (int r = 0; r < n; r++)
        before_ns = r != last && arrivals[r].begin_ns > before_ns ? arrivals[r].begin_ns : before_ns;
    for (int r = 0; r < n; r++) {
        uint64_t behind = arrivals[last].begin_ns - arrivals[r].begin_ns, wait = arrivals[r].wait_ns;
        motet_tally_add(&late[r].late_wait_ns, motet_tally_weigh(weight, behind < wait ? behind : wait));
        motet_tally_add(&late[r].wait_all_ns, motet_tally_weigh(weight, wait));
    }
    int longest;
    uint64_t lag_ns = lag_by_absence(arrivals, n, &longest);
    if (lag_ns < LEAST_LAG_NS) {
        longest = last;
        lag_ns = arrivals[last].begin_ns - before_ns;
    }
    count_last(tally, &late[longest], arrivals, n, longest, lag_ns, weight);
}

/* ---- Judging ---- */

/* The least lag that `share` of the counted ones do not exceed: the middle of its bucket. */
static uint64_t quantile(const uint32_t *lag, double share)
{
    uint64_t sum = 0, seen = 0;
    for (unsigned b = 0; b < MOTET_LAG_BUCKETS; b++)
        sum += lag[b];
    for (unsigned b = 0; b < MOTET_LAG_BUCKETS; b++) {
        seen += lag[b];
        if (seen > 0 && (double)seen >= share * (double)sum)
            return motet_lag_least_ns(b) * 5 / 4;
    }
    return 0;
}

/* Of n equal ranks each is last in 1/n of the calls that have a last one. Twice that, at least 40 %, and 75 % of two. A rank that was woken
 * too late to wait makes a call that has none, so these do not count against anybody. */
static double least_share(int n)
{
    double twice = 2.0 / n;
    return twice > 0.75 ? 0.75 : twice < 0.4 ? 0.4 : twice;
}

bool motet_straggler_stands_out(const struct motet_candidate *candidate, int nlocal, struct motet_straggler *out)
{
    if (candidate->compared < LEAST_COMPARED || nlocal < 2)
        return false;
    *out = (struct motet_straggler){
        .rank = (int)candidate->rank,
        .cause = motetLateUnknown,
        .compared = candidate->compared,
        .share = (double)candidate->last / (double)candidate->compared,
        .saved = candidate->compared_ns ? (double)candidate->saved_ns / (double)candidate->compared_ns : 0,
        .p50_ns = quantile(candidate->lag, 0.5),
        .p99_ns = quantile(candidate->lag, 0.99),
    };
    out->saved = out->saved > 1 ? 1 : out->saved;
    if (candidate->decided < LEAST_COMPARED || candidate->decided * LEAST_DECIDED < candidate->compared)
        return false;
    return (double)candidate->last / (double)candidate->decided >= least_share(nlocal) && out->saved >= LEAST_SAVED &&
           out->p50_ns >= LEAST_LAG_NS;
}

motetLateCause_t motet_straggler_cause(uint64_t seen_ns, uint64_t ran_ns, uint64_t delayed_ns, uint64_t slept_ns)
{
    if (seen_ns == 0 || ran_ns + delayed_ns == 0)
        return motetLateUnknown;
    uint64_t awake = ran_ns + delayed_ns, blocked = seen_ns > awake ? seen_ns - awake : 0;
    blocked = blocked > slept_ns ? blocked - slept_ns : 0;
    if (blocked > ran_ns && blocked > delayed_ns)
        return motetLateSleeping;
    return delayed_ns > ran_ns ? motetLateNotRunning : motetLateComputing;
}

const char *motet_straggler_cause_name(motetLateCause_t cause)
{
    static const char *const names[] = {"", "computing", "not running", "sleeping", "slow link", "unknown"};
    return (unsigned)cause < sizeof names / sizeof *names ? names[cause] : "unknown";
}

/* ---- A job ---- */

static motetLateCause_t cause_of(const struct motet_account *account)
{
    return account ? motet_straggler_cause(account->seen_ns, account->ran_ns, account->delayed_ns, account->wait_ns)
                   : motetLateUnknown;
}

static int ranks_of_host(const struct motet_standing *standings, int nranks, int host)
{
    int n = 0;
    for (int r = 0; r < nranks; r++)
        n += standings[r].host == host;
    return n;
}

/* What all first ranks of communicators counted of `rank`. */
static struct motet_candidate sum_up(const struct motet_standing *standings, int nranks, int rank)
{
    struct motet_candidate sum = {.rank = rank};
    for (int r = 0; r < nranks; r++)
        for (int c = 0; standings[r].account && c < MOTET_ACCOUNT_CANDIDATES; c++) {
            const struct motet_candidate *candidate = &standings[r].account->candidates[c];
            if (candidate->rank != rank || candidate->compared == 0)
                continue;
            sum.compared += candidate->compared;
            sum.decided += candidate->decided;
            sum.last += candidate->last;
            sum.saved_ns += candidate->saved_ns;
            sum.compared_ns += candidate->compared_ns;
            for (int b = 0; b < MOTET_LAG_BUCKETS; b++)
                sum.lag[b] += candidate->lag[b];
        }
    return sum;
}

static struct motet_straggler find_on_hosts(const struct motet_standing *standings, int nranks)
{
    struct motet_straggler worst = {.rank = -1}, found;
    for (int r = 0; r < nranks; r++) {
        struct motet_candidate sum = sum_up(standings, nranks, r);
        if (!motet_straggler_stands_out(&sum, ranks_of_host(standings, nranks, standings[r].host), &found))
            continue;
        found.cause = cause_of(standings[r].account);
        if (worst.rank < 0 || found.saved > worst.saved)
            worst = found;
    }
    return worst;
}

/* Waiting of one rank for ranks of another host, and of all others for it. */
struct between {
    uint64_t own, blamed, waiting;
    int blamers;
};

static struct between look_between(const struct motet_standing *standings, int nranks, int rank)
{
    struct between sum = {0};
    for (int r = 0; r < nranks; r++) {
        const struct motet_account *account = standings[r].account;
        uint64_t for_it = 0;
        for (int w = 0; account && w < MOTET_ACCOUNT_WAITS; w++) {
            if (account->waits[w].rank < 0 || account->waits[w].ns == 0)
                continue;
            sum.waiting += account->waits[w].ns;
            sum.own += r == rank ? account->waits[w].ns : 0;
            for_it += r != rank && account->waits[w].rank == rank ? account->waits[w].ns : 0;
        }
        sum.blamed += for_it;
        sum.blamers += for_it > 0;
    }
    return sum;
}

static int hosts(const struct motet_standing *standings, int nranks)
{
    int n = 0;
    for (int r = 0; r < nranks; r++)
        n = standings[r].host >= n ? standings[r].host + 1 : n;
    return n;
}

/* Time in which the network was at work on bytes to and from one rank, and between all. */
static void look_at_links(const struct motet_standing *standings, int nranks, int rank, uint64_t *at_it, uint64_t *all)
{
    *at_it = *all = 0;
    for (int r = 0; r < nranks; r++)
        for (int l = 0; standings[r].account && l < MOTET_ACCOUNT_WAITS; l++) {
            int64_t to = standings[r].account->links[l].rank;
            if (to < 0 || to >= nranks)
                continue;
            *all += standings[r].account->links[l].ns;
            *at_it += r == rank || to == rank ? standings[r].account->links[l].ns : 0;
        }
}

/* Whoever is late makes the others wait and waits little itself, for whomever they wait. */
static bool waits_little(const struct motet_standing *standings, int nranks, int rank, uint64_t all_ns)
{
    uint64_t own_ns = standings[rank].account ? standings[rank].account->wait_ns : all_ns;
    return own_ns < all_ns && own_ns * 4 * (uint64_t)(nranks - 1) <= all_ns - own_ns;
}

/* All waiting between two hosts has two ends: of n equal ones each is an end of 2/n of it, and who stands out of nearly all. Where the kernel
 * counts the time of the network, that says more (find_link): in a ring, waiting goes round. */
static struct motet_straggler find_between(const struct motet_standing *standings, int nranks)
{
    struct motet_straggler worst = {.rank = -1};
    int nhosts = hosts(standings, nranks);
    uint64_t all_ns = 0, at_it, network = 0;
    for (int r = 0; r < nranks; r++)
        all_ns += standings[r].account ? standings[r].account->wait_ns : 0;
    for (int r = 0; r < nranks && nhosts > 1; r++) {
        struct between sum = look_between(standings, nranks, r);
        if (sum.blamers == 0 || sum.waiting == 0 || (double)sum.waiting < LEAST_SAVED * (double)all_ns)
            continue;
        double ends = (double)(sum.own + sum.blamed) / (double)sum.waiting, least = (1 + 2.0 / nhosts) / 2;
        bool late = waits_little(standings, nranks, r, all_ns) && (double)sum.blamed >= LEAST_SAVED * (double)all_ns;
        look_at_links(standings, nranks, r, &at_it, &network);
        if ((!late && (nhosts == 2 || network > 0 || ends < least)) || ends <= worst.share)
            continue;
        worst = (struct motet_straggler){
            .rank = r,
            .cause = late ? cause_of(standings[r].account) : motetLateSlowLink,
            .share = ends < 1 ? ends : 1,
            .saved = (double)(sum.own + sum.blamed) / (double)all_ns,
        };
        worst.saved = worst.saved < 1 ? worst.saved : 1;
    }
    return worst;
}

/* Where ranks pass data on, each waits for the one before it, wherever the slow link is. But the network is at work for long only there. Of n
 * equal hosts each is an end of 2/n of its work. Whoever waits much less than the others is late itself: its link may have had to work
 * because all were waiting for it. */
static struct motet_straggler find_link(const struct motet_standing *standings, int nranks)
{
    struct motet_straggler worst = {.rank = -1};
    int nhosts = hosts(standings, nranks);
    uint64_t all_ns = 0, at_it, network;
    for (int r = 0; r < nranks; r++)
        all_ns += standings[r].account ? standings[r].account->wait_ns : 0;
    for (int r = 0; r < nranks && nhosts > 2; r++) {
        look_at_links(standings, nranks, r, &at_it, &network);
        bool compares = at_it < network; /* where all links end at one rank, none is seen to be slower than the others */
        if (!standings[r].account || !compares || all_ns == 0 || (double)at_it < LEAST_SAVED * (double)all_ns ||
            standings[r].account->wait_ns * 2 < all_ns / (uint64_t)nranks)
            continue;
        double ends = (double)at_it / (double)network;
        if (ends < (1 + 2.0 / nhosts) / 2 || ends <= worst.share)
            continue;
        double saved = (double)at_it / (double)all_ns;
        worst = (struct motet_straggler){.rank = r, .cause = motetLateSlowLink, .share = ends, .saved = saved < 1 ? saved : 1};
    }
    return worst;
}

struct motet_straggler motet_straggler_find(const struct motet_standing *standings, int nranks)
{
    struct motet_straggler here = find_on_hosts(standings, nranks), between = find_between(standings, nranks);
    if (between.rank < 0)
        between = find_link(standings, nranks);
    return here.rank < 0 || (between.rank >= 0 && between.saved > here.saved) ? between : here;
}
