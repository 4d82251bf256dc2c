#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet tune: what it writes, what the library makes of it, what it refuses.
. "$(dirname "$0")/command.sh"
export MOTET_CACHE_DIR="$work/cache"

short="--budget 300ms -b 8 -e 1K -f 128"
check "measures a job of two ranks" expect 0 "$motet" tune -n 2 $short -c all_reduce -o table.json
check "says how many points" grep -q '^2 ranks on 1 host: 2 points measured; ' out
check "writes one shape" sh -c '[ "$(grep -c "\"machine\"" table.json)" = 1 ]'
check "writes both sizes" sh -c 'grep -q "\"bytes\": 8," table.json && grep -q "\"bytes\": 1024," table.json'
check "adds another collective to the same shape" expect 0 "$motet" tune -n 2 $short -c barrier -o table.json
check "keeps what was there" sh -c '[ "$(grep -c "\"machine\"" table.json)" = 1 ] && grep -q AllReduce table.json && grep -q Barrier table.json'
check "measures under a launcher, as JSON" expect 0 "$motet" run -n 2 --quiet --no-prefix "$motet" tune $short -c broadcast --json -o table.json
check "prints predictions beside" grep -q '"predicted_us"' out
check "leaves predictions out of the table" sh -c '! grep -q predicted_us table.json'
check "leaves no other file" sh -c '[ "$(ls table.json* | wc -l)" = 1 ]'
check "writes to the cache directory by itself" expect 0 "$motet" tune -n 2 $short -c barrier -q
check "where nothing is said on the way" sh -c '[ ! -s out ] && [ ! -s err ] && [ -f cache/tuning.json ]'

# Explain, and a job, go by the table.
check "explain uses a table that is named" expect 0 env MOTET_TUNER_FILE=table.json "$motet" explain all_reduce 1K -n 2
check "and marks what was measured" grep -q 'measured$' out
check "explain --here uses the one in the cache directory" expect 0 "$motet" explain barrier -n 2 --here
check "and marks it, too" grep -q 'measured$' out
check "explain alone does not" expect 0 "$motet" explain barrier -n 2
check "and predicts" sh -c '! grep -q "measured$" out'
printf 'allreduce,0,100000,central,simple,-1,-1,2\n' >rules.csv
check "a job goes by rules" expect 0 env MOTET_TUNER_FILE=rules.csv MOTET_DEBUG=INFO MOTET_DEBUG_SUBSYS=TUNING \
    "$motet" perf all_reduce --ranks 2 -b 1K -e 1K -n 1 -w 0
check "which name the algorithm" grep -q 'AllReduce: 1024 bytes -> Algo central' err

# Errors.
printf '{"motet_tuning": 1,\n "shapes": [{"machine": 5}]}\n' >broken.json
check "a broken table is an error at init" expect 1 env MOTET_TUNER_FILE=broken.json "$motet" perf all_reduce --ranks 2 -b 8 -e 8
check "that names file, line and element" grep -q 'broken.json:2: shapes\[0\].machine: a text in quotes is expected' err
printf "[1]" >broken2.json
check "a broken table is not overwritten" expect 1 "$motet" tune -n 2 $short -c barrier -o broken2.json -q
check "and the complaint names it" grep -q "broken2.json:1: " err
printf 'allreduce,0,10,spiral,simple,-1,-1,2\n' >broken.csv
check "wrong rules are an error, too" expect 1 env MOTET_TUNER_FILE=broken.csv "$motet" explain all_reduce 8 -n 2
check "that names the column" grep -q 'broken.csv:1: algorithm "spiral" is not an algorithm of this collective' err
check "a table that cannot be written is an error" expect 1 "$motet" tune -n 2 $short -c barrier -o nowhere/table.json -q
check "which names it" grep -q 'nowhere/table.json: No such file' err
check "wrong numbers of ranks are refused" expect 2 "$motet" tune -n 2,x
check "an unknown collective is refused" expect 2 "$motet" tune -c sideways
check "sizes in the wrong order are refused" expect 2 "$motet" tune -b 1M -e 1K
[ $failures = 0 ]
