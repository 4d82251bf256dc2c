/* SPDX-License-Identifier: Apache-2.0
 * The shared memory of one rank in one communicator: what its peers may read. Local peers map it; for remote peers the transport keeps a
 * mirror of it on their side, filled by remote writes (endpoint.h). So every reader sees the same layout:
 *
 *   control, holders | records | messages | lane 0: slots, staging | lane 1: ... | ring to peer 0 | ring to peer 1 | ... | tally
 *
 * Only the owner writes here, with few exceptions: `sleepers` (an atomic word), each peer's own byte of the holders, and the fault record,
 * which the winner of its state word writes. */
#ifndef MOTET_REGION_H
#define MOTET_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"
#include "tally.h"

#define MOTET_LINE     64
#define MOTET_INLINE   40            /* payload bytes that fit in a slot's own line */
#define MOTET_RING_MIN (128u * 1024) /* least bytes of the ring of one ordered pair (point to point) */
#define MOTET_NAME_MAX 64            /* of communicators and hosts */

/* One message of a schedule. The owner stores call, direct and bytes, then `filled` with release order; a reader loads `filled` with
 * acquire order, so that it sees everything stored before. filled first: one remote write carries call, direct, bytes, then the word. */
struct motet_slot {
    _Alignas(MOTET_LINE) _Atomic uint64_t
        filled;      /* {seq32, turn8, units24}: how much of this lane turn's message is there, in 64-byte units */
    uint64_t call;   /* {history32, seq32} */
    uint64_t direct; /* 0: staged (or inline). Else address << 1, or segment offset << 1 | 1, of the data in the owner's buffers */
    uint8_t bytes[MOTET_INLINE];
};

/* What a rank called: the flight recorder, and what an audit compares. Written before the call is published. A rank has two rings of them:
 * collectives by their number, and messages (Send, Recv) by theirs. One cache line, so that a call costs one store miss at most. */
struct motet_record {
    _Atomic uint64_t seq;      /* written last; number of the call or message + 1; 0: empty, or being written */
    uint64_t begin_ns, end_ns; /* of the owner's monotonic clock, as exact as clock.h says; end 0: it has not ended */
    uint64_t count;            /* elements per block; 0 where ranks may differ */
    uint32_t history;          /* collectives: after this call */
    uint32_t counts_hash;      /* collectives: of all-known v-counts. Messages: the tag */
    int32_t root;              /* rank. Messages: the peer, -1 any */
    uint8_t collective;        /* enum motet_collective, or MOTET_RECORD_SEND, MOTET_RECORD_RECV */
    uint8_t dtype, op;         /* op 0xff: none */
    uint8_t state;             /* enum motet_record_state */
    uint16_t algorithm;        /* row of the table; 0xffff: none, or not yet chosen */
    uint16_t group;            /* operations in its group */
    uint8_t counts;            /* enum motet_counts */
    uint8_t protocol;          /* enum motet_record_protocol */
    uint8_t transports;        /* bits of enum motet_record_transport: all that it uses */
    uint8_t reserved;
    uint32_t place;     /* among all calls and messages of this rank */
    uint32_t queued_us; /* how long it stood in a stream before it began */
};

_Static_assert(sizeof(struct motet_record) == MOTET_LINE, "one cache line");

/* Scheduled: it stands in a stream's or group's queue; not in a ring, but in dumps. */
enum motet_record_state { MOTET_RECORD_SCHEDULED, MOTET_RECORD_STARTED, MOTET_RECORD_DONE, MOTET_RECORD_FAILED };
enum motet_record_kind { MOTET_RECORD_SEND = 128, MOTET_RECORD_RECV }; /* beyond all collectives */
enum motet_record_protocol { MOTET_RECORD_NO_PROTOCOL, MOTET_RECORD_LL, MOTET_RECORD_SIMPLE, MOTET_RECORD_DIRECT };
enum motet_record_transport { MOTET_RECORD_THREADS = 1, MOTET_RECORD_SHM = 2, MOTET_RECORD_NET = 4 };

