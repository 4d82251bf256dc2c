# SPDX-License-Identifier: Apache-2.0
"""Programs that train with PyTorch: the same numbers as one process, or as the arithmetic says."""
from __future__ import annotations

from typing import Any

import pytest
import ranks

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from test_torch import inside  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: E402

STEPS = 4


def _model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))


def _batch(step: int, n: int = 24) -> Any:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(n, 20, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def _train(model: Any, part: slice, optimizer: Any = None) -> Any:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        x, y = _batch(step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[part]), y[part]).backward()
        optimizer.step()
    return model


def _alone() -> Any:
    return _train(_model(), slice(None))


def _same(model: Any, other: Any, tolerance: float = 1e-5) -> None:
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters()):
        assert torch.allclose(mine, theirs, atol=tolerance), name


def _part(rank: int, size: int) -> slice:
    return slice(24 // size * rank, 24 // size * (rank + 1))


@inside
def _ddp(rank: int, size: int) -> None:
    for options in (
        {}, {"bucket_cap_mb": 25}, {"bucket_cap_mb": 100}, {"bucket_cap_mb": 0.001}, {"gradient_as_bucket_view": True},
        {"static_graph": True}, {"find_unused_parameters": True},
    ):  # fmt: skip
        model = DDP(_model(rank), **options)
        with torch.no_grad():
            for mine, first in zip(model.module.parameters(), _model(0).parameters()):
                assert mine.equal(first)  # rank 0's at the start
        _same(_train(model, _part(rank, size)).module, _alone())


@inside
def _no_sync(rank: int, size: int) -> None:
    model, single = DDP(_model()), _model()
    x, y = _batch(0)
    part = _part(rank, size)
    with model.no_sync():
        nn.functional.cross_entropy(model(x[part]), y[part]).backward()
    nn.functional.cross_entropy(model(x[part]), y[part]).backward()
    for _ in range(2):
        nn.functional.cross_entropy(single(x), y).backward()
    for mine, theirs in zip(model.parameters(), single.parameters()):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-5)


@inside
def _join(rank: int, size: int) -> None:
    model = DDP(_model())
    with model.join():
        for step in range(2 + rank):
            x, y = _batch(step)
            nn.functional.cross_entropy(model(x), y).backward()
    total = torch.tensor([float(sum(p.sum() for p in model.parameters()))])
    others = [torch.zeros(1) for _ in range(size)]
    dist.all_gather(others, total)
    assert all(other.equal(total) for other in others)


class _Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.skipped = nn.Linear(20, 3), nn.Linear(20, 3)
        self.both = False

    def forward(self, x: Any) -> Any:
        return self.used(x) + (self.skipped(x) if self.both else 0)


@inside
def _unused(rank: int, size: int) -> None:
    torch.manual_seed(0)
    model = DDP(_Branch(), find_unused_parameters=True)
    model.module.both = rank != 1  # one rank skips a branch
    x, y = _batch(0)
    nn.functional.cross_entropy(model(x), y).backward()
    for parameter in model.parameters():
        others = [torch.zeros_like(parameter) for _ in range(size)]
        dist.all_gather(others, parameter.grad)
        assert all(other.equal(parameter.grad) for other in others)


@inside
def _hooks(rank: int, size: int) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DDP(_model(), bucket_cap_mb=0.01)
        model.register_comm_hook(None, hook)
        _same(_train(model, _part(rank, size)).module, _alone(), 5e-3)
    model = DDP(_model(), bucket_cap_mb=0.01)  # several buckets, each of which waits inside of callbacks
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    _train(model, _part(rank, size))
    for parameter in model.parameters():
        others = [torch.zeros_like(parameter) for _ in range(size)]
        dist.all_gather(others, parameter.detach())
        assert all(other.equal(parameter) for other in others)


@inside
def _zero(rank: int, size: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DDP(_model())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    _same(_train(model, _part(rank, size), optimizer).module, _alone())
    optimizer.consolidate_state_dict(0)


@inside
def _sharded(rank: int, size: int) -> None:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh

    model = _model()
    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    _train(model, _part(rank, size))
    for (name, mine), theirs in zip(model.named_parameters(), _alone().parameters()):
        assert torch.allclose(mine.full_tensor(), theirs, atol=1e-5), name


@inside
def _tensor_parallel(rank: int, size: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = _model()
    mesh = init_device_mesh("cpu", (size,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x, _ = _batch(0)
    assert torch.allclose(model(x), _model()(x), atol=1e-5)


@inside
def _pipeline(rank: int, size: int) -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    whole = _model()
    cut = [0, 2, 5] if size == 2 else [0, 2, 4, 5]
    stage = PipelineStage(whole[cut[rank] : cut[rank + 1]], rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.cross_entropy)
    x, y = _batch(0)
    losses: Any = []
    if rank == 0:
        schedule.step(x)
    elif rank == size - 1:
        schedule.step(target=y, losses=losses)
        expected = [nn.functional.cross_entropy(_model()(a), b) for a, b in zip(x.chunk(4), y.chunk(4))]
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(losses, expected))
    else:
        schedule.step()


@inside
def _checkpoint(rank: int, size: int, folder: str) -> None:
    import torch.distributed.checkpoint as dcp

    state = {"model": _train(_model(), slice(None)).state_dict(), "step": torch.tensor(7)}
    dcp.save(state, checkpoint_id=folder)
    restored = {"model": _model(5).state_dict(), "step": torch.tensor(0)}
    dcp.load(restored, checkpoint_id=folder)
    assert restored["step"].item() == 7
    assert all(restored["model"][name].equal(value) for name, value in state["model"].items())


BODIES = [_ddp, _no_sync, _join, _unused, _hooks, _zero, _sharded, _tensor_parallel, _pipeline]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__.replace("in_group", "").strip("_"))
def test_training_equals_one_process(body: Any) -> None:
    ranks.of(2).run(body)


def test_training_on_three_ranks_equals_one_process() -> None:
    ranks.of(3).run(_ddp)


def test_checkpoint_is_restored(tmp_path: Any) -> None:
    ranks.of(2).run(_checkpoint, str(tmp_path / "checkpoint"))
