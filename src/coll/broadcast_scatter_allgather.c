/* SPDX-License-Identifier: Apache-2.0
 * Scatter and all-gather broadcast (Barnett, van de Geijn 1994): the root sends a different part to each position, and each shows
 * its part to all others. Both halves are direct, in one round. Two hops. The root sends 2(N-1)/N * M, the others (N-2)/N * M. Wins
 * for large messages on links that all can use at once. */
#include "coll/step.h"
#include "coll/table.h"

static void build_root(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_peers others = motet_others(shape);
    motet_step_append(
        schedule, (struct motet_step){.src = MOTET_INPUT, .to = others, .dst_at = motet_range(others.first), .n = 1, .each = 1});
    motet_step_append(schedule, (struct motet_step){.src = MOTET_INPUT, .to = others, .dst_at = motet_range(shape->root), .n = 1});
    motet_copy_chunks(schedule, MOTET_OUTPUT, 0, MOTET_INPUT, 0, shape->nranks);
}

void motet_broadcast_scatter_allgather(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int root = shape->root, first = (root + 1) % shape->nranks;
    struct motet_peers but_root = {.first = first, .n = shape->nranks - 1, .stride = 1};
    motet_schedule_begin(schedule, shape, 1, shape->nranks);
    schedule->stage_chunks = shape->nranks;
    if (shape->position == root) {
        build_root(schedule, shape);
        return;
    }
    motet_step_append(schedule, (struct motet_step){
                                    .from = motet_peer(root),
                                    .dst = MOTET_OUTPUT,
                                    .to = but_root,
                                    .dst_at = motet_range(shape->position),
                                    .n = 1,
                                });
    motet_recv(schedule, MOTET_OUTPUT, root, 1, root);
    motet_step_append(schedule,
                      (struct motet_step){.from = but_root, .dst = MOTET_OUTPUT, .dst_at = motet_range(first), .n = 1, .each = 1});
}
