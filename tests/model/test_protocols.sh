#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks every interleaving of the shared-memory protocols with spin, and that the models find the errors which their mutants make.
# test: slow timeout=600
set -eu

models=$(cd "$(dirname "$0")" && pwd)
for tool in spin cc; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0
optimize=-O2

# check MODEL right|wrong [-D...]: the model with these definitions must have no error, or must have one.
check()
{
    model=$1 wanted=$2
    shift 2
    spin "$@" -a "$models/$model" >spin.log 2>&1 || { cat spin.log; exit 1; }
    cc $optimize -w -DSAFETY -DVECTORSZ=2048 -o pan pan.c
    ./pan -m200000 -w24 >pan.log 2>&1 || { cat pan.log; exit 1; }
    if grep -q 'max search depth too small\|out of memory' pan.log; then
        cat pan.log
        exit 1
    fi
    found=wrong
    grep -q 'errors: 0' pan.log && found=right
    states=$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
    echo "$model $*: $found ($states states)"
    if [ "$found" != "$wanted" ]; then
        echo "  must be $wanted"
        cat pan.log
        failed=1
    fi
}

check slots.pml right -DRANKS=2
check slots.pml right -DRANKS=2 -DABORT
check slots.pml right -DRANKS=3 -DCHAIN
check slots.pml right -DRANKS=3 -DOPS=2 -DFIRST=7 -DFEW
check slots.pml right -DRANKS=3 -DFIRST=7 -DFEW -DMIXED
check slots.pml right -DRANKS=3 -DFIRST=7 -DFEW -DMIXED -DABORT
check slots.pml wrong -DRANKS=3 -DFIRST=7 -DFEW -DMIXED -DOWN_READERS
check slots.pml wrong -DRANKS=2 -DNO_CREDIT
check slots.pml wrong -DRANKS=2 -DNO_TURN
check slots.pml wrong -DRANKS=2 -DNO_WRAP

check sleep.pml right
check sleep.pml right -DABORT
check sleep.pml wrong -DNO_BARRIER
check sleep.pml wrong -DNO_SECOND_LOOK
check sleep.pml wrong -DNO_TICKET

optimize=-O0 # few states: compiling takes longer than running
for lines in 2 4; do
    check rings.pml right -DLINES=$lines
done
check rings.pml right -DABORT
check rings.pml right -DDIRECT -DABORT
check rings.pml right -DDIRECT -DABORT -DGIVE_UP
for mutant in LATE_COUNT EARLY_STAMP NO_ROOM PLACE_STAMP EARLY_TAKEN "DIRECT -DABORT -DNO_AWAIT" \
    "DIRECT -DABORT -DNO_BARRIER" "DIRECT -DABORT -DGIVE_UP -DNO_SECOND_LOOK"; do
    # shellcheck disable=SC2086 # several words
    check rings.pml wrong -D$mutant
done

exit $failed
