# SPDX-License-Identifier: Apache-2.0
"""Element types and reductions, with the numbers of motet.h."""
from __future__ import annotations

import enum
from typing import Dict, Tuple


class DataType(enum.IntEnum):
    """What an element is. Buffers say it themselves; give `dtype` where they cannot, as for bfloat16 kept in uint16."""

    INT8 = 0
    UINT8 = 1
    INT32 = 2
    UINT32 = 3
    INT64 = 4
    UINT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9
    FLOAT8_E4M3 = 10
    FLOAT8_E5M2 = 11
    INT16 = 12
    UINT16 = 13
    BOOL = 14
    COMPLEX64 = 15
    COMPLEX128 = 16

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _SIZES[self.value]


_SIZES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1, 8, 16)


class ReduceOp(enum.IntEnum):
    """How elements are combined."""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4
    BAND = 5
    BOR = 6
    BXOR = 7


def _of_format() -> Dict[str, DataType]:
    """Formats of the buffer protocol, with native sizes."""
    import struct

    integers = {
        (1, True): DataType.INT8, (2, True): DataType.INT16, (4, True): DataType.INT32, (8, True): DataType.INT64,
        (1, False): DataType.UINT8, (2, False): DataType.UINT16, (4, False): DataType.UINT32, (8, False): DataType.UINT64,
    }  # fmt: skip
    formats = {letter: integers[struct.calcsize(letter), letter.islower()] for letter in "bBhHiIlLqQnN"}
    formats.update({"c": DataType.UINT8, "?": DataType.BOOL, "e": DataType.FLOAT16, "f": DataType.FLOAT32, "d": DataType.FLOAT64})
    formats.update({"Zf": DataType.COMPLEX64, "Zd": DataType.COMPLEX128})
    return formats


OF_FORMAT: Dict[str, DataType] = _of_format()

# DLPack: (code, bits) of one lane.
OF_DLPACK: Dict[Tuple[int, int], DataType] = {
    (0, 8): DataType.INT8, (0, 16): DataType.INT16, (0, 32): DataType.INT32, (0, 64): DataType.INT64,
    (1, 8): DataType.UINT8, (1, 16): DataType.UINT16, (1, 32): DataType.UINT32, (1, 64): DataType.UINT64,
    (2, 16): DataType.FLOAT16, (2, 32): DataType.FLOAT32, (2, 64): DataType.FLOAT64, (4, 16): DataType.BFLOAT16,
    (5, 64): DataType.COMPLEX64, (5, 128): DataType.COMPLEX128, (6, 8): DataType.BOOL,
    (10, 8): DataType.FLOAT8_E4M3, (12, 8): DataType.FLOAT8_E5M2,
}  # fmt: skip
