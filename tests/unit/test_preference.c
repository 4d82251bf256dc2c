/* SPDX-License-Identifier: Apache-2.0
 * The grammar of MOTET_ALGO and MOTET_PROTO. */
#include "preference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static bool allows(const struct motet_preference *preference, enum motet_collective collective, const char *name)
{
    const struct motet_algorithm *row = motet_algorithm_find(collective, name);
    if (!row)
        fail_msg("%s has no %s", motet_collective_name(collective), name);
    return preference->allowed[row - motet_algorithms];
}

static int count_allowed(const struct motet_preference *preference, enum motet_collective collective)
{
    int count = 0;
    for (int a = 0; a < motet_nalgorithms; a++)
        count += motet_algorithms[a].collective == collective && preference->allowed[a];
    return count;
}

static int count_rows(enum motet_collective collective)
{
    int count = 0;
    for (int a = 0; a < motet_nalgorithms; a++)
        count += motet_algorithms[a].collective == collective;
    return count;
}

static struct motet_preference parse(const char *algorithms, const char *protocols)
{
    struct motet_preference preference;
    if (motet_preference_parse(&preference, algorithms, protocols) != motetSuccess)
        fail_msg("\"%s\", \"%s\": %s", algorithms, protocols, motet_error_text());
    return preference;
}

static void test_preference_of_nothing_allows_everything(void **state)
{
    (void)state;
    struct motet_preference preference = parse("", "");
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        assert_int_equal(preference.kind[c], MOTET_PREFER_NOTHING);
        assert_int_equal(count_allowed(&preference, (enum motet_collective)c), count_rows((enum motet_collective)c));
        assert_int_equal(preference.protocols[c], MOTET_PROTO_ALL);
    }
    motet_preference_free(&preference);
}

static void test_preference_without_collective_applies_where_the_algorithm_exists(void **state)
{
    (void)state;
    struct motet_preference preference = parse("Ring", "");
    assert_int_equal(preference.kind[MOTET_ALLREDUCE], MOTET_PREFER_SOMEWHERE);
    assert_int_equal(count_allowed(&preference, MOTET_ALLREDUCE), 1);
    assert_true(allows(&preference, MOTET_ALLREDUCE, "ring"));
    assert_true(allows(&preference, MOTET_ALLGATHER, "ring"));
    assert_false(allows(&preference, MOTET_ALLGATHER, "bruck"));
    assert_int_equal(preference.kind[MOTET_ALLTOALL], MOTET_PREFER_NOTHING);
    assert_int_equal(count_allowed(&preference, MOTET_ALLTOALL), count_rows(MOTET_ALLTOALL));
    assert_int_equal(preference.kind[MOTET_BARRIER], MOTET_PREFER_NOTHING);
    motet_preference_free(&preference);
}

static void test_preference_names_tree_in_any_case_as_the_double_tree(void **state)
{
    (void)state;
    static const char *const spellings[] = {"Tree", "tree", "TREE", "Double_Binary_Tree"};
    for (size_t s = 0; s < 4; s++) {
        struct motet_preference preference = parse(spellings[s], "");
        assert_true(allows(&preference, MOTET_ALLREDUCE, "double_binary_tree"));
        assert_false(allows(&preference, MOTET_ALLREDUCE, "binary_tree"));
        assert_int_equal(count_allowed(&preference, MOTET_ALLREDUCE), 1);
        motet_preference_free(&preference);
    }
}

static void test_preference_per_collective_overrides_the_first_entry(void **state)
{
    (void)state;
    struct motet_preference preference = parse("ring;allreduce:tree,two_shot;BROADCAST:chain", "");
    assert_int_equal(preference.kind[MOTET_ALLREDUCE], MOTET_PREFER_NAMED);
    assert_int_equal(count_allowed(&preference, MOTET_ALLREDUCE), 2);
    assert_true(allows(&preference, MOTET_ALLREDUCE, "two_shot"));
    assert_false(allows(&preference, MOTET_ALLREDUCE, "ring"));
    assert_int_equal(count_allowed(&preference, MOTET_BROADCAST), 1);
    assert_true(allows(&preference, MOTET_BROADCAST, "chain"));
    assert_int_equal(preference.kind[MOTET_ALLGATHER], MOTET_PREFER_SOMEWHERE);
    motet_preference_free(&preference);
}

