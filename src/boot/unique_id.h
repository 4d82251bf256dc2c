/* SPDX-License-Identifier: Apache-2.0
 * What is inside a unique id: where the root listens and the secret that it asks for. */
#ifndef MOTET_BOOT_UNIQUE_ID_H
#define MOTET_BOOT_UNIQUE_ID_H

#include "boot/boot.h"

#define MOTET_ROOT_ADDRESSES_MAX 32

struct motet_root_place {
    union motet_address addresses[MOTET_ROOT_ADDRESSES_MAX]; /* IPv4 and IPv6, with ports; best first */
    int naddresses;
    bool listens; /* the root listened before this was made: when nobody answers it is gone, not late */
    struct motet_secret secret;
};

/* Addresses that do not fit into the 128 bytes (room for 11 IPv4 or 4 IPv6) are left out from the end. */
motetResult_t motet_unique_id_encode(const struct motet_root_place *place, motetUniqueId *id);

/* motetInvalidArgument says whether the id is empty, foreign, of another version or corrupted. */
motetResult_t motet_unique_id_decode(const motetUniqueId *id, struct motet_root_place *place);

/* From and to 256 hexadecimal digits. `what` names the text in the error. */
motetResult_t motet_unique_id_from_text(const char *what, const char *text, motetUniqueId *id);

#endif
