/* SPDX-License-Identifier: Apache-2.0
 * The CPUs that a process may use, as a set that can be sent to others: whether ranks have to share CPUs is seen only when the sets of all
 * of them are united, since launchers like to bind each rank to a CPU of its own. */
#ifndef MOTET_BASE_CPUS_H
#define MOTET_BASE_CPUS_H

#include <stdint.h>

#define MOTET_CPUS_MAX 1024

/* One bit per CPU, by number modulo MOTET_CPUS_MAX. */
struct motet_cpus {
    uint64_t words[MOTET_CPUS_MAX / 64];
};

/* Where the calling thread or the process's first thread may run: threads that are ranks may be bound one by one. Never empty. */
struct motet_cpus motet_cpus_allowed(void);

/* Adds the CPUs of `more`. */
void motet_cpus_unite(struct motet_cpus *cpus, const struct motet_cpus *more);

int motet_cpus_count(const struct motet_cpus *cpus);

#endif
