/* SPDX-License-Identifier: Apache-2.0
 * What the kernel tells of a process that ended: the right cause, or none, with and without the capability to look at others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "obituary.h"

static const struct {
    int signal_number, code;
    const char *text;
} ends[] = {{0, 0, "exited with code 0"},
            {0, 3, "exited with code 3"},
            {SIGKILL, 0, "killed by SIGKILL"},
            {SIGTERM, 0, "killed by SIGTERM"}};

#define NENDS (sizeof ends / sizeof *ends)

static void forget_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capset, &header, none) != 0)
        _exit(4);
}

/* In a process of its own. 0: nothing wrong was told; 1: a wrong cause; 2: none though the process was reaped and the kernel can. */
static int look(size_t end, bool reaped, bool hidden)
{
    const struct motet_process nobody = {.host_name = "", .pid = -1};
    struct motet_obituary obituary;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_DUMPABLE, hidden ? 0 : 1);
        if (ends[end].signal_number == 0)
            _exit(ends[end].code);
        for (;;)
            kill(getpid(), ends[end].signal_number);
    }
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    siginfo_t info;
    if (pidfd < 0 || waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0)
        return 3;
    if (reaped)
        waitpid(child, NULL, 0);
    bool found = motet_obituary_find(&nobody, pidfd, &obituary);
    if (!reaped)
        waitpid(child, NULL, 0);
    close(pidfd);
    if (!found)
        return reaped ? 0 : 2;
    return strncmp(obituary.text, ends[end].text, strlen(ends[end].text)) != 0 ||
           obituary.orderly != (ends[end].signal_number == 0 && ends[end].code == 0);
}

static int run(size_t end, bool reaped, bool with_capabilities)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (!with_capabilities)
            forget_capabilities();
        motet_obituary_open();
        _exit(look(end, reaped, !with_capabilities));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_obituary_of_a_zombie_is_right(void **state)
{
    (void)state;
    for (size_t end = 0; end < NENDS; end++)
        assert_int_equal(run(end, false, true), 0);
}

/* To it the kernel shows 0 for every status of a process that may not be looked at. */
static void test_obituary_without_capabilities_is_right_or_missing(void **state)
{
    (void)state;
    for (size_t end = 0; end < NENDS; end++) {
        int result = run(end, false, false);
        assert_true(result == 0 || result == 2);
    }
}

static void test_obituary_of_a_reaped_process_is_right_or_missing(void **state)
{
    (void)state;
    for (size_t end = 0; end < NENDS; end++)
        for (int with = 0; with < 2; with++)
            assert_int_equal(run(end, true, with), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_obituary_of_a_zombie_is_right),
        cmocka_unit_test(test_obituary_without_capabilities_is_right_or_missing),
        cmocka_unit_test(test_obituary_of_a_reaped_process_is_right_or_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
