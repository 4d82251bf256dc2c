# SPDX-License-Identifier: Apache-2.0
"""Work beside the caller: streams, events, and the futures that operations on streams return."""
from __future__ import annotations

import ctypes
import time
from types import TracebackType
from typing import Any, List, Optional, Type

from . import errors
from ._library import lib
from .buffers import View


class Event:
    """A point in a stream; complete until it is recorded."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        errors.check(lib.motetEventCreate(handle), "Event")
        self._handle = handle

    def record(self, stream: Optional[Stream] = None) -> Event:
        """The event is complete when everything called on the stream so far is."""
        errors.check(lib.motetEventRecord(self._handle, stream and stream._handle), "Event.record")
        return self

    def done(self) -> bool:
        """Whether it is complete. Does not block."""
        return bool(lib.motetEventQuery(self._handle) == errors.SUCCESS)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Blocks until it is complete; TimeoutError after `timeout` seconds."""
        if timeout is None:
            errors.check(lib.motetEventSynchronize(self._handle), "Event.wait")
            return
        deadline, pause = time.monotonic() + timeout, 1e-5
        while not self.done():
            if time.monotonic() >= deadline:
                raise TimeoutError(f"not complete after {timeout:g} s")
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def milliseconds_since(self, start: Event) -> float:
        """Time between the completion of two events."""
        result = ctypes.c_float()
        errors.check(lib.motetEventElapsedTime(result, start._handle, self._handle), "Event.milliseconds_since")
        return result.value

    def __repr__(self) -> str:
        return f"<motet.Event {'done' if self.done() else 'pending'}>"

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.motetEventDestroy(self._handle)


class Future:
    """The result of an operation on a stream. It keeps the operation's buffers."""

    def __init__(self, stream: Stream, operation: str, rank: int, views: List[View], value: Any) -> None:
        self._stream, self._operation, self._rank, self._views, self._value = stream, operation, rank, views, value
        self._event = Event().record(stream)

    def done(self) -> bool:
        """Whether the operation is complete. Does not block."""
        return self._event.done()

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Blocks until the operation is complete, then returns its output. Raises the stream's error, or TimeoutError."""
        self._event.wait(timeout)
        code = lib.motetStreamQuery(self._stream._handle)
        if code not in (errors.SUCCESS, errors.IN_PROGRESS):
            raise errors.make(code, self._operation, self._rank)
        return self._value

    result = wait

    def __repr__(self) -> str:
        return f"<motet.Future of {self._operation}: {'done' if self.done() else 'pending'}>"


class Stream:
    """Operations in order on the library's progress thread, while the caller goes on. A context manager; closing waits."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        errors.check(lib.motetStreamCreate(handle), "Stream")
        self._handle: Optional[ctypes.c_void_p] = handle
        self._futures: List[Future] = []

    def _add(self, future: Future) -> Future:
        """Buffers stay until their operation is complete, also when nobody keeps the future."""
        self._futures = [other for other in self._futures if not other.done()]
        self._futures.append(future)
        return future

    def done(self) -> bool:
        """Whether everything on the stream is complete. Does not block; raises the first error since the last synchronize."""
        code = lib.motetStreamQuery(self._handle)
        if code == errors.IN_PROGRESS:
            return False
        errors.check(code, "Stream.done")
        return True

    def synchronize(self) -> None:
        """Blocks until everything on the stream is complete; raises the first error since the last call."""
        code = lib.motetStreamSynchronize(self._handle)
        self._futures.clear()
        errors.check(code, "Stream.synchronize")

    def wait_event(self, event: Event) -> None:
        """Later work of this stream waits for the event."""
        raise_if = lib.motetStreamWaitEvent(self._handle, event._handle)
        errors.check(raise_if, "Stream.wait_event")

    def close(self) -> None:
        """Waits, then frees the stream; raises like synchronize."""
        if self._handle:
            handle, self._handle = self._handle, None
            code = lib.motetStreamDestroy(handle)
            self._futures.clear()
            errors.check(code, "Stream.close")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            self.close()
        except errors.MotetError:
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<motet.Stream{'' if self._handle else ' closed'}>"
