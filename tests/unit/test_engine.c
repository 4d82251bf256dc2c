/* SPDX-License-Identifier: Apache-2.0
 * The engine against plain loops: every row of the table over mapped, streamed and mixed worlds, all ranks driven by one thread in random
 * order, several calls one behind the other, so that tiles, lanes, credits and turns wrap. Results are compared bit by bit; memory around
 * and between blocks, inputs, and outputs that a call must not touch are checked to have stayed as they were. */
/* test: slow timeout=600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "unit/engine_game.h"

/* Every row with `rounds` counts and kinds of its own, in turn. */
static void play_rows(const struct sim_options *options, int rounds)
{
    static struct sim_world world;
    sim_world_open(&world, options);
    for (int row = 0; row < motet_nalgorithms; row++)
        for (int i = 0; i < rounds && fits(&world, &motet_algorithms[row]); i++) {
            size_t at = (size_t)row + (size_t)i * 5 + (size_t)options->nranks;
            play_around(&world, &motet_algorithms[row], some_counts[at % NCOUNTS], &kinds[(at + options->seed) % NKINDS]);
        }
    sim_world_close(&world);
}

/* ---- Tests ---- */

static const struct motet_sim_options nasty = {.capacity = 3000, .longest = 1500, .stall_percent = 30, .nlanes = 2};

static void test_engine_mapped_ranks_every_row_gives_the_oracles_bits(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n++)
        play_rows(&(struct sim_options){.nranks = n, .placement = SIM_ONE_HOST, .seed = (uint64_t)n}, 4);
}

static void test_engine_mapped_processes_every_row_gives_the_oracles_bits(void **state)
{
    (void)state;
    for (int n = 2; n <= 9; n++)
        play_rows(
            &(struct sim_options){
                .nranks = n, .placement = SIM_ONE_HOST, .apart = true, .staged = n % 3 == 0, .seed = 100 + (uint64_t)n},
            2);
}

static void test_engine_streamed_ranks_every_row_gives_the_oracles_bits(void **state)
{
    (void)state;
    for (int n = 2; n <= 9; n++)
        play_rows(&(struct sim_options){.nranks = n,
                                        .placement = SIM_ONE_RANK_EACH,
                                        .seed = 200 + (uint64_t)n,
                                        .stream = n % 2 ? nasty : (struct motet_sim_options){0}},
                  2);
}

static void test_engine_hosts_of_ranks_every_row_gives_the_oracles_bits(void **state)
{
    (void)state;
    for (int n = 2; n <= 9; n++)
        for (int placement = SIM_TWO_ALIGNED; placement <= SIM_ROUND_ROBIN; placement++)
            play_rows(&(struct sim_options){.nranks = n,
                                            .placement = (enum sim_placement)placement,
                                            .apart = n % 2,
                                            .seed = 300 + (uint64_t)(n * 10 + placement),
                                            .stream = nasty},
                      1);
}

static void test_engine_many_ranks_every_row_gives_the_oracles_bits(void **state)
{
    (void)state;
    const int many[] = {12, 16, 17};
    for (int i = 0; i < 3; i++)
        for (int placement = 0; placement < SIM_NPLACEMENTS; placement++)
            play_rows(&(struct sim_options){.nranks = many[i],
                                            .placement = (enum sim_placement)placement,
                                            .seed = 400 + (uint64_t)(many[i] * 10 + placement)},
                      1);
}

static void test_engine_number_wraps_every_row_gives_the_oracles_bits(void **state)
{
    (void)state;
    static const uint64_t first[] = {0xffffffff - 60, 0xfffffffff - 60}; /* of slots, of done words */
    for (int n = 2; n <= 5; n++)
        for (int placement = 0; placement < SIM_NPLACEMENTS; placement++)
            play_rows(&(struct sim_options){.nranks = n,
                                            .placement = (enum sim_placement)placement,
                                            .first_seq = first[(n + placement) % 2],
                                            .nlanes = 1 + placement % 3,
                                            .seed = 500 + (uint64_t)(n * 10 + placement)},
                      1);
}

