/* SPDX-License-Identifier: Apache-2.0
 * The rows of table.c, each defined in its own file. */
#ifndef MOTET_TRANSPORT_ROWS_H
#define MOTET_TRANSPORT_ROWS_H

#include "transport/transport.h"

extern const struct motet_transport motet_direct_transport; /* direct.c: this very process */
extern const struct motet_transport motet_shm_transport;    /* shm.c: another process of this host */
extern const struct motet_transport motet_socket_transport; /* socket.c: TCP */

#endif
