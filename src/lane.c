/* SPDX-License-Identifier: Apache-2.0
 * Framing of remote writes on one byte stream. Invariants: a frame enters the stream whole or not at all; a frame's word is stored after
 * its payload, with release order, so whoever reads the word with acquire order sees the payload (the payload was written by this
 * thread, by memcpy or by the kernel on its behalf, before that store). */
#include "lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "window.h"

#define READ_BUDGET (1u << 20) /* bytes of one motet_lane_read, so that one busy peer does not keep a caller from its own work */

_Static_assert(sizeof(struct motet_put) == 40, "the wire header has no padding");
_Static_assert(MOTET_LANE_OUTPUT >= 256 * 1024 && MOTET_LANE_OUTPUT > 2 * (MOTET_PUT_MAX + sizeof(struct motet_put)), "room");

motetResult_t motet_lane_open(struct motet_lane *lane, const struct motet_transport *transport, struct motet_channel *channel,
                              int index)
{
    *lane = (struct motet_lane){.transport = transport, .channel = channel, .index = index};
    pthread_mutex_init(&lane->output_lock, NULL);
    pthread_mutex_init(&lane->input_lock, NULL);
    lane->output = malloc(MOTET_LANE_OUTPUT);
    lane->input = malloc(MOTET_LANE_INPUT);
    if (lane->output && lane->input)
        return motetSuccess;
    motet_lane_close(lane);
    return motet_fail(motetSystemError, "out of memory for the buffers of a connection");
}

void motet_lane_close(struct motet_lane *lane)
{
    if (!lane->transport)
        return;
    free(lane->output);
    free(lane->input);
    pthread_mutex_destroy(&lane->output_lock);
    pthread_mutex_destroy(&lane->input_lock);
    *lane = (struct motet_lane){0};
}

/* ---- output ---- */

static size_t waiting(const struct motet_lane *lane)
{
    return (size_t)(lane->output_written - lane->output_read);
}

static void append(struct motet_lane *lane, const char *bytes, size_t len)
{
    size_t at = lane->output_written & (MOTET_LANE_OUTPUT - 1), first = MOTET_LANE_OUTPUT - at;
    if (first > len)
        first = len;
    if (first > 0)
        memcpy(lane->output + at, bytes, first);
    if (len > first)
        memcpy(lane->output, bytes + first, len - first);
    lane->output_written += len;
}

/* Offers what waits to the stream once; the lock is held. */
static ssize_t flush_once(struct motet_lane *lane)
{
    size_t len = waiting(lane), at = lane->output_read & (MOTET_LANE_OUTPUT - 1), first = MOTET_LANE_OUTPUT - at;
    if (first > len)
        first = len;
    struct iovec parts[2] = {{lane->output + at, first}, {lane->output, len - first}};
    ssize_t sent = lane->transport->send(lane->channel, lane->index, parts, len > first ? 2 : 1);
    if (sent > 0)
        lane->output_read += (uint64_t)sent;
    return sent;
}

static int flush_locked(struct motet_lane *lane)
{
    int went = 0;
    while (waiting(lane) > 0) {
        ssize_t sent = flush_once(lane);
        if (sent < 0)
            return (int)sent;
        if (sent == 0)
            break;
        went = 1;
    }
    atomic_store_explicit(&lane->pending, waiting(lane) > 0, memory_order_relaxed);
    return went;
}

/* Gives the frame to the stream; what it does not take goes to the (empty) buffer. The lock is held. */
static int send_directly(struct motet_lane *lane, const struct motet_put *frame, const char *bytes)
{
    struct iovec parts[2] = {{(void *)frame, sizeof(*frame)}, {(void *)bytes, frame->len}};
    ssize_t sent = lane->transport->send(lane->channel, lane->index, parts, frame->len > 0 ? 2 : 1);
    if (sent < 0)
        return (int)sent;
    size_t done = (size_t)sent;
    if (done < sizeof(*frame)) {
        append(lane, (const char *)frame + done, sizeof(*frame) - done);
        done = sizeof(*frame);
    }
    if (done < sizeof(*frame) + frame->len)
        append(lane, bytes + (done - sizeof(*frame)), sizeof(*frame) + frame->len - done);
    atomic_store_explicit(&lane->pending, waiting(lane) > 0, memory_order_relaxed);
    return 1;
}

int motet_lane_put(struct motet_lane *lane, struct motet_put *frame, const void *bytes)
{
    frame->magic = MOTET_PUT_MAGIC;
    pthread_mutex_lock(&lane->output_lock);
    int result = waiting(lane) > 0 ? flush_locked(lane) : 0;
    if (result >= 0 && waiting(lane) == 0) {
        result = send_directly(lane, frame, bytes);
    } else if (result >= 0 && MOTET_LANE_OUTPUT - waiting(lane) >= sizeof(*frame) + frame->len) {
        append(lane, (const char *)frame, sizeof(*frame));
        append(lane, bytes, frame->len);
        result = 1;
    } else if (result >= 0) {
        atomic_store_explicit(&lane->room_wanted, true, memory_order_relaxed);
        result = 0;
    }
    pthread_mutex_unlock(&lane->output_lock);
    return result;
}

int motet_lane_flush(struct motet_lane *lane)
{
    pthread_mutex_lock(&lane->output_lock);
    int result = flush_locked(lane);
    pthread_mutex_unlock(&lane->output_lock);
    return result;
}

