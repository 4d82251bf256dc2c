# SPDX-License-Identifier: Apache-2.0
"""The backend in Python alone, for versions of torch that no backend was compiled for: a ProcessGroup of torch whose operations call
libmotet. It takes the same calls and gives the same results and errors as backend.cpp, a few microseconds later; what it has not is said in
docs/pytorch.md. It serves CPU tensors only, and a group has no other backend beside it.

Operations run on the calling thread, or with async_op on a stream of the library. A lane is a communicator with the thread that completes
futures. Callbacks of futures call the group one lane deeper than the works they follow, so that every rank calls on each communicator in
one order. A tensor that is not contiguous goes through a copy, which is written back when the work is complete and somebody asks for it
or calls again.
"""
from __future__ import annotations

import ctypes
import queue
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import errors
from .._library import Status, lib
from ..communicator import ANY_SOURCE, Communicator
from ..streams import Event, Stream
from ..types import DataType, ReduceOp
from . import callbacks

LANES = 3  # works, their callbacks, and callbacks of what callbacks called

_DTYPES = {
    torch.int8: DataType.INT8, torch.uint8: DataType.UINT8, torch.int16: DataType.INT16, torch.int32: DataType.INT32,
    torch.int64: DataType.INT64, torch.float16: DataType.FLOAT16, torch.bfloat16: DataType.BFLOAT16, torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT64, torch.bool: DataType.BOOL, torch.complex64: DataType.COMPLEX64, torch.complex128: DataType.COMPLEX128,
}  # fmt: skip
for _name in ("uint16", "uint32", "uint64"):
    if hasattr(torch, _name):
        _DTYPES[getattr(torch, _name)] = DataType[_name.upper()]
for _name in ("e4m3fn", "e5m2"):
    if hasattr(torch, "float8_" + _name):
        _DTYPES[getattr(torch, "float8_" + _name)] = DataType["FLOAT8_" + _name[:4].upper()]

_OPERATIONS = {
    "SUM": ReduceOp.SUM, "PRODUCT": ReduceOp.PROD, "MAX": ReduceOp.MAX, "MIN": ReduceOp.MIN, "AVG": ReduceOp.AVG, "BAND": ReduceOp.BAND,
    "BOR": ReduceOp.BOR, "BXOR": ReduceOp.BXOR,
}  # fmt: skip

_depth = threading.local()
_followed: List[bool] = []


def _get_depth() -> int:
    return getattr(_depth, "value", 0)


def _set_depth(value: int) -> int:
    before, _depth.value = _get_depth(), value
    return before


def _raise(code: int, operation: str, rank: int) -> None:
    """The library's error as torch's class for it."""
    error = errors.make(code, operation, rank)
    kind = getattr(dist, "DistBackendError", RuntimeError) if isinstance(error, (errors.RemoteError, errors.Timeout)) else RuntimeError
    raise kind(f"motet: {operation}: {error}") from error


def _flat(tensor: Any) -> Any:
    """What the library reads or writes for a tensor: itself, or a copy in order."""
    if tensor.device.type != "cpu":
        raise RuntimeError(f"motet works on CPU tensors, this one is on {tensor.device}")
    if tensor.dtype not in _DTYPES:
        raise RuntimeError(f"motet has no type {tensor.dtype}")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _check(right: bool, what: str) -> None:
    if not right:
        raise RuntimeError(f"motet: {what}")


def _check_types(name: str, given: Any, output: Any) -> None:
    _check(given.dtype == output.dtype, f"{name}: the input is {given.dtype}, the output {output.dtype}")


def _write_back(pairs: Sequence[Any]) -> Optional[Callable[[], None]]:
    """Copies (tensor, what was worked on) back, where that is another."""
    others = [(tensor.detach(), flat) for tensor, flat in pairs if tensor.data_ptr() != flat.data_ptr()]
    if not others:
        return None
    for tensor, _ in others:
        expanded = any(stride == 0 and length > 1 for stride, length in zip(tensor.stride(), tensor.shape))
        _check(not expanded, "an output whose elements share memory (expanded) cannot be written")

    def copy() -> None:
        for tensor, flat in others:
            tensor.copy_(flat.view(tensor.shape))

    return copy


def _operation_name(op: Any) -> str:
    """A ReduceOp's."""
    return str(getattr(op, "op", op)).rpartition(".")[2]


