/* SPDX-License-Identifier: Apache-2.0
 * Copies from and to lines that other cores use, too. Into lines that another core has read, `rep movsb` takes ownership of whole lines without reading them first, which
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
#include <immintrin.h>

/* Bytes from which `rep movsb` pays. */
#define STRING_COPY_MIN 1024

/* Bytes from which motet_copy_private goes by wide registers, and how far ahead of itself it asks for lines. */
#define WIDE_COPY_MIN 2048
#define AHEAD         1024

/* Up to here motet_copy_private is a loop of its own: what is larger does not lie in caches. */
#define LOOP_COPY_MAX (512 * 1024)

enum { KNOWN = 1, FAST_STRINGS = 2, AVX2 = 4 };

/* Leaf 7: EBX bit 9, enhanced rep movsb; EDX bit 4, fast short rep movsb. */
static int ask_processor(void)
{
    unsigned a, b, c, d;
    bool strings = __get_cpuid_count(7, 0, &a, &b, &c, &d) && ((b >> 9 & 1) || (d >> 4 & 1));
    return KNOWN | (strings ? FAST_STRINGS : 0) | (__builtin_cpu_supports("avx2") ? AVX2 : 0);
}

/* Two threads may both ask and store the same answer: relaxed is enough. */
static bool has(int what)
{
    static int answer;
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (__builtin_expect(known == 0, 0)) {
        known = ask_processor();
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known & what;
}

void motet_copy_shared(void *dst, const void *src, size_t len)
{
    if (len >= STRING_COPY_MIN && has(FAST_STRINGS))
        __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(len) : : "memory");
    else
        memcpy(dst, src, len);
}

/* Copies what is a multiple of 256 bytes and asks for the lines ahead: another core's cache answers slowly, many requests at once hide it. */
__attribute__((target("avx2"))) static void copy_wide(char *to, const char *from, size_t len)
{
    for (; len > 0; len -= 256, to += 256, from += 256) {
        for (int line = 0; line < 256; line += 64)
            _mm_prefetch(from + AHEAD + line, _MM_HINT_T0);
        for (int line = 0; line < 256; line += 64) {
            __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(from + line));
            __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + line + 32));
            _mm256_storeu_si256((__m256i *)(void *)(to + line), a);
            _mm256_storeu_si256((__m256i *)(void *)(to + line + 32), b);
        }
    }
}

/* Plain loops: memcpy would take `rep movsb`, which is up to 2.5 times slower where the source lies in another core's cache. */
void motet_copy_private(void *dst, const void *src, size_t len)
{
    char *to = dst;
    const char *from = src;
    if (len > LOOP_COPY_MAX) {
        memcpy(dst, src, len);
        return;
    }
    if (len >= WIDE_COPY_MIN && has(AVX2)) {
        size_t wide = len & ~(size_t)255;
        copy_wide(to, from, wide);
        to += wide, from += wide, len -= wide;
    }
    for (; len >= 64; len -= 64, to += 64, from += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_storeu_si128((__m128i *)(void *)to, a);
        _mm_storeu_si128((__m128i *)(void *)(to + 16), b);
        _mm_storeu_si128((__m128i *)(void *)(to + 32), c);
        _mm_storeu_si128((__m128i *)(void *)(to + 48), d);
    }
    memcpy(to, from, len);
}

void motet_copy_past_cache(void *dst, const void *src, size_t len)
{
    char *to = dst;
    const char *from = src;
    for (; len >= 64; len -= 64, to += 64, from += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
    memcpy(to, from, len);
    _mm_sfence(); /* streaming stores are ordered by nothing else, not even by a release store */
}

bool motet_copy_can_pass_cache(void)
{
    return true;
}

#else

void motet_copy_shared(void *dst, const void *src, size_t len)
{
    memcpy(dst, src, len);
}

void motet_copy_private(void *dst, const void *src, size_t len)
{
    memcpy(dst, src, len);
}

void motet_copy_past_cache(void *dst, const void *src, size_t len)
{
    memcpy(dst, src, len);
}

bool motet_copy_can_pass_cache(void)
{
    return false;
}

#endif
