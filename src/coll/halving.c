/* SPDX-License-Identifier: Apache-2.0
 * Within a group partners differ in one bit, the lowest first: neighbours exchange the largest messages, and what a member holds
 * after k exchanges is the canonical subtree of the 2^k positions around it. Every exchange passes through memory, so each is a
 * round. */
#include "coll/halving.h"

#include "coll/canonical.h"

struct group {
    int first, size;
};

/* The largest group that begins at `first`; size 0 when nothing is left. */
static struct group group_at(int first, int nranks)
{
    return (struct group){first, first < nranks ? motet_largest_power_of_two(nranks - first) : 0};
}

/* The group of a position, and the one before it (size 0: none). */
static struct group group_of(int position, int nranks, struct group *before)
{
    struct group group = group_at(0, nranks);
    *before = (struct group){0, 0};
    while (position >= group.first + group.size) {
        *before = group;
        group = group_at(group.first + group.size, nranks);
    }
    return group;
}

int motet_halving_ngroups(int nranks)
{
    return __builtin_popcount((unsigned)nranks);
}

/* A step on every stride-th chunk, from chunk `start` mod stride on. */
static void append_set(struct motet_schedule *schedule, int start, int stride, struct motet_step step)
{
    int first = start % stride;
    step.dst_at = motet_strided(first, stride);
    step.n = (motet_schedule_nchunks(schedule) - 1 - first) / stride + 1;
    motet_step_append(schedule, step);
}

/* Halves what is held until it is every size-th chunk; the last combination goes to `dst` and `to`. Returns where it lies. */
static enum motet_plane halve(struct motet_schedule *schedule, struct group group, enum motet_plane dst, struct motet_peers to)
{
    int me = schedule->position - group.first;
    enum motet_plane held = MOTET_INPUT;
    for (int bit = 1; bit < group.size; bit *= 2) {
        bool last = bit * 2 == group.size;
        struct motet_peers partner = motet_peer(group.first + (me ^ bit));
        append_set(schedule, me ^ bit, bit * 2, (struct motet_step){.src = held, .to = partner});
        append_set(schedule, me, bit * 2,
                   (struct motet_step){
                       .from = partner,
                       .src = held,
                       .dst = last ? dst : MOTET_PARTIAL,
                       .to = last ? to : motet_nobody,
                       .flags = bit > 1 ? MOTET_WIDE : 0,
                   });
        motet_end_round(schedule);
        held = last ? dst : MOTET_PARTIAL;
    }
    return held;
}

void motet_halving_reduce_scatter(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane dst,
                                  struct motet_peers to)
{
    struct group before, group = group_of(shape->position, shape->nranks, &before);
    struct group after = group_at(group.first + group.size, shape->nranks);
    int me = shape->position - group.first;
    bool is_first = before.size == 0;
    if (shape->nranks == 1)
        motet_step_append(schedule, (struct motet_step){.src = MOTET_INPUT, .dst = dst, .to = to, .n = 1});
    bool ends_here = is_first && after.size == 0;
    enum motet_plane held = halve(schedule, group, ends_here ? dst : MOTET_PARTIAL, ends_here ? to : motet_nobody);
    if (after.size > 0) {
        append_set(schedule, me, group.size,
                   (struct motet_step){
                       .from = motet_peer(after.first + me % after.size),
                       .src = held,
                       .dst = is_first ? dst : MOTET_PARTIAL,
                       .to = is_first ? to : motet_nobody,
                       .flags = after.size > 1 ? MOTET_WIDE : 0,
                   });
        motet_end_round(schedule);
        held = MOTET_PARTIAL;
    }
    for (int member = me; member < before.size; member += group.size)
        append_set(schedule, member, before.size, (struct motet_step){.src = held, .to = motet_peer(before.first + member)});
}

/* Position c of the first group gives chunk c to its owner in every other group. */
static void hand_out(struct motet_schedule *schedule, int nranks, int me)
{
    struct group group = group_at(0, nranks);
    for (group = group_at(group.size, nranks); group.size > 0; group = group_at(group.first + group.size, nranks))
        motet_send(schedule, MOTET_OUTPUT, me, 1, group.first + me % group.size);
}

void motet_halving_all_gather(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct group before, group = group_of(shape->position, shape->nranks, &before), first = group_at(0, shape->nranks);
    int me = shape->position - group.first;
    if (group.first == 0) {
        hand_out(schedule, shape->nranks, me);
    } else {
        motet_step_append(schedule, (struct motet_step){
                                        .from = {.first = me, .n = first.size / group.size, .stride = group.size},
                                        .dst = MOTET_OUTPUT,
                                        .dst_at = motet_range(me),
                                        .n = 1,
                                        .each = group.size,
                                    });
        motet_end_round(schedule);
    }
    for (int bit = group.size / 2; bit > 0; bit /= 2) {
        struct motet_peers partner = motet_peer(group.first + (me ^ bit));
        append_set(schedule, me, bit * 2, (struct motet_step){.src = MOTET_OUTPUT, .to = partner});
        append_set(schedule, me ^ bit, bit * 2, (struct motet_step){.from = partner, .dst = MOTET_OUTPUT});
        motet_end_round(schedule);
    }
}
