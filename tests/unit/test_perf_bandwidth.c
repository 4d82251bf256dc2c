/* SPDX-License-Identifier: Apache-2.0
 * The bandwidth columns of perf against figures published for 8 ranks, and against their definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "bandwidth.h"
#include "perf_table.h"

static void check_row(size_t bytes, double time_us, const char *algbw, const char *busbw)
{
    char text[32];
    struct bandwidth got = bandwidth_of(PERF_ALL_REDUCE, bytes / 4, 4, 8, time_us * 1e-6);
    snprintf(text, sizeof text, "%.2f", got.algorithm);
    assert_string_equal(text, algbw);
    snprintf(text, sizeof text, "%.2f", got.bus);
    assert_string_equal(text, busbw);
}

static void test_bandwidth_of_eight_ranks_is_as_published(void **state)
{
    (void)state;
    check_row(8388608, 285.4, "29.39", "51.44");
    check_row(67108864, 1823.0, "36.81", "64.42");
    check_row(268435456, 5210.0, "51.52", "90.17");
}

static void test_bandwidth_factor_of_every_kind_is_its_formula(void **state)
{
    (void)state;
    for (int n = 1; n <= 33; n++) {
        double share = (n - 1.0) / n;
        const enum perf_kind shared[] = {PERF_ALL_GATHER, PERF_REDUCE_SCATTER, PERF_ALLTOALL, PERF_GATHER, PERF_SCATTER};
        const enum perf_kind plain[] = {PERF_BROADCAST, PERF_REDUCE, PERF_SENDRECV, PERF_HYPERCUBE, PERF_BARRIER};
        assert_true(bandwidth_factor(PERF_ALL_REDUCE, n) == 2 * share);
        for (size_t i = 0; i < 5; i++) {
            assert_true(bandwidth_factor(shared[i], n) == share);
            assert_true(bandwidth_factor(plain[i], n) == 1);
        }
    }
}

static void test_bandwidth_bytes_of_gathering_kinds_count_all_ranks(void **state)
{
    (void)state;
    assert_true(bandwidth_bytes(PERF_ALL_REDUCE, 100, 4, 8) == 400);
    assert_true(bandwidth_bytes(PERF_SENDRECV, 100, 4, 8) == 400);
    assert_true(bandwidth_bytes(PERF_ALL_GATHER, 100, 4, 8) == 3200);
    assert_true(bandwidth_bytes(PERF_SCATTER, 100, 4, 8) == 3200);
    assert_true(bandwidth_bytes(PERF_HYPERCUBE, 100, 4, 8) == 2800);
}

static void test_bandwidth_of_one_rank_or_no_time_is_zero(void **state)
{
    (void)state;
    assert_true(bandwidth_of(PERF_ALL_REDUCE, 1000, 4, 1, 1e-3).bus == 0);
    assert_true(bandwidth_of(PERF_ALL_REDUCE, 1000, 4, 8, 0).algorithm == 0);
    assert_true(bandwidth_of(PERF_BARRIER, 0, 4, 8, 1e-6).algorithm == 0);
}

static void test_squeeze_of_any_number_keeps_the_width(void **state)
{
    const struct {
        double number;
        int width;
        const char *text;
    } cases[] = {{0, 7, "0.00"},          {12.5, 7, "12.50"},       {9999.99, 7, "9999.99"}, {10000, 7, "10000.0"},
                 {123456.7, 6, "123457"}, {12345678, 7, "1.2e+07"}, {99.999, 6, "100.00"},   {12345.6, 6, "12346"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        perf_table_squeeze(cases[i].number, cases[i].width, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bandwidth_of_eight_ranks_is_as_published),
        cmocka_unit_test(test_bandwidth_factor_of_every_kind_is_its_formula),
        cmocka_unit_test(test_bandwidth_bytes_of_gathering_kinds_count_all_ranks),
        cmocka_unit_test(test_bandwidth_of_one_rank_or_no_time_is_zero),
        cmocka_unit_test(test_squeeze_of_any_number_keeps_the_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