/* Lanes of one page: more than 256 turns of a lane in one call, so that the turn in the slot's word wraps. */
static void test_engine_small_lanes_turns_wrap_and_bits_stay_right(void **state)
{
    (void)state;
    static struct sim_world world;
    for (int placement = 0; placement < SIM_NPLACEMENTS; placement++) {
        sim_world_open(&world, &(struct sim_options){.nranks = 5,
                                                     .placement = (enum sim_placement)placement,
                                                     .lane_bytes = 4096,
                                                     .seed = 600 + (uint64_t)placement});
        for (int row = 0; row < motet_nalgorithms; row++)
            if (fits(&world, &motet_algorithms[row]) && motet_algorithms[row].collective != MOTET_BARRIER)
                play_around(&world, &motet_algorithms[row], 65537, &kinds[row % 3 == 0 ? 0 : row % 3 == 1 ? 1 : 4]);
        sim_world_close(&world);
    }
}

static void test_engine_large_counts_direct_and_staged_give_the_oracles_bits(void **state)
{
    (void)state;
    static struct sim_world world;
    for (int n = 2; n <= 4; n++)
        for (int variant = 0; variant < 4; variant++) {
            sim_world_open(&world, &(struct sim_options){.nranks = n,
                                                         .placement = variant == 3 ? SIM_TWO_ALIGNED : SIM_ONE_HOST,
                                                         .apart = variant == 1,
                                                         .staged = variant == 2,
                                                         .seed = 700 + (uint64_t)(n * 10 + variant)});
            for (int row = n % 2; row < motet_nalgorithms; row += 2)
                if (fits(&world, &motet_algorithms[row]) && motet_algorithms[row].collective != MOTET_BARRIER)
                    play_around(&world, &motet_algorithms[row], 65537, &kinds[(row + n) % NKINDS]);
            sim_world_close(&world);
        }
}

/* A tile is larger than what a connection buffers: sends wait, in place too, while the steps behind them could go on. */
static void test_engine_streams_without_room_give_the_oracles_bits(void **state)
{
    (void)state;
    static struct sim_world world;
    for (int n = 2; n <= 3; n++) {
        sim_world_open(&world, &(struct sim_options){.nranks = n,
                                                     .placement = SIM_ONE_RANK_EACH,
                                                     .lane_bytes = 1 << 20,
                                                     .stream = {.capacity = 20000, .stall_percent = 50},
                                                     .seed = 750 + (uint64_t)n});
        for (int row = 0; row < motet_nalgorithms; row++)
            if (fits(&world, &motet_algorithms[row]) && motet_algorithms[row].collective != MOTET_BARRIER)
                play_around(&world, &motet_algorithms[row], 300001, &kinds[row % 2 ? 0 : 2]);
        sim_world_close(&world);
    }
}

/* Everybody hands its input to the next rank. */
static void build_hand_on(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    motet_send(schedule, MOTET_INPUT, 0, 1, (shape->position + 1) % shape->nranks);
    motet_recv(schedule, MOTET_OUTPUT, 0, 1, (shape->position + shape->nranks - 1) % shape->nranks);
}

/* Rank 1 does not read what rank 0 sends, rank 2 sends all it has: rank 0, in place, must not overwrite what still waits to be sent. */
static void test_engine_in_place_input_stays_until_it_has_been_sent(void **state)
{
    (void)state;
    enum { BYTES = 1000000 };
    static struct sim_world world;
    static char bytes[3][BYTES];
    const struct motet_algorithm row = {.name = "hand_on", .collective = MOTET_ALLREDUCE, .build = build_hand_on};
    struct motet_run *runs[3];
    sim_world_open(&world, &(struct sim_options){.nranks = 3, .placement = SIM_ONE_RANK_EACH, .lane_bytes = 1 << 20, .seed = 770});
    for (int r = 0; r < 3; r++) {
        struct motet_call *call = calloc(1, sizeof *call);
        SIM_REQUIRE(call);
        memset(bytes[r], 'a' + r, BYTES);
        *call = (struct motet_call){.collective = MOTET_ALLREDUCE,
                                    .name = "HandOn",
                                    .send = bytes[r],
                                    .recv = bytes[r],
                                    .count = BYTES,
                                    .dtype = motetInt8};
        sim_choose(world.comms[r], &row);
        assert_int_equal(motet_engine_start(world.comms[r], call, &runs[r]), motetSuccess);
    }
    motetResult_t results[3] = {motetInProgress, motetInProgress, motetInProgress};
    for (int turn = 0; turn < 4000; turn++)
        for (int r = 0; r < 3; r++) {
            bool moved = false;
            if (r == 1 && turn < 1000)
                continue;
            if (results[r] == motetInProgress)
                results[r] = motet_engine_progress(runs[r], &moved);
            motet_comm_poll(world.comms[r], &moved);
        }
    for (int r = 0; r < 3; r++) {
        assert_int_equal(results[r], motetSuccess);
        for (int i = 0; i < BYTES; i++)
            if (bytes[r][i] != 'a' + (r + 2) % 3)
                fail_msg("rank %d: byte %d is %c", r, i, bytes[r][i]);
        motet_engine_end(runs[r]);
    }
    sim_world_close(&world);
}

