/* SPDX-License-Identifier: Apache-2.0
 * Geometry: tiles and chunks cover every element of every block exactly once, whatever the counts; no chunk outgrows its place; both ends of
 * a message compute the same lengths from what each of them knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tile.h"

#define RANKS 5

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 65537};
#define NCOUNTS (sizeof counts / sizeof counts[0])
static const int rank_at[RANKS] = {0, 3, 1, 4, 2}; /* blocks by position */

struct setup {
    struct motet_plan plan;
    struct motet_call call;
    struct motet_reduction reduction;
    size_t lane_bytes;
};

static struct setup make_setup(int parts, int stage_chunks, motetDataType_t dtype, motetRedOp_t op, size_t lane_bytes)
{
    struct setup s = {.lane_bytes = lane_bytes};
    s.plan.nranks = RANKS;
    s.plan.nblocks = 1;
    s.plan.parts = s.plan.nchunks = parts;
    s.plan.stage_chunks = stage_chunks;
    s.call.collective = MOTET_ALLREDUCE;
    s.call.dtype = dtype;
    s.call.op = op;
    assert_int_equal(motet_reduction_init(&s.reduction, dtype, op, RANKS), motetSuccess);
    return s;
}

static struct motet_tiling tile_of(const struct setup *s)
{
    struct motet_tiling tiling;
    motet_tiling_make(&tiling, &s->call, &s->reduction, &s->plan, rank_at, s->lane_bytes);
    return tiling;
}

/* All chunks of one block over all tiles: in order, without gap or overlap, none larger than a place. */
static void check_block(const struct motet_tiling *tiling, const struct motet_side *side, int block, size_t count)
{
    size_t next = 0;
    for (size_t t = 0; t < tiling->ntiles; t++)
        for (int part = 0; part < tiling->parts; part++) {
            struct motet_extent e = motet_tiling_extent(tiling, side, block * tiling->parts + part, t);
            if (e.len == 0)
                continue;
            assert_int_equal(e.first, next);
            assert_true(e.len * tiling->wide_size <= tiling->place_bytes);
            next = e.first + e.len;
        }
    assert_int_equal(next, count);
    struct motet_extent beyond = motet_tiling_extent(tiling, side, block * tiling->parts, tiling->ntiles);
    assert_int_equal(beyond.len, 0);
}

static void check_one_block(int parts, int stage_chunks, motetDataType_t dtype, motetRedOp_t op, size_t lane_bytes, size_t count)
{
    struct setup s = make_setup(parts, stage_chunks, dtype, op, lane_bytes);
    s.call.count = count;
    struct motet_tiling tiling = tile_of(&s);
    assert_int_equal(tiling.place_bytes % MOTET_LINE, 0);
    assert_true(tiling.ntiles >= 1);
    if (lane_bytes >= (size_t)stage_chunks * MOTET_LINE)
        assert_true(tiling.place_bytes * (size_t)stage_chunks <= lane_bytes);
    check_block(&tiling, &tiling.output, 0, count);
    if (count > 0) {
        struct motet_extent last = motet_tiling_extent(&tiling, &tiling.output, 0, tiling.ntiles - 1);
        assert_true(last.len > 0); /* no tile is empty */
    }
}

static void test_tile_one_block_every_element_lies_in_one_chunk(void **state)
{
    (void)state;
    const struct {
        motetDataType_t dtype;
        motetRedOp_t op;
    } kinds[] = {{motetInt8, motetSum},    {motetInt8, motetAvg},       {motetBfloat16, motetSum}, {motetFloat32, motetSum},
                 {motetFloat64, motetSum}, {motetComplex128, motetSum}, {motetInt32, motetAvg},    {motetFloat8e5m2, motetMax}};
    const size_t lanes[] = {4096, 65536, 1 << 20};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t l = 0; l < 3; l++)
            for (int parts = 1; parts <= 18; parts++)
                for (size_t c = 0; c < NCOUNTS; c++)
                    for (int stage_chunks = parts; stage_chunks <= 64; stage_chunks += 21)
                        check_one_block(parts, stage_chunks, kinds[k].dtype, kinds[k].op, lanes[l], counts[c]);
}

