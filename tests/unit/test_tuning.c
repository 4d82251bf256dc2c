/* SPDX-License-Identifier: Apache-2.0
 * Tables of measured times and rules: what is read, what is refused and how, and what the choice makes of them. */
#include "tuning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/settings.h"
#include "census.h"
#include "tune.h"
#include "unit/child.h"

#define MACHINE UINT64_C(0x1234567890abcdef)

static const char table[] =
    "{\"motet_tuning\": 1, \"made_by\": {\"a\": [1, null, true]}, \"shapes\": [\n"
    " {\"machine\": \"1234567890abcdef\", \"ranks\": 4, \"hosts\": 1, \"cpus\": 0, \"threads\": false, \"points\": [\n"
    "  {\"collective\": \"AllReduce\", \"bytes\": 1000000, \"times_us\": {\"one_shot\": 300, \"two_shot\": 100.5, \"ring\": 1}},\n"
    "  {\"collective\": \"AllReduce\", \"bytes\": 1000, \"times_us\": {\"one_shot\": 2, \"two_shot\": 1e0}},\n"
    "  {\"bytes\": 1000, \"times_us\": {\"binomial\": 3.25, \"of_later_versions\": 1}, \"collective\": \"broadcast\"}]},\n"
    " {\"machine\": \"1234567890abcdef\", \"ranks\": 4, \"hosts\": 1, \"cpus\": 2, \"threads\": false, \"points\": []}]}\n";

static struct motet_tuning parse(const char *text)
{
    struct motet_tuning tuning;
    motetResult_t result = motet_tuning_parse("FILE", text, strlen(text), &tuning);
    if (result != motetSuccess)
        fail_msg("%s", motet_error_text());
    return tuning;
}

static int row_of(enum motet_collective collective, const char *name)
{
    return (int)(motet_algorithm_find(collective, name) - motet_algorithms);
}

static void test_table_gives_the_times_that_it_has_and_those_between(void **state)
{
    (void)state;
    struct motet_tuning tuning = parse(table);
    const struct motet_tuning_shape *shape = motet_tuning_find(&tuning, MACHINE, 4, 1, 0, false);
    int one = row_of(MOTET_ALLREDUCE, "one_shot"), two = row_of(MOTET_ALLREDUCE, "two_shot");
    assert_non_null(shape);
    assert_int_equal(shape->npoints, 3);
    assert_float_equal(motet_tuning_time(&tuning, shape, one, 1000), 2000, 0.01);
    assert_float_equal(motet_tuning_time(&tuning, shape, one, 8), 2000, 0.01); /* below the first */
    assert_float_equal(motet_tuning_time(&tuning, shape, one, 500500), 151000, 1);
    assert_float_equal(motet_tuning_time(&tuning, shape, two, 1000000), 100500, 1);
    assert_float_equal(motet_tuning_time(&tuning, shape, two, 4000000), 402000, 1);
    assert_float_equal(motet_tuning_time(&tuning, shape, two, 4000001), 0, 0); /* too far */
    assert_float_equal(motet_tuning_time(&tuning, shape, row_of(MOTET_BROADCAST, "binomial"), 1000), 3250, 0.01);
    assert_float_equal(motet_tuning_time(&tuning, shape, row_of(MOTET_REDUCE, "two_shot"), 1000), 0, 0);
    motet_tuning_free(&tuning);
}

static void test_table_counts_for_its_own_shapes_only(void **state)
{
    (void)state;
    struct motet_tuning tuning = parse(table);
    assert_non_null(motet_tuning_find(&tuning, MACHINE, 4, 1, 2, false));
    assert_null(motet_tuning_find(&tuning, MACHINE + 1, 4, 1, 0, false));
    assert_null(motet_tuning_find(&tuning, MACHINE, 5, 1, 0, false));
    assert_null(motet_tuning_find(&tuning, MACHINE, 4, 2, 0, false));
    assert_null(motet_tuning_find(&tuning, MACHINE, 4, 1, 3, false));
    assert_null(motet_tuning_find(&tuning, MACHINE, 4, 1, 0, true));
    motet_tuning_free(&tuning);
}

