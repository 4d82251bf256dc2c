# SPDX-License-Identifier: Apache-2.0
"""`import motet` without torch: every operation over NumPy arrays, buffers and DLPack."""
from __future__ import annotations

import array
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import ranks

import motet

SIZES = (0, 1, 7, 1000, 70001)


def _comm(rank: int, size: int, folder: str, **options: Any) -> motet.Communicator:
    return motet.Communicator.from_directory(folder + "/meet", size, rank, init_timeout=60, **options)


def _values(rank: int, n: int, dtype: str = "int64") -> Any:
    return ((np.arange(n) * 7 + 13 * rank + 1) % 101).astype(dtype)


def _collectives(rank: int, size: int, folder: str) -> None:
    everyone = range(size)
    with _comm(rank, size, folder) as comm:
        for n in SIZES:
            mine = _values(rank, n)
            total = sum(_values(r, n) for r in everyone)
            out = np.full(n, -1)
            assert comm.all_reduce(mine, out) is out and (out == total).all()
            assert (mine == _values(rank, n)).all()
            assert (comm.all_reduce(mine.copy(), op="max") == np.max([_values(r, n) for r in everyone], axis=0)).all()
            out = np.full(n, -1)
            comm.reduce(mine, out, root=size - 1)
            assert (out == (total if rank == size - 1 else -1)).all()
            assert (comm.broadcast(mine.copy(), root=1) == _values(1, n)).all()
            out = np.full((size, n), -1)
            comm.all_gather(mine, out)
            assert all((out[r] == _values(r, n)).all() for r in everyone)
            blocks = np.concatenate([_values(rank, n) + 1000 * r for r in everyone])
            part = np.full(n, -1)
            comm.reduce_scatter(blocks, part)
            assert (part == total + 1000 * rank * size).all()
            out = np.full(n * size, -1)
            comm.all_to_all(blocks, out)
            assert all((out[r * n : (r + 1) * n] == _values(r, n) + 1000 * rank).all() for r in everyone)
            out = np.full(n * size, -1) if rank == 0 else None
            comm.gather(mine, out)
            if rank == 0:
                assert all((out[r * n : (r + 1) * n] == _values(r, n)).all() for r in everyone)
            comm.scatter(blocks if rank == 0 else None, part)
            assert (part == _values(0, n) + 1000 * rank).all()
            comm.barrier()


def _uneven(rank: int, size: int, folder: str) -> None:
    counts = [3 * r + (r % 2) * 100 for r in range(size)]
    starts = np.cumsum([0, *counts])
    with _comm(rank, size, folder) as comm:
        mine = _values(rank, counts[rank])
        everything = np.concatenate([_values(r, counts[r]) for r in range(size)])
        out = np.full(starts[-1], -1)
        assert (comm.all_gather_v(mine, out, counts) == everything).all()
        gaps = np.full(2 * starts[-1] + 5, -1)
        displacements = [int(2 * start) for start in starts[:-1]]
        comm.all_gather_v(mine, gaps, counts, displacements)
        for r in range(size):
            assert (gaps[displacements[r] : displacements[r] + counts[r]] == _values(r, counts[r])).all()
        long = _values(rank, int(starts[-1]))
        part = np.full(counts[rank], -1)
        comm.reduce_scatter_v(long, part, counts)
        total = sum(_values(r, int(starts[-1])) for r in range(size))
        assert (part == total[starts[rank] : starts[rank + 1]]).all()
        out = np.full(counts[rank] * size, -1)
        comm.all_to_all_v(long, counts, out, [counts[rank]] * size)
        for r in range(size):
            theirs = _values(r, int(starts[-1]))[starts[rank] : starts[rank + 1]]
            assert (out[r * counts[rank] : (r + 1) * counts[rank]] == theirs).all()
        out = np.full(starts[-1], -1) if rank == 1 else None
        comm.gather_v(mine, out, counts if rank == 1 else None, root=1)
        assert rank != 1 or (out == everything).all()
        part = np.full(counts[rank], -1)
        comm.scatter_v(everything if rank == 1 else None, part, counts if rank == 1 else None, root=1)
        assert (part == mine).all()


