/* SPDX-License-Identifier: Apache-2.0
 * Follows who waits for whom, from this rank on: ranks that share memory show it in their regions, others are asked, a step further with each
 * look. Only waits that have lasted count, and only circles in which a lone Recv takes part: a circle of collectives, or a Send and its Recv,
 * is a connection that does not move, and a group, or several streams, wait for several ranks at once. */
#include "circle.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "call_text.h"
#include "unmatched.h"

#define LASTING_MS 500
#define NAMED_MOST 4  /* of a longer circle; the rest is counted */
#define LOOKED_AT  64 /* messages before the newest that may still be under way, on other streams */

/* Copies the record of that number if it is there and says that it has not ended. */
static bool is_under_way(const struct motet_record *record, uint64_t number, struct motet_record *out)
{
    if (number == 0 || atomic_load_explicit(&record->seq, memory_order_acquire) != number + 1)
        return false;
    motet_record_copy(out, record);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&record->seq, memory_order_relaxed) == number + 1 && out->state == MOTET_RECORD_STARTED;
}

/* How many operations have not ended, and the newest of them. More than one: messages of several streams, or of a group. */
static int under_way(motetComm_t comm, char *region, struct motet_record *newest)
{
    const struct motet_progress *progress = &motet_region_control(region)->progress;
    uint64_t call = atomic_load_explicit(&progress->calls, memory_order_acquire),
             message = atomic_load_explicit(&progress->messages, memory_order_acquire);
    struct motet_record record;
    int n = is_under_way(motet_region_record(&comm->layout, region, call), call, newest);
    for (uint64_t i = 0; i < LOOKED_AT && i < message; i++)
        if (is_under_way(motet_region_message(&comm->layout, region, message - i), message - i, &record) && n++ == 0)
            *newest = record;
    return n;
}

struct motet_standstill motet_standstill_read(motetComm_t comm, char *region)
{
    const struct motet_progress *progress = &motet_region_control(region)->progress;
    struct motet_standstill still = {.waits_for = -1};
    struct motet_record record;
    uint64_t since_ns = atomic_load_explicit(&progress->wait_ns, memory_order_relaxed), now_ns = motet_now_ns();
    int rank = atomic_load_explicit(&progress->waits_for, memory_order_relaxed) - 1;
    if (since_ns == 0 || since_ns > now_ns || rank < 0 || rank >= comm->nranks)
        return still;
    int n = under_way(comm, region, &record);
    if (n == 0)
        return still;
    still.waits_for = rank;
    still.waits_ms = (uint32_t)((now_ns - since_ns) / 1000000);
    still.collective = record.collective;
    still.grouped = n > 1 || (record.group != 0 && motet_call_is_message(&record));
    motet_call_text(still.what, sizeof still.what, &record);
    return still;
}

/* False: not known, or not yet. */
static bool look_at(motetComm_t comm, int rank, struct motet_standstill *still)
{
    int position = comm->position_of[rank];
    if (comm->peers[position].mapped)
        *still = motet_standstill_read(comm, comm->peers[position].region);
    else if (!motet_comm_wait_answer(comm, position, still))
        return false;
    return still->waits_for >= 0 && still->waits_for < comm->nranks && still->waits_ms >= LASTING_MS;
}

/* The number of ranks in the circle through this one, 0: there is none (known). `recvs`: those in a Recv. */
static int follow(motetComm_t comm, int *recvs)
{
    struct motet_standstill still;
    int rank = comm->rank;
    *recvs = 0;
    for (int n = 1; n <= comm->nranks; n++) {
        if (!look_at(comm, rank, &still) || (still.grouped))
            return 0;
        *recvs += still.collective == MOTET_RECORD_RECV;
        rank = still.waits_for;
        if (rank == comm->rank)
            return n;
    }
    return 0;
}

void motet_comm_describe_circle(motetComm_t comm, char *text, size_t len)
{
    struct motet_standstill still;
    int recvs, rank = comm->rank, length = follow(comm, &recvs);
    size_t used = strlen(text);
    if (length < 2 || recvs == 0 || (length == 2 && recvs < 2))
        return;
    for (int n = 0; n < length && n < NAMED_MOST && used < len && look_at(comm, rank, &still); n++) {
        bool message = still.collective == MOTET_RECORD_RECV || still.collective == MOTET_RECORD_SEND; /* its words name the peer */
        used += (size_t)snprintf(text + used, len - used, "%s rank %d waits in %.*s", n ? "," : "; they wait in a circle:", rank,
                                 (int)sizeof still.what - 1, still.what);
        if (!message && used < len)
            used += (size_t)snprintf(text + used, len - used, " for rank %d", still.waits_for);
        rank = still.waits_for;
    }
    if (length > NAMED_MOST && used < len)
        used += (size_t)snprintf(text + used, len - used, " and so on (%d ranks)", length);
    if (recvs == length && used < len)
        snprintf(text + used, len - used, "; nobody sends");
}

void motet_comm_look_for_circle(motetComm_t comm)
{
    int recvs;
    (void)follow(comm, &recvs);
}
