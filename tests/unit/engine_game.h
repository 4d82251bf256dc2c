/* SPDX-License-Identifier: Apache-2.0
 * Calls of all ranks of a simulated world: data, buffers in and out of place, random visits, and the judgement against plain loops. */
#ifndef MOTET_TESTS_UNIT_ENGINE_GAME_H
#define MOTET_TESTS_UNIT_ENGINE_GAME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "reduce/reduce.h"
#include "sim_world.h"
#include "unit/reduce_oracle.h"

#define GUARD  192
#define POISON 0xa5

/* ---- One call of all ranks ---- */

struct call {
    const struct motet_algorithm *row;
    motetDataType_t dtype;
    motetRedOp_t op;
    enum motet_counts counts;
    size_t count; /* per block, where all are equal */
    int root;
    bool exact;  /* floats are small integers: any order of summing gives the same */
    bool premul; /* PreMulSum by three */
    uint64_t seed;
    size_t block[SIM_MAX_RANKS]
                [SIM_MAX_RANKS]; /* v-variants: elements from a to b; only [0][b] where all know; [a][root], [root][b] */
};

/* What one rank gives to one call. */
struct part {
    char *send_memory, *recv_memory; /* with guards; recv_memory NULL: shares the memory of send, or there is none */
    char *send, *recv;
    size_t send_bytes, recv_bytes; /* spans: whole extents, gaps included */
    size_t send_total, recv_total;
    char *send_before; /* copy of send_memory as the call began */
    bool in_place, shared_memory;
    size_t send_displs[SIM_MAX_RANKS], recv_displs[SIM_MAX_RANKS];
};

#define MAX_CALLS 4

struct rank_state {
    int at; /* call in progress */
    struct motet_run *run;
};

struct game {
    struct sim_world *world;
    int ncalls;
    struct call calls[MAX_CALLS];
    struct part parts[MAX_CALLS][SIM_MAX_RANKS];
    struct rank_state ranks[SIM_MAX_RANKS];
    int started[MAX_CALLS];
};

static const char *describe(const struct call *call, const struct sim_world *world)
{
    static char text[300];
    snprintf(text, sizeof text, "%s %s, %d ranks on %s%s%s, %zu x %s %s, counts %d, root %d, seed %llu",
             motet_collective_name(call->row->collective), call->row->name, world->options.nranks,
             sim_placement_names[world->options.placement], world->options.apart ? " apart" : "",
             world->options.staged ? " staged" : "", call->count, motet_dtype_row(call->dtype)->name, motet_op_name(call->op),
             (int)call->counts, call->root, (unsigned long long)call->seed);
    return text;
}

/* ---- Data ---- */

/* Element i of what rank `from` gives; differs by rank, index and call. */
static uint64_t element_bits(const struct call *call, int from, size_t i)
{
    const struct oracle_type *type = &oracle_types[call->dtype];
    uint64_t h = sim_mix(call->seed ^ sim_mix((uint64_t)from << 40 ^ i));
    if (type->kind == ORACLE_BOOL)
        return h & 1;
    if (type->kind != ORACLE_FLOAT)
        return type->size == 8 ? h : h & ((1ull << 8 * type->size) - 1);
    if (call->exact)
        return oracle_encode(type, (double)((int)(h % 7) - 3));
    return oracle_encode(type, ldexp((double)(int64_t)(h >> 11) - (double)(1ll << 52), -52 + (int)(h % 12)));
}

static void put_element(const struct call *call, char *at, int from, size_t i)
{
    const struct oracle_type *type = &oracle_types[call->dtype];
    for (int p = 0; p < type->parts; p++) {
        uint64_t bits = element_bits(call, from, i * (size_t)type->parts + (size_t)p);
        memcpy(at + p * type->size, &bits, (size_t)type->size);
    }
}

