/* SPDX-License-Identifier: Apache-2.0
 * Bytes against closed formulas, and what predicted times must obey: more bytes, more hosts, slower links and fewer cores take longer,
 * and each family of algorithms wins where the literature says. */
#include "cost.h"
#include "flat.h"
#include "plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_RANKS  2048
#define NEAR(a, b) ((a) - (b) <= 1e-6 * (b) + 1e-3 && (b) - (a) <= 1e-6 * (b) + 1e-3)

static int host_first[MAX_RANKS + 1];
static const struct motet_cost_load float32 = {.bytes = 1 << 20, .size = 4, .wide_size = 4};
static const struct motet_cost_load bfloat16 = {.bytes = 1 << 20, .size = 2, .wide_size = 4};
static const struct motet_cost_world own_cores = {0};

static struct motet_shape shape_of(int nranks, int nhosts)
{
    for (int h = 0; h <= nhosts; h++)
        host_first[h] = (int)((int64_t)h * nranks / nhosts);
    return (struct motet_shape){.nranks = nranks, .nhosts = nhosts, .host_first = host_first};
}

static const struct motet_algorithm *row(enum motet_collective collective, const char *name)
{
    const struct motet_algorithm *found = motet_algorithm_find(collective, name);
    if (!found)
        fail_msg("no row %s", name);
    return found;
}

static struct motet_cost_volume volume_of(enum motet_collective collective, const char *name, int n, int nhosts, int position,
                                          const struct motet_cost_world *world, const struct motet_cost_load *load)
{
    struct motet_shape shape = shape_of(n, nhosts);
    struct motet_cost_volume volume;
    shape.position = position;
    assert_int_equal(motet_cost_bytes(row(collective, name), &shape, world, load, &volume), motetSuccess);
    return volume;
}

static void assert_near(double value, double expected, const char *what, int n)
{
    if (!NEAR(value, expected))
        fail_msg("%s, %d ranks: %.3f instead of %.3f", what, n, value, expected);
}

/* ---- Bytes ---- */

static void test_bytes_of_all_reduce_equal_twice_n_minus_one_over_n(void **state)
{
    (void)state;
    for (int n = 1; n <= 20; n++) {
        double formula = 2.0 * (n - 1) / n * float32.bytes;
        for (int p = 0; p < n; p++) {
            struct motet_cost_volume ring = volume_of(MOTET_ALLREDUCE, "ring", n, 1, p, &own_cores, &float32);
            struct motet_cost_volume direct = volume_of(MOTET_ALLREDUCE, "two_shot", n, 1, p, &own_cores, &float32);
            assert_near(ring.sent, formula, "ring sends", n);
            assert_near(ring.received, formula, "ring receives", n);
            assert_int_equal(ring.messages_sent, 2 * (n - 1));
            assert_near(direct.sent, formula, "two_shot sends", n);
            assert_near(direct.received, formula, "two_shot receives", n);
            assert_near(ring.sent_net + direct.sent_net, 0, "nothing leaves the host", n);
        }
    }
}

/* Inputs cross raw, partial sums as float32, results rounded: a ring's first message of each chunk is raw, so it moves one n-th less than
 * (2 + 1)(n - 1)/n, which counts it as a partial sum. */
static void test_bytes_of_bfloat16_follow_the_accumulators(void **state)
{
    (void)state;
    for (int n = 2; n <= 20; n++) {
        struct motet_cost_volume ring = volume_of(MOTET_ALLREDUCE, "ring", n, 1, n / 2, &own_cores, &bfloat16);
        struct motet_cost_volume direct = volume_of(MOTET_ALLREDUCE, "two_shot", n, 1, n / 2, &own_cores, &bfloat16);
        assert_near(ring.sent, ((2.0 + 1.0) * (n - 1) - 1) / n * bfloat16.bytes, "ring sends", n);
        assert_near(direct.sent, 2.0 * (n - 1) / n * bfloat16.bytes, "two_shot sends", n);
    }
}

static void test_bytes_of_gathers_and_scatters_equal_n_minus_one_over_n(void **state)
{
    (void)state;
    static const struct {
        enum motet_collective collective;
        const char *name;
    } rows[] = {
        {MOTET_ALLGATHER, "ring"},     {MOTET_ALLGATHER, "direct"},       {MOTET_ALLGATHER, "bruck"},
        {MOTET_REDUCESCATTER, "ring"}, {MOTET_REDUCESCATTER, "pairwise"}, {MOTET_REDUCESCATTER, "direct"},
        {MOTET_ALLTOALL, "direct"},    {MOTET_ALLTOALL, "pairwise"},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        for (int n = 1; n <= 20; n++) {
            struct motet_cost_volume volume = volume_of(rows[r].collective, rows[r].name, n, 1, n - 1, &own_cores, &float32);
            assert_near(volume.sent, (n - 1.0) / n * float32.bytes, rows[r].name, n);
            assert_near(volume.received, (n - 1.0) / n * float32.bytes, rows[r].name, n);
        }
    }
}

