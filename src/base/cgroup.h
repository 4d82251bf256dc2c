/* SPDX-License-Identifier: Apache-2.0
 * How much CPU time the control groups of this process allow, and whether they ran out of memory. */
#ifndef MOTET_BASE_CGROUP_H
#define MOTET_BASE_CGROUP_H

#include <stdint.h>

/* The CPU quota of this process in whole CPUs, rounded up, the smallest over its group and all groups above; 0 = no quota. Reads
 * /proc/self and the mounted hierarchies, version 1 and 2. Every path is prefixed by `root`: "" is the real system. */
int motet_cgroup_cpu_limit(const char *root);

/* How many processes of this process's memory group the OOM killer has killed so far, -1 when nobody counts. *limit: the group's limit in
 * bytes, 0 = none. */
int64_t motet_cgroup_oom_kills(const char *root, int64_t *limit);

#endif