/* Three, as an element. */
static uint64_t scalar_bits(const struct call *call)
{
    const struct oracle_type *type = &oracle_types[call->dtype];
    return type->kind == ORACLE_FLOAT ? oracle_encode(type, 3) : 3;
}

static size_t element_size(const struct call *call)
{
    return motet_dtype_row(call->dtype)->size;
}

/* Elements that rank a gives to block b, and where block b starts in what a gives (logical index, for the values). */
static size_t block_elements(const struct call *call, int a, int b)
{
    if (call->counts == MOTET_COUNTS_EQUAL)
        return call->count;
    return call->counts == MOTET_COUNTS_ALL_KNOW ? call->block[0][b] : call->block[a][b];
}

static bool one_block(const struct call *call)
{
    enum motet_collective c = call->row->collective;
    return c == MOTET_ALLREDUCE || c == MOTET_REDUCE || c == MOTET_BROADCAST;
}

static bool sends(const struct call *call, int rank)
{
    enum motet_collective c = call->row->collective;
    return c != MOTET_BARRIER && ((c != MOTET_BROADCAST && c != MOTET_SCATTER) || rank == call->root);
}

static bool receives(const struct call *call, int rank)
{
    enum motet_collective c = call->row->collective;
    return c != MOTET_BARRIER && ((c != MOTET_REDUCE && c != MOTET_GATHER) || rank == call->root);
}

/* Whether a buffer holds the blocks of all ranks, or one. */
static bool sends_all_blocks(const struct call *call)
{
    enum motet_collective c = call->row->collective;
    return c == MOTET_REDUCESCATTER || c == MOTET_ALLTOALL || c == MOTET_SCATTER;
}

static bool receives_all_blocks(const struct call *call)
{
    enum motet_collective c = call->row->collective;
    return c == MOTET_ALLGATHER || c == MOTET_ALLTOALL || c == MOTET_GATHER;
}

/* Elements of block b of rank's send and receive buffers; b is 0 for single blocks. */
static size_t send_elements(const struct call *call, int rank, int b)
{
    if (sends_all_blocks(call))
        return block_elements(call, rank, b);
    if (one_block(call))
        return call->count;
    return block_elements(call, rank,
                          call->row->collective == MOTET_GATHER && call->counts == MOTET_COUNTS_PAIR_KNOWS ? call->root : rank);
}

static size_t recv_elements(const struct call *call, int rank, int b)
{
    if (one_block(call))
        return call->count;
    if (receives_all_blocks(call))
        return call->counts == MOTET_COUNTS_ALL_KNOW ? block_elements(call, rank, b) : block_elements(call, b, rank);
    return block_elements(call, call->row->collective == MOTET_SCATTER ? call->root : rank, rank);
}

/* ---- Buffers ---- */

static char *take_memory(struct sim_world *world, size_t bytes)
{
    void *memory = NULL;
    if (world->options.apart && sim_random(world, 2)) {
        SIM_REQUIRE(motet_segment_alloc(bytes + 2 * GUARD, &memory) == motetSuccess);
    } else {
        memory = malloc(bytes + 2 * GUARD);
        SIM_REQUIRE(memory);
    }
    memset(memory, POISON, bytes + 2 * GUARD);
    return memory;
}

static void drop_memory(char *memory)
{
    if (memory && motet_segment_owns(memory))
        motet_segment_free(memory);
    else
        free(memory);
}

/* Blocks in a random order with random gaps, or packed; returns the span in elements. */
static size_t lay_out(struct sim_world *world, const struct call *call, int rank, bool of_send, size_t *displs)
{
    int n = world->options.nranks, order[SIM_MAX_RANKS];
    bool loose = call->counts != MOTET_COUNTS_EQUAL && !(of_send && call->row->collective == MOTET_REDUCESCATTER);
    size_t end = 0;
    for (int b = 0; b < n; b++)
        order[b] = b;
    for (int b = n - 1; loose && b > 0; b--) {
        int other = (int)sim_random(world, (uint64_t)b + 1), swap = order[b];
        order[b] = order[other];
        order[other] = swap;
    }
    for (int i = 0; i < n; i++) {
        int b = order[i];
        end += loose ? sim_random(world, 4) : 0;
        displs[b] = end;
        end += of_send ? send_elements(call, rank, b) : recv_elements(call, rank, b);
    }
    return end;
}

