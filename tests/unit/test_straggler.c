/* SPDX-License-Identifier: Apache-2.0
 * Who keeps the others waiting: counting from arrivals, and judging from accounts, on made-up jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "straggler.h"

#define RANKS 8

struct host {
    struct motet_tally tally;
    struct motet_late late[RANKS];
};

static uint64_t random_state;

static uint64_t draw(uint64_t limit)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (random_state >> 33) % limit;
}

/* One call: rank `slow` comes `by_ns` after its own share of chance; everybody waits for the last. */
static void play(struct host *host, int n, int slow, uint64_t by_ns, uint64_t chance_ns)
{
    struct motet_arrival arrivals[RANKS];
    uint64_t last = 0;
    for (int r = 0; r < n; r++) {
        arrivals[r].begin_ns = 1000000 + draw(chance_ns) + (r == slow ? by_ns : 0);
        last = arrivals[r].begin_ns > last ? arrivals[r].begin_ns : last;
    }
    for (int r = 0; r < n; r++) {
        arrivals[r].wait_ns = last - arrivals[r].begin_ns + 100;
        arrivals[r].away_ns = UINT64_MAX;
    }
    motet_straggler_compare(&host->tally, host->late, arrivals, n, 64);
}

static struct motet_candidate candidate_of(const struct host *host, int rank)
{
    struct motet_candidate candidate = {.compared = host->tally.compared,
                                        .decided = host->tally.decided,
                                        .last = host->late[rank].last,
                                        .saved_ns = host->late[rank].saved_ns,
                                        .compared_ns = host->tally.compared_ns,
                                        .rank = rank};
    for (int b = 0; b < MOTET_LAG_BUCKETS; b++)
        candidate.lag[b] = host->late[rank].lag[b];
    return candidate;
}

static void test_straggler_one_late_rank_stands_out_alone(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS; n++)
        for (int slow = 0; slow < n; slow += n - 1) {
            struct host *host = calloc(1, sizeof *host);
            random_state = (uint64_t)n;
            for (int call = 0; call < 200; call++)
                play(host, n, slow, 50000, 5000);
            for (int r = 0; r < n; r++) {
                struct motet_candidate candidate = candidate_of(host, r);
                struct motet_straggler found = {.rank = -1};
                assert_int_equal(motet_straggler_stands_out(&candidate, n, &found), r == slow);
                if (r != slow)
                    continue;
                assert_int_equal(found.rank, slow);
                assert_true(found.share > 0.95 && found.saved > 0.8);
                assert_in_range(found.p50_ns, 32000, 64000);
                assert_true(found.p99_ns >= found.p50_ns);
            }
            free(host);
        }
}

static void test_straggler_equal_ranks_nobody_stands_out(void **state)
{
    (void)state;
    for (int n = 2; n <= RANKS; n++) {
        struct host *host = calloc(1, sizeof *host);
        random_state = 7 * (uint64_t)n;
        for (int call = 0; call < 400; call++)
            play(host, n, -1, 0, 100000);
        for (int r = 0; r < n; r++) {
            struct motet_candidate candidate = candidate_of(host, r);
            struct motet_straggler found;
            assert_false(motet_straggler_stands_out(&candidate, n, &found));
        }
        free(host);
    }
}

/* A leaf of a broadcast is late and nobody waits for it: it is not counted. */
static void test_straggler_late_rank_that_nobody_waits_for_is_not_counted(void **state)
{
    (void)state;
    struct host *host = calloc(1, sizeof *host);
    struct motet_arrival arrivals[3] = {{1000, 10, UINT64_MAX}, {1500, 20, UINT64_MAX}, {900000, 0, UINT64_MAX}};
    for (int call = 0; call < 100; call++)
        motet_straggler_compare(&host->tally, host->late, arrivals, 3, 1);
    assert_int_equal(host->tally.compared, 100);
    assert_int_equal(host->late[2].last, 0);
    assert_int_equal(host->late[2].saved_ns, 0);
    free(host);
}

