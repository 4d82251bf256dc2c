/* SPDX-License-Identifier: Apache-2.0
 * base/settings, base/setting_text and params: the grammar, the table, loading, what tools see. The table is iterated, so a new row is
 * tested before anyone writes a test for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/setting_text.h"
#include "base/settings.h"
#include "child.h"

#define POISON INT64_C(-777)

static struct child child;
static const struct motet_setting_row size_row = {.name = "MOTET_S", .type = MOTET_SETTING_SIZE, .min = 0, .max = INT64_MAX};
static const struct motet_setting_row time_row = {.name = "MOTET_T", .type = MOTET_SETTING_TIME, .min = 0, .max = INT64_MAX};
static const struct motet_setting_row int_row = {.name = "MOTET_I", .type = MOTET_SETTING_INT, .min = -100, .max = INT64_MAX};
static const struct motet_setting_row bool_row = {.name = "MOTET_B", .type = MOTET_SETTING_BOOL};

static void test_setting_parse_written_forms_are_understood(void **state)
{
    (void)state;
    const struct {
        const struct motet_setting_row *row;
        const char *text;
        int64_t value;
    } cases[] = {
        {&size_row, "0", 0},
        {&size_row, "4096", 4096},
        {&size_row, "8M", 8 << 20},
        {&size_row, "8m", 8 << 20},
        {&size_row, "64K", 65536},
        {&size_row, "64KiB", 65536},
        {&size_row, "64kb", 65536},
        {&size_row, "3G", INT64_C(3) << 30},
        {&size_row, "1.5M", 3 << 19},
        {&size_row, "0.5K", 512},
        {&size_row, "0x1000", 4096},
        {&size_row, "7B", 7},
        {&size_row, "8589934591G", INT64_C(8589934591) << 30},
        {&time_row, "2s", 2000},
        {&time_row, "2", 2000},
        {&time_row, "500ms", 500},
        {&time_row, "0.25s", 250},
        {&time_row, "30min", 1800000},
        {&time_row, "1.5h", 5400000},
        {&time_row, "1h", 3600000},
        {&time_row, "0", 0},
        {&int_row, "42", 42},
        {&int_row, "+42", 42},
        {&int_row, "-42", -42},
        {&int_row, "010", 10},
        {&int_row, "0xff", 255},
        {&int_row, "0XFf", 255},
        {&int_row, "9223372036854775807", INT64_MAX},
        {&bool_row, "1", 1},
        {&bool_row, "0", 0},
        {&bool_row, "true", 1},
        {&bool_row, "FALSE", 0},
        {&bool_row, "Yes", 1},
        {&bool_row, "no", 0},
        {&bool_row, "on", 1},
        {&bool_row, "off", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = POISON;
        if (motet_setting_parse(cases[i].row, cases[i].text, &value) != motetSuccess)
            fail_msg("%s was refused: %s", cases[i].text, motet_error_text());
        if (value != cases[i].value)
            fail_msg("%s gave %lld", cases[i].text, (long long)value);
    }
}

static void test_setting_parse_nonsense_is_refused_with_name_and_value(void **state)
{
    (void)state;
    const struct {
        const struct motet_setting_row *row;
        const char *text;
    } cases[] = {
        {&size_row, ""},
        {&size_row, "M"},
        {&size_row, "8Q"},
        {&size_row, "8 M"},
        {&size_row, "8M "},
        {&size_row, " 8M"},
        {&size_row, "8MM"},
        {&size_row, "-1"},
        {&size_row, "1.5"},
        {&size_row, "1.M"},
        {&size_row, ".5M"},
        {&size_row, "1.2345M"},
        {&size_row, "0x"},
        {&size_row, "8589934592G"},
        {&size_row, "true"},
        {&size_row, "1e3"},
        {&size_row, "9223372036854775808"},
        {&time_row, "2d"},
        {&time_row, "5m"},
        {&time_row, "s"},
        {&time_row, "2M"},
        {&time_row, "0.5ms"},
        {&time_row, "9999999999999999999s"},
        {&int_row, "8K"},
        {&int_row, "1.0"},
        {&int_row, "ten"},
        {&int_row, "-"},
        {&int_row, "--1"},
        {&int_row, "12abc"},
        {&int_row, "0xfg"},
        {&bool_row, "2"},
        {&bool_row, "tru"},
        {&bool_row, "TRUE "},
        {&bool_row, ""},
        {&int_row, "9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char said[64];
        int64_t value = POISON;
        snprintf(said, sizeof(said), "%s=%s is ", cases[i].row->name, cases[i].text);
        if (motet_setting_parse(cases[i].row, cases[i].text, &value) != motetInvalidArgument)
            fail_msg("\"%s\" was accepted as %lld", cases[i].text, (long long)value);
        assert_true(value == POISON);
        if (!strstr(motet_error_text(), said))
            fail_msg("\"%s\" does not say \"%s\"", motet_error_text(), said);
    }
}

static void test_setting_rows_accept_their_range_and_nothing_else(void **state)
{
    (void)state;
    for (int id = 0; id < MOTET_NSETTINGS; id++) {
        const struct motet_setting_row *row = &motet_setting_rows[id];
        int64_t value;
        if (row->type == MOTET_SETTING_STRING || row->type == MOTET_SETTING_BOOL)
            continue;
        const struct {
            int64_t value;
            bool accepted;
        } edges[] = {{row->min, true}, {row->max, true}, {row->min - 1, false}, {row->max + 1, false}};
        for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
            char text[64];
            snprintf(text, sizeof(text), "%lld%s", (long long)edges[i].value, row->type == MOTET_SETTING_TIME ? "ms" : "");
            motetResult_t result = motet_setting_parse(row, text, &value);
            if ((result == motetSuccess) != edges[i].accepted)
                fail_msg("%s=%s: %s", row->name, text, result == motetSuccess ? "accepted" : motet_error_text());
            if (result == motetSuccess)
                assert_true(value == edges[i].value);
        }
    }
}

static void test_setting_rows_are_complete_and_their_defaults_parse(void **state)
{
    (void)state;
    for (int id = 0; id < MOTET_NSETTINGS; id++) {
        const struct motet_setting_row *row = &motet_setting_rows[id];
        int64_t value;
        assert_int_equal(strncmp(row->name, "MOTET_", 6), 0);
        assert_non_null(row->sentence);
        assert_int_equal(row->sentence[strlen(row->sentence) - 1], '.');
        assert_true(row->type == MOTET_SETTING_STRING || row->fallback[0]);
        if (row->fallback[0] && motet_setting_parse(row, row->fallback, &value) != motetSuccess)
            fail_msg("default of %s: %s", row->name, motet_error_text());
        for (int other = 0; other < id; other++)
            assert_string_not_equal(motet_setting_rows[other].name, row->name);
    }
}

static void test_setting_format_parses_back(void **state)
{
    (void)state;
    const int64_t values[] = {
        0, 1, 999, 1000, 1023, 1024, 1500, 60000, 65536, 90000, 1 << 20, 3600000, 5 << 20, INT64_C(7) << 30, INT64_MAX};
    const struct motet_setting_row *rows[] = {&size_row, &time_row, &int_row};
    char text[MOTET_SETTING_TEXT_MAX];
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        for (size_t j = 0; j < 3; j++) {
            int64_t back = POISON;
            motet_setting_format(rows[j], values[i], text, sizeof(text));
            assert_int_equal(motet_setting_parse(rows[j], text, &back), motetSuccess);
            assert_true(back == values[i]);
        }
    }
    motet_setting_format(&size_row, 1 << 20, text, sizeof(text));
    assert_string_equal(text, "1M");
    motet_setting_format(&time_row, 1800000, text, sizeof(text));
    assert_string_equal(text, "30min");
    motet_setting_format_range(&motet_setting_rows[MOTET_SET_BUFFSIZE], text, sizeof(text));
    assert_string_equal(text, "64K..1G");
    motet_setting_format_range(&motet_setting_rows[MOTET_SET_DEBUG], text, sizeof(text));
    assert_string_equal(text, "NONE, VERSION, WARN, INFO, ABORT, TRACE");
}

static void load_good(void)
{
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_setting_int(MOTET_SET_BUFFSIZE) == 8 << 20);
    CHILD_CHECK(motet_setting_int(MOTET_SET_SHM_DISABLE) == 1);
    CHILD_CHECK(motet_setting_int(MOTET_SET_TIMEOUT) == 2000);
    CHILD_CHECK(motet_setting_is_set(MOTET_SET_TIMEOUT));
    CHILD_CHECK(motet_setting_int(MOTET_SET_INIT_TIMEOUT) == 300000);
    CHILD_CHECK(!motet_setting_is_set(MOTET_SET_INIT_TIMEOUT));
    CHILD_CHECK(!motet_setting_is_set(MOTET_SET_ALGO));
    CHILD_CHECK(strcmp(motet_setting_string(MOTET_SET_ALGO), "") == 0);
    CHILD_CHECK(strcmp(motet_setting_string(MOTET_SET_SECRET), "c0ffee") == 0);
    setenv("MOTET_BUFFSIZE", "1M", 1);
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_setting_int(MOTET_SET_BUFFSIZE) == 8 << 20);

    char *wire = motet_settings_wire_text();
    CHILD_CHECK(wire && strstr(wire, "MOTET_BUFFSIZE=8388608\n") && strstr(wire, "MOTET_SHM_DISABLE=1\n") &&
                strstr(wire, "MOTET_ALGO=\n"));
    CHILD_CHECK(!strstr(wire, "MOTET_TIMEOUT") && !strstr(wire, "c0ffee"));
    free(wire);
}

static void test_settings_load_reads_once_and_says_what_it_read(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_BUFFSIZE=8M",
                                 "MOTET_SHM_DISABLE=true",
                                 "MOTET_TIMEOUT=2s",
                                 "MOTET_ALGO=",
                                 "MOTET_SECRET=c0ffee",
                                 "MOTET_DEBUG=INFO",
                                 NULL};
    child_run(&child, environment, load_good);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET INFO MOTET_BUFFSIZE set by environment to 8M.\n"), 1);
    assert_int_equal(child_count(&child, "MOTET INFO MOTET_SECRET set by environment to (hidden).\n"), 1);
    assert_int_equal(child_count(&child, "c0ffee"), 0);
    assert_int_equal(child_count(&child, "MOTET_ALGO"), 0);
    assert_int_equal(child_count(&child, "WARN"), 0);
}

static void load_bad(void)
{
    for (int i = 0; i < 3; i++) {
        motet_error_clear();
        CHILD_CHECK(motet_settings_load() == motetInvalidArgument);
        CHILD_CHECK(strstr(motet_error_text(), "MOTET_BUFFSIZE=8Q is not a size") && strstr(motet_error_text(), "64K..1G"));
    }
    CHILD_CHECK(motet_setting_int(MOTET_SET_BUFFSIZE) == 1 << 20);
    CHILD_CHECK(motet_setting_int(MOTET_SET_CHECK) == 0);

    motetParamInfo_t info;
    CHILD_CHECK(motetParamInfo(MOTET_SET_BUFFSIZE, &info) == motetSuccess);
    CHILD_CHECK(info.error && strstr(info.error, "8Q") && strcmp(info.value, "8Q") == 0);
    CHILD_CHECK(motetParamInfo(MOTET_SET_CHECK, &info) == motetSuccess);
    CHILD_CHECK(info.error && strstr(info.error, "MOTET_CHECK=maybe is neither yes nor no"));
    CHILD_CHECK(motetParamInfo(MOTET_SET_TIMEOUT, &info) == motetSuccess);
    CHILD_CHECK(!info.error);
}

static void test_settings_load_nonsense_fails_each_time_with_the_same_sentence(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_BUFFSIZE=8Q", "MOTET_CHECK=maybe", NULL};
    child_run(&child, environment, load_bad);
    assert_int_equal(child.status, 0);
}

static void load_refused(void)
{
    CHILD_CHECK(motet_settings_load() == motetInvalidArgument);
}

static void test_settings_load_words_out_of_a_fixed_few_are_refused(void **state)
{
    (void)state;
    const char *level[] = {"MOTET_DEBUG=LOUD", NULL}, *subsys[] = {"MOTET_DEBUG_SUBSYS=INIT,FOO", NULL};
    const char *family[] = {"MOTET_SOCKET_FAMILY=AF_UNIX", NULL};
    child_run(&child, family, load_refused);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET_SOCKET_FAMILY=AF_UNIX is none of AF_INET, AF_INET6\n"), 1);
    child_run(&child, level, load_refused);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET_DEBUG=LOUD is none of NONE, VERSION, WARN"), 1);
    child_run(&child, subsys, load_refused);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET_DEBUG_SUBSYS=INIT,FOO is not a comma list of INIT, COLL"), 1);
}

static void load_accepted(void)
{
    CHILD_CHECK(motet_settings_load() == motetSuccess);
}

static void test_settings_load_unknown_name_warns_and_suggests(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_BUFSIZE=8M", "MOTET_ZZZZZZZZZZZZ=1",     "MOTETX=1",
                                 "NCCL_ALGO=Ring",   "MOTET_TORCH_REPLACE=gloo", NULL};
    child_run(&child, environment, load_accepted);
    assert_int_equal(child.status, 0);
    assert_int_equal(
        child_count(&child, "MOTET WARN MOTET_BUFSIZE is set, but there is no such setting; did you mean MOTET_BUFFSIZE?\n"), 1);
    assert_int_equal(child_count(&child, "MOTET WARN MOTET_ZZZZZZZZZZZZ is set, but there is no such setting (motet env"), 1);
    assert_int_equal(child_count(&child, "WARN"), 2);
}

static void *load_in_thread(void *arg)
{
    (void)arg;
    motetResult_t result = motet_settings_load();
    return (void *)(intptr_t)(result == motetSuccess && motet_setting_int(MOTET_SET_NCHANNELS) == 5);
}

static void load_from_threads(void)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, load_in_thread, NULL) == 0);
    for (int i = 0; i < 8; i++) {
        void *good;
        CHILD_CHECK(pthread_join(threads[i], &good) == 0 && good);
    }
}

static void test_settings_load_from_many_threads_parses_once(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_NCHANNELS=5", "MOTET_NCHANELS=6", NULL};
    child_run(&child, environment, load_from_threads);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET_NCHANELS"), 1);
}

static void walk_params(void)
{
    int count = 0;
    motetParamInfo_t info;
    const char *value;
    CHILD_CHECK(motetParamCount(&count) == motetSuccess && count == MOTET_NSETTINGS);
    for (int i = 0; i < count; i++) {
        CHILD_CHECK(motetParamInfo(i, &info) == motetSuccess);
        CHILD_CHECK(info.name && info.type && info.defaultValue && info.unit && info.range && info.sentence && info.value &&
                    info.source);
        CHILD_CHECK(motetParamGet(info.name, &value) == motetSuccess && strcmp(value, info.value) == 0);
        CHILD_CHECK((strcmp(info.source, "environment") == 0) == (i == MOTET_SET_BUFFSIZE || i == MOTET_SET_SECRET));
        CHILD_CHECK(strcmp(info.value, i == MOTET_SET_BUFFSIZE ? "2M"
                                       : i == MOTET_SET_SECRET ? "(hidden)"
                                                               : info.defaultValue) == 0);
    }
    CHILD_CHECK(motetParamInfo(-1, &info) == motetInvalidArgument && motetParamInfo(count, &info) == motetInvalidArgument);
    CHILD_CHECK(motetParamInfo(0, NULL) == motetInvalidArgument && motetParamCount(NULL) == motetInvalidArgument);
    CHILD_CHECK(motetParamGet(NULL, &value) == motetInvalidArgument && motetParamGet("MOTET_ALGO", NULL) == motetInvalidArgument);
    CHILD_CHECK(motetParamGet("MOTET_TIMEOT", &value) == motetInvalidArgument);
    CHILD_CHECK(strstr(motet_error_text(), "did you mean MOTET_TIMEOUT?"));
}

static void test_params_show_every_setting_and_hide_the_secret(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_BUFFSIZE=2M", "MOTET_SECRET=c0ffee", NULL};
    child_run(&child, environment, walk_params);
    assert_int_equal(child.status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setting_parse_written_forms_are_understood),
        cmocka_unit_test(test_setting_parse_nonsense_is_refused_with_name_and_value),
        cmocka_unit_test(test_setting_rows_accept_their_range_and_nothing_else),
        cmocka_unit_test(test_setting_rows_are_complete_and_their_defaults_parse),
        cmocka_unit_test(test_setting_format_parses_back),
        cmocka_unit_test(test_settings_load_reads_once_and_says_what_it_read),
        cmocka_unit_test(test_settings_load_nonsense_fails_each_time_with_the_same_sentence),
        cmocka_unit_test(test_settings_load_words_out_of_a_fixed_few_are_refused),
        cmocka_unit_test(test_settings_load_unknown_name_warns_and_suggests),
        cmocka_unit_test(test_settings_load_from_many_threads_parses_once),
        cmocka_unit_test(test_params_show_every_setting_and_hide_the_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
