/* SPDX-License-Identifier: Apache-2.0 */
#include "death.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

const char *death_signal_name(int signal_number)
{
    static char text[32];
    const char *name = sigabbrev_np(signal_number);
    if (name)
        snprintf(text, sizeof text, "SIG%s", name);
    else
        snprintf(text, sizeof text, "signal %d", signal_number);
    return text;
}

/* Value of "key value" in a file; with key NULL the first number of the file. -1: not there. */
static int64_t read_counter(const char *path, const char *key)
{
    char line[128];
    int64_t value = -1;
    FILE *file = fopen(path, "re");
    size_t len = key ? strlen(key) : 0;
    while (file && fgets(line, sizeof line, file)) {
        if (key && (strncmp(line, key, len) || line[len] != ' '))
            continue;
        char *number = line + len + (key ? 1 : 0);
        number[strcspn(number, "\n")] = '\0';
        if (!options_parse_int(number, &value))
            value = -1;
        break;
    }
    if (file)
        fclose(file);
    return value;
}

/* Directory of a process's memory control group, versions 1 and 2; "" when it cannot be told. */
static void memory_group(pid_t pid, char *directory, size_t size)
{
    char path[64], line[512];
    directory[0] = '\0';
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (strstr(controllers + 1, "memory"))
            snprintf(directory, size, "/sys/fs/cgroup/memory%s", group);
        else if (!controllers[1] && !directory[0])
            snprintf(directory, size, "/sys/fs/cgroup%s", group);
    }
    if (file)
        fclose(file);
}

static int64_t group_value(const char *directory, const char *file, const char *key)
{
    char path[768];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    return read_counter(path, key);
}

static int64_t group_kills(const char *directory)
{
    int64_t kills = group_value(directory, "memory.events", "oom_kill");
    return kills >= 0 ? kills : group_value(directory, "memory.oom_control", "oom_kill");
}

static int64_t group_limit(const char *directory)
{
    int64_t limit = group_value(directory, "memory.max", NULL);
    return limit >= 0 ? limit : group_value(directory, "memory.limit_in_bytes", NULL);
}

void oom_baseline_read(struct oom_baseline *baseline)
{
    memory_group(getpid(), baseline->group, sizeof baseline->group);
    baseline->kills = baseline->group[0] ? group_kills(baseline->group) : -1;
    baseline->system_kills = read_counter("/proc/vmstat", "oom_kill");
}

/* Adds to the cause that the kernel killed for want of memory, if the counter of this group has grown; false otherwise. */
static bool blame_group(struct death *death, const char *group, int64_t before)
{
    size_t used = strlen(death->cause);
    int64_t kills = group[0] ? group_kills(group) : -1;
    int64_t limit = group[0] ? group_limit(group) : -1;
    if (kills <= (before > 0 ? before : 0))
        return false;
    if (limit > 0 && limit < INT64_MAX / 2)
        snprintf(death->cause + used, sizeof death->cause - used,
                 ": out of memory, the limit of its control group is %lld MB (oom_kill %lld)", (long long)(limit >> 20),
                 (long long)kills);
    else
        snprintf(death->cause + used, sizeof death->cause - used, ": out of memory (oom_kill %lld in its control group)",
                 (long long)kills);
    return true;
}

/* A rank is in the launcher's group unless a wrapper moved it; the groups of version 1 forget the dead, so both are asked. */
static void describe_oom(struct death *death, pid_t pid, const struct oom_baseline *baseline)
{
    char group[512];
    size_t used = strlen(death->cause);
    memory_group(pid, group, sizeof group);
    if (blame_group(death, baseline->group, baseline->kills) || (strcmp(group, baseline->group) && blame_group(death, group, 0)))
        return;
    if (baseline->system_kills >= 0 && read_counter("/proc/vmstat", "oom_kill") > baseline->system_kills)
        snprintf(death->cause + used, sizeof death->cause - used,
                 ": the OOM killer was active on this host (a memory limit, or the host's memory)");
}

void death_describe(struct death *death, pid_t pid, int status, const struct oom_baseline *baseline)
{
    death->pid = pid;
    death->signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    death->exit_code = death->signal_number ? 128 + death->signal_number : WEXITSTATUS(status);
    if (!death->signal_number) {
        snprintf(death->cause, sizeof death->cause, "exited with code %d", death->exit_code);
        return;
    }
    snprintf(death->cause, sizeof death->cause, "was killed by %s%s", death_signal_name(death->signal_number),
             WCOREDUMP(status) ? " (core dumped)" : "");
    if (death->signal_number == SIGKILL)
        describe_oom(death, pid, baseline);
}
