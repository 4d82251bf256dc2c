/* SPDX-License-Identifier: Apache-2.0
 * Copies into lines that another core has read. There `rep movsb` takes ownership of whole lines without reading them first, which
 * vector stores cannot: 1.6 to 2.6 times faster on the machines measured. Below a kilobyte its start-up costs more than it saves.
 *
 * Order: stores of one `rep movsb` may become visible in any order among themselves, but all of them before any later store of
 * this core (Intel SDM, "Fast-String Operation and Out-of-Order Stores"; AMD alike), so a sequence word stored after the copy publishes it as on every x86 path. */
#include "reduce/reduce.h"

#include <string.h>

/* Sanitizers see memcpy and do not see assembly. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && !defined(SANITIZED)
#include <cpuid.h>

/* Bytes from which `rep movsb` pays. */
#define STRING_COPY_MIN 1024

enum { UNKNOWN, SLOW, FAST };

/* Leaf 7: EBX bit 9, enhanced rep movsb; EDX bit 4, fast short rep movsb. */
static int ask_processor(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && ((b >> 9 & 1) || (d >> 4 & 1)) ? FAST : SLOW;
}

/* Two threads may both ask and store the same answer: relaxed is enough. */
static bool string_copy_is_fast(void)
{
    static int answer = UNKNOWN;
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (__builtin_expect(known == UNKNOWN, 0)) {
        known = ask_processor();
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known == FAST;
}

void motet_copy(void *dst, const void *src, size_t len)
{
    if (len >= STRING_COPY_MIN && string_copy_is_fast())
        __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
    else
        memcpy(dst, src, len);
}

#else

void motet_copy(void *dst, const void *src, size_t len)
{
    memcpy(dst, src, len);
}

#endif
