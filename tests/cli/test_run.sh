#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test: timeout=120
# motet run with plain shell programs: exit codes, who failed first, signals, what is left behind, whole lines, environment.
checks=$(cd "$(dirname "$0")" && pwd)/check.sh
build=$1
motet=$build/bin/motet
[ -x "$motet" ] || exit 77
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$checks"

run() # run EXPECTED_CODE ARGUMENTS...
{
    wanted=$1
    shift
    expect "$wanted" timeout 60 "$motet" run "$@"
}

has() { grep -q -- "$1" "$work/$2"; }
lacks() { ! grep -q -- "$1" "$work/$2"; }

# Whether no process has an argument like this; a moment is given to those that are dying.
none_left()
{
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        grep -a -l -- "$1" /proc/[0-9]*/cmdline >"$work/left" 2>/dev/null || return 0
        sleep 0.1
    done
    sed 's/^/     left: /' "$work/left"
    return 1
}

child_of() { grep -l "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status 2>/dev/null | head -n 1 | cut -d/ -f3; }

wait_for_file() # wait_for_file FILE LINES
{
    for attempt in $(seq 100); do
        [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return 0
        sleep 0.1
    done
    return 1
}

# ---- exit codes
check "all ranks end with 0" run 0 -n 4 true
check "code of the first failure" run 3 -n 4 sh -c '[ $RANK = 2 ] && exit 3; sleep 30'
check "the first failure is named with its pid" has 'rank 2 (pid [0-9]*, host .*) failed first: it exited with code 3' err
check "a signal is 128 + its number" run 139 -n 3 sh -c '[ $RANK = 1 ] && kill -SEGV $$; sleep 30'
check "the signal is named" has 'rank 1 .* was killed by SIGSEGV' err
check "later failures are marked as such" run 4 -n 2 --grace 2s sh -c '[ $RANK = 0 ] && { sleep 0.2; exit 4; }; trap "exit 9" TERM; sleep 30 & wait'
check "and do not count" has 'after that, rank 1 .* exited with code 9' err
check "a program that is missing is 127" run 127 -n 2 /no/such/program
check "and is said once" [ "$(grep -c 'cannot run /no/such/program' "$work/err")" -eq 1 ]
check "a file that is no program is 126" run 126 -n 2 /etc/passwd
check "time is over: 124" run 124 -n 2 --timeout 300ms sleep 30
check "wrong usage is 2" run 2 -n 0 true
check "the nearest option is suggested" run 2 --nranx 2 true
check "by name" has 'did you mean --nranks' err
check "a rank that ignores SIGTERM is killed" run 5 -n 2 --grace 300ms sh -c '[ $RANK = 0 ] && { sleep 0.2; exit 5; }; trap "" TERM; sleep 30; sleep 30'
check "a stopped rank is ended too" run 6 -n 2 --grace 1s sh -c '[ $RANK = 0 ] && { sleep 0.3; exit 6; }; kill -STOP $$; sleep 30'
check "restart after a failure" run 0 -n 2 --max-restarts 2 sh -c "[ \$RANK = 1 ] && [ \$TORCHELASTIC_RESTART_COUNT -lt 2 ] && exit 1; exit 0"
check "each is said" has 'starting again (2 of 2)' err
loop='[ $RANK = 1 ] && (sleep 1; kill -9 $$) & exec "$0"/bin/all_reduce_perf -b 64K -e 64K -n 100000000 -w 0'
check "with --keep-going a failure ends nobody else" run 137 -n 3 --keep-going sh -c 'trap "exit 9" TERM; [ $RANK = 1 ] && { sleep 0.2; kill -9 $$; }; sleep 1; echo went on'
check "and is said at once" has 'rank 1 (pid [0-9]*, host .*) failed first: it was killed by SIGKILL; the others go on' err
check "the others have gone on" [ "$(grep -c 'went on' "$work/out")" -eq 2 ]
check "survivors end by themselves" run 137 -n 3 --keep-going sh -c "$loop" "$build"
check "and know why the dead one died" has '^\[[02]\].*rank 1 (pid [0-9]* on .*) is gone: killed by SIGKILL' err
check "survivors of a job over TCP end by themselves" run 137 -n 3 --keep-going --env MOTET_SHM_DISABLE=1 sh -c "$loop" "$build"
check "and know from the launcher why the dead one died" has '^\[[02]\].*rank 1 (pid [0-9]* on .*) is gone: killed by SIGKILL' err
early='[ $RANK = 1 ] && kill -9 $$; exec timeout -s KILL 60 "$0"/bin/all_reduce_perf -b 8 -e 8 -n 5 -w 0'
check "a rank that dies before it came ends the init of the others" run 137 -n 3 --keep-going sh -c "$early" "$build"
check "and all of them know who, and why" [ "$(grep -c '^\[[02]\].*rank 1 (pid [0-9]* on .*) ended during init: killed by SIGKILL' "$work/err")" -ge 2 ]
check "restarts come to an end" run 7 -n 2 --max-restarts 1 sh -c 'exit 7'

# A memory limit that a rank runs into; needs the right to make a control group.
group=/sys/fs/cgroup/memory/motet-test-$$
limit=memory.limit_in_bytes
[ -d /sys/fs/cgroup/memory ] || group=/sys/fs/cgroup/motet-test-$$ limit=memory.max
if mkdir "$group" 2>/dev/null && echo 67108864 2>/dev/null >"$group/$limit"; then
    limited() { (sh -c 'echo $PPID' >"$group/cgroup.procs" && run "$@"); }
    check "a rank that runs out of memory" limited 137 -n 2 sh -c '[ $RANK = 0 ] && exec sleep 30; x=xxxxxxxx; while :; do x=$x$x; done'
    check "is said to have" has 'rank 1 .* was killed by SIGKILL: out of memory, the limit of its control group is 64 MB' err
fi
rmdir "$group" 2>/dev/null

# ---- environment
check "torchrun's and motet's variables" run 0 -n 3 sh -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR ${MASTER_PORT:+port} $MOTET_RANK/$MOTET_NRANKS $MOTET_LOCAL_RANK ${#MOTET_UNIQUE_ID} ${#MOTET_SECRET}"'
check "are right for each rank" has '^\[2\] 2/3 2/3 0 127.0.0.1 port 2/3 2 256 64$' out
check "--env sets and passes on" run 0 -n 1 --env A=1 --env HOME sh -c '[ "$A" = 1 ] && [ -n "$HOME" ]'
check "--env of an unset variable is refused" run 2 -n 1 --env NO_SUCH_VARIABLE_HERE true
OMP_NUM_THREADS=5 check "OMP_NUM_THREADS that is set stays" run 0 -n 2 sh -c '[ "$OMP_NUM_THREADS" = 5 ]'
check "more ranks than CPUs get one thread" run 0 -n 64 sh -c '[ "$OMP_NUM_THREADS" = 1 ]'
check "one line says threads and binding" [ "$(grep -c 'OMP_NUM_THREADS=1 .* binding: none' "$work/err")" -eq 1 ]
check "--bind core gives one CPU each" run 0 -n 64 --bind core sh -c '[ "$(nproc)" = 1 ]'
if [ "$(nproc)" -ge 2 ]; then
    # Each rank is bound to a CPU of its own: together they have enough.
    check "bound ranks" run 0 -n 2 --bind core --env MOTET_DEBUG=INFO "$build/bin/all_reduce_perf" -b 8 -e 8 -n 1
    check "do not take it that they share CPUs" lacks 'ranks of this host share' err
fi
check "ranks that share a CPU" run 0 -n 2 --env MOTET_DEBUG=INFO taskset -c "$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)" "$build/bin/all_reduce_perf" -b 8 -e 8 -n 1
check "know it" has 'the 2 ranks of this host share 1 CPU: a rank that waits gives way at once' err
check "--directory" run 0 -n 1 --directory / sh -c '[ "$(pwd)" = / ]'
check "rank 0 reads stdin, the others nothing" sh -c 'seq 1000 | "$1" run -q -n 2 sh -c "wc -l" >"$2/out" && grep -q "^\[0\] 1000" "$2/out" && grep -q "^\[1\] 0" "$2/out"' - "$motet" "$work"

# ---- output
cat >"$work/lines.sh" <<'END'
i=0
long=$(head -c 9000 /dev/zero | tr '\0' x)
while [ $i -lt 150 ]; do
    echo "r$RANK begin $i $(echo "$long" | cut -c 1-$((1 + i * 60))) end"
    echo "e$RANK line $i end" >&2
    i=$((i + 1))
done
printf 'r%s unfinished' "$RANK"
END
check "8 ranks print" run 0 -q -n 8 sh "$work/lines.sh"
check "every line is whole and has its prefix" [ "$(grep -cE '^\[([0-7])\] r\1 begin [0-9]+ x+ end$' "$work/out")" -eq 1200 ]
check "unfinished lines are finished" [ "$(grep -cE '^\[([0-7])\] r\1 unfinished$' "$work/out")" -eq 8 ]
check "nothing else is on stdout" [ "$(wc -l <"$work/out")" -eq 1208 ]
check "stderr stays apart" [ "$(grep -cE '^\[([0-7])\] e\1 line [0-9]+ end$' "$work/err")" -eq 1200 ]
check "order within a rank is kept" sh -c 'grep "^\[3\] r3 begin" "$1/out" | cut -d" " -f4 | sort -n -c' - "$work"
check "stdout and stderr in one file" sh -c '"$1" run -q -n 8 sh "$2/lines.sh" >"$2/both" 2>&1; [ "$(grep -cE "^\[([0-7])\] [re]\1 .*end$" "$2/both")" -eq 2400 ]' - "$motet" "$work"
check "--no-prefix passes bytes through" sh -c 'head -c 100000 /dev/urandom >"$2/random"; "$1" run -q --no-prefix -n 1 cat "$2/random" >"$2/copy"; cmp "$2/random" "$2/copy"' - "$motet" "$work"
check "a reader that is gone does not fail the job" sh -c '("$1" run -q -n 2 sh -c "seq 100000; echo done >>$2/done"; echo $? >"$2/code") | head -n 1 >/dev/null; [ "$(cat "$2/code")" -eq 0 ] && [ "$(wc -l <"$2/done")" -eq 2 ]' - "$motet" "$work"
check "a slow reader gets everything" sh -c '[ "$("$1" run -q -n 2 seq 100000 | (sleep 1; wc -l))" -eq 200000 ]' - "$motet"
check "a prompt without newline comes soon" sh -c '"$1" run -q -n 1 sh -c "printf prompt; sleep 3" >"$2/prompt" & pid=$!; sleep 1.5; grep -q "\[0\] prompt" "$2/prompt"; code=$?; kill $pid; wait $pid; exit $code' - "$motet" "$work"

# ---- signals, and what is left
cat >"$work/family.sh" <<'END'
# A rank with a child, one that left the session, and one that ignores signals.
sleep 300.$TAG &
setsid sleep 301.$TAG &
(trap '' TERM INT HUP; sleep 302.$TAG; sleep 303.$TAG) &
(setsid sh -c "sleep 304.$TAG & sleep 305.$TAG" &)
echo started >>"$WORK/started"
[ "$RANK" = "$FAILING" ] && exit 8
wait
END
number=$$
export TAG="$number" WORK="$work"
for how in TERM INT HUP KILL; do
    rm -f "$work/started"
    FAILING=none "$motet" run -n 2 --grace 500ms sh "$work/family.sh" >"$work/out" 2>"$work/err" &
    pid=$!
    check "ranks start before SIG$how" wait_for_file "$work/started" 2
    sleep 0.2
    kill -$how $pid
    wait $pid
    code=$?
    check "nothing is left after SIG$how" none_left "30[0-9]\.$number"
    [ $how = KILL ] || check "exit code after SIG$how" [ "$code" -ge 128 ]
done
rm -f "$work/started"
FAILING=1 run 8 -n 2 --grace 500ms sh "$work/family.sh"
check "nothing is left after a failure" none_left "30[0-9]\.$number"
check "a job whose ranks end leaves no children" run 0 -n 2 --grace 500ms sh -c 'setsid sleep 306.$TAG & exit 0'
check "not even outside of the session" none_left "306\.$number"

# The process behind is killed: the front one ends the rest.
rm -f "$work/started"
FAILING=none "$motet" run -n 2 --grace 500ms sh "$work/family.sh" >"$work/out" 2>"$work/err" &
pid=$!
check "ranks start" wait_for_file "$work/started" 2
kill -KILL "$(child_of $pid)"
wait $pid
check "exit code when the process behind is killed" [ $? -eq 137 ]
check "nothing is left then" none_left "30[0-9]\.$number"

for signal in USR1 USR2; do
    rm -f "$work/ready" "$work/got"
    "$motet" run -q -n 2 sh -c "trap 'echo $signal >>$work/got; exit 0' $signal; echo x >>$work/ready; while :; do sleep 0.1; done" &
    pid=$!
    wait_for_file "$work/ready" 2
    kill -$signal $pid
    wait $pid
    check "SIG$signal reaches all ranks" [ "$(wc -l <"$work/got")" -eq 2 ]
done
rm -f "$work/ready"
"$motet" run -n 2 sh -c "trap 'exit 0' TERM; echo x >>$work/ready; while :; do sleep 0.1; done" 2>/dev/null &
pid=$!
wait_for_file "$work/ready" 2
kill -TERM $pid
wait $pid
check "ranks that end cleanly on SIGTERM are a success" [ $? -eq 0 ]
rm -f "$work/ready"
(trap '' HUP; exec "$motet" run -q -n 2 sh -c "echo x >>$work/ready; sleep 2") &
pid=$!
wait_for_file "$work/ready" 2
kill -HUP $pid
wait $pid
check "SIGHUP that was ignored (nohup) stays ignored" [ $? -eq 0 ]
rm -f "$work/ready"
"$motet" run -n 2 --grace 60s sh -c "trap '' TERM; echo x >>$work/ready; while :; do sleep 0.1; done" 2>/dev/null &
pid=$!
wait_for_file "$work/ready" 2
kill -TERM $pid
sleep 0.3
kill -TERM $pid
begin=$(date +%s)
wait $pid
check "a second signal kills at once" [ $(($(date +%s) - begin)) -lt 10 ]

# ---- other hosts, by a stand-in for ssh
cat >"$work/ssh" <<'END'
#!/bin/sh
# ssh HOST COMMAND
echo "Welcome to $1"
[ "$1" = unreachable ] && { echo "ssh: connect to host $1: No route to host" >&2; exit 255; }
[ "$1" = silent ] && exec sleep 60
exec sh -c "$2"
END
chmod +x "$work/ssh"
check "two hosts" run 0 --hosts a:2,b --ssh "$work/ssh" sh -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR"; pwd'
check "prefix has host and rank, blocks of ranks" has '^\[b:2\] 2/3 0/1 1/2 a$' out
check "working directory is the launcher's" has "^\[a:1\] $(pwd)\$" out
check "failure on another host" run 9 --hosts a:2,b:2 --ssh "$work/ssh" sh -c '[ $RANK = 3 ] && exit 9; sleep 30'
check "is named with the host" has 'rank 3 (pid [0-9]*, host b) failed first: it exited with code 9' err
check "stdin goes to rank 0 there" sh -c 'seq 1000 | "$1" run -q --hosts a,b --ssh "$2/ssh" wc -l >"$2/out" && grep -q "^\[a:0\] 1000" "$2/out" && grep -q "^\[b:1\] 0" "$2/out"' - "$motet" "$work"
check "a host that cannot be reached" run 1 --hosts a,unreachable --ssh "$work/ssh" sleep 30
check "is named with ssh's words" has 'host unreachable: ssh ended with code 255: ssh: connect to host unreachable: No route to host' err
check "a host that does not answer" run 1 --hosts a,silent --start-timeout 500ms --grace 500ms --ssh "$work/ssh" sleep 30
check "is named" has 'host silent has not answered' err
check "a program that is missing there" run 127 --hosts a,b --ssh "$work/ssh" /no/such/program
check "is named with the host" has 'host [ab]: cannot run /no/such/program' err
check "restart over hosts" run 0 --hosts a,b --max-restarts 1 --ssh "$work/ssh" sh -c '[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT -lt 1 ] && exit 1; exit 0'
printf 'a slots=2 # two\nb:1\n' >"$work/hostfile"
check "hostfile" run 0 --hostfile "$work/hostfile" --ssh "$work/ssh" sh -c 'echo $WORLD_SIZE'
check "has three ranks" has '^\[b:2\] 3$' out
rm -f "$work/started"
FAILING=none "$motet" run --hosts a,b --ssh "$work/ssh" --grace 500ms sh "$work/family.sh" >"$work/out" 2>"$work/err" &
pid=$!
check "ranks on hosts start" wait_for_file "$work/started" 2
kill -KILL $pid
check "nothing is left on the hosts when the launcher is killed" none_left "30[0-9]\.$number"

echo "$failures failed"
[ $failures -eq 0 ]
