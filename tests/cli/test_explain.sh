#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet explain from outside: the numbers that books give, every form, and what is refused.
. "$(dirname "$0")/command.sh"
unset MOTET_ALGO MOTET_DETERMINISTIC

check "the default form" run 0 explain all_reduce 1M -n 8 --hosts 2
check "marks the chosen one" has '^\* [a-z_]+ .* GB/s' out
check "says why" has 'is chosen: .* works .* of it' out
check "and why the others lose" has '  not two_shot: .*times as long.*link to the other hosts' out
check "names what is excluded" has 'not ring: adds in another order' out
check "has the sizes at which the choice changes" has '^choice by size: [a-z_]+, from [0-9.]+ ' out
check "has the steps" has '^position 0 of 8: ' out
check "steps of another rank and algorithm" run 0 explain allreduce -n 8 --algo Ring --rank 5
check "are those" has '^position 5 of 8: ' out

check "--sizes" run 0 explain all_reduce 1M -n 8 --sizes
check "ring: 1.75 MiB each way, 14 in all, 14 rounds, 8 connections" has '^ring +1\.75 MiB +1\.75 MiB +[0-9]+ +14 MiB +112 +14 +8$' out
check "central: 7 MiB each way at one rank" has '^central +7 MiB +7 MiB +0 +14 MiB +14 +2 +7$' out
check "everybody with everybody: 28 connections" has '^two_shot .* 28$' out

check "--sweep" run 0 explain --sweep n=2..64
check "crosses at 94 KB for 8 ranks" has '^ +8 +94\.12 KB' out
check "at 322 KB for 32" has '^ +32 +322\.5 KB' out
check "at 568 KB for 64" has '^ +64 +568\.2 KB' out
check "--sweep in JSON with curves" run 0 explain --sweep n=2..1024 --json --svg curves.svg
check "has a thousand ranks" has '"ranks": 1024' out
check "and the curves are drawn" has '</svg>' curves.svg

cat >islands.json <<'END'
{
  "name": "two islands of four behind a link of half a rank's speed",
  "hosts": 2,
  "latency": "1ns",
  "bandwidth": "5GB/s",
  "rank_bandwidth": "10GB/s",
  "ideal": true
}
END
check "islands" run 0 explain all_reduce 64M -n 8 --topo islands.json --op max
check "a contiguous ring has half of 10 GB/s" has '^  ring .* (4\.9[0-9]*|5) GB/s' out
check "it is not chosen" has 'not ring: 1\.[0-9]+ times as long.*link to the other hosts' out
check "nor is hierarchical slower" has '^[* ] hierarchical .* 8\.[67][0-9]* GB/s' out
check "a ring back and forth" run 0 explain all_reduce 64M -n 8 --topo islands.json --op max --scattered
check "has an eighth" has '^  ring .* 1\.2[0-9]* GB/s' out

check "--play" run 0 explain all_reduce -n 4 --algo ring --play
check "begins with the inputs" has '^  rank 3    3      3      3      3' out
check "has six rounds" has '^round 6 of 6' out
check "ends with the results" [ "$(tail -n 4 out | grep -o '0-3=' | wc -l)" = 16 ]
check "--play of signals" run 0 explain barrier -n 4 --play
check "shows them" has '^  0 -> 1  signal' out
check "--why" run 0 explain all_reduce 1M -n 8 --why
check "names 2M" has '^  2M +2 MiB ' out
check "--mermaid" run 0 explain alltoall -n 4 --algo bruck --mermaid
check "is a sequence diagram" has '^sequenceDiagram' out
check "--svg" run 0 explain all_reduce -n 8 --hosts 2 --svg messages.svg
check "is drawn to its end" has '</svg>' messages.svg
if command -v python3 >/dev/null; then
    check "drawings are XML" python3 -c 'import sys, xml.dom.minidom as m; [m.parse(f) for f in sys.argv[1:]]' messages.svg curves.svg
fi
for collective in all_reduce all_gather broadcast reduce reduce_scatter alltoall gather scatter barrier; do
    for shape in "-n 1" "-n 5" "-n 12 --hosts 3" "-n 200 --hosts 100 --op max"; do
        # shellcheck disable=SC2086
        check "--json of $collective $shape" run 0 explain $collective 4K $shape --json
        check "has one choice" [ "$(grep -c '"chosen": true' out)" = 1 ]
    done
done
MOTET_ALGO=allreduce:ring check "MOTET_ALGO counts" run 0 explain all_reduce -n 8
check "and forces" has '^\* ring ' out

check "no collective" run 2 explain
check "an unknown one" run 2 explain all_produce
check "is named" has 'all_produce' err
check "a size that is none" run 2 explain all_reduce much
check "an algorithm that is none" run 2 explain all_reduce --algo rings
check "lists those that are" has 'two_shot' err
check "one that does not exist here" run 2 explain all_gather -n 6 --algo recursive_doubling
check "more hosts than ranks" run 1 explain all_reduce -n 2 --hosts 3
check "a speed that is none" run 2 explain all_reduce --bandwidth fast
check "a sweep that is none" run 2 explain --sweep 1..4
printf '{\n"hosts": 2,\n"speed": 3}' >bad.json
check "a file with an unknown element" run 2 explain all_reduce --topo bad.json
check "names file, line and element" has 'bad\.json:3: speed ' err
check "a file that is not there" run 2 explain all_reduce --topo none.json
check "a picture that cannot be written" run 1 explain all_reduce --svg /nowhere/x.svg

echo "$failures failed"
[ $failures -eq 0 ]
