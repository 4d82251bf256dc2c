/* SPDX-License-Identifier: Apache-2.0
 * Which row runs a call: eligible by shape, counts, order and settings, the same on all ranks, and what users force. Bodies run in
 * children, since settings are read once. */
#include "tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/settings.h"
#include "unit/child.h"
#include "verify.h"

static const int one_host[] = {0, 8}, two_hosts[] = {0, 4, 8}, uneven_hosts[] = {0, 3, 8};

static struct motet_tune_world world_of(int nhosts, const int *host_first)
{
    return (struct motet_tune_world){.nranks = host_first[nhosts],
                                     .nhosts = nhosts,
                                     .host_first = host_first,
                                     .ncpus = 8,
                                     .local_ranks = host_first[1],
                                     .lane_bytes = 1 << 20};
}

static struct motet_tuner *tuner_of(const struct motet_tune_world *world)
{
    struct motet_tuner *tuner = NULL;
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_tuner_create(world, &tuner) == motetSuccess);
    return tuner;
}

static const struct motet_algorithm *choose(struct motet_tuner *tuner, struct motet_tune_request request)
{
    const struct motet_algorithm *algorithm = NULL;
    CHILD_CHECK(motet_tune_choose(tuner, &request, &algorithm) == motetSuccess);
    CHILD_CHECK(algorithm && algorithm->collective == request.collective && algorithm->counts >= request.counts);
    return algorithm;
}

static struct motet_tune_request all_reduce_of(size_t bytes, motetDataType_t dtype, motetRedOp_t op)
{
    return (struct motet_tune_request){.collective = MOTET_ALLREDUCE, .dtype = dtype, .op = op, .bytes = bytes};
}

static void run(const char *const *environment, void (*body)(void), struct child *child)
{
    child_run(child, environment, body);
    assert_int_equal(child->status, 0);
}

static void body_float_sums_are_canonical(void)
{
    struct motet_tune_world worlds[] = {world_of(1, one_host), world_of(2, two_hosts), world_of(2, uneven_hosts)};
    static const motetDataType_t floats[] = {motetFloat32, motetBfloat16, motetFloat64, motetFloat8e4m3, motetComplex64};
    for (size_t w = 0; w < 3; w++) {
        struct motet_tuner *tuner = tuner_of(&worlds[w]);
        for (size_t d = 0; d < 5; d++) {
            for (size_t bytes = 1; bytes < (size_t)1 << 31; bytes *= 3) {
                struct motet_shape shape = {.nranks = 8, .nhosts = worlds[w].nhosts, .host_first = worlds[w].host_first};
                const struct motet_algorithm *row = choose(tuner, all_reduce_of(bytes, floats[d], motetSum));
                struct motet_verdict verdict;
                CHILD_CHECK(motet_verify(row, &shape, NULL, &verdict) == motetSuccess);
                CHILD_CHECK(verdict.ok && verdict.order == MOTET_ORDER_CANONICAL);
                motet_verdict_free(&verdict);
            }
        }
        motet_tuner_free(tuner);
    }
}

static void test_choice_for_sums_of_floats_is_canonical_at_every_size_and_placement(void **state)
{
    struct child child;
    (void)state;
    run(NULL, body_float_sums_are_canonical, &child);
}

static void body_other_orders(void)
{
    struct motet_tune_world world = world_of(2, uneven_hosts);
    struct motet_tuner *tuner = tuner_of(&world);
    static const struct {
        motetDataType_t dtype;
        motetRedOp_t op;
        bool ordered;
    } cases[] = {{motetFloat32, motetSum, true},  {motetFloat32, motetProd, true}, {motetFloat16, motetAvg, true},
                 {motetFloat32, motetMax, false}, {motetFloat32, motetMin, false}, {motetInt32, motetSum, false},
                 {motetUint8, motetAvg, false},   {motetInt64, motetBxor, false},  {motetBool, motetSum, false}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct motet_tune_request request = all_reduce_of(1 << 20, cases[c].dtype, cases[c].op);
        struct motet_tune_candidate candidates[32];
        int n, ring = -1;
        CHILD_CHECK(motet_tune_candidates(tuner, &request, candidates, 32, &n) == motetSuccess && n <= 32);
        for (int k = 0; k < n; k++)
            ring = strcmp(candidates[k].algorithm->name, "ring") == 0 ? k : ring;
        CHILD_CHECK(ring >= 0 && (candidates[ring].excluded_by != NULL) == cases[c].ordered);
        CHILD_CHECK((candidates[ring].time_ns > 0) == !cases[c].ordered);
        choose(tuner, request);
    }
    motet_tuner_free(tuner);
}

