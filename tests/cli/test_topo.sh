#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# motet topo from outside: this machine, a planted one, ranks that run and ranks that do not, XML there and back, clouds' files, explain.
plant=$(cd "$(dirname "$0")" && pwd)/plant_machine.sh
. "$(dirname "$0")/command.sh"
unset MOTET_TOPO_FILE MOTET_TOPO_DUMP_FILE

# path A B WORD: a cell of the matrix in `out`.
path()
{
    awk -v a="$1" -v b="$2" -v wanted="$3" '
        !n && NF > 2 && $NF ~ /^(node|host)$/ { for (i = 1; i <= NF; i++) column[$i] = i + 1; n = NF; next }
        n && $1 == a && !found { found = $(column[b]) }
        END { if (found != wanted) print a " to " b ": " found " instead of " wanted; exit found != wanted }' out
}

# ---- This machine
check "this machine" run 0 topo
check "has a matrix" has ' CPUs +node$' out
check "and a legend" has '^ +X +itself$' out
first=$(taskset -cp $$ 2>/dev/null | sed 's/.*: //; s/[-,].*//')
if [ -n "$first" ] && [ "$(nproc)" -gt 1 ]; then
    check "bound to one CPU" expect 0 taskset -c "$first" "$motet" topo
    check "shows that one" has ': 1 CPU in 1 memory node$' out
    check "and names the others" has '^left out, since they may not be used here: CPUs [0-9]' out
fi
check "measured" run 0 topo --measure --time 300ms
check "as XML" run 0 topo --xml
cp out here.xml
check "that is read again" run 0 topo --file here.xml --xml
check "as the same" cmp -s out here.xml
check "by the variable, too" expect 0 env MOTET_TOPO_FILE=here.xml "$motet" topo --xml
check "as the same" cmp -s out here.xml

# ---- A machine that is planted
"$plant" "$work/machine" || exit 1
check "another machine" run 0 topo --root machine
check "has its sockets" has '^memory node 1, socket 1: CPUs 4-7$' out
check "its caches" has '^  L2 1 MiB of CPUs 4-5 6-7$' out
for row in 'C0 C1 L3' 'C0 C2 SYS' 'C0 NIC0 PHB' 'C2 NIC0 SYS' 'NIC0 NIC1 PIX' 'NIC0 NIC2 NODE' 'NIC2 GPU0 PIX' 'NIC2 NIC4 SYS' 'NIC3 C0 HOST'; do
    # shellcheck disable=SC2086
    check "path $row" path $row
done
check "no bridge of containers" sh -c "! grep -q docker0 out"
check "a port's speed" has '^NIC4 +mlx5_0:1 +0000:d8:00\.0 100 Gb/s +PCIe 4 x16 PCIe 4 x16 +1 +4-7$' out
check "a slot that is too narrow" has '^look: NIC ens1 moves 25 GB/s each way, but its bridge \(0000:3b:00\.0\) carries only PCIe 3 x16' out
check "a link below its maximum" has '^look: link of 0000:5e:00\.1 runs at PCIe 2 x8, 4 GB/s; both ends could do PCIe 3 x8' out
check "interrupts far away" has '^look: interrupts of NIC ens1 are served by CPUs 4-6, but the card is at memory node 0$' out
check "and nothing else" [ "$(grep -c '^look:' out)" = 4 ]
check "bridges and caches as rows" run 0 topo --root machine --rows bridges,caches,nodes
check "a bridge and its node" path SW0 N0 PHB
check "two caches" path L2.0 L2.1 L3
check "as XML" run 0 topo --root machine --xml
cp out machine.xml
check "the switch is the parent" has '<pci busid="0000:3b:00\.0" class="0x060400" .* link_speed="8\.0 GT/s PCIe" link_width="16"' out
check "that is read again" run 0 topo --file machine.xml --xml
check "as the same" cmp -s out machine.xml
check "ranks, bound" run 0 topo --file machine.xml -n 4 --bind core
for row in 'R0 R1 L3' 'R1 R2 SYS' 'R3 NIC4 PHB' 'R1 NIC4 SYS'; do
    # shellcheck disable=SC2086
    check "path $row" path $row
done
check "where they run" has '^R3 .* 6-7 +1$' out
check "twice as many" run 0 topo --file machine.xml -n 16 --bind core
check "share CPUs" path R0 R8 CPU
check "share cores" path R0 R1 CORE
check "ranks in memory nodes" run 0 topo --file machine.xml -n 2 --bind numa
check "are apart" path R0 R1 SYS
check "JSON" run 0 topo --file machine.xml -n 2 --bind core --json
if command -v python3 >/dev/null; then
    check "that holds together" python3 -c '
