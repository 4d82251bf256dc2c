/* SPDX-License-Identifier: Apache-2.0
 * Simulated times against closed formulas on flat networks, ranks that stand for others against all of them, bytes against those that
 * explain counts, and what is planted. */
#include "motet.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/coll.h"

#define LATENCY_NS   5000.0
#define BYTES_PER_NS 10.0

static motetSimulateQuery_t query_of(const char *collective, const char *algo, int nranks, double bytes)
{
    motetSimulateQuery_t query = MOTET_SIMULATE_QUERY_INITIALIZER;
    query.call.collective = collective;
    query.call.algo = algo;
    query.call.nranks = nranks;
    query.call.nhosts = 0;
    query.call.bytes = (size_t)bytes;
    query.call.op = motetMax;
    query.call.network.latencyUs = LATENCY_NS / 1e3;
    query.call.network.hostGBs = BYTES_PER_NS;
    return query;
}

/* Links alone decide, messages are whole, all is one tile: what textbooks price. */
static motetSimulateQuery_t textbook_query(const char *collective, const char *algo, int nranks, double bytes)
{
    motetSimulateQuery_t query = query_of(collective, algo, nranks, bytes);
    query.call.network.ideal = 1;
    query.call.network.whole = 1;
    query.call.tileBytes = SIZE_MAX;
    return query;
}

static motetSimulation_t simulate(const motetSimulateQuery_t *query, motetSimulateResult_t *result)
{
    motetSimulation_t simulation;
    if (motetSimulate(query, &simulation) != motetSuccess)
        fail_msg("%s %s on %d ranks: %s", query->call.collective, query->call.algo, query->call.nranks, motetGetLastError(NULL));
    assert_int_equal(motetSimulateResult(simulation, result), motetSuccess);
    return simulation;
}

static motetSimulateResult_t result_of(const motetSimulateQuery_t *query)
{
    motetSimulateResult_t result;
    assert_int_equal(motetSimulateFree(simulate(query, &result)), motetSuccess);
    return result;
}

/* ---- Closed formulas ---- */

static double message_ns(double bytes)
{
    return LATENCY_NS + bytes / BYTES_PER_NS;
}

static double ring_ns(int n, double bytes)
{
    return 2 * (n - 1) * message_ns(bytes / n);
}

static double half_ring_ns(int n, double bytes)
{
    return (n - 1) * message_ns(bytes / n);
}

static double doubling_ns(int n, double bytes)
{
    return log2(n) * message_ns(bytes);
}

/* Rabenseifner: M/2 + M/4 ... each way. */
static double halving_ns(int n, double bytes)
{
    return 2 * (log2(n) * LATENCY_NS + bytes * (n - 1) / n / BYTES_PER_NS);
}

/* Both children of a node send to it at once, and get from it one after the other; the root has one child. */
static double binary_tree_ns(int n, double bytes)
{
    return 2 * ((log2(n) - 1) * message_ns(2 * bytes) + message_ns(bytes));
}

static const struct {
    const char *collective, *algo;
    bool power_of_two;
    double (*formula)(int n, double bytes);
} formulas[] = {
    {"AllReduce", "ring", false, ring_ns},           {"AllGather", "ring", false, half_ring_ns},
    {"ReduceScatter", "ring", false, half_ring_ns},  {"ReduceScatter", "pairwise", false, half_ring_ns},
    {"AlltoAll", "pairwise", false, half_ring_ns},   {"AllReduce", "recursive_doubling", true, doubling_ns},
    {"AllReduce", "rabenseifner", true, halving_ns}, {"Reduce", "binomial", true, doubling_ns},
    {"Broadcast", "binomial", true, doubling_ns},    {"AllReduce", "binary_tree", true, binary_tree_ns},
};

