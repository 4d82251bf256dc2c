/* SPDX-License-Identifier: Apache-2.0
 * How much CPU time the control groups of this process allow. */
#ifndef MOTET_BASE_CGROUP_H
#define MOTET_BASE_CGROUP_H

/* The CPU quota of this process in whole CPUs, rounded up, the smallest over its group and all groups above; 0 = no quota. Reads
 * /proc/self and the mounted hierarchies, version 1 and 2. Every path is prefixed by `root`: "" is the real system. */
int motet_cgroup_cpu_limit(const char *root);

#endif
