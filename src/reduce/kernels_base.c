/* SPDX-License-Identifier: Apache-2.0
 * Kernels in portable C for the instruction set that the whole library is compiled for: they run everywhere, and every other
 * set must give their bits. */
#define KERNEL_SET  motet_kernels_base
#define KERNEL_NAME "base"
#define KERNEL_F16  0

#if !defined(__clang__)
#pragma GCC optimize("O3", "fp-contract=off", "no-trapping-math")
#endif

#include "reduce/kernels.inc"
