# SPDX-License-Identifier: Apache-2.0
"""The PyTorch backend: operations, types, mismatches, dead ranks, groups, and programs that train."""
from __future__ import annotations

import contextlib
import os
import threading
import time
from datetime import timedelta
from typing import Any, Callable, List

import pytest
import ranks

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch.distributed import ReduceOp  # noqa: E402

DTYPES = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
MOVED = [*DTYPES, torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


def _init(rank: int, size: int, folder: str, backend: str = "motet", seconds: float = 60) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=timedelta(seconds=seconds))


def inside(body: Callable[..., Any]) -> Callable[..., Any]:
    """The body runs in a group that is made before and destroyed after it."""

    def run(rank: int, size: int, folder: str, *rest: Any) -> Any:
        _init(rank, size, folder)
        try:
            result = body(rank, size, *rest)
            dist.barrier()
            return result
        finally:
            dist.destroy_process_group()

    run.__name__ = run.__qualname__ = "in_group" + body.__name__
    run.__module__ = body.__module__
    body.__globals__[run.__name__] = run  # found by that name in the ranks
    return run


def _values(rank: int, n: int, dtype: Any = torch.float32) -> Any:
    values = (torch.arange(n) * 7 + 3 * rank + 1) % 11
    return (values % 2 == 1) if dtype == torch.bool else values.to(torch.float32).to(dtype) if "float8" in str(dtype) else values.to(dtype)


@inside
def _all_reduce_types(rank: int, size: int) -> None:
    for dtype in DTYPES + [torch.uint16, torch.uint32, torch.uint64]:
        x = _values(rank, 37, dtype)
        dist.all_reduce(x)
        assert x.to(torch.float64).equal(sum(_values(r, 37).double() for r in range(size))), dtype
    x = torch.tensor([rank == 0, False, True])
    dist.all_reduce(x)
    assert x.tolist() == [True, False, True]
    x = torch.tensor([rank + 1j, 2.0 - rank * 1j])
    dist.all_reduce(x)
    total = size * (size - 1) / 2
    assert x.tolist() == [total + size * 1j, 2.0 * size - total * 1j]
    x = _values(rank, 8, torch.float8_e4m3fn)
    if dist.get_backend() == "motet":
        dist.all_reduce(x)
        assert x.float().equal(sum(_values(r, 8) for r in range(size)).to(torch.float8_e4m3fn).float())


@inside
def _operations(rank: int, size: int) -> None:
    each = torch.stack([_values(r, 100, torch.int64) for r in range(size)])
    for op, expected in [
        (ReduceOp.SUM, each.sum(0)), (ReduceOp.PRODUCT, each.prod(0)), (ReduceOp.MIN, each.min(0).values),
        (ReduceOp.MAX, each.max(0).values), (ReduceOp.AVG, each.sum(0) // size),
    ]:  # fmt: skip
        x = each[rank].clone()
        dist.all_reduce(x, op=op)
        assert x.equal(expected), op
    for op, function in [(ReduceOp.BAND, torch.bitwise_and), (ReduceOp.BOR, torch.bitwise_or), (ReduceOp.BXOR, torch.bitwise_xor)]:
        x = each[rank].clone()
        dist.all_reduce(x, op=op)
        expected = each[0]
        for r in range(1, size):
            expected = function(expected, each[r])
        assert x.equal(expected), op
    x = torch.full((5,), float(rank + 1))
    dist.all_reduce(x, op=ReduceOp.AVG)
    assert (x == (size + 1) / 2).all()
    x = torch.ones(5)
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))
    assert (x == 2.0 * size).all()
    x = torch.full((5,), 7.0)
    dist.reduce(x, dst=size - 1)
    assert (x == (7.0 * size if rank == size - 1 else 7.0)).all()
    xs = [torch.full((i + 1,), float(rank)) for i in range(5)]
    dist.all_reduce_coalesced(xs)
    assert all((x == size * (size - 1) / 2).all() for x in xs)


