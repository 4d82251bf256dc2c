#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test: timeout=240
# Counts the instructions of small calls (bench/bench_call.c) with callgrind and compares them with bench/instructions.txt: more than 2 %
# above what is written there is a failure. `tests/unit/test_instructions.sh BUILD --write` writes what is counted now. They depend on the
# compiler: only Release builds of a compiler that has lines in the file are compared, others are skipped.
build=$(cd "$1" && pwd) || exit 1
root=$(cd "$(dirname "$0")/../.." && pwd)
bench=$build/bench/bench_call
file=$root/bench/instructions.txt
command -v valgrind >/dev/null 2>&1 || { echo "skipped: valgrind is not here"; exit 77; }
grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$build/CMakeCache.txt" || { echo "skipped: not a Release build"; exit 77; }
grep -q '^MOTET_SANITIZE:STRING=..*' "$build/CMakeCache.txt" && { echo "skipped: a build with sanitizers"; exit 77; }
[ -x "$bench" ] || { echo "skipped: built without benchmarks"; exit 77; }
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
version=$("$compiler" --version | sed -n '1s/[^0-9]*\([0-9]*\)\..*/\1/p')
case $("$compiler" --version | head -n 1) in
*clang*) who=$(uname -m)-clang-$version ;;
*) who=$(uname -m)-gcc-$version ;;
esac

# collected WHAT CALLS: instructions of the whole program.
collected()
{
    # Without measuring the machine at the start: two threads that wait for each other take now more, now fewer instructions.
    MOTET_MEASURE=0 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$1" "$2" 2>&1 | sed -n 's/.*Collected : *//p'
}

# The fewest of three runs: threads that start and end take now more, now fewer.
fewest()
{
    for turn in 1 2 3; do collected "$1" "$2"; done | sort -n | head -n 1
}

# Start and end are the same in both runs: their difference is the calls'.
count()
{
    few=$(fewest "$1" 2000)
    many=$(fewest "$1" 102000)
    [ -n "$few" ] && [ -n "$many" ] && echo $(((many - few) / 100000))
}

if [ "${2:-}" != --write ] && ! grep -q "^$who " "$file"; then
    echo "skipped: $file has no lines of $who"
    exit 77
fi

failures=0
for what in allreduce broadcast exchange record; do
    now=$(count $what)
    [ -n "$now" ] || { echo "FAIL $what could not be counted"; failures=$((failures + 1)); continue; }
    if [ "${2:-}" = --write ]; then
        [ -f "$file" ] && sed -i "/^$who $what /d" "$file"
        echo "$who $what $now" >>"$file"
        continue
    fi
    then=$(sed -n "s/^$who $what //p" "$file")
    [ -n "$then" ] || { echo "FAIL $what: $file has no line of $who; now $now"; failures=$((failures + 1)); continue; }
    if [ $((now * 100)) -gt $((then * 102)) ]; then
        echo "FAIL $what: $now instructions per call, $then are written in bench/instructions.txt"
        failures=$((failures + 1))
    else
        echo "ok   $what: $now instructions per call, at most 2 % more than $then"
    fi
done
[ $failures -eq 0 ]
