/* SPDX-License-Identifier: Apache-2.0
 * Deaths explained: by the launcher's table, which knows of all hosts, or by the kernel, as long as it knows. */
#include "obituary.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/deaths.h"
#include "base/descriptor.h"

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

/* Whether the kernel shows this process the status of that zombie. It shows 0 instead, whatever it was, without the right to look at it: a
 * process that wants no core file is hidden from all that lack CAP_SYS_PTRACE. Whoever has the right sees that its program is gone. */
static bool may_read_status(long pid)
{
    char path[64], name[4];
    snprintf(path, sizeof(path), "/proc/%ld/exe", pid);
    return readlink(path, name, sizeof(name)) < 0 && errno == ENOENT;
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
    return *status != 0 || may_read_status(pid);
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

bool motet_obituary_has_launcher(void)
{
    return motet_deaths_are_told();
}

static bool launcher_knows(const struct motet_process *process, struct motet_obituary *obituary)
{
    struct motet_death death;
    for (off_t at = 0; motet_deaths_next(&at, &death);) {
        if (death.pid != process->pid || strcmp(death.host, process->host_name) != 0)
            continue;
        snprintf(obituary->text, sizeof(obituary->text), "%.*s", (int)sizeof(obituary->text) - 1, death.cause);
        obituary->orderly = strcmp(death.cause, "exited with code 0") == 0;
        return true;
    }
    return false;
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
