#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet status and motet trace from outside: tables, JSON, dumps by request, by signal and by failure, files that cannot be written.
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
name=status-test-$$
. "$checks"

run()
{
    wanted=$1
    shift
    expect "$wanted" timeout 60 "$@"
}

has() { grep -q -- "$1" "$2"; }

# Waits up to 30 s until a command succeeds.
eventually()
{
    tries=0
    until "$@" >out 2>err; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.1
    done
}

cat >job.c <<'END'
#include <motet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* job NAME late|differs: the last rank waits for the file "go", or calls something else. */
int main(int argc, char **argv)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t comm;
    float mine[8] = {1}, sum[64];
    int rank, n;
    if (argc < 3)
        return 2;
    config.commName = argv[1];
    if (motetCommInitEnv(&comm, &config) || motetCommUserRank(comm, &rank) || motetCommCount(comm, &n))
        return 1;
    for (int i = 0; i < 3; i++)
        if (motetAllReduce(mine, sum, 8, motetFloat32, motetSum, comm, NULL))
            return 1;
    printf("%d %d\n", rank, (int)getpid());
    fflush(stdout);
    if (strcmp(argv[2], "differs") == 0) {
        motetResult_t result = rank == n - 1 ? motetAllGather(mine, sum, 4, motetFloat32, comm, NULL)
                                             : motetAllReduce(mine, sum, 8, motetFloat32, motetSum, comm, NULL);
        while (access("go", F_OK) != 0) /* the launcher ends the others when the first one fails */
            usleep(1000);
        return result ? 3 : 0;
    }
    while (rank == n - 1 && access("go", F_OK) != 0)
        usleep(1000);
    if (motetAllReduce(mine, sum, 8, motetFloat32, motetSum, comm, NULL))
        return 3;
    return motetCommDestroy(comm);
}
END
check "the program compiles" run 0 "${CC:-cc}" -I"$root/include" job.c -L"$build/lib" -Wl,-rpath,"$build/lib" -lmotet -o job

start()
{
    rm -f go log
    motet run -q -n 3 ./job "$name" "$1" >log 2>joberr &
    job=$!
}

finish()
{
    touch go
    wait "$job"
    code=$?
    job=
    return $code
}

pid_of() { sed -n "s/.*\b$1 \([0-9][0-9]*\)\$/\1/p" log; }
stuck() { motet status "$name" | grep -q "=> rank 2 .*has not called AllReduce #5; it is in user code for .*; 2 ranks wait"; }

# ---- a rank that is late, over shared memory and TCP
for transport in SHM NET/Socket; do
    [ $transport = SHM ] || export MOTET_SHM_DISABLE=1
    start late
    check "$transport: names the late rank" eventually stuck
    pid=$(pid_of 0)
    check "$transport: by pid" run 0 motet status "$pid"
    check "$transport: has a line per rank" [ "$(grep -c "^[012]  *[0-9].*$transport\$" out)" = 3 ]
    check "$transport: as JSON" run 0 motet status --json "$name"
    check "$transport: with the verdict" has '"verdict": "rank 2 ' out
    check "$transport: dumps" run 0 motet status --dump "$pid"
    check "$transport: a file of each process" [ "$(ls motet-dump-*.json 2>/dev/null | wc -l)" = 3 ]
    check "$transport: trace reads them" run 0 motet trace motet-dump-*.json
    check "$transport: and names the late rank" has 'rank 2 .* has not called AllReduce.* #5, in which ranks 0-1 wait' out
    rm -f motet-dump-*.json
    check "$transport: the job goes on" finish
    unset MOTET_SHM_DISABLE
done
check "a job that is over" run 1 motet status "$name"

# ---- watching until the end
start late
check "another job" eventually stuck
motet status --watch --interval 200ms "$name" >watched 2>/dev/null &
watcher=$!
check "is watched" eventually sh -c '[ "$(grep -c "^=>" watched)" -ge 3 ]'
check "ends" finish
check "and so does the watch" wait "$watcher"

# ---- a signal, and one that the program handles
MOTET_DUMP_SIGNAL=USR2 MOTET_DUMP_FILE="$work/signal-%p.json" start late
check "a job with a signal" eventually stuck
kill -USR2 "$(pid_of 0)"
check "writes its file" eventually test -s "signal-$(pid_of 0).json"
check "alone" [ "$(ls signal-*.json | wc -l)" = 1 ]
check "and goes on" finish
MOTET_DUMP_SIGNAL=SEGV run 1 motet run -q -n 1 ./job "$name" late
check "other signals are refused" has 'MOTET_DUMP_SIGNAL=SEGV: not one of' err

# ---- a failure writes by itself
MOTET_DUMP_FILE="$work/failure-%h-%p.json" start differs
check "a mismatch writes dumps" eventually sh -c '[ "$(ls failure-*.json | wc -l)" = 3 ]'
finish && check "and fails the job" false
check "that trace reads" run 0 motet trace failure-*.json
check "both calls are in the error" has "it failed: comm \"$name\" (3 ranks), call 5: ranks 0, 1 called AllReduce(8 x float32, sum), rank 2 called AllGather(4 x float32)" out
check "and the call is found" has '#5: rank.* called AllReduce(8 x float32, sum), rank 2 called AllGather(4 x float32)' out

# ---- files that cannot be written harm nothing
for path in /nowhere/dump.json /dev/full/dump.json; do
    touch go
    check "$path: the job ends well" run 0 env MOTET_DUMP_FILE=$path MOTET_TRACE=$path motet run -q -n 2 ./job "$name" late
    check "$path: is said once per process" [ "$(grep -c "could not be written to $path" err)" = 2 ]
done

# ---- traces
check "a traced job" run 0 env MOTET_TRACE="trace-%p.json" motet run -q -n 3 ./job "$name" late
check "writes files" [ "$(ls trace-*.json | wc -l)" = 3 ]
check "that become a timeline" run 0 motet trace -o timeline.json trace-*.json
check "with calls" has '"cat":"collective"' timeline.json
check "and steps" has '"cat":"step"' timeline.json
check "and rows" has '"name":"rank 2 (pid ' timeline.json
check "trace --json" run 0 motet trace --json trace-*.json
check "misses nobody" has '"missing": \[\]' out
check "two files of three" run 0 sh -c 'rm "$(ls trace-*.json | head -n 1)"; motet trace trace-*.json'
check "miss one" has 'no dump of rank [012]$' out
head -c 300 "$(ls trace-*.json | head -n 1)" >cut.json
check "a cut file is refused, the others count" run 1 sh -c 'motet trace cut.json trace-*.json'
check "and named" has 'cut.json: not JSON' err

# ---- wrong usage
check "trace without files" run 2 motet trace
check "status of two" run 2 motet status 1 2
check "status of nobody" run 1 motet status no-such-communicator
check "dump of a communicator" run 2 motet status --dump world

echo "$failures failed"
[ $failures -eq 0 ]
