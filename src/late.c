/* SPDX-License-Identifier: Apache-2.0
 * A rank is missing in a collective when it has not begun it. Of ranks that share memory that is known; of others it is what this rank
 * still needs of them. What they completed last is read from the words that they publish anyway. */
#include "late.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 8 /* missing ranks named in one line */

/* Whether collective `call` is the newest of the region's owner and is not complete. */
static bool is_in(motetComm_t comm, char *region, uint64_t call)
{
    const struct motet_record *record = motet_region_record(&comm->layout, region, call);
    return atomic_load_explicit(&record->seq, memory_order_acquire) == call + 1 &&
           __atomic_load_n(&record->state, __ATOMIC_RELAXED) == MOTET_RECORD_STARTED;
}

/* The newest collective that the rank has completed. Remote ranks tell those that write to them how far they have read. */
static uint64_t last_completed(motetComm_t comm, int position)
{
    char *region = comm->peers[position].region;
    const struct motet_control_area *control = motet_region_control(region);
    if (comm->peers[position].mapped) {
        uint64_t begun = atomic_load_explicit(&control->progress.calls, memory_order_acquire);
        return begun - is_in(comm, region, begun);
    }
    uint64_t word = atomic_load_explicit(&control->done, memory_order_acquire), low = (1ull << 36) - 1;
    uint64_t seq = motet_comm_seq(comm) - ((motet_comm_seq(comm) - (word >> 28)) & low); /* the word has the low part only */
    return word == 0 ? 0 : (word & MOTET_ALL_TILES) == MOTET_ALL_TILES ? seq : seq - 1;
}

static bool is_missing(motetComm_t comm, int position, const struct motet_waiting *waiting, void *context)
{
    const struct motet_peer *peer = &comm->peers[position];
    if (position == comm->position)
        return false;
    if (waiting->message && waiting->message(context, comm, position))
        return true;
    bool needed = waiting->needs && waiting->needs(context, comm, position);
    if (!peer->mapped)
        return needed;
    uint64_t begun = atomic_load_explicit(&motet_region_control(peer->region)->progress.calls, memory_order_relaxed);
    return begun < motet_comm_seq(comm) && is_in(comm, comm->region, motet_comm_seq(comm));
}

void motet_comm_describe_late(motetComm_t comm, const struct motet_waiting *waiting, void *context, char *text, size_t len)
{
    int n = 0, used;
    waiting->describe(context, text, len);
    for (int p = 0; p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        if (!is_missing(comm, p, waiting, context) || n++ >= SHOWN)
            continue;
        used = (int)strlen(text);
        snprintf(text + used, len - (size_t)used, "%s rank %d (pid %d on %s, last completed call %" PRIu64 ")",
                 n == 1 ? "; missing:" : ",", peer->rank, (int)peer->endpoint->process.pid, peer->endpoint->process.host_name,
                 last_completed(comm, p));
    }
    used = (int)strlen(text);
    if (n > SHOWN)
        snprintf(text + used, len - (size_t)used, " and %d more", n - SHOWN);
}