/* Two-shot of two ranks: half is staged for the peer (load, store), half added up (two loads, a store) and staged (load, store), half
 * taken (load, store): nine halves. Of threads, all is found where it lies: three halves for adding up, two for taking. */
static void test_core_bytes_count_loads_stores_and_staging(void **state)
{
    (void)state;
    struct motet_cost_world threads = {.same_process = true};
    struct motet_cost_volume staged = volume_of(MOTET_ALLREDUCE, "two_shot", 2, 1, 0, &own_cores, &float32);
    struct motet_cost_volume direct = volume_of(MOTET_ALLREDUCE, "two_shot", 2, 1, 0, &threads, &float32);
    assert_near(staged.core, 9.0 / 2 * float32.bytes, "staged", 2);
    assert_near(direct.core, 5.0 / 2 * float32.bytes, "direct", 2);
    /* One-shot of n ranks: one staging however many read it, n loads and a store. */
    for (int n = 2; n <= 9; n++) {
        struct motet_cost_volume one_shot = volume_of(MOTET_ALLREDUCE, "one_shot", n, 1, 0, &own_cores, &float32);
        assert_near(one_shot.core, (2.0 + n + 1) * float32.bytes, "one_shot", n);
    }
}

static void test_bytes_between_hosts_of_hierarchical_and_ring_do_not_grow_with_local_ranks(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "hierarchical"};
    for (size_t r = 0; r < 2; r++) {
        for (int local = 1; local <= 8; local *= 2) {
            int n = 4 * local;
            double leaves = 0;
            for (int p = 0; p < local; p++)
                leaves += volume_of(MOTET_ALLREDUCE, names[r], n, 4, p, &own_cores, &float32).sent_net;
            double formula = r == 0 ? 2.0 * (n - 1) / n : 2.0 * 3 / 4;
            assert_near(leaves, formula * float32.bytes, names[r], n);
        }
    }
}

/* ---- Time ---- */

static double predict(const struct motet_algorithm *algorithm, int n, int nhosts, const struct motet_cost_world *world,
                      double bytes)
{
    struct motet_shape shape = shape_of(n, nhosts);
    struct motet_cost_load load = {.bytes = bytes, .size = 4, .wide_size = 4};
    double time_ns = -1;
    assert_int_equal(motet_cost_predict(algorithm, &shape, world, &load, &time_ns), motetSuccess);
    return time_ns;
}

static double predict_by_name(const char *name, int n, int nhosts, double bytes)
{
    static const struct motet_cost_world lanes = {.lane_bytes = 1 << 20};
    return predict(row(MOTET_ALLREDUCE, name), n, nhosts, &lanes, bytes);
}

static void test_predicted_time_is_positive_and_grows_with_bytes(void **state)
{
    (void)state;
    static const int ranks[] = {2, 3, 8, 13, 32, 33, 64, 100, 1000};
    struct motet_cost_world world = {.lane_bytes = 1 << 20};
    for (int a = 0; a < motet_nalgorithms; a++) {
        for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++) {
            double before = 0;
            struct motet_shape shape = shape_of(ranks[r], 1);
            if (motet_algorithms[a].fits && !motet_algorithms[a].fits(&shape))
                continue;
            for (double bytes = 8; bytes <= 1 << 28; bytes *= 512) {
                double now = predict(&motet_algorithms[a], ranks[r], 1, &world, bytes);
                if (now <= 0 || now < before)
                    fail_msg("%s %s, %d ranks, %.0f bytes: %.1f ns after %.1f",
                             motet_collective_name(motet_algorithms[a].collective), motet_algorithms[a].name, ranks[r], bytes, now,
                             before);
                before = now;
            }
        }
    }
}

static void test_predicted_time_of_large_messages_approaches_volume_over_speed(void **state)
{
    (void)state;
    const struct motet_cost_machine *machine = &motet_cost_default;
    for (int n = 2; n <= 16; n *= 2) {
        double bytes = 1 << 30;
        struct motet_cost_load load = {.bytes = bytes, .size = 4, .wide_size = 4};
        double least = volume_of(MOTET_ALLREDUCE, "two_shot", n, 1, 0, &own_cores, &load).core / machine->memory_bytes_per_ns;
        double time = predict_by_name("two_shot", n, 1, bytes);
        assert_true(time >= 0.99 * least && time < 1.3 * least); /* a few bytes are in caches */
        /* Between hosts the wire decides: twice (n - 1)/n of the bytes leave each host. */
        least = 2.0 * (n - 1) / n * bytes / machine->link[MOTET_LINK_NET].bytes_per_ns;
        time = predict_by_name("ring", n, n, bytes);
        assert_true(time >= least && time < 1.3 * least);
    }
}

