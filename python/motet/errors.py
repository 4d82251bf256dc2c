# SPDX-License-Identifier: Apache-2.0
"""Results of the C library as exceptions. An error carries who met it (rank, operation), whom it blames (peer) and why (cause)."""
from __future__ import annotations

import re
from typing import Dict, Optional, Type

from ._library import lib

SUCCESS, IN_PROGRESS = 0, 7


class MotetError(RuntimeError):
    """An error of the library. Its text is the library's sentence.

    rank: the rank that met it, None outside of a communicator. operation: what was called. peer: the other rank that the sentence
    names first, None if it names none. cause: the sentence. code: the number of the motetResult_t.
    """

    def __init__(self, code: int, cause: str, operation: str = "", rank: Optional[int] = None) -> None:
        super().__init__(cause)
        self.code = code
        self.cause = cause
        self.operation = operation
        self.rank = rank
        others = (int(number) for number in re.findall(r"\brank (\d+)", cause))
        self.peer: Optional[int] = next((other for other in others if other != rank), None)


class SystemFailure(MotetError, OSError):
    """The operating system refused something."""


class InternalError(MotetError):
    """A mistake inside the library."""


class InvalidArgument(MotetError, ValueError):
    """An argument is wrong; nothing was started."""


class InvalidUsage(MotetError):
    """A call in a wrong state, or one that does not match on all ranks."""


class RemoteError(MotetError, ConnectionError):
    """Another rank died, left or cannot be reached."""


class Timeout(MotetError, TimeoutError):
    """Something took longer than it may."""


_CLASSES: Dict[int, Type[MotetError]] = {
    2: SystemFailure,
    3: InternalError,
    4: InvalidArgument,
    5: InvalidUsage,
    6: RemoteError,
    8: Timeout,
}


def make(code: int, operation: str = "", rank: Optional[int] = None, comm: Optional[int] = None) -> MotetError:
    """The exception for a result that a call of this thread just returned."""
    sentence = (lib.motetGetLastError(comm) or lib.motetGetErrorString(code)).decode(errors="replace")
    return _CLASSES.get(code, MotetError)(code, sentence, operation, rank)


def check(code: int, operation: str = "", rank: Optional[int] = None) -> None:
    """Raises unless the result is success."""
    if code != SUCCESS:
        raise make(code, operation, rank)
