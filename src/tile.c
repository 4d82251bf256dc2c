/* SPDX-License-Identifier: Apache-2.0
 * Blocks, tiles, chunks: see tile.h. Tiles take the same part of every block, so that one schedule serves any count. */
#include "tile.h"

/* Chunks of at least this many bytes start on cache lines, so that two ranks never write one line. */
#define ALIGN_FROM_BYTES 1024

/* A slot counts the lines of its message in 24 bits. */
#define MESSAGE_BYTES_MAX ((size_t)0xffffff * MOTET_LINE)

static size_t divide_up(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

static size_t round_up(size_t a, size_t multiple)
{
    return divide_up(a, multiple) * multiple;
}

static int rank_of(const struct motet_tiling *tiling, int chunk)
{
    return tiling->rank_at ? tiling->rank_at[chunk / tiling->parts] : 0;
}

static size_t block_count(const struct motet_tiling *tiling, const struct motet_side *side, int chunk)
{
    return side->counts ? side->counts[rank_of(tiling, chunk)] : side->count;
}

static struct motet_side make_side(const void *base, size_t count, const size_t *counts, const size_t *displs, bool single)
{
    return (struct motet_side){
        .base = (char *)(uintptr_t)base, .count = count, .counts = counts, .displs = displs, .single = single};
}

static void make_sides(struct motet_tiling *tiling, const struct motet_call *call)
{
    const void *send = call->premultiplied ? call->premultiplied : call->send;
    const size_t *in_counts = call->send_counts, *out_counts = call->recv_counts;
    bool one_in = call->collective == MOTET_ALLGATHER || call->collective == MOTET_GATHER;
    bool one_out = call->collective == MOTET_REDUCESCATTER || call->collective == MOTET_SCATTER;
    if (call->counts == MOTET_COUNTS_ALL_KNOW) {
        in_counts = in_counts ? in_counts : out_counts;
        out_counts = out_counts ? out_counts : in_counts;
    }
    tiling->input = make_side(send, call->count, in_counts, call->send_displs, one_in);
    tiling->output = make_side(call->recv, call->count, out_counts, call->recv_displs, one_out);
}

/* The largest block that this rank sends or receives. */
static size_t largest_block(const struct motet_call *call, int nranks)
{
    size_t largest = call->send_counts && call->recv_counts ? 0 : call->count;
    for (int r = 0; r < nranks; r++) {
        if (call->send_counts && call->send_counts[r] > largest)
            largest = call->send_counts[r];
        if (call->recv_counts && call->recv_counts[r] > largest)
            largest = call->recv_counts[r];
    }
    return largest;
}

void motet_tiling_make(struct motet_tiling *tiling, const struct motet_call *call, const struct motet_reduction *reduction,
                       const struct motet_plan *plan, const int *rank_at, size_t lane_bytes)
{
    /* One rank alone has one block too, which displacements may move. */
    *tiling = (struct motet_tiling){.parts = plan->parts, .rank_at = plan->nblocks > 1 || plan->nranks == 1 ? rank_at : NULL};
    tiling->size = reduction->size;
    tiling->wide_size = reduction->wide_size > reduction->size ? reduction->wide_size : reduction->size;
    make_sides(tiling, call);
    size_t chunks = plan->stage_chunks > 0 ? (size_t)plan->stage_chunks : 1;
    lane_bytes = lane_bytes < MESSAGE_BYTES_MAX ? lane_bytes : MESSAGE_BYTES_MAX;
    tiling->place_bytes = lane_bytes / chunks / MOTET_LINE * MOTET_LINE;
    if (tiling->place_bytes < MOTET_LINE)
        tiling->place_bytes = MOTET_LINE;
    size_t line_elements = MOTET_LINE / tiling->size;
    size_t chunk = tiling->place_bytes / tiling->wide_size / line_elements * line_elements;
    if (chunk == 0)
        chunk = tiling->place_bytes / tiling->wide_size; /* a line of narrow elements does not fit, widened: a part of one */
    tiling->tile = chunk * (size_t)plan->parts;
    size_t largest = largest_block(call, plan->nranks);
    if (call->counts == MOTET_COUNTS_PAIR_KNOWS) {
        tiling->ntiles = largest > 0 ? divide_up(largest, tiling->tile) : 1;
        return;
    }
    /* All ranks know the largest block: tiles of equal size instead of full ones and a crumb. */
    tiling->ntiles = largest > 0 ? divide_up(largest, tiling->tile) : 1;
    size_t even = divide_up(largest, tiling->ntiles), unit = line_elements * (size_t)plan->parts;
    even = even >= unit ? round_up(even, unit) : even;
    if (even > 0 && even <= tiling->tile)
        tiling->tile = even;
    tiling->ntiles = largest > 0 ? divide_up(largest, tiling->tile) : 1;
}

struct motet_extent motet_tiling_extent(const struct motet_tiling *tiling, const struct motet_side *side, int chunk, size_t t)
{
    size_t count = block_count(tiling, side, chunk), offset = t * tiling->tile;
    if (offset >= count)
        return (struct motet_extent){.first = count};
    size_t len = count - offset < tiling->tile ? count - offset : tiling->tile;
    if (tiling->parts == 1)
        return (struct motet_extent){.first = offset, .len = len};
    size_t part = divide_up(len, (size_t)tiling->parts);
    if (part * tiling->size >= ALIGN_FROM_BYTES)
        part = round_up(part, MOTET_LINE / tiling->size);
    size_t first = part * (size_t)(chunk % tiling->parts);
    if (first >= len)
        return (struct motet_extent){.first = offset + len};
    return (struct motet_extent){.first = offset + first, .len = len - first < part ? len - first : part};
}

char *motet_tiling_at(const struct motet_tiling *tiling, const struct motet_side *side, int chunk, size_t first)
{
    size_t block = 0;
    if (!side->single && tiling->rank_at) {
        size_t rank = (size_t)rank_of(tiling, chunk);
        block = side->displs ? side->displs[rank] : rank * side->count;
    }
    return side->base + (block + first) * tiling->size;
}
