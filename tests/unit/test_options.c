/* SPDX-License-Identifier: Apache-2.0
 * The option tables of the motet command: values, spellings, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"

struct values {
    int64_t number, bytes, time_ms;
    const char *text, *choice;
    struct option_list list;
    bool flag;
};

static const struct option_row rows[] = {
    {'n', "number", "N", OPTION_INT, offsetof(struct values, number), -5, 100, NULL, NULL, "s"},
    {'b', "min_bytes", "SIZE", OPTION_SIZE, offsetof(struct values, bytes), 0, INT64_MAX, NULL, NULL, "s"},
    {0, "time", "TIME", OPTION_TIME, offsetof(struct values, time_ms), 0, INT64_MAX, NULL, NULL, "s"},
    {0, "text", "TEXT", OPTION_TEXT, offsetof(struct values, text), 0, 0, NULL, NULL, "s"},
    {'c', "choice", "ONE", OPTION_CHOICE, offsetof(struct values, choice), 0, 0, "core|numa|none", NULL, "s"},
    {'e', "env", "NAME", OPTION_LIST, offsetof(struct values, list), 0, 0, NULL, NULL, "s"},
    {'q', "quiet", NULL, OPTION_FLAG, offsetof(struct values, flag), 0, 0, NULL, NULL, "s"},
};

static const struct command test_command = {.name = "test", .options = rows, .noptions = sizeof rows / sizeof rows[0]};

static void release(struct values *values, struct arguments *rest)
{
    free(values->list.items);
    free(rest->items);
}

/* Parses words that are separated by spaces; what was written to stderr is in `message`. */
static enum options_result parse(const char *line, struct values *values, struct arguments *rest, bool stop, char message[512])
{
    static char copy[512];
    char *argv[32] = {(char[]){"test"}}, *save;
    int argc = 1, saved = dup(2);
    FILE *file = tmpfile();
    memset(values, 0, sizeof *values);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    dup2(fileno(file), 2);
    enum options_result result = options_parse(&test_command, argc, argv, values, stop, rest);
    dup2(saved, 2);
    close(saved);
    rewind(file);
    size_t n = fread(message, 1, 511, file);
    message[n] = '\0';
    fclose(file);
    return result;
}

static void test_options_in_every_spelling_are_stored(void **state)
{
    struct values values;
    struct arguments rest;
    char message[512];
    (void)state;
    assert_int_equal(parse("-n 7 --min-bytes=64K --time 2s word -q --text=a=b -ca -c core", &values, &rest, false, message),
                     OPTIONS_USAGE);
    release(&values, &rest);
    assert_int_equal(parse("-n 7 --min-bytes=64K --time 2s word -q --text=a=b -ccore -e A=1 -e B", &values, &rest, false, message),
                     OPTIONS_OK);
    assert_int_equal(values.number, 7);
    assert_int_equal(values.bytes, 65536);
    assert_int_equal(values.time_ms, 2000);
    assert_string_equal(values.text, "a=b");
    assert_string_equal(values.choice, "core");
    assert_int_equal(values.list.n, 2);
    assert_string_equal(values.list.items[1], "B");
    assert_true(values.flag);
    assert_int_equal(rest.n, 1);
    assert_string_equal(rest.items[0], "word");
    release(&values, &rest);
    assert_int_equal(parse("-n-5 --min_b 1 -qb2M", &values, &rest, false, message), OPTIONS_OK);
    assert_int_equal(values.number, -5);
    assert_int_equal(values.bytes, 2 << 20);
    release(&values, &rest);
}

static void test_options_behind_a_program_are_left_alone(void **state)
{
    struct values values;
    struct arguments rest;
    char message[512];
    (void)state;
    assert_int_equal(parse("-n 2 prog -n 3 --bogus", &values, &rest, true, message), OPTIONS_OK);
    assert_int_equal(values.number, 2);
    assert_int_equal(rest.n, 4);
    release(&values, &rest);
    assert_int_equal(parse("-n 2 -- -prog -q", &values, &rest, true, message), OPTIONS_OK);
    assert_int_equal(rest.n, 2);
    assert_string_equal(rest.items[0], "-prog");
    assert_false(values.flag);
    release(&values, &rest);
}

static void test_options_that_are_wrong_name_the_culprit(void **state)
{
    const struct {
        const char *line, *says;
    } cases[] = {
        {"--quit", "did you mean --quiet"},
        {"--nmber 3", "did you mean --number"},
        {"--zzzzzzzz", "unknown option --zzzzzzzz"},
        {"-x", "unknown option -x"},
        {"-n", "-n needs a value"},
        {"--number", "--number needs a value"},
        {"-n 101", "101 is outside -5 to 100"},
        {"-n 3x", "\"3x\" is not a whole number"},
        {"-b 8X", "\"8X\" is not a size"},
        {"--time soon", "\"soon\" is not a time"},
        {"--te", "--text needs a value"},
        {"--quiet=1", "--quiet takes no value"},
        {"--choice noma", "did you mean numa"},
        {"--t 3", "the beginning of several"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values values;
        struct arguments rest;
        char message[512];
        enum options_result result = parse(cases[i].line, &values, &rest, false, message);
        assert_non_null(strstr(message, cases[i].says));
        assert_int_equal(result, OPTIONS_USAGE);
        release(&values, &rest);
    }
}

static void test_options_sizes_and_times_parse_or_are_refused(void **state)
{
    const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } sizes[] = {{"0", 0},        {"8", 8},
                 {"64K", 65536},  {"64k", 65536},
                 {"1M", 1 << 20}, {"2G", (int64_t)2 << 30},
                 {"1KiB", 1024},  {"1KB", 1024},
                 {"8B", 8},       {"", -1},
                 {"K", -1},       {"-1", -1},
                 {"1KK", -1},     {"9999999999G", -1},
                 {"0x10", -1},    {" 8", -1}};
    const struct {
        const char *text;
        int64_t ms;
    } times[] = {{"5", 5000},     {"500ms", 500}, {"2s", 2000}, {"1.5s", 1500}, {"10min", 600000},
                 {"1h", 3600000}, {"", -1},       {"s", -1},    {"2x", -1},     {"-1s", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t value = -1;
        assert_int_equal(options_parse_size(sizes[i].text, &value), sizes[i].bytes >= 0);
        assert_int_equal(value, sizes[i].bytes);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        int64_t value = -1;
        assert_int_equal(options_parse_time(times[i].text, &value), times[i].ms >= 0);
        assert_int_equal(value, times[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_in_every_spelling_are_stored),
        cmocka_unit_test(test_options_behind_a_program_are_left_alone),
        cmocka_unit_test(test_options_that_are_wrong_name_the_culprit),
        cmocka_unit_test(test_options_sizes_and_times_parse_or_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