static void test_simulation_of_textbook_algorithms_equals_closed_formulas(void **state)
{
    static const int ranks[] = {2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 33, 64, 100, 128, 255, 256, 512};
    static const double sizes[] = {1 << 12, 1 << 20, 1e8};
    (void)state;
    for (size_t f = 0; f < sizeof(formulas) / sizeof(formulas[0]); f++) {
        for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
            int n = ranks[r];
            if (formulas[f].power_of_two && (n & (n - 1)) != 0)
                continue;
            for (int s = 0; s < 6; s++) {
                motetSimulateQuery_t query = textbook_query(formulas[f].collective, formulas[f].algo, n, sizes[s / 2]);
                query.everyRank = s % 2;
                if (query.everyRank && n > 128)
                    continue;
                double ns = result_of(&query).timeNs, expected = formulas[f].formula(n, sizes[s / 2]);
                if (fabs(ns - expected) > 0.01 * expected)
                    fail_msg("%s %s, %d ranks, %.0f bytes: %.0f ns instead of %.0f", formulas[f].collective, formulas[f].algo, n,
                             sizes[s / 2], ns, expected);
            }
        }
    }
}

/* Pipelined over many tiles a ring approaches what its links carry. */
static void test_simulation_of_many_tiles_reaches_the_bandwidth_of_links(void **state)
{
    (void)state;
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 16, 1 << 28);
    query.call.network.ideal = 1;
    query.call.tileBytes = 8 << 20;
    motetSimulateResult_t result = result_of(&query);
    double least = 2.0 * 15 / 16 * (1 << 28) / BYTES_PER_NS;
    assert_true(result.timeNs > least);
    assert_true(result.timeNs < 1.1 * least);
}

/* ---- All rows ---- */

static bool fits(const struct motet_algorithm *algorithm, int n, int nhosts)
{
    int host_first[129];
    for (int h = 0; h <= nhosts; h++)
        host_first[h] = h * n / nhosts;
    struct motet_shape shape = {.nranks = n, .nhosts = nhosts, .host_first = host_first};
    return !algorithm->fits || algorithm->fits(&shape);
}

/* What goes over links and between ranks is what explain counts: bytes and messages of one operation. */
static void test_simulation_moves_what_explain_counts(void **state)
{
    static const struct {
        int n, nhosts;
    } worlds[] = {{8, 8}, {12, 3}, {13, 5}, {16, 4}};
    (void)state;
    for (int row = 0; row < motet_nalgorithms; row++) {
        const struct motet_algorithm *algorithm = &motet_algorithms[row];
        for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
            if (!fits(algorithm, worlds[w].n, worlds[w].nhosts))
                continue;
            motetSimulateQuery_t query =
                query_of(motet_collective_name(algorithm->collective), algorithm->name, worlds[w].n, 65536);
            motetExplanation_t explanation;
            motetExplainCandidate_t candidate = {0};
            query.call.nhosts = worlds[w].nhosts;
            query.call.tileBytes = SIZE_MAX;
            query.topology = w % 2 ? "hosts" : "flat";
            assert_int_equal(motetExplain(&query.call, &explanation), motetSuccess);
            for (int i = 0; !candidate.chosen; i++)
                assert_int_equal(motetExplainCandidate(explanation, i, &candidate), motetSuccess);
            assert_string_equal(candidate.name, algorithm->name);
            motetSimulateResult_t result = result_of(&query);
            assert_int_equal(result.failedRanks, 0);
            if (fabs(result.messages - candidate.messages) > 0.5 || fabs(result.bytes - candidate.total) > 1)
                fail_msg("%s %s, %d ranks on %d hosts: %.0f messages of %.0f bytes instead of %.0f of %.0f", query.call.collective,
                         algorithm->name, worlds[w].n, worlds[w].nhosts, result.messages, result.bytes, candidate.messages,
                         candidate.total);
            assert_int_equal(motetExplainFree(explanation), motetSuccess);
        }
    }
}

/* Ranks that stand for others end when all of them would; messages that reach a link at the same time may take turns. */
static void test_simulation_of_some_ranks_equals_that_of_all(void **state)
{
    (void)state;
    int fewer = 0;
    for (int row = 0; row < motet_nalgorithms; row++) {
        const struct motet_algorithm *algorithm = &motet_algorithms[row];
        for (int w = 0; w < 4; w++) {
            static const int ranks[] = {24, 24, 15, 32}, hosts[] = {24, 6, 15, 8};
            if (!fits(algorithm, ranks[w], hosts[w]))
                continue;
            motetSimulateQuery_t query = query_of(motet_collective_name(algorithm->collective), algorithm->name, ranks[w], 3 << 20);
            query.call.nhosts = hosts[w];
            query.topology = w % 2 ? "hosts" : "flat";
            motetSimulateResult_t some = result_of(&query);
            query.everyRank = 1;
            motetSimulateResult_t all = result_of(&query);
            fewer += some.ranksSimulated < some.ranks;
            assert_int_equal(all.ranksSimulated, all.ranks);
            if (fabs(some.messages - all.messages) > 0.5 || fabs(some.timeNs - all.timeNs) > 0.03 * all.timeNs)
                fail_msg("%s %s, %d ranks on %d hosts: %.0f ns by %d ranks, %.0f ns by all", query.call.collective, algorithm->name,
                         ranks[w], hosts[w], some.timeNs, some.ranksSimulated, all.timeNs);
        }
    }
    assert_true(fewer > 20);
}

