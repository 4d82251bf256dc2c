#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet plan from outside: the worked example, layouts, curves, measured steps, and what is refused.
. "$(dirname "$0")/command.sh"

check "7 B in fp16 on 4 devices" run 0 plan --params 7B -n 4 --link 32GB/s --compute 0.3
check "has 14 GB of gradients" has '14 GB \(13\.04 GiB\)' out
check "sends 21 GB in 0.656 s" has '^gradients +4 +21 GB +0\.656 s' out
check "reaches 31 %" has '^scaling efficiency: 31\.4 %' out
check "needs 112, 49, 38.5 or 28 GB" has 'DP 112 GB, ZeRO-1 49 GB, ZeRO-2 38\.5 GB, ZeRO-3 28 GB' out
check "names the bottleneck" has '^bottleneck: gradients over links inside the host' out
check "tries what would help" has 'accumulation over twice the micro-steps +\+52' out
check "on cards of 24 GB" run 0 plan --params 7B -n 4 --device rtx4090 --compute 0.3
check "none fits, and what would" has 'none fits into 24 GB; ZeRO-3 on 8 devices would' out
check "formulas at 32 GB/s" run 0 plan --params 7B -n 4 --link 32GB/s --compute 0.3 --formulas
check "21 GB, rounded 28 GB" has '= 21 GB sent, .*rounded up to 2M = 28 GB' out
check "0.656 s and 0.875 s" has 'time = .* 0\.6562 s at 32 GB/s \(0\.875 s for 2M\)' out
check "31 % and 25 %" has 'efficiency 31\.4 %; with 2M 25\.5 %' out
check "formulas at 600 GB/s both ways" run 0 plan --params 7B -n 4 --link nvlink3 --compute 0.3 --formulas
check "0.070 s, and 0.035 s (0.047 s) if both directions were one" has '0\.07 s at 300 GB/s .*0\.035 s \(0\.04667 s\)' out
check "81 %" has '^efficiency = .* = 81\.1 %' out
check "measured steps" run 0 plan --measured compute=0.3,eff=0.40 --measured compute=1.2,eff=0.75
check "exposed 0.45 s" has 'exposed communication 0\.45 s' out
check "and 0.4 s" has 'exposed communication 0\.4 s' out
check "predict four times the batch" has '^ 4 times the batch .* 75\.0 %' out
check "a pipeline" run 0 plan --params 7B -n 4 --pp 4 -m 17 --layers 32 --hidden 4096 --heads 32 -s 2048 --link 32 --compute 0.1
check "has 15 % of bubble, 17.6 % by the other definition" has 'bubble: 15\.0 % .*; 17\.6 % of the ideal time' out
check "presets" run 0 plan --presets
check "are one way" has '^nvlink3 +300 ' out

cat >config.json <<'END'
{"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
 "vocab_size": 32000, "hidden_act": "silu", "tie_word_embeddings": false}
END
check "a search over 1,024 devices" run 0 plan --config config.json -n 1024 --per-host 8 --device h100 --net 400GbE --latency rdma \
    -s 4096 --global-batch 4096 --search --top 3
check "ranks layouts" has '^[0-9]+ layouts of 1024 devices, 4096 sequences' out
check "three of them" [ "$(wc -l <out)" = 5 ]
check "a sweep" run 0 plan --config config.json -n 256 --per-host 8 --device h100 --net 100GbE -s 4096 --zero 3 --sweep --svg curve.svg
check "has each power of two" [ "$(grep -c '%' out)" = 9 ]
check "and is drawn" has '</svg>' curve.svg
check "JSON" run 0 plan --params 7B -n 4 --link 32GB/s --compute 0.3 --zero 3 --json
check "has the traffic" has '"bytes": 2\.1e10' out
check "and the memory" has '"total": 2\.8e10' out

check "no model" run 2 plan --link 32 --compute 1
check "says so" has 'how large is the model' err
check "no compute time" run 2 plan --params 7B --link 32
check "no links" run 2 plan --params 7B --compute 1
check "devices that the layout does not divide" run 2 plan --params 7B -n 6 --tp 4 --link 32 --compute 1
check "an unknown device" run 2 plan --params 7B --device abacus --compute 1
check "a size that is none" run 2 plan --params much --link 32 --compute 1
check "a measurement that is none" run 2 plan --measured compute=0.3,eff=40
printf '{"hidden_size": 64,\n"n_layer": "many"}' >bad.json
check "a config with a wrong element" run 2 plan --config bad.json --link 32 --compute 1
check "names file, line and element" has 'bad\.json:2: n_layer ' err
check "a curve that cannot be written" run 1 plan --params 7B --link 32 --compute 1 --sweep --svg /nowhere/x.svg

echo "$failures failed"
[ $failures -eq 0 ]
