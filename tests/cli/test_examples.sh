#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every example runs and is right: alone, as threads, and under the launcher; training gives the same loss on any number of ranks.
set -eu
bin=$1/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

timeout 60 "$bin/average" | grep -q "rank 0 of 1 has 0, the average is 0"
timeout 60 "$bin/motet" run -n 4 "$bin/average" > "$work/out"
[ "$(grep -c 'of 4 has .*, the average is 3.5' "$work/out")" = 4 ]

for ranks in 1 2 3 5; do
    timeout 60 "$bin/ring_of_sends" $ranks 100000 | grep -q ", 0 wrong"
done

# One rank, and 2 and 4 on one host: the same tree, so the same bits; 3 ranks: close.
for ranks in 1 2 4; do
    timeout 120 "$bin/motet" run -n $ranks "$bin/train_ddp" --steps 25 --check 5 | tee "$work/$ranks"
    grep -q "the same bits" "$work/$ranks"
    grep -o "loss [0-9.]* (mean of 25)" "$work/$ranks" > "$work/loss.$ranks"
    cmp "$work/loss.1" "$work/loss.$ranks"
done
timeout 120 "$bin/motet" run -n 3 "$bin/train_ddp" --steps 25 --check 5 | tee "$work/3"
grep -Eq "close enough|the same bits" "$work/3"
