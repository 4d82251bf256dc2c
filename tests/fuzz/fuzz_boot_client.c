/* SPDX-License-Identifier: Apache-2.0
 * What other ranks and the root can put before a rank: unique ids, combined blobs, failures, hellos, welcomes and keys in a store that
 * anybody may have written. The first byte chooses the parser. */
#include <stdlib.h>
#include <string.h>

#include "boot/frame.h"
#include "boot/handshake.h"
#include "boot/meeting.h"
#include "boot/unique_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_id(const uint8_t *data, size_t size)
{
    motetUniqueId id;
    struct motet_root_place place;
    char text[2 * MOTET_UNIQUE_ID_BYTES + 8];
    memset(&id, 0, sizeof(id));
    memcpy(id.internal, data, size < sizeof(id) ? size : sizeof(id));
    if (motet_unique_id_decode(&id, &place) == motetSuccess) {
        motetUniqueId again;
        struct motet_root_place back;
        if (motet_unique_id_encode(&place, &again) != motetSuccess || motet_unique_id_decode(&again, &back) != motetSuccess ||
            back.naddresses != place.naddresses)
            abort();
    }
    size_t len = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, len);
    text[len] = '\0';
    motet_unique_id_from_text("fuzz", text, &id);
}

static void read_blobs(const uint8_t *data, size_t size)
{
    void **all;
    size_t *lens, total = 0;
    int nranks = size > 0 ? 1 + data[0] % 8 : 1;
    if (size == 0 || !motet_boot_unpack(data + 1, size - 1, nranks, &all, &lens))
        return;
    for (int rank = 0; rank < nranks; rank++)
        total += lens[rank];
    if (total + 8u * (unsigned)nranks != size - 1)
        abort();
    free(all);
}

static void read_texts(const uint8_t *data, size_t size)
{
    struct motet_hello hello;
    char text[40];
    motetResult_t code = motet_failure_parse(data, size, text, sizeof(text));
    if (code == motetSuccess || code == motetInProgress || strlen(text) >= sizeof(text))
        abort();
    if (motet_hello_parse(data, size, &hello) && strlen(hello.host) >= sizeof(hello.host))
        abort();
}

/* ---- a store whose values are the fuzzer's: {length (2), bytes} per get */

struct store {
    const uint8_t *data;
    size_t size;
    int ngets;
};

static int set(void *context, const char *key, const void *value, size_t len)
{
    (void)context;
    (void)key;
    (void)value;
    (void)len;
    return 0;
}

static int get(void *context, const char *key, void *value, size_t capacity, size_t *len, int timeout_ms)
{
    struct store *store = context;
    (void)key;
    (void)timeout_ms;
    if (store->size < 2 || ++store->ngets > 64)
        return -1;
    size_t wanted = (size_t)store->data[0] | (size_t)store->data[1] << 8;
    store->data += 2;
    store->size -= 2;
    if (wanted == 0xffff)
        return 1;
    *len = wanted < store->size ? wanted : store->size;
    if (*len > capacity)
        return -1;
    memcpy(value, store->data, *len);
    store->data += *len;
    store->size -= *len;
    return 0;
}

static void meet(const uint8_t *data, size_t size)
{
    if (size == 0)
        return;
    struct store context = {.data = data + 1, .size = size - 1};
    motetStore_t store = {.context = &context, .set = set, .get = get};
    struct motet_boot boot;
    void **all;
    size_t *lens;
    /* The deadline has passed, so that "not yet" ends the attempt. */
    if (motet_boot_open_store(&boot, &store, 2 + data[0] / 2 % 3, data[0] % 2, 1, NULL) != motetSuccess)
        return;
    if (motet_boot_allgather(&boot, "own", 3, &all, &lens) == motetSuccess)
        free(all);
    motet_boot_close(&boot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(const uint8_t *, size_t) = {read_id, read_blobs, read_texts, meet};
    if (size > 0)
        parsers[data[0] % 4](data + 1, size - 1);
    return 0;
}