static void test_preference_with_caret_excludes_the_whole_list(void **state)
{
    (void)state;
    struct motet_preference preference = parse("^Tree,ring;reduce:^chain", "");
    assert_int_equal(preference.kind[MOTET_ALLREDUCE], MOTET_PREFER_OTHERS);
    assert_int_equal(count_allowed(&preference, MOTET_ALLREDUCE), count_rows(MOTET_ALLREDUCE) - 2);
    assert_false(allows(&preference, MOTET_ALLREDUCE, "ring"));
    assert_false(allows(&preference, MOTET_ALLREDUCE, "double_binary_tree"));
    assert_int_equal(count_allowed(&preference, MOTET_REDUCE), count_rows(MOTET_REDUCE) - 1);
    assert_false(allows(&preference, MOTET_REDUCE, "chain"));
    assert_int_equal(preference.kind[MOTET_BARRIER],
                     MOTET_PREFER_OTHERS + (count_allowed(&preference, MOTET_BARRIER) == count_rows(MOTET_BARRIER) ? -1 : 0));
    motet_preference_free(&preference);
}

static void test_preference_of_protocols_always_keeps_simple(void **state)
{
    (void)state;
    struct motet_preference preference = parse("", "LL;broadcast:^direct,simple;allgather:LL128");
    assert_int_equal(preference.protocols[MOTET_ALLREDUCE], MOTET_PROTO_LL | MOTET_PROTO_SIMPLE);
    assert_int_equal(preference.protocols[MOTET_BROADCAST], MOTET_PROTO_LL | MOTET_PROTO_SIMPLE);
    assert_int_equal(preference.protocols[MOTET_ALLGATHER], MOTET_PROTO_LL | MOTET_PROTO_SIMPLE);
    motet_preference_free(&preference);
    preference = parse("", "Simple");
    assert_int_equal(preference.protocols[MOTET_ALLREDUCE], MOTET_PROTO_SIMPLE);
    motet_preference_free(&preference);
    preference = parse("", "^LL");
    assert_int_equal(preference.protocols[MOTET_SCATTER], MOTET_PROTO_SIMPLE | MOTET_PROTO_DIRECT);
    motet_preference_free(&preference);
}

static void test_preference_with_unknown_names_is_refused_with_those_that_exist(void **state)
{
    (void)state;
    static const struct {
        const char *algorithms, *protocols, *says[3];
    } cases[] = {
        {"rign", "", {"MOTET_ALGO", "unknown algorithm \"rign\"", "ring, double_binary_tree"}},
        {"ring,collnetdirect", "", {"unknown algorithm \"collnetdirect\"", "two_shot", "bruck"}},
        {"allreduce:bruck", "", {"AllReduce has no algorithm \"bruck\"", "two_shot", "it has ring"}},
        {"allgather:tree", "", {"AllGather has no algorithm \"tree\"", "bruck", "direct"}},
        {"all_reduce:ring", "", {"unknown collective \"all_reduce\"", "AllReduce, Reduce", "Barrier"}},
        {"ring;tree", "", {"\"tree\" names no collective", "only the first", "MOTET_ALGO"}},
        {"allreduce:", "", {"a name is missing", "MOTET_ALGO", ""}},
        {"ring,", "", {"a name is missing in \"ring,\"", "", ""}},
        {"^", "", {"a name is missing", "", ""}},
        {"ring;;", "", {"names no collective", "", ""}},
        {"tree,^ring", "", {"unknown algorithm \"^ring\"", "", ""}},
        {"barrier:^dissemination,central,tree,one_shot,hierarchical", "", {"excludes every algorithm of Barrier", "", ""}},
        {"", "LL64", {"MOTET_PROTO", "unknown protocol \"LL64\"", "LL, Simple, Direct"}},
        {"", "sum:LL", {"MOTET_PROTO: unknown collective \"sum\"", "", ""}},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct motet_preference preference;
        assert_int_equal(motet_preference_parse(&preference, cases[c].algorithms, cases[c].protocols), motetInvalidUsage);
        assert_null(preference.allowed);
        for (int s = 0; s < 3; s++) {
            if (!strstr(motet_error_text(), cases[c].says[s]))
                fail_msg("\"%s\", \"%s\" says \"%s\", not \"%s\"", cases[c].algorithms, cases[c].protocols, motet_error_text(),
                         cases[c].says[s]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preference_of_nothing_allows_everything),
        cmocka_unit_test(test_preference_without_collective_applies_where_the_algorithm_exists),
        cmocka_unit_test(test_preference_names_tree_in_any_case_as_the_double_tree),
        cmocka_unit_test(test_preference_per_collective_overrides_the_first_entry),
        cmocka_unit_test(test_preference_with_caret_excludes_the_whole_list),
        cmocka_unit_test(test_preference_of_protocols_always_keeps_simple),
        cmocka_unit_test(test_preference_with_unknown_names_is_refused_with_those_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
