/* SPDX-License-Identifier: Apache-2.0
 * FNV-1a with 64 bits (Fowler, Noll, Vo; public domain): the same on every machine. Tells things apart, defends against nobody. */
#ifndef MOTET_BASE_HASH_H
#define MOTET_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define MOTET_HASH_SEED UINT64_C(0xcbf29ce484222325)

/* Adds one value, usually a byte. */
static inline uint64_t motet_hash_add(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001b3);
}

static inline uint64_t motet_hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < len; i++)
        hash = motet_hash_add(hash, at[i]);
    return hash;
}

#endif
