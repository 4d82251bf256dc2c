/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical reduce: reduce-scatter inside each host, a pipelined chain from host to host for each part, and the finished parts
 * go to the root. As many parts as the largest host has members, so that all of them drive the network. Between hosts it moves
 * (H-1) * M in all, the least possible. Order: canonical on one host. Wins for large messages. */
#include "coll/hosts.h"
#include "coll/table.h"

/* Combines part `part` of the hosts behind with that of the own host and passes it on; the root's host finishes it for the root. */
static void pass_part(struct motet_schedule *schedule, const struct motet_shape *shape, struct motet_host host, int part)
{
    int nhosts = shape->nhosts, here = motet_host_of(shape, shape->root).index, left = motet_mod(host.index - here, nhosts);
    struct motet_host behind = motet_host_at(shape, (host.index + 1) % nhosts);
    struct motet_host ahead = motet_host_at(shape, motet_mod(host.index - 1, nhosts));
    bool starts = left == nhosts - 1, is_root = shape->position == shape->root;
    bool behind_is_raw = left + 1 == nhosts - 1 && behind.size == 1;
    motet_step_append(schedule, (struct motet_step){
                                    .from = starts ? motet_nobody : motet_peer(behind.first + part % behind.size),
                                    .src = host.size > 1 ? MOTET_PARTIAL : MOTET_INPUT,
                                    .dst = left > 0  ? MOTET_NONE
                                           : is_root ? MOTET_OUTPUT
                                                     : MOTET_SCRATCH,
                                    .to = motet_peer(left > 0 ? ahead.first + part % ahead.size : shape->root),
                                    .dst_at = motet_range(part),
                                    .n = 1,
                                    .flags = starts || behind_is_raw ? 0 : MOTET_WIDE,
                                });
}

void motet_reduce_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_host host = motet_host_of(shape, shape->position);
    int parts = 1;
    for (int h = 0; h < shape->nhosts; h++)
        parts = motet_host_at(shape, h).size > parts ? motet_host_at(shape, h).size : parts;
    motet_schedule_begin(schedule, shape, 1, parts);
    schedule->stage_chunks = parts;
    motet_hosts_reduce_inside(schedule, host, 0, parts, MOTET_PARTIAL);
    for (int part = shape->position - host.first; part < parts; part += host.size)
        pass_part(schedule, shape, host, part);
    if (shape->position != shape->root)
        return;
    for (int part = 0; part < parts; part += host.size) {
        int count = parts - part < host.size ? parts - part : host.size;
        motet_step_append(schedule, (struct motet_step){
                                        .from = {.first = host.first, .n = count, .stride = 1},
                                        .dst = MOTET_OUTPUT,
                                        .dst_at = motet_range(part),
                                        .n = 1,
                                        .each = 1,
                                    });
    }
}
