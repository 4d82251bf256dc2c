/* SPDX-License-Identifier: Apache-2.0
 * CPU quotas and OOM kills of control groups. A container may see only a part of the hierarchy, or all of it under a path that does not
 * exist inside: the path of the group is therefore taken relative to what is mounted, and groups that cannot be seen are skipped. */
#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"

/* A hierarchy that has a controller: where it is mounted, which of its groups the mount shows, which group is ours. */
struct hierarchy {
    const char *controller; /* "cpu", "memory" */
    bool is_v2;
    char mount[PATH_MAX], mounted_group[PATH_MAX], group[PATH_MAX];
};

static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += len)
        if ((at == list || at[-1] == ',') && (at[len] == '\0' || at[len] == ',' || at[len] == '\n'))
            return true;
    return false;
}

/* Our group in /proc/self/cgroup: "ID:CONTROLLERS:GROUP", where version 2 has ID 0 and no controllers. */
static bool find_group(const char *root, struct hierarchy *hierarchy)
{
    char path[PATH_MAX], line[PATH_MAX + 256];
    bool found = false;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = motet_descriptor_read(path);
    while (file && !found && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        found = hierarchy->is_v2 ? controllers[0] == '\0' : list_has(controllers, hierarchy->controller);
        group[strcspn(group, "\n")] = '\0';
        if (found)
            snprintf(hierarchy->group, sizeof(hierarchy->group), "%s", group);
    }
    if (file)
        fclose(file);
    return found;
}

/* The mount in /proc/self/mountinfo: "id parent dev ROOT MOUNT options [fields] - TYPE source SUPEROPTIONS". */
static bool find_mount(const char *root, struct hierarchy *hierarchy)
{
    char path[PATH_MAX], line[3 * PATH_MAX];
    bool found = false;
    snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
    FILE *file = motet_descriptor_read(path);
    while (file && !found && fgets(line, sizeof(line), file)) {
        char type[64], options[1024] = "";
        char *tail = strstr(line, " - ");
        if (!tail || sscanf(tail, " - %63s %*s %1023s", type, options) < 1)
            continue;
        if (hierarchy->is_v2 ? strcmp(type, "cgroup2") != 0
                             : strcmp(type, "cgroup") != 0 || !list_has(options, hierarchy->controller))
            continue;
        *tail = '\0';
        found = sscanf(line, "%*s %*s %*s %4095s %4095s", hierarchy->mounted_group, hierarchy->mount) == 2;
    }
    if (file)
        fclose(file);
    return found;
}

/* quota / period rounded up; 0 when the text says "max", -1 or nonsense. */
static int whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long cpus = quota / period + (quota % period != 0);
    return cpus > INT_MAX ? INT_MAX : (int)cpus;
}

/* The quota of one group, in CPUs; 0 = none or not visible. */
static int group_limit(bool is_v2, const char *folder)
{
    char path[PATH_MAX + 32], line[128];
    long long quota, period;
    if (is_v2) {
        snprintf(path, sizeof(path), "%s/cpu.max", folder);
        if (!motet_descriptor_read_line(path, line, sizeof(line)) || sscanf(line, "%lld %lld", &quota, &period) != 2)
            return 0;
        return whole_cpus(quota, period);
    }
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    if (!motet_descriptor_read_line(path, line, sizeof(line)) || sscanf(line, "%lld", &quota) != 1)
        return 0;
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    if (!motet_descriptor_read_line(path, line, sizeof(line)) || sscanf(line, "%lld", &period) != 1)
        return 0;
    return whole_cpus(quota, period);
}

/* Where our group can be seen. Returns the length of the mount's own path in it, 0 when the path is too long. */
static size_t group_folder(const char *root, const struct hierarchy *hierarchy, char folder[PATH_MAX])
{
    size_t hidden = strcmp(hierarchy->mounted_group, "/") == 0 ? 0 : strlen(hierarchy->mounted_group);
    const char *group = hierarchy->group;
    if (hidden && strncmp(group, hierarchy->mounted_group, hidden) == 0 && (group[hidden] == '/' || group[hidden] == '\0'))
        group += hidden;
    else if (hidden)
        group = ""; /* our group lies outside of what is mounted: only the mount's own top is known to hold us */
    if (strncmp(group, "/..", 3) == 0)
        group = ""; /* likewise, as a group namespace writes it */
    int top = snprintf(folder, PATH_MAX, "%s%s", root, hierarchy->mount);
    int end = top < 0 || top >= PATH_MAX ? -1 : snprintf(folder + top, (size_t)(PATH_MAX - top), "%s", group);
    return end < 0 || top + end >= PATH_MAX ? 0 : (size_t)top;
}

/* The smallest quota from our group up to the top of the mount. */
static int hierarchy_limit(const char *root, const struct hierarchy *hierarchy)
{
    char folder[PATH_MAX];
    size_t top = group_folder(root, hierarchy, folder);
    int smallest = 0;
    if (top == 0)
        return 0;
    for (;;) {
        int limit = group_limit(hierarchy->is_v2, folder);
        if (limit > 0 && (smallest == 0 || limit < smallest))
            smallest = limit;
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            return smallest;
        *slash = '\0';
    }
}

int motet_cgroup_cpu_limit(const char *root)
{
    int smallest = 0;
    for (int version = 1; version <= 2; version++) {
        struct hierarchy hierarchy = {.controller = "cpu", .is_v2 = version == 2};
        if (!find_group(root, &hierarchy) || !find_mount(root, &hierarchy))
            continue;
        int limit = hierarchy_limit(root, &hierarchy);
        if (limit > 0 && (smallest == 0 || limit < smallest))
            smallest = limit;
    }
    return smallest;
}

/* The number behind `key` in a file of lines "key number"; with key "" the whole first line. -1: not there. */
static int64_t number_in(const char *folder, const char *name, const char *key)
{
    char path[PATH_MAX + 32], line[128];
    int64_t value = -1;
    size_t len = strlen(key);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = motet_descriptor_read(path);
    while (file && value < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, key, len) == 0 && sscanf(line + len, "%" SCNd64, &value) != 1)
            value = -1;
    if (file)
        fclose(file);
    return value;
}

int64_t motet_cgroup_oom_kills(const char *root, int64_t *limit)
{
    char folder[PATH_MAX];
    *limit = 0;
    for (int version = 1; version <= 2; version++) {
        bool is_v2 = version == 2;
        struct hierarchy hierarchy = {.controller = "memory", .is_v2 = is_v2};
        if (!find_group(root, &hierarchy) || !find_mount(root, &hierarchy) || group_folder(root, &hierarchy, folder) == 0)
            continue;
        int64_t kills = number_in(folder, is_v2 ? "memory.events" : "memory.oom_control", "oom_kill ");
        if (kills < 0)
            continue;
        int64_t most = number_in(folder, is_v2 ? "memory.max" : "memory.limit_in_bytes", "");
        *limit = most > 0 && most < INT64_MAX / 2 ? most : 0;
        return kills;
    }
    return -1;
}
