# SPDX-License-Identifier: Apache-2.0
"""The examples, on real data: the same loss on two ranks as on one."""
from __future__ import annotations

import os
import re
from typing import Any, Dict

import pytest
import ranks

pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples")
TRAINED: Dict[str, float] = {  # and a loss that an untrained model does not reach
    "ddp_digits": 0.3, "fsdp_text": 3.5, "tensor_parallel": 1.0, "pipeline": 1.5, "zero": 0.5,
}  # fmt: skip


def _loss(size: int, name: str, *arguments: str, steps: str = "") -> float:
    path = os.path.join(EXAMPLES, name + ".py")
    printed = ranks.run_alone(path, *arguments) if size == 1 else "".join(ranks.of(size).run_program(path, *arguments))
    found = re.findall(r"^(\d+) ranks: .*loss (\d+\.\d+)$", printed, re.M)
    assert len(found) == 1 and int(found[0][0]) == size and steps in printed, printed
    return float(found[0][1])


@pytest.mark.parametrize("name", TRAINED)
def test_example_has_the_loss_of_one_process(name: str) -> None:
    expected = _loss(1, name)
    assert expected < TRAINED[name]
    assert _loss(2, name) == pytest.approx(expected, rel=2e-3)


def test_checkpoint_goes_on_with_another_number_of_ranks(tmp_path: Any) -> None:
    _loss(2, "checkpoint", str(tmp_path / "two"), "10")
    resumed = _loss(1, "checkpoint", str(tmp_path / "two"), "20", steps="steps 10 to 20,")
    assert resumed == pytest.approx(_loss(1, "checkpoint", str(tmp_path / "one"), "20"), rel=2e-3)
    assert os.path.isfile(tmp_path / "one" / ".metadata")


def test_decoding_is_timed_for_all_sizes() -> None:
    lines = ranks.of(2).run_program(os.path.join(EXAMPLES, "decoding_latency.py"), "--layers", "2", "--tokens", "3")[0].splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["1", "8192"], ["2", "16384"], ["4", "32768"], ["8", "65536"]]
    assert all(float(line.split()[2]) > 0 for line in lines[2:])


def test_every_example_is_run() -> None:
    named = {*TRAINED, "checkpoint", "decoding_latency"}
    assert named == {name[:-3] for name in os.listdir(EXAMPLES) if name.endswith(".py")}
