#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of one build directory: scripts/run_tests.sh BUILD [ctest options]. The last line is "N passed, N failed";
# the exit status is 0 only if at least one test ran and none failed. Output of failed tests is shown, the rest is in BUILD/Testing.
set -u
build=$1
shift
log=$build/tests.log

jobs=$(($(nproc) * 2)) # half CPUs: cmake/tests.cmake says how many a test takes
[ "$jobs" -ge 4 ] || jobs=4
mkdir -p "$build"
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "$@" </dev/null 2>&1 | tee "$log"

# ctest counts a skipped test as passed; here it is neither.
awk '
    /tests passed, [0-9]+ tests? failed out of [0-9]+/ {
        for (i = 1; i <= NF; i++) {
            if ($i == "passed,") failed = $(i + 1)
            if ($i == "of") total = $(i + 1)
        }
        seen = 1
    }
    /\*\*\*Skipped/ { skipped++ }
    END {
        if (!seen) { failed = 1; total = 1; print "ctest did not finish" }
        if (skipped) print skipped " skipped"
        print total - failed - skipped " passed, " failed + 0 " failed"
        exit !(failed == 0 && total - skipped > 0)
    }' "$log"
