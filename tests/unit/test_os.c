/* SPDX-License-Identifier: Apache-2.0
 * base/os and base/cgroup: clocks, identity, CPUs, shared memory. Quotas are read from made-up system trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cgroup.h"
#include "base/error.h"
#include "base/os.h"
#include "child.h"

static struct child child;
static char folder[] = "/tmp/motet-test-os-XXXXXX";

static void test_deadline_counts_from_now(void **state)
{
    (void)state;
    uint64_t before = motet_now_ns(), deadline = motet_deadline_ns(1500), after = motet_now_ns();
    assert_true(deadline >= before + 1500000000u && deadline <= after + 1500000000u);
    assert_true(after >= before);
}

static void test_deadline_zero_negative_or_huge_is_never(void **state)
{
    (void)state;
    assert_true(motet_deadline_ns(0) == UINT64_MAX);
    assert_true(motet_deadline_ns(-1) == UINT64_MAX);
    assert_true(motet_deadline_ns(INT64_MAX) == UINT64_MAX);
    assert_true(motet_deadline_ns(2147483647000) < UINT64_MAX);
}

static void test_random_fills_all_and_differs(void **state)
{
    (void)state;
    static uint8_t a[5000], b[5000];
    int zeros = 0;
    assert_int_equal(motet_random(a, sizeof(a)), motetSuccess);
    assert_int_equal(motet_random(b, sizeof(b)), motetSuccess);
    assert_memory_not_equal(a, b, sizeof(a));
    for (size_t i = 0; i < sizeof(a); i++)
        zeros += a[i] == 0;
    assert_true(zeros < 100); /* 20 expected; 100 is 18 standard deviations away */
}

static void print_host(void)
{
    fprintf(stderr, "%llx %s", (unsigned long long)motet_host_id(), motet_host_name());
}

static void test_host_id_is_the_same_in_every_process_and_follows_the_setting(void **state)
{
    (void)state;
    const char *environments[][2] = {
        {NULL, NULL}, {NULL, NULL}, {"MOTET_HOSTID=a", NULL}, {"MOTET_HOSTID=a", NULL}, {"MOTET_HOSTID=b", NULL}};
    unsigned long long ids[5];
    for (size_t i = 0; i < 5; i++) {
        child_run(&child, environments[i], print_host);
        assert_int_equal(child.status, 0);
        assert_int_equal(sscanf(child.output, "%llx", &ids[i]), 1);
    }
    assert_true(ids[0] == ids[1] && ids[2] == ids[3]);
    assert_true(ids[0] != ids[2] && ids[2] != ids[4]);
}

static void test_host_name_has_no_domain(void **state)
{
    (void)state;
    char name[256];
    assert_int_equal(gethostname(name, sizeof(name)), 0);
    name[strcspn(name, ".")] = '\0';
    assert_string_equal(motet_host_name(), name);
    assert_ptr_equal(motet_host_name(), motet_host_name());
}

static void test_thread_id_is_the_kernels(void **state)
{
    (void)state;
    assert_int_equal(motet_thread_id(), syscall(SYS_gettid));
}

static void test_memfd_is_sized_sparse_and_cannot_shrink(void **state)
{
    (void)state;
    struct stat file;
    int fd = -1;
    size_t len = (size_t)1 << 36;
    assert_int_equal(motet_memfd("motet-test", len, &fd), motetSuccess);
    assert_int_equal(fstat(fd, &file), 0);
    assert_true((size_t)file.st_size == len);
    assert_int_equal(file.st_blocks, 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    uint8_t *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(len - 4096));
    assert_ptr_not_equal(map, MAP_FAILED);
    map[4095] = 1;
    munmap(map, 4096);
    close(fd);
}

static void exceed_file_size(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    int fd = -1;
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(motet_memfd("small", 1 << 20, &fd) == motetSuccess && close(fd) == 0);
    CHILD_CHECK(motet_memfd("large", (1 << 20) + 1, &fd) == motetSystemError);
    CHILD_CHECK(strstr(motet_error_text(), "ulimit -f") && strstr(motet_error_text(), "1048577"));
}

static void test_memfd_beyond_the_file_size_limit_is_an_error_not_a_signal(void **state)
{
    (void)state;
    child_run(&child, NULL, exceed_file_size);
    assert_int_equal(child.status, 0);
}

static void exhaust_descriptors(void)
{
    struct rlimit limit = {3, 3};
    int fd = -1;
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHILD_CHECK(motet_memfd("none", 4096, &fd) == motetSystemError && fd == -1);
    CHILD_CHECK(strstr(motet_error_text(), "Too many open files"));
}

static void test_memfd_without_descriptors_says_why(void **state)
{
    (void)state;
    child_run(&child, NULL, exhaust_descriptors);
    assert_int_equal(child.status, 0);
}