static size_t in_place_offset(const struct call *call, const struct part *part, int rank)
{
    /* Where the one block lies inside the other buffer. */
    if (receives_all_blocks(call))
        return part->recv_displs[rank] * element_size(call);
    return sends_all_blocks(call) ? part->send_displs[rank] * element_size(call) : 0;
}

static void make_part(struct game *game, int c, int rank)
{
    struct sim_world *world = game->world;
    const struct call *call = &game->calls[c];
    struct part *part = &game->parts[c][rank];
    size_t size = element_size(call), n = (size_t)world->options.nranks;
    memset(part, 0, sizeof *part);
    if (call->row->collective == MOTET_BARRIER)
        return;
    part->send_total =
        (sends_all_blocks(call) ? lay_out(world, call, rank, true, part->send_displs) : send_elements(call, rank, 0)) * size;
    part->recv_total =
        (receives_all_blocks(call) ? lay_out(world, call, rank, false, part->recv_displs) : recv_elements(call, rank, 0)) * size;
    bool both = sends(call, rank) && receives(call, rank);
    part->in_place = call->row->collective != MOTET_ALLTOALL && both && sim_random(world, 2);
    size_t offset = sim_random(world, 3) ? sim_random(world, 64) : 0; /* unaligned, element size or not */
    if (part->in_place) {
        bool send_is_larger = sends_all_blocks(call);
        part->shared_memory = true;
        part->send_memory = take_memory(world, (send_is_larger ? part->send_total : part->recv_total) + 64);
        char *base = part->send_memory + GUARD + offset;
        size_t inside = in_place_offset(call, part, rank);
        part->send = send_is_larger ? base : base + inside;
        part->recv = send_is_larger ? base + inside : base;
    } else {
        part->send_memory = take_memory(world, part->send_total + 64);
        part->recv_memory = take_memory(world, part->recv_total + 64);
        part->send = part->send_memory + GUARD + offset;
        part->recv = part->recv_memory + GUARD + sim_random(world, 64);
    }
    for (size_t b = 0; sends(call, rank) && b < (sends_all_blocks(call) ? n : 1); b++) {
        char *at = part->send + part->send_displs[b] * size;
        for (size_t i = 0; i < send_elements(call, rank, (int)b); i++)
            put_element(call, at + i * size, rank, (b << 32) + i);
    }
    part->send_bytes = (part->in_place && !sends_all_blocks(call) ? part->recv_total : part->send_total) + 64 + 2 * GUARD;
    part->recv_bytes = part->recv_total + 64 + 2 * GUARD;
    part->send_before = malloc(part->send_bytes);
    SIM_REQUIRE(part->send_before);
    memcpy(part->send_before, part->send_memory, part->send_bytes);
}

static void drop_part(struct part *part)
{
    drop_memory(part->send_memory);
    drop_memory(part->recv_memory);
    free(part->send_before);
}

/* ---- Starting ---- */

static size_t *copy_sizes(const struct sim_world *world, const size_t *from)
{
    size_t *copy = malloc((size_t)world->options.nranks * sizeof *copy);
    SIM_REQUIRE(copy);
    memcpy(copy, from, (size_t)world->options.nranks * sizeof *copy);
    return copy;
}

