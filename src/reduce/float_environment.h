/* SPDX-License-Identifier: Apache-2.0
 * The caller's floating-point mode, set aside while kernels run: a thread that flushes denormals (-ffast-math turns it on in a
 * program's main thread only), rounds otherwise or traps on NaN must get the bits that every other rank gets. Costs one read of
 * the control register; writing it, twice, only where the mode is unusual. */
#ifndef MOTET_REDUCE_FLOAT_ENVIRONMENT_H
#define MOTET_REDUCE_FLOAT_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

#define MOTET_FLOAT_CONTROL 0xffc0u /* masks, rounding, flush to zero, denormals are zero: the rest are sticky flags */
#define MOTET_FLOAT_DEFAULT 0x1f80u

static inline uint64_t motet_float_mode(void)
{
    return _mm_getcsr();
}

static inline void motet_float_set_mode(uint64_t mode)
{
    _mm_setcsr((unsigned)mode);
}

#elif defined(__aarch64__)

#define MOTET_FLOAT_CONTROL 0xffffffffu
#define MOTET_FLOAT_DEFAULT 0u

static inline uint64_t motet_float_mode(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}

static inline void motet_float_set_mode(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}

#else
#error "the floating-point control register of this architecture is unknown here"
#endif

static inline bool motet_float_is_unusual(uint64_t mode)
{
    return __builtin_expect((mode & MOTET_FLOAT_CONTROL) != MOTET_FLOAT_DEFAULT, 0);
}

/* Default mode from here; returns what motet_float_leave needs. */
static inline uint64_t motet_float_enter(void)
{
    uint64_t mode = motet_float_mode();
    if (motet_float_is_unusual(mode))
        motet_float_set_mode(MOTET_FLOAT_DEFAULT);
    return mode;
}

static inline void motet_float_leave(uint64_t mode)
{
    if (motet_float_is_unusual(mode))
        motet_float_set_mode(mode);
}

#endif
