/* SPDX-License-Identifier: Apache-2.0
 * What a wait asks about a batch of messages: for what it waits, for whom, and whether it, or a batch that is active beside it, needs a
 * rank that is dead. Reads only. */
#include <stdio.h>

#include "p2p.h"
#include "reduce/reduce.h"

void motet_batch_describe(void *context, char *text, size_t len)
{
    const struct motet_batch *batch = context;
    for (int i = 0; i < batch->count; i++) {
        const struct motet_transfer *message = &batch->transfers[i];
        if (message->done)
            continue;
        const struct motet_dtype *dtype = motet_dtype_row(message->dtype);
        int rank = message->peer >= 0 ? batch->comm->peers[message->peer].rank : -1;
        if (rank < 0)
            snprintf(text, len, "%s(%zu x %s) from any rank", message->name, message->bytes / dtype->size, dtype->name);
        else
            snprintf(text, len, "%s(%zu x %s) %s rank %d (pid %d on %s)", message->name, message->bytes / dtype->size, dtype->name,
                     message->is_send ? "to" : "from", rank, (int)batch->comm->peers[message->peer].endpoint->process.pid,
                     batch->comm->peers[message->peer].endpoint->process.host_name);
        return;
    }
    snprintf(text, len, "nothing");
}

int motet_batch_whom(void *context, motetComm_t comm)
{
    const struct motet_batch *batch = context;
    for (int i = 0; batch->comm == comm && i < batch->count; i++)
        if (!batch->transfers[i].done)
            return batch->transfers[i].peer >= 0 ? comm->peers[batch->transfers[i].peer].rank : -1;
    return -1;
}

/* The first message to or from that rank that is not complete; a receive from anybody when nobody else can send. */
const struct motet_transfer *motet_batch_message(void *context, motetComm_t comm, int position)
{
    const struct motet_batch *own = context;
    for (const struct motet_batch *batch = own->comm == comm ? comm->batches : NULL; batch; batch = batch->next)
        for (int i = 0; i < batch->count; i++)
            if (!batch->transfers[i].done && (batch->transfers[i].peer == position || batch->transfers[i].peer < 0))
                return &batch->transfers[i];
    return NULL;
}

/* A send to the dead, a receive from it, or a receive from anybody when nobody else is alive. */
bool motet_batch_needs(void *context, motetComm_t comm, int position)
{
    const struct motet_batch *own = context;
    bool others = false;
    for (int p = 0; p < comm->nranks; p++)
        others |= p != comm->position && p != position && !atomic_load(&comm->peers[p].dead) && !motet_comm_has_finished(comm, p);
    for (const struct motet_batch *batch = own->comm == comm ? comm->batches : NULL; batch; batch = batch->next)
        for (int i = 0; i < batch->count; i++) {
            const struct motet_transfer *message = &batch->transfers[i];
            if (!message->done && (message->peer == position || (message->peer < 0 && !others)))
                return true;
        }
    return false;
}