static void test_rules_are_taken_in_order_and_by_ranks_and_hosts(void **state)
{
    (void)state;
    struct motet_tuning tuning = parse("# a comment\n\n"
                                       "allreduce,0,65536,tree,simple,2,1,-1,-1,-1\r\n"
                                       "allreduce,0,100,ring,ll,-1,-1,-1\n"
                                       "  AllReduce , 65537 , 4294967296 , two_shot , LL128 , -1 , 2 , 8 \n"
                                       "broadcast,0,10,nvls,simple,-1,-1,-1\n");
    bool all[256], no_trees[256];
    memset(all, 1, sizeof all);
    memset(no_trees, 1, sizeof no_trees);
    int tree = row_of(MOTET_ALLREDUCE, "double_binary_tree");
    no_trees[tree] = false;
    assert_int_equal(tuning.nrules, 3); /* the one for an algorithm of NCCL alone is left out */
    assert_int_equal(motet_tuning_rule(&tuning, MOTET_ALLREDUCE, 100, 8, 1, all), tree);
    assert_int_equal(motet_tuning_rule(&tuning, MOTET_ALLREDUCE, 100, 8, 1, no_trees), row_of(MOTET_ALLREDUCE, "ring"));
    assert_int_equal(motet_tuning_rule(&tuning, MOTET_ALLREDUCE, 101, 8, 2, all), -1);
    assert_int_equal(motet_tuning_rule(&tuning, MOTET_ALLREDUCE, 65537, 8, 2, all), row_of(MOTET_ALLREDUCE, "two_shot"));
    assert_int_equal(motet_tuning_rule(&tuning, MOTET_ALLREDUCE, 65537, 7, 2, all), -1);
    assert_int_equal(motet_tuning_rule(&tuning, MOTET_BROADCAST, 5, 8, 1, all), -1);
    motet_tuning_free(&tuning);
}

