/* SPDX-License-Identifier: Apache-2.0
 * Which kind of machine this is: what was measured on one counts on others like it. */
#ifndef MOTET_BASE_MACHINE_H
#define MOTET_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* "AMD EPYC; 2 CPUs; caches 32K 512K 32M; Linux 6.1.0; x86_64": as much as decides speed. Never NULL; cached. Any thread. */
const char *motet_machine_text(void);

/* Hash of the text; never 0. */
uint64_t motet_machine_fingerprint(void);

/* Bytes of the cache that a core has for itself, and of the one behind it, which cores share; 0: unknown. */
void motet_machine_caches(double *own, double *shared);

#endif