static void add_counts(struct game *game, int c, int rank, struct motet_call *out)
{
    const struct call *call = &game->calls[c];
    const struct part *part = &game->parts[c][rank];
    size_t counts[SIM_MAX_RANKS];
    int n = game->world->options.nranks;
    if (call->counts == MOTET_COUNTS_EQUAL)
        return;
    out->count = 0;
    if (sends_all_blocks(call) && sends(call, rank)) {
        for (int b = 0; b < n; b++)
            counts[b] = send_elements(call, rank, b);
        out->send_counts = copy_sizes(game->world, counts);
        out->send_displs = copy_sizes(game->world, part->send_displs);
    }
    if (receives_all_blocks(call) && receives(call, rank)) {
        for (int b = 0; b < n; b++)
            counts[b] = recv_elements(call, rank, b);
        out->recv_counts = copy_sizes(game->world, counts);
        out->recv_displs = copy_sizes(game->world, part->recv_displs);
    }
    if (call->row->collective == MOTET_GATHER)
        out->count = send_elements(call, rank, 0);
    if (call->row->collective == MOTET_SCATTER)
        out->count = recv_elements(call, rank, 0);
}

static struct motet_run *start(struct game *game, int c, int rank)
{
    const struct call *call = &game->calls[c];
    const struct part *part = &game->parts[c][rank];
    motetComm_t comm = game->world->comms[rank];
    struct motet_call *out = calloc(1, sizeof *out);
    struct motet_run *run;
    SIM_REQUIRE(out);
    *out = (struct motet_call){.collective = call->row->collective,
                               .name = motet_collective_name(call->row->collective),
                               .send = part->send,
                               .recv = part->recv,
                               .count = call->count,
                               .dtype = call->dtype,
                               .op = call->op,
                               .root = call->root,
                               .counts = call->counts};
    if (call->premul) {
        uint64_t scalar = scalar_bits(call);
        out->premul = true;
        memcpy(out->scalar, &scalar, sizeof scalar);
    }
    /* What a rank does not use need not exist. */
    if (!sends(call, rank) && !part->in_place && sim_random(game->world, 2))
        out->send = NULL;
    if (!receives(call, rank) && sim_random(game->world, 2))
        out->recv = NULL;
    add_counts(game, c, rank, out);
    sim_choose(comm, call->row);
    if (motet_engine_start(comm, out, &run) != motetSuccess) {
        print_error("%s: rank %d cannot start: %s\n", describe(call, game->world), rank, motet_error_text());
        fail();
    }
    game->started[c]++;
    return run;
}

/* ---- Judging ---- */

/* Bits of element i of block b of the reduction, by the oracle. */
static uint64_t reduced_bits(const struct call *call, int nranks, size_t b, size_t number)
{
    struct oracle_node nodes[SIM_MAX_RANKS];
    for (int r = 0; r < nranks; r++) {
        const struct oracle_type *type = &oracle_types[call->dtype];
        size_t parts = (size_t)type->parts;
        uint64_t bits = element_bits(call, r, ((b << 32) + number / parts) * parts + number % parts);
        uint64_t scalar = scalar_bits(call);
        bits = call->premul ? oracle_product(call->dtype, &bits, &scalar) : bits;
        nodes[r] = oracle_read(call->dtype, call->op, &bits, false);
    }
    return oracle_finish(call->dtype, call->op, oracle_tree(call->dtype, call->op, nodes, nranks), false, nranks);
}

static bool is_sampled(size_t i, size_t n)
{
    return n < 3000 || i < 300 || i + 300 > n || i % 61 == 0;
}

/* Compares the reduced block b with what the oracle says, or, where the row's order is its own, with the bits of `other`. */
static void judge_reduced(const struct game *game, int c, int rank, size_t b, const char *at, size_t n)
{
    const struct call *call = &game->calls[c];
    const struct oracle_type *type = &oracle_types[call->dtype];
    for (size_t i = 0; i < n; i++) {
        if (!is_sampled(i, n))
            continue;
        for (int p = 0; p < type->parts; p++) {
            uint64_t got = 0, want = reduced_bits(call, game->world->options.nranks, b, i * (size_t)type->parts + (size_t)p);
            memcpy(&got, at + (i * (size_t)type->parts + (size_t)p) * (size_t)type->size, (size_t)type->size);
            if (got != want) {
                print_error("%s: rank %d, block %zu, element %zu of %zu: %llx instead of %llx\n", describe(call, game->world), rank,
                            b, i, n, (unsigned long long)got, (unsigned long long)want);
                fail();
            }
        }
    }
}

