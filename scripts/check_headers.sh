#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that each header compiles alone with gcc and clang, and the public one as C++ and as plain C11 too.
set -u
cd "$(dirname "$0")/.." || exit 2
warnings="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror"
status=0

# Tables that are included several times by design have no guard; they are part of another header.
for header in $(git ls-files -co --exclude-standard 'include/*.h' 'src/*.h' 'tools/*.h'); do
    [ -e "$header" ] || continue
    grep -q '^#ifndef MOTET_.*_H$' "$header" || { grep -q 'no include guard on purpose' "$header" && continue; }
    for compiler in gcc clang; do
        # shellcheck disable=SC2086
        printf '#include "%s"\n' "$header" |
            $compiler -std=gnu11 -D_GNU_SOURCE $warnings -Wno-unused-function -Iinclude -Isrc -Itools -I. -fsyntax-only -x c - ||
            { echo "$header: does not compile alone with $compiler"; status=1; }
    done
done

for compiler in gcc clang; do
    printf '#include "motet.h"\n' | $compiler -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c - ||
        { echo "include/motet.h: is not plain C11 for $compiler"; status=1; }
done
for compiler in g++ clang++; do
    printf '#include "motet.h"\n' | $compiler -std=c++17 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ - ||
        { echo "include/motet.h: is not C++ for $compiler"; status=1; }
done
exit $status