@inside
def _movement(rank: int, size: int) -> None:
    for dtype in MOVED:
        x = _values(rank, 13, dtype)
        bits = lambda t: t.contiguous().view(torch.uint8)  # noqa: E731 - comparable whatever the type
        y = x.clone()
        dist.broadcast(y, src=1)
        assert bits(y).equal(bits(_values(1, 13, dtype))), dtype
        out = [torch.zeros_like(x) for _ in range(size)]
        dist.all_gather(out, x)
        assert all(bits(out[r]).equal(bits(_values(r, 13, dtype))) for r in range(size)), dtype
    flat = torch.zeros(size * 13)
    dist.all_gather_into_tensor(flat, _values(rank, 13))
    stacked = torch.zeros(size, 13)
    dist.all_gather_into_tensor(stacked, _values(rank, 13))
    expected = torch.stack([_values(r, 13) for r in range(size)])
    assert stacked.equal(expected) and flat.equal(expected.flatten())
    scalars = torch.zeros(size)
    dist.all_gather_into_tensor(scalars, torch.tensor(float(rank)))
    assert scalars.tolist() == list(range(size))
    sizes = [3 + 2 * r for r in range(size)]
    uneven = [torch.zeros(n) for n in sizes]
    dist.all_gather(uneven, _values(rank, sizes[rank]))
    assert all(uneven[r].equal(_values(r, sizes[r])) for r in range(size))
    part = torch.zeros(4)
    dist.reduce_scatter_tensor(part, torch.arange(4.0 * size) + rank)
    assert part.equal(torch.arange(4.0 * rank, 4.0 * rank + 4) * size + size * (size - 1) / 2)
    part = torch.zeros(4)
    dist.reduce_scatter_tensor(part, (torch.arange(4.0 * size) + rank).view(size, 4), op=ReduceOp.AVG)
    assert part.equal(torch.arange(4.0 * rank, 4.0 * rank + 4) + (size - 1) / 2)
    part = torch.zeros(sizes[rank])
    dist.reduce_scatter(part, [_values(r, sizes[r]) for r in range(size)])
    assert part.equal(_values(rank, sizes[rank]) * size)
    out = [torch.zeros(2, 3) for _ in range(size)] if rank == 1 else None
    dist.gather(torch.full((2, 3), float(rank)), out, dst=1)
    assert rank != 1 or all((out[r] == r).all() for r in range(size))
    part = torch.zeros(5)
    dist.scatter(part, [_values(r, 5) for r in range(size)] if rank == 0 else None, src=0)
    assert part.equal(_values(rank, 5))


@inside
def _all_to_all(rank: int, size: int) -> None:
    out = torch.zeros(2 * size)
    dist.all_to_all_single(out, torch.arange(2.0 * size) + 100 * rank)
    assert out.equal(torch.cat([torch.tensor([2.0 * rank, 2.0 * rank + 1]) + 100 * r for r in range(size)]))
    sent, received = [rank + p for p in range(size)], [p + rank for p in range(size)]
    out = torch.zeros(sum(received), 3)
    dist.all_to_all_single(out, torch.full((sum(sent), 3), float(rank)), received, sent)
    assert out[:, 0].tolist() == [float(p) for p in range(size) for _ in range(received[p])]
    outs = [torch.zeros(received[p]) for p in range(size)]
    dist.all_to_all(outs, [torch.full((sent[p],), 10.0 * rank + p) for p in range(size)])
    assert all((outs[p] == 10 * p + rank).all() for p in range(size))
    wide = torch.zeros(2 * size, 4)
    strided = torch.arange(8.0 * size).view(4, 2 * size).t() + rank
    dist.all_to_all_single(wide, strided)
    assert wide[:2].equal((torch.arange(8.0 * size).view(4, 2 * size).t())[2 * rank : 2 * rank + 2])


