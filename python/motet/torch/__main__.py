# SPDX-License-Identifier: Apache-2.0
"""python -m motet.torch: which backend the installed torch gets. python -m motet.torch build: compiles it."""
from __future__ import annotations

import os
import sys


def main() -> int:
    """Status 0: there is a compiled backend for this torch."""
    import torch

    from . import backend_file, compiling

    if sys.argv[1:] == ["build"]:
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        try:
            print(compiling.build(os.path.dirname(os.path.abspath(torch.__file__)), package))
        except compiling.CannotCompile as error:
            print(f"motet: {error}", file=sys.stderr)
            return 1
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    path = backend_file()
    print(f"torch {torch.__version__}: {path or 'no compiled backend, so one in Python serves; compile with: python -m motet.torch build'}")
    return 0 if path else 1


sys.exit(main())
