#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test: timeout=300
# motet perf from outside: the format that scripts parse, checked results, processes and threads, JSON, plot, baseline, usage.
checks=$(cd "$(dirname "$0")" && pwd)/check.sh
build=$1
motet=$build/bin/motet
[ -x "$motet" ] || exit 77
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
. "$checks"

run() # run EXPECTED_CODE PROGRAM ARGUMENTS...
{
    wanted=$1
    shift
    expect "$wanted" timeout 120 "$@"
}

has() { grep -q -- "$1" "$work/$2"; }
rows() { grep -cE '^ *[0-9]+ +[0-9]+ ' "$work/out"; }

# Every row has the 13 columns of nccl-tests, and nothing is wrong.
rows_are_right()
{
    [ "$(rows)" -eq "$1" ] &&
        awk '/^#/ {next} NF != 13 {exit 1} $9 != "0" || ($13 != "0" && $13 != "N/A") {exit 1}' "$work/out"
}

# ---- the table
check "all_reduce over threads" run 0 "$motet" perf all_reduce -b 8 -e 64K -f 2 -g 2 -n 3
check "has a right row for each size" rows_are_right 14
check "and the footer" has '^# Avg bus bandwidth    : [0-9.e+-]* $' out
check "and no wrong value" has '^# Out of bounds values : 0 OK$' out
check "header names the test" has '^# Collective test starting: all_reduce_perf$' out
check "header has the settings" has '^# nThread 1 nGpus 2 minBytes 8 maxBytes 65536 step: 2(factor) warmup iters: 1 iters: 3 agg iters: 1 validation: 1 graph: 0 unalign: 0$' out
check "header lists the ranks" has '^#  Rank  1 Group  0 Pid ' out
check "what is added stands in comment lines" [ "$(grep -vc '^#' "$work/out")" -eq 14 ]
check "column titles" has '^#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong $' out
check "nccl-tests' name" run 0 "$build/bin/all_reduce_perf" -b 8 -e 1M -f 8 -g 4 -n 2
check "prints the same table" rows_are_right 6
check "busbw is 2(n-1)/n of algbw" awk '!/^#/ && $7 > 0.05 {r = $8 / $7; if (r < 1.3 || r > 1.7) exit 1}' "$work/out"

for name in all_gather broadcast reduce reduce_scatter alltoall gather scatter sendrecv hypercube; do
    check "$name over threads" run 0 "$motet" perf $name -b 1K -e 64K -f 8 -g 4 -n 2
    check "$name is right" rows_are_right 3
    check "$name over processes" run 0 "$motet" perf $name -b 1K -e 64K -f 8 --ranks 2 -n 2
    check "$name is right there" rows_are_right 3
done
check "barrier" run 0 "$motet" perf barrier -g 2 -n 3
check "has one row" [ "$(rows)" -eq 1 ]
check "all types, operations and roots" run 0 "$motet" perf reduce -b 96 -e 96 -g 3 -n 1 -w 0 -d all -o all -r all --no-latency
check "are right" rows_are_right "$(rows)"
check "and many" [ "$(rows)" -gt 300 ]
check "unaligned buffers, groups of calls, a stream" run 0 "$motet" perf all_reduce -b 4K -e 4K -g 2 -n 3 -u 3 -m 4 --stream
check "are right too" rows_are_right 1
check "registered buffers" run 0 "$motet" perf all_gather -b 64K -e 64K -g 2 -n 3 -R 1
check "symmetric window" run 0 "$motet" perf all_gather -b 64K -e 64K --ranks 2 -n 3 -R 2
check "without check the column says N/A" run 0 "$motet" perf all_reduce -b 8 -e 8 -g 2 -n 2 -c 0
check "in both halves" [ "$(awk '!/^#/ {print $9 $13}' "$work/out")" = N/AN/A ]
check "percentiles of nccl-tests" run 0 "$motet" perf all_reduce -b 1K -e 1K -g 2 -n 5 -I 1
check "add four columns to each half" [ "$(awk '!/^#/ {print NF}' "$work/out")" -eq 21 ]
check "one rank" run 0 "$motet" perf all_reduce -b 8 -e 8 -g 1 -n 2
check "is explained" has '^# one rank: ' out

