/* SPDX-License-Identifier: Apache-2.0
 * Every datatype, operation and instruction set of the reduction kernels against the oracle, bit for bit. */
/* test: timeout=300 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "reduce/float_environment.h"
#include "reduce/kernels.h"
#include "reduce_oracle.h"

#define NRANKS  6
#define MAX_K   64
#define GUARD   64
#define POISON  0xa5
#define MAX_LEN 8192 /* elements of a random case */

static uint64_t hash(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* Bits that are interesting in a float of this layout: zeros, smallest, largest, infinities, NaNs (quiet, signalling, negative). */
static uint64_t special_float(const struct oracle_type *type, uint64_t choice)
{
    uint64_t infinity = ((1ull << type->exponent) - 1) << type->fraction, one = (infinity >> 1) & ~((1ull << type->fraction) - 1);
    uint64_t bits[] = {0,
                       1,
                       (1ull << type->fraction) - 1,
                       1ull << type->fraction,
                       one,
                       one + 1,
                       infinity - 1,
                       infinity,
                       infinity + 1,
                       infinity | 1ull << (type->fraction - 1),
                       infinity - (1ull << type->fraction),
                       2};
    uint64_t sign = choice >> 8 & 1;
    return bits[choice % (sizeof(bits) / sizeof(bits[0]))] | sign << (type->exponent + type->fraction);
}

/* Any bits, special ones, or floats of similar size, so that sums neither always overflow nor always absorb. */
static uint64_t random_number(const struct oracle_type *type, uint64_t random)
{
    uint64_t any = hash(random), style = random >> 20 & 7;
    if (type->kind == ORACLE_BOOL)
        return style ? any & 1 : any & 0xff;
    if (type->kind != ORACLE_FLOAT)
        return style ? any : (uint64_t)0 - (any & 1);
    if (style == 0)
        return special_float(type, any);
    if (style < 3)
        return any;
    uint64_t width = (uint64_t)type->exponent, middle = (1ull << (width - 1)) - 1;
    uint64_t exponent = middle - 2 + any % 4, fraction = any >> 8 & ((1ull << type->fraction) - 1), sign = any >> 4 & 1;
    return fraction | exponent << type->fraction | sign << (width + (uint64_t)type->fraction);
}

static const struct oracle_type *layout_of(motetDataType_t dtype, bool wide)
{
    const struct oracle_type *type = &oracle_types[dtype];
    return wide && type->kind == ORACLE_FLOAT && type->size < 4 ? &oracle_types[motetFloat32] : type;
}

struct test_case {
    motetDataType_t dtype;
    motetRedOp_t op;
    int k, nranks;
    size_t n;      /* elements */
    uint64_t wide; /* bit i: operand i is wide */
    bool dst_wide;
    int in_place; /* operand that dst equals, -1: none */
    uint64_t seed;
};

static unsigned char *buffers[MAX_K + 1];

/* Where operand i starts: unaligned, and differently so. */
static unsigned char *place(const struct test_case *test, int i)
{
    return buffers[i] + GUARD + hash(test->seed + (uint64_t)i) % 17;
}

static size_t number_size(const struct test_case *test, bool wide)
{
    return (size_t)(wide ? oracle_wide_size(test->dtype, test->op) : oracle_types[test->dtype].size);
}

static bool is_wide(const struct test_case *test, int i)
{
    return test->wide >> i & 1;
}

static void fill_operands(const struct test_case *test, struct motet_operand *operands)
{
    size_t numbers = test->n * (size_t)oracle_types[test->dtype].parts;
    for (int i = 0; i < test->k; i++) {
        size_t size = number_size(test, is_wide(test, i));
        unsigned char *at = place(test, i);
        for (size_t j = 0; j < numbers; j++) {
            uint64_t bits =
                random_number(layout_of(test->dtype, is_wide(test, i)), hash(test->seed) + j * 1031 + (uint64_t)i * 77773);
            memcpy(at + j * size, &bits, size);
        }
        operands[i] = (struct motet_operand){at, is_wide(test, i)};
    }
}

static void fail_at(const struct test_case *test, const char *set, size_t index, uint64_t got, uint64_t want)
{
    fail_msg("%s %s by %s: k %d, n %zu, wide %llx, dst wide %d, in place %d, seed %llu, number %zu: 0x%llx, not 0x%llx",
             motet_dtype_row(test->dtype)->name, motet_op_name(test->op), set, test->k, test->n, (unsigned long long)test->wide,
             test->dst_wide, test->in_place, (unsigned long long)test->seed, index, (unsigned long long)got,
             (unsigned long long)want);
}

/* Runs one set on fresh operands; bytes around the result must stay, those inside start poisoned. */
static void run_set(const struct test_case *test, const struct motet_kernel_set *set, const uint64_t *want)
{
    struct motet_operand operands[MAX_K];
    struct motet_reduction reduction;
    fill_operands(test, operands);
    size_t size = number_size(test, test->dst_wide), numbers = test->n * (size_t)oracle_types[test->dtype].parts;
    unsigned char *dst = place(test, test->in_place >= 0 ? test->in_place : MAX_K), before[GUARD], after[GUARD];
    memset(dst - GUARD, POISON, GUARD);
    if (test->in_place < 0)
        memset(dst, POISON, numbers * size);
    memset(dst + numbers * size, POISON, GUARD);
    memcpy(before, dst - GUARD, GUARD);
    memcpy(after, dst + numbers * size, GUARD);
    assert_int_equal(motet_reduction_init_with(&reduction, test->dtype, test->op, test->nranks, set), motetSuccess);
    motet_reduce(&reduction, dst, test->dst_wide, operands, test->k, test->n);
    for (size_t j = 0; j < numbers; j++) {
        uint64_t got = oracle_load(dst + j * size, (int)size);
        if (got != want[j])
            fail_at(test, set->name, j, got, want[j]);
    }
    assert_memory_equal(dst - GUARD, before, GUARD);
    assert_memory_equal(dst + numbers * size, after, GUARD);
}

static void run_case(const struct test_case *test)
{
    static uint64_t want[MAX_LEN * 2];
    struct motet_operand operands[MAX_K];
    struct oracle_node nodes[MAX_K];
    size_t numbers = test->n * (size_t)oracle_types[test->dtype].parts;
    assert_true(numbers <= MAX_LEN * 2);
    fill_operands(test, operands);
    for (size_t j = 0; j < numbers; j++) {
        for (int i = 0; i < test->k; i++)
            nodes[i] = oracle_read(test->dtype, test->op, (const char *)operands[i].at + j * number_size(test, operands[i].wide),
                                   operands[i].wide);
        want[j] =
            oracle_finish(test->dtype, test->op, oracle_tree(test->dtype, test->op, nodes, test->k), test->dst_wide, test->nranks);
    }
    const struct motet_kernel_set *set;
    for (int i = 0; (set = motet_kernel_set(i)) != NULL; i++)
        run_set(test, set, want);
}

#define EACH_PAIR(dtype, op)                                        \
    for (motetDataType_t dtype = 0; dtype < motetNumTypes; dtype++) \
        for (motetRedOp_t op = 0; op < motetNumOps; op++)           \
            if (oracle_defined(dtype, op))

/* Widths, place and result drawn at random for a number of operands and a length. */
static void run_random(motetDataType_t dtype, motetRedOp_t op, int k, size_t n, uint64_t seed)
{
    uint64_t random = hash(seed * 2654435761u + (uint64_t)dtype * 64 + (uint64_t)op);
    struct test_case test = {.dtype = dtype, .op = op, .k = k, .nranks = NRANKS, .n = n, .in_place = -1, .seed = random};
    test.dst_wide = random >> 8 & 1;
    switch (random & 3) {
    case 0:
        test.wide = 0;
        break;
    case 1:
        test.wide = ~0ull;
        break;
    default:
        test.wide = hash(random);
        break;
    }
    if (random >> 10 & 1) {
        test.in_place = (int)((random >> 16) % (unsigned)k);
        uint64_t bit = 1ull << test.in_place;
        test.wide = test.dst_wide ? test.wide | bit : test.wide & ~bit;
    }
    run_case(&test);
}

static void test_reduce_every_length_gives_the_oracles_bits(void **state)
{
    (void)state;
    EACH_PAIR(dtype, op)
    for (size_t n = 0; n <= 130; n++)
        for (int k = 1; k <= 4; k++)
            run_random(dtype, op, k, n, n * 4 + (size_t)k);
}

static void test_reduce_every_operand_count_gives_the_oracles_bits(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64};
    static const size_t lengths[] = {1, 7, 64, 97};
    (void)state;
    EACH_PAIR(dtype, op)
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (size_t j = 0; j < sizeof(lengths) / sizeof(lengths[0]); j++)
            for (uint64_t round = 0; round < 3; round++)
                run_random(dtype, op, counts[i], lengths[j], 1000 + round * 100 + i * 4 + j);
}

