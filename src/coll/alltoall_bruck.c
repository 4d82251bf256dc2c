/* SPDX-License-Identifier: Apache-2.0
 * Bruck all-to-all (Bruck et al. 1997). Blocks are sorted by how far they have to travel; in the round of bit k all blocks whose
 * distance has that bit jump 2^k positions in one message. Rounds: ceil(log2 N) + 2. Sends about log2(N)/2 * M. Wins for small
 * blocks on many ranks. */
#include "coll/step.h"
#include "coll/table.h"

void motet_alltoall_bruck(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(schedule, shape, n, 1);
    schedule->stage_chunks = 1;
    motet_copy_chunks(schedule, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
    motet_copy_chunks(schedule, MOTET_SCRATCH, 1, MOTET_INPUT, (me + 1) % n, n - 1);
    motet_end_round(schedule);
    for (int bit = 1; bit < n; bit *= 2) {
        struct motet_span set = {.first = bit, .run = bit, .stride = 2 * bit}; /* distances with this bit */
        int count = n / (2 * bit) * bit + (n % (2 * bit) > bit ? n % (2 * bit) - bit : 0);
        motet_step_append(schedule,
                          (struct motet_step){.src = MOTET_SCRATCH, .to = motet_peer((me + bit) % n), .dst_at = set, .n = count});
        motet_step_append(
            schedule,
            (struct motet_step){.from = motet_peer(motet_mod(me - bit, n)), .dst = MOTET_SCRATCH, .dst_at = set, .n = count});
        motet_end_round(schedule);
        schedule->stage_chunks += count;
    }
    /* What has travelled distance d came from position me - d. */
    *motet_schedule_append(schedule) = (struct motet_step){
        .src = MOTET_SCRATCH,
        .nsrc = 1,
        .dst = MOTET_OUTPUT,
        .src_at = motet_range(1),
        .dst_at = motet_strided(motet_mod(me - 1, n), -1),
        .n = n - 1,
    };
}
