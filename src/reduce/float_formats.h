/* SPDX-License-Identifier: Apache-2.0
 * 16- and 8-bit floats to float32 and back, in integer arithmetic without branches, so that loops over them vectorise.
 * To float32 is exact. Back rounds to nearest even, keeps denormals, and gives one NaN per format, without a sign.
 * Included by every kernel file after it has chosen its instruction set: nothing here may have external linkage. */
#ifndef MOTET_REDUCE_FLOAT_FORMATS_H
#define MOTET_REDUCE_FLOAT_FORMATS_H

#include <stdint.h>
#include <string.h>

#define MOTET_NAN_BITS 0x7fc00000u

#define MOTET_INLINE static inline __attribute__((always_inline, unused))

MOTET_INLINE float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

MOTET_INLINE uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Formats laid out as IEEE would, `exponent` and `mantissa` bits wide, infinity and NaNs included; all arguments but x constant.
 * Denormals: set the hidden bit, then subtract it as a float, which is exact and never touches a float32 denormal. */
MOTET_INLINE float float_of_small(uint32_t x, int exponent, int mantissa)
{
    uint32_t bias = (uint32_t)(128 - (1 << (exponent - 1))) << 23;
    uint32_t sign = (x >> (exponent + mantissa)) << 31;
    uint32_t magnitude = (x & ((1u << (exponent + mantissa)) - 1)) << (23 - mantissa);
    uint32_t smallest_normal = 1u << 23, smallest_special = ((1u << exponent) - 1) << 23;
    uint32_t normal = magnitude + bias + (magnitude >= smallest_special ? bias : 0);
    uint32_t denormal = bits_of_float(float_of_bits(magnitude + bias + smallest_normal) - float_of_bits(bias + smallest_normal));
    return float_of_bits(sign | (magnitude < smallest_normal ? denormal : normal));
}

/* The magnitude of `bits` (a float32 without sign) as a code of the format, unbounded above: the caller clamps.
 * Denormals: adding the float whose last place is the format's smallest denormal lets the adder round. */
MOTET_INLINE uint32_t small_of_magnitude(uint32_t bits, int exponent, int mantissa)
{
    int drop = 23 - mantissa;
    uint32_t bias = (uint32_t)(128 - (1 << (exponent - 1))) << 23;
    uint32_t place = bias + ((uint32_t)(drop + 1) << 23);
    uint32_t denormal = bits_of_float(float_of_bits(bits) + float_of_bits(place)) - place;
    uint32_t normal = (bits - bias + ((1u << (drop - 1)) - 1) + ((bits >> drop) & 1)) >> drop;
    return bits < bias + (1u << 23) ? denormal : normal;
}

MOTET_INLINE uint32_t small_of_float(float value, int exponent, int mantissa, uint32_t nan)
{
    uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
    uint32_t sign = (bits >> 31) << (exponent + mantissa);
    uint32_t infinity = ((1u << exponent) - 1) << mantissa;
    uint32_t code = small_of_magnitude(magnitude, exponent, mantissa);
    code = (code < infinity ? code : infinity) | sign;
    return magnitude > 0x7f800000 ? nan : code;
}

MOTET_INLINE float float_of_f16(uint32_t x)
{
    return float_of_small(x, 5, 10);
}

MOTET_INLINE uint32_t f16_of_float(float value)
{
    return small_of_float(value, 5, 10, 0x7e00);
}

MOTET_INLINE float float_of_e5m2(uint32_t x)
{
    return float_of_small(x, 5, 2);
}

MOTET_INLINE uint32_t e5m2_of_float(float value)
{
    return small_of_float(value, 5, 2, 0x7f);
}

/* e4m3 has no infinity: the codes that IEEE would give it are numbers up to 448, only the last one is NaN. */
MOTET_INLINE float float_of_e4m3(uint32_t x)
{
    uint32_t bias = 120u << 23, smallest_normal = 1u << 23;
    uint32_t sign = x >> 7 << 31, magnitude = (x & 0x7f) << 20;
    uint32_t denormal = bits_of_float(float_of_bits(magnitude + bias + smallest_normal) - float_of_bits(bias + smallest_normal));
    uint32_t bits = sign | (magnitude < smallest_normal ? denormal : magnitude + bias);
    return float_of_bits((x & 0x7f) == 0x7f ? MOTET_NAN_BITS : bits);
}

MOTET_INLINE uint32_t e4m3_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t code = small_of_magnitude(bits & 0x7fffffff, 4, 3);
    return code < 0x7f ? code | (bits >> 31) << 7 : 0x7f;
}

MOTET_INLINE float float_of_bf16(uint16_t x)
{
    return float_of_bits((uint32_t)x << 16);
}

/* The rounded bfloat16 in the upper half, as it lies in a float32; the lower half is rubbish. */
MOTET_INLINE uint32_t bf16_high_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    return value == value ? bits + 0x7fff + ((bits >> 16) & 1) : MOTET_NAN_BITS;
}

MOTET_INLINE uint16_t bf16_of_float(float value)
{
    return (uint16_t)(bf16_high_of_float(value) >> 16);
}

#endif
