/* SPDX-License-Identifier: Apache-2.0
 * Element types, operations and the kernels that combine them. Knows nothing of ranks, messages or memory layout.
 *
 * A reduction is a balanced binary tree over its operands in the order given: k operands split at the largest power of two
 * below k, both halves are reduced, then combined. Nodes are held in the accumulator type (float32 for 16- and 8-bit floats,
 * int64/uint64 for integer averages, else the type itself), and finished once: average divides, then one rounding.
 * The bits of a result depend on the operands and their order only: not on the ISA, the length, the alignment or the chunking,
 * nor on the caller's floating-point mode. A float that is NaN is stored as one NaN per datatype, quiet and positive. */
#ifndef MOTET_REDUCE_REDUCE_H
#define MOTET_REDUCE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"

enum motet_dtype_kind { MOTET_KIND_INT, MOTET_KIND_UINT, MOTET_KIND_FLOAT, MOTET_KIND_COMPLEX, MOTET_KIND_BOOL };

struct motet_dtype {
    const char *name; /* "float32"; used by perf, logs, errors */
    size_t size;      /* bytes of one element */
    enum motet_dtype_kind kind;
};

extern const struct motet_dtype motet_dtypes[motetNumTypes];

/* Row of a public datatype; NULL if the value names none. */
static inline const struct motet_dtype *motet_dtype_row(motetDataType_t dtype)
{
    return (unsigned)dtype < motetNumTypes ? &motet_dtypes[dtype] : NULL;
}

/* "sum", "avg", ...; "?" if the value names no built-in operation. */
const char *motet_op_name(motetRedOp_t op);

/* What one reduction needs to know; filled by motet_reduction_init and constant afterwards. */
struct motet_reduction {
    motetDataType_t dtype;
    motetRedOp_t op;     /* a built-in operation: PreMulSum is Sum here, the owner multiplies first (motet_premultiply) */
    int nranks;          /* divisor of Avg */
    size_t size;         /* bytes of an element */
    size_t wide_size;    /* bytes of an accumulator */
    const void *kernels; /* private to reduce/ */
};

/* Checks that op is defined on dtype and picks the kernels; motetInvalidArgument names both. Refused are Avg on bool; Prod, Max and
 * Min on complex; Band, Bor and Bxor on floats and complex. Bool is read as zero or not zero and written as 0 or 1. */
motetResult_t motet_reduction_init(struct motet_reduction *reduction, motetDataType_t dtype, motetRedOp_t op, int nranks);

/* One operand or result: `wide` says whether the elements are accumulators or of the datatype. */
struct motet_operand {
    const void *at;
    bool wide;
};

/* dst[i] = tree over operands[0..k)[i] for i in [0, n). k >= 1; k up to 2^16.
 * dst_wide: accumulators are stored (not finished); otherwise the value is finished and rounded once. k == 1 with a narrow
 * operand and narrow dst still finishes (avg divides): plain copies are the caller's memcpy.
 * dst may be exactly equal to an operand of the same width, but must not overlap one otherwise. No alignment is assumed.
 * Never fails, never allocates. */
void motet_reduce(const struct motet_reduction *reduction, void *dst, bool dst_wide, const struct motet_operand *operands, int k,
                  size_t n);

/* dst[i] = scalar * src[i] in dtype, rounded to dtype (PreMulSum's owner side). scalar points to one element of dtype.
 * dst may equal src. Defined for every dtype on which sum is defined. */
void motet_premultiply(motetDataType_t dtype, void *dst, const void *src, const void *scalar, size_t n);

/* Copies to lines that other cores have read: `rep movsb` where CPUID says it is fast and len pays, else memcpy. */
void motet_copy_shared(void *dst, const void *src, size_t len);

/* Copies at most 48 bytes, what fits in a line beside its head, by words that overlap: a call of memcpy with a length that the compiler does
 * not know costs more. */
static inline void motet_copy_line(void *to, const void *from, size_t len)
{
    char *dst = to;
    const char *src = from;
    if (len >= 16) {
        __builtin_memcpy(dst, src, 16);
        if (len > 32)
            __builtin_memcpy(dst + 16, src + 16, 16);
        __builtin_memcpy(dst + len - 16, src + len - 16, 16);
    } else if (len >= 8) {
        uint64_t head, tail;
        __builtin_memcpy(&head, src, 8);
        __builtin_memcpy(&tail, src + len - 8, 8);
        __builtin_memcpy(dst, &head, 8);
        __builtin_memcpy(dst + len - 8, &tail, 8);
    } else {
        for (size_t i = 0; i < len; i++)
            dst[i] = src[i];
    }
}

/* Copies from lines that another core's cache may hold, to lines that only this core uses. */
void motet_copy_private(void *dst, const void *src, size_t len);

/* Copies past this core's cache, by streaming stores: what the next reader finds lies in memory. dst is 16-byte aligned. Ordered before later
 * stores. */
void motet_copy_past_cache(void *dst, const void *src, size_t len);

/* Whether this machine has such stores; else motet_copy_past_cache is a plain copy. */
bool motet_copy_can_pass_cache(void);

/* Name of the instruction set in use: "base", "avx2", "avx512", "neon". Chosen once, capped by MOTET_ISA. */
const char *motet_reduce_isa(void);

#endif
