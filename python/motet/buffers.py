# SPDX-License-Identifier: Apache-2.0
"""Memory of other libraries' objects: by the buffer protocol (NumPy, array, bytearray, ...) or by DLPack (PyTorch, JAX, ...).

A View holds the object's memory until it is released or dropped, so that an operation on a stream can outlive its caller's variable.
"""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Optional

from .types import OF_DLPACK, OF_FORMAT, DataType


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_WRITABLE, _FORMAT, _C_CONTIGUOUS = 0x1, 0x4, 0x38
_DLPACK_CPU = 1

_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


class View:
    """Contiguous memory: address, number of elements, their type."""

    __slots__ = ("pointer", "count", "dtype", "_owner", "_release", "__weakref__")

    def __init__(self, obj: Any, writable: bool = False, dtype: Optional[DataType] = None) -> None:
        try:
            nbytes, found = self._from_buffer(obj, writable)
        except TypeError:
            if not hasattr(obj, "__dlpack__"):
                raise TypeError(f"{type(obj).__name__} has neither the buffer protocol nor DLPack") from None
            nbytes, found = self._from_dlpack(obj)
        known = found if dtype is None else dtype
        if known is None:
            raise TypeError(f"elements of this {type(obj).__name__} have no type that motet knows: give dtype")
        self.dtype = DataType(known)
        self.count, rest = divmod(nbytes, self.dtype.itemsize)
        if rest:
            raise ValueError(f"{nbytes} bytes are not a multiple of {self.dtype.name}'s size")

    def _from_buffer(self, obj: Any, writable: bool) -> tuple[int, Optional[DataType]]:
        view = _PyBuffer()
        try:
            _get_buffer(obj, view, _C_CONTIGUOUS | _FORMAT | (_WRITABLE if writable else 0))
        except (BufferError, ValueError) as error:
            if hasattr(obj, "__dlpack__") and getattr(obj, "dtype", None) is not None and "float8" in str(obj.dtype):
                raise TypeError from error
            raise ValueError(f"the {type(obj).__name__} must be contiguous{' and writable' if writable else ''}: {error}") from None
        self.pointer: int = view.buf or 0
        self._owner: Any = view
        self._release = weakref.finalize(self, _release_buffer, view)
        letters = (view.format or b"B").decode()
        return view.len, OF_FORMAT.get(letters.lstrip("@=<"))

    def _from_dlpack(self, obj: Any) -> tuple[int, Optional[DataType]]:
        if obj.__dlpack_device__()[0] != _DLPACK_CPU:
            raise ValueError(f"the {type(obj).__name__} is not in CPU memory")
        capsule = obj.__dlpack__()
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        count = 1
        for axis in reversed(range(tensor.ndim)):
            if tensor.strides and tensor.shape[axis] > 1 and tensor.strides[axis] != count:
                raise ValueError(f"the {type(obj).__name__} must be contiguous")
            count *= tensor.shape[axis]
        self.pointer = (tensor.data or 0) + tensor.byte_offset
        self._owner = (obj, capsule)
        self._release = weakref.finalize(self, _nothing)
        return count * tensor.bits // 8, OF_DLPACK.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None

    def release(self) -> None:
        """Gives the memory back to its owner."""
        self._release()
        self._owner = None


def _nothing() -> None:
    """DLPack capsules give back what they hold when they are dropped."""
