/* SPDX-License-Identifier: Apache-2.0
 * The algorithm seam. An algorithm is one file in this folder with one build function, and one row in table.h; the verifier, the cost
 * model, the engine, printing, perf and tests take it from there. Files here include this header only and know nothing of transports,
 * counts or datatypes. */
#ifndef MOTET_COLL_COLL_H
#define MOTET_COLL_COLL_H

#include "schedule.h"

/* The v-variants share the rows of their equal-count form. */
enum motet_collective {
    MOTET_ALLREDUCE,
    MOTET_REDUCE,
    MOTET_BROADCAST,
    MOTET_ALLGATHER,
    MOTET_REDUCESCATTER,
    MOTET_ALLTOALL,
    MOTET_GATHER,
    MOTET_SCATTER,
    MOTET_BARRIER,
    MOTET_NCOLLECTIVES
};

/* In which order a row reduces, on one host. CANONICAL: the balanced binary tree over ranks, whatever the size: eligible by default
 * for floating-point sums and products inside a host. ROTATED: another fixed order. NONE: nothing is reduced. Proved by the verifier. */
enum motet_order { MOTET_ORDER_NONE, MOTET_ORDER_CANONICAL, MOTET_ORDER_ROTATED };

/* Which block counts a row can serve. EQUAL: all blocks alike. ALL_KNOW: any counts that every rank knows (AllGatherV, ReduceScatterV).
 * PAIR_KNOWS: only the two ends of a block know its count (AlltoAllV, GatherV, ScatterV): every block must move directly. */
enum motet_counts { MOTET_COUNTS_EQUAL, MOTET_COUNTS_ALL_KNOW, MOTET_COUNTS_PAIR_KNOWS };

struct motet_algorithm {
    const char *name;  /* as in MOTET_ALGO, lower case: "ring" */
    const char *title; /* one sentence for people: what it does, with its source */
    enum motet_collective collective;
    enum motet_order order;
    enum motet_counts counts; /* the strongest kind it serves; each includes those before it */
    /* Whether it can be built for this shape; the answer is the same on all ranks. NULL: always. */
    bool (*fits)(const struct motet_shape *);
    /* Builds the schedule of shape->position. Pure. */
    void (*build)(struct motet_schedule *, const struct motet_shape *);
};

extern const struct motet_algorithm motet_algorithms[];
extern const int motet_nalgorithms;

/* Row by collective and name in any case ("Ring", "Tree" = double_binary_tree); NULL if there is none. */
const struct motet_algorithm *motet_algorithm_find(enum motet_collective collective, const char *name);

const char *motet_collective_name(enum motet_collective collective); /* "AllReduce", as NCCL spells it */
bool motet_collective_has_root(enum motet_collective collective);
bool motet_collective_reduces(enum motet_collective collective);
int motet_collective_nblocks(enum motet_collective collective, int nranks); /* 1 or nranks */

#endif
