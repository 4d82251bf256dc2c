/* SPDX-License-Identifier: Apache-2.0
 * Numbers, history and records of collectives: see ticket.h. */
#include "ticket.h"

#include "base/log.h"

/* Finalizer of MurmurHash3 (public domain): enough to tell different calls apart, not a defence. */
static uint64_t mix(uint64_t h, uint64_t value)
{
    h ^= value + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    return h;
}

/* Of the counts by rank that all know; 0 where there are none. */
static uint32_t hash_counts(const struct motet_call *call, int nranks)
{
    const size_t *counts = call->recv_counts ? call->recv_counts : call->send_counts;
    uint64_t h = 1;
    if (call->counts != MOTET_COUNTS_ALL_KNOW || !counts)
        return 0;
    for (int r = 0; r < nranks; r++)
        h = mix(h, counts[r]);
    return (uint32_t)h | 1;
}

uint64_t motet_ticket_fingerprint(const struct motet_call *call, uint32_t counts_hash)
{
    bool equal = call->counts == MOTET_COUNTS_EQUAL, reduces = motet_collective_reduces(call->collective);
    uint64_t h = mix(0, (uint64_t)call->collective << 32 | (uint64_t)call->counts << 24 | (uint64_t)call->dtype << 16 |
                            (reduces ? (uint64_t)call->op << 1 | call->premul : 0));
    h = mix(h, equal ? call->count : 0);
    h = mix(h, (uint64_t)counts_hash << 32 | (uint32_t)call->root);
    return mix(h, (uint64_t)call->group);
}

struct motet_record motet_ticket_record(const struct motet_call *call, int nranks)
{
    return (struct motet_record){
        .count = call->counts == MOTET_COUNTS_EQUAL ? call->count : 0,
        .root = call->root,
        .collective = (uint8_t)call->collective,
        .dtype = (uint8_t)call->dtype,
        .op = motet_collective_reduces(call->collective) ? (uint8_t)call->op : 0xff,
        .state = MOTET_RECORD_STARTED,
        .algorithm = 0xffff,
        .group = (uint16_t)call->group,
        .counts_hash = hash_counts(call, nranks),
        .counts = (uint8_t)call->counts,
    };
}

void motet_ticket_refresh_done(motetComm_t comm)
{
    for (int p = 0; p < comm->nranks; p++)
        if (p != comm->position)
            comm->done_seen[p] = atomic_load_explicit(&motet_region_control(comm->peers[p].region)->done, memory_order_acquire);
}

void motet_ticket_say(motetComm_t comm, uint64_t seq, const struct motet_call *call, const struct motet_algorithm *algorithm)
{
    INFO(MOTET_LOG_COLL,
         "%s: opCount %lx sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p [nranks=%d] algorithm %s", call->name,
         (unsigned long)seq, call->send, call->recv, call->count, call->dtype, call->op, call->root, (void *)comm, comm->nranks,
         algorithm->name);
}