/* ---- input ---- */

static bool fits(uint64_t offset, uint64_t n, size_t len)
{
    return offset <= len && n <= len - offset;
}

static bool plausible(const struct motet_put *frame)
{
    return frame->magic == MOTET_PUT_MAGIC && frame->len <= MOTET_PUT_MAX &&
           (frame->word_offset == UINT64_MAX || frame->word_offset % sizeof(uint64_t) == 0);
}

/* Holds the memory that the current frame writes to; NULL (nothing held) when it misses: key closed, or outside of the window. */
static char *hold_target(const struct motet_put *frame)
{
    size_t len;
    char *base = motet_window_hold(frame->key, &len);
    if (!base)
        return NULL;
    bool word_fits = frame->word_offset == UINT64_MAX || fits(frame->word_offset, sizeof(uint64_t), len);
    if (fits(frame->offset, frame->len, len) && word_fits && (uintptr_t)base % sizeof(uint64_t) == 0)
        return base;
    motet_window_drop();
    return NULL;
}

/* Counts n more payload bytes as arrived; the last ones complete the frame. */
static void take(struct motet_lane *lane, char *base, size_t n)
{
    const struct motet_put *frame = &lane->frame;
    lane->payload_taken += n;
    if (lane->payload_taken < frame->len)
        return;
    if (base && frame->word_offset != UINT64_MAX)
        __atomic_store_n((uint64_t *)(base + frame->word_offset), frame->word, __ATOMIC_RELEASE);
    lane->in_payload = false;
}

/* Carries out what the input buffer holds: false when a header makes no sense. Afterwards the buffer holds less than a header. */
static bool parse(struct motet_lane *lane)
{
    for (;;) {
        size_t have = lane->input_len - lane->input_at;
        if (!lane->in_payload) {
            if (have < sizeof(lane->frame))
                return true;
            memcpy(&lane->frame, lane->input + lane->input_at, sizeof(lane->frame));
            if (!plausible(&lane->frame))
                return false;
            lane->input_at += sizeof(lane->frame);
            have -= sizeof(lane->frame);
            lane->in_payload = true;
            lane->payload_taken = 0;
        }
        size_t n = lane->frame.len - lane->payload_taken;
        if (n > have)
            n = have;
        if (n == 0 && lane->payload_taken < lane->frame.len)
            return true;
        char *base = hold_target(&lane->frame);
        if (base && n > 0)
            memcpy(base + lane->frame.offset + lane->payload_taken, lane->input + lane->input_at, n);
        lane->input_at += n;
        take(lane, base, n);
        if (base)
            motet_window_drop();
    }
}

/* Between payloads: reads behind what is left of a header. */
static ssize_t receive_headers(struct motet_lane *lane, size_t *wanted)
{
    size_t left = lane->input_len - lane->input_at;
    if (left > 0)
        memmove(lane->input, lane->input + lane->input_at, left);
    lane->input_at = 0;
    lane->input_len = left;
    struct iovec part = {lane->input + left, MOTET_LANE_INPUT - left};
    *wanted = part.iov_len;
    ssize_t got = lane->transport->recv(lane->channel, lane->index, &part, 1);
    if (got > 0)
        lane->input_len += (size_t)got;
    return got;
}

/* Inside a payload (the input buffer is empty): the rest goes straight into the window, what follows it into the buffer. The payload of
 * a frame that misses goes to the buffer and is forgotten. */
static ssize_t receive_payload(struct motet_lane *lane, size_t *wanted)
{
    size_t rest = lane->frame.len - lane->payload_taken;
    lane->input_at = lane->input_len = 0;
    char *base = hold_target(&lane->frame);
    struct iovec parts[2] = {{NULL, rest}, {lane->input, MOTET_LANE_INPUT}};
    if (base)
        parts[0].iov_base = base + lane->frame.offset + lane->payload_taken;
    else
        parts[0] = (struct iovec){lane->input, rest < MOTET_LANE_INPUT ? rest : MOTET_LANE_INPUT};
    *wanted = base ? rest + MOTET_LANE_INPUT : parts[0].iov_len;
    ssize_t got = lane->transport->recv(lane->channel, lane->index, parts, base ? 2 : 1);
    if (got > 0) {
        size_t payload = (size_t)got < rest ? (size_t)got : rest;
        lane->input_len = (size_t)got - payload;
        take(lane, base, payload);
    }
    if (base)
        motet_window_drop();
    return got;
}

static int read_locked(struct motet_lane *lane)
{
    size_t total = 0;
    while (total < READ_BUDGET) {
        size_t wanted;
        ssize_t got = lane->in_payload ? receive_payload(lane, &wanted) : receive_headers(lane, &wanted);
        if (got < 0)
            return (int)got;
        total += (size_t)got;
        if (!parse(lane))
            return -EBADMSG;
        if ((size_t)got < wanted) /* drained: asking again would only cost a system call */
            break;
    }
    return total > 0;
}

int motet_lane_read(struct motet_lane *lane)
{
    if (pthread_mutex_trylock(&lane->input_lock) != 0)
        return 0;
    int result = read_locked(lane);
    pthread_mutex_unlock(&lane->input_lock);
    return result;
}
