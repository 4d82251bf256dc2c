/* SPDX-License-Identifier: Apache-2.0
 * Which CPUs the local ranks get. Stays inside the mask that the launcher was started with. */
#ifndef MOTET_TOOLS_BINDING_H
#define MOTET_TOOLS_BINDING_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

enum binding { BINDING_NONE, BINDING_CORE, BINDING_NUMA };

/* CPUs this process may use: its mask, capped by the quota of its control groups. At least 1. */
int binding_cpu_count(void);

/* CPUs of local rank `index` of `nlocal`. core: equal shares of neighbours, or one CPU in turn when there are more ranks than CPUs.
 * numa: all CPUs of one memory node. false: nothing to bind (none, or the mask cannot be read). */
bool binding_cpus(enum binding binding, int index, int nlocal, cpu_set_t *cpus);

/* The share of rank `index` of `nlocal` in any set of CPUs, as core gives it. */
void binding_share(const cpu_set_t *allowed, int index, int nlocal, cpu_set_t *cpus);

/* "core", "numa", "none" */
const char *binding_name(enum binding binding);
bool binding_parse(const char *name, enum binding *binding);

#endif
