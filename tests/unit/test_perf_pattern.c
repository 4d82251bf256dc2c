/* SPDX-License-Identifier: Apache-2.0
 * The test data of perf: exact in every order, different by rank and index, and a check that finds single elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf_pattern.h"

#define INDEXES 400

static struct pattern pattern;

/* Rounds a number to the type by writing and reading it. */
static double rounded(const struct perf_type *type, double value)
{
    unsigned char bytes[16] = {0};
    perf_type_encode(type, (union perf_number){.f = value}, bytes);
    return perf_type_decode(type, bytes);
}

static double combined(enum perf_op op, double a, double b)
{
    switch (op) {
    case PERF_PROD:
        return a * b;
    case PERF_MIN:
        return a < b ? a : b;
    case PERF_MAX:
        return a > b ? a : b;
    default:
        return a + b;
    }
}

/* Combines the ranks in an order that `seed` shuffles; every partial result must be exact in the type. */
static double reduce_shuffled(const struct perf_type *type, enum perf_op op, int nranks, uint64_t index, unsigned seed)
{
    int order[64];
    for (int i = 0; i < nranks; i++)
        order[i] = i;
    for (int i = nranks - 1; i > 0; i--) {
        seed = seed * 1103515245 + 12345;
        int j = (int)(seed >> 8) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    double result = 0;
    for (int i = 0; i < nranks; i++) {
        double value = pattern_value(&pattern, order[i], index).f * (op == PERF_MULSUM ? pattern_scalar(order[i]) : 1);
        assert_true(rounded(type, value) == value);
        result = i ? combined(op, result, value) : value;
        if (op != PERF_AVG)
            assert_true(rounded(type, result) == result);
    }
    return op == PERF_AVG ? result / nranks : result;
}

static void test_pattern_of_floats_is_exact_in_every_order(void **state)
{
    const int sizes[] = {1, 2, 3, 5, 8, 16, 33, 64};
    (void)state;
    for (int t = 0; t < perf_ntypes; t++)
        for (int op = 0; op < PERF_OPS; op++)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                const struct perf_type *type = &perf_types[t];
                if (type->class != PERF_FLOAT || !perf_op_fits((enum perf_op)op, type))
                    continue;
                assert_true(pattern_prepare(&pattern, type, (enum perf_op)op, sizes[s], INDEXES));
                for (uint64_t index = 0; index < INDEXES; index += 7) {
                    double right = pattern_result(&pattern, index).f;
                    assert_true(rounded(type, right) == right);
                    for (unsigned seed = 1; seed < 4; seed++)
                        assert_true(reduce_shuffled(type, (enum perf_op)op, sizes[s], index, seed) == right);
                }
            }
    pattern_free(&pattern);
}

/* Without any one rank, or with one counted twice, many elements must come out differently: else a lost block would not be seen. */
static void test_pattern_of_a_sum_depends_on_every_rank(void **state)
{
    (void)state;
    for (int t = 0; t < perf_ntypes; t++) {
        const struct perf_type *type = &perf_types[t];
        const int nranks = 8;
        if (type->class == PERF_BOOL)
            continue;
        assert_true(pattern_prepare(&pattern, type, PERF_SUM, nranks, INDEXES));
        for (int rank = 0; rank < nranks; rank++) {
            int contributing = 0;
            for (uint64_t index = 0; index < INDEXES; index++)
                contributing += pattern_value(&pattern, rank, index).u != 0;
            assert_true(contributing > INDEXES / 4);
        }
    }
    pattern_free(&pattern);
}

static void test_pattern_differs_by_rank_and_index(void **state)
{
    (void)state;
    assert_true(pattern_prepare(&pattern, &perf_types[perf_type_find("float")], PERF_SUM, 4, INDEXES));
    int same_rank = 0, same_index = 0;
    for (uint64_t index = 0; index < INDEXES; index++) {
        same_rank += pattern_value(&pattern, 0, index).f == pattern_value(&pattern, 1, index).f;
        same_index += pattern_value(&pattern, 0, index).f == pattern_value(&pattern, 0, index + 1).f;
    }
    assert_true(same_rank < 3 && same_index < 3);
    pattern_free(&pattern);
}