/* Blocks hold 4096 bytes of accumulators: 4096, 2048, 1024 or 512 numbers. */
static void test_reduce_around_block_boundaries_gives_the_oracles_bits(void **state)
{
    static const size_t lengths[] = {255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2049, 4095, 4096, 4097, 8191};
    static const int counts[] = {2, 3, 5, 9};
    (void)state;
    EACH_PAIR(dtype, op)
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        run_random(dtype, op, counts[(i + (size_t)dtype + (size_t)op) % 4], lengths[i], 5000 + i);
}

/* All widths of two and three operands, every in-place choice, both results. */
static void test_reduce_every_mix_of_widths_gives_the_oracles_bits(void **state)
{
    (void)state;
    EACH_PAIR(dtype, op)
    for (int k = 1; k <= 5; k++)
        for (uint64_t wide = 0; wide < 1u << k; wide++)
            for (int in_place = -1; in_place < k; in_place++)
                for (int dst_wide = 0; dst_wide < 2; dst_wide++) {
                    if (in_place >= 0 && (int)(wide >> in_place & 1) != dst_wide)
                        continue;
                    struct test_case test = {dtype, op, k, 3, 35, wide, dst_wide, in_place, wide * 8 + (uint64_t)k};
                    run_case(&test);
                }
}

/* Reduces n numbers a[i] op b[i] by every set and compares. */
static void check_pairs(motetDataType_t dtype, motetRedOp_t op, const void *a, const void *b, size_t n)
{
    static uint64_t want[65536];
    static unsigned char got[65536 * 8];
    size_t size = (size_t)oracle_types[dtype].size;
    for (size_t i = 0; i < n; i++) {
        struct oracle_node nodes[2] = {oracle_read(dtype, op, (const char *)a + i * size, false),
                                       oracle_read(dtype, op, (const char *)b + i * size, false)};
        want[i] = oracle_finish(dtype, op, oracle_tree(dtype, op, nodes, 2), false, NRANKS);
    }
    const struct motet_kernel_set *set;
    for (int s = 0; (set = motet_kernel_set(s)) != NULL; s++) {
        struct motet_reduction reduction;
        struct motet_operand operands[2] = {{a, false}, {b, false}};
        assert_int_equal(motet_reduction_init_with(&reduction, dtype, op, NRANKS, set), motetSuccess);
        memset(got, POISON, n * size);
        motet_reduce(&reduction, got, false, operands, 2, n);
        for (size_t i = 0; i < n; i++)
            if (oracle_load(got + i * size, (int)size) != want[i])
                fail_msg("%s %s by %s: 0x%llx and 0x%llx give 0x%llx, not 0x%llx", motet_dtype_row(dtype)->name, motet_op_name(op),
                         set->name, (unsigned long long)oracle_load((const char *)a + i * size, (int)size),
                         (unsigned long long)oracle_load((const char *)b + i * size, (int)size),
                         (unsigned long long)oracle_load(got + i * size, (int)size), (unsigned long long)want[i]);
    }
}

