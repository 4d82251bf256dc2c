#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Python package and a pinned PyTorch for CPUs into a virtual environment of its own (build/torch) and runs python/tests there.
# The last line is "N passed, N failed". Wheels come from wherever pip is told to look: PIP_FIND_LINKS=FOLDER, PIP_EXTRA_INDEX_URL=URL;
# the plain index has builds for GPUs, of several GB. Environment: MOTET_TORCH_VERSION (2.13.0), PYTHON (python3).
set -u
cd "$(dirname "$0")/.." || exit 2
version=${MOTET_TORCH_VERSION:-2.13.0}
folder=build/torch
[ "$version" = 2.13.0 ] || folder=build/torch-$version
unset PYTHONPATH MOTET_LIBRARY

fail()
{
    tail -n 40 "$folder/log" >&2
    echo "check_torch: $*" >&2
    echo "0 passed, 1 failed"
    exit 1
}

mkdir -p "$folder"
[ -x "$folder/bin/python" ] || "${PYTHON:-python3}" -m venv "$folder" >"$folder/log" 2>&1 || fail "cannot make a virtual environment"
"$folder/bin/pip" install -q "torch==$version" numpy pytest mypy scikit-learn==1.9.1 >"$folder/log" 2>&1 || fail "cannot install torch $version"
"$folder/bin/pip" install -q --force-reinstall --no-deps ./python >"$folder/log" 2>&1 || fail "cannot install ./python"
"$folder/bin/python" -m motet.torch || fail "there is no backend for torch $version"
"$folder/bin/mypy" --strict --cache-dir "$folder/mypy" python/motet >"$folder/log" 2>&1 || fail "the types are not right"

# Not from the source tree: its package has no library.
top=$(pwd)
cd "$folder" || exit 2
bin/python -m pytest -p no:cacheprovider -q --rootdir "$top/python" "$top/python/tests" "$@" | tee tests.log
awk '/ in [0-9.]+s/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) passed = $i; if ($(i + 1) ~ /^(failed|error)/) failed += $i } }
     END { print passed + 0 " passed, " failed + 0 " failed"; exit !(passed > 0 && failed == 0) }' tests.log
