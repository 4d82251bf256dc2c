/* SPDX-License-Identifier: Apache-2.0
 * base/text: cutting between characters, and distances between names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/text.h"

static size_t format(char *buf, size_t size, const char *text, ...) __attribute__((format(printf, 3, 4)));

static size_t format(char *buf, size_t size, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    size_t len = motet_text_format(buf, size, text, args);
    va_end(args);
    return len;
}

static void test_text_format_fitting_is_unchanged(void **state)
{
    (void)state;
    char buf[8];
    assert_int_equal(format(buf, sizeof(buf), "%s", "1234567"), 7);
    assert_string_equal(buf, "1234567");
}

static void test_text_format_long_ends_in_dots(void **state)
{
    (void)state;
    char buf[9];
    memset(buf, 'x', sizeof(buf));
    assert_int_equal(format(buf, 8, "%s", "12345678"), 7);
    assert_string_equal(buf, "1234...");
    assert_int_equal(buf[8], 'x');
}

/* Every size from 4 on cuts a text of two-, three- and four-byte characters without leaving a part of one. */
static void test_text_format_never_splits_a_character(void **state)
{
    (void)state;
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\xb5z\xc3\xa9\xc3\xa9";
    const size_t starts[] = {0, 1, 3, 6, 10, 11, 13, 15};
    for (size_t size = 4; size <= strlen(text); size++) {
        char buf[32];
        size_t len = format(buf, size, "%s", text), whole = 0;
        for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
            if (starts[i] + 4 <= size)
                whole = starts[i];
        assert_int_equal(len, whole + 3);
        assert_memory_equal(buf, text, whole);
        assert_string_equal(buf + whole, "...");
    }
}

static void test_text_distance_counts_edits(void **state)
{
    (void)state;
    const struct {
        const char *a, *b;
        unsigned distance;
    } cases[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"MOTET_ALGO", "motet_algo", 0},
        {"MOTET_ALOG", "MOTET_ALGO", 1}, /* neighbours swapped */
        {"MOTET_ALGOS", "MOTET_ALGO", 1},
        {"MOTET_AGO", "MOTET_ALGO", 1},
        {"MOTET_ALKO", "MOTET_ALGO", 1},
        {"kitten", "sitting", 3},
        {"abcd", "badc", 2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(motet_text_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(motet_text_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}

static void test_text_distance_of_long_texts_stays_in_bounds(void **state)
{
    (void)state;
    char a[300], b[200];
    memset(a, 'a', sizeof(a) - 1);
    memset(b, 'b', sizeof(b) - 1);
    a[sizeof(a) - 1] = b[sizeof(b) - 1] = '\0';
    assert_int_equal(motet_text_distance(a, b), 63);
    assert_int_equal(motet_text_distance(a, a), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_format_fitting_is_unchanged),
        cmocka_unit_test(test_text_format_long_ends_in_dots),
        cmocka_unit_test(test_text_format_never_splits_a_character),
        cmocka_unit_test(test_text_distance_counts_edits),
        cmocka_unit_test(test_text_distance_of_long_texts_stays_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
