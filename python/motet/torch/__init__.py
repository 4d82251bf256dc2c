# SPDX-License-Identifier: Apache-2.0
"""The PyTorch backend: torch.distributed.init_process_group("motet"), or "cpu:motet,cuda:nccl".

Importing this module registers the name; torch itself does that through the package's entry points, so that programs need no import.
The work is done by backend.cpp, compiled for one minor version of torch: `python -m motet.torch` says which is in use, and
`python -m motet.torch build` compiles it for the installed torch. Where there is none, fallback.py serves. MOTET_TORCH_FALLBACK=1: always.
"""
from __future__ import annotations

import ctypes
import importlib
import logging
import os
import sys
import time
from typing import Any, Dict, Optional, Tuple

from . import callbacks, compiling

_log = logging.getLogger("motet.torch")
_state: Dict[str, Any] = {}


def _register_early() -> None:
    """Entry point of torch.backends, run at the end of `import torch`: must be cheap and never fail."""
    try:
        _register()
    except Exception as error:  # noqa: BLE001 - torch could not be imported otherwise
        _log.warning("the motet backend is not registered: %s", error)


def _register() -> None:
    """Makes the name known to torch.distributed."""
    dist: Any = sys.modules.get("torch.distributed") or importlib.import_module("torch.distributed")
    if not dist.is_available() or "MOTET" in dist.Backend._plugins:
        return
    dist.Backend.register_backend("motet", _create, extended_api=True, devices=["cpu"])
    _serve_other_name(dist)


def _serve_other_name(dist: Any) -> None:
    """MOTET_TORCH_REPLACE=gloo: groups that a framework makes by that name are motet's. Said once."""
    name = os.environ.get("MOTET_TORCH_REPLACE", "")
    if not name:
        return
    if name != "gloo":
        _log.warning("MOTET_TORCH_REPLACE=%s: only gloo can be replaced", name)
        return
    helper = dist.distributed_c10d._new_process_group_helper

    def replaced(size: int, rank: int, ranks: Any, backend: Any, *rest: Any, **named: Any) -> Any:
        parts = [part.rpartition("gloo")[0] + "motet" if part.endswith("gloo") else part for part in str(backend).lower().split(",")]
        return helper(size, rank, ranks, dist.Backend(",".join(parts)), *rest, **named)

    dist.distributed_c10d._new_process_group_helper = replaced
    _log.warning("MOTET_TORCH_REPLACE=gloo: groups of the name gloo are served by motet")


def backend_file() -> Optional[str]:
    """The compiled backend for exactly this torch, or None."""
    import torch

    major, minor = torch.__version__.split(".")[:2]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), compiling.file_name(f"{major}.{minor}"))
    return path if os.path.isfile(path) else None


def _load() -> bool:
    """Loads the compiled backend; False if there is none for this torch."""
    if "native" not in _state:
        import torch

        path = None if os.environ.get("MOTET_TORCH_FALLBACK") == "1" else backend_file()
        _state["native"] = path is not None
        if not path:
            _log.warning("torch %s is served in Python, some microseconds slower; compile: python -m motet.torch build", torch.__version__)
        if path:
            operators: Any = torch.ops
            operators.load_library(path)
            callbacks.follow(path)
            _log.info("backend %s", path)
    return bool(_state["native"])


class _Store:
    """c10d's Store as motet wants it. The store is used on the calling thread only, while a group is made."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        # Store.wait with a short limit logs a warning each time, so the key is asked for.
        deadline, pause = time.monotonic() + timeout, 1e-4
        while not self._store.check([key]):
            if time.monotonic() >= deadline:
                raise TimeoutError
            time.sleep(pause)
            pause = min(1.5 * pause, 0.01)
        return bytes(self._store.get(key))


def _communicators(options: Any, timeout_ms: int) -> Tuple[int, int, Any]:
    """Two communicators over the group's store, for what the program calls and for messages: see backend.cpp."""
    from .. import errors
    from .._library import Config, lib
    from ..communicator import _callbacks

    caught: Any = []
    callbacks = _callbacks(_Store(options.store), caught)
    name = str(options.group_id or "world").encode()[:40]
    limit = min(timeout_ms, 2**31 - 1)
    config = Config(commName=name, timeoutMs=limit, initTimeoutMs=limit)
    comm, messages = ctypes.c_void_p(), ctypes.c_void_p()
    code = lib.motetCommInitStore(comm, options.group_size, ctypes.byref(callbacks), options.group_rank, ctypes.byref(config))
    if code == errors.SUCCESS:
        config = Config(commName=name + b" messages", timeoutMs=limit, initTimeoutMs=limit)
        code = lib.motetCommSplit(comm, 0, options.group_rank, messages, ctypes.byref(config))
    if code != errors.SUCCESS:
        import torch.distributed as dist

        error = errors.make(code, "init_process_group", options.group_rank)
        for handle in (messages, comm):
            lib.motetCommAbort(handle)
        kind = getattr(dist, "DistBackendError", RuntimeError)
        raise kind(f"motet: rank {options.group_rank} of {options.group_size}, group {name.decode()}, {_where(options.store)}: {error}") from (
            caught[0] if caught else error
        )
    return comm.value or 0, messages.value or 0, callbacks


def _where(store: Any) -> str:
    """The store's address, for people."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if hasattr(store, "host") and hasattr(store, "port"):
        return f"store {store.host}:{store.port}"
    return f"store {getattr(store, 'path', type(store).__name__)}"


def _create(options: Any, pg_options: Any) -> Any:
    """The creator that torch.distributed calls on every rank of a new group."""
    import torch
    import torch.distributed as dist

    timeout_ms = int(options.timeout.total_seconds() * 1000)
    name = str(options.group_id or "world")
    if not _load():
        from . import fallback

        comm, messages, callbacks = _communicators(options, timeout_ms)
        return fallback.make(options.store, comm, messages, name, callbacks)
    carrier = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    if not _attach_to_world(carrier, options, timeout_ms, name):
        comm, messages, _callbacks = _communicators(options, timeout_ms)
        torch.ops.motet.attach(carrier.boxed(), comm, messages, timeout_ms, name)
    return carrier._get_backend(torch.device("cpu"))


def _attach_to_world(carrier: Any, options: Any, timeout_ms: int, name: str) -> bool:
    """A group of some ranks is made from the communicators of all: its ranks need no store, no threads and no sockets. False: there are none."""
    import torch
    import torch.distributed as dist

    ranks = list(options.global_ranks_in_group or ())
    if not dist.is_initialized() or len(ranks) != options.group_size:
        return False
    world: Any = dist.group.WORLD
    if torch.device("cpu") not in world._device_types:
        return False
    return bool(torch.ops.motet.attach_subset(carrier.boxed(), world.boxed(), ranks, timeout_ms, name))


if "torch" in sys.modules and hasattr(sys.modules["torch"], "distributed"):
    _register()
