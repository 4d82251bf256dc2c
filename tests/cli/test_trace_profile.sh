#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet trace with files of PyTorch's profiler: whose they are, how much of a collective they hide, one picture of both.
build=$(cd "$1" && pwd) || exit 1
[ -x "$build/bin/motet" ] || exit 77
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/check.sh"
cd "$work" || exit 1
motet=$build/bin/motet

holds() { grep -qF -- "$1" "$2"; }

# call NUMBER WHAT BEGIN_US END_US: a collective of the process, in microseconds after 1000 s.
call()
{
    printf '{"pg_id":0,"collective_seq_id":%d,"what":"%s","profiling_name":"motet:AllReduce","state":"completed",' "$1" "$2"
    printf '"time_discovered_started_ns":%s000,"time_discovered_completed_ns":%s000}' "$((1000000000 + $3))" "$((1000000000 + $4))"
}

# Two buckets: the first runs from 100 to 200 us and computation covers 60 of that, the second from 300 to 340 and is not hidden at all. A
# third one runs after the profile has ended.
{
    printf '{"host":"here","host_id":"1","pid":77,"pg_config":{"0":{"name":"a","desc":"world","rank":0,"nranks":1}},"entries":['
    call 1 "AllReduce(9 x float32, sum)" 100 200
    printf ,
    call 2 "AllReduce(5 x float32, sum)" 300 340
    printf ,
    call 3 "AllReduce(9 x float32, sum)" 5000 6000
    printf ']}\n'
} >dump.json

# profile HOST: operators inside of each other count once, what communicates does not count, nor does an event without a time.
profile()
{
    printf '{"baseTimeNanoseconds":1000000000000,"host_name":"%s","traceEvents":[' "$1"
    printf '{"ph":"M","name":"process_name","pid":77,"tid":0,"args":{"name":"python"}},{"name":"aten::lost","cat":"cpu_op","pid":77},'
    for event in aten::mm/50/80 aten::mul/60/10 aten::add/170/30 c10d::allreduce_/300/40 aten::mm/350/50; do
        name=${event%%/*}
        times=${event#*/}
        printf '{"ph":"X","cat":"cpu_op","name":"%s","pid":77,"tid":77,"ts":%s.0,"dur":%s},' "$name" "${times%/*}" "${times#*/}"
    done
    printf '{"ph":"s","id":3,"cat":"fwdbwd","name":"fwdbwd","pid":77,"tid":77,"ts":60}]}\n'
}
profile here >profile.json
profile elsewhere >stranger.json

check "dumps and profiles are read together" expect 0 "$motet" trace -o timeline.json dump.json profile.json
check "each bucket has its share" holds "AllReduce(9 x float32, sum): 1 calls of 0.100 ms, 60 % hidden behind computation" out
check "what was not hidden, too" holds "AllReduce(5 x float32, sum): 1 calls of 0.040 ms, 0 % hidden behind computation" out
check "the calls are drawn from the first time of all" holds '"ts":50.0,"dur":100.0' timeline.json
check "the operators are on the same clock" holds '"tid":77,"ts":0.0,"dur":80' timeline.json
check "their process is another than the communicator's" holds '"pid":10000077' timeline.json

check "a profile of another host" expect 0 "$motet" trace dump.json stranger.json
check "says that it has no collectives" holds "profile stranger.json (pid 77): no collectives meanwhile" out
check "JSON" expect 0 "$motet" trace --json dump.json profile.json
check "has nanoseconds" holds '"hidden_ns": 60000' out
check "a profile alone" expect 0 "$motet" trace -o alone.json profile.json
check "is drawn" holds '"name":"aten::mm"' alone.json
[ $failures = 0 ]