/* Each of two ranks keeps its input as an accumulator and sends it as it is, then combines what came with what it kept. */
static void build_keep_wide(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    int other = 1 - shape->position;
    motet_schedule_begin(schedule, shape, 1, 1);
    schedule->stage_chunks = 1;
    *motet_schedule_append(schedule) =
        (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .dst = MOTET_PARTIAL, .n = 1, .to = motet_peer(other)};
    motet_end_round(schedule);
    motet_recv_reduce(schedule, MOTET_OUTPUT, MOTET_PARTIAL, 0, 1, other, false);
}

static void test_engine_narrow_value_kept_wide_is_sent_narrow(void **state)
{
    (void)state;
    static struct sim_world world;
    static struct game game;
    const struct motet_algorithm row = {
        .name = "keep_wide", .collective = MOTET_ALLREDUCE, .order = MOTET_ORDER_ROTATED, .build = build_keep_wide};
    for (int placement = SIM_ONE_HOST; placement <= SIM_ONE_RANK_EACH; placement += SIM_ONE_RANK_EACH)
        for (size_t c = 0; c < NCOUNTS; c++) {
            sim_world_open(&world, &(struct sim_options){.nranks = 2, .placement = (enum sim_placement)placement, .seed = 900 + c});
            memset(&game, 0, sizeof game);
            game.world = &world;
            game.ncalls = 1;
            choose_call(&world, &row, some_counts[c], &kinds[c % 2 ? 4 : 1], &game.calls[0]);
            play(&game);
            sim_world_close(&world);
        }
}

/* ---- Calls that differ ---- */

static struct motet_run *start_one(struct sim_world *world, int rank, const struct motet_algorithm *row, size_t count,
                                   motetDataType_t dtype, motetRedOp_t op, char *buffer)
{
    struct motet_call *call = calloc(1, sizeof *call);
    struct motet_run *run;
    SIM_REQUIRE(call);
    *call = (struct motet_call){.collective = row->collective,
                                .name = "AllReduce",
                                .send = buffer,
                                .recv = buffer,
                                .count = count,
                                .dtype = dtype,
                                .op = op};
    sim_choose(world->comms[rank], row);
    assert_int_equal(motet_engine_start(world->comms[rank], call, &run), motetSuccess);
    return run;
}

/* Rank 1 makes another call than the others: all have the error, with both calls, though a remote rank must be asked for its own. */
static void test_engine_calls_differ_every_rank_hears_both(void **state)
{
    (void)state;
    static struct sim_world world;
    static char buffers[3][8000];
    const struct {
        size_t count;
        motetDataType_t dtype;
        motetRedOp_t op;
        const char *text;
    } others[] = {{999, motetInt32, motetSum, "rank 1 called AllReduce(999 x int32, sum)"},
                  {1000, motetFloat32, motetSum, "rank 1 called AllReduce(1000 x float32, sum)"},
                  {1000, motetInt32, motetMax, "rank 1 called AllReduce(1000 x int32, max)"}};
    for (int placement = 0; placement < SIM_NPLACEMENTS; placement++)
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            const struct motet_algorithm *row = motet_algorithm_find(MOTET_ALLREDUCE, "two_shot");
            struct motet_run *runs[3];
            int left = 3, failed[3] = {0};
            sim_world_open(&world, &(struct sim_options){.nranks = 3, .placement = (enum sim_placement)placement, .seed = 850 + i});
            for (int r = 0; r < 3; r++)
                runs[r] = r == 1 ? start_one(&world, r, row, others[i].count, others[i].dtype, others[i].op, buffers[r])
                                 : start_one(&world, r, row, 1000, motetInt32, motetSum, buffers[r]);
            for (int turn = 0; left > 0; turn++) {
                int r = (int)sim_random(&world, 3);
                bool moved = false;
                motetResult_t result = failed[r] ? motetInProgress : motet_engine_progress(runs[r], &moved);
                motet_comm_poll(world.comms[r], &moved);
                result = result == motetInProgress && !failed[r] ? motet_comm_check(world.comms[r]) : result;
                if (result != motetSuccess && result != motetInProgress) {
                    assert_int_equal(result, motetInvalidUsage);
                    failed[r] = 1;
                    left--;
                }
                assert_true(turn < 100000);
            }
            for (int r = 0; r < 3; r++) {
                const char *text = world.comms[r]->control->fault.text;
                if (!strstr(text, others[i].text) || !strstr(text, "called AllReduce(1000 x int32, sum)"))
                    fail_msg("rank %d: %s", r, text);
                motet_engine_end(runs[r]);
            }
            sim_world_close(&world);
        }
}

