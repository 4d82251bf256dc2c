/* SPDX-License-Identifier: Apache-2.0
 * Parsing and building of the root's messages. Every length is checked before it is believed. */
#include "boot/frame.h"

#include <string.h>

void motet_frame_head(uint8_t head[MOTET_FRAME_HEAD_LEN], enum motet_frame_type type, size_t key_len, size_t value_len)
{
    head[0] = (uint8_t)type;
    head[1] = 0;
    head[2] = (uint8_t)key_len;
    head[3] = (uint8_t)(key_len >> 8);
    motet_store_u32(head + 4, (uint32_t)value_len);
}

bool motet_frame_parse_head(const uint8_t head[MOTET_FRAME_HEAD_LEN], struct motet_frame *frame)
{
    *frame = (struct motet_frame){
        .type = head[0], .key_len = (size_t)head[2] | (size_t)head[3] << 8, .value_len = motet_load_u32(head + 4)};
    return head[0] >= MOTET_FRAME_HELLO && head[0] < MOTET_FRAME_TYPES && head[1] == 0 && frame->key_len <= MOTET_BOOT_KEY_MAX &&
           frame->value_len <= MOTET_BOOT_VALUE_MAX;
}

size_t motet_frame_len(const struct motet_frame *frame)
{
    return MOTET_FRAME_HEAD_LEN + frame->key_len + frame->value_len;
}

int motet_frame_parse(const uint8_t *bytes, size_t len, struct motet_frame *frame)
{
    if (len < MOTET_FRAME_HEAD_LEN)
        return 0;
    if (!motet_frame_parse_head(bytes, frame))
        return -1;
    if (len < motet_frame_len(frame))
        return 0;
    frame->key = bytes + MOTET_FRAME_HEAD_LEN;
    frame->value = frame->key + frame->key_len;
    for (size_t i = 0; i < frame->key_len; i++)
        if (frame->key[i] <= ' ' || frame->key[i] > '~')
            return -1;
    return 1;
}

/* Copies at most size - 1 bytes up to a NUL, control characters as '?'. Bytes above 0x7f stay: texts may be UTF-8. */
static void copy_printable(char *to, size_t size, const uint8_t *from, size_t len)
{
    size_t at = 0;
    while (at < len && at + 1 < size && from[at] != '\0') {
        to[at] = from[at] < ' ' || from[at] == 0x7f ? '?' : (char)from[at];
        at++;
    }
    to[at] = '\0';
}

void motet_hello_encode(const struct motet_hello *hello, uint8_t bytes[MOTET_HELLO_LEN])
{
    memset(bytes, 0, MOTET_HELLO_LEN);
    motet_store_u32(bytes, hello->protocol);
    motet_store_u32(bytes + 4, hello->rank);
    motet_store_u32(bytes + 8, hello->nranks);
    motet_store_u32(bytes + 12, hello->pid);
    memcpy(bytes + 16, hello->host, strnlen(hello->host, sizeof(hello->host)));
}

bool motet_hello_parse(const uint8_t *bytes, size_t len, struct motet_hello *hello)
{
    if (len < MOTET_HELLO_LEN)
        return false;
    *hello = (struct motet_hello){.protocol = motet_load_u32(bytes),
                                  .rank = motet_load_u32(bytes + 4),
                                  .nranks = motet_load_u32(bytes + 8),
                                  .pid = motet_load_u32(bytes + 12)};
    copy_printable(hello->host, sizeof(hello->host), bytes + 16, 64);
    return true;
}

motetResult_t motet_failure_parse(const uint8_t *value, size_t len, char *text, size_t size)
{
    uint32_t code = len >= 4 ? motet_load_u32(value) : (uint32_t)motetRemoteError;
    copy_printable(text, size, len >= 4 ? value + 4 : value, len >= 4 ? len - 4 : 0);
    if (code == motetSuccess || code == motetInProgress || code >= motetNumResults)
        code = motetRemoteError;
    return (motetResult_t)code;
}

size_t motet_failure_encode(motetResult_t code, const char *text, uint8_t *value, size_t size)
{
    size_t len = strnlen(text, size - 4);
    motet_store_u32(value, (uint32_t)code);
    memcpy(value + 4, text, len);
    return len + 4;
}
