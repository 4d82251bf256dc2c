# SPDX-License-Identifier: Apache-2.0
"""motet: collective communication between ranks that are threads, processes or hosts, on CPU memory.

    import motet, numpy
    with motet.init() as comm:
        x = numpy.full(4, comm.rank, "float32")
        comm.all_reduce(x)

started by `motet run -n 4 python program.py`, or by torchrun, mpirun, srun. For PyTorch: torch.distributed.init_process_group("motet").
"""
from __future__ import annotations

import ctypes as _ctypes
from typing import Any

from ._library import lib as _lib
from .communicator import ANY_SOURCE, ANY_TAG, Communicator, KeyValueStore, Received, Scaled, group
from .errors import InternalError, InvalidArgument, InvalidUsage, MotetError, RemoteError, SystemFailure, Timeout
from .memory import allocate
from .streams import Event, Future, Stream
from .types import DataType, ReduceOp

__version__ = "0.1.0"

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "Communicator", "DataType", "Event", "Future", "InternalError", "InvalidArgument", "InvalidUsage",
    "KeyValueStore", "MotetError", "Received", "ReduceOp", "RemoteError", "Scaled", "Stream", "SystemFailure", "Timeout",
    "allocate", "group", "init", "nccl_level",
]  # fmt: skip


def init(**options: Any) -> Communicator:
    """Communicator.from_env: all ranks that a launcher started; alone, one rank."""
    return Communicator.from_env(**options)


def nccl_level() -> int:
    """The NCCL interface level of the library, as in motetGetVersion."""
    version = _ctypes.c_int()
    _lib.motetGetVersion(version)
    return version.value
