/* SPDX-License-Identifier: Apache-2.0
 * What a reduction must give, by plain loops that share nothing with the library: own conversions of the small floats, one
 * accumulator per element, the canonical tree over ranks (split at the largest power of two below the count), finished once. */
#ifndef MOTET_TESTS_MULTI_ORACLE_H
#define MOTET_TESTS_MULTI_ORACLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "motet.h"

enum oracle_class { ORACLE_SIGNED, ORACLE_UNSIGNED, ORACLE_SMALL_FLOAT, ORACLE_FLOAT, ORACLE_DOUBLE, ORACLE_BOOL, ORACLE_COMPLEX };

/* exponent, mantissa: bits of the small floats. */
struct oracle_type {
    const char *name;
    size_t size;
    enum oracle_class class;
    int exponent, mantissa;
    bool has_infinity;
};

static const struct oracle_type oracle_types[motetNumTypes] = {
    [motetInt8] = {"int8", 1, ORACLE_SIGNED, 0, 0, 0},
    [motetUint8] = {"uint8", 1, ORACLE_UNSIGNED, 0, 0, 0},
    [motetInt32] = {"int32", 4, ORACLE_SIGNED, 0, 0, 0},
    [motetUint32] = {"uint32", 4, ORACLE_UNSIGNED, 0, 0, 0},
    [motetInt64] = {"int64", 8, ORACLE_SIGNED, 0, 0, 0},
    [motetUint64] = {"uint64", 8, ORACLE_UNSIGNED, 0, 0, 0},
    [motetFloat16] = {"float16", 2, ORACLE_SMALL_FLOAT, 5, 10, true},
    [motetFloat32] = {"float32", 4, ORACLE_FLOAT, 8, 23, true},
    [motetFloat64] = {"float64", 8, ORACLE_DOUBLE, 11, 52, true},
    [motetBfloat16] = {"bfloat16", 2, ORACLE_SMALL_FLOAT, 8, 7, true},
    [motetFloat8e4m3] = {"float8e4m3", 1, ORACLE_SMALL_FLOAT, 4, 3, false},
    [motetFloat8e5m2] = {"float8e5m2", 1, ORACLE_SMALL_FLOAT, 5, 2, true},
    [motetInt16] = {"int16", 2, ORACLE_SIGNED, 0, 0, 0},
    [motetUint16] = {"uint16", 2, ORACLE_UNSIGNED, 0, 0, 0},
    [motetBool] = {"bool", 1, ORACLE_BOOL, 0, 0, 0},
    [motetComplex64] = {"complex64", 8, ORACLE_COMPLEX, 8, 23, true},
    [motetComplex128] = {"complex128", 16, ORACLE_COMPLEX, 11, 52, true},
};

static const char *const oracle_ops[motetNumOps] = {"sum", "prod", "max", "min", "avg", "band", "bor", "bxor"};

/* One accumulator. Only the member of the type's class is meant. */
struct oracle_number {
    int64_t i;
    uint64_t u;
    float f[2];
    double d[2];
};

static inline bool oracle_defined(motetDataType_t dtype, motetRedOp_t op)
{
    enum oracle_class class = oracle_types[dtype].class;
    if (class == ORACLE_COMPLEX)
        return op == motetSum || op == motetAvg;
    if (class == ORACLE_BOOL)
        return op != motetAvg;
    return op < motetBand || class <= ORACLE_UNSIGNED;
}

/* Value of a small float of any format, by its definition. */
static inline float oracle_decode(const struct oracle_type *type, uint32_t bits)
{
    int m = type->mantissa, top = (1 << type->exponent) - 1;
    int exponent = (int)(bits >> m) & top;
    uint32_t mantissa = bits & ((1u << m) - 1);
    bool negative = bits >> (m + type->exponent) & 1;
    float value;
    if (exponent == top && type->has_infinity)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == top && mantissa == (1u << m) - 1 && !type->has_infinity)
        value = NAN;
    else if (exponent == 0)
        value = ldexpf((float)mantissa, 1 - top / 2 - m);
    else
        value = ldexpf((float)(mantissa | 1u << m), exponent - top / 2 - m);
    return negative ? -value : value;
}