static void test_predicted_latency_counts_hops(void **state)
{
    (void)state;
    double hop = motet_cost_default.link[MOTET_LINK_NET].latency_ns;
    for (int n = 4; n <= 64; n *= 2) {
        int doublings = __builtin_ctz((unsigned)n);
        double chain = predict_by_name("chain", n, n, 8), ring = predict_by_name("ring", n, n, 8);
        double doubling = predict_by_name("recursive_doubling", n, n, 8);
        assert_true(chain >= 2 * (n - 1) * hop && chain < 2 * (n - 1) * hop * 1.6);
        assert_true(ring >= 2 * (n - 1) * hop && ring < 2 * (n - 1) * hop * 1.6);
        assert_true(doubling >= doublings * hop && doubling < doublings * hop * 1.6);
    }
}

static void test_predicted_winner_is_the_one_the_literature_names(void **state)
{
    (void)state;
    /* Inside a host one-shot wins small messages, two-shot large ones; a ring is never the answer to 8 bytes. */
    for (int n = 2; n <= 8; n *= 2) {
        assert_true(predict_by_name("one_shot", n, 1, 8) < predict_by_name("two_shot", n, 1, 8));
        assert_true(predict_by_name("one_shot", n, 1, 1 << 20) > predict_by_name("two_shot", n, 1, 1 << 20));
        assert_true(predict_by_name("one_shot", n, 1, 8) < predict_by_name("ring", n, 1, 8));
    }
    /* Between hosts: doubling for small, ring for large, and hierarchical ahead of flat two-shot when hosts have several ranks. */
    assert_true(predict_by_name("recursive_doubling", 16, 16, 8) < predict_by_name("ring", 16, 16, 8));
    assert_true(predict_by_name("recursive_doubling", 16, 16, 1 << 26) > predict_by_name("ring", 16, 16, 1 << 26));
    assert_true(predict_by_name("hierarchical", 64, 8, 1 << 26) < predict_by_name("two_shot", 64, 8, 1 << 26));
    /* One tree has a busy middle; two halve its load. One rank that does everything is a bottleneck. */
    assert_true(predict_by_name("double_binary_tree", 16, 16, 1 << 26) < predict_by_name("central", 16, 16, 1 << 26));
}

static void test_predicted_time_with_more_ranks_than_cores_favours_few_phases(void **state)
{
    (void)state;
    struct motet_cost_world crowded = {.ncpus = 2, .local_ranks = 8, .lane_bytes = 1 << 20}, roomy = {.ncpus = 8, .local_ranks = 8};
    const struct motet_algorithm *one = row(MOTET_ALLREDUCE, "one_shot"), *two = row(MOTET_ALLREDUCE, "two_shot");
    assert_true(predict(one, 8, 1, &crowded, 4096) > predict(one, 8, 1, &roomy, 4096));
    /* Two-shot's saving in bytes pays from some KB with a core each, but not against a round of context switches. */
    assert_true(predict(two, 8, 1, &roomy, 8192) < predict(one, 8, 1, &roomy, 8192));
    assert_true(predict(two, 8, 1, &crowded, 4096) > predict(one, 8, 1, &crowded, 4096));
}

static void test_predicted_time_of_large_shapes_continues_the_small_ones(void **state)
{
    (void)state;
    static const char *const names[] = {"ring", "two_shot", "one_shot", "chain", "recursive_doubling", "double_binary_tree"};
    for (size_t r = 0; r < sizeof(names) / sizeof(names[0]); r++) {
        double at_limit = predict_by_name(names[r], 32, 1, 4096), beyond = predict_by_name(names[r], 33, 1, 4096);
        double twice = predict_by_name(names[r], 64, 1, 4096), far = predict_by_name(names[r], 1024, 1, 4096);
        assert_true(beyond >= at_limit * 0.99 && beyond < at_limit * 1.3);
        assert_true(twice >= beyond && far >= twice);
    }
    /* A chain doubles, a doubling adds one hop. */
    double chain = predict_by_name("chain", 128, 128, 8) / predict_by_name("chain", 64, 64, 8);
    double doubling = predict_by_name("recursive_doubling", 128, 128, 8) - predict_by_name("recursive_doubling", 64, 64, 8);
    assert_true(chain > 1.9 && chain < 2.2);
    assert_true(doubling > 0.9 * motet_cost_default.link[MOTET_LINK_NET].latency_ns);
    assert_true(doubling < 1.6 * motet_cost_default.link[MOTET_LINK_NET].latency_ns);
}

