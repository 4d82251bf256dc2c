/* SPDX-License-Identifier: Apache-2.0
 * The public stream, event and group calls. */
#include "stream.h"

#include "base/error.h"
#include "base/settings.h"
#include "group.h"

motetResult_t motetGroupStart(void)
{
    return motet_group_start();
}

motetResult_t motetGroupEnd(void)
{
    return motet_group_end();
}

motetResult_t motetStreamCreate(motetStream_t *stream)
{
    if (!stream)
        return motet_fail(motetInvalidArgument, "StreamCreate: stream is NULL");
    TRY(motet_settings_load());
    return motet_stream_create(stream);
}

motetResult_t motetStreamDestroy(motetStream_t stream)
{
    if (!stream)
        return motetSuccess;
    TRY(motet_stream_check(stream, "StreamDestroy"));
    return motet_stream_destroy(stream);
}

motetResult_t motetStreamQuery(motetStream_t stream)
{
    if (!stream)
        return motetSuccess;
    TRY(motet_stream_check(stream, "StreamQuery"));
    return motet_stream_query(stream);
}

motetResult_t motetStreamSynchronize(motetStream_t stream)
{
    if (!stream)
        return motetSuccess;
    TRY(motet_stream_check(stream, "StreamSynchronize"));
    return motet_stream_synchronize(stream);
}

motetResult_t motetLaunchHostFunc(motetStream_t stream, motetHostFn_t fn, void *userData)
{
    if (!fn)
        return motet_fail(motetInvalidArgument, "LaunchHostFunc: fn is NULL");
    if (!stream) {
        fn(userData);
        return motetSuccess;
    }
    TRY(motet_stream_check(stream, "LaunchHostFunc"));
    return motet_stream_call(stream, fn, userData);
}

motetResult_t motetStreamWaitEvent(motetStream_t stream, motetEvent_t event)
{
    if (stream)
        TRY(motet_stream_check(stream, "StreamWaitEvent"));
    return motet_stream_wait_event(stream, event);
}

motetResult_t motetEventCreate(motetEvent_t *event)
{
    if (!event)
        return motet_fail(motetInvalidArgument, "EventCreate: event is NULL");
    return motet_event_create(event);
}

motetResult_t motetEventDestroy(motetEvent_t event)
{
    return event ? motet_event_destroy(event) : motetSuccess;
}

motetResult_t motetEventRecord(motetEvent_t event, motetStream_t stream)
{
    if (stream)
        TRY(motet_stream_check(stream, "EventRecord"));
    return motet_event_record(event, stream);
}

motetResult_t motetEventQuery(motetEvent_t event)
{
    return motet_event_query(event);
}

motetResult_t motetEventSynchronize(motetEvent_t event)
{
    return motet_event_synchronize(event);
}

motetResult_t motetEventElapsedTime(float *milliseconds, motetEvent_t start, motetEvent_t end)
{
    if (!milliseconds)
        return motet_fail(motetInvalidArgument, "EventElapsedTime: milliseconds is NULL");
    return motet_event_elapsed(milliseconds, start, end);
}
