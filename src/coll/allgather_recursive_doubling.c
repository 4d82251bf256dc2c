/* SPDX-License-Identifier: Apache-2.0
 * Recursive doubling all-gather, for powers of two: partners that differ in one bit exchange all they have, the lowest bit first.
 * Rounds: log2 N. Sends (N-1)/N * M. Wins for small messages between hosts; the last and largest exchange is the farthest. */
#include "coll/step.h"
#include "coll/table.h"

void motet_allgather_recursive_doubling(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = n - 1;
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
    motet_end_round(schedule);
    for (int bit = 1; bit < n; bit *= 2) {
        int partner = me ^ bit;
        motet_send(schedule, MOTET_OUTPUT, me & -bit, bit, partner);
        motet_recv(schedule, MOTET_OUTPUT, partner & -bit, bit, partner);
        motet_end_round(schedule);
    }
}
