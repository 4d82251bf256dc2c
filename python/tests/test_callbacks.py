# SPDX-License-Identifier: Apache-2.0
"""Callbacks of futures that call the group again, run by whichever thread: the same on all ranks."""
from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import ranks

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from test_torch import inside  # noqa: E402


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


def _until_done(future: Any) -> None:
    while not future.done():
        time.sleep(0.001)


def _sum_of(step: int, size: int) -> float:
    return sum(float(10 * step + r) for r in range(size))


def _chain(future: Any, rank: int, size: int, at_once: bool, seen: Any) -> Any:
    """Three callbacks in a row, each of which calls the group and waits for it, in three ways."""

    def first(done: Any) -> Any:
        x = torch.tensor([10.0 + rank])
        seen.append(dist.all_reduce(x, async_op=True).get_future().wait()[0].item() == _sum_of(1, size))
        return done.value()

    def second(done: Any) -> Any:
        x = torch.tensor([20.0 + rank])
        dist.all_reduce(x)
        seen.append(x.item() == _sum_of(2, size))
        return done.value()

    def third(done: Any) -> Any:
        x = torch.tensor([30.0 + rank])
        dist.all_reduce(x, async_op=True).wait()
        seen.append(x.item() == _sum_of(3, size))
        return done.value()

    for callback in (first, second, third):
        if at_once:
            _until_done(future)
        future = future.then(callback)
    return future


@inside
def _inline_on_one_rank(rank: int, size: int) -> None:
    """One rank attaches to futures that are complete: its callbacks run at once. The other's run when all are attached."""
    for late in range(size):
        seen: Any = []
        futures = []
        for bucket in range(2):
            key = f"attached {late} {bucket}"
            if rank == late:
                _store().wait([key])  # until then the other rank's future cannot be complete
            x = torch.full((5,), float(rank + bucket))
            future = dist.all_reduce(x, async_op=True).get_future()
            assert rank == late or not future.done()
            futures.append(_chain(future, rank, size, rank == late, seen))
            _store().set(key, "yes")
            y = torch.tensor([rank + 1.0])
            dist.all_reduce(y)
            assert y.item() == size * (size + 1) / 2
        for bucket, future in enumerate(futures):
            assert (future.wait()[0] == sum(r + bucket for r in range(size))).all()
        assert seen == [True] * 6


@inside
def _nested(rank: int, size: int) -> None:
    """Callbacks inside of callbacks, deeper than those that have communicators of their own."""

    def down(depth: int) -> float:
        x = torch.tensor([float(rank + depth)])
        future = dist.all_reduce(x, async_op=True).get_future()
        if rank == 1 and depth % 2:
            _until_done(future)
        if depth == 6:
            return float(future.wait()[0].item())
        return float(future.then(lambda done: down(depth + 1) + done.value()[0].item()).wait())

    for _ in range(3):
        assert down(0) == sum(rank + depth for depth in range(7) for rank in range(size))


@inside
def _receiving_again(rank: int, size: int) -> None:
    """A callback of a receive receives again, and what it waits for is sent after a message of its own rank's main thread."""
    go, first, second = torch.zeros(1), torch.zeros(1), torch.zeros(1)
    if rank == 1:
        dist.send(torch.tensor([1.0]), 0)
        dist.recv(go, 0)
        dist.send(torch.tensor([2.0]), 0)
        assert go.item() == 3
        return
    began = threading.Event()

    def again(done: Any) -> Any:
        began.set()
        return dist.irecv(second, 1).get_future()

    last = dist.irecv(first, 1).get_future().then(again)
    assert began.wait(60)
    time.sleep(0.05)
    dist.send(torch.tensor([3.0]), 1)
    last.wait().wait()
    assert first.item() == 1 and second.item() == 2


@inside
def _failing(rank: int, size: int) -> None:
    """An error in a callback reaches whoever waits, and the thread that ran it is as it was."""

    def fails(done: Any) -> Any:
        raise ValueError("no")

    for late in range(size):
        future = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        if rank == late:
            _until_done(future)
        with pytest.raises(RuntimeError, match="no"):
            future.then(fails).wait()
        called: Any = []
        future.add_done_callback(lambda done: called.append(done.value()[0].item()))
        with pytest.raises(TypeError):
            future.then(7)
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == size and future.wait()[0].item() == size and called == [size]


def test_callbacks_that_run_at_once_on_one_rank_meet_those_that_run_later() -> None:
    ranks.of(2).run(_inline_on_one_rank)


def test_callbacks_inside_of_callbacks_meet() -> None:
    ranks.of(2).run(_nested)


def test_callback_of_a_receive_that_receives_again_stops_no_other_thread() -> None:
    ranks.of(2).run(_receiving_again)


def test_callback_that_fails_leaves_the_thread_as_it_was() -> None:
    ranks.of(2).run(_failing)