/* Rank 0 waited, was woken late, and comes last: rank 1 was in its program for longer. */
static void test_straggler_rank_woken_late_is_not_blamed(void **state)
{
    (void)state;
    struct host *host = calloc(1, sizeof *host);
    struct motet_arrival arrivals[2] = {{70000, 60000, 300}, {60000, 10000, 50000}};
    motet_straggler_compare(&host->tally, host->late, arrivals, 2, 1);
    assert_int_equal(host->late[0].last, 0);
    assert_int_equal(host->late[1].last, 1);
    assert_int_equal(host->late[1].saved_ns, 49700);
    free(host);
}

static void test_straggler_waiting_is_split_by_who_was_late(void **state)
{
    (void)state;
    struct host *host = calloc(1, sizeof *host);
    struct motet_arrival arrivals[2] = {{1000, 700, UINT64_MAX}, {1500, 50, UINT64_MAX}};
    motet_straggler_compare(&host->tally, host->late, arrivals, 2, 16);
    assert_int_equal(host->late[0].late_wait_ns, 500 * 16); /* the other 200 ns passed after rank 1 had called */
    assert_int_equal(host->late[0].wait_all_ns, 700 * 16);
    assert_int_equal(host->late[1].late_wait_ns, 0);
    assert_int_equal(host->late[1].saved_ns, 500 * 16);
    free(host);
}

static void test_straggler_cause_is_what_the_thread_did(void **state)
{
    (void)state;
    assert_int_equal(motet_straggler_cause(1000, 900, 50, 0), motetLateComputing);
    assert_int_equal(motet_straggler_cause(1000, 100, 880, 0), motetLateNotRunning);
    assert_int_equal(motet_straggler_cause(1000, 100, 50, 0), motetLateSleeping);
    assert_int_equal(motet_straggler_cause(1000, 300, 50, 600), motetLateComputing); /* it slept inside the library */
    assert_int_equal(motet_straggler_cause(0, 0, 0, 0), motetLateUnknown);
}

static void wait_between(struct motet_account *account, int rank, uint64_t ns)
{
    for (int w = 0; w < MOTET_ACCOUNT_WAITS; w++)
        if (account->waits[w].ns == 0) {
            account->waits[w].rank = rank;
            account->waits[w].ns = ns;
            account->wait_ns += ns;
            return;
        }
}

/* n hosts of one rank; waits[a][b]: a for b. */
static struct motet_straggler judge(int n, uint64_t waits[4][4])
{
    struct motet_account *accounts = calloc((size_t)n, sizeof *accounts);
    struct motet_standing standings[4];
    for (int a = 0; a < n; a++) {
        accounts[a] = (struct motet_account){.known = 1, .seen_ns = 1000000, .ran_ns = 900000};
        for (int w = 0; w < MOTET_ACCOUNT_WAITS; w++)
            accounts[a].waits[w].rank = -1;
        for (int b = 0; b < n; b++)
            if (waits[a][b])
                wait_between(&accounts[a], b, waits[a][b]);
        standings[a] = (struct motet_standing){&accounts[a], a};
    }
    struct motet_straggler found = motet_straggler_find(standings, n);
    free(accounts);
    return found;
}

static void test_straggler_slow_link_both_sides_wait(void **state)
{
    (void)state;
    uint64_t waits[4][4] = {{0, 10, 5000}, {12, 0, 5100}, {2500, 2400, 0}};
    struct motet_straggler found = judge(3, waits);
    assert_int_equal(found.rank, 2);
    assert_int_equal(found.cause, motetLateSlowLink);
}

static void test_straggler_late_rank_on_another_host_does_not_wait(void **state)
{
    (void)state;
    uint64_t three[4][4] = {{0, 10, 5000}, {12, 0, 5100}, {30, 20, 0}}, two[4][4] = {{0, 5000}, {100, 0}};
    struct motet_straggler found = judge(3, three);
    assert_int_equal(found.rank, 2);
    assert_int_equal(found.cause, motetLateComputing);
    found = judge(2, two);
    assert_int_equal(found.rank, 1);
    assert_int_equal(found.cause, motetLateComputing);
}