/* ---- Networks ---- */

static double time_on(const char *topology, const char *collective, const char *algo, int n)
{
    motetSimulateQuery_t query = textbook_query(collective, algo, n, 1 << 24);
    query.topology = topology;
    return result_of(&query).timeNs;
}

static void test_simulation_of_thinner_networks_takes_longer(void **state)
{
    (void)state;
    double flat = time_on("flat", "AlltoAll", "direct", 64);
    double fat = time_on("fat-tree:radix=16", "AlltoAll", "direct", 64),
           thin = time_on("fat-tree:radix=16,over=3", "AlltoAll", "direct", 64);
    double torus = time_on("torus:dims=8x8", "AlltoAll", "direct", 64),
           cube = time_on("torus:dims=4x4x4", "AlltoAll", "direct", 64);
    double dragonfly = time_on("dragonfly:routers=4,hosts=4,global=2", "AlltoAll", "direct", 64);
    assert_true(fat >= flat && fat < 1.5 * flat);
    assert_true(thin > 1.8 * fat);
    assert_true(dragonfly > 2 * flat);
    assert_true(torus > cube);
    /* Bisection of 8 x 8: 32 x 32 blocks each way over 16 links. */
    assert_true(torus >= 1024.0 * (1 << 24) / 64 / 16 / BYTES_PER_NS);
}

static void test_simulation_of_a_list_of_links_equals_the_same_star(void **state)
{
    (void)state;
    motetSimulateLink_t links[16];
    motetSimulateQuery_t query = textbook_query("AllReduce", "ring", 8, 1 << 20);
    for (int h = 0; h < 8; h++) {
        links[2 * h] = (motetSimulateLink_t){.from = h, .to = 8, .latencyUs = LATENCY_NS / 1e3, .GBs = BYTES_PER_NS};
        links[2 * h + 1] = (motetSimulateLink_t){.from = 8, .to = h, .GBs = BYTES_PER_NS, .name = "back"};
    }
    double star = result_of(&query).timeNs;
    query.links = links;
    query.nlinks = 16;
    query.nswitches = 1;
    assert_true(fabs(result_of(&query).timeNs - star) < 1e-3 * star);
    query.nlinks = 15; /* nothing leads to host 7 */
    motetSimulation_t simulation;
    assert_int_equal(motetSimulate(&query, &simulation), motetInvalidArgument);
    assert_non_null(strstr(motetGetLastError(NULL), "no way"));
}

/* ---- What is planted ---- */

static void test_simulation_with_a_slow_link_is_as_slow_as_it(void **state)
{
    (void)state;
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 16, 1 << 26);
    motetSimulatePlant_t plant = {.kind = motetSimulateSlowLink, .link = "rank 3 out", .factor = 4};
    query.call.network.ideal = 1;
    query.plants = &plant;
    double healthy = result_of(&query).timeNs;
    query.nplants = 1;
    motetSimulateResult_t result;
    motetSimulation_t simulation = simulate(&query, &result);
    motetSimulatePath_t path;
    double least = 4 * 2.0 * 15 / 16 * (1 << 26) / BYTES_PER_NS;
    assert_true(result.timeNs > 2 * healthy && result.timeNs >= least && result.timeNs < 1.2 * least);
    assert_int_equal(motetSimulatePath(simulation, &path), motetSuccess);
    assert_string_equal(path.link, "rank 3 out");
    double parts = path.wireNs + path.queueNs + path.latencyNs + path.coreNs + path.computeNs;
    assert_true(fabs(parts - path.timeNs) < 0.01 * path.timeNs);
    motetSimulateFree(simulation);
}

