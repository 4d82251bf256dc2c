/* SPDX-License-Identifier: Apache-2.0
 * What a reduction must give, computed from the definition and sharing nothing with the library: formats by their sign, exponent
 * and fraction in double arithmetic, accumulators rounded from a wider type, integers in 64 bits, the tree by recursion. */
#ifndef MOTET_TESTS_REDUCE_ORACLE_H
#define MOTET_TESTS_REDUCE_ORACLE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

/* Twice the fraction of a double and more, so that rounding to double afterwards is rounding once. */
#if LDBL_MANT_DIG == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif

enum oracle_kind { ORACLE_UNSIGNED, ORACLE_SIGNED, ORACLE_BOOL, ORACLE_FLOAT };

struct oracle_type {
    enum oracle_kind kind;
    int size;               /* bytes of a number */
    int parts;              /* numbers of an element */
    int exponent, fraction; /* bits, of floats */
    uint64_t nan;           /* the NaN that results use */
};

static const struct oracle_type oracle_types[motetNumTypes] = {
    [motetInt8] = {ORACLE_SIGNED, 1, 1, 0, 0, 0},
    [motetUint8] = {ORACLE_UNSIGNED, 1, 1, 0, 0, 0},
    [motetInt16] = {ORACLE_SIGNED, 2, 1, 0, 0, 0},
    [motetUint16] = {ORACLE_UNSIGNED, 2, 1, 0, 0, 0},
    [motetInt32] = {ORACLE_SIGNED, 4, 1, 0, 0, 0},
    [motetUint32] = {ORACLE_UNSIGNED, 4, 1, 0, 0, 0},
    [motetInt64] = {ORACLE_SIGNED, 8, 1, 0, 0, 0},
    [motetUint64] = {ORACLE_UNSIGNED, 8, 1, 0, 0, 0},
    [motetBool] = {ORACLE_BOOL, 1, 1, 0, 0, 0},
    [motetFloat16] = {ORACLE_FLOAT, 2, 1, 5, 10, 0x7e00},
    [motetBfloat16] = {ORACLE_FLOAT, 2, 1, 8, 7, 0x7fc0},
    [motetFloat32] = {ORACLE_FLOAT, 4, 1, 8, 23, 0x7fc00000},
    [motetFloat64] = {ORACLE_FLOAT, 8, 1, 11, 52, 0x7ff8000000000000},
    [motetFloat8e4m3] = {ORACLE_FLOAT, 1, 1, 4, 3, 0x7f},
    [motetFloat8e5m2] = {ORACLE_FLOAT, 1, 1, 5, 2, 0x7f},
    [motetComplex64] = {ORACLE_FLOAT, 4, 2, 8, 23, 0x7fc00000},
    [motetComplex128] = {ORACLE_FLOAT, 8, 2, 11, 52, 0x7ff8000000000000},
};

/* A node of the tree: a float of the accumulator type, which every double can hold, or 64 bits of an integer. */
struct oracle_node {
    double real;
    uint64_t whole;
};

static bool oracle_defined(motetDataType_t dtype, motetRedOp_t op)
{
    switch (op) {
    case motetSum:
        return true;
    case motetAvg:
        return oracle_types[dtype].kind != ORACLE_BOOL;
    case motetProd:
    case motetMax:
    case motetMin:
        return oracle_types[dtype].parts == 1;
    default:
        return oracle_types[dtype].kind != ORACLE_FLOAT;
    }
}

/* Bytes of a number of the accumulator. */
static int oracle_wide_size(motetDataType_t dtype, motetRedOp_t op)
{
    const struct oracle_type *type = &oracle_types[dtype];
    if (type->kind == ORACLE_FLOAT)
        return type->size < 4 ? 4 : type->size;
    return op == motetAvg ? 8 : type->size;
}

/* Value of a code: (-1)^sign * 2^(exponent - bias) * 1.fraction, or 0.fraction at the lowest exponent. */
static double oracle_decode(const struct oracle_type *type, uint64_t code)
{
    uint64_t fraction = code & ((1ull << type->fraction) - 1);
    int exponent = (int)(code >> type->fraction & ((1u << type->exponent) - 1)), top = (1 << type->exponent) - 1;
    bool negative = code >> (type->exponent + type->fraction) & 1, has_infinity = type->exponent != 4;
    int bias = (1 << (type->exponent - 1)) - 1;
    double value;
    if (exponent == top && has_infinity)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == top && fraction == 7)
        value = (double)NAN;
    else if (exponent == 0)
        value = ldexp((double)fraction, 1 - bias - type->fraction);
    else
        value = ldexp((double)(fraction | 1ull << type->fraction), exponent - bias - type->fraction);
    return negative ? -value : value;
}