static void test_predicted_time_follows_the_machine_that_is_given(void **state)
{
    (void)state;
    struct motet_cost_machine slow = motet_cost_default;
    struct motet_cost_world world = {.machine = &slow};
    const struct motet_algorithm *ring = row(MOTET_ALLREDUCE, "ring");
    double before = predict(ring, 8, 8, &own_cores, 1 << 24);
    slow.link[MOTET_LINK_NET].bytes_per_ns /= 4;
    double narrow = predict(ring, 8, 8, &world, 1 << 24);
    assert_true(narrow > 3 * before && narrow < 5 * before);
    slow = motet_cost_default;
    slow.link[MOTET_LINK_NET].latency_ns *= 10;
    assert_true(predict(ring, 8, 8, &world, 8) > 5 * predict(ring, 8, 8, &own_cores, 8));
    slow = motet_cost_default;
    motet_cost_machine_core(&slow, slow.memory_bytes_per_ns / 2);
    assert_true(predict(ring, 8, 1, &world, 1 << 24) > 1.8 * predict(ring, 8, 1, &own_cores, 1 << 24));
}

/* The short way is chosen by flat.c from plans, and priced from schedules: both must mean the same. */
static void test_short_way_is_priced_where_it_is_taken(void **state)
{
    (void)state;
    int nshort = 0;
    for (int a = 0; a < motet_nalgorithms; a++) {
        for (int n = 2; n <= 9; n++) {
            struct motet_shape shape = shape_of(n, 1);
            if (motet_algorithms[a].fits && !motet_algorithms[a].fits(&shape))
                continue;
            for (shape.position = 0; shape.position < n; shape.position++) {
                struct motet_schedule schedule = {0};
                struct motet_plan *plan = NULL;
                motet_algorithms[a].build(&schedule, &shape);
                motet_schedule_expand(&schedule);
                assert_int_equal(motet_plan_build(&motet_algorithms[a], &shape, 4 * n, &plan), motetSuccess);
                if (motet_cost_is_short(&schedule) != motet_flat_suits(plan))
                    fail_msg("%s %s, %d ranks, position %d: priced as %s", motet_collective_name(motet_algorithms[a].collective),
                             motet_algorithms[a].name, n, shape.position, motet_flat_suits(plan) ? "long" : "short");
                nshort += motet_cost_is_short(&schedule);
                motet_plan_free(plan);
                motet_schedule_free(&schedule);
            }
        }
    }
    assert_true(nshort > 100);
}

static void test_predicted_time_prefers_the_short_way_for_small_messages(void **state)
{
    (void)state;
    for (int n = 4; n <= 8; n *= 2) {
        struct motet_cost_world roomy = {.ncpus = n, .local_ranks = n, .lane_bytes = 1 << 20};
        struct motet_cost_world crowded = {.ncpus = 2, .local_ranks = n, .lane_bytes = 1 << 20};
        for (double bytes = 1024; bytes <= 8192; bytes *= 2) {
            double direct = predict(row(MOTET_BROADCAST, "direct"), n, 1, &roomy, bytes);
            assert_true(direct < predict(row(MOTET_BROADCAST, "scatter_allgather"), n, 1, &roomy, bytes));
            assert_true(direct < predict(row(MOTET_BROADCAST, "double_binary_tree"), n, 1, &roomy, bytes));
            direct = predict(row(MOTET_BROADCAST, "direct"), n, 1, &crowded, bytes);
            assert_true(direct < predict(row(MOTET_BROADCAST, "scatter_allgather"), n, 1, &crowded, bytes));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_all_reduce_equal_twice_n_minus_one_over_n),
        cmocka_unit_test(test_bytes_of_bfloat16_follow_the_accumulators),
        cmocka_unit_test(test_bytes_of_gathers_and_scatters_equal_n_minus_one_over_n),
        cmocka_unit_test(test_core_bytes_count_loads_stores_and_staging),
        cmocka_unit_test(test_bytes_between_hosts_of_hierarchical_and_ring_do_not_grow_with_local_ranks),
        cmocka_unit_test(test_predicted_time_is_positive_and_grows_with_bytes),
        cmocka_unit_test(test_predicted_time_of_large_messages_approaches_volume_over_speed),
        cmocka_unit_test(test_predicted_latency_counts_hops),
        cmocka_unit_test(test_predicted_winner_is_the_one_the_literature_names),
        cmocka_unit_test(test_predicted_time_with_more_ranks_than_cores_favours_few_phases),
        cmocka_unit_test(test_predicted_time_of_large_shapes_continues_the_small_ones),
        cmocka_unit_test(test_predicted_time_follows_the_machine_that_is_given),
        cmocka_unit_test(test_short_way_is_priced_where_it_is_taken),
        cmocka_unit_test(test_predicted_time_prefers_the_short_way_for_small_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
