#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test: timeout=240 serial
# The rank that keeps the others waiting, wherever it is named: motet run --report, motet status, motet trace.
checks=$(cd "$(dirname "$0")" && pwd)/check.sh
build=$(cd "$1" && pwd) || exit 1
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -x "$build/bin/motet" ] || exit 77
if grep -q '^MOTET_SANITIZE:STRING=..*' "$build/CMakeCache.txt"; then
    echo "skipped: programs of strangers have no sanitizer"
    exit 77
fi
work=$(mktemp -d) || exit 1
job=
trap '[ -z "$job" ] || kill "$job" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
export PATH="$build/bin:$PATH"
name=report-test-$$
. "$checks"

run()
{
    wanted=$1
    shift
    expect "$wanted" timeout 60 "$@"
}

has() { grep -q -- "$1" "$2"; }

# Waits up to 60 s until a command prints a line like that.
eventually_says()
{
    pattern=$1
    shift
    tries=0
    until "$@" >out 2>err && grep -q -- "$pattern" out; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.2
    done
}

cat >slow.c <<'END'
#include <motet.h>
#include <time.h>
#include <unistd.h>

/* slow NAME: the last rank is 300 us longer in its own program than the others, call after call, until the file "stop" is there. */
int main(int argc, char **argv)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t comm;
    struct timespec begin, now;
    float mine[8] = {0}, sum[8] = {0};
    int rank, n;
    config.commName = argc > 1 ? argv[1] : NULL;
    if (motetCommInitEnv(&comm, &config) || motetCommUserRank(comm, &rank) || motetCommCount(comm, &n))
        return 1;
    while (sum[0] == 0) {
        clock_gettime(CLOCK_MONOTONIC, &begin);
        do
            clock_gettime(CLOCK_MONOTONIC, &now);
        while (rank == n - 1 && (now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < 300000);
        mine[0] = rank == 0 && access("stop", F_OK) == 0;
        if (motetAllReduce(mine, sum, 8, motetFloat32, motetSum, comm, NULL))
            return 1;
    }
    return motetCommDestroy(comm);
}
END
check "the program compiles" run 0 "${CC:-cc}" -I"$root/include" slow.c -L"$build/lib" -Wl,-rpath,"$build/lib" -lmotet -o slow

# ---- a job that runs
slowest='slowest: rank 1 (host .*) last in [0-9]* % of [0-9]* compared calls, p50 [0-9]* us, p99 [0-9]* us behind; without it [0-9]* % less waiting; cause: '
motet run -q -n 2 --report=report.txt ./slow "$name" >run.out 2>run.err &
job=$!
check "status names the slow rank below the table" eventually_says "^=> $slowest" motet status "$name"
check "under the verdict" [ "$(grep -c "^=> " out)" = 2 ]
check "counters as a table" run 0 motet status --counters "$name"
check "with their heads" has '^RANK  PID *HOST *CALLS *MESSAGES *IN CALLS *WAITING *MOVING *REDUCING *LONG WAITS *SENT *RECEIVED$' out
check "and numbers of both ranks" [ "$(grep -c '^[01]  .* [0-9.]* m*s .* [0-9.]* [KM]B' out)" = 2 ]
check "counters as JSON" run 0 motet status --json "$name"
for member in counters time_s wait_s move_s reduce_s long_waits sent received late share saved p50_us p99_us slowest; do
    check "with $member" has "\"$member\": " out
done
pid=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' out | head -n 1)
check "the flight recorders are written" run 0 motet status --dump "$pid"
check "trace reads them" run 0 motet trace motet-dump-*.json
check "and names the slow rank, too" has "^  $slowest" out
touch stop
check "the job ends well" wait $job
job=

# ---- its report
check "the report was written" has "^motet report: comm \"$name\", 2 ranks on 1 host" report.txt
check "with the slow rank" has "^$slowest" report.txt
check "and a verdict" has '^verdict: ' report.txt
check "to stderr, where no file is named" run 0 motet run -n 2 --report ./slow "$name"
check "in whole lines of rank 0" has '^\[0\] motet report: ' err
check "as JSON" run 0 motet run -n 2 --report=report.json ./slow "$name"
check "by the name of the file" has '^{"version":1,' report.json
check "an empty name is refused" run 2 motet run -n 2 --report= ./slow "$name"
check "the help says that the file may be left out" run 0 motet run --help
check "in brackets" has '--report\[=FILE\]' out

echo "$failures failed"
[ $failures -eq 0 ]
