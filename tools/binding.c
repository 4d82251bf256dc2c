/* SPDX-License-Identifier: Apache-2.0 */
#include "binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"none", "core", "numa"};

const char *binding_name(enum binding binding)
{
    return names[binding];
}

bool binding_parse(const char *name, enum binding *binding)
{
    for (int i = 0; i < 3; i++)
        if (!strcmp(names[i], name)) {
            *binding = (enum binding)i;
            return true;
        }
    return false;
}

/* Quota of the control group in hundredths of a CPU: -1 none. */
static long quota_percent(void)
{
    long quota = -1, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file) {
        if (fscanf(file, "%ld %ld", &quota, &period) != 2)
            quota = -1;
        fclose(file);
    } else if ((file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re"))) {
        FILE *period_file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re");
        if (fscanf(file, "%ld", &quota) != 1 || !period_file || fscanf(period_file, "%ld", &period) != 1)
            quota = -1;
        if (period_file)
            fclose(period_file);
        fclose(file);
    }
    return quota > 0 && period > 0 ? quota * 100 / period : -1;
}

int binding_cpu_count(void)
{
    cpu_set_t mask;
    int cpus = sched_getaffinity(0, sizeof mask, &mask) ? 1 : CPU_COUNT(&mask);
    long quota = quota_percent();
    if (quota > 0 && (quota + 99) / 100 < cpus)
        cpus = (int)((quota + 99) / 100);
    return cpus > 0 ? cpus : 1;
}

/* The CPUs of "0-3,8,10-11" that are also in `allowed`. */
static void parse_cpu_list(const char *text, const cpu_set_t *allowed, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    while (*text) {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text)
            return;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET((size_t)cpu, allowed))
                CPU_SET((size_t)cpu, cpus);
        text = *end == ',' ? end + 1 : end + strlen(end);
    }
}

/* The memory nodes that have CPUs of the mask; returns their number. */
static int read_nodes(const cpu_set_t *allowed, cpu_set_t *nodes, int capacity)
{
    int n = 0;
    for (int node = 0; node < 1024 && n < capacity; node++) {
        char path[80], text[1024];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        if (fgets(text, sizeof text, file)) {
            parse_cpu_list(text, allowed, &nodes[n]);
            n += CPU_COUNT(&nodes[n]) > 0;
        }
        fclose(file);
    }
    return n;
}

void binding_share(const cpu_set_t *allowed, int index, int nlocal, cpu_set_t *cpus)
{
    int total = CPU_COUNT(allowed);
    int first = nlocal <= total ? (int)((long)index * total / nlocal) : index % total;
    int end = nlocal <= total ? (int)((long)(index + 1) * total / nlocal) : first + 1;
    int seen = 0;
    CPU_ZERO(cpus);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed))
            continue;
        if (seen >= first && seen < end)
            CPU_SET(cpu, cpus);
        seen++;
    }
}

bool binding_cpus(enum binding binding, int index, int nlocal, cpu_set_t *cpus)
{
    cpu_set_t allowed, nodes[64];
    if (binding == BINDING_NONE || sched_getaffinity(0, sizeof allowed, &allowed) || !CPU_COUNT(&allowed))
        return false;
    if (binding == BINDING_CORE) {
        binding_share(&allowed, index, nlocal, cpus);
        return true;
    }
    int n = read_nodes(&allowed, nodes, 64);
    if (!n)
        return false;
    *cpus = nodes[(long)index * n / nlocal % n];
    return true;
}