static void test_tile_counts_around_borders_every_element_lies_in_one_chunk(void **state)
{
    (void)state;
    for (int parts = 1; parts <= 9; parts++) {
        struct setup s = make_setup(parts, parts, motetFloat32, motetSum, 65536);
        s.call.count = 1 << 24;
        size_t tile = tile_of(&s).tile;
        for (size_t tiles = 1; tiles <= 3; tiles++)
            for (int off = -70; off <= 70; off++)
                check_one_block(parts, parts, motetFloat32, motetSum, 65536, tiles * tile + (size_t)off);
    }
}

static void test_tile_largest_lane_count_of_lines_fits_the_slot(void **state)
{
    (void)state;
    struct setup s = make_setup(1, 1, motetInt8, motetSum, 1u << 30);
    s.call.count = 5ull << 30;
    struct motet_tiling tiling = tile_of(&s);
    assert_true(tiling.place_bytes / MOTET_LINE < 1u << 24);
    check_block(&tiling, &tiling.output, 0, s.call.count);
    s = make_setup(4, 4, motetInt8, motetSum, 1u << 30);
    s.call.count = 5ull << 30;
    tiling = tile_of(&s);
    assert_true(4 * tiling.place_bytes / MOTET_LINE < 1u << 24);
}

static void test_tile_places_below_a_widened_line_hold_several_elements(void **state)
{
    (void)state;
    struct setup s = make_setup(1, 64, motetInt8, motetAvg, 4096); /* places of one line, accumulators of 8 bytes */
    s.call.count = 1000;
    struct motet_tiling tiling = tile_of(&s);
    assert_int_equal(tiling.place_bytes, MOTET_LINE);
    assert_int_equal(tiling.tile, 8);
    check_block(&tiling, &tiling.output, 0, 1000);
}

static void make_blocks(struct setup *s, enum motet_collective collective, enum motet_counts kind)
{
    s->plan.nblocks = RANKS;
    s->plan.nchunks = RANKS * s->plan.parts;
    s->call.collective = collective;
    s->call.counts = kind;
}

static void test_tile_equal_blocks_lie_at_rank_times_count(void **state)
{
    (void)state;
    char memory[1];
    for (int parts = 1; parts <= 3; parts++)
        for (size_t c = 0; c < NCOUNTS; c++) {
            struct setup s = make_setup(parts, RANKS * parts, motetInt32, motetSum, 65536);
            make_blocks(&s, MOTET_ALLGATHER, MOTET_COUNTS_EQUAL);
            s.call.count = counts[c];
            s.call.send = s.call.recv = memory;
            struct motet_tiling tiling = tile_of(&s);
            for (int b = 0; b < RANKS; b++) {
                check_block(&tiling, &tiling.output, b, counts[c]);
                char *at = motet_tiling_at(&tiling, &tiling.output, b * parts, 0);
                assert_int_equal(at - memory, (ptrdiff_t)((size_t)rank_at[b] * counts[c] * 4));
                assert_ptr_equal(motet_tiling_at(&tiling, &tiling.input, b * parts, 0), memory); /* only the own block exists */
            }
        }
}

static void test_tile_unequal_blocks_lie_at_their_displacements(void **state)
{
    (void)state;
    size_t block_counts[RANKS] = {4097, 0, 1, 70000, 63}, displs[RANKS] = {100, 5, 4, 10000, 0};
    char memory[1];
    struct setup s = make_setup(2, RANKS * 2, motetBfloat16, motetSum, 65536);
    make_blocks(&s, MOTET_ALLGATHER, MOTET_COUNTS_ALL_KNOW);
    s.call.recv_counts = block_counts;
    s.call.recv_displs = displs;
    s.call.recv = memory;
    struct motet_tiling tiling = tile_of(&s);
    for (int b = 0; b < RANKS; b++) {
        check_block(&tiling, &tiling.output, b, block_counts[rank_at[b]]);
        check_block(&tiling, &tiling.input, b, block_counts[rank_at[b]]);
        assert_int_equal(motet_tiling_at(&tiling, &tiling.output, 2 * b, 7) - memory, (ptrdiff_t)(2 * (displs[rank_at[b]] + 7)));
    }
}

