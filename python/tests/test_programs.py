# SPDX-License-Identifier: Apache-2.0
"""Short programs as users write them (programs/), started by every means: what they print."""
from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Dict, Iterator, List

import pytest
import ranks

pytest.importorskip("torch")

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIMIT = float(os.environ.get("MOTET_TEST_LIMIT", 120))
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def _path(name: str) -> str:
    return os.path.join(HERE, "programs", name + ".py")


def _run(command: List[str], **environment: str) -> Any:
    """The end of a command: its text, and that it succeeded."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_send_and_recv_in_a_ring() -> None:
    assert ranks.of(2).run_program(_path("send_recv")) == ["token [1.0, 1.0, 1.0]\n", ""]


def test_broadcast_gives_all_what_one_has() -> None:
    assert ranks.of(2).run_program(_path("broadcast")) == ["rank 0: 999000\n", "rank 1: 999000\n"]


def test_reduce_of_a_loss_leaves_the_others_alone() -> None:
    assert ranks.of(2).run_program(_path("reduce_loss")) == ["rank 0: loss 1.0\n", "rank 1: loss 1.5\n"]


def test_all_gather_into_a_list() -> None:
    assert ranks.of(2).run_program(_path("gather_list")) == ["[[0, 0], [1, 1]]\n"] * 2


def test_average_of_gradients_is_the_same_on_all_ranks() -> None:
    expected = ranks.run_alone(_path("average_gradients"))
    printed = ranks.of(2).run_program(_path("average_gradients"))
    assert printed[0] == printed[1]
    assert float(printed[0].split()[1]) == pytest.approx(float(expected.split()[1]), abs=2e-5)


def test_ddp_does_not_depend_on_its_buckets() -> None:
    first, second = (line.split()[3:] for line in ranks.of(2).run_program(_path("ddp_buckets")))
    assert first[0] == first[1] and second[0] == second[1] and first[:2] != second[:2]
    assert first[2:] == second[2:]  # the weights: those of both ranks, whose data differ


def test_sum_of_ranks_and_ring_on_four() -> None:
    assert ranks.of(4).run_program(_path("sum_of_ranks")) == ["sum 10\n"] * 4
    assert ranks.of(4).run_program(_path("send_recv"))[0] == "token [3.0, 3.0, 3.0]\n"
    assert ranks.of(4).run_program(_path("broadcast")) == [f"rank {rank}: 1998000\n" for rank in range(4)]
    ranks.stop_all()


def test_spawned_ranks_meet_at_master_addr_and_port() -> None:
    assert _run([sys.executable, _path("spawned"), str(ranks.free_port())]).stdout == "sum [3.0, 3.0, 3.0, 3.0, 3.0]\n"


def test_torchrun_needs_nothing() -> None:
    command = [*TORCHRUN, "--nproc-per-node", "2", "--master-port", str(ranks.free_port()), _path("sum_of_ranks")]
    assert re.findall(r"sum \d+", _run(command).stdout) == ["sum 3"] * 2


def test_motet_run_needs_nothing() -> None:
    programs = [path for path in glob.glob(os.path.join(ROOT, "build", "*", "bin", "motet")) if os.access(path, os.X_OK)]
    if not programs:
        pytest.skip("the command motet is not built")
    done = _run([max(programs, key=os.path.getmtime), "run", "-n", "2", sys.executable, _path("reduce_loss")])
    assert sorted(done.stdout.splitlines()) == ["[0] rank 0: loss 1.0", "[1] rank 1: loss 1.5"]


def test_program_that_names_gloo_is_served_when_asked_for() -> None:
    command = [*TORCHRUN, "--nproc-per-node", "2", "--master-port", str(ranks.free_port()), _path("as_gloo")]
    done = _run(command, MOTET_TORCH_REPLACE="gloo")
    assert re.findall(r"\w+ \[.*?\]", done.stdout) == ["motet [2, 2, 2]"] * 6
    said = [line for line in done.stderr.splitlines() if "MOTET_TORCH_REPLACE" in line]
    assert len(said) == 3, done.stderr  # once in each process: the launcher and two ranks


@pytest.fixture()
def hosts() -> Iterator[List[List[str]]]:
    """Commands that run the rest of their line on one of two hosts: network namespaces with a cable, at 10.79.0.1 and 10.79.0.2."""
    needed = [shutil.which(tool) for tool in ("ip", "nsenter", "unshare")]
    if os.geteuid() != 0 or not all(needed):
        pytest.skip("network namespaces need root and iproute2")
    keepers: List[Any] = []
    try:
        for _ in range(2):
            keepers.append(subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE, text=True))
            if keepers[-1].stdout.readline() != "ready\n":
                pytest.skip("network namespaces are forbidden here")
        enter = [["nsenter", "-t", str(keeper.pid), "-n"] for keeper in keepers]
        _run([*enter[0], "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(keepers[1].pid)])
        for host, prefix in enumerate(enter):
            _run([*prefix, "sh", "-c", f"ip link set lo up; ip addr add 10.79.0.{host + 1}/24 dev cable; ip link set cable up"])
        yield enter
    finally:
        for keeper in keepers:
            keeper.kill()
            keeper.wait()
            keeper.stdout.close()


def test_torchrun_on_two_hosts(hosts: List[List[str]]) -> None:
    options = ["--nnodes=2", "--nproc-per-node=1", "--master_addr=10.79.0.1", "--master_port=29500"]
    nodes = []
    for host, prefix in enumerate(hosts):
        environment: Dict[str, str] = {**os.environ, "OMP_NUM_THREADS": "1", "MOTET_HOSTID": f"host {host}", "MOTET_DEBUG": "INFO"}
        command = [*prefix, *TORCHRUN, *options, f"--node_rank={host}", _path("sum_of_ranks")]
        nodes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
    try:
        printed = [node.communicate(timeout=LIMIT) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    for node, (out, err) in zip(nodes, printed):
        assert node.returncode == 0 and re.findall(r"^sum .*", out, re.M) == ["sum 3"], out + err
    assert all("via NET/Socket" in err and "nNodes 2" in err for _, err in printed), printed