/* Writes one file of a made-up system tree, with the folders above it. */
static void plant(const char *tree, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof(full), "%s/%s%s", folder, tree, path);
    for (char *slash = full + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int limit_of(const char *tree)
{
    char root[256];
    snprintf(root, sizeof(root), "%s/%s", folder, tree);
    return motet_cgroup_cpu_limit(root);
}

static int64_t kills_of(const char *tree, int64_t *limit)
{
    char root[256];
    snprintf(root, sizeof(root), "%s/%s", folder, tree);
    return motet_cgroup_oom_kills(root, limit);
}

#define V2_MOUNT(root) "30 20 0:26 " root " /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
#define V1_MOUNT(root) \
    "25 20 0:1 / /proc rw - proc proc rw\n31 20 0:27 " root " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

static void test_cgroup_v2_takes_the_smallest_quota_of_the_groups_above(void **state)
{
    (void)state;
    plant("v2", "/proc/self/cgroup", "0::/job/task\n");
    plant("v2", "/proc/self/mountinfo", V2_MOUNT("/"));
    assert_int_equal(limit_of("v2"), 0);
    plant("v2", "/sys/fs/cgroup/job/task/cpu.max", "max 100000\n");
    assert_int_equal(limit_of("v2"), 0);
    plant("v2", "/sys/fs/cgroup/job/cpu.max", "350000 100000\n");
    assert_int_equal(limit_of("v2"), 4);
    plant("v2", "/sys/fs/cgroup/job/task/cpu.max", "50000 100000\n");
    assert_int_equal(limit_of("v2"), 1);
    plant("v2", "/sys/fs/cgroup/job/task/cpu.max", "200000 100000\n");
    assert_int_equal(limit_of("v2"), 2);
}

static void test_cgroup_v2_inside_a_container_reads_the_top_of_its_mount(void **state)
{
    (void)state;
    plant("box", "/proc/self/cgroup", "0::/docker/abc\n");
    plant("box", "/proc/self/mountinfo", V2_MOUNT("/docker/abc"));
    plant("box", "/sys/fs/cgroup/cpu.max", "300000 100000\n");
    assert_int_equal(limit_of("box"), 3);
    plant("box", "/proc/self/cgroup", "0::/../other\n"); /* as seen from a group namespace that we are outside of */
    plant("box", "/proc/self/mountinfo", V2_MOUNT("/"));
    assert_int_equal(limit_of("box"), 3);
}

static void test_cgroup_v1_reads_quota_and_period(void **state)
{
    (void)state;
    plant("v1", "/proc/self/cgroup", "7:cpuset:/job\n4:cpuacct,cpu:/job\n0::/\n");
    plant("v1", "/proc/self/mountinfo", V1_MOUNT("/"));
    plant("v1", "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    plant("v1", "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(limit_of("v1"), 0);
    plant("v1", "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(limit_of("v1"), 3);
    plant("v1", "/proc/self/mountinfo", V1_MOUNT("/elsewhere")); /* our group is not visible: only the mount's top counts */
    assert_int_equal(limit_of("v1"), 0);
}

static void test_cgroup_nonsense_is_no_limit(void **state)
{
    (void)state;
    assert_int_equal(limit_of("absent"), 0);
    plant("odd", "/proc/self/cgroup", "nonsense\n\n1:cpu\n0::/a\n");
    plant("odd", "/proc/self/mountinfo", "short\n - cgroup2\n" V2_MOUNT("/"));
    plant("odd", "/sys/fs/cgroup/a/cpu.max", "1000\n");
    assert_int_equal(limit_of("odd"), 0);
    plant("odd", "/sys/fs/cgroup/a/cpu.max", "100000 0\n");
    assert_int_equal(limit_of("odd"), 0);
    plant("odd", "/sys/fs/cgroup/a/cpu.max", "9223372036854775807 1\n");
    assert_int_equal(limit_of("odd"), INT32_MAX);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static void test_cgroup_counts_the_kills_for_want_of_memory(void **state)
{
    int64_t limit;
    (void)state;
    plant("oom2", "/proc/self/cgroup", "0::/job\n");
    plant("oom2", "/proc/self/mountinfo", V2_MOUNT("/"));
    assert_int_equal(kills_of("oom2", &limit), -1);
    plant("oom2", "/sys/fs/cgroup/job/memory.events", "low 0\nhigh 4\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n");
    plant("oom2", "/sys/fs/cgroup/job/memory.max", "max\n");
    assert_int_equal(kills_of("oom2", &limit), 2);
    assert_int_equal(limit, 0);
    plant("oom1", "/proc/self/cgroup", "9:memory:/job\n5:cpu,cpuacct:/other\n");
    plant("oom1", "/proc/self/mountinfo", "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    plant("oom1", "/sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    plant("oom1", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "67108864\n");
    assert_int_equal(kills_of("oom1", &limit), 5);
    assert_int_equal(limit, 67108864);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadline_counts_from_now),
        cmocka_unit_test(test_deadline_zero_negative_or_huge_is_never),
        cmocka_unit_test(test_random_fills_all_and_differs),
        cmocka_unit_test(test_host_id_is_the_same_in_every_process_and_follows_the_setting),
        cmocka_unit_test(test_host_name_has_no_domain),
        cmocka_unit_test(test_thread_id_is_the_kernels),
        cmocka_unit_test(test_memfd_is_sized_sparse_and_cannot_shrink),
        cmocka_unit_test(test_memfd_beyond_the_file_size_limit_is_an_error_not_a_signal),
        cmocka_unit_test(test_memfd_without_descriptors_says_why),
        cmocka_unit_test(test_cgroup_counts_the_kills_for_want_of_memory),
        cmocka_unit_test(test_cgroup_v2_takes_the_smallest_quota_of_the_groups_above),
        cmocka_unit_test(test_cgroup_v2_inside_a_container_reads_the_top_of_its_mount),
        cmocka_unit_test(test_cgroup_v1_reads_quota_and_period),
        cmocka_unit_test(test_cgroup_nonsense_is_no_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
