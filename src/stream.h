/* SPDX-License-Identifier: Apache-2.0
 * Streams and events: work in order on the progress thread while callers compute. The progress thread is one per process; it drives the heads
 * of all streams, and waits like any other waiter. */
#ifndef MOTET_STREAM_H
#define MOTET_STREAM_H

#include "queue.h"

motetResult_t motet_stream_create(motetStream_t *stream);
motetResult_t motet_stream_destroy(motetStream_t stream);
motetResult_t motet_stream_query(motetStream_t stream);
motetResult_t motet_stream_synchronize(motetStream_t stream);

/* Appends n operations (already in their communicators' queues) that run side by side, in one place of the stream's order: a call, or what a
 * group has for this stream. The stream owns them. Never blocks. On failure the caller still owns them. */
motetResult_t motet_stream_submit(motetStream_t stream, struct motet_op *const ops[], int n);

/* Whether nothing is on the stream, which is checked here; false, too, if it is none. */
bool motet_stream_is_idle(motetStream_t stream);

/* A small call on an idle stream, and with nothing before it on its communicator, is done here if all peers come in a few microseconds:
 * to hand it over and hear of its end takes longer. Else the progress thread goes on with it. The caller is inside the communicator. */
struct motet_flat;
motetResult_t motet_stream_run_flat(motetStream_t stream, motetComm_t comm, const struct motet_flat *flat, const void *send,
                                    void *recv);

/* Returns when the progress thread touches the communicator, which is idle, no more. */
void motet_stream_forget(motetComm_t comm);

/* Whether the handle is a live stream. */
motetResult_t motet_stream_check(motetStream_t stream, const char *function);

motetResult_t motet_stream_call(motetStream_t stream, motetHostFn_t fn, void *user_data);
motetResult_t motet_stream_wait_event(motetStream_t stream, motetEvent_t event);

motetResult_t motet_event_create(motetEvent_t *event);
motetResult_t motet_event_destroy(motetEvent_t event);
motetResult_t motet_event_record(motetEvent_t event, motetStream_t stream);
motetResult_t motet_event_query(motetEvent_t event);
motetResult_t motet_event_synchronize(motetEvent_t event);
motetResult_t motet_event_elapsed(float *milliseconds, motetEvent_t start, motetEvent_t end);

#endif
