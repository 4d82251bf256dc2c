/* SPDX-License-Identifier: Apache-2.0
 * The one append that nearly every builder uses. In most steps the local operand and the destination are the same chunks, so a
 * builder names them once, in dst_at, and writes only the fields that differ from zero. */
#ifndef MOTET_COLL_STEP_H
#define MOTET_COLL_STEP_H

#include "coll/coll.h"

static const struct motet_peers motet_nobody = {0, 0, 0};

/* Appends `step` with src_at = dst_at and one local plane if src names one. */
static inline void motet_step_append(struct motet_schedule *schedule, struct motet_step step)
{
    step.src_at = step.dst_at;
    step.nsrc = step.src != MOTET_NONE;
    *motet_schedule_append(schedule) = step;
}

/* All positions but the own one, the next one first: so that not everybody sends to position 0 first. */
static inline struct motet_peers motet_others(const struct motet_shape *shape)
{
    return (struct motet_peers){.first = (shape->position + 1) % shape->nranks, .n = shape->nranks - 1, .stride = 1};
}

/* Every stride-th chunk: first, first + stride, ... */
static inline struct motet_span motet_strided(int first, int stride)
{
    return (struct motet_span){.first = first, .run = 1, .stride = stride};
}

#endif
