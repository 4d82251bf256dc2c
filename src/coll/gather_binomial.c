/* SPDX-License-Identifier: Apache-2.0
 * Binomial gather: with places counted from the root, the subtree of place v is v .. v + (lowest bit of v) - 1; who has collected
 * its subtree sends it on as one message. Rounds: ceil(log2 N) one after the other. The root receives (N-1)/N * M in log2 N
 * messages. Wins for small blocks between hosts. */
#include "coll/step.h"
#include "coll/table.h"

void motet_gather_binomial(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position, place = motet_mod(me - shape->root, n);
    int reach = place > 0 ? place & -place : n;
    int size = reach < n - place ? reach : n - place; /* of my subtree */
    bool is_leaf = place > 0 && size == 1;
    enum motet_plane held = place == 0 ? MOTET_OUTPUT : is_leaf ? MOTET_INPUT : MOTET_SCRATCH;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    if (!is_leaf)
        motet_copy_chunks(schedule, held, me, MOTET_INPUT, me, 1);
    for (int below = 1; below < size; below *= 2)
        motet_recv(schedule, held, (me + below) % n, below < size - below ? below : size - below, (me + below) % n);
    motet_end_round(schedule);
    if (place > 0)
        motet_send(schedule, held, me, size, motet_mod(me - reach, n));
}