@inside
def _refused(rank: int, size: int) -> None:
    """Tensors and lists that do not fit are refused before anything is written, and the group goes on."""
    x, wide, room = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.zeros(2 * size)
    root, others = [x] * size, [wide] + [x] * (size - 1)
    group, to_first = dist.group.WORLD, (dist.distributed_c10d.GatherOptions(), dist.distributed_c10d.ScatterOptions())
    for options in to_first:
        options.rootRank = 0
    for said, call in [
        ("all_gather_into_tensor: the input", lambda: dist.all_gather_into_tensor(room, wide)),
        ("all_gather_into_tensor of", lambda: dist.all_gather_into_tensor(room, torch.ones(3))),
        ("reduce_scatter_tensor: the input", lambda: dist.reduce_scatter_tensor(wide, room)),
        ("reduce_scatter_tensor of", lambda: dist.reduce_scatter_tensor(torch.ones(3), room)),
        ("all_to_all: the input", lambda: group.alltoall_base(room, torch.ones(2 * size, dtype=torch.float64), [], [])),
        ("all_to_all: the input's dim 0", lambda: dist.all_to_all_single(room, torch.ones(2 * size + 1))),
        ("all_to_all: the output's dim 0", lambda: dist.all_to_all_single(torch.ones(2 * size + 1), room)),
        ("all_to_all: .*output splits", lambda: dist.all_to_all_single(x, room, [2] * size, [2] * size)),
        ("all_to_all: .*input splits", lambda: dist.all_to_all_single(room, x, [2] * size, [2] * size)),
        ("all_to_all: .*input splits", lambda: dist.all_to_all_single(room, room.clone(), [2] * size, [2] * (size - 1))),
        ("all_to_all: .*input split", lambda: dist.all_to_all_single(room, room.clone(), [2] * size, [2 * size + 1, -1] + [0] * (size - 2))),
        ("all_to_all", lambda: dist.all_to_all(root[1:], root)),
        ("all_to_all", lambda: dist.all_to_all(root, root[1:])),
        (".*one type", lambda: group.alltoall(root, others)),
        ("all_gather", lambda: dist.all_gather(root[1:], x)),
        ("all_gather: the input", lambda: group.allgather([root], [wide])),
        (".*one type", lambda: group.allgather([[x] * (size - 1) + [wide]], [x])),
        ("all_gather: this rank gives", lambda: dist.all_gather(root, torch.ones(3))),
        ("all_gather_coalesced", lambda: group.allgather_coalesced([[x], [x]], [torch.ones(3)])),
        ("reduce_scatter", lambda: dist.reduce_scatter(x, root[1:])),
        ("reduce_scatter: the input", lambda: group.reduce_scatter([wide], [root])),
        ("reduce_scatter: this rank's input", lambda: dist.reduce_scatter(torch.ones(3), root)),
        ("gather", lambda: dist.gather(x, root[1:]) if rank == 0 else group.gather([root], [x], to_first[0])),
        ("scatter", lambda: dist.scatter(x, root[1:]) if rank == 0 else group.scatter([x], [root], to_first[1])),
    ]:
        with pytest.raises(RuntimeError, match=f"motet: {said}"):
            call()
    assert not room.any()


@inside
def _strided(rank: int, size: int) -> None:
    base = torch.zeros(6, 8)
    column = base[:, 3]
    column += rank + torch.arange(6)
    dist.all_reduce(column)
    assert column.equal(torch.arange(6.0) * size + size * (size - 1) / 2)
    assert base.sum() == column.sum()
    dist.broadcast(base.t(), src=0)
    work = dist.all_reduce(base[::2, ::2], async_op=True)
    work.wait()
    outs = [torch.zeros(8, 6).t() for _ in range(size)]
    dist.all_gather(outs, (torch.arange(48.0).view(8, 6) + rank).t())
    assert all(outs[r].equal((torch.arange(48.0).view(8, 6) + r).t()) for r in range(size))
    with pytest.raises(RuntimeError, match="expanded"):
        dist.all_reduce(torch.ones(1).expand(4))
    dist.all_reduce(torch.ones(0))
    dist.all_reduce(torch.tensor(1.0))
    with torch.inference_mode():
        x = torch.ones(3)
        dist.all_reduce(x)
        assert (x == size).all()
    parameter = torch.ones(3, requires_grad=True)
    dist.broadcast(parameter.detach(), src=0)
    shared = dist.group.WORLD._get_backend(torch.device("cpu")).allocate_tensor(1000, dtype=torch.float32, device=torch.device("cpu"))
    shared.fill_(rank)
    dist.all_reduce(shared)
    assert (shared == size * (size - 1) / 2).all()


