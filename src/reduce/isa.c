/* SPDX-License-Identifier: Apache-2.0
 * Which kernels run: the processor is asked once, MOTET_ISA may cap the answer. Nothing else in the library asks what the
 * processor can do, except motet_copy. */
#include "reduce/kernels.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Every name that MOTET_ISA may hold on any machine. */
static const char *const isa_names[] = {"base", "avx2", "avx512", "neon"};

static pthread_once_t chosen_once = PTHREAD_ONCE_INIT;
static const struct motet_kernel_set *chosen = &motet_kernels_base;
static bool isa_is_nonsense;

#if defined(__x86_64__)
/* __builtin_cpu_supports also asks whether the kernel saves the wide registers; it does not know F16C in clang 14. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct motet_kernel_set *motet_kernel_set(int i)
{
    const struct motet_kernel_set *sets[4] = {&motet_kernels_base};
    int n = 1;
#if defined(__x86_64__)
    if (has_avx2())
        sets[n++] = &motet_kernels_avx2;
    if (has_avx512())
        sets[n++] = &motet_kernels_avx512;
#elif defined(__aarch64__)
    sets[n++] = &motet_kernels_neon;
#endif
    return i >= 0 && i < n ? sets[i] : NULL;
}

static bool is_isa_name(const char *name)
{
    for (size_t i = 0; i < sizeof(isa_names) / sizeof(isa_names[0]); i++)
        if (!strcmp(name, isa_names[i]))
            return true;
    return false;
}

/* A cap that this machine does not reach, or the name of another architecture's set, leaves the fastest. */
static void choose(void)
{
    const char *cap = motet_settings_load() == motetSuccess ? motet_setting_string(MOTET_SET_ISA) : "";
    isa_is_nonsense = cap[0] && !is_isa_name(cap);
    const struct motet_kernel_set *set;
    for (int i = 0; (set = motet_kernel_set(i)) != NULL; i++) {
        chosen = set;
        if (!strcmp(set->name, cap))
            break;
    }
    INFO(MOTET_LOG_INIT, "reductions use the %s kernels%s%s", chosen->name, cap[0] ? ", MOTET_ISA=" : "", cap);
}

motetResult_t motet_kernel_set_check(void)
{
    pthread_once(&chosen_once, choose);
    if (isa_is_nonsense)
        return motet_fail(motetInvalidArgument, "MOTET_ISA=%s: not an instruction set, use base, avx2, avx512 or neon",
                          motet_setting_string(MOTET_SET_ISA));
    return motetSuccess;
}

const struct motet_kernel_set *motet_kernel_set_chosen(void)
{
    pthread_once(&chosen_once, choose);
    return chosen;
}

const char *motet_reduce_isa(void)
{
    return motet_kernel_set_chosen()->name;
}