import json
topo = json.load(open("out"))
assert len(topo["findings"]) == 4 and topo["legend"]["PIX"]
assert [row["paths"][k] for k, row in enumerate(topo["matrix"])] == ["X"] * len(topo["matrix"])
assert topo["nodes"][topo["matrix"][0]["node"]]["attributes"]["affinity"] == "0000000f", topo["matrix"][0]
for node in topo["nodes"][1:]:
    assert 0 <= node["parent"] < len(topo["nodes"])'
fi
check "a picture" run 0 topo --file machine.xml -n 4 --bind core --svg picture.svg
check "with all in it" has 'GPU0 NVIDIA' picture.svg
check "that is XML" has '^</svg>$' picture.svg
[ -z "$(command -v xmllint)" ] || check "to others, too" xmllint --noout picture.svg machine.xml

# ---- Ranks that run
MOTET_TOPO_DUMP_FILE=dump-%h.xml "$motet" run -q -n 2 --bind core "$motet" perf all_reduce -b 8 -e 8 -n 100000000 >job.out 2>&1 &
job=$!
trap 'kill "$job" 2>/dev/null; wait "$job" 2>/dev/null; rm -rf "$work"' EXIT
tries=0
until [ -s "$(echo dump-*.xml)" ] || [ $tries -ge 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
pid=$(sed -n 's/.*<rank id="0".* pid="\([0-9]*\)".*/\1/p' dump-*.xml)
check "the job's own file" [ -n "$pid" ]
check "by a process" run 0 topo "$pid" --xml
check "is what --xml prints" cmp -s out dump-*.xml
check "the ranks of a job" run 0 topo "$pid" --rows ranks
check "are on this host" has '^R1 .*  '"$(uname -n | sed 's/\..*//')"'$' out
check "and measured" run 0 topo "$pid" --measure --time 100ms
check "any job" run 0 topo --running
kill "$job"
wait "$job" 2>/dev/null
trap 'rm -rf "$work"' EXIT
check "no such process" run 1 topo 2147483647
check "no such communicator" run 1 topo --running nothing-of-this-name

# ---- Explain
cat >islands.xml <<'END_OF_FILE'
<system version="1">
  <cpu host_hash="0xa" numaid="0" affinity="f">
    <pci busid="0000:01:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="16">
      <nic><net name="eth0" speed="40000" latency="3"/></nic></pci>
    <pci busid="0000:02:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16"><gpu dev="0"/></pci>
  </cpu>
  <cpu host_hash="0xb" numaid="0" affinity="f">
    <pci busid="0000:01:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="1">
      <nic><net name="eth0" speed="40000" latency="5"/></nic></pci>
    <pci busid="0000:02:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="2"><gpu dev="0"/></pci>
  </cpu>
  <link class="L3" latency_ns="120" bandwidth_gbs="10"/>
</system>
END_OF_FILE
cat >islands.json <<'END_OF_FILE'
{"hosts": 2, "cores": 4, "latency": 5, "bandwidth": 0.98461538461538467, "rank_bandwidth": 1.9692307692307693,
 "local_latency": 0.12, "core_bandwidth": 20}
END_OF_FILE
check "explain by a topology" run 0 explain all_reduce 64M -n 8 --topo islands.xml
cp out by_xml
check "two hosts" has ' on 8 ranks, 2 hosts$' out
check "explain by the same network" run 0 explain all_reduce 64M -n 8 --topo islands.json
check "is the same" cmp -s out by_xml
check "plan by a topology" run 0 plan --params 1B -n 8 --per-host 4 --compute 0.3 --topo islands.xml

# ---- What is wrong
printf '<system version="1">\n<cpu numaid="0">\n<pci busid="0000:01:00.0" link_width="wide"/>\n</cpu></system>' >bad.xml
check "a wrong attribute" run 2 topo --file bad.xml
check "names file, line, element" has 'bad\.xml:3: <pci> attribute link_width is "wide"' err
check "in the variable" expect 2 env MOTET_TOPO_FILE=bad.xml "$motet" topo
check "names the variable" has 'MOTET_TOPO_FILE: bad\.xml:3: <pci>' err
check "in explain" run 2 explain all_reduce --topo bad.xml
check "names file, line, element" has 'bad\.xml:3: <pci> attribute link_width' err
check "a file that is not there" run 2 topo --file none.xml
check "a folder" run 2 topo --file "$work"
check "a topology without CPUs has no place for ranks" sh -c "echo '<system version=\"1\"/>' >empty.xml; ! '$motet' topo --file empty.xml -n 2 2>err"
check "rows that are none" run 2 topo --rows ranks,columns
check "two sources" run 2 topo --file here.xml --root machine
check "measuring a file" run 2 topo --file here.xml --measure
check "planned and running ranks" run 2 topo -n 2 --running
check "a picture that cannot be written" run 1 topo --svg /nowhere/x.svg
check "a root without a machine" run 2 topo --root /nowhere

echo "$failures failed"
[ $failures -eq 0 ]
