/* SPDX-License-Identifier: Apache-2.0
 * Layout of the 128 bytes: "motetU", version, flags, secret (32), number of addresses, addresses (family 4 or 6, port big-endian,
 * host), zeros, FNV-1a checksum of all before it (4, little-endian). */
#include "boot/unique_id.h"

#include <ctype.h>
#include <string.h>

#include "base/error.h"

#define VERSION      1
#define FLAG_LISTENS 1

enum { AT_VERSION = 6, AT_FLAGS = 7, AT_SECRET = 8, AT_COUNT = 40, AT_ADDRESSES = 41, AT_CHECKSUM = 124 };

static const char magic[AT_VERSION] = {'m', 'o', 't', 'e', 't', 'U'};

static uint32_t checksum(const uint8_t *bytes)
{
    uint32_t hash = 2166136261u;
    for (int i = 0; i < AT_CHECKSUM; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

static void store_checksum(uint8_t *bytes)
{
    uint32_t sum = checksum(bytes);
    for (int i = 0; i < 4; i++)
        bytes[AT_CHECKSUM + i] = (uint8_t)(sum >> 8 * i);
}

static bool checksum_is_right(const uint8_t *bytes)
{
    uint32_t sum = checksum(bytes);
    bool same = true;
    for (int i = 0; i < 4; i++)
        same = same && bytes[AT_CHECKSUM + i] == (uint8_t)(sum >> 8 * i);
    return same;
}

/* Bytes of the host part; 0 for families that have no place in an id. */
static size_t host_len(int family)
{
    return family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0;
}

motetResult_t motet_unique_id_encode(const struct motet_root_place *place, motetUniqueId *id)
{
    uint8_t *bytes = (uint8_t *)id->internal;
    size_t at = AT_ADDRESSES;
    memset(bytes, 0, MOTET_UNIQUE_ID_BYTES);
    memcpy(bytes, magic, sizeof(magic));
    bytes[AT_VERSION] = VERSION;
    bytes[AT_FLAGS] = place->listens ? FLAG_LISTENS : 0;
    memcpy(bytes + AT_SECRET, place->secret.bytes, sizeof(place->secret.bytes));
    for (int i = 0; i < place->naddresses; i++) {
        const union motet_address *address = &place->addresses[i];
        size_t len = host_len(address->any.sa_family);
        uint16_t port = motet_address_port(address);
        if (len == 0 || at + 3 + len > AT_CHECKSUM)
            continue;
        bytes[at++] = len == 4 ? 4 : 6;
        bytes[at++] = (uint8_t)(port >> 8);
        bytes[at++] = (uint8_t)port;
        memcpy(bytes + at, len == 4 ? (const void *)&address->in.sin_addr : &address->in6.sin6_addr, len);
        at += len;
        bytes[AT_COUNT]++;
    }
    if (bytes[AT_COUNT] == 0)
        return motet_fail(motetInternalError, "a unique id without address");
    store_checksum(bytes);
    return motetSuccess;
}

static motetResult_t check_frame(const uint8_t *bytes)
{
    bool empty = true;
    for (int i = 0; i < MOTET_UNIQUE_ID_BYTES; i++)
        empty = empty && bytes[i] == 0;
    if (empty)
        return motet_fail(motetInvalidArgument, "the unique id is all zeros: it never reached this rank");
    if (memcmp(bytes, magic, sizeof(magic)) != 0)
        return motet_fail(motetInvalidArgument, "the unique id was not made by motetGetUniqueId");
    if (bytes[AT_VERSION] != VERSION)
        return motet_fail(motetInvalidArgument, "the unique id has version %u, this rank's motet knows version %u",
                          bytes[AT_VERSION], VERSION);
    if (!checksum_is_right(bytes))
        return motet_fail(motetInvalidArgument, "the unique id is corrupted (its checksum is wrong)");
    return motetSuccess;
}

motetResult_t motet_unique_id_decode(const motetUniqueId *id, struct motet_root_place *place)
{
    const uint8_t *bytes = (const uint8_t *)id->internal;
    size_t at = AT_ADDRESSES;
    memset(place, 0, sizeof(*place));
    TRY(check_frame(bytes));
    place->listens = bytes[AT_FLAGS] & FLAG_LISTENS;
    memcpy(place->secret.bytes, bytes + AT_SECRET, sizeof(place->secret.bytes));
    for (int i = 0; i < bytes[AT_COUNT]; i++) {
        size_t len = at < AT_CHECKSUM ? host_len(bytes[at] == 4 ? AF_INET : bytes[at] == 6 ? AF_INET6 : AF_UNSPEC) : 0;
        if (len == 0 || at + 3 + len > AT_CHECKSUM || i >= MOTET_ROOT_ADDRESSES_MAX)
            return motet_fail(motetInvalidArgument, "the unique id is corrupted (address %d is malformed)", i);
        union motet_address *address = &place->addresses[place->naddresses++];
        address->any.sa_family = len == 4 ? AF_INET : AF_INET6;
        motet_address_set_port(address, (uint16_t)(bytes[at + 1] << 8 | bytes[at + 2]));
        memcpy(len == 4 ? (void *)&address->in.sin_addr : &address->in6.sin6_addr, bytes + at + 3, len);
        at += 3 + len;
    }
    if (place->naddresses == 0)
        return motet_fail(motetInvalidArgument, "the unique id is corrupted (it has no address)");
    return motetSuccess;
}

static int digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

motetResult_t motet_unique_id_from_text(const char *what, const char *text, motetUniqueId *id)
{
    size_t len = strlen(text);
    bool right = len == 2 * MOTET_UNIQUE_ID_BYTES;
    for (size_t i = 0; right && i < MOTET_UNIQUE_ID_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        right = high >= 0 && low >= 0;
        id->internal[i] = (char)((unsigned)high << 4 | (unsigned)low);
    }
    if (!right)
        return motet_fail(motetInvalidArgument, "%s: expected %d hexadecimal digits, got %zu characters", what,
                          2 * MOTET_UNIQUE_ID_BYTES, len);
    return motetSuccess;
}
