/* SPDX-License-Identifier: Apache-2.0
 * The shared memory of one rank in one communicator: what its peers may read. Local peers map it; for remote peers the transport keeps a
 * mirror of it on their side, filled by remote writes (endpoint.h). So every reader sees the same layout:
 *
 *   control | records | lane 0: slots, staging | lane 1: ... | ring to peer 0 | ring to peer 1 | ...
 *
 * Only the owner writes here, with few exceptions: `sleepers` and `attached` (atomic words), and the fault record, which the winner of
 * its state word writes. */
#ifndef MOTET_REGION_H
#define MOTET_REGION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"

#define MOTET_LINE     64
#define MOTET_INLINE   40            /* payload bytes that fit in a slot's own line */
#define MOTET_RING_MIN (128u * 1024) /* least bytes of the ring of one ordered pair (point to point) */
#define MOTET_RECORDS  1024          /* calls remembered per rank; a power of two */

/* One message of a schedule. The owner stores call, direct and bytes, then `filled` with release order; a reader loads `filled` with
 * acquire order, so that it sees everything stored before. filled first: one remote write carries call, direct, bytes, then the word. */
struct motet_slot {
    _Alignas(MOTET_LINE) _Atomic uint64_t
        filled;      /* {seq32, turn8, units24}: how much of this lane turn's message is there, in 64-byte units */
    uint64_t call;   /* {history32, seq32} */
    uint64_t direct; /* 0: staged (or inline). Else address << 1, or segment offset << 1 | 1, of the data in the owner's buffers */
    uint8_t bytes[MOTET_INLINE];
};

/* What a rank called: the flight recorder, and what an audit compares. Written before the call is published. */
struct motet_record {
    _Atomic uint64_t seq; /* written last; seq of the call + 1, so that 0 is empty */
    uint64_t begin_ns, end_ns;
    uint64_t count;
    uint32_t history; /* after this call */
    int32_t root;
    uint8_t collective, dtype, op, state; /* state: enum motet_record_state */
    uint16_t algorithm, group;            /* row of the table (0xffff: none); operations in its group */
    uint32_t counts_hash;                 /* of all-known v-counts */
    uint32_t counts;                      /* enum motet_counts */
};

/* Copies everything but seq, word by word: one side may be shared with a rank that is writing; whether the copy is whole, seq tells. */
static inline void motet_record_copy(struct motet_record *to, const struct motet_record *from)
{
    const uint64_t *source = (const uint64_t *)(const void *)from;
    uint64_t *target = (uint64_t *)(void *)to;
    for (size_t i = sizeof from->seq / sizeof *source; i < sizeof *from / sizeof *source; i++)
        __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

enum motet_record_state { MOTET_RECORD_EMPTY, MOTET_RECORD_STARTED, MOTET_RECORD_DONE, MOTET_RECORD_FAILED };

struct motet_fault_record {
    _Atomic uint32_t state; /* 0 none, 1 being written, 2 valid; the first writer wins by compare-and-swap 0 -> 1 */
    int32_t code;           /* motetResult_t */
    char text[504];
};

struct motet_control_area {
    _Alignas(MOTET_LINE) _Atomic uint64_t done; /* {seq32, tiles32}: everything of earlier tiles has been read by this rank */
    _Alignas(
        MOTET_LINE) _Atomic uint64_t sleepers; /* bit per local rank (modulo 64) that sleeps; used in the leader's region only */
    _Alignas(MOTET_LINE) _Atomic int32_t cpu;  /* where the rank runs, refreshed at each call */
    _Atomic uint64_t inside;                   /* number of the collective whose data it may be reading; 0: of none */
    _Atomic uint32_t state;                    /* enum motet_rank_state */
    _Atomic uint64_t blocked_send;             /* {times32, direct1, position31 + 1}: waits in Send to that position; 0: does not */
    _Atomic int32_t attached; /* ranks that may still touch this region, the owner included: the last one gone, it is free */
    _Alignas(MOTET_LINE) struct motet_fault_record fault;
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
    uint32_t nranks, nlanes, nslots;
    size_t lane_bytes, ring_bytes; /* ring_bytes: a power of two that holds several eager messages */
    size_t records, lanes, lane_stride, ring_heads, rings, total;
};

static inline struct motet_layout motet_layout_make(int nranks, int nlanes, size_t lane_bytes, size_t eager_bytes)
{
    const size_t page = 4096;
    struct motet_layout layout = {.nranks = (uint32_t)nranks, .nlanes = (uint32_t)nlanes, .nslots = 4u * (uint32_t)nranks + 64u};
    layout.ring_bytes = MOTET_RING_MIN;
    while (layout.ring_bytes < 4 * (eager_bytes + MOTET_LINE))
        layout.ring_bytes *= 2;
    layout.lane_bytes = (lane_bytes + page - 1) / page * page;
    layout.records = (sizeof(struct motet_control_area) + page - 1) / page * page;
    layout.lanes = layout.records + MOTET_RECORDS * sizeof(struct motet_record);
    layout.lane_stride = (layout.nslots * sizeof(struct motet_slot) + page - 1) / page * page + layout.lane_bytes;
    layout.ring_heads = layout.lanes + layout.nlanes * layout.lane_stride;
    layout.rings = layout.ring_heads + ((size_t)nranks * sizeof(struct motet_ring_head) + page - 1) / page * page;
    layout.total = layout.rings + (size_t)nranks * layout.ring_bytes;
    return layout;
}

static inline struct motet_control_area *motet_region_control(char *region)
{
    return (struct motet_control_area *)region;
}

static inline struct motet_record *motet_region_record(const struct motet_layout *layout, char *region, uint64_t seq)
{
    return (struct motet_record *)(region + layout->records) + (seq & (MOTET_RECORDS - 1));
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