static void judge_moved(const struct game *game, int c, int rank, int from, size_t b, const char *at, size_t n)
{
    const struct call *call = &game->calls[c];
    size_t size = element_size(call);
    char want[16];
    for (size_t i = 0; i < n; i++) {
        put_element(call, want, from, (b << 32) + i);
        if (memcmp(at + i * size, want, size) != 0) {
            print_error("%s: rank %d, block %zu from rank %d: element %zu of %zu is wrong\n", describe(call, game->world), rank, b,
                        from, i, n);
            fail();
        }
    }
}

static void judge_output(const struct game *game, int c, int rank)
{
    const struct call *call = &game->calls[c];
    const struct part *part = &game->parts[c][rank];
    size_t size = element_size(call);
    int n = game->world->options.nranks;
    switch (call->row->collective) {
    case MOTET_ALLREDUCE:
    case MOTET_REDUCE:
        judge_reduced(game, c, rank, 0, part->recv, call->count);
        break;
    case MOTET_REDUCESCATTER:
        judge_reduced(game, c, rank, (size_t)rank, part->recv, recv_elements(call, rank, 0));
        break;
    case MOTET_BROADCAST:
        judge_moved(game, c, rank, call->root, 0, part->recv, call->count);
        break;
    case MOTET_SCATTER:
        judge_moved(game, c, rank, call->root, (size_t)rank, part->recv, recv_elements(call, rank, 0));
        break;
    default:
        for (int b = 0; b < n; b++)
            judge_moved(game, c, rank, b, call->row->collective == MOTET_ALLTOALL ? (size_t)rank : 0,
                        part->recv + part->recv_displs[b] * size, recv_elements(call, rank, b));
    }
}

/* Forgets what the call may write, so that the rest can be compared. */
static void blank_output(const struct game *game, int c, int rank, char *memory, const char *base)
{
    const struct call *call = &game->calls[c];
    const struct part *part = &game->parts[c][rank];
    size_t size = element_size(call);
    for (int b = 0; b < (receives_all_blocks(call) ? game->world->options.nranks : 1); b++)
        memset(memory + (part->recv - base) + part->recv_displs[b] * size, POISON, recv_elements(call, rank, b) * size);
}

static void judge_rest(const struct game *game, int c, int rank)
{
    const struct call *call = &game->calls[c];
    const struct part *part = &game->parts[c][rank];
    if (part->shared_memory && receives(call, rank)) {
        blank_output(game, c, rank, part->send_memory, part->send_memory);
        blank_output(game, c, rank, part->send_before, part->send_memory);
    }
    if (memcmp(part->send_memory, part->send_before, part->send_bytes) != 0) {
        print_error("%s: rank %d: the input or memory around it was written%s\n", describe(call, game->world), rank,
                    part->in_place ? " (in place)" : "");
        fail();
    }
    if (!part->recv_memory)
        return;
    if (receives(call, rank))
        blank_output(game, c, rank, part->recv_memory, part->recv_memory);
    for (size_t i = 0; i < part->recv_bytes; i++)
        if ((unsigned char)part->recv_memory[i] != POISON) {
            print_error("%s: rank %d: byte %td from its output was written\n", describe(call, game->world), rank,
                        part->recv_memory + i - part->recv);
            fail();
        }
}

/* All ranks have the same bits, whatever the order of summing was. */
static void judge_agreement(const struct game *game, int c)
{
    const struct call *call = &game->calls[c];
    for (int r = 1; r < game->world->options.nranks; r++)
        if (memcmp(game->parts[c][0].recv, game->parts[c][r].recv, call->count * element_size(call)) != 0) {
            print_error("%s: ranks 0 and %d have different bits\n", describe(call, game->world), r);
            fail();
        }
}

