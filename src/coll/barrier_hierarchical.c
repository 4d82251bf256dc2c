/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical barrier: members signal the first position of their host, these disseminate among themselves, then release their
 * members. Rounds: 2 + ceil(log2 H), H ceil(log2 H) signals between hosts. Wins on several hosts with many ranks each. */
#include "coll/hosts.h"
#include "coll/signal.h"
#include "coll/table.h"

static struct motet_peers leader(const struct motet_shape *shape, int host)
{
    return motet_peer(shape->host_first[motet_mod(host, shape->nhosts)]);
}

void motet_barrier_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_host host = motet_host_of(shape, shape->position);
    motet_schedule_begin(schedule, shape, 1, 1);
    if (shape->position != host.first) {
        motet_signal(schedule, motet_peer(host.first));
        motet_await(schedule, motet_peer(host.first));
        return;
    }
    motet_await(schedule, host.members);
    motet_end_round(schedule);
    for (int distance = 1; distance < shape->nhosts; distance *= 2) {
        motet_signal(schedule, leader(shape, host.index + distance));
        motet_await(schedule, leader(shape, host.index - distance));
        motet_end_round(schedule);
    }
    motet_signal(schedule, host.members);
}