/* Copies everything but seq, word by word: one side may be shared with a rank that is writing; whether the copy is whole, seq tells. */
static inline void motet_record_copy(struct motet_record *to, const struct motet_record *from)
{
    const uint64_t *source = (const uint64_t *)(const void *)from;
    uint64_t *target = (uint64_t *)(void *)to;
    for (size_t i = sizeof from->seq / sizeof *source; i < sizeof *from / sizeof *source; i++)
        __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

struct motet_fault_record {
    _Atomic uint32_t state; /* 0 none, 1 being written, 2 valid; the first writer wins by compare-and-swap 0 -> 1 */
    int32_t code;           /* motetResult_t */
    uint32_t revoked;       /* it says only that a rank revoked the communicator */
    char text[500];
};

/* How far a rank is, for those who ask: plain stores into a line of its own. The first line is written by each call, the second by waits
 * that last. */
struct motet_progress {
    _Alignas(MOTET_LINE) _Atomic uint64_t calls;   /* number of the newest collective begun */
    _Atomic uint64_t messages;                     /* number of the newest message begun */
    _Atomic uint64_t bytes;                        /* payload of all complete calls and messages: what the caller passed or got */
    _Atomic uint64_t end_ns;                       /* when the last one ended */
    _Atomic uint32_t queued;                       /* operations of streams and groups that have not begun */
    _Atomic uint64_t cached;                       /* number of the newest collective that was staged through the cache: bypass.h */
    _Alignas(MOTET_LINE) _Atomic uint64_t wait_ns; /* the thread inside waits since then; 0: it does not, or not for long */
    _Atomic int32_t waits_for;                     /* rank + 1; 0: nobody in particular */
};

/* Who this region belongs to, for readers that know nothing but the segment: written once, before it is listed. */
struct motet_card {
    _Atomic uint64_t magic;
    _Atomic uint64_t next;                /* offset of the next region in this segment; 0: last */
    uint64_t id;                          /* of the communicator */
    uint64_t nrecords, records, messages; /* rings: length, and offsets in the region */
    uint64_t created_ns;
    int64_t timeout_ms;
    uint64_t start_ticks; /* when the process started, as in /proc/PID/stat: tells it from a later one of the same number */
    int32_t nranks, rank, nlocal, nhosts, pid;
    int32_t nthreads, nshm, nnet; /* other ranks by transport */
    char name[MOTET_NAME_MAX], host[MOTET_NAME_MAX];
};

/* A done word: {seq36, tiles28}. It only grows; compared by signed difference, so a word that nobody looked at may be 2^35 calls old. */
#define MOTET_ALL_TILES 0xfffffffull /* the whole call */

static inline uint64_t motet_done_word(uint64_t seq, uint64_t tiles)
{
    return seq << 28 | tiles;
}

struct motet_control_area {
    _Alignas(MOTET_LINE) _Atomic uint64_t done; /* motet_done_word: everything of earlier tiles has been read by this rank */
    _Alignas(
        MOTET_LINE) _Atomic uint64_t sleepers; /* bit per local rank (modulo 64) that sleeps; used in the leader's region only */
    _Alignas(MOTET_LINE) _Atomic int32_t cpu;  /* where the rank runs, refreshed at each call */
    _Atomic int32_t driver;                    /* thread that drives the collective whose number is `inside` */
    _Atomic uint64_t inside;                   /* number of the collective whose data it may be reading; 0: of none */
    _Atomic uint64_t state;                    /* enum motet_rank_state */
    _Atomic uint64_t blocked_send;             /* {times32, direct1, position31 + 1}: waits in Send to that position; 0: does not */
    _Atomic int32_t copies_from;               /* position + 1 of the rank from whose buffer it copies a message; 0: of none */
    struct motet_progress progress;
    _Alignas(MOTET_LINE) _Atomic uint32_t
        read_price; /* what others' cached lines cost this rank, ps per byte; 0: unknown: bypass.h */
    _Alignas(MOTET_LINE) struct motet_fault_record fault;
    struct motet_card card;
};

enum motet_rank_state { MOTET_RANK_ALIVE, MOTET_RANK_FINALIZED, MOTET_RANK_ABORTED };

/* Both halves of a pair's ring: written and read are monotone byte counts. `written` and the data lie in the sender's region, `taken`
 * (of the ring from peer p) lies in the receiver's region and is written by the receiver. */
struct motet_ring_head {
    _Alignas(MOTET_LINE) _Atomic uint64_t written; /* of my ring to this peer */
    _Alignas(MOTET_LINE) _Atomic uint64_t taken;   /* of this peer's ring to me */
};

/* Offsets from the start of the region; equal on all ranks of a communicator. */
struct motet_layout {
    uint32_t nranks, nlanes, nslots, nrecords; /* nrecords: of each ring of records, a power of two */
    size_t lane_bytes, ring_bytes;             /* ring_bytes: a power of two that holds several eager messages */
    size_t holders, records, messages, lanes, lane_stride, ring_heads, rings, tally, total;
};

static inline struct motet_layout motet_layout_make(int nranks, int nlanes, size_t lane_bytes, size_t eager_bytes, size_t nrecords)
{
    const size_t page = 4096;
    struct motet_layout layout = {
        .nranks = (uint32_t)nranks, .nlanes = (uint32_t)nlanes, .nslots = 4u * (uint32_t)nranks + 64u, .nrecords = 64};
    while (layout.nrecords < nrecords)
        layout.nrecords *= 2;
    layout.ring_bytes = MOTET_RING_MIN;
    while (layout.ring_bytes < 4 * (eager_bytes + MOTET_LINE))
        layout.ring_bytes *= 2;
    layout.lane_bytes = (lane_bytes + page - 1) / page * page;
    layout.holders = sizeof(struct motet_control_area);
    layout.records = (layout.holders + (size_t)nranks + page - 1) / page * page;
    layout.messages = layout.records + layout.nrecords * sizeof(struct motet_record);
    layout.lanes = layout.messages + layout.nrecords * sizeof(struct motet_record);
    layout.lane_stride = (layout.nslots * sizeof(struct motet_slot) + page - 1) / page * page + layout.lane_bytes;
    layout.ring_heads = layout.lanes + layout.nlanes * layout.lane_stride;
    layout.rings = layout.ring_heads + ((size_t)nranks * sizeof(struct motet_ring_head) + page - 1) / page * page;
    layout.tally = layout.rings + (size_t)nranks * layout.ring_bytes;
    layout.total = layout.tally + (motet_tally_size(nranks) + page - 1) / page * page;
    return layout;
}

static inline struct motet_control_area *motet_region_control(char *region)
{
    return (struct motet_control_area *)region;
}

/* A byte per rank: 1 while it may still touch this region, the owner included. Each rank clears its own when it lets go; for the dead the
 * owner does. When all are 0 the region is free. */
static inline _Atomic uint8_t *motet_region_holders(const struct motet_layout *layout, char *region)
{
    return (_Atomic uint8_t *)(region + layout->holders);
}

static inline struct motet_record *motet_region_record(const struct motet_layout *layout, char *region, uint64_t seq)
{
    return (struct motet_record *)(region + layout->records) + (seq & (layout->nrecords - 1));
}

static inline struct motet_record *motet_region_message(const struct motet_layout *layout, char *region, uint64_t number)
{
    return (struct motet_record *)(region + layout->messages) + (number & (layout->nrecords - 1));
}

static inline size_t motet_layout_slot(const struct motet_layout *layout, int lane, int slot)
{
    return layout->lanes + (size_t)lane * layout->lane_stride + (size_t)slot * sizeof(struct motet_slot);
}

static inline size_t motet_layout_staging(const struct motet_layout *layout, int lane)
{
    return layout->lanes + ((size_t)lane + 1) * layout->lane_stride - layout->lane_bytes;
}

static inline size_t motet_layout_ring_head(const struct motet_layout *layout, int peer)
{
    return layout->ring_heads + (size_t)peer * sizeof(struct motet_ring_head);
}

static inline size_t motet_layout_ring(const struct motet_layout *layout, int peer)
{
    return layout->rings + (size_t)peer * layout->ring_bytes;
}

#endif