/* Code of the number of the format nearest to value, even of two: count it in units of the last place at its exponent. */
static uint64_t oracle_encode(const struct oracle_type *type, double value)
{
    if (isnan(value))
        return type->nan;
    int bias = (1 << (type->exponent - 1)) - 1, lowest = 1 - bias;
    uint64_t sign = (uint64_t)(signbit(value) != 0) << (type->exponent + type->fraction);
    uint64_t infinity = ((1ull << type->exponent) - 1) << type->fraction;
    bool has_infinity = type->exponent != 4;
    if (isinf(value))
        return has_infinity ? sign | infinity : type->nan;
    double magnitude = fabs(value);
    int exponent = magnitude > 0 ? ilogb(magnitude) : lowest;
    if (exponent < lowest)
        exponent = lowest;
    if (exponent > bias + 1)
        return has_infinity ? sign | infinity : type->nan;
    uint64_t units = (uint64_t)rint(ldexp(magnitude, type->fraction - exponent));
    uint64_t code = ((uint64_t)(exponent - lowest) << type->fraction) + units;
    if (has_infinity)
        return sign | (code < infinity ? code : infinity);
    return code < type->nan ? sign | code : type->nan;
}

static uint64_t oracle_load(const void *at, int size)
{
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)size);
    return bits;
}

static int64_t oracle_sign_extend(uint64_t bits, int size)
{
    return (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size);
}

static struct oracle_node oracle_read(motetDataType_t dtype, motetRedOp_t op, const void *at, bool wide)
{
    const struct oracle_type *type = &oracle_types[dtype];
    int size = wide ? oracle_wide_size(dtype, op) : type->size;
    uint64_t bits = oracle_load(at, size);
    struct oracle_node node = {0, 0};
    if (type->kind == ORACLE_FLOAT)
        node.real = oracle_decode(wide && type->size < 4 ? &oracle_types[motetFloat32] : type, bits);
    else if (type->kind == ORACLE_SIGNED)
        node.whole = (uint64_t)oracle_sign_extend(bits, size);
    else
        node.whole = type->kind == ORACLE_BOOL ? bits != 0 : bits;
    return node;
}

static double oracle_order(double a, double b, bool want_less)
{
    if (isnan(a) || isnan(b))
        return (double)NAN;
    if (a == b) /* only zeros differ in sign */
        return (signbit(a) != 0) == want_less ? a : b;
    return (a < b) == want_less ? a : b;
}

static double oracle_combine_real(int wide_size, motetRedOp_t op, double a, double b)
{
    switch (op) {
    case motetMax:
        return oracle_order(a, b, false);
    case motetMin:
        return oracle_order(a, b, true);
    case motetProd:
        return wide_size == 4 ? (double)(float)(a * b) : (double)((quad)a * (quad)b);
    default:
        return wide_size == 4 ? (double)(float)(a + b) : (double)((quad)a + (quad)b);
    }
}

/* Integers of fewer than 64 bits keep what wraps in the upper bits until they are stored; orders look at the low bits. */
static uint64_t oracle_combine_whole(const struct oracle_type *type, motetRedOp_t op, uint64_t a, uint64_t b)
{
    bool is_bool = type->kind == ORACLE_BOOL, a_is_less;
    if (type->kind == ORACLE_SIGNED)
        a_is_less = (int64_t)a < (int64_t)b;
    else
        a_is_less = a < b;
    switch (op) {
    case motetProd:
        return is_bool ? a && b : a * b;
    case motetMax:
        return a_is_less ? b : a;
    case motetMin:
        return a_is_less ? a : b;
    case motetBand:
        return a & b;
    case motetBor:
        return a | b;
    case motetBxor:
        return a ^ b;
    default:
        return is_bool ? a || b : a + b;
    }
}

static struct oracle_node oracle_tree(motetDataType_t dtype, motetRedOp_t op, const struct oracle_node *nodes, int k)
{
    if (k == 1)
        return nodes[0];
    int half = 1;
    while (half * 2 < k)
        half *= 2;
    struct oracle_node left = oracle_tree(dtype, op, nodes, half), right = oracle_tree(dtype, op, nodes + half, k - half);
    if (oracle_types[dtype].kind == ORACLE_FLOAT)
        left.real = oracle_combine_real(oracle_wide_size(dtype, op), op, left.real, right.real);
    else
        left.whole = oracle_combine_whole(&oracle_types[dtype], op, left.whole, right.whole);
    return left;
}

/* Bits of the result as they must be stored. */
static uint64_t oracle_finish(motetDataType_t dtype, motetRedOp_t op, struct oracle_node node, bool wide, int nranks)
{
    const struct oracle_type *type = &oracle_types[dtype];
    bool divide = op == motetAvg && !wide;
    int size = wide ? oracle_wide_size(dtype, op) : type->size;
    if (type->kind == ORACLE_FLOAT) {
        if (divide)
            node.real = type->size < 8 ? (double)(float)(node.real / nranks) : (double)((quad)node.real / (quad)nranks);
        return oracle_encode(wide && type->size < 4 ? &oracle_types[motetFloat32] : type, node.real);
    }
    if (divide && type->kind == ORACLE_SIGNED)
        node.whole = (uint64_t)((int64_t)node.whole / nranks);
    else if (divide)
        node.whole /= (uint64_t)nranks;
    return size == 8 ? node.whole : node.whole & ((1ull << 8 * size) - 1);
}

/* Scalar times element, rounded once: what the owner of a PreMulSum sends. */
static uint64_t oracle_product(motetDataType_t dtype, const void *a, const void *b)
{
    struct oracle_node factors[2] = {oracle_read(dtype, motetProd, a, false), oracle_read(dtype, motetProd, b, false)};
    return oracle_finish(dtype, motetProd, oracle_tree(dtype, motetProd, factors, 2), false, 1);
}

#endif
