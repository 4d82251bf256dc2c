#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet sim from outside: numbers of books, every network and plant, files, and what is refused.
. "$(dirname "$0")/command.sh"
unset MOTET_ALGO MOTET_DETERMINISTIC MOTET_BUFFSIZE MOTET_NCHANNELS

run()
{
    wanted=$1
    shift
    expect "$wanted" timeout 60 "$motet" sim "$@" </dev/null
}

textbook="--ideal --whole --tile all --latency 5us --bandwidth 10GB/s --op max"
# shellcheck disable=SC2086
check "a ring of 8 in 14 (5 us + 12.5 us)" run 0 all_reduce 1000000 -n 8 -a ring $textbook
check "takes 245 us" has '^time +245 us' out
check "and one rank tells of all" has 'rank r does what rank r mod 1 does' out
# shellcheck disable=SC2086
check "each rank" run 0 all_reduce 1000000 -n 8 -a ring --every-rank $textbook
check "takes as long" has '^time +245 us' out
check "the default choice" run 0 allreduce 64K -n 12 --hosts 3 --topo hosts
check "has a busbw" has 'busbw [0-9.]+ GB/s' out
check "has links" has '^  host [0-2] (in|out) .* GB/s' out
check "has a chain" has 'ends a chain of [0-9]+ messages from rank' out
for network in flat hosts:nics=2 fat-tree:radix=8,over=3 torus torus:dims=4x6 dragonfly:routers=3,hosts=2,global=2,speed=0.5; do
    check "on $network" run 0 alltoall 256K -n 24 --topo "$network"
    check "links are used" has 'links: busy [0-9.]+ %' out
done
for collective in all_gather broadcast reduce reduce_scatter gather scatter barrier; do
    check "$collective" run 0 $collective 64K -n 9 --root 2
done

check "a slow link" run 0 all_reduce 16M -n 16 -a ring --ideal --slow-link "rank 3 out=4"
check "is named" has 'The link that held it longest is rank 3 out' out
check "a straggler" run 0 all_reduce 1M -n 8 -a ring --straggler 5=50
check "is named" has 'The rank that held it longest is 5' out
check "a late rank, jitter" run 0 all_reduce 1M -n 8 --late 2=3ms --jitter 0.3 --seed 5
check "takes 3 ms at least" has '^time +[3-9]\.?[0-9]* ms' out
check "a death" run 0 all_reduce 1M -n 8 -a ring --kill 3=100us
check "seven report it" has '^1 rank is dead, 7 report an error between 115 us and 115 us, 0 are done' out
check "and say" has 'rank 0 at 115 us: rank 3 \(on host 3\) is gone: killed' out
check "a dead host" run 0 all_reduce 1M -n 8 -a ring --hosts 4 --topo hosts --kill-host 3=100us
check "takes two ranks along" has '^2 ranks are dead, 6 report an error between 5 s' out
check "a cut" run 0 all_reduce 1M -n 8 -a ring --cut "rank 6 *=100us"
check "is silent" has 'silent for too long' out

check "a training step" run 0 all_reduce 100M -n 16 --step compute=0.1,buckets=25M --bandwidth 10GB/s
check "has four buckets" has 'in 4 buckets on 16 ranks' out
check "and says what is not hidden" has '^time .* ms: computing 100 ms, and .* that it does not hide' out
check "two at once" run 0 all_reduce 4M -n 8 --also all_gather:1M:ring --also barrier
check "are both told" has '^  AllGather +ring ' out

check "JSON, a picture, a trace" run 0 all_reduce 1M -n 8 -a ring --json --svg use.svg --trace messages.json
check "has the time" has '"time_us": [0-9]' out
check "a picture" has '</svg>' use.svg
check "links have rows" has 'rank 7 in' use.svg
check "a trace of all messages" test "$(grep -c '"ph":"b","cat":"sent"' messages.json)" -eq 224
if command -v python3 >/dev/null 2>&1; then
    check "all is JSON" python3 -c 'import json; json.load(open("out")); json.load(open("messages.json"))'
fi

cat >bridge.json <<'END'
{"hosts": 4, "switches": ["left", "right"], "latency": "1us", "bandwidth": "10GB/s",
 "links": [{"between": ["host 0", "left"]}, {"between": ["host 1", "left"]}, {"between": ["host 2", "right"]},
           {"between": ["host 3", "right"]},
           {"between": ["left", "right"], "bandwidth": "1GB/s", "name": "bridge"}]}
END
check "a file" run 0 all_reduce 16M -n 4 -a ring --topo bridge.json --ideal
check "has a bridge that is full" has '^  bridge( back)? +(9[0-9.]+|100\.0) %' out
check "hosts that disagree" run 2 all_reduce -n 8 --hosts 8 --topo bridge.json
sed 's/"left", "right"\], "b/"left", "middle"], "b/' bridge.json >broken.json
check "a node that is not there" run 2 all_reduce -n 4 --topo broken.json
check "is told with its line" has '^motet sim: broken.json:2: between ' err
check "no file" run 2 all_reduce -n 4 --topo nothing.json
check "is named" has 'nothing.json' err

check "no collective" run 2 -n 4
check "an unknown one" run 2 sendrecv -n 4
check "an unknown network" run 1 all_reduce -n 4 --topo ring
check "says which there are" has 'flat, hosts, fat-tree, torus, dragonfly' err
check "an unknown link" run 1 all_reduce -n 4 --slow-link "rank 9 out=2"
check "an unknown rank" run 2 all_reduce -n 4 --kill 4=1us
check "no time" run 2 all_reduce -n 4 --kill 3=soon
check "no factor" run 2 all_reduce -n 4 --straggler 3
check "an unknown algorithm" run 1 all_reduce -n 4 -a nothing
check "no step" run 2 all_reduce -n 4 --step buckets=25M
check "no tile" run 2 all_reduce -n 4 --tile some
check "a file that cannot be written" run 1 all_reduce -n 4 --svg nowhere/use.svg

echo "$failures failed"
[ $failures -eq 0 ]
