/* SPDX-License-Identifier: Apache-2.0
 * motetExplain against closed formulas: bytes, rounds and connections of all-reduce, crossovers on a flat network, two islands behind a
 * narrow link, and what ranks hold after each round. Asks through the public interface alone. */
#include "motet.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB 1048576.0

/* ---- Asking ---- */

static motetExplainQuery_t query_of(const char *collective, int nranks, int nhosts, size_t bytes)
{
    motetExplainQuery_t query = MOTET_EXPLAIN_QUERY_INITIALIZER;
    query.collective = collective;
    query.nranks = nranks;
    query.nhosts = nhosts;
    query.bytes = bytes;
    query.algo = "";
    return query;
}

/* Every rank has a link of its own into a network without limits; messages are forwarded when they are complete. */
static motetExplainQuery_t flat_network(const char *collective, int nranks)
{
    motetExplainQuery_t query = query_of(collective, nranks, nranks, 1 << 20);
    query.network = (motetExplainNetwork_t){.latencyUs = 5, .hostGBs = 10, .ideal = 1, .whole = 1};
    query.tileBytes = SIZE_MAX;
    return query;
}

static motetExplainCandidate_t candidate_of(motetExplanation_t explanation, const char *name, int *index)
{
    motetExplainCandidate_t candidate;
    int n = 0;
    assert_int_equal(motetExplainCount(explanation, &n), motetSuccess);
    for (int i = 0; i < n; i++) {
        assert_int_equal(motetExplainCandidate(explanation, i, &candidate), motetSuccess);
        if (index)
            *index = i;
        if (strcmp(candidate.name, name) == 0)
            return candidate;
    }
    fail_msg("no candidate %s", name);
    return candidate;
}

static motetExplanation_t explain(const motetExplainQuery_t *query)
{
    motetExplanation_t explanation = NULL;
    assert_int_equal(motetExplain(query, &explanation), motetSuccess);
    assert_non_null(explanation);
    return explanation;
}

static double time_of(const motetExplainQuery_t *query, const char *name, double bytes)
{
    double ns = -1;
    assert_int_equal(motetExplainTimes(query, name, &bytes, 1, &ns), motetSuccess);
    return ns;
}

static void assert_near(double value, double expected, double share, const char *what)
{
    if (!(fabs(value - expected) <= share * fabs(expected)))
        fail_msg("%s: %g instead of %g", what, value, expected);
}

/* ---- Sizes ---- */

/* 8 ranks, 1 MiB: a ring moves 1.75 MiB each way at each rank in 14 rounds over 8 connections; one rank in the middle moves the same total,
 * 7 MiB each way at that rank; everybody with everybody needs 28 connections. */
static void test_explain_all_reduce_of_eight_ranks_counts_what_books_say(void **state)
{
    (void)state;
    motetExplainQuery_t query = query_of("all_reduce", 8, 1, 1 << 20);
    motetExplanation_t explanation = explain(&query);
    motetExplainCandidate_t ring = candidate_of(explanation, "ring", NULL), central = candidate_of(explanation, "central", NULL);
    motetExplainCandidate_t full = candidate_of(explanation, "two_shot", NULL);
    assert_near(ring.sentMost, 1.75 * MIB, 1e-9, "ring sends");
    assert_near(ring.receivedMost, 1.75 * MIB, 1e-9, "ring receives");
    assert_near(ring.total, 14 * MIB, 1e-9, "ring in all");
    assert_int_equal(ring.rounds, 14);
    assert_int_equal((int)ring.connections, 8);
    assert_near(central.total, 14 * MIB, 1e-9, "central in all");
    assert_near(central.sentMost, 7 * MIB, 1e-9, "central sends");
    assert_near(central.receivedMost, 7 * MIB, 1e-9, "central receives");
    assert_int_equal(central.sentMostRank, 0);
    assert_int_equal(central.rounds, 2);
    assert_int_equal((int)central.connections, 7);
    assert_int_equal((int)full.connections, 28);
    assert_near(full.sentMost, 1.75 * MIB, 1e-9, "two_shot sends");
    assert_int_equal(full.rounds, 2);
    motetExplainFree(explanation);
}