/* ---- Bytes ---- */

static uint64_t bytes_of_call(enum sim_placement placement, int nranks, enum motet_collective collective, const char *name,
                              size_t count)
{
    static struct sim_world world;
    static struct game game;
    memset(&game, 0, sizeof game);
    sim_world_open(&world, &(struct sim_options){.nranks = nranks, .placement = placement, .seed = 800});
    game.world = &world;
    game.ncalls = 1;
    choose_call(&world, motet_algorithm_find(collective, name), count, &kinds[0], &game.calls[0]);
    game.calls[0].counts = MOTET_COUNTS_EQUAL;
    game.calls[0].root = 0;
    play(&game);
    uint64_t bytes = sim_bytes_between_hosts(&world);
    sim_world_close(&world);
    return bytes;
}

static void test_engine_round_robin_ranks_ring_moves_no_more_bytes_between_hosts(void **state)
{
    (void)state;
    const struct {
        enum motet_collective collective;
        const char *name;
    } rows[] = {{MOTET_ALLREDUCE, "ring"},
                {MOTET_ALLREDUCE, "chain"},
                {MOTET_ALLGATHER, "ring"},
                {MOTET_REDUCESCATTER, "ring"},
                {MOTET_BROADCAST, "chain"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        /* Six ranks: three hosts of two by round robin; hosts of 3 and 3 ranks (of the 3, 5, 1 pattern) when contiguous. */
        uint64_t dealt = bytes_of_call(SIM_ROUND_ROBIN, 6, rows[i].collective, rows[i].name, 30000);
        uint64_t alone = bytes_of_call(SIM_ONE_RANK_EACH, 6, rows[i].collective, rows[i].name, 30000);
        size_t links = rows[i].collective == MOTET_BROADCAST || !strcmp(rows[i].name, "chain") ? 5 : 6;
        size_t crossings = rows[i].collective == MOTET_BROADCAST || !strcmp(rows[i].name, "chain") ? 2 : 3;
        assert_true(dealt > 0);
        /* Every link of the ring carries the same; three of six cross hosts, as when ranks are contiguous. Frames' heads differ a little. */
        assert_true(dealt * links < alone * crossings * 101 / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_mapped_ranks_every_row_gives_the_oracles_bits),
        cmocka_unit_test(test_engine_mapped_processes_every_row_gives_the_oracles_bits),
        cmocka_unit_test(test_engine_streamed_ranks_every_row_gives_the_oracles_bits),
        cmocka_unit_test(test_engine_hosts_of_ranks_every_row_gives_the_oracles_bits),
        cmocka_unit_test(test_engine_many_ranks_every_row_gives_the_oracles_bits),
        cmocka_unit_test(test_engine_number_wraps_every_row_gives_the_oracles_bits),
        cmocka_unit_test(test_engine_small_lanes_turns_wrap_and_bits_stay_right),
        cmocka_unit_test(test_engine_large_counts_direct_and_staged_give_the_oracles_bits),
        cmocka_unit_test(test_engine_streams_without_room_give_the_oracles_bits),
        cmocka_unit_test(test_engine_in_place_input_stays_until_it_has_been_sent),
        cmocka_unit_test(test_engine_narrow_value_kept_wide_is_sent_narrow),
        cmocka_unit_test(test_engine_calls_differ_every_rank_hears_both),
        cmocka_unit_test(test_engine_round_robin_ranks_ring_moves_no_more_bytes_between_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
