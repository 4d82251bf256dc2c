/* SPDX-License-Identifier: Apache-2.0
 * Numbers with units, and networks in files. */
#include "quantity.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "network_file.h"

static void test_quantity_texts_have_units_and_four_digits(void **state)
{
    char text[QUANTITY_MAX];
    (void)state;
    assert_string_equal(quantity_bytes(0, text), "0 B");
    assert_string_equal(quantity_bytes(1023, text), "1023 B");
    assert_string_equal(quantity_bytes(1024, text), "1 KiB");
    assert_string_equal(quantity_bytes(1.75 * 1048576, text), "1.75 MiB");
    assert_string_equal(quantity_decimal_bytes(14e9, text), "14 GB");
    assert_string_equal(quantity_decimal_bytes(94117.6, text), "94.12 KB");
    assert_string_equal(quantity_time(999.99, text), "1 us");
    assert_string_equal(quantity_time(12345, text), "12.35 us");
}

static void test_quantity_speeds_and_latencies_are_read_with_units(void **state)
{
    double value;
    (void)state;
    assert_true(quantity_parse_speed("12.5", &value) && fabs(value - 12.5) < 1e-12);
    assert_true(quantity_parse_speed("100Gb/s", &value) && fabs(value - 12.5) < 1e-12);
    assert_true(quantity_parse_speed("800 MB/s", &value) && fabs(value - 0.8) < 1e-12);
    assert_true(quantity_parse_latency("150ns", &value) && fabs(value - 0.15) < 1e-12);
    assert_true(quantity_parse_latency("5", &value) && fabs(value - 5) < 1e-12);
    assert_true(quantity_parse_count("7B", &value) && fabs(value - 7e9) < 1);
    assert_true(quantity_parse_count("25.6M", &value) && fabs(value - 25.6e6) < 1);
    static const char *const speeds[] = {"", "0", "-1", "fast", "1Gib", "1e999", "nan", "10GB/s "};
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        assert_false(quantity_parse_speed(speeds[i], &value));
    static const char *const latencies[] = {"", "-5us", "us", "5 hours", "inf"};
    for (size_t i = 0; i < sizeof latencies / sizeof latencies[0]; i++)
        assert_false(quantity_parse_latency(latencies[i], &value));
}

static void test_network_file_members_are_taken(void **state)
{
    static const char text[] =
        "{\"hosts\": 2, \"latency\": \"5us\", \"bandwidth\": \"100Gb/s\", \"rank_bandwidth\": 25, \"ideal\": true}";
    struct network_file file;
    char why[256] = "";
    (void)state;
    assert_true(network_file_parse("f", text, strlen(text), &file, why, sizeof why));
    assert_int_equal(file.hosts, 2);
    assert_true(fabs(file.network.latencyUs - 5) < 1e-9 && fabs(file.network.hostGBs - 12.5) < 1e-9);
    assert_true(fabs(file.network.rankGBs - 25) < 1e-9 && file.network.ideal && !file.network.whole);
}

static void test_network_file_errors_name_file_line_and_element(void **state)
{
    static const struct {
        const char *text, *line, *word;
    } cases[] = {{"{\n\"hosts\": 2,\n\"latency\": \"fast\"}", "f:3: ", "latency"},
                 {"{\"hosts\": 2,\n\n\"speed\": 3}", "f:3: ", "speed"},
                 {"{\"hosts\": 0}", "f:1: ", "hosts"},
                 {"{\"bandwidth\": -1}", "f:1: ", "bandwidth"},
                 {"{\"ideal\": 1}", "f:1: ", "ideal"},
                 {"[]", "f:1: ", "object"},
                 {"{\n\"hosts\": ", "f:2: ", "end of file"},
                 {"{\"hosts\": 1,\n\"hosts\": 2}", "f:2: ", "duplicate"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct network_file file;
        char why[256] = "";
        assert_false(network_file_parse("f", cases[i].text, strlen(cases[i].text), &file, why, sizeof why));
        if (strncmp(why, cases[i].line, strlen(cases[i].line)) != 0 || !strstr(why, cases[i].word))
            fail_msg("\"%s\" lacks \"%s\" or \"%s\"", why, cases[i].line, cases[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantity_texts_have_units_and_four_digits),
        cmocka_unit_test(test_quantity_speeds_and_latencies_are_read_with_units),
        cmocka_unit_test(test_network_file_members_are_taken),
        cmocka_unit_test(test_network_file_errors_name_file_line_and_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
