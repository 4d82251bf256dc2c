#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of cases in tests/faults/README.md: every file and every test that it names exists, and runs.
root=$(cd "$(dirname "$0")/../.." && pwd)
failures=0
found=0
file=
for word in $(grep '^| [0-9]' "$root/tests/faults/README.md" | grep -o '`[a-z/_0-9.]*`' | tr -d '`'); do
    case $word in
    */*) file=$root/tests/$word ;;
    *)
        found=$((found + 1))
        grep -q "cmocka_unit_test([ ]*$word" "$file" 2>/dev/null || { echo "FAIL ${file#"$root/"} has no $word"; failures=$((failures + 1)); }
        ;;
    esac
done
[ "$found" -ge 50 ] || { echo "FAIL only $found tests are named"; failures=$((failures + 1)); }
echo "$found tests, $failures failures"
[ "$failures" = 0 ]
