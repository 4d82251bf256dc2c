/* SPDX-License-Identifier: Apache-2.0
 * The three steps of which the direct algorithms are made. The operands of a combination are all positions in order, so it is the
 * canonical tree itself, computed by one fused kernel. */
#include "coll/direct.h"

void motet_direct_scatter(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane src)
{
    struct motet_peers others = motet_others(shape);
    motet_step_append(schedule,
                      (struct motet_step){.src = src, .to = others, .dst_at = motet_range(others.first), .n = 1, .each = 1});
}

void motet_direct_combine(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane dst,
                          struct motet_peers to)
{
    motet_step_append(schedule, (struct motet_step){
                                    .from = motet_everybody(shape->nranks),
                                    .src = MOTET_INPUT,
                                    .dst = dst,
                                    .to = to,
                                    .dst_at = motet_range(shape->position),
                                    .n = 1,
                                });
}

void motet_direct_collect(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_peers others = motet_others(shape);
    motet_step_append(
        schedule, (struct motet_step){.from = others, .dst = MOTET_OUTPUT, .dst_at = motet_range(others.first), .n = 1, .each = 1});
}
