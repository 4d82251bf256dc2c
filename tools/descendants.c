/* SPDX-License-Identifier: Apache-2.0 */
#include "descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

struct process {
    pid_t pid, parent;
    bool zombie, mine;
};

/* Reads parent and state of one process; the name in parentheses may hold anything, so parsing starts behind the last one. */
static bool read_process(pid_t pid, struct process *process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *close_paren = strrchr(text, ')');
    char state;
    int parent;
    if (!close_paren || sscanf(close_paren + 1, " %c %d", &state, &parent) != 2)
        return false;
    *process = (struct process){.pid = pid, .parent = parent, .zombie = state == 'Z' || state == 'X'};
    return true;
}

static struct process *read_all(int *n)
{
    DIR *dir = opendir("/proc");
    struct process *all = NULL;
    int capacity = 0;
    *n = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (*n == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            struct process *larger = realloc(all, (size_t)capacity * sizeof *all);
            if (!larger)
                break;
            all = larger;
        }
        if (read_process((pid_t)atoi(entry->d_name), &all[*n]))
            ++*n;
    }
    if (dir)
        closedir(dir);
    return all;
}

/* Marks descendants of `root`; returns whether any was newly marked. */
static bool mark(struct process *all, int n, pid_t root)
{
    bool changed = false;
    for (int i = 0; i < n; i++) {
        if (all[i].mine)
            continue;
        bool mine = all[i].parent == root;
        for (int j = 0; !mine && j < n; j++)
            mine = all[j].mine && all[j].pid == all[i].parent;
        all[i].mine = mine;
        changed |= mine;
    }
    return changed;
}

int descendants_signal(int signal_number, pid_t spare)
{
    int n, count = 0;
    struct process *all = read_all(&n);
    while (mark(all, n, getpid()))
        ;
    for (int i = 0; i < n; i++) {
        if (!all[i].mine || all[i].zombie || all[i].pid == spare)
            continue;
        count++;
        if (signal_number)
            kill(all[i].pid, signal_number);
        /* A stopped process acts on SIGTERM only when it runs again. */
        if (signal_number == SIGTERM)
            kill(all[i].pid, SIGCONT);
    }
    free(all);
    return count;
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

void descendants_end(int grace_ms)
{
    const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    int64_t deadline = loop_now_ms() + grace_ms;
    reap_all();
    if (!descendants_signal(grace_ms > 0 ? SIGTERM : SIGKILL, 0)) {
        reap_all();
        return;
    }
    while (loop_now_ms() < deadline && descendants_signal(0, 0)) {
        nanosleep(&pause, NULL);
        reap_all();
    }
    /* A process in an uninterruptible wait does not die at once: not for ever. */
    for (int i = 0; i < 400 && descendants_signal(SIGKILL, 0); i++) {
        nanosleep(&pause, NULL);
        reap_all();
    }
    reap_all();
}
