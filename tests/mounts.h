/* SPDX-License-Identifier: Apache-2.0
 * Mounts of the calling process's own, for tests of full and tiny file systems. Containers and chroots often forbid them: such tests are
 * skipped there. */
#ifndef MOTET_TESTS_MOUNTS_H
#define MOTET_TESTS_MOUNTS_H

#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is mounted from here on is seen by this process and its children alone. Needs _GNU_SOURCE. */
static inline bool mounts_unshare(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Hides what `folder` holds under an empty file system of that size, "64k". After mounts_unshare. */
static inline bool mounts_cover(const char *folder, const char *size)
{
    char options[32] = "size=";
    for (int i = 5; i < 31 && *size; i++)
        options[i] = *size++;
    return mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}

/* Whether a child could do both. */
static inline bool mounts_allowed(void)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(mounts_unshare() && mounts_cover("/tmp", "64k") ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

#endif
