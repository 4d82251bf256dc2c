/* SPDX-License-Identifier: Apache-2.0
 * The datatypes and operations that perf knows by name, and how an exact number is written in each datatype. */
#ifndef MOTET_TOOLS_PERF_TYPE_H
#define MOTET_TOOLS_PERF_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"

enum perf_class { PERF_SIGNED, PERF_UNSIGNED, PERF_FLOAT, PERF_BOOL };

struct perf_type {
    const char *name; /* as nccl-tests calls it */
    motetDataType_t type;
    enum perf_class class;
    int size;          /* bytes of an element */
    int parts;         /* 2: complex, two floats */
    int exponent_bits; /* floats */
    int mantissa_bits; /* floats: stored bits; integers up to 2^(mantissa_bits + 1) are exact */
};

enum perf_op {
    PERF_SUM,
    PERF_PROD,
    PERF_MIN,
    PERF_MAX,
    PERF_AVG,
    PERF_MULSUM, /* sum of (1 or 2, by rank) * x */
    PERF_BAND,
    PERF_BOR,
    PERF_BXOR,
    PERF_OPS,
    PERF_COPY = PERF_OPS /* no reduction: bytes are moved */
};

extern const struct perf_type perf_types[];
extern const int perf_ntypes;

/* Index in perf_types, -1: unknown. */
int perf_type_find(const char *name);

const char *perf_op_name(enum perf_op op);
/* -1: unknown. */
int perf_op_find(const char *name);

/* The built-in operation; motetSum for PERF_MULSUM and PERF_COPY. */
motetRedOp_t perf_op_value(enum perf_op op);

/* Whether the library defines op on the type. */
bool perf_op_fits(enum perf_op op, const struct perf_type *type);

/* One number: u for integers and bool (modulo 2^64, sign extended), f for floats. */
union perf_number {
    uint64_t u;
    double f;
};

/* Writes one part of an element. The number must be exactly representable. */
void perf_type_encode(const struct perf_type *type, union perf_number number, void *dst);

/* Reads one part back, for messages. */
double perf_type_decode(const struct perf_type *type, const void *src);

#endif
