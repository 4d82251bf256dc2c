/* SPDX-License-Identifier: Apache-2.0
 * The table of kernels that one instruction set provides. Private to reduce/. Kernels are plain loops: they know neither trees
 * nor blocks, take any alignment, and give the same bits in every set. dst may be exactly equal to a source of the same width. */
#ifndef MOTET_REDUCE_KERNELS_H
#define MOTET_REDUCE_KERNELS_H

#include <stddef.h>

#include "reduce/reduce.h"

/* Operands that one kernel call takes: 1 to MOTET_FUSED, sums MOTET_FUSED_SUM as well. */
#define MOTET_FUSED     4
#define MOTET_FUSED_SUM 8

/* dst[i] = tree over src[0..k)[i]. */
typedef void motet_combine_kernel(void *dst, const void *const *src, int k, size_t n);

/* dst[i] = src[i] as an accumulator. */
typedef void motet_widen_kernel(void *dst, const void *src, size_t n);

/* dst[i] = src[i], an accumulator, finished: divided by nranks where the kernel averages, then rounded to the datatype. */
typedef void motet_finish_kernel(void *dst, const void *src, size_t n, int nranks);

/* One datatype. A NULL in combine refuses the operation. */
struct motet_kernel_row {
    int parts;                                  /* numbers in an element: 2 where it is complex; kernels count numbers */
    motet_combine_kernel *combine[motetNumOps]; /* accumulators in, accumulators out */
    motet_widen_kernel *widen;                  /* where accumulators are wider than the datatype */
    motet_finish_kernel *narrow;                /* of accumulators that are wider: round */
    motet_finish_kernel *average;               /* divide, round */
    motet_combine_kernel *sum_narrow;           /* optional short cuts of Sum: all sources narrow, narrow result */
    motet_combine_kernel *sum_wide;             /* all sources narrow, wide result */
    motet_combine_kernel *sum_mixed_narrow;     /* k = 2: src[0] narrow, src[1] wide, narrow result */
    motet_combine_kernel *sum_mixed_wide;       /* k = 2: src[0] narrow, src[1] wide, wide result */
};

struct motet_kernel_set {
    const char *name;
    struct motet_kernel_row rows[motetNumTypes];
};

extern const struct motet_kernel_set motet_kernels_base;
#if defined(__x86_64__)
extern const struct motet_kernel_set motet_kernels_avx2;
extern const struct motet_kernel_set motet_kernels_avx512;
#elif defined(__aarch64__)
extern const struct motet_kernel_set motet_kernels_neon;
#endif

/* i-th set that this machine can run, slowest first; NULL past the last. MOTET_ISA does not matter here. */
const struct motet_kernel_set *motet_kernel_set(int i);

/* The set in use: the fastest that the machine can run and MOTET_ISA allows, chosen once. */
const struct motet_kernel_set *motet_kernel_set_chosen(void);

/* motetInvalidArgument if MOTET_ISA makes no sense. */
motetResult_t motet_kernel_set_check(void);

/* As motet_reduction_init, with the kernels of a given set. */
motetResult_t motet_reduction_init_with(struct motet_reduction *reduction, motetDataType_t dtype, motetRedOp_t op, int nranks,
                                        const struct motet_kernel_set *set);

#endif
