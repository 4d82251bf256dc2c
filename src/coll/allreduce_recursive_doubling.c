/* SPDX-License-Identifier: Apache-2.0
 * Recursive doubling for any number of positions, in canonical order. At every node of the canonical tree both halves exchange
 * their sums, so all positions hold the sum of ever larger subtrees. Where the right half is smaller, its members serve several of
 * the left. Rounds: ceil(log2 N). Sends M per round (more from the smaller half). Wins for small messages between hosts. */
#include "coll/canonical.h"
#include "coll/step.h"
#include "coll/table.h"

/* Who sends me the sum of the other half of a node, and to whom I send that of mine. */
static struct motet_peers source(struct motet_canonical_node node, int me)
{
    int right = node.high - node.middle;
    return motet_peer(me < node.middle ? node.middle + (me - node.low) % right : node.low + me - node.middle);
}

static struct motet_peers targets(struct motet_canonical_node node, int me)
{
    int left = node.middle - node.low, right = node.high - node.middle;
    if (me < node.middle)
        return me - node.low < right ? motet_peer(node.middle + me - node.low) : motet_nobody;
    int place = me - node.middle;
    return (struct motet_peers){.first = node.low + place, .n = (left - place - 1) / right + 1, .stride = right};
}

static bool other_half_is_combined(struct motet_canonical_node node, int me)
{
    return (me < node.middle ? node.high - node.middle : node.middle - node.low) > 1;
}

void motet_allreduce_recursive_doubling(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_canonical_node path[MOTET_CANONICAL_DEPTH];
    int me = shape->position, depth = motet_canonical_path(shape->nranks, me, path);
    motet_schedule_begin(schedule, shape, 1, 1);
    while (1 << schedule->stage_chunks < shape->nranks)
        schedule->stage_chunks++; /* one per round */
    if (depth == 0)
        motet_copy_chunks(schedule, MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
    enum motet_plane held = MOTET_INPUT;
    for (int level = 0; level < depth; level++) {
        enum motet_plane next = level == depth - 1 ? MOTET_OUTPUT : MOTET_PARTIAL + level % 2;
        motet_step_append(schedule, (struct motet_step){.src = held, .to = targets(path[level], me), .n = 1});
        motet_step_append(schedule, (struct motet_step){
                                        .from = source(path[level], me),
                                        .src = held,
                                        .dst = next,
                                        .n = 1,
                                        .flags = other_half_is_combined(path[level], me) ? MOTET_WIDE : 0,
                                    });
        motet_end_round(schedule);
        held = next;
    }
}
