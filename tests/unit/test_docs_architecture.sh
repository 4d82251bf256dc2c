#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ARCHITECTURE.md's layers are those of scripts/layers.txt, and what any page names is there: files, folders, links, headings.
set -u
cd "$(dirname "$0")/../.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

complain()
{
    echo "FAIL $*"
    failures=$((failures + 1))
}

sed -n 's/^layer //p' scripts/layers.txt >"$work/layers"
awk -F'|' '
    /^\| layer \|/ { on = 1; next }
    on && !/^\|/ { exit }
    on && !/^\|---/ { gsub(/`/, "", $2); gsub(/^ +| +$/, "", $2); print $2 }' ARCHITECTURE.md >"$work/table"
[ -s "$work/table" ] || complain "ARCHITECTURE.md has no table of layers"
if ! diff "$work/layers" "$work/table" >"$work/difference"; then
    complain "layers.txt (<) and ARCHITECTURE.md (>) differ"
    cat "$work/difference"
fi

for folder in tests/*/; do
    grep -q "^| \`$folder\` |" ARCHITECTURE.md || complain "ARCHITECTURE.md does not say what $folder is"
done

# Paths in backticks: of the tree's folders, and of whole files at the top. Headings in links are lower case words with dashes.
nnamed=0
for page in README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
    awk '/^ *```/ { inside = !inside; print ""; next } { print inside ? "" : $0 }' "$page" >"$work/text"
    grep -oE '`(src|include|tools|tests|scripts|docs|examples|bench|cmake|\.ci)/[A-Za-z0-9_./*-]*`' "$work/text" |
        tr -d '`' | sort -u >"$work/paths"
    while read -r path; do
        nnamed=$((nnamed + 1))
        # shellcheck disable=SC2086
        set -- $path
        [ -e "$1" ] || complain "$page names $path, which is not there"
    done <"$work/paths"
    grep -oE '\]\([^)]*\)' "$work/text" | sed 's/^](//; s/)$//' | grep -v '^https\?:' | sort -u >"$work/links"
    while read -r link; do
        nnamed=$((nnamed + 1))
        target=${link%%#*}
        [ -z "$target" ] || target=$(dirname "$page")/$target
        [ -n "$target" ] || target=$page
        [ -e "$target" ] || complain "$page links to $link, which is not there"
        case $link in
        *'#'*)
            sed -n 's/^#\{1,6\} //p' "$target" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qx -- "${link#*#}" ||
                complain "$page links to $link, a heading that is not there"
            ;;
        esac
    done <"$work/links"
    awk -v page="$page" '
        length($0) > 140 && !/^\|/ { print page ":" NR ": " length($0) " characters"; bad = 1 }
        END { exit bad }' "$work/text" || complain "$page has long lines"
done
[ "$nnamed" -ge 50 ] || complain "only $nnamed names were found"

# Tables have as many cells in each row as in their head.
for page in README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
    awk -v page="$page" '
        /^ *```/ { inside = !inside }
        inside || !/^\|/ { cells = 0; next }
        {
            line = $0
            gsub(/\\\|/, "", line)
            n = gsub(/\|/, "", line)
            if (!cells) cells = n
            if (n != cells) { print page ":" NR ": " n - 1 " cells, " cells - 1 " in the head"; bad = 1 }
        }
        END { exit bad }' "$page" || complain "$page has a crooked table"
done

# Code in CONTRIBUTING.md that names a file is in that file, line by line; it may be indented below a list.
nexcerpts=0
awk -v folder="$work" '
    /^ *```c [^ ]+/ && !inside { inside = 1; indent = index($0, "`") - 1; number++; print number, $2; next }
    /^ *```$/ && inside { inside = 0; close(folder "/" number ".excerpt"); next }
    inside { print substr($0, indent + 1) >(folder "/" number ".excerpt") }' CONTRIBUTING.md >"$work/excerpts"
while read -r number path; do
    nexcerpts=$((nexcerpts + 1))
    tr '\n' '\001' <"$path" >"$work/whole"
    grep -qF -- "$(tr '\n' '\001' <"$work/$number.excerpt")" "$work/whole" ||
        complain "CONTRIBUTING.md shows code of $path that is not there"
done <"$work/excerpts"
[ "$nexcerpts" -ge 5 ] || complain "only $nexcerpts excerpts were found"

# The README's packages are those that scripts/dependencies.sh installs.
need="^(needs_[a-z]*=[\"'])?(command|header|library):[^ ]+ ([a-z0-9+-]+)[\"']?\$"
for package in $(sed -nE "s/$need/\3/p" scripts/dependencies.sh | sort -u); do
    [ "$package" = libclang-rt-dev ] && package=libclang-rt
    grep -q "^|.*[ ,]$package[-, |0-9]" README.md || complain "README.md does not name the package $package"
done
echo "$nnamed names, $failures failures"
[ "$failures" = 0 ]
