/* SPDX-License-Identifier: Apache-2.0
 * The verifier accepts hand-made right schedules, and its verdict counts what they do. */
#include "unit/handmade.h"

static bool ranks_fit(enum base base, int n)
{
    return base == DOUBLING ? !(n & (n - 1)) : base == TWICE ? n == 2 : base == RING ? n > 1 : true;
}

static void test_verify_right_schedules_are_accepted_on_all_rank_counts_and_roots(void **state)
{
    (void)state;
    for (int base = 0; base < NBASES; base++) {
        for (int n = 1; n <= MAX_RANKS; n++) {
            for (int root = 0; root < (motet_collective_has_root(bases[base].collective) ? n : 1) && ranks_fit(base, n); root++) {
                struct motet_verdict verdict;
                verify(base, n, root, NULL, NULL, &verdict);
                if (!verdict.ok)
                    fail_msg("%s", verdict.text);
                assert_string_equal(verdict.text, "");
                assert_true(verdict.unbuffered_ok);
                /* A ring of two ranks adds both inputs in rank order. */
                enum motet_order order = base == RING && n == 2 ? MOTET_ORDER_CANONICAL : bases[base].order;
                assert_int_equal(verdict.order, order);
                motet_verdict_free(&verdict);
            }
        }
    }
}

static void test_verdict_of_two_shot_counts_what_moves(void **state)
{
    (void)state;
    struct motet_verdict verdict;
    verify(TWO_SHOT, 5, 0, NULL, NULL, &verdict);
    assert_true(verdict.ok);
    assert_int_equal(verdict.rounds, 1);
    assert_int_equal(verdict.sends, 5); /* four of raw chunks, one of the own result to all */
    assert_int_equal(verdict.nchunks, 5);
    assert_int_equal(verdict.chunks_total, 5 * 8);
    for (int p = 0; p < 5; p++) {
        assert_int_equal(verdict.chunks_sent[p], 8);
        assert_int_equal(verdict.wide_sent[p], 0);
    }
    assert_true(verdict.direct_ok);
    assert_false(verdict.direct_ok_in_place); /* what others still read of the input becomes output */
    motet_verdict_free(&verdict);
}

static void test_verdict_of_a_ring_counts_accumulators_and_refuses_direct_reading(void **state)
{
    (void)state;
    struct motet_verdict verdict;
    verify(RING, 6, 0, NULL, NULL, &verdict);
    assert_true(verdict.ok);
    for (int p = 0; p < 6; p++) {
        assert_int_equal(verdict.chunks_sent[p], 2 * 5);
        assert_int_equal(verdict.wide_sent[p], 4); /* all but the raw first and the finished last of the reduce-scatter */
    }
    assert_false(verdict.direct_ok); /* partial sums exist in messages only */
    motet_verdict_free(&verdict);
}

static void test_verdict_order_is_over_ranks_not_positions(void **state)
{
    (void)state;
    static const int swapped_halves[] = {2, 3, 0, 1}, dealt[] = {0, 2, 1, 3};
    struct motet_verdict verdict;
    verify(DOUBLING, 4, 0, NULL, swapped_halves, &verdict);
    assert_int_equal(verdict.order, MOTET_ORDER_CANONICAL); /* a sum does not depend on the order of two operands */
    motet_verdict_free(&verdict);
    verify(DOUBLING, 4, 0, NULL, dealt, &verdict);
    assert_int_equal(verdict.order, MOTET_ORDER_ROTATED);
    motet_verdict_free(&verdict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify_right_schedules_are_accepted_on_all_rank_counts_and_roots),
        cmocka_unit_test(test_verdict_of_two_shot_counts_what_moves),
        cmocka_unit_test(test_verdict_of_a_ring_counts_accumulators_and_refuses_direct_reading),
        cmocka_unit_test(test_verdict_order_is_over_ranks_not_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
