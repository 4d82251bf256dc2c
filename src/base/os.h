/* SPDX-License-Identifier: Apache-2.0
 * The operating-system seam: clocks, randomness, identity of host and process. The only place that asks the kernel who and where we are. */
#ifndef MOTET_BASE_OS_H
#define MOTET_BASE_OS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "motet.h"

/* Monotonic time. */
uint64_t motet_now_ns(void);

/* Absolute monotonic deadline `timeout_ms` from now; timeout 0 (or less) means never: UINT64_MAX. */
uint64_t motet_deadline_ns(int64_t timeout_ms);

/* Fills buf with bytes from getrandom. */
motetResult_t motet_random(void *buf, size_t len);

/* Identity of this host: boot id and host name hashed, MOTET_HOSTID replaces it. Equal identity only makes a probe worth trying. */
uint64_t motet_host_id(void);

/* Host name without domain, cached; never NULL. */
const char *motet_host_name(void);

/* Kernel thread id of the caller, cached. */
pid_t motet_thread_id(void);

/* memfd_create with CLOEXEC, sized to len (sparse). */
motetResult_t motet_memfd(const char *name, size_t len, int *fd);

#endif
