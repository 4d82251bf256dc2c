/* SPDX-License-Identifier: Apache-2.0
 * With chunks counted from the own position: before a round with the distances d (so far) and h = d halved and rounded up, I hold
 * sums for chunks 0 .. d - 1. I send h .. d - 1 to the position h ahead, for which they are 0 .. d - h - 1, and add what comes from
 * behind. When n is odd, the first round leaves chunk h - 1 untouched; it travels in the second round by itself, as raw input. */
#include "coll/circulant.h"

/* Exchanges `count` chunks from `at` on (counted from the own position) over distance h. */
static void exchange(struct motet_schedule *schedule, int h, int at, int count, enum motet_plane sent, enum motet_plane held,
                     enum motet_plane dst)
{
    int n = schedule->nranks, me = schedule->position;
    if (count == 0)
        return;
    motet_send(schedule, sent, (me + at) % n, count, (me + h) % n);
    motet_recv_reduce(schedule, dst, held, (me + at - h) % n, count, motet_mod(me - h, n), motet_plane_is_wide(sent));
}

void motet_circulant_reduce_scatter(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks;
    enum motet_plane held = MOTET_INPUT;
    if (n == 1)
        motet_copy_chunks(schedule, MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
    for (int d = n, h; d > 1; d = h) {
        h = (d + 1) / 2;
        enum motet_plane dst = h == 1 ? MOTET_OUTPUT : MOTET_PARTIAL;
        bool one_is_raw = n % 2 == 1 && d == (n + 1) / 2;
        exchange(schedule, h, h, d - h - one_is_raw, held, held, dst);
        exchange(schedule, h, d - 1, one_is_raw, MOTET_INPUT, held, dst);
        motet_end_round(schedule);
        held = MOTET_PARTIAL;
    }
}

void motet_circulant_all_gather(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position, rounds = 0, distance[33] = {n};
    while (distance[rounds] > 1) {
        distance[rounds + 1] = (distance[rounds] + 1) / 2;
        rounds++;
    }
    /* The reduce-scatter backwards. */
    for (; rounds > 0; rounds--) {
        int h = distance[rounds], count = distance[rounds - 1] - h;
        motet_send(schedule, MOTET_OUTPUT, me, count, motet_mod(me - h, n));
        motet_recv(schedule, MOTET_OUTPUT, (me + h) % n, count, (me + h) % n);
        motet_end_round(schedule);
    }
}
