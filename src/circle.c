/* SPDX-License-Identifier: Apache-2.0
 * Follows who waits for whom, from this rank on: ranks that share memory show it in their regions, others are asked, a step further with each
 * look. Only waits that have lasted count, and only circles in which a lone Recv takes part: a circle of collectives, or a Send and its Recv,
 * is a connection that does not move, and a group waits for several ranks at once. */
#include "circle.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "call_text.h"
#include "unmatched.h"

#define LASTING_MS 500
#define NAMED_MOST 4 /* of a longer circle; the rest is counted */

/* The newest operation that has not ended: operations of a communicator run one after the other. */
static bool newest(motetComm_t comm, char *region, struct motet_record *out)
{
    const struct motet_progress *progress = &motet_region_control(region)->progress;
    uint64_t call = atomic_load_explicit(&progress->calls, memory_order_acquire),
             message = atomic_load_explicit(&progress->messages, memory_order_acquire);
    const struct motet_record *records[] = {motet_region_record(&comm->layout, region, call),
                                            motet_region_message(&comm->layout, region, message)};
    const uint64_t numbers[] = {call, message};
    for (int i = 0; i < 2; i++) {
        if (numbers[i] == 0 || atomic_load_explicit(&records[i]->seq, memory_order_acquire) != numbers[i] + 1)
            continue;
        motet_record_copy(out, records[i]);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&records[i]->seq, memory_order_relaxed) == numbers[i] + 1 && out->state == MOTET_RECORD_STARTED)
            return true;
    }
    return false;
}

struct motet_standstill motet_standstill_read(motetComm_t comm, char *region)
{
    const struct motet_progress *progress = &motet_region_control(region)->progress;
    struct motet_standstill still = {.waits_for = -1};
    struct motet_record record;
    uint64_t since_ns = atomic_load_explicit(&progress->wait_ns, memory_order_relaxed), now_ns = motet_now_ns();
    int rank = atomic_load_explicit(&progress->waits_for, memory_order_relaxed) - 1;
    if (since_ns == 0 || since_ns > now_ns || rank < 0 || rank >= comm->nranks || !newest(comm, region, &record))
        return still;
    still.waits_for = rank;
    still.waits_ms = (uint32_t)((now_ns - since_ns) / 1000000);
    still.collective = record.collective;
    still.grouped = record.group != 0 && motet_call_is_message(&record);
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