static void test_reduce_all_pairs_of_8_bits_give_the_oracles_bits(void **state)
{
    static uint8_t a[65536], b[65536];
    (void)state;
    for (size_t i = 0; i < 65536; i++) {
        a[i] = (uint8_t)(i >> 8);
        b[i] = (uint8_t)i;
    }
    EACH_PAIR(dtype, op)
    if (oracle_types[dtype].size == 1)
        check_pairs(dtype, op, a, b, 65536);
}

/* All 65536 values beside a stratified set: every exponent and sign of the partner, fractions at random. */
static void test_reduce_all_16_bits_with_strata_give_the_oracles_bits(void **state)
{
    static uint16_t a[65536], b[65536];
    (void)state;
    for (size_t i = 0; i < 65536; i++)
        a[i] = (uint16_t)i;
    EACH_PAIR(dtype, op)
    {
        if (oracle_types[dtype].size != 2)
            continue;
        size_t nstrata = oracle_types[dtype].kind == ORACLE_FLOAT && op == motetSum ? 300 : 40;
        for (size_t stratum = 0; stratum < nstrata; stratum++) {
            uint16_t low = (uint16_t)(stratum * 65536 / nstrata), high = (uint16_t)((stratum + 1) * 65536 / nstrata - 1);
            for (size_t i = 0; i < 65536; i++)
                b[i] = (uint16_t)(low + hash(i * 311 + stratum) % (uint64_t)(high - low + 1));
            check_pairs(dtype, op, a, b, 65536);
        }
    }
}

