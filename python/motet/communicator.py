# SPDX-License-Identifier: Apache-2.0
"""Communicators: this rank's end of a group of ranks, and everything that the ranks do together.

Buffers are anything contiguous in CPU memory (buffers.py). An operation without a stream is complete when it returns and returns its
output; with a stream it returns a Future at once. Inside `group()` operations start together at its end.
"""
from __future__ import annotations

import ctypes
import threading
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Protocol, Sequence, Tuple, Type, Union

from . import errors
from ._library import STORE_GET, STORE_SET, Config, Status, Store, lib
from .buffers import View
from .streams import Future, Stream
from .types import DataType, ReduceOp

ANY_SOURCE = -1
ANY_TAG = -1

Buffer = Any  # buffer protocol or DLPack
Output = Any  # the output buffer, or a Future of it


class KeyValueStore(Protocol):
    """What Communicator.from_store needs. get waits until the key is there, or raises after timeout seconds (0: asks once)."""

    def set(self, key: str, value: bytes) -> None: ...  # noqa: D102

    def get(self, key: str, timeout: float) -> bytes: ...  # noqa: D102


class Received(NamedTuple):
    """What a tagged receive got; length in elements."""

    source: int
    tag: int
    length: int


class Scaled:
    """An operation made by Communicator.premul_sum."""

    def __init__(self, comm: Communicator, value: int) -> None:
        self._comm, self.value = comm, value


Op = Union[ReduceOp, Scaled, str]


class _Group(threading.local):
    """What this thread has collected: buffers live until the group is launched."""

    depth = 0
    views: List[View] = []


_open = _Group()


@contextmanager
def group() -> Iterator[None]:
    """Operations called inside start together when the outermost group ends, and those without a stream are then complete.

    Sends and receives of one group never wait for each other. If the body raises, nothing of the group starts.
    """
    errors.check(lib.motetGroupStart(), "group")
    if _open.depth == 0:
        _open.views = []
    _open.depth += 1
    failed = True
    try:
        yield
        failed = False
    finally:
        if failed:
            lib.motetSend(None, 0, 0, 0, None, None)  # refused, and with it the whole group
        _open.depth -= 1
        code = lib.motetGroupEnd()
        if _open.depth == 0:
            _open.views = []
    if not failed:
        errors.check(code, "group")


def config(
    name: Optional[str] = None,
    timeout: Optional[float] = None,
    init_timeout: Optional[float] = None,
    warn_after: Optional[float] = None,
) -> Config:
    """Options of a communicator; times in seconds, 0 is never, None takes the environment's value."""
    values: Dict[str, Any] = {} if name is None else {"commName": name.encode()}
    for field, seconds in (("timeoutMs", timeout), ("initTimeoutMs", init_timeout), ("warnAfterMs", warn_after)):
        if seconds is not None:
            values[field] = max(1, int(seconds * 1000)) if seconds > 0 else 0
    return Config(**values)


def _callbacks(store: KeyValueStore, caught: List[BaseException]) -> Store:
    """The C form of a Python store. An exception ends the init and is raised there."""

    def put(_context: Any, key: bytes, value: int, size: int) -> int:
        try:
            store.set(key.decode(), ctypes.string_at(value, size))
            return 0
        except BaseException as error:  # noqa: BLE001 - nothing may pass through C
            caught.append(error)
            return 2

    def get(_context: Any, key: bytes, value: int, capacity: int, size: Any, timeout_ms: int) -> int:
        try:
            found = store.get(key.decode(), timeout_ms / 1000)
        except (TimeoutError, KeyError):
            return 1
        except BaseException as error:  # noqa: BLE001
            caught.append(error)
            return 2
        if len(found) > capacity:
            return 2
        ctypes.memmove(value, found, len(found))
        size[0] = len(found)
        return 0

    return Store(None, STORE_SET(put), STORE_GET(get))


def _sizes(values: Optional[Sequence[int]]) -> Any:
    return None if values is None else (ctypes.c_size_t * len(values))(*values)


