/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_type.h"

#include <math.h>
#include <string.h>

const struct perf_type perf_types[] = {
    {"int8", motetInt8, PERF_SIGNED, 1, 1, 0, 0},
    {"uint8", motetUint8, PERF_UNSIGNED, 1, 1, 0, 0},
    {"int16", motetInt16, PERF_SIGNED, 2, 1, 0, 0},
    {"uint16", motetUint16, PERF_UNSIGNED, 2, 1, 0, 0},
    {"int32", motetInt32, PERF_SIGNED, 4, 1, 0, 0},
    {"uint32", motetUint32, PERF_UNSIGNED, 4, 1, 0, 0},
    {"int64", motetInt64, PERF_SIGNED, 8, 1, 0, 0},
    {"uint64", motetUint64, PERF_UNSIGNED, 8, 1, 0, 0},
    {"half", motetFloat16, PERF_FLOAT, 2, 1, 5, 10},
    {"float", motetFloat32, PERF_FLOAT, 4, 1, 8, 23},
    {"double", motetFloat64, PERF_FLOAT, 8, 1, 11, 52},
    {"bfloat16", motetBfloat16, PERF_FLOAT, 2, 1, 8, 7},
    {"f8e4m3", motetFloat8e4m3, PERF_FLOAT, 1, 1, 4, 3},
    {"f8e5m2", motetFloat8e5m2, PERF_FLOAT, 1, 1, 5, 2},
    {"bool", motetBool, PERF_BOOL, 1, 1, 0, 0},
    {"complex64", motetComplex64, PERF_FLOAT, 8, 2, 8, 23},
    {"complex128", motetComplex128, PERF_FLOAT, 16, 2, 11, 52},
};

const int perf_ntypes = sizeof perf_types / sizeof perf_types[0];

static const struct {
    const char *name;
    motetRedOp_t value;
} ops[PERF_OPS + 1] = {
    [PERF_SUM] = {"sum", motetSum},    [PERF_PROD] = {"prod", motetProd}, [PERF_MIN] = {"min", motetMin},
    [PERF_MAX] = {"max", motetMax},    [PERF_AVG] = {"avg", motetAvg},    [PERF_MULSUM] = {"mulsum", motetSum},
    [PERF_BAND] = {"band", motetBand}, [PERF_BOR] = {"bor", motetBor},    [PERF_BXOR] = {"bxor", motetBxor},
    [PERF_COPY] = {"none", motetSum},
};

int perf_type_find(const char *name)
{
    static const char *const aliases[][2] = {{"char", "int8"},      {"int", "int32"},      {"fp16", "half"},
                                             {"float16", "half"},   {"fp32", "float"},     {"float32", "float"},
                                             {"fp64", "double"},    {"float64", "double"}, {"bf16", "bfloat16"},
                                             {"fp8e4m3", "f8e4m3"}, {"fp8e5m2", "f8e5m2"}};
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (!strcmp(aliases[i][0], name))
            name = aliases[i][1];
    for (int i = 0; i < perf_ntypes; i++)
        if (!strcmp(perf_types[i].name, name))
            return i;
    return -1;
}

const char *perf_op_name(enum perf_op op)
{
    return ops[op].name;
}

int perf_op_find(const char *name)
{
    for (int i = 0; i < PERF_OPS; i++)
        if (!strcmp(ops[i].name, name))
            return i;
    return -1;
}

motetRedOp_t perf_op_value(enum perf_op op)
{
    return ops[op].value;
}

bool perf_op_fits(enum perf_op op, const struct perf_type *type)
{
    if (op == PERF_COPY || op == PERF_SUM)
        return true;
    if (type->parts == 2)
        return op == PERF_MULSUM || op == PERF_AVG;
    switch (type->class) {
    case PERF_BOOL:
        return op != PERF_AVG && op != PERF_MULSUM;
    case PERF_FLOAT:
        return op != PERF_BAND && op != PERF_BOR && op != PERF_BXOR;
    default:
        return true;
    }
}

/* The bits of an exactly representable number in a float format of at most 16 bits. */
static uint32_t encode_small_float(const struct perf_type *type, double value)
{
    int bias = (1 << (type->exponent_bits - 1)) - 1;
    uint32_t sign = signbit(value) ? 1u << (type->exponent_bits + type->mantissa_bits) : 0;
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* [0.5, 1) */
    if (fraction == 0)
        return sign;
    int stored = exponent - 1 + bias;
    if (stored <= 0) /* subnormal */
        return sign | (uint32_t)ldexp(fraction, exponent + bias - 1 + type->mantissa_bits);
    uint32_t mantissa = (uint32_t)ldexp(fraction * 2 - 1, type->mantissa_bits);
    return sign | (uint32_t)stored << type->mantissa_bits | mantissa;
}

static double decode_small_float(const struct perf_type *type, uint32_t bits)
{
    int bias = (1 << (type->exponent_bits - 1)) - 1;
    uint32_t mantissa = bits & ((1u << type->mantissa_bits) - 1);
    int stored = (int)(bits >> type->mantissa_bits) & ((1 << type->exponent_bits) - 1);
    double sign = bits >> (type->exponent_bits + type->mantissa_bits) & 1 ? -1 : 1;
    if (stored == (1 << type->exponent_bits) - 1 && (type->type != motetFloat8e4m3 || mantissa == 7))
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (stored == 0)
        return sign * ldexp(mantissa, 1 - bias - type->mantissa_bits);
    return sign * ldexp(1 + ldexp(mantissa, -type->mantissa_bits), stored - bias);
}

void perf_type_encode(const struct perf_type *type, union perf_number number, void *dst)
{
    int size = type->size / type->parts;
    if (type->class == PERF_FLOAT && size == 8) {
        memcpy(dst, &number.f, 8);
    } else if (type->class == PERF_FLOAT && size == 4) {
        float value = (float)number.f;
        memcpy(dst, &value, 4);
    } else if (type->class == PERF_FLOAT) {
        uint32_t bits = encode_small_float(type, number.f);
        uint16_t half = (uint16_t)bits;
        uint8_t byte = (uint8_t)bits;
        memcpy(dst, size == 2 ? (void *)&half : (void *)&byte, (size_t)size);
    } else {
        uint8_t byte = (uint8_t)number.u;
        uint16_t two = (uint16_t)number.u;
        uint32_t four = (uint32_t)number.u;
        memcpy(dst,
               size == 1   ? (void *)&byte
               : size == 2 ? (void *)&two
               : size == 4 ? (void *)&four
                           : (void *)&number.u,
               (size_t)size);
    }
}

double perf_type_decode(const struct perf_type *type, const void *src)
{
    int size = type->size / type->parts;
    uint64_t bits = 0;
    float four;
    double eight;
    uint8_t byte;
    uint16_t two;
    uint32_t word;
    switch (size) {
    case 1:
        memcpy(&byte, src, 1);
        bits = byte;
        break;
    case 2:
        memcpy(&two, src, 2);
        bits = two;
        break;
    case 4:
        memcpy(&word, src, 4);
        bits = word;
        break;
    default:
        memcpy(&bits, src, 8);
        break;
    }
    if (type->class == PERF_FLOAT && size == 8) {
        memcpy(&eight, src, 8);
        return eight;
    }
    if (type->class == PERF_FLOAT && size == 4) {
        memcpy(&four, src, 4);
        return (double)four;
    }
    if (type->class == PERF_FLOAT)
        return decode_small_float(type, (uint32_t)bits);
    if (type->class == PERF_SIGNED)
        return (double)((int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size));
    return (double)bits;
}