/* A call by one rank alone has one block, and it too lies where its displacement says. */
static void test_tile_one_rank_alone_its_displacement_counts(void **state)
{
    (void)state;
    static const int itself[1] = {0};
    size_t one_count[1] = {10}, displs[1] = {3};
    char memory[1];
    struct setup s = make_setup(1, 1, motetInt32, motetSum, 65536);
    s.plan.nranks = 1;
    s.call.collective = MOTET_ALLGATHER;
    s.call.counts = MOTET_COUNTS_ALL_KNOW;
    s.call.recv_counts = one_count;
    s.call.recv_displs = displs;
    s.call.recv = memory;
    struct motet_tiling tiling;
    motet_tiling_make(&tiling, &s.call, &s.reduction, &s.plan, itself, s.lane_bytes);
    assert_int_equal(motet_tiling_at(&tiling, &tiling.output, 0, 0) - memory, 3 * 4);
    check_block(&tiling, &tiling.output, 0, 10);
}

/* Ranks that know different counts cut a block that both know at the same places. */
static void test_tile_counts_of_pairs_both_ends_cut_alike(void **state)
{
    (void)state;
    size_t sent[RANKS] = {70000, 3, 65, 0, 9}, taken[RANKS] = {65, 0, 1, 200000, 4};
    for (int parts = 1; parts <= 4; parts++) {
        struct setup a = make_setup(parts, RANKS * parts, motetFloat32, motetSum, 65536), b = a;
        make_blocks(&a, MOTET_ALLTOALL, MOTET_COUNTS_PAIR_KNOWS);
        make_blocks(&b, MOTET_ALLTOALL, MOTET_COUNTS_PAIR_KNOWS);
        a.call.send_counts = a.call.recv_counts = sent;
        b.call.send_counts = b.call.recv_counts = taken;
        struct motet_tiling ta = tile_of(&a), tb = tile_of(&b);
        assert_int_equal(ta.tile, tb.tile);
        assert_int_equal(ta.place_bytes, tb.place_bytes);
        assert_true(ta.ntiles != tb.ntiles);
        for (size_t t = 0; t < ta.ntiles || t < tb.ntiles; t++)
            for (int part = 0; part < parts;
                 part++) { /* a sends 65 elements to rank 2, which is block 4; b takes 65 from rank 0, block 0 */
                struct motet_extent x = motet_tiling_extent(&ta, &ta.input, 4 * parts + part, t);
                struct motet_extent y = motet_tiling_extent(&tb, &tb.output, part, t);
                assert_int_equal(x.len, y.len);
                assert_int_equal(x.first, y.first);
            }
        for (int block = 0; block < RANKS; block++) {
            check_block(&ta, &ta.input, block, sent[rank_at[block]]);
            check_block(&tb, &tb.output, block, taken[rank_at[block]]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile_one_block_every_element_lies_in_one_chunk),
        cmocka_unit_test(test_tile_counts_around_borders_every_element_lies_in_one_chunk),
        cmocka_unit_test(test_tile_largest_lane_count_of_lines_fits_the_slot),
        cmocka_unit_test(test_tile_places_below_a_widened_line_hold_several_elements),
        cmocka_unit_test(test_tile_equal_blocks_lie_at_rank_times_count),
        cmocka_unit_test(test_tile_unequal_blocks_lie_at_their_displacements),
        cmocka_unit_test(test_tile_one_rank_alone_its_displacement_counts),
        cmocka_unit_test(test_tile_counts_of_pairs_both_ends_cut_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