static void test_explain_rounds_equal_the_hops_of_each_family(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n *= 2) {
        int log = 31 - __builtin_clz((unsigned)n);
        motetExplainQuery_t query = query_of("AllReduce", n, n, 1 << 20);
        query.op = motetMax;
        motetExplanation_t explanation = explain(&query);
        assert_int_equal(candidate_of(explanation, "ring", NULL).rounds, 2 * (n - 1));
        assert_int_equal(candidate_of(explanation, "chain", NULL).rounds, 2 * (n - 1));
        assert_int_equal(candidate_of(explanation, "recursive_doubling", NULL).rounds, log);
        assert_int_equal(candidate_of(explanation, "rabenseifner", NULL).rounds, 2 * log);
        assert_int_equal(candidate_of(explanation, "one_shot", NULL).rounds, 1);
        motetExplainFree(explanation);
    }
}

/* ---- Time ---- */

/* Where a ring begins to beat a reduction up a binomial tree with a broadcast down it: 2(n-1)(a + m/nb) against 2 log n (a + m/b). */
static void test_explain_ring_beats_serial_binomial_above_the_sizes_of_the_formula(void **state)
{
    static const struct {
        int nranks;
        double crossover;
    } cases[] = {{8, 94e3}, {32, 322e3}, {64, 568e3}};
    (void)state;
    for (size_t c = 0; c < 3; c++) {
        int n = cases[c].nranks, log = 31 - __builtin_clz((unsigned)n);
        motetExplainQuery_t ring = flat_network("AllReduce", n), up = flat_network("Reduce", n),
                            down = flat_network("Broadcast", n);
        double low = 1, high = 1e9;
        for (double bytes = 1e3; bytes < 1e9; bytes *= 10) {
            assert_near(time_of(&ring, "ring", bytes), 2 * (n - 1) * (5e3 + bytes / n / 10), 1e-6, "ring");
            assert_near(time_of(&up, "binomial", bytes), log * (5e3 + bytes / 10), 1e-6, "reduce");
            assert_near(time_of(&down, "binomial", bytes), log * (5e3 + bytes / 10), 1e-6, "broadcast");
        }
        for (int k = 0; k < 60; k++) {
            double middle = sqrt(low * high);
            bool wins = time_of(&ring, "ring", middle) < time_of(&up, "binomial", middle) + time_of(&down, "binomial", middle);
            *(wins ? &high : &low) = middle;
        }
        assert_near(high, cases[c].crossover, 0.005, "crossover");
    }
}

/* Two islands of four, whose shared link has half the speed of a rank's own: a ring that crosses it once each way has half the bandwidth, one
 * that goes back and forth an eighth. */
static motetExplainQuery_t islands(int scattered)
{
    motetExplainQuery_t query = query_of("AllReduce", 8, 2, 64 << 20);
    query.network = (motetExplainNetwork_t){.latencyUs = 1e-3, .hostGBs = 5, .rankGBs = 10, .ideal = 1};
    query.scattered = scattered;
    query.op = motetMax;
    return query;
}

static void test_explain_ring_over_islands_has_half_or_an_eighth_of_the_bandwidth(void **state)
{
    motetExplainQuery_t near = islands(0), far = islands(1), whole = islands(0);
    double bytes = 256 * MIB, ideal = 1.75 * bytes / 10;
    (void)state;
    whole.nhosts = 1;
    assert_near(time_of(&whole, "ring", bytes), ideal, 0.02, "one island");
    assert_near(time_of(&near, "ring", bytes), 2 * ideal, 0.02, "contiguous");
    assert_near(time_of(&far, "ring", bytes), 8 * ideal, 0.02, "back and forth");

    motetExplanation_t explanation = explain(&near);
    motetExplainCandidate_t ring = candidate_of(explanation, "ring", NULL), best = candidate_of(explanation, "hierarchical", NULL);
    assert_int_equal(ring.busiest, motetExplainHostLink);
    assert_true(best.timeNs < ring.timeNs);
    assert_false(ring.chosen);
    assert_string_equal(ring.excludedBy ? ring.excludedBy : "", "");
    assert_near(best.hostMost, 64 * MIB, 1e-9, "hierarchical leaves a host");
    assert_near(ring.hostMost, 1.75 * 64 * MIB, 1e-9, "ring leaves a host");
    motetExplainFree(explanation);
    explanation = explain(&far);
    assert_near(candidate_of(explanation, "ring", NULL).hostMost, 4 * 1.75 * 64 * MIB, 1e-9, "scattered ring leaves a host");
    motetExplainFree(explanation);
}

