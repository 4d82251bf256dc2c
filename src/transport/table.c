/* SPDX-License-Identifier: Apache-2.0
 * The transports, best first, and where each keeps its part of a process's description: records of {name length, name, length, bytes},
 * ended by a zero byte or the end of the array. */
#include <string.h>

#include "transport/rows.h"
#include "transport/transport.h"

const struct motet_transport *const motet_transports[] = {
    &motet_direct_transport,
    &motet_shm_transport,
    &motet_socket_transport,
    NULL,
};

struct record {
    const uint8_t *name, *bytes;
    size_t name_len, len;
};

/* Reads the record at *at and moves *at behind it. False at the end, and where a length leads outside. */
static bool next_record(const struct motet_process *process, size_t *at, struct record *record)
{
    const size_t size = sizeof(process->addresses);
    const uint8_t *addresses = process->addresses;
    if (*at >= size || addresses[*at] == 0)
        return false;
    record->name_len = addresses[*at];
    record->name = addresses + *at + 1;
    size_t len_at = *at + 1 + record->name_len;
    if (len_at + 2 > size)
        return false;
    record->len = addresses[len_at] | (size_t)addresses[len_at + 1] << 8;
    record->bytes = addresses + len_at + 2;
    *at = len_at + 2 + record->len;
    return *at <= size;
}

bool motet_address_record(struct motet_process *process, const char *transport, const void *bytes, size_t len)
{
    const size_t size = sizeof(process->addresses), name_len = strlen(transport);
    struct record record;
    size_t at = 0;
    while (next_record(process, &at, &record))
        continue;
    if (name_len > 255 || len > size || at + 3 + name_len + len > size)
        return false;
    process->addresses[at++] = (uint8_t)name_len;
    memcpy(process->addresses + at, transport, name_len);
    at += name_len;
    process->addresses[at++] = (uint8_t)len;
    process->addresses[at++] = (uint8_t)(len >> 8);
    memcpy(process->addresses + at, bytes, len);
    return true;
}

const void *motet_address_find(const struct motet_process *process, const char *transport, size_t *len)
{
    struct record record;
    for (size_t at = 0; next_record(process, &at, &record);)
        if (record.name_len == strlen(transport) && memcmp(record.name, transport, record.name_len) == 0) {
            *len = record.len;
            return record.bytes;
        }
    return NULL;
}