static void test_wrong_files_are_refused_with_line_and_element(void **state)
{
    (void)state;
    static const struct {
        const char *text, *complaint;
    } cases[] = {
        {"", "FILE:1: the file is empty"},
        {" \n\t", "FILE:1: the file is empty"},
        {"{", "FILE:1: the text ends here"},
        {"{}", "FILE:1: motet_tuning is missing"},
        {"{\"motet_tuning\": 2}", "FILE:1: motet_tuning: a whole number"},
        {"{\"motet_tuning\": 1} x", "FILE:1: something follows the end"},
        {"{\"motet_tuning\": 1,\n \"shapes\": {}}", "FILE:2: shapes: a list in brackets"},
        {"{\"motet_tuning\": 1, \"shapes\": [\n{\"ranks\": 2}]}", "FILE:2: shapes[0]: machine is missing"},
        {"{\"motet_tuning\": 1, \"shapes\": [\n\n{\"machine\": \"0\"}]}", "FILE:3: shapes[0].machine: 16 hexadecimal"},
        {"{\"motet_tuning\": 1, \"shapes\": [{\"ranks\": 2.5}]}", "FILE:1: shapes[0].ranks: a whole number"},
        {"{\"motet_tuning\": 1, \"shapes\": [{\"threads\": 1}]}", "FILE:1: shapes[0].threads: true or false"},
        {"{\"motet_tuning\": 1, \"shapes\": [{\"points\": [{\"bytes\": 1},\n{\"bytes\": 2}]}]}",
         "FILE:1: shapes[0].points[0]: collective is missing"},
        {"{\"motet_tuning\": 1, \"shapes\": [{\"points\": [\n{\"collective\": \"AllRedoce\"}]}]}",
         "FILE:2: shapes[0].points[0].collective: there is no such collective"},
        {"{\"motet_tuning\": 1, \"shapes\": [{\"points\": [{\"times_us\": {\"ring\": 0}}]}]}",
         "FILE:1: shapes[0].points[0].times_us.ring: microseconds, more than 0"},
        {"{\"motet_tuning\": 1, \"a\": 01}", "FILE:1: a: a number is expected"},
        {"{\"motet_tuning\": 1, \"a\": 1e999}", "FILE:1: a: a number is too large"},
        {"{\"motet_tuning\": 11e99999999999999999999}", "FILE:1: motet_tuning: a number is too large"},
        {"{\"motet_tuning\": 0e99999999999999999999}", "FILE:1: motet_tuning: a whole number"},
        {"{\"motet_tuning\": 1e-99999999999999999999}", "FILE:1: motet_tuning: a whole number"},
        {"{\"motet_tuning\": 1, \"a\": \"\\q\"}", "FILE:1: a: a text contains a wrong escape"},
        {"{\"motet_tuning\": 1, \"a\": [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}", "too deep"},
        {"allreduce,0,1,tree\n", "FILE:1: 4 fields, there must be 8 to 10"},
        {"# x\nallredoce,0,1,tree,simple,1,1,1\n", "FILE:2: collective_type \"allredoce\" is not a collective"},
        {"allreduce,-1,1,tree,simple,1,1,1", "FILE:1: min_bytes \"-1\" is not a number of bytes"},
        {"allreduce,0,1,binomial,simple,1,1,1", "FILE:1: algorithm \"binomial\" is not an algorithm of this collective"},
        {"allreduce,0,1,tree,fast,1,1,1", "FILE:1: protocol \"fast\" is not a protocol"},
        {"allreduce,0,1,tree,simple,1,1,many", "FILE:1: nRanks \"many\" is neither a number nor -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct motet_tuning tuning;
        assert_int_equal(motet_tuning_parse("FILE", cases[i].text, strlen(cases[i].text), &tuning), motetInvalidArgument);
        if (!strstr(motet_error_text(), cases[i].complaint))
            fail_msg("case %zu: \"%s\" instead of \"%s\"", i, motet_error_text(), cases[i].complaint);
        assert_null(tuning.points);
        assert_null(tuning.rules);
    }
}

static void test_table_cut_anywhere_is_refused(void **state)
{
    (void)state;
    for (size_t len = 1; len + 2 < sizeof table; len++) {
        struct motet_tuning tuning;
        char *text = malloc(len); /* so that a sanitizer sees the first byte read too far */
        assert_non_null(text);
        memcpy(text, table, len);
        assert_int_equal(motet_tuning_parse("FILE", text, len, &tuning), motetInvalidArgument);
        assert_true(strncmp(motet_error_text(), "FILE:", 5) == 0 && atoi(motet_error_text() + 5) > 0);
        free(text);
    }
}

/* ---- The choice ---- */

/* On one host of the table's machine. */
static struct motet_tune_world four_ranks(const struct motet_tuning *tuning)
{
    static const int one_host[] = {0, 4};
    return (struct motet_tune_world){.nranks = 4,
                                     .nhosts = 1,
                                     .host_first = one_host,
                                     .ncpus = 4,
                                     .local_ranks = 4,
                                     .lane_bytes = 1 << 20,
                                     .machines = MACHINE,
                                     .tuning = tuning};
}

static const char *choose(const struct motet_tune_world *world, size_t bytes, motetDataType_t dtype)
{
    struct motet_tuner *tuner = NULL;
    const struct motet_algorithm *algorithm = NULL;
    struct motet_tune_request request = {.collective = MOTET_ALLREDUCE, .dtype = dtype, .op = motetSum, .bytes = bytes};
    CHILD_CHECK(motet_settings_load() == motetSuccess && motet_tuner_create(world, &tuner) == motetSuccess);
    CHILD_CHECK(motet_tune_choose(tuner, &request, &algorithm) == motetSuccess && algorithm);
    motet_tuner_free(tuner);
    return algorithm->name;
}

static void body_choice(void)
{
    struct motet_tuning tuning;
    CHILD_CHECK(motet_tuning_parse("FILE", table, strlen(table), &tuning) == motetSuccess);
    struct motet_tune_world world = four_ranks(&tuning);
    CHILD_CHECK(strcmp(choose(&world, 1000, motetFloat32), "two_shot") == 0);
    /* A ring was measured to be fastest, but it adds in another order: integers only. */
    CHILD_CHECK(strcmp(choose(&world, 1000000, motetFloat32), "two_shot") == 0);
    CHILD_CHECK(strcmp(choose(&world, 1000000, motetInt32), "ring") == 0);
    world.machines = MACHINE + 1; /* another machine: predictions, and those never choose two-shot for 1000 bytes */
    CHILD_CHECK(strcmp(choose(&world, 1000, motetFloat32), "two_shot") != 0);
    motet_tuning_free(&tuning);
    static const char rules[] = "allreduce,0,2000,central,simple,-1,-1,4\nallreduce,0,2000,ring,simple,-1,-1,4\n";
    CHILD_CHECK(motet_tuning_parse("FILE", rules, strlen(rules), &tuning) == motetSuccess);
    CHILD_CHECK(strcmp(choose(&world, 1000, motetFloat32), "central") == 0);
    CHILD_CHECK(strcmp(choose(&world, 4000, motetFloat32), "central") != 0);
    world.algorithms = "^central";
    CHILD_CHECK(strcmp(choose(&world, 1000, motetFloat32), "ring") != 0);
    CHILD_CHECK(strcmp(choose(&world, 1000, motetInt32), "ring") == 0);
    motet_tuning_free(&tuning);
}

static void test_choice_goes_by_what_was_measured_within_one_order(void **state)
{
    struct child child;
    (void)state;
    child_run(&child, NULL, body_choice);
    assert_int_equal(child.status, 0);
}

static void body_candidates(void)
{
    struct motet_tuning tuning;
    struct motet_tuner *tuner = NULL;
    struct motet_tune_candidate candidates[32];
    struct motet_tune_request request = {.collective = MOTET_ALLREDUCE, .dtype = motetInt32, .op = motetSum, .bytes = 1000};
    int n, measured = 0;
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_tuning_parse("FILE", table, strlen(table), &tuning) == motetSuccess);
    struct motet_tune_world world = four_ranks(&tuning);
    CHILD_CHECK(motet_tuner_create(&world, &tuner) == motetSuccess);
    CHILD_CHECK(motet_tune_candidates(tuner, &request, candidates, 32, &n) == motetSuccess);
    for (int i = 0; i < n; i++) {
        const char *name = candidates[i].algorithm->name;
        bool known = !strcmp(name, "one_shot") || !strcmp(name, "two_shot") || !strcmp(name, "ring");
        CHILD_CHECK(candidates[i].is_measured == known);
        CHILD_CHECK(strcmp(name, "ring") != 0 || candidates[i].time_ns == 1000);
        measured += candidates[i].is_measured;
    }
    CHILD_CHECK(measured == 3);
    motet_tuner_free(tuner);
    motet_tuning_free(&tuning);
}

