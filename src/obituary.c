/* SPDX-License-Identifier: Apache-2.0
 * Deaths explained. The launcher's table is a memfd of lines "host<TAB>pid<TAB>cause", appended to by motet run and its agents and read here
 * by offset; nothing else is shared with the launcher, and what makes no sense is passed over. */
#include "obituary.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/descriptor.h"
#include "base/settings.h"

#define TABLE_NAME "/memfd:motet-deaths" /* as /proc shows the launcher's table */
#define LINE_BYTES 512

/* The kernel's struct pidfd_info, first version, and the request that fills it (Linux 6.15 tells the exit status to anybody). */
struct exit_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define EXIT_INFO_REQUEST _IOWR(0xff, 11, struct exit_info)
#define EXIT_INFO_EXIT    (1ull << 3)

static int64_t kills_at_start = -1;

void motet_obituary_open(void)
{
    int64_t limit;
    kills_at_start = motet_cgroup_oom_kills("", &limit);
}

/* ---- the kernel ---- */

/* Number after "key" at the start of a line of a small file; false if there is none. */
static bool read_field(const char *path, const char *key, long *value)
{
    char line[LINE_BYTES];
    bool found = false;
    size_t len = strlen(key);
    FILE *file = motet_descriptor_read(path);
    while (file && !found && fgets(line, sizeof(line), file))
        if (strncmp(line, key, len) == 0) {
            *value = strtol(line + len, NULL, 10);
            found = true;
        }
    if (file)
        fclose(file);
    return found;
}

/* A zombie that its parent has not reaped yet shows its status as the last number of /proc/PID/stat. The pid that the pidfd names here
 * cannot be another's before it is reaped. */
static bool zombie_status(int pidfd, int *status)
{
    char path[64], line[2 * LINE_BYTES] = "";
    long pid = 0;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    if (!read_field(path, "Pid:", &pid) || pid <= 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = motet_descriptor_read(path);
    bool read = file && fgets(line, sizeof(line), file);
    if (file)
        fclose(file);
    char *state = read ? strrchr(line, ')') : NULL, *last = read ? strrchr(line, ' ') : NULL;
    if (!state || !last || state[1] != ' ' || state[2] != 'Z')
        return false;
    *status = atoi(last + 1);
    return true;
}

static bool exit_status(int pidfd, int *status)
{
    struct exit_info info = {.mask = EXIT_INFO_EXIT};
    _Static_assert(sizeof(info) == 64, "as the kernel's");
    if (pidfd < 0)
        return false;
    if (ioctl(pidfd, EXIT_INFO_REQUEST, &info) == 0 && (info.mask & EXIT_INFO_EXIT)) {
        *status = info.exit_code;
        return true;
    }
    return zombie_status(pidfd, status);
}

/* In the words of the launcher (tools/death.c), so that a cause reads the same whoever told it. */
static void describe(int status, struct motet_obituary *obituary)
{
    int64_t limit;
    obituary->orderly = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!WIFSIGNALED(status)) {
        snprintf(obituary->text, sizeof(obituary->text), "exited with code %d", WEXITSTATUS(status));
        return;
    }
    int number = WTERMSIG(status);
    const char *name = sigabbrev_np(number);
    int used = name ? snprintf(obituary->text, sizeof(obituary->text), "killed by SIG%s", name)
                    : snprintf(obituary->text, sizeof(obituary->text), "killed by signal %d", number);
    /* The group is this process's: ranks of one host share it unless a wrapper moved them. */
    if (number != SIGKILL || kills_at_start < 0 || motet_cgroup_oom_kills("", &limit) <= kills_at_start)
        return;
    if (limit > 0)
        snprintf(obituary->text + used, sizeof(obituary->text) - (size_t)used,
                 ": out of memory, the limit of its control group is %lld MB", (long long)(limit >> 20));
    else
        snprintf(obituary->text + used, sizeof(obituary->text) - (size_t)used, ": out of memory, the OOM killer was at work");
}

/* ---- the launcher ---- */

/* The table's descriptor, -1 if there is none. A program may have closed what it inherited, and something else may be there now. */
static int table(void)
{
    char path[64], name[sizeof(TABLE_NAME) + 16] = "";
    int fd = (int)motet_setting_int(MOTET_SET_DEATHS_FD);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, name, sizeof(name) - 1);
    return len > 0 && strncmp(name, TABLE_NAME, strlen(TABLE_NAME)) == 0 ? fd : -1;
}

bool motet_obituary_has_launcher(void)
{
    return table() >= 0;
}

/* One line of the table: whether it is about the process. */
static bool is_about(const char *line, const struct motet_process *process, struct motet_obituary *obituary)
{
    char host[64];
    int pid, at = 0;
    if (sscanf(line, "%63[^\t]\t%d\t%n", host, &pid, &at) != 2 || at == 0 || pid != process->pid)
        return false;
    host[strcspn(host, ".")] = '\0'; /* as processes describe themselves */
    if (strcmp(host, process->host_name) != 0)
        return false;
    snprintf(obituary->text, sizeof(obituary->text), "%s", line + at);
    obituary->orderly = strcmp(obituary->text, "exited with code 0") == 0;
    return true;
}

static bool launcher_knows(const struct motet_process *process, struct motet_obituary *obituary)
{
    char lines[LINE_BYTES];
    off_t at = 0;
    int fd = table();
    for (;;) {
        ssize_t n = fd < 0 ? 0 : pread(fd, lines, sizeof(lines) - 1, at);
        if (n <= 0)
            return false;
        lines[n] = '\0';
        char *end = strchr(lines, '\n');
        if (!end)
            return false;
        *end = '\0';
        if (is_about(lines, process, obituary))
            return true;
        at += end - lines + 1;
    }
}

bool motet_obituary_find(const struct motet_process *process, int pidfd, struct motet_obituary *obituary)
{
    int status;
    *obituary = (struct motet_obituary){0};
    /* The launcher first: it knows of a group of the rank's own. What the kernel says is there no later. */
    if (launcher_knows(process, obituary))
        return true;
    if (!exit_status(pidfd, &status))
        return false;
    describe(status, obituary);
    return true;
}
