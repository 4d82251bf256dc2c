# SPDX-License-Identifier: Apache-2.0
"""Callbacks of torch's futures know how deep they are, whichever thread runs them.

torch runs a callback on the thread that completes its future, or at once on the thread that attaches it when the future is complete
already: which of the two differs from rank to rank. What callbacks call must go to the same communicator on every rank, so that is chosen
by depth: a callback is one deeper than the code that attached it. The backend keeps the depth of each thread; a future cannot tell it, so
`then` and `add_done_callback` of all futures hand over a callback that sets it for as long as it runs. Knows nothing of groups.
"""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable


def follow(backend_file: str) -> None:
    """From now on callbacks tell their depth to this backend."""
    native = ctypes.PyDLL(backend_file)  # keeps Python's lock: the calls take nanoseconds
    follow_with(native.motet_torch_depth, native.motet_torch_set_depth)


def follow_with(depth: Callable[[], int], set_depth: Callable[[int], int]) -> None:
    """The same with any two functions: a thread's depth; sets it and returns the one before."""
    import torch

    future: Any = torch._C.Future
    for name in ("then", "add_done_callback"):
        setattr(future, name, _telling(getattr(future, name), depth, set_depth))


def _telling(attach: Callable[..., Any], depth: Callable[[], int], set_depth: Callable[[int], int]) -> Callable[..., Any]:
    """A method that attaches a callback one deeper than its caller."""

    @functools.wraps(attach)
    def attach_deeper(self: Any, callback: Any) -> Any:
        if not callable(callback):
            return attach(self, callback)  # which says so
        deeper = depth() + 1

        def deep(future: Any) -> Any:
            before = set_depth(deeper)
            try:
                return callback(future)
            finally:
                set_depth(before)

        return attach(self, deep)

    return attach_deeper
