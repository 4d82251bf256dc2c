/* SPDX-License-Identifier: Apache-2.0
 * Binomial reduce along the canonical tree. The root stands for every subtree that contains it, the first position for every other
 * one; of two halves, the one without the root sends its sum to the other. Rounds: ceil(log2 N). Every position but the root sends
 * M. Order: canonical, whatever the root. Wins for small messages. */
#include "coll/canonical.h"
#include "coll/step.h"
#include "coll/table.h"

static int stands_for(int low, int high, int root)
{
    return root >= low && root < high ? root : low;
}

void motet_reduce_binomial(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_canonical_node path[MOTET_CANONICAL_DEPTH];
    int me = shape->position, root = shape->root, depth = motet_canonical_path(shape->nranks, me, path), level = 0;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    while (level < depth && stands_for(path[level].low, path[level].high, root) == me)
        level++;
    struct motet_peers to = me == root ? motet_nobody : motet_peer(stands_for(path[level].low, path[level].high, root));
    if (level == 0) {
        motet_step_append(schedule,
                          (struct motet_step){.src = MOTET_INPUT, .dst = me == root ? MOTET_OUTPUT : MOTET_NONE, .to = to, .n = 1});
    }
    for (int i = 0; i < level; i++) {
        bool last = i == level - 1, on_left = me < path[i].middle;
        int low = on_left ? path[i].middle : path[i].low, high = on_left ? path[i].high : path[i].middle; /* the other half */
        motet_step_append(schedule, (struct motet_step){
                                        .from = motet_peer(stands_for(low, high, root)),
                                        .src = i == 0 ? MOTET_INPUT : MOTET_PARTIAL,
                                        .dst = !last        ? MOTET_PARTIAL
                                               : me == root ? MOTET_OUTPUT
                                                            : MOTET_NONE,
                                        .to = last ? to : motet_nobody,
                                        .n = 1,
                                        .flags = high - low > 1 ? MOTET_WIDE : 0,
                                    });
        motet_end_round(schedule);
    }
}
