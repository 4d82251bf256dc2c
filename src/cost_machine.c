/* SPDX-License-Identifier: Apache-2.0
 * The machine that the cost model assumes, and what a measurement puts in its place. Every rank makes the same of the same numbers. */
#include "base/speeds.h"
#include "cost.h"

/* Two cores that share a last-level cache, and 2 GB/s of TCP. Measured on processes of one host: 0.15 us for a broadcast of 8 bytes, 0.2 for
 * an all-reduce; 2.7 us for a Bruck exchange of 8 KB by the engine against 1.1 for a direct one; exchanges of 512 KB at 41 bytes/ns, of
 * 2 MB at 24, of 8 MB at 10; 4.3 us for an all-reduce of 8 bytes by four ranks on two cores, 9 for two rounds of messages. */
const struct motet_cost_machine motet_cost_default = {
    .link =
        {
            [MOTET_LINK_THREADS] = {.latency_ns = 60, .message_ns = 15, .bytes_per_ns = 10},
            [MOTET_LINK_SHARED] = {.latency_ns = 60, .message_ns = 15, .bytes_per_ns = 10},
            [MOTET_LINK_NET] = {.latency_ns = 15000, .message_ns = 2000, .bytes_per_ns = 2},
        },
    .call_ns = 900,
    .step_ns = 100,
    .short_call_ns = 130,
    .core_bytes_per_ns = 45,
    .shared_bytes_per_ns = 30,
    .memory_bytes_per_ns = 9,
    .cache_bytes = 1 << 20,
    .shared_cache_bytes = 16 << 20,
    .fetch_bytes_per_ns = 20,
    .fetch_start_ns = 100,
    .exchange_bytes_per_ns = 20,
    .exchange_start_ns = 100,
    .exchange_ns = 290,
    .combine_bytes_per_ns = 200,
    .combine_start_ns = 50,
    .switch_ns = 1700,
    .piece_bytes = 16384,
};

void motet_cost_machine_core(struct motet_cost_machine *machine, double bytes_per_ns)
{
    machine->core_bytes_per_ns = machine->shared_bytes_per_ns = machine->memory_bytes_per_ns = bytes_per_ns;
}

/* Where messages cross, a rank looks for the other's while that is being written. Measured: 0.25 us, and of the time of a line so much. */
#define CROSSING_NS    250
#define CROSSING_LINES 0.6

/* In calls data change places more than in the loops that are measured. */
#define CALLS_COPY   0.85
#define CALLS_MEMORY 0.75
#define CALLS_START  1.35

/* Over TCP a call takes more trips than a program that does nothing else: the engine looks at memory and at all sockets in turn. A second write
 * follows the first. Of the time of a byte so much is work of each end, which adds up where both send. */
#define TRIPS_PER_MESSAGE 2.1
#define TRIPS_PER_SECOND  1.3
#define SOCKET_WORK       0.6

void motet_cost_machine_measured(const struct motet_speeds *speeds, struct motet_cost_machine *machine)
{
    *machine = motet_cost_default;
    if (!speeds->is_measured)
        return;
    for (int class = 0; class < MOTET_LINK_NET; class ++)
        machine->link[class].latency_ns = speeds->line_ns;
    machine->exchange_ns = CROSSING_NS + CROSSING_LINES * speeds->line_ns;
    machine->core_bytes_per_ns = CALLS_COPY * speeds->copy_bytes_per_ns;
    machine->memory_bytes_per_ns = CALLS_MEMORY * speeds->memory_bytes_per_ns;
    machine->shared_bytes_per_ns = CALLS_COPY * speeds->shared_bytes_per_ns;
    if (machine->shared_bytes_per_ns > machine->core_bytes_per_ns)
        machine->shared_bytes_per_ns = machine->core_bytes_per_ns;
    if (speeds->cache_bytes > 0)
        machine->cache_bytes = speeds->cache_bytes;
    if (speeds->shared_cache_bytes > 0)
        machine->shared_cache_bytes = speeds->shared_cache_bytes;
    if (machine->memory_bytes_per_ns > machine->shared_bytes_per_ns)
        machine->memory_bytes_per_ns = machine->shared_bytes_per_ns;
    machine->fetch_bytes_per_ns = speeds->pass_bytes_per_ns;
    machine->fetch_start_ns = CALLS_START * speeds->pass_start_ns;
    machine->exchange_bytes_per_ns = speeds->exchange_bytes_per_ns;
    machine->exchange_start_ns = CALLS_START * speeds->exchange_start_ns;
    machine->combine_bytes_per_ns = speeds->combine_bytes_per_ns;
    machine->switch_ns = speeds->switch_ns;
    if (speeds->socket_bytes_per_ns > 0) {
        machine->link[MOTET_LINK_NET].latency_ns = TRIPS_PER_MESSAGE * speeds->socket_latency_ns;
        machine->link[MOTET_LINK_NET].bytes_per_ns = speeds->socket_bytes_per_ns;
        machine->net_second_ns = TRIPS_PER_SECOND * speeds->socket_latency_ns;
        machine->net_byte_ns = SOCKET_WORK / speeds->socket_bytes_per_ns;
    }
}