/* Filling in pieces, across the period of the tables, gives the same as filling at once; a changed element is found where it is. */
static void check_fill(const struct perf_type *type, enum perf_op op, size_t count)
{
    size_t size = (size_t)type->size, where = 0;
    char *whole = malloc(count * size + 1), *pieces = malloc(count * size + 1);
    assert_true(whole && pieces && pattern_prepare(&pattern, type, op, 3, count));
    assert_true(pattern_fill(&pattern, 1, 0, count, whole));
    for (size_t at = 0; at < count;) {
        size_t piece = at % 4099 + 1 < count - at ? at % 4099 + 1 : count - at;
        assert_true(pattern_fill(&pattern, 1, at, piece, pieces + at * size));
        at += piece;
    }
    assert_memory_equal(whole, pieces, count * size);
    assert_int_equal(pattern_check(&pattern, 1, 0, count, whole, &where), 0);
    const size_t spots[] = {0, 1, count / 2, count - 1};
    for (size_t i = 0; i < 4; i++) {
        whole[spots[i] * size] ^= 1;
        assert_int_equal(pattern_check(&pattern, 1, 0, count, whole, &where), 1);
        assert_int_equal(where, spots[i]);
        whole[spots[i] * size] ^= 1;
    }
    /* Data of another rank, or shifted by one, are wrong almost everywhere. */
    assert_true(pattern_check(&pattern, 0, 0, count, whole, &where) > (int64_t)count / 3);
    assert_true(pattern_check(&pattern, 1, 1, count - 1, whole, &where) > (int64_t)count / 3);
    free(whole);
    free(pieces);
    pattern_free(&pattern);
}

static void test_pattern_check_of_one_changed_element_finds_it(void **state)
{
    (void)state;
    check_fill(&perf_types[perf_type_find("float")], PERF_SUM, 200000);
    check_fill(&perf_types[perf_type_find("bfloat16")], PERF_SUM, 70001);
    check_fill(&perf_types[perf_type_find("int8")], PERF_COPY, 65522);
    check_fill(&perf_types[perf_type_find("complex128")], PERF_SUM, 1000);
    check_fill(&perf_types[perf_type_find("uint64")], PERF_BXOR, 5);
}

static void test_pattern_check_of_poison_finds_writes(void **state)
{
    char bytes[64];
    size_t where = 0;
    (void)state;
    assert_true(pattern_prepare(&pattern, &perf_types[perf_type_find("float")], PERF_SUM, 2, 16));
    assert_true(pattern_fill(&pattern, PATTERN_POISON, 0, 16, bytes));
    assert_int_equal(pattern_check(&pattern, PATTERN_POISON, 0, 16, bytes, &where), 0);
    bytes[41] ^= 4;
    assert_int_equal(pattern_check(&pattern, PATTERN_POISON, 0, 16, bytes, &where), 1);
    assert_int_equal(where, 10);
    pattern_free(&pattern);
}

/* Every code of the 8-bit and 16-bit floats survives reading and writing. */
static void test_type_codes_of_small_floats_round_trip(void **state)
{
    const char *const names[] = {"f8e4m3", "f8e5m2", "half", "bfloat16"};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        const struct perf_type *type = &perf_types[perf_type_find(names[k])];
        for (uint32_t code = 0; code < 1u << 8 * type->size; code++) {
            uint16_t out = 0, in = (uint16_t)code;
            double value = perf_type_decode(type, &in);
            if (value != value || value - value != 0)
                continue;
            perf_type_encode(type, (union perf_number){.f = value}, &out);
            assert_int_equal(out, in);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern_of_floats_is_exact_in_every_order),
        cmocka_unit_test(test_pattern_of_a_sum_depends_on_every_rank),
        cmocka_unit_test(test_pattern_differs_by_rank_and_index),
        cmocka_unit_test(test_pattern_check_of_one_changed_element_finds_it),
        cmocka_unit_test(test_pattern_check_of_poison_finds_writes),
        cmocka_unit_test(test_type_codes_of_small_floats_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
