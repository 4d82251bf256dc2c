# SPDX-License-Identifier: Apache-2.0
"""Ranks for tests: processes that are started once and run one function after another. One that crashes or hangs costs its test only."""
from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import random
import runpy
import shutil
import socket
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, List

LIMIT = float(os.environ.get("MOTET_TEST_LIMIT", 120))


def _serve(rank: int, pipe: Any) -> None:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((True, function(rank, *arguments)))
        except BaseException as error:  # noqa: BLE001 - all of it goes to the test
            pipe.send((False, f"rank {rank}: {error!r}\n{traceback.format_exc()}"))


class Ranks:
    """size processes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._processes: List[Any] = []
        self._pipes: List[Any] = []

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        for rank in range(self.size):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, there), daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._pipes.append(here)

    def stop(self) -> None:
        """Ends the processes; the next run starts new ones."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(0.5)
            process.kill()
            process.join()
        self._processes, self._pipes = [], []

    def run(self, function: Callable[..., Any], *arguments: Any) -> List[Any]:
        """function(rank, size, folder, *arguments) on every rank; their results. folder is new and empty. Fails if one of them does.

        A function that returns "exit" as its whole result, or whose process ends, gives None, and the ranks are started anew.
        """
        if not self._processes:
            self._start()
        folder = tempfile.mkdtemp(prefix="motet-test-")
        results: List[Any] = [None] * self.size
        failures: Dict[int, str] = {}
        gone = False
        try:
            for pipe in self._pipes:
                pipe.send((function, (self.size, folder, *arguments)))
            for rank, pipe in enumerate(self._pipes):
                try:
                    if not pipe.poll(LIMIT):
                        failures[rank] = f"rank {rank}: nothing after {LIMIT:g} s"
                        gone = True
                        continue
                    good, value = pipe.recv()
                    if good:
                        results[rank] = value
                    else:
                        failures[rank] = value
                except EOFError:
                    gone = True
        finally:
            if gone or failures:
                self.stop()
            shutil.rmtree(folder, ignore_errors=True)
        assert not failures, "\n".join(failures.values())
        return results

    def run_program(self, path: str, *arguments: str) -> List[str]:
        """Runs a program as a launcher would, with torchrun's variables; what each rank printed."""
        return self.run(_program, path, free_port(), arguments)


def run_alone(path: str, *arguments: str) -> str:
    """The same with one rank, in this process."""
    return _program(0, 1, "", path, free_port(), arguments)


def free_port() -> int:
    """A port of this host that nobody listens on, from below those that the system gives to whoever connects."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
                return port
            except OSError:
                pass


def _program(rank: int, size: int, folder: str, path: str, port: int, arguments: Any) -> str:
    names = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()})
    sys.argv = [path, *arguments]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(path, run_name="__main__")
    finally:
        for name in names:
            del os.environ[name]
    return printed.getvalue()


_all: Dict[int, Ranks] = {}


def of(size: int) -> Ranks:
    """The ranks of this size; others are stopped, for memory's sake."""
    for other in list(_all):
        if other != size:
            _all.pop(other).stop()
    return _all.setdefault(size, Ranks(size))


def stop_all() -> None:
    """Ends all ranks that of() has started, so that a test which starts programs of its own has the machine."""
    for size in list(_all):
        _all.pop(size).stop()
