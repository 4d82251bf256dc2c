/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_CPUS_MAX (64 * 1024)

static void add(struct motet_cpus *cpus, int cpu)
{
    cpus->words[cpu % MOTET_CPUS_MAX / 64] |= 1ull << (cpu % 64);
}

/* The kernel wants room for all CPUs that it could have. */
static bool add_allowed(struct motet_cpus *cpus, pid_t thread)
{
    for (int room = 1024; room <= KERNEL_CPUS_MAX; room *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        size_t size = CPU_ALLOC_SIZE((size_t)room);
        if (!set)
            return false;
        int error = sched_getaffinity(thread, size, set) != 0 ? errno : 0;
        for (int cpu = 0; error == 0 && cpu < room; cpu++)
            if (CPU_ISSET_S((size_t)cpu, size, set))
                add(cpus, cpu);
        CPU_FREE(set);
        if (error != EINVAL)
            return error == 0;
    }
    return false;
}

struct motet_cpus motet_cpus_allowed(void)
{
    struct motet_cpus cpus = {{0}};
    bool own = add_allowed(&cpus, 0), first = add_allowed(&cpus, getpid());
    long online = own || first ? 0 : sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < online || motet_cpus_count(&cpus) == 0; cpu++)
        add(&cpus, cpu);
    return cpus;
}

void motet_cpus_unite(struct motet_cpus *cpus, const struct motet_cpus *more)
{
    for (int i = 0; i < MOTET_CPUS_MAX / 64; i++)
        cpus->words[i] |= more->words[i];
}

int motet_cpus_count(const struct motet_cpus *cpus)
{
    int count = 0;
    for (int i = 0; i < MOTET_CPUS_MAX / 64; i++)
        count += __builtin_popcountll(cpus->words[i]);
    return count;
}