/* Nearest small float, ties to even; beyond the range infinity, or NaN where there is none. */
static inline uint32_t oracle_encode(const struct oracle_type *type, float value)
{
    int m = type->mantissa, top = (1 << type->exponent) - 1, bias = top / 2;
    uint32_t sign = signbit(value) ? 1u << (m + type->exponent) : 0;
    uint32_t overflow = type->has_infinity ? (uint32_t)top << m : ((uint32_t)top << m | ((1u << m) - 1));
    if (isnan(value))
        return (uint32_t)top << m | ((1u << m) - 1);
    if (isinf(value))
        return sign | overflow;
    int exponent = 0;
    frexp(value, &exponent);
    exponent = value == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double steps = nearbyint(ldexp(fabs((double)value), m - exponent)); /* in [0, 2^(m+1)], ties to even */
    uint32_t bits = (uint32_t)steps + ((uint32_t)(exponent + bias - 1) << m);
    return sign | (bits > overflow - (type->has_infinity ? 0 : 1) ? overflow : bits);
}

static inline struct oracle_number oracle_load(motetDataType_t dtype, const void *at)
{
    const struct oracle_type *type = &oracle_types[dtype];
    struct oracle_number x = {0, 0, {0, 0}, {0, 0}};
    switch (type->class) {
    case ORACLE_SIGNED:
        memcpy(&x.u, at, type->size);
        x.i = (int64_t)(x.u << (64 - 8 * type->size)) >> (64 - 8 * type->size);
        x.u = (uint64_t)x.i;
        break;
    case ORACLE_UNSIGNED:
        memcpy(&x.u, at, type->size);
        break;
    case ORACLE_BOOL:
        x.u = *(const uint8_t *)at != 0;
        break;
    case ORACLE_SMALL_FLOAT:
        memcpy(&x.u, at, type->size);
        x.f[0] = oracle_decode(type, (uint32_t)x.u);
        break;
    case ORACLE_FLOAT:
        memcpy(x.f, at, 4);
        break;
    case ORACLE_DOUBLE:
        memcpy(x.d, at, 8);
        break;
    case ORACLE_COMPLEX:
        memcpy(type->size == 8 ? (void *)x.f : (void *)x.d, at, type->size);
        break;
    }
    return x;
}

static inline double oracle_extreme(double a, double b, bool max)
{
    if (isnan(a) || isnan(b))
        return NAN;
    if (a == 0 && b == 0)
        return max == !signbit(a) ? a : b;
    return max == (a > b) ? a : b;
}

static inline uint64_t oracle_combine_unsigned(motetRedOp_t op, uint64_t a, uint64_t b)
{
    switch (op) {
    case motetProd:
        return a * b;
    case motetMax:
        return a > b ? a : b;
    case motetMin:
        return a < b ? a : b;
    case motetBand:
        return a & b;
    case motetBor:
        return a | b;
    case motetBxor:
        return a ^ b;
    default:
        return a + b;
    }
}