/* Rounding from the accumulator: every upper half of a float32, lower halves at and beside each place where a format cuts. */
static void test_reduce_narrowing_every_float_pattern_rounds_once(void **state)
{
    static const uint32_t lower[] = {0, 1, 0xffff, 0x8000, 0x7fff, 0x8001, 0x1000, 0x0fff, 0x1001, 0x3000};
    static const motetDataType_t small[] = {motetFloat16, motetBfloat16, motetFloat8e4m3, motetFloat8e5m2};
    static uint32_t wide[65536];
    static unsigned char got[65536 * 2];
    (void)state;
    for (size_t d = 0; d < 4; d++)
        for (size_t l = 0; l < sizeof(lower) / sizeof(lower[0]); l++) {
            const struct motet_kernel_set *set;
            for (uint32_t i = 0; i < 65536; i++)
                wide[i] = i << 16 | lower[l];
            for (int s = 0; (set = motet_kernel_set(s)) != NULL; s++) {
                struct motet_reduction reduction;
                assert_int_equal(motet_reduction_init_with(&reduction, small[d], motetMax, NRANKS, set), motetSuccess);
                motet_reduce(&reduction, got, false, &(struct motet_operand){wide, true}, 1, 65536);
                size_t size = reduction.size;
                for (size_t i = 0; i < 65536; i++) {
                    uint64_t want = oracle_encode(&oracle_types[small[d]], oracle_decode(&oracle_types[motetFloat32], wide[i]));
                    if (oracle_load(got + i * size, (int)size) != want)
                        fail_msg("%s by %s: float 0x%x rounds to 0x%llx, not 0x%llx", motet_dtype_row(small[d])->name, set->name,
                                 wide[i], (unsigned long long)oracle_load(got + i * size, (int)size), (unsigned long long)want);
                }
            }
        }
}

static void test_reduce_65536_operands_follow_the_tree(void **state)
{
    enum { K = 65536, N = 3 };
    static float values[K + N];
    static struct motet_operand operands[K];
    static struct oracle_node nodes[K];
    const struct motet_kernel_set *set;
    (void)state;
    for (size_t i = 0; i < K + N; i++)
        values[i] = (float)(hash(i) % 20011) * 0.37f - 3000.0f;
    for (int k = K - 1; k <= K; k++)
        for (int s = 0; (set = motet_kernel_set(s)) != NULL; s++) {
            struct motet_reduction reduction;
            float got[N];
            for (int i = 0; i < k; i++)
                operands[i] = (struct motet_operand){values + i, false};
            assert_int_equal(motet_reduction_init_with(&reduction, motetFloat32, motetAvg, k, set), motetSuccess);
            motet_reduce(&reduction, got, false, operands, k, N);
            for (size_t j = 0; j < N; j++) {
                for (int i = 0; i < k; i++)
                    nodes[i].real = (double)values[(size_t)i + j];
                uint64_t want = oracle_finish(motetFloat32, motetAvg, oracle_tree(motetFloat32, motetAvg, nodes, k), false, k);
                assert_int_equal(oracle_load(&got[j], 4), want);
            }
        }
}

/* ---- refusals and rows */

static void test_reduction_init_undefined_pair_is_refused(void **state)
{
    const struct motet_kernel_set *set;
    (void)state;
    for (int s = 0; (set = motet_kernel_set(s)) != NULL; s++)
        for (motetDataType_t dtype = 0; dtype < motetNumTypes; dtype++)
            for (motetRedOp_t op = 0; op < motetNumOps; op++) {
                struct motet_reduction reduction;
                motetResult_t result = motet_reduction_init_with(&reduction, dtype, op, NRANKS, set);
                assert_int_equal(result, oracle_defined(dtype, op) ? motetSuccess : motetInvalidArgument);
                if (result == motetSuccess) {
                    assert_int_equal(reduction.size, oracle_types[dtype].size * oracle_types[dtype].parts);
                    assert_int_equal(reduction.wide_size, oracle_wide_size(dtype, op) * oracle_types[dtype].parts);
                }
            }
}