static void test_choice_leaves_rotated_rows_to_what_does_not_depend_on_order(void **state)
{
    struct child child;
    (void)state;
    run(NULL, body_other_orders, &child);
}

static void body_cheapest(void)
{
    struct motet_tune_world worlds[] = {world_of(1, one_host), world_of(2, two_hosts)};
    for (size_t w = 0; w < 2; w++) {
        struct motet_tuner *tuner = tuner_of(&worlds[w]);
        for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
            for (size_t bytes = c == MOTET_BARRIER ? 0 : 8; bytes <= 1 << 28; bytes = bytes ? bytes * 16 : SIZE_MAX) {
                struct motet_tune_request request = {.collective = (enum motet_collective)c, .dtype = motetFloat32, .bytes = bytes};
                struct motet_tune_candidate candidates[32];
                const struct motet_algorithm *row = choose(tuner, request);
                int n, chosen = -1;
                CHILD_CHECK(motet_tune_candidates(tuner, &request, candidates, 32, &n) == motetSuccess);
                for (int k = 0; k < n; k++)
                    chosen = candidates[k].algorithm == row ? k : chosen;
                CHILD_CHECK(chosen >= 0 && !candidates[chosen].excluded_by);
                for (int k = 0; k < n; k++)
                    CHILD_CHECK(candidates[k].excluded_by || candidates[k].time_ns >= candidates[chosen].time_ns);
                CHILD_CHECK(w > 0 || strcmp(row->name, "hierarchical") != 0);
            }
        }
        motet_tuner_free(tuner);
    }
}

static void test_choice_is_the_cheapest_candidate(void **state)
{
    struct child child;
    (void)state;
    run(NULL, body_cheapest, &child);
}

/* Ranks may have seen different sizes of a class first, or nothing yet: the answer must not depend on it. */
static void body_same_on_all_ranks(void)
{
    struct motet_tune_world world = world_of(2, two_hosts);
    struct motet_tuner *upward = tuner_of(&world), *downward = tuner_of(&world);
    static const struct motet_algorithm *first[4000];
    for (int k = 0; k < 4000; k++)
        first[k] = choose(upward, all_reduce_of((size_t)k * 37 + 1, k % 2 ? motetFloat32 : motetBfloat16, motetSum));
    for (int k = 3999; k >= 0; k--)
        CHILD_CHECK(choose(downward, all_reduce_of((size_t)k * 37 + 1, k % 2 ? motetFloat32 : motetBfloat16, motetSum)) ==
                    first[k]);
    for (int k = 0; k < 4000; k++)
        CHILD_CHECK(choose(upward, all_reduce_of((size_t)k * 37 + 1, k % 2 ? motetFloat32 : motetBfloat16, motetSum)) == first[k]);
    motet_tuner_free(upward);
    motet_tuner_free(downward);
}

static void test_choice_does_not_depend_on_earlier_calls(void **state)
{
    struct child child;
    (void)state;
    run(NULL, body_same_on_all_ranks, &child);
}

static void body_counts(void)
{
    struct motet_tune_world worlds[] = {world_of(1, one_host), world_of(2, uneven_hosts)};
    static const enum motet_collective all_know[] = {MOTET_ALLGATHER, MOTET_REDUCESCATTER};
    static const enum motet_collective pair_knows[] = {MOTET_ALLTOALL, MOTET_GATHER, MOTET_SCATTER};
    for (size_t w = 0; w < 2; w++) {
        struct motet_tuner *tuner = tuner_of(&worlds[w]);
        for (size_t bytes = 0; bytes <= 1 << 26; bytes = bytes ? bytes * 8 : 8) {
            for (size_t c = 0; c < 2; c++)
                choose(tuner,
                       (struct motet_tune_request){
                           .collective = all_know[c], .counts = MOTET_COUNTS_ALL_KNOW, .dtype = motetFloat32, .bytes = bytes});
        }
        for (size_t c = 0; c < 3; c++)
            choose(tuner, (struct motet_tune_request){
                              .collective = pair_knows[c], .counts = MOTET_COUNTS_PAIR_KNOWS, .dtype = motetFloat32});
        motet_tuner_free(tuner);
    }
}