static void test_simulation_with_a_straggler_names_it(void **state)
{
    (void)state;
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 8, 1 << 20);
    motetSimulatePlant_t plants[] = {{.kind = motetSimulateSlowRank, .rank = 5, .factor = 50},
                                     {.kind = motetSimulateLateRank, .rank = 2, .atNs = 3e6}};
    motetSimulateResult_t healthy = result_of(&query), result;
    motetSimulatePath_t path;
    query.plants = plants;
    query.nplants = 1;
    motetSimulation_t simulation = simulate(&query, &result);
    assert_int_equal(motetSimulatePath(simulation, &path), motetSuccess);
    assert_true(result.timeNs > 2 * healthy.timeNs);
    assert_int_equal(path.slowestRank, 5);
    motetSimulateFree(simulation);
    query.plants = &plants[1];
    result = result_of(&query);
    assert_true(result.timeNs > 3e6 && result.timeNs < 3e6 + 1.1 * healthy.timeNs);
}

static void test_simulation_with_a_death_says_who_reports_it_when(void **state)
{
    (void)state;
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 8, 1 << 20);
    motetSimulatePlant_t plant = {.kind = motetSimulateDeadRank, .rank = 3, .atNs = 50e3};
    motetSimulateResult_t result;
    query.plants = &plant;
    query.nplants = 1;
    motetSimulation_t simulation = simulate(&query, &result);
    assert_int_equal(result.failedRanks, 8);
    for (int r = 0; r < 8; r++) {
        motetSimulateRank_t rank;
        assert_int_equal(motetSimulateRank(simulation, r, &rank), motetSuccess);
        assert_true(rank.doneNs < 0);
        assert_int_equal(rank.dead, r == 3);
        if (r == 3)
            continue;
        assert_true(fabs(rank.toldNs - 50e3 - LATENCY_NS) < 1);
        assert_non_null(strstr(rank.report, "rank 3 (on host 3) is gone: killed"));
    }
    motetSimulateFree(simulation);
    plant.atNs = 1e9; /* when all is over */
    result = result_of(&query);
    assert_int_equal(result.failedRanks, 0);
    plant = (motetSimulatePlant_t){.kind = motetSimulateDeadLink, .link = "rank 6 *", .atNs = 50e3};
    simulation = simulate(&query, &result);
    motetSimulateRank_t rank;
    assert_int_equal(motetSimulateRank(simulation, 0, &rank), motetSuccess);
    assert_true(rank.toldNs > 1e9);
    assert_non_null(strstr(rank.report, "silent"));
    motetSimulateFree(simulation);
}

static void test_simulation_with_jitter_repeats_for_one_seed(void **state)
{
    (void)state;
    motetSimulateQuery_t query = query_of("AllReduce", "double_binary_tree", 20, 1 << 20);
    double calm = result_of(&query).timeNs;
    query.jitter = 0.5;
    query.seed = 7;
    double first = result_of(&query).timeNs, again = result_of(&query).timeNs;
    query.seed = 8;
    double other = result_of(&query).timeNs;
    assert_true(first > calm && first - again < 1e-6 && again - first < 1e-6);
    assert_true(fabs(first - other) > 1e-3);
}

/* ---- Several operations ---- */

static void test_simulation_of_buckets_hides_them_behind_computing(void **state)
{
    (void)state;
    motetSimulateOperation_t operations[8];
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 8, 1 << 20);
    double one = result_of(&query).timeNs, compute = 40 * one;
    for (int i = 0; i < 8; i++)
        operations[i] = (motetSimulateOperation_t){.bytes = 1 << 20, .computedNs = compute * (i + 1) / 8};
    query.operations = operations;
    query.noperations = 8;
    motetSimulateResult_t result;
    motetSimulation_t simulation = simulate(&query, &result);
    assert_true(fabs(result.timeNs - compute - one) < 0.01 * one);
    motetSimulateOperationResult_t last, first;
    assert_int_equal(motetSimulateOperation(simulation, 0, &first), motetSuccess);
    assert_int_equal(motetSimulateOperation(simulation, 7, &last), motetSuccess);
    assert_true(fabs(first.beginNs - compute / 8) < 1 && fabs(last.beginNs - compute) < 1);
    motetSimulateFree(simulation);
    for (int i = 0; i < 8; i++)
        operations[i].computedNs = 0; /* nothing to hide behind: one after the other */
    result = result_of(&query);
    assert_true(result.timeNs > 6 * one && result.timeNs < 8.1 * one);
}