static void judge(const struct game *game, int c)
{
    const struct call *call = &game->calls[c];
    int n = game->world->options.nranks;
    if (call->row->collective == MOTET_BARRIER)
        return;
    bool known = call->exact || oracle_types[call->dtype].kind != ORACLE_FLOAT ||
                 !motet_collective_reduces(call->row->collective) ||
                 (call->row->order == MOTET_ORDER_CANONICAL && game->world->options.placement == SIM_ONE_HOST);
    for (int r = 0; r < n; r++)
        if (known && receives(call, r))
            judge_output(game, c, r);
    if (call->row->collective == MOTET_ALLREDUCE)
        judge_agreement(game, c);
    for (int r = 0; r < n; r++)
        judge_rest(game, c, r);
}

/* ---- Playing ---- */

/* One look at one rank. Returns whether anything happened. */
static bool visit(struct game *game, int rank)
{
    struct rank_state *state = &game->ranks[rank];
    motetComm_t comm = game->world->comms[rank];
    bool moved = false;
    if (!state->run)
        state->run = start(game, state->at, rank);
    motetResult_t result = motet_engine_progress(state->run, &moved);
    motet_comm_poll(comm, &moved);
    if (result == motetInProgress)
        return moved;
    if (result != motetSuccess) {
        print_error("%s: rank %d: %s\n", describe(&game->calls[state->at], game->world), rank, motet_error_text());
        fail();
    }
    if (game->calls[state->at].row->collective == MOTET_BARRIER && game->started[state->at] < game->world->options.nranks) {
        print_error("%s: rank %d left before all had come\n", describe(&game->calls[state->at], game->world), rank);
        fail();
    }
    motet_engine_end(state->run);
    state->run = NULL;
    state->at++;
    return true;
}

static void fail_stuck(const struct game *game)
{
    for (int r = 0; r < game->world->options.nranks; r++) {
        char text[200] = "done";
        if (game->ranks[r].run)
            motet_engine_describe(game->ranks[r].run, text, sizeof text);
        print_error("rank %d: call %d: %s\n", r, game->ranks[r].at, text);
    }
    for (int c = 0; c < game->ncalls; c++)
        print_error("call %d: %s\n", c, describe(&game->calls[c], game->world));
    fail_msg("stuck");
}

/* Visits ranks at random; now and then one rank is left alone for a while, so that others run ahead as far as they can. */
static void play(struct game *game)
{
    struct sim_world *world = game->world;
    int n = world->options.nranks, left = n, lonely = -1, idle = 0, patience = 2000 * n;
    memset(game->ranks, 0, sizeof game->ranks);
    memset(game->started, 0, sizeof game->started);
    for (int c = 0; c < game->ncalls; c++)
        for (int r = 0; r < n; r++)
            make_part(game, c, r);
    for (uint64_t turn = 0; left > 0; turn++) {
        if (turn % (uint64_t)(20 * n) == 0)
            lonely = (int)sim_random(world, (uint64_t)n + 1) - 1;
        int rank = (int)sim_random(world, (uint64_t)n);
        if (rank == lonely && sim_random(world, 40))
            continue;
        if (game->ranks[rank].at == game->ncalls) {
            bool moved = false;
            motet_comm_poll(world->comms[rank], &moved); /* its streams may hold what others wait for */
        } else if (visit(game, rank)) {
            idle = 0;
            left -= game->ranks[rank].at == game->ncalls;
        } else if (++idle > patience) {
            fail_stuck(game);
        }
    }
    for (int c = 0; c < game->ncalls; c++) {
        judge(game, c);
        for (int r = 0; r < n; r++)
            drop_part(&game->parts[c][r]);
    }
}

/* ---- Choosing calls ---- */

static const size_t some_counts[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097};
#define NCOUNTS (sizeof some_counts / sizeof some_counts[0])