static void test_candidates_say_which_times_were_measured(void **state)
{
    struct child child;
    (void)state;
    child_run(&child, NULL, body_candidates);
    assert_int_equal(child.status, 0);
}

/* ---- Files ---- */

static void body_missing_file(void)
{
    const struct motet_tuning *tuning;
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_tuning_load(&tuning) == motetInvalidArgument && !tuning);
    CHILD_CHECK(strstr(motet_error_text(), "MOTET_TUNER_FILE=/nowhere/table.json: No such file"));
}

static void body_folder(void)
{
    const struct motet_tuning *tuning;
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_tuning_load(&tuning) == motetInvalidArgument && !tuning);
    CHILD_CHECK(strstr(motet_error_text(), "MOTET_TUNER_FILE=/: Is a directory"));
}

static void body_none(void)
{
    const struct motet_tuning *tuning;
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(motet_tuning_load(&tuning) == motetSuccess && !tuning);
}

static void test_named_file_that_cannot_be_read_is_an_error(void **state)
{
    struct child child;
    (void)state;
    child_run(&child, (const char *[]){"MOTET_TUNER_FILE=/nowhere/table.json", NULL}, body_missing_file);
    assert_int_equal(child.status, 0);
    child_run(&child, (const char *[]){"MOTET_TUNER_FILE=/", NULL}, body_folder);
    assert_int_equal(child.status, 0);
    child_run(&child, (const char *[]){"MOTET_TUNER_FILE=none", "MOTET_CACHE_DIR=/nowhere", NULL}, body_none);
    assert_int_equal(child.status, 0);
}

