#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/algorithms.md describes every algorithm of the table, in its collective's section, and no other.
set -eu

rows=$(sed -n 's/^ *ROW(\([a-z]*\), *\([a-z0-9_]*\),.*"[^"]*").*/\1 \2/p' src/coll/table.h | sort)
documented=$(awk '
    /^## / { section = tolower($2); both = $3 == "and" ? tolower($4) : "" }
    /^\*\*[a-z0-9_]+\*\*/ {
        split($0, words, "[*][*]")
        print section, words[2]
        if (both) print both, words[2]
    }' docs/algorithms.md | sort)

test "$(echo "$rows" | wc -l)" -ge 40
if [ "$rows" != "$documented" ]; then
    echo "Rows of src/coll/table.h and entries of docs/algorithms.md differ:"
    echo "$rows" > "$1/rows.txt"
    echo "$documented" | diff "$1/rows.txt" - || exit 1
fi