static void test_simulation_of_two_streams_shares_links(void **state)
{
    (void)state;
    motetSimulateOperation_t operations[2] = {{.bytes = 1 << 26}, {.bytes = 1 << 26, .stream = 1}};
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 8, 1 << 26);
    query.call.network.ideal = 1;
    double one = result_of(&query).timeNs;
    query.operations = operations;
    query.noperations = 2;
    double both = result_of(&query).timeNs;
    assert_true(both > 1.5 * one && both < 2.2 * one);
}

/* ---- Refusals ---- */

static void refuses(const motetSimulateQuery_t *query, const char *word)
{
    motetSimulation_t simulation;
    assert_int_equal(motetSimulate(query, &simulation), motetInvalidArgument);
    assert_null(simulation);
    if (!strstr(motetGetLastError(NULL), word))
        fail_msg("\"%s\" does not say %s", motetGetLastError(NULL), word);
}

static void test_simulation_of_nonsense_is_refused(void **state)
{
    static const char *const networks[] = {"",
                                           "ring",
                                           "torus:dims=4",
                                           "torus:dims=0x9",
                                           "fat-tree:radix=1",
                                           "fat-tree:ports=4",
                                           "fat-tree:radix",
                                           "flat:nics=2",
                                           "dragonfly:routers=1,hosts=1,global=1",
                                           "hosts:nics=0"};
    (void)state;
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 8, 1 << 20);
    for (size_t i = 0; i < sizeof(networks) / sizeof(networks[0]); i++) {
        query.topology = networks[i];
        refuses(&query, "network");
    }
    query = query_of("AllReduce", "ring", 0, 1);
    refuses(&query, "nranks");
    query = query_of("Nothing", "ring", 4, 1);
    refuses(&query, "Nothing");
    query = query_of("AllReduce", "ring", 4, 1);
    query.jitter = NAN;
    refuses(&query, "jitter");
    motetSimulatePlant_t plant = {.kind = motetSimulateSlowLink, .link = "rank 4 out", .factor = 2};
    query = query_of("AllReduce", "ring", 4, 1);
    query.plants = &plant;
    query.nplants = 1;
    refuses(&query, "no link is called \"rank 4 out\"");
    plant = (motetSimulatePlant_t){.kind = motetSimulateDeadRank, .rank = 4};
    refuses(&query, "rank of a plant");
}

static int stop_soon(void *context, double share)
{
    double *last = context;
    assert_true(share >= *last && share <= 1.0001);
    *last = share;
    return share > 0.2;
}

static void test_simulation_ends_when_progress_says_so(void **state)
{
    (void)state;
    double last = 0;
    motetSimulation_t simulation;
    motetSimulateQuery_t query = query_of("AllReduce", "ring", 128, 64 << 20);
    query.everyRank = 1;
    query.progress = stop_soon;
    query.context = &last;
    assert_int_equal(motetSimulate(&query, &simulation), motetInvalidUsage);
    assert_true(last > 0.2 && last < 0.9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulation_of_textbook_algorithms_equals_closed_formulas),
        cmocka_unit_test(test_simulation_of_many_tiles_reaches_the_bandwidth_of_links),
        cmocka_unit_test(test_simulation_moves_what_explain_counts),
        cmocka_unit_test(test_simulation_of_some_ranks_equals_that_of_all),
        cmocka_unit_test(test_simulation_of_thinner_networks_takes_longer),
        cmocka_unit_test(test_simulation_of_a_list_of_links_equals_the_same_star),
        cmocka_unit_test(test_simulation_with_a_slow_link_is_as_slow_as_it),
        cmocka_unit_test(test_simulation_with_a_straggler_names_it),
        cmocka_unit_test(test_simulation_with_a_death_says_who_reports_it_when),
        cmocka_unit_test(test_simulation_with_jitter_repeats_for_one_seed),
        cmocka_unit_test(test_simulation_of_buckets_hides_them_behind_computing),
        cmocka_unit_test(test_simulation_of_two_streams_shares_links),
        cmocka_unit_test(test_simulation_of_nonsense_is_refused),
        cmocka_unit_test(test_simulation_ends_when_progress_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
