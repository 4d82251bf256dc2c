/* SPDX-License-Identifier: Apache-2.0
 * This process as the library sees it. motet_process_open and motet_process_close are in endpoint.h. */
#ifndef MOTET_PROCESS_H
#define MOTET_PROCESS_H

#include "endpoint.h"

/* The own description; valid while the process is open. */
const struct motet_process *motet_process_self(void);

#endif