@inside
def _asynchronous(rank: int, size: int) -> None:
    works = [(dist.all_reduce(x := torch.full((1000,), float(i + rank)), async_op=True), x) for i in range(50)]
    dist.all_reduce(last := torch.ones(1))
    assert last.item() == size
    for i, (work, x) in enumerate(works):
        work.wait()
        assert work.is_completed() and (x == i * size + size * (size - 1) / 2).all()
    seen: List[Any] = []

    def then(future: Any) -> Any:
        y = future.value()[0].clone()
        dist.all_reduce(y)  # waits inside of a callback
        seen.append(threading.get_ident())
        return y

    several = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(3)]
    futures = [work.get_future().then(then) for work in several]
    assert all((future.wait() == size * size).all() for future in futures) and len(seen) == 3
    late = torch.zeros(1)
    if rank == 0:
        time.sleep(0.2)
        late += 5
    work = dist.broadcast(late, src=0, async_op=True)
    if rank == 1:
        with pytest.raises(RuntimeError, match="Timed out"):
            work.wait(timedelta(milliseconds=20))
    work.wait()
    assert late.item() == 5 and work.result()[0].item() == 5
    for _ in range(20):
        dist.all_reduce(torch.ones(100000), async_op=True)  # nobody waits


@inside
def _messages(rank: int, size: int) -> None:
    after, before = (rank + 1) % size, (rank - 1) % size
    x = torch.zeros(3)
    if rank == 0:
        dist.send(torch.ones(3), 1)
        dist.recv(x, size - 1)
        assert (x == size).all()
    else:
        dist.recv(x, rank - 1)
        dist.send(x + 1, after)
    for n in (1, 70000):
        requests = [dist.irecv(torch.zeros(n), before, tag=t) for t in (2, 1)]
        requests += [dist.isend(torch.full((n,), float(t)), after, tag=t) for t in (1, 2)]
        for request in requests:
            request.wait()
    operations = [dist.P2POp(dist.isend, torch.full((5,), float(rank)), after), dist.P2POp(dist.irecv, y := torch.zeros(5), before)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    assert (y == before).all()
    if rank == 0:
        assert sorted(dist.recv(torch.zeros(1)) for _ in range(size - 1)) == list(range(1, size))
    else:
        dist.send(torch.ones(1), 0)
    group = dist.group.WORLD  # dist.isend itself refuses the own rank
    works = [group.send([torch.full((4,), 3.0)], rank, 5), group.recv([z := torch.zeros(4)], rank, 5)]
    for work in works:
        work.wait()
    assert (z == 3).all()
    # A receive that waits keeps no collective back.
    waiting = dist.irecv(w := torch.zeros(2), before)
    dist.barrier()
    dist.send(torch.ones(2), after)
    waiting.wait()
    assert (w == 1).all()
    objects: List[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 1000 * rank})
    assert [o["rank"] for o in objects] == list(range(size))
    box = [{"from": rank}]
    dist.broadcast_object_list(box, src=1)
    assert box[0]["from"] == 1


@inside
def _sparse(rank: int, size: int) -> None:
    x = torch.sparse_coo_tensor([[rank, rank + 1]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(x)
    expected = torch.zeros(size + 1)
    for r in range(size):
        expected[r] += 1
        expected[r + 1] += 2
    assert x.to_dense().equal(expected)
    with pytest.raises(RuntimeError, match="SUM only"):
        dist.all_reduce(x, op=ReduceOp.MAX)
    with pytest.raises(RuntimeError, match="different shapes"):
        dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (size + rank,)))


@inside
def _functional(rank: int, size: int) -> None:
    import torch.distributed._functional_collectives as functional

    ranks_of_all = list(range(size))
    assert (functional.all_reduce(torch.ones(4), "sum", ranks_of_all) == size).all()
    assert functional.all_gather_tensor(torch.full((2,), float(rank)), 0, ranks_of_all).tolist() == [float(r) for r in range(size) for _ in range(2)]
    assert (functional.reduce_scatter_tensor(torch.ones(2 * size), "sum", 0, ranks_of_all) == size).all()
    outs = functional.all_gather_into_tensor_coalesced([torch.ones(2), torch.full((3,), 2.0)], ranks_of_all)
    assert outs[1].shape == (3 * size,) and (outs[1] + 0 == 2).all()
    outs = functional.reduce_scatter_tensor_coalesced([torch.ones(size), torch.ones(2 * size)], "avg", [0, 0], ranks_of_all)
    assert (outs[0] + 0 == 1).all()