static inline struct oracle_number oracle_combine(motetDataType_t dtype, motetRedOp_t op, struct oracle_number a,
                                                  struct oracle_number b)
{
    enum oracle_class class = oracle_types[dtype].class;
    struct oracle_number x = a;
    if (class == ORACLE_BOOL)
        op = op == motetSum ? motetBor : op == motetProd ? motetBand : op;
    if (class == ORACLE_SIGNED && (op == motetMax || op == motetMin))
        x.u = (uint64_t)((op == motetMax) == (a.i > b.i) ? a.i : b.i);
    else if (class == ORACLE_SIGNED || class == ORACLE_UNSIGNED || class == ORACLE_BOOL)
        x.u = oracle_combine_unsigned(op, a.u, b.u);
    x.i = (int64_t)x.u;
    for (int part = 0; part < 2; part++) {
        bool extreme = op == motetMax || op == motetMin;
        if (extreme) {
            x.f[part] = (float)oracle_extreme(a.f[part], b.f[part], op == motetMax);
            x.d[part] = oracle_extreme(a.d[part], b.d[part], op == motetMax);
        } else {
            x.f[part] = op == motetProd ? a.f[part] * b.f[part] : a.f[part] + b.f[part];
            x.d[part] = op == motetProd ? a.d[part] * b.d[part] : a.d[part] + b.d[part];
        }
    }
    return x;
}

/* Divides if the operation is an average, rounds once, stores one element. */
static inline void oracle_store(motetDataType_t dtype, motetRedOp_t op, int nranks, struct oracle_number x, void *at)
{
    const struct oracle_type *type = &oracle_types[dtype];
    if (op == motetAvg) {
        x.u = type->class == ORACLE_SIGNED ? (uint64_t)(x.i / nranks) : x.u / (uint64_t)nranks;
        for (int part = 0; part < 2; part++) {
            x.f[part] /= (float)nranks;
            x.d[part] /= (double)nranks;
        }
    }
    if (type->class == ORACLE_SMALL_FLOAT)
        x.u = oracle_encode(type, x.f[0]);
    bool is_float = type->class == ORACLE_FLOAT || (type->class == ORACLE_COMPLEX && type->size == 8);
    bool is_double = type->class == ORACLE_DOUBLE || (type->class == ORACLE_COMPLEX && type->size == 16);
    memcpy(at, is_float ? (void *)x.f : is_double ? (void *)x.d : (void *)&x.u, type->size);
}

/* scalar * x, rounded to the datatype, as PreMulSum's owner does. */
static inline void oracle_scale(motetDataType_t dtype, const void *scalar, const void *from, void *at)
{
    struct oracle_number s = oracle_load(dtype, scalar), x = oracle_load(dtype, from);
    if (oracle_types[dtype].class == ORACLE_COMPLEX) {
        struct oracle_number product = x;
        product.f[0] = s.f[0] * x.f[0] - s.f[1] * x.f[1];
        product.f[1] = s.f[0] * x.f[1] + s.f[1] * x.f[0];
        product.d[0] = s.d[0] * x.d[0] - s.d[1] * x.d[1];
        product.d[1] = s.d[0] * x.d[1] + s.d[1] * x.d[0];
        oracle_store(dtype, motetSum, 1, product, at);
    } else {
        oracle_store(dtype, motetProd, 1, oracle_combine(dtype, motetProd, s, x), at);
    }
}

static inline uint64_t oracle_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Bits of a float of `type` that is interesting for `op`: full mantissas and exponents around 1, now and then a subnormal, a signed
 * zero, for min and max more NaN and infinity, for sums rarely so. */
static inline uint64_t oracle_float_bits(const struct oracle_type *type, motetRedOp_t op, uint64_t h)
{
    int m = type->mantissa;
    uint64_t top = (1u << type->exponent) - 1, bias = top / 2, mantissa = h & ((UINT64_C(1) << m) - 1);
    uint64_t sign = (h >> 63) << (m + type->exponent);
    uint64_t spread = type->exponent == 4 ? 3 : op == motetProd ? 2 : type->exponent == 5 ? 4 : 8;
    uint64_t kind = (h >> 53) & 0xff;
    bool extreme = op == motetMax || op == motetMin;
    if (kind < 8)
        return sign | (kind < 4 ? 0 : mantissa); /* zeros and subnormals */
    if (kind == 8 && (extreme || ((h >> 61) & 3) == 0))
        return sign | top << m | (type->has_infinity ? 0 : (UINT64_C(1) << m) - 1); /* infinity, or e4m3's NaN */
    if (kind == 9 && extreme)
        return sign | top << m | ((UINT64_C(1) << m) - 1); /* NaN */
    return sign | (bias - spread + ((h >> 56) & 0x1f) % (2 * spread)) << m | mantissa;
}