struct kind {
    motetDataType_t dtype;
    motetRedOp_t op;
    bool exact;
};

static const struct kind kinds[] = {
    {motetInt32, motetSum, false},   {motetInt8, motetAvg, false},       {motetFloat32, motetSum, true},
    {motetFloat32, motetSum, false}, {motetBfloat16, motetSum, true},    {motetBfloat16, motetAvg, false},
    {motetFloat64, motetSum, false}, {motetUint8, motetMax, false},      {motetInt64, motetAvg, false},
    {motetFloat16, motetMin, false}, {motetFloat8e4m3, motetSum, false}, {motetComplex128, motetSum, true},
    {motetUint16, motetBxor, false}, {motetFloat32, motetAvg, false},    {motetFloat64, motetMax, false},
};
#define NKINDS (sizeof kinds / sizeof kinds[0])

static bool fits(const struct sim_world *world, const struct motet_algorithm *row)
{
    const motetComm_t comm = world->comms[0];
    struct motet_shape shape = {.nranks = comm->nranks, .nhosts = comm->nhosts, .host_first = comm->host_first};
    return !row->fits || row->fits(&shape);
}

static void choose_blocks(struct sim_world *world, struct call *call)
{
    int n = world->options.nranks;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            call->block[a][b] = sim_random(world, 4) ? some_counts[sim_random(world, NCOUNTS)] : 0;
}

static void choose_call(struct sim_world *world, const struct motet_algorithm *row, size_t count, const struct kind *kind,
                        struct call *call)
{
    memset(call, 0, sizeof *call);
    call->row = row;
    call->dtype = kind->dtype;
    call->op = motet_collective_reduces(row->collective) ? kind->op : motetSum;
    call->exact = kind->exact || (row->order != MOTET_ORDER_CANONICAL && row->collective != MOTET_ALLREDUCE);
    call->count = row->collective == MOTET_BARRIER ? 0 : count;
    call->root = motet_collective_has_root(row->collective) ? (int)sim_random(world, (uint64_t)world->options.nranks) : 0;
    assert_true(oracle_defined(call->dtype, call->op));
    call->premul = motet_collective_reduces(row->collective) && call->op == motetSum && oracle_types[call->dtype].parts == 1 &&
                   sim_random(world, 4) == 0;
    call->seed = sim_random(world, UINT64_MAX);
    call->counts = row->collective == MOTET_BARRIER || sim_random(world, 2) ? MOTET_COUNTS_EQUAL : row->counts;
    bool pairs = row->collective == MOTET_ALLTOALL || row->collective == MOTET_GATHER || row->collective == MOTET_SCATTER;
    if (pairs && call->counts == MOTET_COUNTS_ALL_KNOW)
        call->counts = MOTET_COUNTS_EQUAL; /* no call of these has counts that all know */
    if (call->counts != MOTET_COUNTS_EQUAL)
        choose_blocks(world, call);
}

static const struct motet_algorithm *random_row(struct sim_world *world)
{
    const struct motet_algorithm *row;
    do
        row = &motet_algorithms[sim_random(world, (uint64_t)motet_nalgorithms)];
    while (!fits(world, row));
    return row;
}

/* `count` by the row, and up to three calls of any row and count around it. */
static void play_around(struct sim_world *world, const struct motet_algorithm *row, size_t count, const struct kind *kind)
{
    static struct game game;
    memset(&game, 0, sizeof game);
    game.world = world;
    game.ncalls = 1 + (int)sim_random(world, MAX_CALLS);
    int mine = (int)sim_random(world, (uint64_t)game.ncalls);
    for (int c = 0; c < game.ncalls; c++) {
        bool any = c != mine;
        choose_call(world, any ? random_row(world) : row, any ? some_counts[sim_random(world, NCOUNTS - 3)] : count,
                    any ? &kinds[sim_random(world, NKINDS)] : kind, &game.calls[c]);
    }
    play(&game);
}

#endif
