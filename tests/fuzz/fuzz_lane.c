/* SPDX-License-Identifier: Apache-2.0
 * Remote writes as a hostile or broken peer might send them: the parser of lane.c fed in pieces of any size. Whatever the bytes say,
 * nothing outside the window is touched; the first byte is the seed of the pieces. Key 1 in a frame is turned into the open window's. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lane.h"
#include "window.h"

#define WINDOW 4096
#define GUARD  64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct motet_channel {
    const uint8_t *bytes;
    size_t len;
    uint32_t random;
};

static ssize_t recv_pieces(struct motet_channel *channel, int lane, const struct iovec *parts, int nparts)
{
    (void)lane;
    if (channel->len == 0)
        return -ESHUTDOWN;
    channel->random = channel->random * 1664525u + 1013904223u;
    size_t limit = channel->random % 4 == 0 ? 1 + (channel->random >> 8) % 50 : SIZE_MAX, done = 0;
    for (int i = 0; i < nparts; i++) {
        size_t n = parts[i].iov_len < channel->len ? parts[i].iov_len : channel->len;
        n = n < limit - done ? n : limit - done;
        if (n > 0)
            memcpy(parts[i].iov_base, channel->bytes, n);
        channel->bytes += n;
        channel->len -= n;
        done += n;
    }
    return (ssize_t)done;
}

static const struct motet_transport pieces = {.name = "pieces", .recv = recv_pieces};

/* Frames that name key 1 shall hit: unguessable keys would leave the interesting half unreached. */
static void name_the_window(uint8_t *bytes, size_t len, uint64_t key)
{
    struct motet_put frame;
    for (size_t at = 0; at + sizeof(frame) <= len; at++) {
        memcpy(&frame, bytes + at, sizeof(frame));
        if (frame.magic != MOTET_PUT_MAGIC || frame.key != 1)
            continue;
        frame.key = key;
        memcpy(bytes + at, &frame, sizeof(frame));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(64) uint8_t memory[GUARD + WINDOW + GUARD];
    struct motet_lane lane;
    void *base = memory + GUARD;
    uint64_t key;
    if (size < 1)
        return 0;
    uint8_t *bytes = malloc(size);
    memcpy(bytes, data + 1, size - 1);
    memset(memory, 0xa5, sizeof(memory));
    if (motet_windows_open(1, &base, WINDOW, NULL, 0, NULL, NULL, &key) != motetSuccess)
        abort();
    name_the_window(bytes, size - 1, key);
    struct motet_channel channel = {bytes, size - 1, data[0]};
    if (motet_lane_open(&lane, &pieces, &channel, 0) != motetSuccess)
        abort();
    while (motet_lane_read(&lane) >= 0)
        continue;
    motet_lane_close(&lane);
    motet_windows_close(key);
    for (size_t i = 0; i < GUARD; i++)
        if (memory[i] != 0xa5 || memory[GUARD + WINDOW + i] != 0xa5)
            abort();
    free(bytes);
    return 0;
}