static void test_choice_for_v_variants_serves_their_counts(void **state)
{
    struct child child;
    (void)state;
    run(NULL, body_counts, &child);
}

static void body_forced_ring(void)
{
    struct motet_tune_world world = world_of(1, one_host);
    struct motet_tuner *tuner = tuner_of(&world);
    CHILD_CHECK(!strcmp(choose(tuner, all_reduce_of(8, motetFloat32, motetSum))->name, "ring"));
    CHILD_CHECK(!strcmp(choose(tuner, all_reduce_of(1 << 26, motetInt8, motetMax))->name, "ring"));
    struct motet_tune_request barrier = {.collective = MOTET_BARRIER}, exchange = {.collective = MOTET_ALLTOALL, .bytes = 4096};
    CHILD_CHECK(strcmp(choose(tuner, barrier)->name, "ring") != 0);
    choose(tuner, exchange);
    motet_tuner_free(tuner);
}

static void test_choice_of_a_forced_algorithm_ignores_order_and_one_line_lists_the_rest(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=Ring", "MOTET_DEBUG=INFO", "MOTET_DEBUG_SUBSYS=INIT", NULL}, body_forced_ring, &child);
    assert_int_equal(child_count(&child, "MOTET_ALGO=Ring: no such algorithm for "), 1);
    assert_non_null(strstr(child.output, "AlltoAll"));
    assert_non_null(strstr(child.output, "Barrier: chosen automatically"));
}

static void body_forced_where_it_cannot_serve(void)
{
    struct motet_tune_world world = world_of(1, (int[]){0, 6});
    struct motet_tuner *tuner = tuner_of(&world);
    /* The list was not for AllGather in particular: six ranks have no recursive doubling there. */
    CHILD_CHECK(!strcmp(choose(tuner, all_reduce_of(8, motetFloat32, motetSum))->name, "recursive_doubling"));
    choose(tuner, (struct motet_tune_request){.collective = MOTET_ALLGATHER, .bytes = 4096});
    motet_tuner_free(tuner);
}

static void test_choice_is_automatic_where_a_general_list_cannot_serve(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=recursive_doubling", NULL}, body_forced_where_it_cannot_serve, &child);
}

static void body_named_misfit(void)
{
    struct motet_tune_world world = world_of(1, (int[]){0, 6});
    struct motet_tuner *tuner = NULL;
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_tuner_create(&world, &tuner) == motetInvalidUsage && !tuner);
    CHILD_CHECK(strstr(motet_error_text(), "none of these algorithms of AllGather is for 6 ranks"));
    CHILD_CHECK(strstr(motet_error_text(), "bruck"));
}

static void test_tuner_with_a_named_algorithm_that_does_not_fit_is_refused_at_creation(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=allgather:recursive_doubling", NULL}, body_named_misfit, &child);
}

static void body_named_counts(void)
{
    struct motet_tune_world world = world_of(1, one_host);
    struct motet_tuner *tuner = tuner_of(&world);
    struct motet_tune_request request = {.collective = MOTET_ALLTOALL, .bytes = 4096};
    const struct motet_algorithm *algorithm;
    CHILD_CHECK(!strcmp(choose(tuner, request)->name, "bruck"));
    request.counts = MOTET_COUNTS_PAIR_KNOWS;
    CHILD_CHECK(motet_tune_choose(tuner, &request, &algorithm) == motetInvalidUsage);
    CHILD_CHECK(strstr(motet_error_text(), "bruck (not for blocks of different counts)"));
    CHILD_CHECK(strstr(motet_error_text(), "direct (MOTET_ALGO)"));
    motet_tuner_free(tuner);
}

static void test_choice_of_a_named_algorithm_that_cannot_serve_the_counts_says_why(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=alltoall:bruck", NULL}, body_named_counts, &child);
}