/* Three hosts in a ring: each waits for the one before it, but the network is at work only to and from rank 1. */
static void test_straggler_slow_link_in_a_ring_is_told_by_its_network(void **state)
{
    static const uint64_t busy[3][3] = {{0, 900, 100}, {100, 0, 950}, {80, 120, 0}};
    struct motet_account accounts[3];
    struct motet_standing standings[3];
    (void)state;
    for (int equal = 0; equal < 2; equal++) {
        for (int a = 0; a < 3; a++) {
            accounts[a] = (struct motet_account){.known = 1, .seen_ns = 1000000, .ran_ns = 900000};
            for (int w = 0; w < MOTET_ACCOUNT_WAITS; w++)
                accounts[a].waits[w].rank = accounts[a].links[w].rank = -1;
            wait_between(&accounts[a], (a + 2) % 3, 1000);
            for (int b = 0; b < 3; b++) {
                accounts[a].links[b].rank = b;
                accounts[a].links[b].ns = a == b ? 0 : equal ? 900 : busy[a][b];
            }
            standings[a] = (struct motet_standing){&accounts[a], a};
        }
        struct motet_straggler found = motet_straggler_find(standings, 3);
        assert_int_equal(found.rank, equal ? -1 : 1);
        if (!equal)
            assert_int_equal(found.cause, motetLateSlowLink);
    }
    accounts[1].links[0].ns = accounts[2].links[0].ns = 80; /* the same network, but rank 1 waits for nobody: it is late */
    accounts[1].waits[0].ns = accounts[1].wait_ns = 100;
    struct motet_straggler late = motet_straggler_find(standings, 3);
    assert_int_equal(late.rank, 1);
    assert_int_equal(late.cause, motetLateComputing);
}

static void test_straggler_equal_links_nobody_stands_out(void **state)
{
    (void)state;
    uint64_t two[4][4] = {{0, 5000}, {4000, 0}},
             four[4][4] = {{0, 900, 1000, 1100}, {1000, 0, 950, 1050}, {800, 1000, 0, 1000}, {1000, 1000, 1100, 0}};
    assert_int_equal(judge(2, two).rank, -1);
    assert_int_equal(judge(4, four).rank, -1);
}

static void test_tally_classes_and_buckets_at_their_limits(void **state)
{
    (void)state;
    static const uint64_t limits[] = {64, 1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20, 1 << 30};
    assert_int_equal(motet_tally_class(0), 0);
    for (unsigned c = 0; c < 7; c++) {
        assert_int_equal(motet_tally_class(limits[c] - 1), c);
        assert_int_equal(motet_tally_class(limits[c]), c);
        assert_int_equal(motet_tally_class(limits[c] + 1), c + 1);
    }
    assert_int_equal(motet_tally_class(UINT64_MAX), MOTET_TALLY_CLASSES - 1);
    for (unsigned b = 1; b < MOTET_LAG_BUCKETS; b++) {
        assert_int_equal(motet_lag_bucket(motet_lag_least_ns(b)), b);
        assert_int_equal(motet_lag_bucket(motet_lag_least_ns(b) - 1), b - 1);
    }
    assert_int_equal(motet_lag_bucket(0), 0);
    assert_int_equal(motet_lag_bucket(UINT64_MAX), MOTET_LAG_BUCKETS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_straggler_one_late_rank_stands_out_alone),
        cmocka_unit_test(test_straggler_equal_ranks_nobody_stands_out),
        cmocka_unit_test(test_straggler_late_rank_that_nobody_waits_for_is_not_counted),
        cmocka_unit_test(test_straggler_rank_woken_late_is_not_blamed),
        cmocka_unit_test(test_straggler_waiting_is_split_by_who_was_late),
        cmocka_unit_test(test_straggler_cause_is_what_the_thread_did),
        cmocka_unit_test(test_straggler_slow_link_both_sides_wait),
        cmocka_unit_test(test_straggler_slow_link_in_a_ring_is_told_by_its_network),
        cmocka_unit_test(test_straggler_late_rank_on_another_host_does_not_wait),
        cmocka_unit_test(test_straggler_equal_links_nobody_stands_out),
        cmocka_unit_test(test_tally_classes_and_buckets_at_their_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
