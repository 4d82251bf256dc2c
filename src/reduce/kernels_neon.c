/* SPDX-License-Identifier: Apache-2.0
 * Kernels for aarch64. NEON is part of it, so the portable loops are compiled for NEON already; what is added here is the
 * machine's own conversion of float16. */
#include "reduce/kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define KERNEL_SET  motet_kernels_neon
#define KERNEL_NAME "neon"
#define KERNEL_F16  4

#if !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=off", "no-trapping-math")
#endif

#include "reduce/kernels.inc"

#endif