static void body_excluded(void)
{
    struct motet_tune_world world = world_of(1, one_host);
    struct motet_tuner *tuner = tuner_of(&world);
    for (size_t bytes = 8; bytes <= 1 << 28; bytes *= 4) {
        const char *name = choose(tuner, all_reduce_of(bytes, motetFloat32, motetSum))->name;
        CHILD_CHECK(strcmp(name, "one_shot") != 0 && strcmp(name, "two_shot") != 0 && strcmp(name, "ring") != 0);
    }
    motet_tuner_free(tuner);
}

static void test_choice_avoids_what_is_excluded_and_stays_canonical(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=^one_shot,two_shot", NULL}, body_excluded, &child);
}

static void body_hierarchical(void)
{
    struct motet_tune_world world = world_of(1, one_host);
    struct motet_tuner *tuner = tuner_of(&world);
    CHILD_CHECK(!strcmp(choose(tuner, all_reduce_of(4096, motetFloat32, motetSum))->name, "hierarchical"));
    motet_tuner_free(tuner);
}

static void test_choice_on_one_host_takes_what_is_made_for_several_only_if_named(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=hierarchical", NULL}, body_hierarchical, &child);
}

static void body_deterministic(void)
{
    struct motet_tune_world world = world_of(2, uneven_hosts);
    struct motet_tuner *tuner = tuner_of(&world);
    struct motet_tune_request request = all_reduce_of(1 << 20, motetFloat32, motetSum);
    const struct motet_algorithm *algorithm;
    CHILD_CHECK(motet_tune_choose(tuner, &request, &algorithm) == motetInvalidUsage);
    CHILD_CHECK(strstr(motet_error_text(), "ring (MOTET_DETERMINISTIC)"));
    request.dtype = motetInt32;
    CHILD_CHECK(!strcmp(choose(tuner, request)->name, "ring"));
    motet_tuner_free(tuner);
}

static void test_choice_with_deterministic_refuses_a_forced_rotated_sum_of_floats(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_ALGO=allreduce:ring", "MOTET_DETERMINISTIC=1", NULL}, body_deterministic, &child);
}

static void body_many_hosts(void)
{
    static int host_first[130];
    for (int h = 0; h < 130; h++)
        host_first[h] = h;
    struct motet_tune_world world = world_of(129, host_first);
    struct motet_tuner *tuner = tuner_of(&world);
    struct motet_tune_request request = all_reduce_of(1 << 28, motetFloat32, motetSum);
    struct motet_tune_candidate candidates[32];
    int n, rotated = 0;
    CHILD_CHECK(motet_tune_candidates(tuner, &request, candidates, 32, &n) == motetSuccess);
    for (int k = 0; k < n; k++)
        rotated += candidates[k].algorithm->order == MOTET_ORDER_ROTATED && !candidates[k].excluded_by;
    bool deterministic = motet_setting_int(MOTET_SET_DETERMINISTIC);
    CHILD_CHECK((rotated > 0) == !deterministic);
    CHILD_CHECK(!deterministic || choose(tuner, request)->order == MOTET_ORDER_CANONICAL);
    choose(tuner, request);
    motet_tuner_free(tuner);
}

static void test_choice_between_many_hosts_may_rotate_unless_deterministic(void **state)
{
    struct child child;
    (void)state;
    run(NULL, body_many_hosts, &child);
    run((const char *[]){"MOTET_DETERMINISTIC=1", NULL}, body_many_hosts, &child);
}

static void body_log(void)
{
    struct motet_tune_world world = world_of(1, one_host);
    struct motet_tuner *tuner = tuner_of(&world);
    for (int k = 0; k < 10; k++)
        choose(tuner, all_reduce_of(1 << 20, motetFloat32, motetSum));
    CHILD_CHECK(motet_tune_protocols(tuner, MOTET_ALLREDUCE) == (MOTET_PROTO_LL | MOTET_PROTO_SIMPLE));
    CHILD_CHECK(motet_tune_protocols(tuner, MOTET_REDUCE) == (MOTET_PROTO_LL | MOTET_PROTO_SIMPLE));
    motet_tuner_free(tuner);
    motet_tuner_free(tuner_of(&world));
}