static void test_explain_choice_is_the_cheapest_that_is_not_excluded(void **state)
{
    static const char *const collectives[] = {"AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
                                              "AlltoAll",  "Gather", "Scatter",   "Barrier"};
    (void)state;
    for (size_t c = 0; c < 9; c++) {
        for (size_t bytes = 64; bytes <= (size_t)1 << 26; bytes *= 32) {
            motetExplainQuery_t query = query_of(collectives[c], 6, 2, bytes);
            motetExplanation_t explanation = explain(&query);
            motetExplainCandidate_t chosen = {0}, candidate;
            int n, nchosen = 0;
            motetExplainCount(explanation, &n);
            for (int i = 0; i < n; i++) {
                motetExplainCandidate(explanation, i, &candidate);
                nchosen += candidate.chosen;
                chosen = candidate.chosen ? candidate : chosen;
            }
            assert_int_equal(nchosen, 1);
            assert_null(chosen.excludedBy);
            for (int i = 0; i < n; i++) {
                motetExplainCandidate(explanation, i, &candidate);
                assert_true(candidate.timeNs > 0 || !candidate.fits);
                /* The choice is made for the middle of a class of sizes. */
                if (candidate.fits && !candidate.excludedBy)
                    assert_true(candidate.timeNs > 0.7 * chosen.timeNs);
            }
            motetExplainFree(explanation);
        }
    }
}

static void test_explain_ranges_are_what_the_choice_is_at_their_sizes(void **state)
{
    motetExplainQuery_t query = query_of("AllReduce", 8, 2, 1 << 20);
    motetExplainRange_t ranges[64];
    int n;
    (void)state;
    motetExplanation_t explanation = explain(&query);
    assert_int_equal(motetExplainRanges(explanation, ranges, 64, &n), motetSuccess);
    assert_in_range(n, 2, 64);
    assert_true(ranges[0].fromBytes <= 1);
    for (int r = 0; r < n; r++) {
        motetExplainCandidate_t candidate;
        motetExplainQuery_t at = query;
        at.bytes = (size_t)ranges[r].fromBytes;
        motetExplanation_t other = explain(&at);
        motetExplainCandidate(other, ranges[r].candidate, &candidate);
        assert_true(candidate.chosen);
        motetExplainFree(other);
        if (r == 0)
            continue;
        at.bytes = (size_t)ranges[r].fromBytes - 1;
        other = explain(&at);
        motetExplainCandidate(other, ranges[r].candidate, &candidate);
        assert_false(candidate.chosen);
        motetExplainFree(other);
    }
    motetExplainFree(explanation);
}

static void test_explain_algo_forces_and_names_what_it_excludes(void **state)
{
    motetExplainQuery_t query = query_of("AllReduce", 8, 1, 64);
    (void)state;
    query.algo = "allreduce:ring";
    motetExplanation_t explanation = explain(&query);
    assert_true(candidate_of(explanation, "ring", NULL).chosen);
    assert_non_null(strstr(candidate_of(explanation, "one_shot", NULL).excludedBy, "MOTET_ALGO"));
    motetExplainFree(explanation);
    query.algo = "allreduce:no_such";
    assert_int_equal(motetExplain(&query, &explanation), motetInvalidUsage);
    assert_null(explanation);
}

/* ---- Rounds ---- */

static motetExplainHolding_t holding_of(motetExplanation_t explanation, int index, int round, int rank, int chunk)
{
    motetExplainHolding_t holding;
    assert_int_equal(motetExplainHolding(explanation, index, round, rank, chunk, &holding), motetSuccess);
    return holding;
}

