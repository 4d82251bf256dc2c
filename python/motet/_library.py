# SPDX-License-Identifier: Apache-2.0
"""The C library: where it is, and what its functions look like.

SIGNATURES is the one table of the C functions that the package calls; a letter per argument. ctypes releases the GIL around each call.
MOTET_LIBRARY names another libmotet than the one beside this file.
"""
from __future__ import annotations

import ctypes
import os
from typing import Any

LETTERS: dict[str, Any] = {
    "p": ctypes.c_void_p,  # a buffer, or a handle that is given
    "h": ctypes.POINTER(ctypes.c_void_p),  # a handle that is returned
    "n": ctypes.c_size_t,
    "i": ctypes.c_int,
    "I": ctypes.POINTER(ctypes.c_int),
    "N": ctypes.POINTER(ctypes.c_size_t),
    "F": ctypes.POINTER(ctypes.c_float),
    "s": ctypes.c_char_p,
}

SIGNATURES: dict[str, str] = {
    "motetGetVersion": "I",
    # communicators
    "motetCommInitEnv": "hp",
    "motetCommInitAll": "pip",
    "motetCommInitFile": "hisip",
    "motetCommInitStore": "hipip",
    "motetCommSplit": "piihp",
    "motetCommShrink": "pIihpi",
    "motetCommRevoke": "pi",
    "motetCommFinalize": "p",
    "motetCommDestroy": "p",
    "motetCommAbort": "p",
    "motetCommGetAsyncError": "pI",
    "motetCommCount": "pI",
    "motetCommUserRank": "pI",
    # collectives
    "motetAllReduce": "ppniipp",
    "motetReduce": "ppniiipp",
    "motetBroadcast": "ppniipp",
    "motetAllGather": "ppnipp",
    "motetReduceScatter": "ppniipp",
    "motetAlltoAll": "ppnipp",
    "motetGather": "ppniipp",
    "motetScatter": "ppniipp",
    "motetBarrier": "pp",
    "motetAllGatherV": "pnpNNipp",
    "motetReduceScatterV": "ppNiipp",
    "motetAlltoAllV": "pNNpNNipp",
    "motetGatherV": "pnpNNiipp",
    "motetScatterV": "pNNpniipp",
    # point to point
    "motetSend": "pniipp",
    "motetRecv": "pniipp",
    "motetSendTag": "pniiipp",
    "motetRecvTag": "pniiippp",
    "motetGroupStart": "",
    "motetGroupEnd": "",
    # operations, streams, events, memory
    "motetRedOpCreatePreMulSum": "Ipiip",
    "motetRedOpDestroy": "ip",
    "motetStreamCreate": "h",
    "motetStreamDestroy": "p",
    "motetStreamQuery": "p",
    "motetStreamSynchronize": "p",
    "motetStreamWaitEvent": "pp",
    "motetEventCreate": "h",
    "motetEventDestroy": "p",
    "motetEventRecord": "pp",
    "motetEventQuery": "p",
    "motetEventSynchronize": "p",
    "motetEventElapsedTime": "Fpp",
    "motetMemAlloc": "hn",
    "motetMemFree": "p",
}


class Config(ctypes.Structure):
    """motetConfig_t. Fields after the three of the header are ints except two strings, all undefined at first."""

    _UNDEFINED = -(2**31)
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
        ("cgaClusterSize", ctypes.c_int),
        ("minCTAs", ctypes.c_int),
        ("maxCTAs", ctypes.c_int),
        ("netName", ctypes.c_char_p),
        ("splitShare", ctypes.c_int),
        ("trafficClass", ctypes.c_int),
        ("commName", ctypes.c_char_p),
        *[
            (name, ctypes.c_int)
            for name in (
                "collnetEnable CTAPolicy shrinkShare nvlsCTAs nChannelsPerNetPeer nvlinkCentricSched graphUsageMode "
                "numRmaCtx maxP2pPeers graphStreamOrdering timeoutMs initTimeoutMs warnAfterMs nThreads"
            ).split()
        ],
    ]

    def __init__(self, **values: Any) -> None:
        undefined: dict[str, Any] = {field[0]: self._UNDEFINED for field in self._fields_ if field[1] is ctypes.c_int}
        super().__init__(**{**undefined, "size": ctypes.sizeof(Config), "magic": 0xCAFEBEEF, "version": 22600, **values})


class Status(ctypes.Structure):
    """motetStatus_t: what a tagged receive got."""

    _fields_ = [("source", ctypes.c_int), ("tag", ctypes.c_int), ("count", ctypes.c_size_t)]


STORE_SET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
STORE_GET = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.c_int,
)


class Store(ctypes.Structure):
    """motetStore_t: a key-value store of the caller's."""

    _fields_ = [("context", ctypes.c_void_p), ("set", STORE_SET), ("get", STORE_GET)]


def path() -> str:
    """The library's file."""
    return os.environ.get("MOTET_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libmotet.so.0")


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path())
    except OSError as error:
        raise ImportError(f"motet: cannot load {path()}: {error}; install with 'pip install ./python' or set MOTET_LIBRARY") from error
    for name, letters in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = [LETTERS[letter] for letter in letters]
        function.restype = ctypes.c_int
    library.motetGetLastError.argtypes = [ctypes.c_void_p]
    library.motetGetLastError.restype = ctypes.c_char_p
    library.motetGetErrorString.argtypes = [ctypes.c_int]
    library.motetGetErrorString.restype = ctypes.c_char_p
    return library


lib = _load()
