# SPDX-License-Identifier: Apache-2.0
"""dist.all_reduce with motet, Gloo, and torch's fake backend in one run, on this host.

    python python/bench/latency.py [--ranks 2] [--sizes 8,4096,65536,1048576,16777216] [--json]

Columns: microseconds of a call (median of repeats), for each backend; how many times faster than Gloo. The fake backend does nothing:
what a call costs in torch itself. Rows "bucket" are DistributedDataParallel's: all_reduce with a future that is waited for.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from typing import Any, Dict, List

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

REPEATS = 7


def _time(call: Any, limit: float) -> float:
    """Seconds of one call: median of repeats that share the limit. All ranks do the same number of calls."""
    call()
    start = time.perf_counter()
    for _ in range(3):
        call()
    guess = torch.tensor([(time.perf_counter() - start) / 3])
    dist.all_reduce(guess, op=dist.ReduceOp.MAX)
    n = max(3, min(20000, int(limit / REPEATS / max(guess.item(), 1e-7))))
    results = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(n):
            call()
        results.append((time.perf_counter() - start) / n)
    return statistics.median(results)


def _measure(backend: str, sizes: List[int], limit: float) -> Dict[str, float]:
    rows: Dict[str, float] = {}
    for size in sizes:
        x = torch.zeros(max(1, size // 4))
        rows[str(size)] = 1e6 * _time(lambda: dist.all_reduce(x), limit)
    bucket = torch.zeros(128)
    group = dist.group.WORLD
    options = dist.AllreduceOptions()
    rows["bucket 512"] = 1e6 * _time(lambda: group.allreduce([bucket], options).get_future().wait(), limit)
    rows["bucket 512, 16 at once"] = 1e6 / 16 * _time(lambda: [w.get_future().wait() for w in [group.allreduce([bucket], options) for _ in range(16)]], limit)
    return rows


def _rank(rank: int, size: int, folder: str, sizes: List[int], limit: float, results: Any) -> None:
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    for backend in ("fake", "motet", "gloo"):
        if backend == "fake":
            from torch.testing._internal.distributed.fake_pg import FakeStore

            dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
        else:
            os.sched_setaffinity(0, cores if backend == "gloo" else {cores[rank % len(cores)]})
            dist.init_process_group(backend, init_method=f"file://{folder}/{backend}", rank=rank, world_size=size)
        rows = _measure(backend, sizes, limit)
        if rank == 0:
            results[backend] = rows
        dist.destroy_process_group()


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description="dist.all_reduce with motet, Gloo and the fake backend")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="8,4096,65536,1048576,16777216")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row and backend")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    with mp.Manager() as manager, tempfile.TemporaryDirectory() as folder:
        shared = manager.dict()
        mp.spawn(_rank, args=(given.ranks, folder, sizes, given.seconds, shared), nprocs=given.ranks)
        results = dict(shared)
    if given.json:
        print(json.dumps({"ranks": given.ranks, "torch": torch.__version__, "microseconds": results}, indent=1))
        return
    print(f"# {given.ranks} ranks, torch {torch.__version__}, microseconds of a call")
    print(f"{'bytes':>24} {'fake':>10} {'motet':>10} {'gloo':>10} {'gloo/motet':>11}")
    for row, ours in results["motet"].items():
        gloo = results["gloo"][row]
        print(f"{row:>24} {results['fake'][row]:10.2f} {ours:10.2f} {gloo:10.2f} {gloo / ours:11.1f}")


if __name__ == "__main__":
    main()