/* Every algorithm of every collective, round by round: ranks never lose inputs, and end with what the collective promises. */
static void check_play(const char *collective, int nranks, int nhosts)
{
    motetExplainQuery_t query = query_of(collective, nranks, nhosts, 1 << 20);
    motetExplanation_t explanation = explain(&query);
    int n;
    bool blocks = strcmp(collective, "AllReduce") && strcmp(collective, "Reduce") && strcmp(collective, "Broadcast");
    motetExplainCount(explanation, &n);
    for (int i = 0; i < n; i++) {
        motetExplainCandidate_t candidate;
        motetExplainCandidate(explanation, i, &candidate);
        if (!candidate.fits)
            continue;
        int nmessages, chunks = candidate.parts * (blocks ? nranks : 1), last = 0;
        double sent = 0;
        assert_int_equal(motetExplainMessageCount(explanation, i, &nmessages), motetSuccess);
        assert_int_equal(nmessages, (int)candidate.messages);
        for (int m = 0; m < nmessages; m++) {
            motetExplainMessage_t message;
            assert_int_equal(motetExplainMessage(explanation, i, m, &message), motetSuccess);
            assert_true(message.from != message.to && message.round >= last && message.arrivedNs > message.sentNs);
            last = message.round;
            sent += message.bytes * candidate.tiles;
        }
        assert_int_equal(last, candidate.rounds);
        assert_near(sent, candidate.total, 1e-9, candidate.name);
        for (int rank = 0; rank < nranks; rank++) {
            for (int chunk = 0; chunk < chunks; chunk++) {
                int had = 0;
                for (int round = 0; round <= candidate.rounds; round++) {
                    int has = __builtin_popcountll(holding_of(explanation, i, round, rank, chunk).ranks);
                    assert_true(has >= had);
                    had = has;
                }
                motetExplainHolding_t end = holding_of(explanation, i, candidate.rounds, rank, chunk);
                if (!strcmp(collective, "AllReduce"))
                    assert_true(end.ranks == (UINT64_C(1) << nranks) - 1 && end.isResult);
                if (!strcmp(collective, "AllGather"))
                    assert_true(end.ranks == UINT64_C(1) << chunk / candidate.parts && end.isResult && end.chunk == chunk);
                if (!strcmp(collective, "AlltoAll"))
                    assert_true(end.ranks == UINT64_C(1) << chunk / candidate.parts && end.isResult &&
                                end.chunk / candidate.parts == rank);
            }
        }
    }
    motetExplainFree(explanation);
}

static void test_explain_holdings_grow_to_the_result(void **state)
{
    static const char *const collectives[] = {"AllReduce",     "Reduce",   "Broadcast", "AllGather",
                                              "ReduceScatter", "AlltoAll", "Gather",    "Scatter"};
    (void)state;
    for (size_t c = 0; c < 8; c++) {
        check_play(collectives[c], 4, 1);
        check_play(collectives[c], 6, 2);
        check_play(collectives[c], 7, 3);
    }
}

static void test_explain_ring_gathers_one_input_more_in_each_round(void **state)
{
    motetExplainQuery_t query = query_of("AllReduce", 4, 1, 1 << 20);
    int ring;
    (void)state;
    motetExplanation_t explanation = explain(&query);
    candidate_of(explanation, "ring", &ring);
    for (int round = 0; round <= 3; round++)
        for (int chunk = 0; chunk < 4; chunk++) {
            int most = 0;
            for (int rank = 0; rank < 4; rank++) {
                int has = __builtin_popcountll(holding_of(explanation, ring, round, rank, chunk).ranks);
                most = has > most ? has : most;
            }
            assert_int_equal(most, round + 1);
        }
    motetExplainFree(explanation);
}

/* ---- Errors ---- */

