#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks the shared library of a build: scripts/check_symbols.sh BUILD. It exports every function that motet.h declares and nothing
# else, carries its soname, and needs no library but libcrypto and libc's own.
set -u
library=$1/lib/libmotet.so
header=$(dirname "$0")/../include/motet.h
status=0
exported=$(mktemp)
declared=$(mktemp)
trap 'rm -f "$exported" "$declared"' EXIT

nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$exported"
[ -s "$exported" ] || { echo "$library: exports nothing"; exit 1; }
# The name is the last word before the parenthesis that follows MOTET_API; MOTET_API's own definition has none.
cat "$header" "${header%.h}"/*.h | tr "\n" " " | grep -oE 'MOTET_API [A-Za-z_][A-Za-z0-9_ *]*[ *]motet[A-Za-z0-9]+\(' |
    sed 's/($//; s/.*[ *]//' | sort -u >"$declared"
[ -s "$declared" ] || { echo "$header: no declarations found"; exit 1; }

for name in $(comm -23 "$exported" "$declared"); do
    echo "$library: exports $name, which motet.h does not declare"
    status=1
done
for name in $(comm -13 "$exported" "$declared"); do
    echo "$library: does not export $name, which motet.h declares"
    status=1
done

readelf -d "$library" | grep -q 'SONAME.*\[libmotet\.so\.[0-9]*\]' || { echo "$library: no soname"; status=1; }
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case "$needed" in
    libcrypto.so.* | libc.so.* | libm.so.* | libpthread.so.* | ld-linux*) ;;
    *)
        echo "$library: needs $needed"
        status=1
        ;;
    esac
done
exit $status