# ---- ranks
check "processes x threads" run 0 "$motet" run -q --no-prefix -n 2 "$build/bin/all_reduce_perf" -b 1K -e 1K -g 3 -n 2
check "are counted in the header" has '^# 6 ranks = 2 processes of motet run x 1 thread (-t) x 3 (-g), on 1 host' out
check "and print one table" rows_are_right 1
check "-t times -g" run 0 "$motet" perf all_reduce -b 8 -e 8 -t 2 -g 2 -n 2
check "is four ranks" has '^# 4 ranks = 1 process x 2 threads (-t) x 2 (-g)' out
check "expected number of ranks" run 2 "$motet" perf all_reduce -b 8 -e 8 -g 2 --expect-ranks 3
check "is checked" has 'the job has 2 ranks' err
check "processes of different size" run 1 "$motet" run -q -n 2 sh -c "exec $motet perf all_reduce -b 8 -e 8 -n 2 -g \$((RANK + 1))"
check "are refused" has 'different numbers of ranks' err

# ---- files
check "JSON and plot" run 0 "$motet" perf all_reduce -b 8 -e 8K -f 8 -g 2 -n 3 --json "$work/a.json" --plot "$work/a.svg"
check "JSON has the rows" [ "$(grep -c '"in_place"' "$work/a.json")" -eq 4 ]
check "the plot is drawn" grep -q '<polyline .*points="[0-9]' "$work/a.svg"
sed 's/"time": [0-9.e+-]*/"time": 1e-3/' "$work/a.json" >"$work/fast.json"
sed 's/"time": [0-9.e+-]*/"time": 1e9/' "$work/a.json" >"$work/slow.json"
check "slower than the baseline is 3" run 3 "$motet" perf all_reduce -b 8 -e 8K -f 8 -g 2 -n 3 --baseline "$work/fast.json"
check "is said" has '^# Baseline             : 8 of 8 times are more than 10% above .* FAILED$' out
check "faster is 0" run 0 "$motet" perf all_reduce -b 8 -e 8K -f 8 -g 2 -n 3 --baseline "$work/slow.json" --tolerance 5%
check "nothing to compare with is 3" run 3 "$motet" perf all_reduce -b 16 -e 16 -g 2 -n 3 --baseline "$work/slow.json"
check "a baseline that is none" run 2 "$motet" perf all_reduce -b 8 -e 8 -g 2 --baseline "$work/a.svg"
check "a file that cannot be written" run 1 "$motet" perf all_reduce -b 8 -e 8 -g 2 -n 2 --json /no/such/folder/a.json
NCCL_TESTS_MIN_BW=1000000 check "average below NCCL_TESTS_MIN_BW" run 1 "$motet" perf all_reduce -b 8 -e 8 -g 2 -n 2

# ---- usage
check "unknown collective" run 2 "$motet" perf all_redcue
check "names the nearest" has 'did you mean all_reduce' err
check "unknown type" run 2 "$motet" perf all_reduce -d flaot
check "names the nearest one" has 'did you mean float' err
check "operation that the type lacks" run 2 "$motet" perf all_reduce -d float -o band
check "root that does not exist" run 2 "$motet" perf broadcast -g 2 -b 8 -e 8 -r 2
check "hypercube of three" run 2 "$motet" perf hypercube -g 3 -b 8 -e 8
check "sizes in the wrong order" run 2 "$motet" perf all_reduce -g 2 -b 1M -e 8
check "no collective" run 2 "$motet" perf

echo "$failures failed"
[ $failures -eq 0 ]
