/* SPDX-License-Identifier: Apache-2.0
 * Messages between the root and an authenticated rank: an 8-byte head {type, 0, key length (2), value length (4)}, little-endian, then
 * key and value. Parsers are pure; they see bytes of another process. */
#ifndef MOTET_BOOT_FRAME_H
#define MOTET_BOOT_FRAME_H

#include "boot/boot.h"

#define MOTET_BOOT_PROTOCOL  1u /* raised when ranks of different builds no longer understand each other */
#define MOTET_BOOT_KEY_MAX   128
#define MOTET_FRAME_HEAD_LEN 8
#define MOTET_FRAME_LEN_MAX  (MOTET_FRAME_HEAD_LEN + MOTET_BOOT_KEY_MAX + MOTET_BOOT_VALUE_MAX)

enum motet_frame_type {
    MOTET_FRAME_HELLO = 1, /* rank -> root, first: struct motet_hello */
    MOTET_FRAME_WELCOME,   /* root -> rank: the hello was accepted */
    MOTET_FRAME_AGAIN,     /* root -> rank: the root still serves this rank's last communicator; try again */
    MOTET_FRAME_PUT,       /* rank -> root: key, value; not answered */
    MOTET_FRAME_GET,       /* rank -> root: key; answered by exactly one VALUE or NONE */
    MOTET_FRAME_CANCEL,    /* rank -> root: the last GET shall be answered by NONE now, unless VALUE is on its way */
    MOTET_FRAME_VALUE,     /* root -> rank */
    MOTET_FRAME_NONE,      /* root -> rank: the key does not exist yet */
    MOTET_FRAME_FAIL,      /* both ways: value = result (4), text; the communicator cannot be made */
    MOTET_FRAME_BYE,       /* rank -> root, last */
    MOTET_FRAME_TYPES
};

struct motet_frame {
    enum motet_frame_type type;
    size_t key_len, value_len;
    const uint8_t *key, *value; /* into the parsed bytes */
};

/* What a rank says of itself. The first field stays where it is for ever. */
struct motet_hello {
    uint32_t protocol, rank, nranks, pid;
    char host[64];
};

#define MOTET_HELLO_LEN (16 + 64)

void motet_frame_head(uint8_t head[MOTET_FRAME_HEAD_LEN], enum motet_frame_type type, size_t key_len, size_t value_len);

/* Lengths of a head that is complete. False when no such frame exists. */
bool motet_frame_parse_head(const uint8_t head[MOTET_FRAME_HEAD_LEN], struct motet_frame *frame);

/* Bytes that the whole frame takes. */
size_t motet_frame_len(const struct motet_frame *frame);

/* 1: *frame is complete; 0: more bytes are needed; -1: these bytes are no frame. */
int motet_frame_parse(const uint8_t *bytes, size_t len, struct motet_frame *frame);

void motet_hello_encode(const struct motet_hello *hello, uint8_t bytes[MOTET_HELLO_LEN]);

/* False when the bytes are too short. The host is made printable and terminated. A hello of a later protocol may be longer. */
bool motet_hello_parse(const uint8_t *bytes, size_t len, struct motet_hello *hello);

/* Result and text of a FAIL; the text is made printable. size >= 1. */
motetResult_t motet_failure_parse(const uint8_t *value, size_t len, char *text, size_t size);
size_t motet_failure_encode(motetResult_t code, const char *text, uint8_t *value, size_t size);

/* Little-endian numbers in byte strings. */
static inline uint32_t motet_load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void motet_store_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t motet_load_u64(const uint8_t *at)
{
    return motet_load_u32(at) | (uint64_t)motet_load_u32(at + 4) << 32;
}

static inline void motet_store_u64(uint8_t *at, uint64_t value)
{
    motet_store_u32(at, (uint32_t)value);
    motet_store_u32(at + 4, (uint32_t)(value >> 32));
}

#endif