_TorchWork: Any = dist.Work


class _Work(_TorchWork):  # type: ignore[misc]
    """One operation. `finish` writes outputs back, once; `keep` lives until then."""

    def __init__(self, lane: _Lane, operation: str, outputs: List[Any], finish: Optional[Callable[[], None]], keep: Any, stream: Optional[Stream]) -> None:
        super().__init__()
        self._lane, self._operation, self._outputs, self._finish, self._keep, self._stream = lane, operation, outputs, finish, keep, stream
        self._event = Event().record(stream) if stream else None
        self._once = threading.Lock()
        self._settled = stream is None
        self._error: Optional[Exception] = None
        self._future: Any = None
        self._status: Optional[Status] = None
        if not stream and finish:
            finish()

    def _settle(self) -> None:
        """Once, when the operation is complete: it has its error, or its outputs are written."""
        with self._once:
            if self._settled:
                return
            code = lib.motetStreamSynchronize(self._stream._handle) if self._stream else errors.SUCCESS
            try:
                if code != errors.SUCCESS:
                    _raise(code, self._operation, self._lane.comm.rank)
                if self._finish:
                    self._finish()
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                self._error = error
            self._finish = self._keep = None
            self._settled = True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if self._event:
            try:
                self._event.wait(timeout.total_seconds() or None)
            except TimeoutError:
                raise RuntimeError(f"Timed out waiting {timeout} for {self._operation}") from None
            self._settle()
        if self._error:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        done = self._event is None or self._event.done()
        if done:
            self._settle()
        return done

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def result(self) -> List[Any]:
        return self._outputs

    def _source_rank(self) -> int:
        self.wait()
        return self._status.source if self._status else -1

    source_rank = _source_rank

    def get_future(self) -> Any:
        """Complete soon after the operation is, on the lane's thread, in the order of calls."""
        if self._future is None:
            self._future = torch.futures.Future()
            self._lane.follow(self)
        return self._future

    def complete_future(self) -> None:
        try:
            self.wait()
        except Exception as error:  # noqa: BLE001 - whoever waits for the future gets it
            self._future.set_exception(error)
        else:
            self._future.set_result(self._outputs)


class _Lane:
    """A communicator, which takes one call at a time, and the thread that completes the futures of its works."""

    def __init__(self, comm: Communicator, depth: int) -> None:
        self.comm, self._level = comm, depth
        self.call = threading.Lock()
        self._works: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def follow(self, work: _Work) -> None:
        """The work's future will be completed: by the lane's thread, at once where that is the caller."""
        if self._thread is threading.current_thread():
            work.complete_future()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="motet futures", daemon=True)
            self._thread.start()
        self._works.put(work)

    def _serve(self) -> None:
        _set_depth(self._level)
        for work in iter(self._works.get, None):
            work.complete_future()

    def close(self, abort: bool) -> None:
        """All works are complete, or given up."""
        if abort:
            self.comm.abort()
        if self._thread:
            self._works.put(None)
            if self._thread is not threading.current_thread():
                self._thread.join(10)
        if not abort:
            self.comm.destroy()


_ProcessGroup: Any = dist.ProcessGroup  # its overloads differ from version to version