static void test_explain_refuses_nonsense_and_names_it(void **state)
{
    motetExplanation_t explanation = NULL;
    motetExplainQuery_t query = query_of("AllReduce", 8, 1, 64);
    motetExplainCandidate_t candidate;
    motetExplainHolding_t holding;
    double bytes = 8, ns;
    char *text = NULL;
    (void)state;
    const motetExplainQuery_t good = query;
    assert_int_equal(motetExplain(NULL, &explanation), motetInvalidArgument);
    assert_int_equal(motetExplain(&query, NULL), motetInvalidArgument);
#define REFUSED(member, value, word)                                            \
    query = good;                                                               \
    query.member = value;                                                       \
    assert_int_equal(motetExplain(&query, &explanation), motetInvalidArgument); \
    assert_null(explanation);                                                   \
    assert_non_null(strstr(motetGetLastError(NULL), word))
    REFUSED(size, 8, "size");
    REFUSED(collective, "all_produce", "all_produce");
    REFUSED(nranks, 0, "nranks");
    REFUSED(nranks, 4097, "nranks");
    REFUSED(nhosts, 9, "nhosts");
    REFUSED(root, 8, "root");
    REFUSED(datatype, (motetDataType_t)77, "77");
    REFUSED(network.hostGBs, -1, "hostGBs");
    REFUSED(network.latencyUs, NAN, "latencyUs");
#undef REFUSED
    query = good;
    query.datatype = motetBool;
    query.op = motetAvg;
    assert_int_equal(motetExplain(&query, &explanation), motetInvalidArgument);
    assert_int_equal(motetExplainTimes(&good, "no_such", &bytes, 1, &ns), motetInvalidArgument);
    assert_int_equal(motetExplainTimes(&good, NULL, &bytes, 1, &ns), motetInvalidArgument);
    explanation = explain(&good);
    assert_int_equal(motetExplainCandidate(explanation, -1, &candidate), motetInvalidArgument);
    assert_int_equal(motetExplainCandidate(explanation, 1000, &candidate), motetInvalidArgument);
    assert_int_equal(motetExplainHolding(explanation, 0, 0, 8, 0, &holding), motetInvalidArgument);
    assert_int_equal(motetExplainHolding(explanation, 0, 0, 0, 99, &holding), motetInvalidArgument);
    assert_int_equal(motetExplainSteps(explanation, 0, 8, &text), motetInvalidArgument);
    assert_int_equal(motetExplainSteps(explanation, 0, 7, &text), motetSuccess);
    assert_non_null(strstr(text, "position 7 of 8"));
    free(text);
    motetExplainFree(explanation);
    assert_int_equal(motetExplainFree(NULL), motetSuccess);
}

/* Thousands of ranks are answered, without rounds and messages; the time continues that of fewer. */
static void test_explain_many_ranks_continues_what_few_show(void **state)
{
    motetExplainQuery_t query = query_of("AllReduce", 1024, 1024, 1 << 30);
    motetExplainMessage_t message;
    (void)state;
    query.op = motetMax;
    motetExplanation_t explanation = explain(&query);
    int index;
    motetExplainCandidate_t ring = candidate_of(explanation, "ring", &index);
    assert_true(ring.timeIsContinued && ring.rounds == 0);
    assert_near(ring.sentMost, 2.0 * 1023 / 1024 * (1 << 30), 1e-9, "ring sends");
    assert_int_equal((int)ring.connections, 1024);
    assert_int_equal(motetExplainMessage(explanation, index, 0, &message), motetInvalidArgument);
    motetExplainFree(explanation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain_all_reduce_of_eight_ranks_counts_what_books_say),
        cmocka_unit_test(test_explain_rounds_equal_the_hops_of_each_family),
        cmocka_unit_test(test_explain_ring_beats_serial_binomial_above_the_sizes_of_the_formula),
        cmocka_unit_test(test_explain_ring_over_islands_has_half_or_an_eighth_of_the_bandwidth),
        cmocka_unit_test(test_explain_choice_is_the_cheapest_that_is_not_excluded),
        cmocka_unit_test(test_explain_ranges_are_what_the_choice_is_at_their_sizes),
        cmocka_unit_test(test_explain_algo_forces_and_names_what_it_excludes),
        cmocka_unit_test(test_explain_holdings_grow_to_the_result),
        cmocka_unit_test(test_explain_ring_gathers_one_input_more_in_each_round),
        cmocka_unit_test(test_explain_refuses_nonsense_and_names_it),
        cmocka_unit_test(test_explain_many_ranks_continues_what_few_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
