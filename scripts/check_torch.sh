#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs PyTorch for CPUs in two pinned versions into virtual environments of their own (build/torch, build/torch-VERSION), builds one wheel
# of the Python package with a backend for each, and runs python/tests: all of them with the first version, a short list with the other.
# The last line is "N passed, N failed". Wheels come from wherever pip is told to look: PIP_FIND_LINKS=FOLDER, PIP_EXTRA_INDEX_URL=URL;
# the plain index has builds for GPUs, of several GB. Environment: MOTET_TORCH_VERSIONS ("2.13.0 2.14.1"), PYTHON (python3). Arguments go to
# pytest.
set -u
cd "$(dirname "$0")/.." || exit 2
top=$(pwd)
versions=${MOTET_TORCH_VERSIONS:-2.13.0 2.14.1}
log=$top/build/torch.log
short='works and 2- or mismatch or fallback_works or equals_one_process and not three'
unset PYTHONPATH MOTET_LIBRARY MOTET_TORCH
mkdir -p build

fail()
{
    tail -n 40 "$log" >&2
    echo "check_torch: $*" >&2
    echo "0 passed, 1 failed"
    exit 1
}

folder_of()
{
    if [ "$1" = 2.13.0 ]; then echo "$top/build/torch"; else echo "$top/build/torch-$1"; fi
}

# test_with VERSION ARGUMENTS... Not from the source tree: its package has no library.
test_with()
{
    cd "$(folder_of "$1")" || exit 2
    shift
    bin/python -m pytest -p no:cacheprovider -q --rootdir "$top/python" "$top/python/tests" "$@" | tee -a "$top/build/torch-tests.log"
    cd "$top" || exit 2
}

# install VERSION: its virtual environment.
install()
{
    folder=$(folder_of "$1")
    [ -x "$folder/bin/pip" ] || "${PYTHON:-python3}" -m venv "$folder" || return 1
    "$folder/bin/pip" install -q "torch==$1" numpy pytest mypy scikit-learn==1.9.1
}

# All at once: most of it is waiting.
for version in $versions; do
    rm -f "$log.$version"
    { install "$version" >"$log.$version" 2>&1 && echo "is installed" >>"$log.$version"; } &
done
wait
packages=
for version in $versions; do
    cp "$log.$version" "$log"
    [ "$(tail -n 1 "$log")" = "is installed" ] || fail "cannot install torch $version"
    packages="$packages:$(echo "$(folder_of "$version")"/lib/python*/site-packages/torch)"
done
folder=$(folder_of "$version")
rm -rf build/wheel
MOTET_TORCH=${packages#:} "$folder/bin/pip" wheel -q --no-deps -w build/wheel ./python >"$log" 2>&1 || fail "cannot build ./python"
for version in $versions; do
    folder=$(folder_of "$version")
    "$folder/bin/pip" install -q --force-reinstall --no-deps build/wheel/motet-*.whl >"$log" 2>&1 || fail "cannot install the wheel"
    "$folder/bin/python" -m motet.torch || fail "there is no backend for torch $version"
done

rm -f build/torch-tests.log
first=${versions%% *}
folder=$(folder_of "$first")
"$folder/bin/mypy" --strict --cache-dir "$folder/mypy" python/motet >"$log" 2>&1 || fail "the types are not right"
test_with "$first" "$@"
for version in $versions; do
    [ "$version" = "$first" ] || test_with "$version" -k "$short" "$@"
done
awk '/ in [0-9.]+s/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) passed += $i; if ($(i + 1) ~ /^(failed|error)/) failed += $i } }
     / in [0-9.]+s/ { runs++ }
     END { print passed + 0 " passed, " failed + 0 " failed"; exit !(passed > 0 && failed == 0 && runs == wanted) }' \
    wanted="$(echo "$versions" | wc -w)" build/torch-tests.log