@inside
def _groups(rank: int, size: int) -> None:
    first = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(1)
        dist.all_reduce(x, group=first)
        assert x.item() == 2
    threads, files = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    groups = [dist.new_group(list(range(size))) for _ in range(200)]
    for i, group in enumerate(groups):
        x = torch.tensor([1.0 + i])
        dist.all_reduce(x, group=group)
        assert x.item() == size * (1 + i)
    assert len(os.listdir("/proc/self/task")) <= threads + 1 and len(os.listdir("/proc/self/fd")) <= files + 1
    for group in groups:
        dist.destroy_process_group(group)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_splitting and dist.get_backend() == "motet"
    assert len(os.listdir("/proc/self/task")) <= threads + 1 and len(os.listdir("/proc/self/fd")) <= files + 1
    # Pairs, in the order of the list on every rank: whoever is in none of them goes on.
    pairs = [(a, b) for a in range(size) for b in range(a)]
    for pair in pairs:
        group = dist.new_group(list(pair))
        if rank in pair:
            x = torch.tensor([1.0 + rank])
            dist.all_reduce(x, group=group)
            assert x.item() == 2 + sum(pair)
            box = [{"from": pair[0]}] if rank == pair[0] else [None]
            dist.broadcast_object_list(box, src=pair[0], group=group)
            assert box[0] == {"from": pair[0]}
            y = torch.full((3,), float(rank))
            work = dist.isend(y, sum(pair) - rank, group=group)
            dist.recv(z := torch.zeros(3), sum(pair) - rank, group=group)
            work.wait()
            assert (z == sum(pair) - rank).all()


@inside
def _shrunk(rank: int, size: int) -> None:
    if not hasattr(dist, "shrink_group"):
        return
    if rank != 1:
        rest = dist.group.WORLD._get_backend(torch.device("cpu")).shrink([1])
        assert rest.size() == size - 1 and rest.rank() == rank - (rank > 1)
        x = torch.ones(1)
        rest.allreduce([x], dist.AllreduceOptions()).wait()
        assert x.item() == size - 1
        rest.shutdown()


@inside
def _threads(rank: int, size: int) -> None:
    """Two threads call one group at a time; which of them meets which does not matter."""
    sums: List[float] = []

    def call() -> None:
        for _ in range(200):
            dist.all_reduce(x := torch.ones(4))
            sums.append(x.sum().item())

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [4.0 * size] * 400


def _sent_at_the_end(rank: int, size: int, folder: str) -> None:
    """A rank that ends its group waits until what it sent is taken."""
    _init(rank, size, folder)
    if rank == 0:
        dist.isend(torch.ones(1000000), 1)
    elif rank == 1:
        time.sleep(0.3)
        dist.recv(x := torch.zeros(1000000), 0)
        assert x.all()
    dist.destroy_process_group()


def _mismatch(rank: int, size: int, folder: str, kind: str) -> str:
    _init(rank, size, folder)
    x = torch.ones(4 + (kind in ("shape", "later") and rank == 1), dtype=torch.int32 if kind == "dtype" and rank == 1 else torch.float32)
    try:
        with pytest.raises(RuntimeError) as caught:
            if kind == "operation" and rank == 1:
                dist.broadcast(x, src=1)
            elif kind == "long" or kind == "short":
                if rank == 1:
                    dist.send(torch.ones(4), 0)
                else:
                    dist.recv(torch.ones(3 if kind == "long" else 5), 1)
            elif kind == "later":  # a call in between leaves the work its error
                work = dist.all_reduce(x, async_op=True)
                with contextlib.suppress(RuntimeError):
                    dist.barrier()
                while not work.is_completed():
                    time.sleep(0.001)
                assert not work.is_success()
                work.wait()
            else:
                dist.all_reduce(x)
            dist.barrier()
            if kind == "long":
                dist.send(torch.ones(4), 1 - rank)
                dist.recv(x, 1 - rank)
    finally:
        dist.distributed_c10d._abort_process_group() if hasattr(dist.distributed_c10d, "_abort_process_group") else dist.destroy_process_group()
    return str(caught.value)


def _dead(rank: int, size: int, folder: str) -> Any:
    _init(rank, size, folder)
    dist.barrier()
    if rank == 1:
        os._exit(3)
    with pytest.raises(dist.DistBackendError, match=r"rank 1\b") as caught:
        for _ in range(100000):
            dist.all_reduce(torch.ones(3))
    dist.destroy_process_group()
    return str(caught.value)


