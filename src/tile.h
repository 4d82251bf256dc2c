/* SPDX-License-Identifier: Apache-2.0
 * Geometry of one call: how the caller's buffers are cut into blocks, tiles and chunks. Everything that both ends of a message must agree
 * on is computed here from facts that both know. All counts are elements unless a name says bytes. */
#ifndef MOTET_TILE_H
#define MOTET_TILE_H

#include "engine.h"

/* One of the caller's buffers. */
struct motet_side {
    char *base;
    const size_t *counts, *displs; /* by rank; NULL: every block has `count`, block b at rank * count */
    size_t count;
    bool single; /* only the own block exists and starts at base */
};

struct motet_extent {
    size_t first, len; /* within the block */
};

struct motet_tiling {
    struct motet_side input, output;
    const int *rank_at; /* rank of a block (blocks are numbered by position); NULL when there is one block */
    int parts;
    size_t size, wide_size; /* bytes of an element, of an accumulator */
    size_t tile;            /* elements per block and tile */
    size_t place_bytes;     /* bytes reserved for one chunk in staging and scratch; a multiple of the cache line */
    size_t ntiles;          /* at least 1 */
};

/* Cuts `call` for a plan with the given numbers. Ranks whose counts differ (PAIR_KNOWS) may get different ntiles, never different tiles. */
void motet_tiling_make(struct motet_tiling *tiling, const struct motet_call *call, const struct motet_reduction *reduction,
                       const struct motet_plan *plan, const int *rank_at, size_t lane_bytes);

/* The elements of `chunk` in tile t, by the block counts of `side`. */
struct motet_extent motet_tiling_extent(const struct motet_tiling *tiling, const struct motet_side *side, int chunk, size_t t);

/* Address of element `first` of the chunk's block. */
char *motet_tiling_at(const struct motet_tiling *tiling, const struct motet_side *side, int chunk, size_t first);

#endif