static void test_reduction_init_nonsense_is_refused(void **state)
{
    struct motet_reduction reduction;
    (void)state;
    assert_int_equal(motet_reduction_init(&reduction, motetNumTypes, motetSum, 1), motetInvalidArgument);
    assert_int_equal(motet_reduction_init(&reduction, (motetDataType_t)-1, motetSum, 1), motetInvalidArgument);
    assert_int_equal(motet_reduction_init(&reduction, motetFloat32, motetNumOps, 1), motetInvalidArgument);
    assert_int_equal(motet_reduction_init(&reduction, motetFloat32, motetAvg, 0), motetInvalidArgument);
    assert_int_equal(motet_reduction_init(&reduction, motetFloat32, motetAvg, 1), motetSuccess);
}

static void test_dtype_row_every_type_has_name_and_size(void **state)
{
    (void)state;
    for (motetDataType_t dtype = 0; dtype < motetNumTypes; dtype++) {
        const struct motet_dtype *row = motet_dtype_row(dtype);
        assert_non_null(row);
        assert_non_null(row->name);
        assert_int_equal(row->size, oracle_types[dtype].size * oracle_types[dtype].parts);
    }
    assert_null(motet_dtype_row(motetNumTypes));
    assert_string_equal(motet_dtype_row(motetBfloat16)->name, "bfloat16");
    assert_string_equal(motet_op_name(motetMin), "min");
    assert_string_equal(motet_op_name(motetNumOps), "?");
}

/* ---- PreMulSum's owner */

static void test_premultiply_real_types_round_once(void **state)
{
    enum { N = 3001 };
    static unsigned char src[N * 8 + 3], dst[N * 8 + 3];
    (void)state;
    for (motetDataType_t dtype = 0; dtype < motetNumTypes; dtype++) {
        const struct oracle_type *type = &oracle_types[dtype];
        size_t size = (size_t)type->size;
        if (type->parts == 2)
            continue;
        for (uint64_t round = 0; round < 8; round++) {
            uint64_t scalar = random_number(type, hash(round + (uint64_t)dtype * 100));
            for (size_t i = 0; i < N; i++) {
                uint64_t bits = random_number(type, hash(i + round * N));
                memcpy(src + 3 + i * size, &bits, size);
            }
            bool in_place = round & 1;
            unsigned char *to = in_place ? dst + 3 : dst;
            memset(dst, POISON, sizeof(dst));
            if (in_place)
                memcpy(to, src + 3, N * size);
            motet_premultiply(dtype, to, in_place ? to : src + 3, &scalar, N);
            for (size_t i = 0; i < N; i++)
                assert_int_equal(oracle_load(to + i * size, (int)size), oracle_product(dtype, src + 3 + i * size, &scalar));
        }
    }
}

static void test_premultiply_complex_multiplies_as_complex(void **state)
{
    enum { N = 100 };
    float src[N][2], dst[N][2], by[2] = {1.5f, -0.75f};
    double wide_src[N][2], wide_dst[N][2], wide_by[2] = {-2.25, 0.1};
    (void)state;
    for (int i = 0; i < N; i++) {
        src[i][0] = (float)i * 0.1f - 3;
        src[i][1] = 7 - (float)i * 0.3f;
        wide_src[i][0] = i * 0.1 - 3;
        wide_src[i][1] = 7 - i * 0.3;
    }
    motet_premultiply(motetComplex64, dst, src, by, N);
    motet_premultiply(motetComplex128, wide_dst, wide_src, wide_by, N);
    for (int i = 0; i < N; i++) {
        float first = (float)((double)src[i][0] * (double)by[0]), second = (float)((double)src[i][1] * (double)by[1]);
        assert_true(dst[i][0] == (float)((double)first - (double)second));
        first = (float)((double)src[i][0] * (double)by[1]), second = (float)((double)src[i][1] * (double)by[0]);
        assert_true(dst[i][1] == (float)((double)first + (double)second));
        double real = (double)((quad)wide_src[i][0] * (quad)wide_by[0]), rest = (double)((quad)wide_src[i][1] * (quad)wide_by[1]);
        assert_true(wide_dst[i][0] == (double)((quad)real - (quad)rest));
        real = (double)((quad)wide_src[i][0] * (quad)wide_by[1]), rest = (double)((quad)wide_src[i][1] * (quad)wide_by[0]);
        assert_true(wide_dst[i][1] == (double)((quad)real + (quad)rest));
    }
    motet_premultiply(motetComplex64, src, src, by, N);
    assert_memory_equal(src, dst, sizeof(dst));
}

/* ---- the caller's floating-point mode */

/* Every unusual bit at once: flush denormals, treat them as zero, round up. */
static uint64_t unusual_mode(uint64_t mode)
{
#if defined(__x86_64__)
    return mode | 0x8040 | 0x4000;
#else
    return mode | 1u << 24 | 1u << 22;
#endif
}

