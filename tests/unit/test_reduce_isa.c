/* SPDX-License-Identifier: Apache-2.0
 * Which kernels MOTET_ISA leaves, each case in a process of its own because the choice is made once. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "child.h"
#include "reduce/kernels.h"

/* Runs body with MOTET_ISA=value, or without it, and wants it to find what it checks. */
static void run_with_isa(const char *value, void (*body)(void))
{
    static struct child child;
    char setting[64];
    snprintf(setting, sizeof(setting), "MOTET_ISA=%s", value ? value : "");
    child_run(&child, value ? (const char *[]){setting, "MOTET_DEBUG=NONE", NULL} : NULL, body);
    assert_int_equal(child.status, 0);
}

static const struct motet_kernel_set *fastest(void)
{
    int n = 0;
    while (motet_kernel_set(n + 1))
        n++;
    return motet_kernel_set(n);
}

static void check_is_fastest(void)
{
    struct motet_reduction reduction;
    CHILD_CHECK(motet_reduction_init(&reduction, motetFloat32, motetSum, 2) == motetSuccess);
    CHILD_CHECK(motet_kernel_set_chosen() == fastest());
    CHILD_CHECK(reduction.kernels == &fastest()->rows[motetFloat32]);
    CHILD_CHECK(strcmp(motet_reduce_isa(), fastest()->name) == 0);
}

static void check_is_base(void)
{
    struct motet_reduction reduction;
    CHILD_CHECK(motet_reduction_init(&reduction, motetBfloat16, motetSum, 2) == motetSuccess);
    CHILD_CHECK(reduction.kernels == &motet_kernels_base.rows[motetBfloat16]);
    CHILD_CHECK(strcmp(motet_reduce_isa(), "base") == 0);
}

static void check_is_refused(void)
{
    struct motet_reduction reduction;
    CHILD_CHECK(motet_reduction_init(&reduction, motetFloat32, motetSum, 2) == motetInvalidArgument);
    CHILD_CHECK(strstr(motet_error_text(), "MOTET_ISA=sse9") != NULL);
    CHILD_CHECK(strstr(motet_error_text(), "avx2") != NULL);
}

static void check_is_second(void)
{
    CHILD_CHECK(motet_kernel_set_chosen() == motet_kernel_set(1));
}

static void test_reduce_isa_unset_is_the_fastest(void **state)
{
    (void)state;
    run_with_isa(NULL, check_is_fastest);
    run_with_isa("", check_is_fastest);
}

static void test_reduce_isa_base_is_kept(void **state)
{
    (void)state;
    run_with_isa("base", check_is_base);
}

static void test_reduce_isa_above_base_caps(void **state)
{
    (void)state;
    if (!motet_kernel_set(1))
        skip();
    run_with_isa(motet_kernel_set(1)->name, check_is_second);
}

static void test_reduce_isa_out_of_reach_is_the_fastest(void **state)
{
    (void)state;
#if defined(__x86_64__)
    run_with_isa("neon", check_is_fastest);
    run_with_isa("avx512", check_is_fastest);
#else
    run_with_isa("avx512", check_is_fastest);
#endif
}

static void test_reduce_isa_nonsense_is_refused(void **state)
{
    (void)state;
    run_with_isa("sse9", check_is_refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce_isa_unset_is_the_fastest), cmocka_unit_test(test_reduce_isa_base_is_kept),
        cmocka_unit_test(test_reduce_isa_above_base_caps),      cmocka_unit_test(test_reduce_isa_out_of_reach_is_the_fastest),
        cmocka_unit_test(test_reduce_isa_nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("reduce_isa", tests, NULL, NULL);
}
