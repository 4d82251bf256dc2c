# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's operations with motet and with Gloo, in the same processes, sample by sample in turn, on this host.
Ranks are bound to a CPU each; threads that a backend starts are not.

    python python/bench/compare.py [--ranks 2] [--sizes 8,512,...] [--operations all_reduce,...] [--samples 9] [--output FOLDER]

Prints a table of microseconds (medians) and Gloo's time over motet's (median of the ratios of neighbouring samples). With --output also
writes results.json, results.md and results.svg there. Bytes are those of the tensor that a rank gives, or gets if that is larger.
"""
from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import plot

BACKENDS = ("motet", "gloo")
SIZES = "8,512,4096,32768,262144,2097152,16777216"
SECONDS = 0.02  # of one sample, if the operation is short enough


def _calls(size: int, nbytes: int) -> Dict[str, Callable[[Any], Any]]:
    """The operations on tensors of that many bytes; each takes a group."""
    whole = torch.ones(max(size, nbytes // 4 // size * size))
    part, other = torch.ones(whole.numel() // size), torch.empty_like(whole)
    all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # the old names warn where there are new ones
    reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    return {
        "all_reduce": lambda group: dist.all_reduce(whole, dist.ReduceOp.MAX, group=group),
        "all_gather": lambda group: all_gather(other, part, group=group),
        "reduce_scatter": lambda group: reduce_scatter(part, whole, group=group),
        "all_to_all": lambda group: dist.all_to_all_single(other, whole, group=group),
        "broadcast": lambda group: dist.broadcast(whole, 0, group=group),
        "reduce": lambda group: dist.reduce(whole, 0, dist.ReduceOp.MAX, group=group),
    }


def _seconds(call: Callable[[Any], Any], group: Any, times: int) -> float:
    """Seconds of one call, of the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(times):
        call(group)
    taken = torch.tensor([(time.perf_counter() - start) / times])
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return float(taken.item())


def _times_of_a_sample(call: Callable[[Any], Any], group: Any) -> int:
    """How many calls take SECONDS. Short trials say little: ranks do not begin together."""
    times = 3
    while times < 5000:
        seconds = _seconds(call, group, times)
        if seconds * times >= SECONDS / 2:
            return max(2, min(5000, int(SECONDS / seconds)))
        times *= 4
    return 5000


def _measure(operations: List[str], sizes: List[int], samples: int, size: int) -> List[Dict[str, Any]]:
    groups = {"motet": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    _seconds(_calls(size, 8)["all_reduce"], groups["gloo"], 1)
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[dist.get_rank() % len(cpus)]})  # this thread alone: those of Gloo stay free
    rows = []
    for nbytes in sizes:
        calls = _calls(size, nbytes)
        for name in operations:
            times = {backend: _times_of_a_sample(calls[name], group) for backend, group in groups.items()}
            taken: Dict[str, List[float]] = {backend: [] for backend in groups}
            for _ in range(samples):
                for backend, group in groups.items():
                    taken[backend].append(_seconds(calls[name], group, times[backend]))
            row: Dict[str, Any] = {backend: 1e6 * statistics.median(values) for backend, values in taken.items()}
            ratio = statistics.median(theirs / ours for ours, theirs in zip(taken["motet"], taken["gloo"]))
            rows.append({"operation": name, "bytes": nbytes, **row, "ratio": ratio})
    return rows


def _rank(rank: int, given: Any, folder: str, results: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet", init_method=f"file://{folder}/store", rank=rank, world_size=given.ranks)
    rows = _measure(given.operations, given.sizes, given.samples, given.ranks)
    if rank == 0:
        results.extend(rows)
    dist.destroy_process_group()


def machine() -> str:
    """The processor, how many CPUs this program may use, and the date."""
    model = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, torch {torch.__version__}, {time.strftime('%-d %B %Y')}"


def table(rows: List[Dict[str, Any]]) -> str:
    """In Markdown: for each operation and size microseconds and the ratio."""
    lines = ["| operation | bytes | motet, us | Gloo, us | ratio |", "|---|---:|---:|---:|---:|"]
    for row in sorted(rows, key=lambda row: str(row["operation"])):
        lines.append(f"| {row['operation']} | {plot.short(row['bytes'])} | {row['motet']:.3g} | {row['gloo']:.4g} | {row['ratio']:.3g} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, prints, writes."""
    names = list(_calls(1, 8))
    parser = argparse.ArgumentParser(description="torch.distributed with motet and with Gloo, in turn")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default=SIZES, type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--operations", default=names, type=lambda text: text.split(","), help=",".join(names))
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--output", help="a folder")
    given = parser.parse_args()
    if not set(given.operations) <= set(names):
        parser.error(f"operations are {', '.join(names)}")
    with mp.Manager() as manager, tempfile.TemporaryDirectory() as folder:
        shared = manager.list()
        mp.spawn(_rank, args=(given, folder, shared), nprocs=given.ranks)
        rows = list(shared)
    title = f"{given.ranks} ranks, {machine()}"
    print(f"{title}\n\n{table(rows)}", end="")
    if given.output:
        os.makedirs(given.output, exist_ok=True)
        texts = {"results.json": json.dumps({"title": title, "rows": rows}, indent=1) + "\n", "results.md": f"{title}\n\n{table(rows)}"}
        texts["results.svg"] = plot.panels(rows, BACKENDS, title)
        for name, text in texts.items():
            with open(os.path.join(given.output, name), "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main()