def _types(rank: int, size: int, folder: str) -> None:
    with _comm(rank, size, folder) as comm:
        for dtype in "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split():
            x = np.arange(9).astype(dtype) + np.dtype(dtype).type(rank)
            expected = np.arange(9) * size + size * (size - 1) // 2
            assert (comm.all_reduce(x) == expected.astype(dtype)).all(), dtype
        flags = np.array([rank == 0, False, True])
        assert (comm.all_reduce(flags) == [True, False, True]).all()
        assert list(comm.all_reduce(array.array("d", [rank, 1.5]))) == [size * (size - 1) / 2, 1.5 * size]
        assert comm.all_reduce(bytearray([rank, 2])) == bytes([size * (size - 1) // 2, 2 * size])
        words = np.array([0x3F80, 0x4000], "uint16")  # 1 and 2 in bfloat16
        comm.all_reduce(words, dtype=motet.DataType.BFLOAT16)
        assert size != 2 or list(words) == [0x4000, 0x4080]
        with pytest.raises(ValueError, match="contiguous"):
            comm.all_reduce(np.arange(8)[::2])
        with pytest.raises(ValueError, match="writable"):
            comm.all_reduce(b"constant")
        with pytest.raises(TypeError, match="int64, the output FLOAT32|INT64, the output FLOAT32"):
            comm.all_reduce(np.arange(3), np.zeros(3, "float32"))
        with pytest.raises(ValueError, match="do not fit"):
            comm.all_gather(np.arange(3), np.zeros(3 * size + 1, "int64"))
        with pytest.raises(TypeError, match="neither"):
            comm.all_reduce(object())
        op = comm.premul_sum(rank + 1, motet.DataType.FLOAT64)
        assert (comm.all_reduce(np.ones(3), op=op) == size * (size + 1) / 2).all()
        shared = np.frombuffer(motet.allocate(8 * 100000), "float64")
        shared[:] = rank
        assert (comm.all_reduce(shared) == size * (size - 1) / 2).all()


class _Dlpack:
    """Something that has only DLPack."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __dlpack__(self, **_: Any) -> Any:
        return self.content.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.content.__dlpack_device__()


def _dlpack(rank: int, size: int, folder: str) -> None:
    with _comm(rank, size, folder) as comm:
        x = np.arange(12, dtype="float32").reshape(3, 4) + rank
        references = sys.getrefcount(x)
        comm.all_reduce(_Dlpack(x))
        assert (x == np.arange(12).reshape(3, 4) * size + size * (size - 1) / 2).all()
        assert sys.getrefcount(x) == references
        with pytest.raises(ValueError, match="contiguous"):
            comm.all_reduce(_Dlpack(x.T))
        y = np.arange(5) + rank
        references = sys.getrefcount(y)
        comm.all_reduce(y)
        assert sys.getrefcount(y) == references


def _messages(rank: int, size: int, folder: str) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    with _comm(rank, size, folder) as comm:
        for n in (0, 5, 100000):
            got = np.full(n, -1)
            with motet.group():
                comm.send(_values(rank, n), after)
                comm.recv(got, before)
            assert (got == _values(before, n)).all()
        if rank == 0:
            seen = {}
            for _ in range(size - 1):
                buffer = np.full(10, -1)
                got = comm.recv_tag(buffer)
                assert got.tag == 70 + got.source and (buffer[: got.length] == _values(got.source, got.length)).all()
                seen[got.source] = got.length
            assert seen == {r: r + 1 for r in range(1, size)}
        else:
            comm.send(_values(rank, rank + 1), 0, tag=70 + rank)
        comm.barrier()
        before_group = np.ones(3)
        with pytest.raises(KeyError):
            with motet.group():
                comm.all_reduce(before_group)
                raise KeyError
        assert (before_group == 1).all() and comm.error is None
        assert (comm.all_reduce(np.ones(2)) == size).all()


def _streams(rank: int, size: int, folder: str) -> None:
    with _comm(rank, size, folder) as comm, motet.Stream() as stream:
        start, end = motet.Event().record(stream), motet.Event()
        futures = [comm.all_reduce(_values(rank, 5000) + i, stream=stream) for i in range(20)]
        end.record(stream)
        total = sum(_values(r, 5000) for r in range(size))
        for i, future in enumerate(futures):
            assert (future.wait(30) == total + i * size).all()
        assert future.done() and "done" in repr(future)
        stream.synchronize()
        assert end.milliseconds_since(start) >= 0 and stream.done()
        late = np.zeros(1)
        if rank == 0:
            future = comm.broadcast(late, stream=stream, root=size - 1)
            with pytest.raises(TimeoutError):
                future.wait(0.05)
            comm_goes_on = threading.Event()
            threading.Timer(0.01, comm_goes_on.set).start()
            assert comm_goes_on.wait(10)  # the GIL is free while C waits
        else:
            time.sleep(0.3)
            future = comm.broadcast(late + 5, stream=stream, root=size - 1)
        assert future.wait()[0] == 5


def _splits(rank: int, size: int, folder: str) -> None:
    with _comm(rank, size, folder, name="parent") as comm:
        assert repr(comm) == f"<motet.Communicator 'parent': rank {rank} of {size}>" and len(comm) == size
        half = comm.split(rank % 2, key=-rank if size else 0, name="half")
        assert half is not None and half.size == (size + 1 - rank % 2) // 2
        x = half.all_reduce(np.array([rank]))
        assert x[0] == sum(r for r in range(size) if r % 2 == rank % 2)
        half.destroy()
        half.destroy()
        with pytest.raises(motet.InvalidUsage, match="closed"):
            half.barrier()
        assert comm.split(None) is None
        if rank != 0:
            with comm.shrink([0]) as rest:
                assert rest.size == size - 1 and rest.all_reduce(np.array([1]))[0] == size - 1


def _mismatch(rank: int, size: int, folder: str) -> str:
    comm = _comm(rank, size, folder)
    with pytest.raises(motet.InvalidUsage) as caught:
        comm.all_reduce(np.zeros(4 + (rank == 1)))
        comm.barrier()
    assert caught.value.rank == rank and caught.value.operation in ("AllReduce", "Barrier")
    assert comm.error is not None
    comm.abort()
    return str(caught.value)


def _death(rank: int, size: int, folder: str) -> Any:
    import os

    comm = _comm(rank, size, folder)
    comm.barrier()
    if rank == 1:
        os._exit(3)
    with pytest.raises(motet.RemoteError) as caught:
        for _ in range(100000):
            comm.all_reduce(np.zeros(10))
    assert isinstance(caught.value, ConnectionError) and caught.value.operation == "AllReduce"
    comm.abort()
    return caught.value.peer


def _abort(rank: int, size: int, folder: str) -> None:
    comm = _comm(rank, size, folder)
    comm.barrier()
    if rank == 0:
        threading.Timer(0.2, comm.abort).start()
        with pytest.raises(motet.MotetError):
            comm.all_reduce(np.zeros(3))
    else:
        with pytest.raises(motet.MotetError):
            time.sleep(0.1)
            for _ in range(100000):
                comm.barrier()
                time.sleep(0.01)
        comm.abort()


class _FileStore:
    """The smallest store: a file per key."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def set(self, key: str, value: bytes) -> None:
        import os

        path = os.path.join(self.folder, key.replace("/", "_"))
        with open(f"{path}.{os.getpid()}", "wb") as file:
            file.write(value)
        os.rename(file.name, path)

    def get(self, key: str, timeout: float) -> bytes:
        import os

        path = os.path.join(self.folder, key.replace("/", "_"))
        deadline = time.monotonic() + timeout
        while not os.path.exists(path):
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(0.005)
        with open(path, "rb") as file:
            return file.read()


class _BrokenStore(_FileStore):
    def set(self, key: str, value: bytes) -> None:
        raise PermissionError("read only")


def _stores(rank: int, size: int, folder: str) -> None:
    with pytest.raises(motet.MotetError) as caught:
        motet.Communicator.from_store(_BrokenStore(folder), size, rank, init_timeout=10)
    assert isinstance(caught.value.__cause__, PermissionError)
    with motet.Communicator.from_store(_FileStore(folder), size, rank, init_timeout=60) as comm:
        assert comm.all_reduce(np.array([1]))[0] == size


@pytest.mark.parametrize("body", [_collectives, _uneven, _types, _dlpack, _messages, _streams, _splits, _abort, _stores])
@pytest.mark.parametrize("size", [2, 3])
def test_communicator_works(body: Any, size: int) -> None:
    ranks.of(size).run(body)


def test_mismatch_names_both_calls_on_every_rank() -> None:
    for text in ranks.of(2).run(_mismatch):
        assert "4 x float64" in text and "5 x float64" in text


def test_dead_rank_is_named() -> None:
    assert ranks.of(3).run(_death) == [1, None, 1]


def test_one_rank_alone_needs_no_launcher() -> None:
    with motet.init() as comm:
        assert (comm.rank, comm.size) == (0, 1)
        assert comm.all_reduce(np.array([5]))[0] == 5


def test_ranks_of_one_process_are_driven_by_threads() -> None:
    comms = motet.Communicator.in_process(3)
    results = [np.full(1000, rank) for rank in range(3)]
    threads = [threading.Thread(target=comm.all_reduce, args=(results[comm.rank],)) for comm in comms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all((result == 3).all() for result in results)
    for comm in comms:
        comm.destroy()
