/* SPDX-License-Identifier: Apache-2.0
 * Binomial scatter, the gather turned round: with places counted from the root, the subtree of place v is v .. v + (lowest bit of
 * v) - 1; its blocks arrive in one message and are handed on, the largest subtree first. Rounds: ceil(log2 N) one after the other.
 * The root sends (N-1)/N * M in log2 N messages. Wins for small blocks between hosts. */
#include "coll/step.h"
#include "coll/table.h"

void motet_scatter_binomial(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position, place = motet_mod(me - shape->root, n);
    int reach = place > 0 ? place & -place : n;
    int size = reach < n - place ? reach : n - place; /* of my subtree */
    bool is_leaf = place > 0 && size == 1;
    enum motet_plane held = place == 0 ? MOTET_INPUT : MOTET_SCRATCH;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    if (place > 0) {
        motet_recv(schedule, is_leaf ? MOTET_OUTPUT : held, me, size, motet_mod(me - reach, n));
        motet_end_round(schedule);
    }
    int below = 1;
    while (below < size)
        below *= 2;
    for (below /= 2; below > 0; below /= 2)
        motet_send(schedule, held, (me + below) % n, below < size - below ? below : size - below, (me + below) % n);
    if (!is_leaf)
        motet_copy_chunks(schedule, MOTET_OUTPUT, me, held, me, 1);
}
