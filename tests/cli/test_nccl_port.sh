#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A program written for NCCL on host memory is ported by search and replace: it compiles without a warning, runs, and is right.
set -eu
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed 's/nccl/motet/g; s/NCCL/MOTET/g' examples/nccl/moving_average.c > "$work/ported.c"
grep -qi nccl "$work/ported.c" && { echo "the name is still there"; exit 1; }
${CC:-cc} -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -Iinclude "$work/ported.c" -o "$work/ported" \
    -L"$build/lib" -lmotet -lm -Wl,-rpath,"$build/lib"
for devices in 1 2 3 8; do
    timeout 60 "$work/ported" $devices | tee "$work/out"
    grep -q "$devices devices, .* 0 wrong" "$work/out"
done
