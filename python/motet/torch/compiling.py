# SPDX-License-Identifier: Apache-2.0
"""Compiles the backend for one torch. Imports neither torch nor motet, so that setup.py can use it in an isolated build.

A shared object works with exactly the minor version of torch whose headers it was compiled with, and with every Python.
"""
from __future__ import annotations

import os
import re
import subprocess
from typing import Optional

HERE = os.path.dirname(os.path.abspath(__file__))


class CannotCompile(RuntimeError):
    """Why there is no backend."""


def version_of(torch_folder: str) -> str:
    """ "2.13" for a torch package, read from its version.py."""
    with open(os.path.join(torch_folder, "version.py"), encoding="utf-8") as file:
        found = re.search(r"__version__ = ['\"](\d+)\.(\d+)", file.read())
    if not found:
        raise CannotCompile(f"{torch_folder}/version.py has no version")
    return f"{found[1]}.{found[2]}"


def file_name(version: str) -> str:
    """The backend's file for a minor version."""
    return f"backend-{version}.so"


def _has_new_strings(torch_folder: str) -> bool:
    """Whether torch was compiled with the C++11 form of std::string; before 2.6 wheels were not."""
    with open(os.path.join(torch_folder, "lib", "libc10.so"), "rb") as file:
        return b"_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx11" in file.read()


def build(torch_folder: str, package: str, compiler: Optional[str] = None) -> str:
    """Compiles backend.cpp for a torch package, next to libmotet in the motet package; the new file's path. About 15 s and 1 GB."""
    version = version_of(torch_folder)
    major, minor = (int(part) for part in version.split("."))
    target = os.path.join(package, "torch", file_name(version))
    include = os.path.join(torch_folder, "include")
    headers = os.path.join(HERE, "..", "include")  # of the package, else of the source tree
    if not os.path.isdir(headers):
        headers = os.path.join(HERE, "..", "..", "..", "include")
    command = [
        compiler or os.environ.get("CXX", "c++"), "-std=c++20" if (major, minor) >= (2, 10) else "-std=c++17", "-O2", "-fPIC", "-shared",
        "-fvisibility=hidden", "-DNDEBUG", f"-D_GLIBCXX_USE_CXX11_ABI={int(_has_new_strings(torch_folder))}",
        f"-DMOTET_TORCH={major * 100 + minor}", "-isystem", include, "-isystem", os.path.join(include, "torch", "csrc", "api", "include"),
        "-I", headers, os.path.join(HERE, "backend.cpp"), "-o", target,
        "-L", os.path.join(torch_folder, "lib"), "-ltorch_cpu", "-lc10", os.path.join(package, "libmotet.so.0"), "-Wl,-rpath,$ORIGIN/..",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotCompile(f"cannot run {command[0]}: {error}") from error
    if done.returncode:
        raise CannotCompile(f"{command[0]} failed:\n{done.stderr[-4000:]}")
    return target
