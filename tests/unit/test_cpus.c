/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "base/cpus.h"
#include "child.h"

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHILD_CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

static void stay_on_one_cpu(void)
{
    int cpu = sched_getcpu();
    bind_to(cpu);
    struct motet_cpus cpus = motet_cpus_allowed();
    CHILD_CHECK(motet_cpus_count(&cpus) == 1);
    CHILD_CHECK(cpus.words[cpu / 64] == 1ull << cpu % 64);
}

static void test_cpus_follow_the_affinity_mask(void **state)
{
    (void)state;
    struct child child = {0};
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    struct motet_cpus cpus = motet_cpus_allowed();
    assert_int_equal(motet_cpus_count(&cpus), CPU_COUNT(&set));
    child_run(&child, NULL, stay_on_one_cpu);
    assert_int_equal(child.status, 0);
}

static void *bound_thread(void *count)
{
    bind_to(sched_getcpu());
    struct motet_cpus cpus = motet_cpus_allowed();
    *(int *)count = motet_cpus_count(&cpus);
    return NULL;
}

static void test_cpus_of_a_bound_thread_are_those_of_its_process(void **state)
{
    (void)state;
    pthread_t thread;
    cpu_set_t set;
    int count = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(pthread_create(&thread, NULL, bound_thread, &count), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count, CPU_COUNT(&set));
}

static void test_cpus_united_count_each_cpu_once(void **state)
{
    (void)state;
    struct motet_cpus a = {{0}}, b = {{0}};
    a.words[0] = 0x5;
    a.words[15] = 1ull << 63;
    b.words[0] = 0x6;
    b.words[7] = 0xff;
    motet_cpus_unite(&a, &b);
    assert_int_equal(motet_cpus_count(&a), 3 + 8 + 1);
    assert_int_equal(motet_cpus_count(&b), 2 + 8);
    assert_true(a.words[0] == 0x7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpus_follow_the_affinity_mask),
        cmocka_unit_test(test_cpus_of_a_bound_thread_are_those_of_its_process),
        cmocka_unit_test(test_cpus_united_count_each_cpu_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