class Group(_ProcessGroup):  # type: ignore[misc]
    """What init_process_group("motet") and new_group give without a compiled backend."""

    def __init__(self, store: Any, comm: Communicator, messages: Communicator) -> None:
        super().__init__(comm.rank, comm.size)
        self._rank, self._size, self._name, self._description, self._store = comm.rank, comm.size, comm.name, "", store
        deeper = (comm.split(0, name=f"{comm.name} callbacks {depth}") for depth in range(1, LANES))
        self._lanes = [_Lane(each, depth) for depth, each in enumerate((comm, *deeper)) if each]
        self._messages = _Lane(messages, 0)
        self._idle: List[Stream] = []
        self._under_way: List[Any] = []
        self._lock = threading.Lock()
        self._sequence = 0
        self._closed = False

    # ---- who it is

    def getBackendName(self) -> str:
        return "motet"

    _get_backend_name = name = getBackendName

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:
        return self._description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def _get_backend(self, device: Any) -> Any:
        return self

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def set_timeout(self, timeout: timedelta) -> None:
        raise RuntimeError("motet's timeout is given when a group is made")

    # ---- how an operation runs

    def _run(
        self, name: str, arguments: Sequence[Any], opts: Any, outputs: List[Any],
        finish: Optional[Callable[[], None]] = None, keep: Any = None,
    ) -> _Work:  # fmt: skip
        """motet<name>(arguments, comm, stream) on the lane of this thread."""
        lane = self._lanes[min(_get_depth(), len(self._lanes) - 1)]
        # Callers of old interfaces, DistributedDataParallel among them, say nothing and expect a work that goes on by itself.
        stream = self._take_stream() if getattr(opts, "asyncOp", True) else None
        self._sequence += 1
        with lane.call:
            code = getattr(lib, "motet" + name)(*arguments, lane.comm._live(), stream and stream._handle)
        if code != errors.SUCCESS:
            _raise(code, name, self._rank)
        return self._keep(_Work(lane, name, outputs, finish, keep, stream))

    def _take_stream(self) -> Stream:
        """Every work has a stream of its own, and so its own error; the communicator keeps the order of calls."""
        with self._lock:
            done = [work for work in self._under_way if work._event.done()]
            self._under_way = [work for work in self._under_way if work not in done]
        for work in done:
            work._settle()
        with self._lock:
            for work in done:
                self._idle.append(work._stream)
                work._stream = None
            return self._idle.pop() if self._idle else Stream()

    def _keep(self, work: _Work) -> _Work:
        """Its tensors live until it is complete, also when nobody keeps the work."""
        if work._stream:
            with self._lock:
                self._under_way.append(work)
        return work

    @contextmanager
    def _operation(self, op: Any, dtype: Any) -> Iterator[int]:
        """The library's number of a reduction."""
        name = _operation_name(op)
        if name in _OPERATIONS:
            yield int(_OPERATIONS[name])
        elif name == "PREMUL_SUM":
            lane = self._lanes[min(_get_depth(), len(self._lanes) - 1)]
            scaled = lane.comm.premul_sum(op.__getstate__()[1], _DTYPES[dtype])
            yield scaled.value
            lib.motetRedOpDestroy(scaled.value, lane.comm._live())
        else:
            raise RuntimeError(f"motet has no operation {op}")

    @staticmethod
    def _one(tensors: Sequence[Any]) -> Any:
        _check(len(tensors) == 1, f"one tensor per rank, not {len(tensors)}")
        return tensors[0]

    # ---- collectives

    def allreduce(self, tensors: List[Any], opts: Any = None) -> _Work:
        tensor = self._one(tensors)
        if tensor.is_sparse:
            return self._allreduce_sparse(tensor, opts)
        flat = _flat(tensor)
        with self._operation(getattr(opts, "reduceOp", "SUM"), tensor.dtype) as op:
            arguments = (flat.data_ptr(), flat.data_ptr(), flat.numel(), _DTYPES[flat.dtype], op)
            return self._run("AllReduce", arguments, opts, [tensor], _write_back([(tensor, flat)]), flat)

    def _allreduce_sparse(self, tensor: Any, opts: Any) -> _Work:
        """Everybody's elements one after another, then added up here."""
        _check(_operation_name(getattr(opts, "reduceOp", "SUM")) == "SUM", "sparse all_reduce supports SUM only")
        tensor_here = tensor.coalesce()
        shape = torch.tensor([tensor_here.sparse_dim(), *tensor_here.shape])
        shapes = [torch.zeros_like(shape) for _ in range(self._size)]
        self.allgather([shapes], [shape]).wait()
        same = all(other.equal(shape) for other in shapes)
        _check(same, "sparse all_reduce: the tensors of the ranks have different shapes")
        indices, values = tensor_here.indices().t().contiguous(), tensor_here.values().contiguous()
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self._size)]
        self.allgather([counts], [torch.tensor([indices.shape[0]])]).wait()
        places = [indices.new_empty((int(n), indices.shape[1])) for n in counts]
        parts = [values.new_empty((int(n), *values.shape[1:])) for n in counts]
        self.allgather([places], [indices]).wait()
        work = self.allgather([parts], [values])
        work.wait()
        total = torch.sparse_coo_tensor(torch.cat(places).t(), torch.cat(parts), tensor.shape).coalesce()
        tensor.copy_(total)
        work._outputs = [tensor]
        return work

    allreduce_sparse = allreduce

    def allreduce_coalesced(self, tensors: List[Any], opts: Any = None) -> _Work:
        return self._each(lambda tensor, _, its: self.allreduce([tensor], its), tensors, tensors, opts)

    @staticmethod
    def _after(work: _Work, outputs: List[Any], finish: Optional[Callable[[], None]]) -> _Work:
        """The work has these outputs, which are written when it is complete."""
        work._outputs = outputs
        if finish:
            if work._event is None:
                finish()
            else:
                before = work._finish
                work._finish = lambda: (before() if before else None, finish())[1]
        return work

    def reduce(self, tensors: List[Any], opts: Any) -> _Work:
        tensor = self._one(tensors)
        flat = _flat(tensor)
        pairs = [(tensor, flat)] if opts.rootRank == self._rank else []
        with self._operation(opts.reduceOp, tensor.dtype) as op:
            arguments = (flat.data_ptr(), flat.data_ptr(), flat.numel(), _DTYPES[flat.dtype], op, opts.rootRank)
            return self._run("Reduce", arguments, opts, [tensor], _write_back(pairs), flat)

    def broadcast(self, tensors: List[Any], opts: Any) -> _Work:
        tensor = self._one(tensors)
        flat = _flat(tensor)
        pairs = [(tensor, flat)] if opts.rootRank != self._rank else []
        arguments = (flat.data_ptr(), flat.data_ptr(), flat.numel(), _DTYPES[flat.dtype], opts.rootRank)
        return self._run("Broadcast", arguments, opts, [tensor], _write_back(pairs), flat)

    def barrier(self, opts: Any = None) -> _Work:
        return self._run("Barrier", (), opts, [])

    def _per_rank(self, name: str, tensors: Sequence[Any]) -> List[int]:
        """The lengths of a list of outputs or inputs: one for each rank, all of one type."""
        _check(len(tensors) == self._size, f"{name} needs a list of {self._size} tensors, one per rank, not of {len(tensors)}")
        types = {tensor.dtype for tensor in tensors}
        _check(len(types) == 1, f"{name}: tensors of one list must have one type, not {types}")
        return [tensor.numel() for tensor in tensors]

    def _root_only(self, name: str, lists: Sequence[Any], root: int) -> Any:
        """The list that the root alone gives."""
        if root == self._rank:
            return self._one(lists)
        _check(not any(lists), f"{name}: the list of tensors is the root's only")
        return []

    @staticmethod
    def _packed(tensors: Sequence[Any]) -> Any:
        return torch.cat([_flat(tensor).flatten() for tensor in tensors])

    def allgather(self, outputs: List[List[Any]], inputs: List[Any], opts: Any = None) -> _Work:
        given, wanted = _flat(self._one(inputs)), self._one(outputs)
        counts, here = self._per_rank("all_gather", wanted), given.numel()
        _check_types("all_gather", given, wanted[0])
        _check(counts[self._rank] == here, f"all_gather: this rank gives {here} elements, its output has {counts[self._rank]}")
        whole = given.new_empty(sum(counts))
        sizes = (ctypes.c_size_t * len(counts))(*counts)
        arguments = (given.data_ptr(), given.numel(), whole.data_ptr(), sizes, None, _DTYPES[given.dtype])
        finish = _write_back(list(zip(wanted, torch.split(whole, counts))))
        return self._run("AllGatherV", arguments, opts, list(wanted), finish, (given, whole, sizes))

    def _check_single(self, name: str, given: Any, output: Any, fits: bool) -> None:
        _check_types(name, given, output)
        _check(fits, f"{name} of {self._size} ranks: the input has {given.numel()} elements, the output {output.numel()}")

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> _Work:
        given, flat = _flat(given), _flat(output)
        self._check_single("all_gather_into_tensor", given, flat, given.numel() * self._size == flat.numel())
        arguments = (given.data_ptr(), flat.data_ptr(), given.numel(), _DTYPES[given.dtype])
        return self._run("AllGather", arguments, opts, [output], _write_back([(output, flat)]), (given, flat))

    _allgather_base = all_gather_single

    def _each(self, call: Callable[..., _Work], outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> _Work:
        """One operation after another; the last work stands for all."""
        _check(0 < len(outputs) == len(inputs), f"a coalesced operation of {len(inputs)} inputs and {len(outputs)} outputs")
        works = [call(output, given, opts) for output, given in zip(outputs, inputs)]

        def finish() -> None:
            for work in works[:-1]:
                work.wait()

        return self._after(works[-1], list(outputs), finish)

    def all_gather_single_coalesced(self, outputs: List[Any], inputs: List[Any], opts: Any = None) -> _Work:
        return self._each(self.all_gather_single, outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, outputs: List[List[Any]], inputs: List[Any], opts: Any = None) -> _Work:
        lengths = [given.numel() for given in inputs]
        fits = len(outputs) == self._size and all([out.numel() for out in outs] == lengths for outs in outputs)
        _check(fits, f"all_gather_coalesced: {self._size} lists of outputs must be shaped like the inputs")
        each = list(zip(*outputs))
        return self._each(lambda out, given, its: self.allgather([out], [given], its), each, inputs, opts)

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> _Work:
        given, flat = _flat(given), _flat(output)
        self._check_single("reduce_scatter_tensor", given, flat, given.numel() == flat.numel() * self._size)
        with self._operation(getattr(opts, "reduceOp", "SUM"), given.dtype) as op:
            arguments = (given.data_ptr(), flat.data_ptr(), flat.numel(), _DTYPES[given.dtype], op)
            return self._run("ReduceScatter", arguments, opts, [output], _write_back([(output, flat)]), (given, flat))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: List[Any], inputs: List[Any], opts: Any = None) -> _Work:
        return self._each(self.reduce_scatter_single, outputs, inputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: List[Any], inputs: List[List[Any]], opts: Any = None) -> _Work:
        output, given = self._one(outputs), self._one(inputs)
        flat, counts = _flat(output), self._per_rank("reduce_scatter", given)
        _check_types("reduce_scatter", given[0], output)
        here = counts[self._rank]
        _check(here == flat.numel(), f"reduce_scatter: this rank's input has {here} elements, the output {flat.numel()}")
        whole = self._packed(given)
        sizes = (ctypes.c_size_t * len(counts))(*counts)
        with self._operation(getattr(opts, "reduceOp", "SUM"), output.dtype) as op:
            arguments = (whole.data_ptr(), flat.data_ptr(), sizes, _DTYPES[flat.dtype], op)
            return self._run("ReduceScatterV", arguments, opts, [output], _write_back([(output, flat)]), (whole, flat, sizes))

    def gather(self, outputs: List[List[Any]], inputs: List[Any], opts: Any) -> _Work:
        given = _flat(self._one(inputs))
        wanted = self._root_only("gather", outputs, opts.rootRank)
        counts = self._per_rank("gather", wanted) if opts.rootRank == self._rank else []
        for output in wanted[:1]:
            _check_types("gather", given, output)
        whole = given.new_empty(sum(counts))
        sizes = (ctypes.c_size_t * len(counts))(*counts) if counts else None
        arguments = (given.data_ptr(), given.numel(), whole.data_ptr() if wanted else None, sizes, None, _DTYPES[given.dtype], opts.rootRank)
        finish = _write_back(list(zip(wanted, torch.split(whole, counts)))) if wanted else None
        return self._run("GatherV", arguments, opts, list(wanted), finish, (given, whole, sizes))

    def scatter(self, outputs: List[Any], inputs: List[List[Any]], opts: Any) -> _Work:
        output = self._one(outputs)
        flat = _flat(output)
        given = self._root_only("scatter", inputs, opts.rootRank)
        counts = self._per_rank("scatter", given) if opts.rootRank == self._rank else []
        for each in given[:1]:
            _check_types("scatter", each, output)
        whole = self._packed(given or [output])  # not read but by the root
        sizes = (ctypes.c_size_t * len(counts))(*counts) if counts else None
        read = whole.data_ptr() if given else None
        arguments = (read, sizes, None, flat.data_ptr(), flat.numel(), _DTYPES[flat.dtype], opts.rootRank)
        return self._run("ScatterV", arguments, opts, [output], _write_back([(output, flat)]), (whole, flat, sizes))

    def _all_to_all(self, whole: Any, taken: Sequence[int], given: Any, sent: Sequence[int], opts: Any, outputs: List[Any], pairs: Sequence[Any]) -> _Work:
        """Counts in elements for each rank. `whole` is written, then what the pairs say."""
        out, into = ((ctypes.c_size_t * self._size)(*counts) for counts in (sent, taken))
        arguments = (given.data_ptr(), out, None, whole.data_ptr(), into, None, _DTYPES[given.dtype])
        return self._run("AlltoAllV", arguments, opts, outputs, _write_back(pairs), (given, whole, out, into))

    def all_to_all_single(self, output: Any, given: Any, taken: List[int], sent: List[int], opts: Any = None) -> _Work:
        flat, given = _flat(output), _flat(given)
        _check_types("all_to_all", given, flat)

        def elements(what: str, tensor: Any, splits: List[int]) -> List[int]:
            rows = tensor.shape[0] if tensor.dim() else 1
            row = tensor.numel() // rows if rows else 0
            if not splits:
                even = not row or rows % self._size == 0
                _check(even, f"all_to_all: the {what}'s dim 0 does not divide equally across {self._size} ranks")
                return [row * (rows // self._size)] * self._size
            right = len(splits) == self._size and sum(splits) == rows and min(splits) >= 0
            _check(right, f"all_to_all: {what} splits {list(splits)}; there are {self._size} ranks and {rows} rows")
            return [row * n for n in splits]

        sizes = elements("output", flat, taken), elements("input", given, sent)
        return self._all_to_all(flat, sizes[0], given, sizes[1], opts, [output], [(output, flat)])

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: List[Any], inputs: List[Any], opts: Any = None) -> _Work:
        sent, taken = self._per_rank("all_to_all", inputs), self._per_rank("all_to_all", outputs)
        _check_types("all_to_all", inputs[0], outputs[0])
        given = self._packed(inputs)
        whole = given.new_empty(sum(taken))
        return self._all_to_all(whole, taken, given, sent, opts, list(outputs), list(zip(outputs, torch.split(whole, taken))))

    # ---- messages: none waits for another

    def _message(self, name: str, tensor: Any, peer: int, tag: int, pairs: Sequence[Any], flat: Any) -> _Work:
        copy = _write_back(pairs)
        stream = self._take_stream()
        status = Status()
        more = (ctypes.addressof(status),) if name == "RecvTag" else ()
        arguments = (flat.data_ptr(), flat.numel(), _DTYPES[flat.dtype], peer, tag, *more)
        with self._messages.call:
            code = getattr(lib, "motet" + name)(*arguments, self._messages.comm._live(), stream._handle)
        if code != errors.SUCCESS:
            _raise(code, name, self._rank)

        def finish() -> None:
            if name == "RecvTag" and status.count != flat.numel():
                raise RuntimeError(f"motet: rank {status.source} sent {status.count} elements, recv has room for {flat.numel()} elements")
            if copy:
                copy()

        work = _Work(self._messages, name, [tensor], finish, (flat, status), stream)
        work._status = status
        return self._keep(work)

    def send(self, tensors: List[Any], peer: int, tag: int = 0) -> _Work:
        tensor = self._one(tensors)
        return self._message("SendTag", tensor, peer, tag, [], _flat(tensor))

    def recv(self, tensors: List[Any], peer: int, tag: int = 0) -> _Work:
        tensor = self._one(tensors)
        flat = _flat(tensor)
        return self._message("RecvTag", tensor, peer, tag, [(tensor, flat)], flat)

    def recv_anysource(self, tensors: List[Any], tag: int = 0) -> _Work:
        return self.recv(tensors, ANY_SOURCE, tag)

    # ---- the end

    def shutdown(self) -> None:
        self._close(False)

    def abort(self) -> None:
        self._close(True)

    def _close(self, abort: bool) -> None:
        if not self._closed:
            self._closed = True
            abort = abort or not self._drain(10)
            for lane in (*self._lanes, self._messages):
                lane.close(abort)
            self._idle.append(self._take_stream())
            while self._idle:
                self._idle.pop().close()

    def _drain(self, seconds: float) -> bool:
        """What this rank sent is taken by others in their own time; whether all of it was."""
        deadline = time.monotonic() + seconds
        try:
            for work in list(self._under_way):
                work._event.wait(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            return False
        return True


def make(store: Any, comm: int, messages: int, name: str, keep: Any) -> Group:
    """A group from the two communicators that every group has."""
    if not _followed:
        _followed.append(True)
        callbacks.follow_with(_get_depth, _set_depth)
    return Group(store, Communicator(comm, name, keep), Communicator(messages, name + " messages", keep))