static void test_reduce_unusual_float_mode_changes_no_bit_and_is_kept(void **state)
{
    enum { N = 257 };
    static float a[N], b[N], usual[N], unusual[N];
    const struct motet_kernel_set *set;
    (void)state;
    for (size_t i = 0; i < N; i++) {
        uint32_t bits[2] = {(uint32_t)hash(i) & 0x80ffffff, (uint32_t)hash(i + N) & 0x80ffffff}; /* denormals and just above */
        memcpy(&a[i], &bits[0], 4);
        memcpy(&b[i], &bits[1], 4);
    }
    for (int s = 0; (set = motet_kernel_set(s)) != NULL; s++) {
        struct motet_reduction reduction;
        struct motet_operand operands[2] = {{a, false}, {b, false}};
        assert_int_equal(motet_reduction_init_with(&reduction, motetFloat32, motetAvg, 3, set), motetSuccess);
        motet_reduce(&reduction, usual, false, operands, 2, N);
        uint64_t before = motet_float_mode(), set_mode = unusual_mode(before);
        motet_float_set_mode(set_mode);
        motet_reduce(&reduction, unusual, false, operands, 2, N);
        uint64_t after = motet_float_mode();
        motet_float_set_mode(before);
        assert_memory_equal(usual, unusual, sizeof(usual));
        assert_int_equal(after & MOTET_FLOAT_CONTROL, set_mode & MOTET_FLOAT_CONTROL);
    }
}

/* ---- copies */

static void test_copy_every_length_copies_exactly(void **state)
{
    static void (*const copies[])(void *, const void *, size_t) = {motet_copy_shared, motet_copy_private, motet_copy_past_cache};
    enum { ROOM = 1 << 20 };
    unsigned char *src = malloc(ROOM), *dst = malloc(ROOM);
    assert_non_null(src);
    assert_non_null(dst);
    (void)state;
    for (size_t i = 0; i < ROOM; i++)
        src[i] = (unsigned char)hash(i);
    for (size_t len = 0; len < ROOM - 200; len += len < 2200 ? 1 : 99991) {
        size_t from = len % 13, to = 64 + (len % 3 == 2 ? len % 4 * 16 : len % 31); /* streaming stores want 16 bytes */
        memset(dst, POISON, to + len + 64);
        copies[len % 3](dst + to, src + from, len);
        assert_memory_equal(dst + to, src + from, len);
        for (size_t i = 0; i < to; i++)
            assert_int_equal(dst[i], POISON);
        for (size_t i = to + len; i < to + len + 64; i++)
            assert_int_equal(dst[i], POISON);
    }
    free(src);
    free(dst);
}

static int make_buffers(void **state)
{
    (void)state;
    for (int i = 0; i <= MAX_K; i++)
        if (!(buffers[i] = malloc(MAX_LEN * 16 + 4 * GUARD)))
            return -1;
    return 0;
}

static int free_buffers(void **state)
{
    (void)state;
    for (int i = 0; i <= MAX_K; i++)
        free(buffers[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_every_length_gives_the_oracles_bits),
        cmocka_unit_test(test_reduce_every_operand_count_gives_the_oracles_bits),
        cmocka_unit_test(test_reduce_around_block_boundaries_gives_the_oracles_bits),
        cmocka_unit_test(test_reduce_every_mix_of_widths_gives_the_oracles_bits),
        cmocka_unit_test(test_reduce_all_pairs_of_8_bits_give_the_oracles_bits),
        cmocka_unit_test(test_reduce_all_16_bits_with_strata_give_the_oracles_bits),
        cmocka_unit_test(test_reduce_narrowing_every_float_pattern_rounds_once),
        cmocka_unit_test(test_reduce_65536_operands_follow_the_tree),
        cmocka_unit_test(test_reduction_init_undefined_pair_is_refused),
        cmocka_unit_test(test_reduction_init_nonsense_is_refused),
        cmocka_unit_test(test_dtype_row_every_type_has_name_and_size),
        cmocka_unit_test(test_premultiply_real_types_round_once),
        cmocka_unit_test(test_premultiply_complex_multiplies_as_complex),
        cmocka_unit_test(test_reduce_unusual_float_mode_changes_no_bit_and_is_kept),
        cmocka_unit_test(test_copy_every_length_copies_exactly),
    };
    return cmocka_run_group_tests_name("reduce", tests, make_buffers, free_buffers);
}
