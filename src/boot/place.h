/* SPDX-License-Identifier: Apache-2.0
 * From texts such as MOTET_COMM_ID or MASTER_ADDR to addresses: where clients look for the root, and where rank 0 serves it. A host
 * name is looked up at the last moment and never trusted to name this host's own address. */
#ifndef MOTET_BOOT_PLACE_H
#define MOTET_BOOT_PLACE_H

#include "boot/unique_id.h"

#define MOTET_PLACE_PORTS_MAX 8

/* A meeting point as texts give it: the root is on the first port that was free. */
struct motet_place_name {
    char host[256]; /* host name, address, interface name, or "@name" for an abstract Unix socket (then no ports) */
    uint16_t ports[MOTET_PLACE_PORTS_MAX];
    int nports;
    bool exact; /* listen on that address and nowhere else; otherwise on all interfaces when the name does not lead to this host */
};

/* Fills place->addresses for clients. Quiet motetSystemError when the name does not resolve (yet). */
motetResult_t motet_place_resolve(const struct motet_place_name *name, struct motet_root_place *place);

/* Starts the root in this process (rank 0) and fills place->addresses with how this process reaches it. place->secret is set. */
motetResult_t motet_place_serve(const struct motet_place_name *name, struct motet_root_place *place, uint64_t deadline_ns,
                                const _Atomic(_Bool) *abort);

/* "host:port" of the setting or variable `what`. */
motetResult_t motet_place_parse(const char *what, const char *text, struct motet_place_name *name);

/* "host:port,port..." for error texts; returns text. */
const char *motet_place_text(const struct motet_place_name *name, char text[320]);

#endif