def _aborted(rank: int, size: int, folder: str) -> None:
    _init(rank, size, folder)
    dist.barrier()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    if rank == 0:
        threading.Timer(0.3, backend.abort).start()
        start = time.monotonic()
        with pytest.raises(RuntimeError):
            dist.all_reduce(torch.ones(1))
        assert time.monotonic() - start < 30
    else:
        with pytest.raises(RuntimeError):
            time.sleep(0.2)
            dist.recv(torch.ones(1), 0)
    dist.destroy_process_group()


def _missing_in_group(rank: int, size: int, folder: str) -> str:
    _init(rank, size, folder)
    text = ""
    if rank != 1:
        with pytest.raises(dist.DistBackendError) as caught:
            dist.new_group(list(range(size)), timeout=timedelta(seconds=2))
        text = str(caught.value)
    dist.barrier()
    dist.destroy_process_group()
    return text


def _missing(rank: int, size: int, folder: str, port: int) -> str:
    if rank == size - 1:
        return ""
    with pytest.raises(dist.DistBackendError) as caught:
        if port:  # as under torchrun: somebody else has the store
            store = dist.TCPStore("127.0.0.1", port, None, rank == 0, timedelta(seconds=60), wait_for_workers=False)
            dist.init_process_group("motet", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=2))
        else:
            _init(rank, size, folder, seconds=2)
    return str(caught.value)


def _monitored(rank: int, size: int, folder: str) -> None:
    _init(rank, size, folder)
    backend = dist.group.WORLD
    backend.monitored_barrier(timedelta(seconds=30))
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1"):
            backend.monitored_barrier(timedelta(milliseconds=200))
    dist.destroy_process_group()


def _mixed(rank: int, size: int, folder: str) -> None:
    _init(rank, size, folder, backend="cpu:motet")
    x = torch.ones(2)
    dist.all_reduce(x)
    assert (x == size).all()
    dist.destroy_process_group()


def _again(rank: int, size: int, folder: str) -> None:
    for i in range(3):
        dist.init_process_group("motet", init_method=f"file://{folder}/store{i}", rank=rank, world_size=size)
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == size
        dist.destroy_process_group()


OPERATIONS = [
    _all_reduce_types, _operations, _movement, _all_to_all, _refused, _strided, _asynchronous, _messages, _sparse, _functional, _groups, _shrunk,
    _threads, _sent_at_the_end, _aborted, _monitored, _mixed, _again,
]  # fmt: skip


@pytest.mark.parametrize("body", OPERATIONS, ids=lambda body: body.__name__.replace("in_group", "").strip("_"))
@pytest.mark.parametrize("size", [2, 3])
def test_torch_backend_works(body: Any, size: int) -> None:
    ranks.of(size).run(body)


@pytest.mark.parametrize("kind, said", [("shape", "5 x float32"), ("later", "5 x float32"), ("dtype", "int32"), ("operation", "Broadcast"), ("long", "4"), ("short", "5 elements")])
def test_mismatch_is_a_runtime_error_on_every_rank(kind: str, said: str) -> None:
    texts = ranks.of(2).run(_mismatch, kind)
    for text in texts[: 1 if kind == "short" else 2]:  # a shorter message than the room is known to the receiver only
        assert said in text


def test_dead_rank_is_named() -> None:
    texts = ranks.of(3).run(_dead)
    assert texts[0] and texts[1] is None and texts[2]


def test_rank_that_does_not_come_to_a_new_group_is_named() -> None:
    texts = ranks.of(3).run(_missing_in_group)
    assert all("from ranks: 1" in texts[rank] for rank in (0, 2)), texts


@pytest.mark.parametrize("store", ["file", "tcp"])
def test_missing_rank_is_named_with_those_seen_and_the_store(store: str) -> None:
    port = ranks.free_port() if store == "tcp" else 0
    texts = ranks.of(3).run(_missing, port)
    address = f"store 127.0.0.1:{port}" if port else "store /"
    for rank in (0, 1):
        assert "missing ranks: 2; 2 of 3 ranks came: 0-1" in texts[rank] and address in texts[rank] and f"rank {rank} of 3" in texts[rank], texts
