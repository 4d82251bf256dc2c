/* SPDX-License-Identifier: Apache-2.0
 * One lane of a stream endpoint: remote writes framed on an ordered byte stream. Output that the stream does not take at once waits in
 * a bounded buffer; input goes straight into the window's memory where that pays. Bytes come from another process, so every field is
 * checked: a frame that makes no sense ends the connection, one that misses its window is dropped, and neither harms this process.
 * Knows nothing of endpoints, threads or waiting. */
#ifndef MOTET_LANE_H
#define MOTET_LANE_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/transport.h"

#define MOTET_LANE_OUTPUT (512u * 1024) /* bytes that may wait for the stream; a power of two, several frames of the largest size */
#define MOTET_LANE_INPUT  (16u * 1024)  /* bytes read ahead: headers and small payloads */

/* What precedes the payload on the wire; both ends have the same byte order (the greeting proves it). */
struct motet_put {
    uint32_t magic;
    uint32_t len;         /* payload bytes, at most MOTET_PUT_MAX */
    uint64_t key, offset; /* where the payload goes */
    uint64_t word_offset; /* where `word` goes after it, a multiple of 8; UINT64_MAX: nowhere */
    uint64_t word;
};

#define MOTET_PUT_MAGIC 0x7470746du /* "mtpt" */

struct motet_lane {
    const struct motet_transport *transport;
    struct motet_channel *channel;
    int index;

    pthread_mutex_t output_lock;
    char *output; /* ring of MOTET_LANE_OUTPUT bytes */
    uint64_t output_read, output_written;
    _Atomic(_Bool) pending;     /* output waits: whoever may should flush */
    _Atomic(_Bool) armed;       /* kept by the owner: somebody is waiting for the stream to take more */
    _Atomic(_Bool) room_wanted; /* a put was refused: whoever makes room should wake this process */

    pthread_mutex_t input_lock;
    char *input; /* input_at .. input_len: read from the stream and not looked at yet */
    size_t input_at, input_len;
    struct motet_put frame; /* the frame whose payload is arriving */
    bool in_payload;
    size_t payload_taken;
};

motetResult_t motet_lane_open(struct motet_lane *lane, const struct motet_transport *transport, struct motet_channel *channel,
                              int index);

/* Frees the buffers, not the channel. */
void motet_lane_close(struct motet_lane *lane);

/* Sends one frame (magic is filled in here): 1 = taken whole, 0 = no room now (room_wanted is set), negative errno = the connection is
 * gone. Thread safe. */
int motet_lane_put(struct motet_lane *lane, struct motet_put *frame, const void *bytes);

/* Sends what waits: 1 = something went, 0 = nothing, negative errno = gone. Thread safe. */
int motet_lane_flush(struct motet_lane *lane);

/* Reads what has arrived and carries it out: 1 = something arrived, 0 = nothing (or another thread is reading), negative errno = gone;
 * -EBADMSG: a frame made no sense. Thread safe. */
int motet_lane_read(struct motet_lane *lane);

#endif