class Communicator:
    """One rank's end of a communicator. A context manager: leaving it destroys it, or aborts it when an exception passes.

    rank, size, name: who this is. error: what is wrong with it, None if nothing.
    """

    def __init__(self, handle: int, name: str = "", keep: Any = None) -> None:
        rank, size = ctypes.c_int(), ctypes.c_int()
        self._handle: Optional[int] = handle
        lib.motetCommUserRank(handle, rank)
        lib.motetCommCount(handle, size)
        self.rank, self.size, self.name = rank.value, size.value, name
        self._keep = keep

    # ---- making and ending

    @classmethod
    def from_env(cls, **options: Any) -> Communicator:
        """All ranks that a launcher (motet run, torchrun, mpirun, srun) started; alone: one rank. Options: see config()."""
        handle = ctypes.c_void_p()
        errors.check(lib.motetCommInitEnv(handle, ctypes.byref(config(**options))), "init")
        return cls(_value(handle), options.get("name") or "world")

    @classmethod
    def from_directory(cls, directory: str, size: int, rank: int, **options: Any) -> Communicator:
        """Ranks that meet in a directory, which must be new for this communicator."""
        handle = ctypes.c_void_p()
        code = lib.motetCommInitFile(handle, size, directory.encode(), rank, ctypes.byref(config(**options)))
        errors.check(code, "init", rank)
        return cls(_value(handle), options.get("name") or "world")

    @classmethod
    def from_store(cls, store: KeyValueStore, size: int, rank: int, **options: Any) -> Communicator:
        """Ranks that meet over a key-value store, under a prefix that no other communicator uses."""
        handle, caught = ctypes.c_void_p(), []  # type: ctypes.c_void_p, List[BaseException]
        callbacks = _callbacks(store, caught)
        code = lib.motetCommInitStore(handle, size, ctypes.byref(callbacks), rank, ctypes.byref(config(**options)))
        if code != errors.SUCCESS:
            error = errors.make(code, "init", rank)
            raise error from (caught[0] if caught else None)
        return cls(_value(handle), options.get("name") or "world", keep=(store, callbacks))

    @classmethod
    def in_process(cls, size: int) -> List[Communicator]:
        """All ranks of a communicator in this process, each to be driven by a thread of its own."""
        handles = (ctypes.c_void_p * size)()
        errors.check(lib.motetCommInitAll(handles, size, None), "init")
        return [cls(handle or 0, "world") for handle in handles]

    def split(self, color: Optional[int], key: Optional[int] = None, **options: Any) -> Optional[Communicator]:
        """Ranks of equal color form a new communicator, ordered by key (default: rank). Collective. Color None: no new one here."""
        handle = ctypes.c_void_p()
        given = ctypes.byref(config(**options)) if options else None
        code = lib.motetCommSplit(self._live(), -1 if color is None else color, self.rank if key is None else key, handle, given)
        self._check(code, "split")
        return Communicator(_value(handle), options.get("name") or self.name, keep=self._keep) if handle.value else None

    def shrink(self, exclude: Sequence[int], abort: bool = False, **options: Any) -> Communicator:
        """The ranks that are not in `exclude`, which alone call it; this communicator may have failed. abort: ends its operations."""
        handle, ranks = ctypes.c_void_p(), (ctypes.c_int * len(exclude))(*exclude)
        given = ctypes.byref(config(**options)) if options else None
        code = lib.motetCommShrink(self._live(), ranks, len(exclude), handle, given, int(abort))
        self._check(code, "shrink")
        return Communicator(_value(handle), options.get("name") or self.name, keep=self._keep)

    def revoke(self) -> None:
        """Ends operations on it on all ranks; shrink, split, destroy and abort remain. Any thread."""
        self._check(lib.motetCommRevoke(self._live(), 0), "revoke")

    def destroy(self) -> None:
        """Completes this rank's operations, says goodbye, and frees it. Again: nothing."""
        if self._handle:
            handle, self._handle = self._handle, None
            errors.check(lib.motetCommDestroy(handle), "destroy", self.rank)

    def abort(self) -> None:
        """Ends it at once, from any thread: calls blocked in others raise, other ranks see RemoteError."""
        if self._handle:
            handle, self._handle = self._handle, None
            errors.check(lib.motetCommAbort(handle), "abort", self.rank)

    @property
    def error(self) -> Optional[errors.MotetError]:
        """What is wrong with the communicator, or None."""
        code = ctypes.c_int()
        handle = self._live()
        errors.check(lib.motetCommGetAsyncError(handle, code), "error", self.rank)
        if code.value in (errors.SUCCESS, errors.IN_PROGRESS):
            return None
        return errors.make(code.value, "error", self.rank, handle)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.destroy()
        else:
            self.abort()

    def __repr__(self) -> str:
        return f"<motet.Communicator {self.name!r}: rank {self.rank} of {self.size}{'' if self._handle else ', closed'}>"

    def __len__(self) -> int:
        return self.size

    def _live(self) -> int:
        if not self._handle:
            raise errors.InvalidUsage(5, f"communicator {self.name!r} is closed", rank=self.rank)
        return self._handle

    def _check(self, code: int, operation: str) -> None:
        errors.check(code, operation, self.rank)

    # ---- how every operation is called

    def _call(self, name: str, arguments: Tuple[Any, ...], stream: Optional[Stream], views: List[View], value: Any) -> Output:
        """motet<Name>(arguments, comm, stream): the output, or a Future of it."""
        code = getattr(lib, "motet" + name)(*arguments, self._live(), stream and stream._handle)
        if code != errors.SUCCESS:
            raise errors.make(code, name, self.rank)
        if _open.depth:
            _open.views += views
            if stream is None:
                return value
        if stream is None:
            for view in views:
                view.release()
            return value
        return stream._add(Future(stream, name, self.rank, views, value))

    def _op(self, op: Op) -> int:
        if isinstance(op, str):
            op = ReduceOp[op.upper()]
        return int(op.value)

    def _pair(
        self, name: str, send: Optional[Buffer], recv: Optional[Buffer], dtype: Optional[DataType], blocks: Tuple[int, int]
    ) -> Tuple[View, View, int]:
        """Views of an input of blocks[0] and an output of blocks[1] times `count` elements."""
        if send is None and recv is None:
            raise ValueError(f"{name} needs a buffer")
        given = View(recv if send is None else send, writable=recv is None or send is None, dtype=dtype)
        out = given if recv is None or send is None else View(recv, writable=True, dtype=dtype)
        if given.dtype != out.dtype:
            raise TypeError(f"{name}: the input is {given.dtype.name}, the output {out.dtype.name}")
        count, rest = divmod(given.count, blocks[0])
        if rest or (out is not given and out.count != count * blocks[1]):
            raise ValueError(f"{name} of {self.size} ranks: {given.count} elements in, {out.count} out do not fit together")
        return given, out, count

    # ---- collectives

    def all_reduce(
        self, send: Buffer, recv: Optional[Buffer] = None, op: Op = "sum",
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """Combines the buffers of all ranks, in `recv` or in place."""
        i, o, n = self._pair("all_reduce", send, recv, dtype, (1, 1))
        return self._call("AllReduce", (i.pointer, o.pointer, n, i.dtype, self._op(op)), stream, [i, o], send if recv is None else recv)

    def reduce(
        self, send: Buffer, recv: Optional[Buffer] = None, op: Op = "sum", root: int = 0,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """Combines the buffers of all ranks at root; other ranks' outputs stay untouched."""
        i, o, n = self._pair("reduce", send, recv, dtype, (1, 1))
        arguments = (i.pointer, o.pointer, n, i.dtype, self._op(op), root)
        return self._call("Reduce", arguments, stream, [i, o], send if recv is None else recv)

    def broadcast(
        self, buffer: Buffer, root: int = 0, stream: Optional[Stream] = None, dtype: Optional[DataType] = None
    ) -> Output:
        """Root's buffer to every rank, in place."""
        view = View(buffer, writable=self.rank != root, dtype=dtype)
        return self._call("Broadcast", (view.pointer, view.pointer, view.count, view.dtype, root), stream, [view], buffer)

    def all_gather(
        self, send: Buffer, recv: Buffer, stream: Optional[Stream] = None, dtype: Optional[DataType] = None
    ) -> Output:
        """Every rank's buffer, in rank order, on every rank."""
        i, o, n = self._pair("all_gather", send, recv, dtype, (1, self.size))
        return self._call("AllGather", (i.pointer, o.pointer, n, i.dtype), stream, [i, o], recv)

    def reduce_scatter(
        self, send: Buffer, recv: Buffer, op: Op = "sum", stream: Optional[Stream] = None, dtype: Optional[DataType] = None
    ) -> Output:
        """Combines the buffers of all ranks; rank r gets block r."""
        i, o, n = self._pair("reduce_scatter", send, recv, dtype, (self.size, 1))
        return self._call("ReduceScatter", (i.pointer, o.pointer, n, i.dtype, self._op(op)), stream, [i, o], recv)

    def all_to_all(
        self, send: Buffer, recv: Buffer, stream: Optional[Stream] = None, dtype: Optional[DataType] = None
    ) -> Output:
        """Block p goes to rank p, block p comes from rank p."""
        i, o, n = self._pair("all_to_all", send, recv, dtype, (self.size, self.size))
        return self._call("AlltoAll", (i.pointer, o.pointer, n, i.dtype), stream, [i, o], recv)

    def gather(
        self, send: Buffer, recv: Optional[Buffer] = None, root: int = 0,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """Every rank's buffer, in rank order, in root's `recv`, which other ranks leave out."""
        if self.rank == root and recv is None:
            raise ValueError("gather: root needs recv")
        i = View(send, dtype=dtype)
        o = View(recv, writable=True, dtype=dtype) if self.rank == root else None
        if o and o.count != i.count * self.size:
            raise ValueError(f"gather of {self.size} ranks: {i.count} elements in, {o.count} out")
        arguments = (i.pointer, o and o.pointer, i.count, i.dtype, root)
        return self._call("Gather", arguments, stream, [i, o] if o else [i], recv)

    def scatter(
        self, send: Optional[Buffer], recv: Buffer, root: int = 0,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """Block r of root's `send`, which other ranks give as None, to rank r."""
        if self.rank == root and send is None:
            raise ValueError("scatter: root needs send")
        o = View(recv, writable=True, dtype=dtype)
        i = View(send, dtype=dtype) if self.rank == root else None
        if i and i.count != o.count * self.size:
            raise ValueError(f"scatter of {self.size} ranks: {i.count} elements in, {o.count} out")
        arguments = (i and i.pointer, o.pointer, o.count, o.dtype, root)
        return self._call("Scatter", arguments, stream, [i, o] if i else [o], recv)

    def barrier(self, stream: Optional[Stream] = None) -> Output:
        """Completes on no rank before every rank has called."""
        return self._call("Barrier", (), stream, [], None)

    # ---- blocks of different lengths; counts and displacements in elements, displacements None: packed

    def all_gather_v(
        self, send: Buffer, recv: Buffer, counts: Sequence[int], displacements: Optional[Sequence[int]] = None,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """all_gather with counts[r] elements from rank r; counts are the same on all ranks."""
        i, o = View(send, dtype=dtype), View(recv, writable=True, dtype=dtype)
        self._fits("all_gather_v", o, counts, displacements)
        arguments = (i.pointer, i.count, o.pointer, _sizes(counts), _sizes(displacements), i.dtype)
        return self._call("AllGatherV", arguments, stream, [i, o], recv)

    def reduce_scatter_v(
        self, send: Buffer, recv: Buffer, counts: Sequence[int], op: Op = "sum",
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """reduce_scatter with counts[r] elements for rank r; counts are the same on all ranks."""
        i, o = View(send, dtype=dtype), View(recv, writable=True, dtype=dtype)
        self._fits("reduce_scatter_v", i, counts, None)
        if o.count < counts[self.rank]:
            raise ValueError(f"reduce_scatter_v: recv has {o.count} elements, {counts[self.rank]} come")
        return self._call("ReduceScatterV", (i.pointer, o.pointer, _sizes(counts), i.dtype, self._op(op)), stream, [i, o], recv)

    def all_to_all_v(
        self, send: Buffer, send_counts: Sequence[int], recv: Buffer, recv_counts: Sequence[int],
        send_displacements: Optional[Sequence[int]] = None, recv_displacements: Optional[Sequence[int]] = None,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """all_to_all with send_counts[p] elements to and recv_counts[p] from rank p."""
        i, o = View(send, dtype=dtype), View(recv, writable=True, dtype=dtype)
        self._fits("all_to_all_v", i, send_counts, send_displacements)
        self._fits("all_to_all_v", o, recv_counts, recv_displacements)
        sent = (i.pointer, _sizes(send_counts), _sizes(send_displacements))
        received = (o.pointer, _sizes(recv_counts), _sizes(recv_displacements))
        return self._call("AlltoAllV", (*sent, *received, i.dtype), stream, [i, o], recv)

    def gather_v(
        self, send: Buffer, recv: Optional[Buffer] = None, counts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None, root: int = 0,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """gather with counts[r] elements from rank r; recv, counts and displacements at root only."""
        i, views = View(send, dtype=dtype), []  # type: View, List[View]
        if self.rank == root:
            views.append(View(recv, writable=True, dtype=dtype))
            self._fits("gather_v", views[0], counts or (), displacements)
        pointer = views[0].pointer if views else None
        arguments = (i.pointer, i.count, pointer, _sizes(counts), _sizes(displacements), i.dtype, root)
        return self._call("GatherV", arguments, stream, [i, *views], recv)

    def scatter_v(
        self, send: Optional[Buffer], recv: Buffer, counts: Optional[Sequence[int]] = None,
        displacements: Optional[Sequence[int]] = None, root: int = 0,
        stream: Optional[Stream] = None, dtype: Optional[DataType] = None,
    ) -> Output:  # fmt: skip
        """scatter with counts[r] elements for rank r; send, counts and displacements at root only."""
        o, views = View(recv, writable=True, dtype=dtype), []  # type: View, List[View]
        if self.rank == root:
            views.append(View(send, dtype=dtype))
            self._fits("scatter_v", views[0], counts or (), displacements)
        pointer = views[0].pointer if views else None
        arguments = (pointer, _sizes(counts), _sizes(displacements), o.pointer, o.count, o.dtype, root)
        return self._call("ScatterV", arguments, stream, [o, *views], recv)

    def _fits(self, name: str, view: View, counts: Sequence[int], displacements: Optional[Sequence[int]]) -> None:
        if len(counts) != self.size or (displacements is not None and len(displacements) != self.size):
            raise ValueError(f"{name}: counts and displacements have an entry for each of the {self.size} ranks")
        end = sum(counts) if displacements is None else max(d + n for d, n in zip(displacements, counts))
        if end > view.count or min(counts) < 0:
            raise ValueError(f"{name}: the blocks end at element {end}, the buffer has {view.count}")

    # ---- point to point

    def send(
        self, buffer: Buffer, peer: int, tag: Optional[int] = None, stream: Optional[Stream] = None, dtype: Optional[DataType] = None
    ) -> Output:
        """Sends to peer; complete when the buffer may be reused."""
        view = View(buffer, dtype=dtype)
        head = (view.pointer, view.count, view.dtype, peer)
        return self._call("Send" if tag is None else "SendTag", head if tag is None else (*head, tag), stream, [view], buffer)

    def recv(
        self, buffer: Buffer, peer: int, stream: Optional[Stream] = None, dtype: Optional[DataType] = None
    ) -> Output:
        """Receives the next message without a tag from peer, which must have exactly this many elements."""
        view = View(buffer, writable=True, dtype=dtype)
        return self._call("Recv", (view.pointer, view.count, view.dtype, peer), stream, [view], buffer)

    def recv_tag(self, buffer: Buffer, peer: int = ANY_SOURCE, tag: int = ANY_TAG, dtype: Optional[DataType] = None) -> Received:
        """Receives a tagged message of at most this many elements; says what came. Not inside a group."""
        if _open.depth:
            raise errors.InvalidUsage(5, "recv_tag inside a group: what came is known only at the group's end", "recv_tag", self.rank)
        view, status = View(buffer, writable=True, dtype=dtype), Status()
        arguments = (view.pointer, view.count, view.dtype, peer, tag, ctypes.addressof(status))
        self._call("RecvTag", arguments, None, [view], None)
        return Received(status.source, status.tag, status.count)

    # ---- operations

    def premul_sum(self, factor: Union[int, float, complex], dtype: DataType) -> Scaled:
        """An operation: the sum of each rank's elements times its own factor. It works for this communicator and type."""
        scalar = _scalar(factor, DataType(dtype))
        op = ctypes.c_int()
        code = lib.motetRedOpCreatePreMulSum(op, scalar, int(dtype), 1, self._live())
        self._check(code, "premul_sum")
        return Scaled(self, op.value)


def _scalar(factor: Union[int, float, complex], dtype: DataType) -> bytes:
    """One element."""
    import struct

    formats = {
        DataType.INT8: "b", DataType.UINT8: "B", DataType.INT16: "h", DataType.UINT16: "H", DataType.INT32: "i",
        DataType.UINT32: "I", DataType.INT64: "q", DataType.UINT64: "Q", DataType.FLOAT16: "e", DataType.FLOAT32: "f",
        DataType.FLOAT64: "d",
    }  # fmt: skip
    if dtype in formats:
        return struct.pack(formats[dtype], factor)
    if dtype in (DataType.COMPLEX64, DataType.COMPLEX128):
        number = complex(factor)
        return struct.pack("ff" if dtype == DataType.COMPLEX64 else "dd", number.real, number.imag)
    if dtype == DataType.BFLOAT16 and not isinstance(factor, complex):
        bits = struct.unpack("I", struct.pack("f", factor))[0]
        return struct.pack("H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    raise ValueError(f"premul_sum has no factor of type {dtype.name}")


def _value(handle: ctypes.c_void_p) -> int:
    return handle.value or 0
