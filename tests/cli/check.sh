# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of this folder. They keep what a command printed in "out", "err" and "log" of their folder $work, and end with
# [ $failures = 0 ].
failures=0

# check WHAT COMMAND...: one thing that holds or does not; then it shows what was printed.
check()
{
    what=$1
    shift
    if "$@"; then
        echo "ok   $what"
    else
        echo "FAIL $what"
        for file in out err log; do
            [ -s "$work/$file" ] && sed "s/^/     $file: /" "$work/$file" | head -30
        done
        failures=$((failures + 1))
    fi
}

# expect CODE COMMAND...: its exit code; what it prints goes to the files.
expect()
{
    expected=$1
    shift
    "$@" >"$work/out" 2>"$work/err"
    code=$?
    [ "$code" -eq "$expected" ] || echo "     exit code $code instead of $expected"
    [ "$code" -eq "$expected" ]
}
