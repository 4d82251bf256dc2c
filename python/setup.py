# SPDX-License-Identifier: Apache-2.0
"""Builds libmotet with CMake into the wheel, and the PyTorch backend for the torch of this environment, if there is one.

The wheel depends on no Python version: the library is loaded by ctypes, the backend by torch. Environment: MOTET_TORCH, folders of torch
packages (separated by ":", as unpacked from their wheels) to build the backend for, instead of the installed one; empty builds none.
"""
import os
import shutil
import subprocess
import sys
import sysconfig

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)


def torch_folders():
    """Torch packages to build for. Builds are isolated, so the installed one is looked for by path and never imported."""
    if "MOTET_TORCH" in os.environ:
        return [folder for folder in os.environ["MOTET_TORCH"].split(":") if folder]
    installed = {os.path.join(sysconfig.get_path(kind), "torch") for kind in ("purelib", "platlib")}
    return [folder for folder in installed if os.path.isfile(os.path.join(folder, "version.py"))]


class build(build_py):
    def run(self):
        super().run()
        package = os.path.join(self.build_lib, "motet")
        self.build_library(package)
        shutil.copytree(os.path.join(root, "include"), os.path.join(package, "include"), dirs_exist_ok=True)
        sys.path.insert(0, os.path.join(here, "motet", "torch"))
        import compiling  # a file of the package that imports neither torch nor motet

        for folder in torch_folders():
            try:
                print(f"motet: {compiling.build(folder, package)}")
            except compiling.CannotCompile as error:
                print(f"motet: no backend for {folder}: {error}; its fallback in Python will be used", file=sys.stderr)

    def build_library(self, package):
        folder = os.path.join(root, "build", "python")
        options = ["-DCMAKE_BUILD_TYPE=Release", *(f"-DMOTET_{part}=OFF" for part in ("WERROR", "TESTS", "TOOLS", "EXAMPLES", "BENCH"))]
        subprocess.run(["cmake", "-S", root, "-B", folder, *options], check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        subprocess.run(["cmake", "--build", folder, "--target", "motet", "-j", jobs], check=True)
        shutil.copy(os.path.join(folder, "lib", "libmotet.so.0"), os.path.join(package, "libmotet.so.0"))


class wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(cmdclass={"build_py": build, "bdist_wheel": wheel})
