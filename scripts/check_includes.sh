#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks that includes go only down the list of scripts/layers.txt, that folders with a seam keep to it, and that no headers include
# each other in a circle. Prints one line per violation.
set -u
cd "$(dirname "$0")/.." || exit 2

files=$(git ls-files -co --exclude-standard 'src/*.[ch]' 'src/*.inc' 'tools/*.[ch]' 'examples/*.[ch]' 'include/*.h')
pairs=$(mktemp)
trap 'rm -f "$pairs"' EXIT

# "FILE INCLUDED" for each quoted include, the included file found as the compiler would find it.
for file in $files; do
    [ -e "$file" ] || continue
    sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$file" | while read -r name; do
        for place in "$(dirname "$file")/$name" "src/$name" "include/$name"; do
            if [ -e "$place" ]; then
                printf '%s %s\n' "$file" "$place"
                continue 2
            fi
        done
        printf '%s %s\n' "$file" "missing:$name"
    done
done >"$pairs"

awk '
    function stem(path) { sub(/^src\//, "", path); sub(/\.[a-z]+$/, "", path); return path }
    # The layer of a file: its own entry (with or without suffix), or that of its folder.
    function layer_of(path,    name, bare) {
        bare = path
        sub(/^src\//, "", bare)
        if (bare in layer) return layer[bare]
        name = stem(path)
        if (name in layer) return layer[name]
        if (sub(/\/[^\/]*$/, "/", name) && name in layer) return layer[name]
        return 0
    }
    function allowed(path, list,    n, words, i) {
        n = split(list, words, " ")
        for (i = 1; i <= n; i++)
            if (path == words[i] || (words[i] ~ /\/$/ && index(path, words[i]) == 1)) return 1
        return 0
    }
    FNR == NR {
        if ($1 == "layer") { count++; for (i = 2; i <= NF; i++) layer[$i] = count }
        if ($1 == "limit") { folder = $2; $1 = ""; $2 = ""; limit[folder] = $0 }
        next
    }
    $2 ~ /^missing:/ { print $1 ": includes \"" substr($2, 9) "\", which is not there"; bad = 1; next }
    {
        for (folder in limit)
            if (index($1, folder) == 1 && !allowed($2, limit[folder])) {
                print $1 ": includes " $2 ", but " folder " may include only" limit[folder]
                bad = 1
            }
        if ($1 !~ /^src\// || $2 !~ /^src\//) next
        from = layer_of($1)
        to = layer_of($2)
        if (!from && !($1 in said)) { print $1 ": is in no layer of scripts/layers.txt"; bad = 1; said[$1] = 1 }
        if (!to && !($2 in said)) { print $2 ": is in no layer of scripts/layers.txt"; bad = 1; said[$2] = 1 }
        if (from && to && from > to) { print $1 ": includes " $2 ", which is above it in scripts/layers.txt"; bad = 1 }
    }
    END { exit bad }' scripts/layers.txt "$pairs"
status=$?

circles=$(grep '\.h [^ ]*\.h$' "$pairs" | tsort 2>&1 >/dev/null)
if [ -n "$circles" ]; then
    echo "headers that include each other in a circle:"
    echo "$circles"
    status=1
fi
exit $status