static void test_choice_is_logged_once_with_its_protocols_and_ll128_is_said_once(void **state)
{
    struct child child;
    (void)state;
    run((const char *[]){"MOTET_PROTO=LL128,simple", "MOTET_DEBUG=INFO", "MOTET_DEBUG_SUBSYS=TUNING", NULL}, body_log, &child);
    assert_int_equal(child_count(&child, "AllReduce: 1048576 bytes -> Algo "), 1);
    assert_int_equal(child_count(&child, "proto LL/Simple"), 1);
    assert_int_equal(child_count(&child, "LL128 is read as LL"), 1);
}

/* The rule by which the tuner knows canonical rows without running the verifier, held against the verifier. */
static void test_rule_for_canonical_rows_agrees_with_the_verifier(void **state)
{
    (void)state;
    static const struct {
        int nhosts, first[9];
    } places[] = {
        {1, {0, 7}},
        {2, {0, 4, 8}},
        {3, {0, 2, 4, 6}},
        {2, {0, 3, 8}},
        {3, {0, 3, 8, 9}},
        {2, {0, 6, 12}},
        {3, {0, 4, 8, 12}},
        {5, {0, 2, 4, 6, 8, 10}},
        {4, {0, 1, 2, 3, 4}},
        {3, {0, 1, 2, 3}},
        {2, {0, 8, 16}},
        {3, {0, 8, 16, 24}},
        {3, {0, 4, 8, 9}},
        {2, {0, 1, 17}},
        {3, {0, 5, 10, 15}},
        {8, {0, 2, 4, 6, 8, 10, 12, 14, 16}},
        {6, {0, 1, 2, 3, 4, 5, 6}},
        {2, {0, 16, 32}},
    };
    int claimed = 0;
    for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
        struct motet_shape shape = {
            .nranks = places[k].first[places[k].nhosts], .nhosts = places[k].nhosts, .host_first = places[k].first};
        for (int a = 0; a < motet_nalgorithms; a++) {
            bool canonical;
            struct motet_verdict verdict;
            const struct motet_algorithm *row = &motet_algorithms[a];
            if (!motet_collective_reduces(row->collective) || (row->fits && !row->fits(&shape)))
                continue;
            assert_int_equal(motet_tune_is_canonical(row, &shape, &canonical), motetSuccess);
            assert_int_equal(motet_verify(row, &shape, NULL, &verdict), motetSuccess);
            assert_true(verdict.ok);
            if (canonical && verdict.order != MOTET_ORDER_CANONICAL)
                fail_msg("%s %s is not canonical on placement %zu", motet_collective_name(row->collective), row->name, k);
            claimed += canonical;
            motet_verdict_free(&verdict);
        }
    }
    assert_true(claimed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_for_sums_of_floats_is_canonical_at_every_size_and_placement),
        cmocka_unit_test(test_choice_leaves_rotated_rows_to_what_does_not_depend_on_order),
        cmocka_unit_test(test_choice_is_the_cheapest_candidate),
        cmocka_unit_test(test_choice_does_not_depend_on_earlier_calls),
        cmocka_unit_test(test_choice_for_v_variants_serves_their_counts),
        cmocka_unit_test(test_choice_of_a_forced_algorithm_ignores_order_and_one_line_lists_the_rest),
        cmocka_unit_test(test_choice_is_automatic_where_a_general_list_cannot_serve),
        cmocka_unit_test(test_tuner_with_a_named_algorithm_that_does_not_fit_is_refused_at_creation),
        cmocka_unit_test(test_choice_of_a_named_algorithm_that_cannot_serve_the_counts_says_why),
        cmocka_unit_test(test_choice_avoids_what_is_excluded_and_stays_canonical),
        cmocka_unit_test(test_choice_on_one_host_takes_what_is_made_for_several_only_if_named),
        cmocka_unit_test(test_choice_with_deterministic_refuses_a_forced_rotated_sum_of_floats),
        cmocka_unit_test(test_choice_between_many_hosts_may_rotate_unless_deterministic),
        cmocka_unit_test(test_choice_is_logged_once_with_its_protocols_and_ll128_is_said_once),
        cmocka_unit_test(test_rule_for_canonical_rows_agrees_with_the_verifier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
