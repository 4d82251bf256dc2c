/* SPDX-License-Identifier: Apache-2.0
 * Who is missing when a wait lasts: what the warning and the error at the time limit say. */
#ifndef MOTET_LATE_H
#define MOTET_LATE_H

#include "comm.h"

/* "AllReduce #12 waits for rank 3; missing: rank 2 (pid 17 on a, last completed call 11), rank 4 (pid 19 on a, last completed call 11)". */
void motet_comm_describe_late(motetComm_t comm, const struct motet_waiting *waiting, void *context, char *text, size_t len);

#endif
