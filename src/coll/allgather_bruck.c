/* SPDX-License-Identifier: Apache-2.0
 * Bruck all-gather (Bruck et al. 1997): the number of blocks that everybody has doubles in each round, for any N.
 * Rounds: ceil(log2 N). Sends (N-1)/N * M. Wins for small messages between hosts. */
#include "coll/step.h"
#include "coll/table.h"

void motet_allgather_bruck(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
    motet_end_round(schedule);
    /* I hold the blocks me .. me + held - 1. */
    for (int held = 1; held < n; held *= 2) {
        int count = held < n - held ? held : n - held;
        motet_send(schedule, MOTET_OUTPUT, me, count, motet_mod(me - held, n));
        motet_recv(schedule, MOTET_OUTPUT, (me + held) % n, count, (me + held) % n);
        motet_end_round(schedule);
    }
}
