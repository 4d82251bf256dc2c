# SPDX-License-Identifier: Apache-2.0
"""The backend in Python, which serves versions of torch without a compiled one: the same programs as in test_torch.py."""
from __future__ import annotations

import os
from typing import Any

import pytest
import ranks

torch = pytest.importorskip("torch")
import test_torch as common  # noqa: E402
import torch.distributed as dist  # noqa: E402
from test_callbacks import _failing, _inline_on_one_rank, _nested  # noqa: E402
from test_training import BODIES  # noqa: E402

UNSHARED = {"strided", "groups", "shrunk", "mixed", "monitored"}  # what only the compiled backend has: allocators, splits, devices


def _name(body: Any) -> str:
    return str(body.__name__).replace("in_group", "").strip("_")


@pytest.fixture(scope="module")
def pair() -> Any:
    """Two ranks without the compiled backend."""
    os.environ["MOTET_TORCH_FALLBACK"] = "1"
    both = ranks.Ranks(2)
    both.run(_served)
    yield both
    both.stop()
    del os.environ["MOTET_TORCH_FALLBACK"]


def _served(rank: int, size: int, folder: str) -> None:
    common._init(rank, size, folder)
    assert type(dist.group.WORLD).__module__ == "motet.torch.fallback"
    dist.destroy_process_group()


@common.inside
def _negated(rank: int, size: int) -> None:
    """A view that torch negates when it is read."""
    x = torch._neg_view(torch.full((3,), float(rank)))
    dist.broadcast(x, src=1)
    assert x.tolist() == [-1.0] * 3


@pytest.mark.parametrize("body", [body for body in [*common.OPERATIONS, _failing, _inline_on_one_rank, _nested, _negated, *BODIES] if _name(body) not in UNSHARED], ids=_name)
def test_fallback_works(body: Any, pair: Any) -> None:
    pair.run(body)


@pytest.mark.parametrize("kind, said", [("shape", "5 x float32"), ("later", "5 x float32"), ("dtype", "int32"), ("operation", "Broadcast"), ("short", "5 elements")])
def test_fallback_says_what_does_not_match(kind: str, said: str, pair: Any) -> None:
    texts = pair.run(common._mismatch, kind)
    for text in texts[: 1 if kind == "short" else 2]:
        assert said in text
