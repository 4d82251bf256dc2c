# SPDX-License-Identifier: Apache-2.0
"""Memory that the ranks of a host map directly: operations on it need no staging copies."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any

from . import errors
from ._library import lib


def allocate(nbytes: int) -> Any:
    """A zeroed, page-aligned buffer of nbytes, given back when it and all views of it are gone.

    numpy.frombuffer(motet.allocate(n), dtype) or torch.frombuffer(...) make arrays of it.
    """
    pointer = ctypes.c_void_p()
    errors.check(lib.motetMemAlloc(pointer, nbytes), "allocate")
    buffer = (ctypes.c_ubyte * nbytes).from_address(pointer.value or 0) if nbytes else (ctypes.c_ubyte * 0)()
    if nbytes:
        weakref.finalize(buffer, lib.motetMemFree, pointer.value).atexit = False
    return buffer
