#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plant_machine.sh FOLDER: /sys and /proc of a machine that is not here. Two sockets with a memory node of four CPUs each, two cores of two
# CPUs that share an L2, one L3 a socket. Node 0: behind a switch a card of 200 Gb/s in a slot that is too narrow, whose interrupts are
# served by node 1, and a GPU; beside it a card of two ports whose link has come up too slow. Node 1: an InfiniBand card.
set -eu
root=$1
put() { mkdir -p "$(dirname "$root/$1")" && printf '%s\n' "$2" >"$root/$1"; }
link() { mkdir -p "$(dirname "$root/$1")" && ln -s "$2" "$root/$1"; }

cpu=sys/devices/system/cpu
put $cpu/online 0-7
put $cpu/possible 0-7
put sys/devices/system/node/online 0-1
for i in 0 1 2 3 4 5 6 7; do
    socket=$((i / 4))
    core=$((i % 4 / 2))
    siblings=$((3 << (i / 2 * 2)))
    all=$((15 << (socket * 4)))
    put $cpu/cpu$i/topology/physical_package_id $socket
    put $cpu/cpu$i/topology/core_id $core
    put $cpu/cpu$i/topology/thread_siblings "$(printf %02x $siblings)"
    put $cpu/cpu$i/topology/core_siblings "$(printf %02x $all)"
    cache()
    {
        put $cpu/cpu$i/cache/index$1/level "$2"
        put $cpu/cpu$i/cache/index$1/type "$3"
        put $cpu/cpu$i/cache/index$1/size "$4"
        put $cpu/cpu$i/cache/index$1/shared_cpu_map "$(printf %02x "$5")"
        put $cpu/cpu$i/cache/index$1/coherency_line_size 64
        put $cpu/cpu$i/cache/index$1/ways_of_associativity 8
        put $cpu/cpu$i/cache/index$1/number_of_sets 64
        put $cpu/cpu$i/cache/index$1/physical_line_partition 1
    }
    cache 0 1 Data 32K $siblings
    cache 1 2 Unified 1024K $siblings
    cache 2 3 Unified 16384K $all
    printf 'processor\t: %d\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nphysical id\t: %d\n\n' $i $socket
done >"$root/cpuinfo"
mkdir -p "$root/proc"
mv "$root/cpuinfo" "$root/proc/cpuinfo"
for node in 0 1; do
    put sys/devices/system/node/node$node/cpumap "$(printf %02x $((15 << (node * 4))))"
    put sys/devices/system/node/node$node/cpulist "$((node * 4))-$((node * 4 + 3))"
    put sys/devices/system/node/node$node/distance "$((10 + 11 * node)) $((21 - 11 * node))"
    put sys/devices/system/node/node$node/meminfo "Node $node MemTotal: 16777216 kB"
done

# device PATH CLASS VENDOR NODE SPEED WIDTH NOW NOW_WIDTH: below sys/devices
device()
{
    folder=sys/devices/$1
    put "$folder/class" "$2"
    put "$folder/vendor" "$3"
    put "$folder/device" 0x1017
    put "$folder/subsystem_vendor" "$3"
    put "$folder/subsystem_device" 0x0001
    put "$folder/numa_node" "$4"
    put "$folder/local_cpulist" "$(($4 * 4))-$(($4 * 4 + 3))"
    put "$folder/max_link_speed" "$5"
    put "$folder/max_link_width" "$6"
    put "$folder/current_link_speed" "$7"
    put "$folder/current_link_width" "$8"
    link "sys/bus/pci/devices/$(basename "$1")" "../../../devices/$1"
}
# interface NAME DEVICE SPEED STATE
interface()
{
    put "sys/devices/$2/net/$1/speed" "$3"
    put "sys/devices/$2/net/$1/operstate" "$4"
    link "sys/devices/$2/net/$1/device" ../..
    link "sys/class/net/$1" "../../devices/$2/net/$1"
}
# interrupt NUMBER DEVICE CPUS
interrupt()
{
    put "sys/devices/$2/msi_irqs/$1" msix
    put "proc/irq/$1/effective_affinity_list" "$3"
}

port=pci0000:3a/0000:3a:00.0
switch=$port/0000:3b:00.0
device $port 0x060400 0x8086 0 '8.0 GT/s PCIe' 16 '8.0 GT/s PCIe' 16
device $switch 0x060400 0x10b5 0 '16.0 GT/s PCIe' 16 '8.0 GT/s PCIe' 16
device $switch/0000:3c:00.0 0x060400 0x10b5 0 '16.0 GT/s PCIe' 16 '16.0 GT/s PCIe' 16
device $switch/0000:3c:01.0 0x060400 0x10b5 0 '16.0 GT/s PCIe' 16 '16.0 GT/s PCIe' 16
card=$switch/0000:3c:00.0/0000:3d:00.0
device $card 0x020000 0x15b3 0 '16.0 GT/s PCIe' 16 '16.0 GT/s PCIe' 16
interface ens1 $card 200000 up
interrupt 40 $card 4
interrupt 41 $card 5-6
device $switch/0000:3c:01.0/0000:3e:00.0 0x030200 0x10de 0 '16.0 GT/s PCIe' 16 '16.0 GT/s PCIe' 16

port=pci0000:5d/0000:5d:00.0
device $port 0x060400 0x8086 0 '16.0 GT/s PCIe' 16 '8.0 GT/s PCIe' 8
for function in 0 1; do
    card=$port/0000:5e:00.$function
    device $card 0x020000 0x8086 0 '8.0 GT/s PCIe' 8 '5.0 GT/s PCIe' 8
    interface eno$function $card 10000 $([ $function = 0 ] && echo up || echo down)
    interrupt 5$function $card 0-3
done

port=pci0000:d7/0000:d7:00.0
device $port 0x060400 0x8086 1 '16.0 GT/s PCIe' 16 '16.0 GT/s PCIe' 16
card=$port/0000:d8:00.0
device $card 0x020700 0x15b3 1 '16.0 GT/s PCIe' 16 '16.0 GT/s PCIe' 16
put sys/devices/$card/infiniband/mlx5_0/ports/1/rate '100 Gb/sec (2X HDR)'
put sys/devices/$card/infiniband/mlx5_0/ports/1/state '4: ACTIVE'
put sys/devices/$card/infiniband/mlx5_0/node_guid 0c42:a103:0065:4f2e
link sys/devices/$card/infiniband/mlx5_0/device ../..
link sys/class/infiniband/mlx5_0 ../../devices/$card/infiniband/mlx5_0
interrupt 60 $card 4-7

put sys/devices/virtual/net/lo/operstate unknown
link sys/class/net/lo ../../devices/virtual/net/lo
put sys/devices/virtual/net/bond0/operstate up
put sys/devices/virtual/net/bond0/speed 20000
link sys/class/net/bond0 ../../devices/virtual/net/bond0
put sys/devices/virtual/net/docker0/operstate up
put sys/devices/virtual/net/docker0/bridge/forward_delay 0
link sys/class/net/docker0 ../../devices/virtual/net/docker0
