/* SPDX-License-Identifier: Apache-2.0
 * Hierarchical broadcast: the data flows from host to host in a pipelined chain; the one member that receives it (on the first host
 * the root) shows it to the rest of its host as it arrives. Members and the next host's first position are neighbours, so each
 * position has one step. Hops: H. Between hosts it moves (H-1) * M in all, the least possible. Wins for large messages. */
#include "coll/hosts.h"
#include "coll/table.h"

void motet_broadcast_hierarchical(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_host host = motet_host_of(shape, shape->position), home = motet_host_of(shape, shape->root);
    int passed = motet_mod(host.index - home.index, shape->nhosts);
    bool is_root = shape->position == shape->root;
    int leader = passed == 0 ? shape->root : host.first;
    int source = leader;
    struct motet_peers to = motet_nobody;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    if (shape->position == leader) {
        struct motet_host before = motet_host_at(shape, motet_mod(host.index - 1, shape->nhosts));
        source = passed == 1 ? shape->root : before.first;
        to = host.members;
        to.n += passed < shape->nhosts - 1;
    }
    motet_step_append(schedule, (struct motet_step){
                                    .from = is_root ? motet_nobody : motet_peer(source),
                                    .src = is_root ? MOTET_INPUT : MOTET_NONE,
                                    .dst = MOTET_OUTPUT,
                                    .to = to,
                                    .n = 1,
                                });
}
