/* SPDX-License-Identifier: Apache-2.0
 * Kernels for x86-64 with AVX-512 F, BW, DQ and VL (every server part since 2017 that has any of it). Nothing in this file may
 * run before the processor was asked for all of them. */
#include "reduce/kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERNEL_SET  motet_kernels_avx512
#define KERNEL_NAME "avx512"
#define KERNEL_F16  16

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC optimize("O3", "fp-contract=off", "no-trapping-math")
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif

#include "reduce/kernels.inc"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
