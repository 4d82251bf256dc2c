/* SPDX-License-Identifier: Apache-2.0
 * Network namespaces that stand for hosts: each is held by a process of the test, and gone with it. */
#ifndef MOTET_TESTS_FAULTS_NAMESPACE_H
#define MOTET_TESTS_FAULTS_NAMESPACE_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static inline int namespace_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int namespace_shell(const char *format, ...)
{
    char command[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

/* The process that holds a new one; -1: not allowed here. */
static inline pid_t namespace_hold(void)
{
    int pipes[2];
    char byte;
    if (pipe(pipes) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) != 0 || write(pipes[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    bool ready = pid > 0 && read(pipes[0], &byte, 1) == 1;
    close(pipes[0]);
    if (!ready && pid > 0)
        waitpid(pid, NULL, 0);
    return ready ? pid : -1;
}

/* Moves this process there. */
static inline bool namespace_enter(pid_t holder)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)holder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    close(fd);
    return entered;
}

/* Not positive: there is none. */
static inline void namespace_release(pid_t holder)
{
    if (holder > 0) {
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
    }
}

#endif