/* Fills at[0..n) with elements start..start+n of rank's input: they differ by seed, rank and index. */
static inline void oracle_fill(motetDataType_t dtype, motetRedOp_t op, uint64_t seed, int rank, size_t start, size_t n, void *at)
{
    const struct oracle_type *type = &oracle_types[dtype];
    size_t parts = type->class == ORACLE_COMPLEX ? 2 : 1, size = type->size / parts;
    uint64_t base = oracle_mix(seed * 1000003 + (uint64_t)rank * 7919 + 1);
    for (size_t i = 0; i < n * parts; i++) {
        uint64_t h = oracle_mix(base + (start * parts + i) * 0x9e3779b97f4a7c15u);
        if (type->class == ORACLE_BOOL)
            h = op == motetProd || op == motetMin || op == motetBand ? (h & 7) != 0 : (h & 7) == 0;
        else if (type->exponent)
            h = oracle_float_bits(type, op, h);
        memcpy((char *)at + i * size, &h, size);
    }
}

/* Replaces floats in at[0..n) by small integers (for products by 1 and 2): any order of reduction gives the same bits. */
static inline void oracle_make_exact(motetDataType_t dtype, motetRedOp_t op, size_t n, void *at)
{
    const struct oracle_type *type = &oracle_types[dtype];
    for (size_t i = 0; type->exponent && i < n; i++) {
        uint64_t h = 0;
        memcpy(&h, (char *)at + i * type->size, type->size < 8 ? type->size : 8);
        h = oracle_mix(h);
        struct oracle_number x = {0, 0, {0, 0}, {0, 0}};
        for (int part = 0; part < 2; part++) {
            x.d[part] = op == motetProd ? 1 + (double)(h >> part & 1) : (double)(h >> 8 * part & 3) - 1;
            x.f[part] = (float)x.d[part];
        }
        oracle_store(dtype, motetSum, 1, x, (char *)at + i * type->size);
    }
}

/* Tree over the `n` ranks from `first` on; blocks[r] is where rank r's elements start. */
static inline struct oracle_number oracle_tree(motetDataType_t dtype, motetRedOp_t op, void *const *blocks, int first, int n,
                                               size_t i)
{
    if (n == 1)
        return oracle_load(dtype, (char *)blocks[first] + i * oracle_types[dtype].size);
    int half = 1;
    while (half * 2 < n)
        half *= 2;
    return oracle_combine(dtype, op, oracle_tree(dtype, op, blocks, first, half, i),
                          oracle_tree(dtype, op, blocks, first + half, n - half, i));
}

/* Whether two elements are the same value: equal bits, or both NaN where the type has NaN. */
static inline bool oracle_same(motetDataType_t dtype, const void *a, const void *b)
{
    const struct oracle_type *type = &oracle_types[dtype];
    if (memcmp(a, b, type->size) == 0)
        return true;
    if (!type->exponent)
        return false;
    size_t parts = type->class == ORACLE_COMPLEX ? 2 : 1, size = type->size / parts;
    for (size_t part = 0; part < parts; part++) {
        const char *x = (const char *)a + part * size, *y = (const char *)b + part * size;
        if (memcmp(x, y, size) == 0)
            continue;
        struct oracle_number u, v;
        motetDataType_t real = dtype == motetComplex64 ? motetFloat32 : dtype == motetComplex128 ? motetFloat64 : dtype;
        u = oracle_load(real, x);
        v = oracle_load(real, y);
        if (!(real == motetFloat64 ? isnan(u.d[0]) && isnan(v.d[0]) : isnan(u.f[0]) && isnan(v.f[0])))
            return false;
    }
    return true;
}

#endif
