/* SPDX-License-Identifier: Apache-2.0
 * Kernels for x86-64 with AVX2 and F16C. Nothing in this file may run before the processor was asked for both. */
#include "reduce/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERNEL_SET  motet_kernels_avx2
#define KERNEL_NAME "avx2"
#define KERNEL_F16  8

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC optimize("O3", "fp-contract=off", "no-trapping-math")
#pragma GCC target("avx2,f16c")
#endif

#include "reduce/kernels.inc"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
