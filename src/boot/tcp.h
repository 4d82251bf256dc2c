/* SPDX-License-Identifier: Apache-2.0
 * A rank's connection to the root. */
#ifndef MOTET_BOOT_TCP_H
#define MOTET_BOOT_TCP_H

#include "boot/place.h"

/* Connects, authenticates and says hello; tries all addresses over and over until the deadline. When `name` is not NULL the addresses
 * come from it and are looked up again while it does not resolve. boot has rank, nranks, deadline_ns and abort. */
motetResult_t motet_tcp_open(struct motet_boot *boot, struct motet_root_place *place, const struct motet_place_name *name);

#endif