static void test_broken_table_in_the_cache_directory_is_one_warning(void **state)
{
    struct child child;
    char folder[] = "/tmp/motet_test_XXXXXX", setting[64], file[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(setting, sizeof setting, "MOTET_CACHE_DIR=%s", folder);
    snprintf(file, sizeof file, "%s/tuning.json", folder);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs("{\"motet_tuning\": 1,\n\"shapes\": 7}", out);
    fclose(out);
    child_run(&child, (const char *[]){setting, NULL}, body_none);
    unlink(file);
    rmdir(folder);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "tuning.json:2: shapes: a list in brackets is expected: no measured times are used"), 1);
}

/* ---- What all ranks said ---- */

static void test_census_takes_the_slowest_and_does_not_depend_on_order(void **state)
{
    (void)state;
    struct motet_speeds a = {.machine = 5, .tuning = 7, .is_measured = 1, .line_ns = 50, .copy_bytes_per_ns = 40, .switch_ns = 900};
    struct motet_speeds b = {
        .machine = 6, .tuning = 7, .is_measured = 1, .line_ns = 200, .copy_bytes_per_ns = 60, .switch_ns = 800};
    const struct motet_speeds *ab[] = {&a, &b, &a}, *ba[] = {&b, &a}, *aa[] = {&a, &a};
    struct motet_speeds one, other;
    motet_census(aa, 2, &one);
    assert_int_equal(one.machine, 5);
    motet_census(ab, 3, &one);
    motet_census(ba, 2, &other);
    assert_memory_equal(&one, &other, sizeof one);
    assert_true(one.machine != 5 && one.machine != 6 && one.is_measured);
    assert_int_equal(one.tuning, 7);
    assert_float_equal(one.line_ns, 200, 0);
    assert_float_equal(one.copy_bytes_per_ns, 40, 0);
    assert_float_equal(one.switch_ns, 900, 0);
    b.is_measured = 0;
    b.tuning = 8;
    motet_census(ab, 3, &one);
    assert_true(!one.is_measured && one.tuning == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_gives_the_times_that_it_has_and_those_between),
        cmocka_unit_test(test_table_counts_for_its_own_shapes_only),
        cmocka_unit_test(test_rules_are_taken_in_order_and_by_ranks_and_hosts),
        cmocka_unit_test(test_wrong_files_are_refused_with_line_and_element),
        cmocka_unit_test(test_table_cut_anywhere_is_refused),
        cmocka_unit_test(test_choice_goes_by_what_was_measured_within_one_order),
        cmocka_unit_test(test_candidates_say_which_times_were_measured),
        cmocka_unit_test(test_named_file_that_cannot_be_read_is_an_error),
        cmocka_unit_test(test_broken_table_in_the_cache_directory_is_one_warning),
        cmocka_unit_test(test_census_takes_the_slowest_and_does_not_depend_on_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
