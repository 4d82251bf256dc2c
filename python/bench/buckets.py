# SPDX-License-Identifier: Apache-2.0
"""What DistributedDataParallel's bucket_cap_mb and gradient_as_bucket_view do to a step's time and memory, on this host.

    python python/bench/buckets.py [--ranks 2] [--caps 1,5,25,100] [--backends motet,gloo] [--steps 7]

A model of 10 million parameters (40 MB). Columns: cap in MB, whether gradients are views of buckets, milliseconds of a step (median, slowest
rank), memory that model, gradients and buckets take on rank 0, in MB.
"""
from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def _resident_mb() -> float:
    """Memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _measure(width: int, cap_mb: float, view: bool, steps: int) -> Any:
    before = _resident_mb()
    model = nn.Sequential(*(layer for _ in range(10) for layer in (nn.Linear(width, width), nn.ReLU())))
    wrapped = DistributedDataParallel(model, bucket_cap_mb=cap_mb, gradient_as_bucket_view=view)
    x = torch.randn(64, width)
    times = torch.zeros(steps)
    for step in range(-2, steps):
        dist.barrier()
        start = time.perf_counter()
        wrapped(x).square().mean().backward()
        if step >= 0:
            times[step] = time.perf_counter() - start
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return 1e3 * statistics.median(times.tolist()), _resident_mb() - before


def _rank(rank: int, given: Any, folder: str, backend: str, cap_mb: float, view: bool) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=given.ranks)
    _measure(10, cap_mb, view, 1)  # what torch itself loads and allocates is not counted
    milliseconds, megabytes = _measure(1000, cap_mb, view, given.steps)
    if rank == 0:
        print(f"{backend:>7} {cap_mb:6g} {'view' if view else 'copy':>6} {milliseconds:9.1f} {megabytes:8.0f}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    """Prints a row for each setting."""
    parser = argparse.ArgumentParser(description="bucket_cap_mb and gradient_as_bucket_view")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--caps", default="1,5,25,100", type=lambda text: [float(word) for word in text.split(",")])
    parser.add_argument("--backends", default="motet,gloo", type=lambda text: text.split(","))
    parser.add_argument("--steps", type=int, default=7)
    given = parser.parse_args()
    print(f"# {given.ranks} ranks, torch {torch.__version__}\nbackend    cap   grad   ms/step       MB", flush=True)
    for backend in given.backends:
        for cap_mb in given.caps:
            for view in (False, True):
                with tempfile.TemporaryDirectory() as folder:  # and new processes, whose memory is untouched
                    mp.spawn(_rank, args=(given, folder, backend, cap_mb, view), nprocs=given.ranks)


if __name__ == "__main__":
    main()
