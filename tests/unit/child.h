/* SPDX-License-Identifier: Apache-2.0
 * Runs a function in a child process and keeps what it wrote to stderr: for code that reads the environment once, logs or forks. */
#ifndef MOTET_TESTS_UNIT_CHILD_H
#define MOTET_TESTS_UNIT_CHILD_H

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_OUTPUT_MAX (256 * 1024)
#define CHILD_DEADLINE_S 60

/* TSan's runtime may deadlock by itself in a child of a process with several threads. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_UNDER_TSAN 1
#endif
#endif
#ifndef CHILD_UNDER_TSAN
#define CHILD_UNDER_TSAN 0
#endif

/* Status as waitpid gave it; a child that returned from its body has status 0, one whose check failed exit code 1. */
struct child {
    int status;
    size_t len;
    char output[CHILD_OUTPUT_MAX];
};

/* For use inside a body: cmocka's own asserts jump to the parent's stack. */
#define CHILD_CHECK(condition)                                                            \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                                     \
        }                                                                                 \
    } while (0)

/* Reads until every writer is gone. After the deadline the child's whole group is killed, grandchildren included. */
static void child_listen(struct child *child, pid_t pid, int fd)
{
    time_t deadline = time(NULL) + CHILD_DEADLINE_S;
    for (;;) {
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (poll(&readable, 1, 1000) == 0) {
            if (time(NULL) > deadline)
                kill(-pid, SIGKILL);
            continue;
        }
        ssize_t got = read(fd, child->output + child->len, sizeof(child->output) - 1 - child->len);
        if (got <= 0)
            return;
        child->len += (size_t)got;
    }
}

/* environment: "NAME=value" strings, NULL-terminated; every other MOTET_ variable is removed first. */
static void child_run(struct child *child, const char *const *environment, void (*body)(void))
{
    int ends[2];
    memset(child, 0, sizeof(*child));
    if (pipe(ends) != 0)
        abort();
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0) {
        setpgid(0, 0);
        for (char **entry = environ; *entry;) {
            char name[256];
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(*entry, "="), *entry);
            if (strncmp(name, "MOTET_", 6) == 0)
                unsetenv(name); /* moves the following entries up */
            else
                entry++;
        }
        for (; environment && *environment; environment++)
            putenv((char *)(size_t)*environment);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    child_listen(child, pid, ends[0]);
    close(ends[0]);
    if (waitpid(pid, &child->status, 0) != pid)
        abort();
    if (child->status != 0)
        fprintf(stderr, "child ended with status 0x%x and wrote:\n%s\n", (unsigned)child->status, child->output);
}

/* How often `needle` occurs in what the child wrote. */
static inline int child_count(const struct child *child, const char *needle)
{
    int count = 0;
    for (const char *at = child->output; (at = strstr(at, needle)) != NULL; at += strlen(needle))
        count++;
    return count;
}

#endif
