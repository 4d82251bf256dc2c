/* SPDX-License-Identifier: Apache-2.0
 * The verifier accepts hand-made right schedules and says of each kind of broken one what is wrong with it. */
#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_RANKS 16

typedef void build_function(struct motet_schedule *, const struct motet_shape *);
typedef void break_function(struct motet_schedule *schedules, int n);

/* ---- Right schedules, as short as they can be ---- */

static struct motet_step *add(struct motet_schedule *schedule, struct motet_step step)
{
    struct motet_step *added = motet_schedule_append(schedule);
    *added = step;
    return added;
}

static void all_reduce_one_shot(struct motet_schedule *s, const struct motet_shape *shape)
{
    motet_schedule_begin(s, shape, 1, 1);
    s->stage_chunks = 1;
    add(s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .to = motet_everybody(shape->nranks)});
    add(s, (struct motet_step){.dst = MOTET_OUTPUT, .src = MOTET_INPUT, .nsrc = 1, .n = 1, .from = motet_everybody(shape->nranks)});
}

static void all_reduce_two_shot(struct motet_schedule *s, const struct motet_shape *shape)
{
    struct motet_peers all = motet_everybody(shape->nranks);
    struct motet_span own = motet_range(shape->position);
    motet_schedule_begin(s, shape, 1, shape->nranks);
    s->stage_chunks = shape->nranks;
    add(s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .each = 1, .to = all});
    add(s, (struct motet_step){
               .dst = MOTET_OUTPUT, .src = MOTET_INPUT, .nsrc = 1, .n = 1, .dst_at = own, .src_at = own, .from = all, .to = all});
    add(s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1, .each = 1, .from = all});
}

/* Ranks must be a power of two. Accumulators pass through memory from round to round. */
static void all_reduce_doubling(struct motet_schedule *s, const struct motet_shape *shape)
{
    int plane = MOTET_INPUT, rounds = 0;
    motet_schedule_begin(s, shape, 1, 1);
    for (int k = 1; k < shape->nranks; k *= 2, rounds++) {
        int next = 2 * k == shape->nranks ? MOTET_OUTPUT : MOTET_PARTIAL + rounds % 2;
        motet_send(s, (enum motet_plane)plane, 0, 1, shape->position ^ k);
        motet_recv_reduce(s, (enum motet_plane)next, (enum motet_plane)plane, 0, 1, shape->position ^ k, rounds > 0);
        motet_end_round(s);
        plane = next;
    }
    if (shape->nranks == 1)
        motet_copy_chunks(s, MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
    s->stage_chunks = rounds;
}

static void all_reduce_ring(struct motet_schedule *s, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position, next = motet_mod(me + 1, n), previous = motet_mod(me - 1, n);
    motet_schedule_begin(s, shape, 1, n);
    s->stage_chunks = 2 * n;
    motet_send(s, MOTET_INPUT, me, 1, next);
    for (int i = 1; i < n; i++) {
        motet_recv_reduce(s, i == n - 1 ? MOTET_OUTPUT : MOTET_NONE, MOTET_INPUT, motet_mod(me - i, n), 1, previous, i > 1);
        s->steps[s->nsteps - 1].to = motet_peer(next);
    }
    for (int i = 0; i < n - 1; i++) {
        motet_recv(s, MOTET_OUTPUT, motet_mod(me - i, n), 1, previous);
        if (i < n - 2)
            s->steps[s->nsteps - 1].to = motet_peer(next);
    }
}

static void reduce_direct(struct motet_schedule *s, const struct motet_shape *shape)
{
    motet_schedule_begin(s, shape, 1, 1);
    s->stage_chunks = 1;
    if (shape->position != shape->root)
        motet_send(s, MOTET_INPUT, 0, 1, shape->root);
    else
        add(s, (struct motet_step){
                   .dst = MOTET_OUTPUT, .src = MOTET_INPUT, .nsrc = 1, .n = 1, .from = motet_everybody(shape->nranks)});
}

static void broadcast_chain(struct motet_schedule *s, const struct motet_shape *shape)
{
    int n = shape->nranks, distance = motet_mod(shape->position - shape->root, n);
    motet_schedule_begin(s, shape, 1, 1);
    s->stage_chunks = 1;
    struct motet_step *step = add(s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1});
    if (distance == 0) {
        step->src = MOTET_INPUT;
        step->nsrc = 1;
    } else {
        step->from = motet_peer(motet_mod(shape->position - 1, n));
    }
    if (distance < n - 1)
        step->to = motet_peer(motet_mod(shape->position + 1, n));
}

static void all_gather_bruck(struct motet_schedule *s, const struct motet_shape *shape)
{
    int n = shape->nranks, me = shape->position;
    motet_schedule_begin(s, shape, n, 1);
    s->stage_chunks = n;
    motet_copy_chunks(s, MOTET_OUTPUT, me, MOTET_INPUT, me, 1);
    motet_end_round(s);
    for (int k = 1; k < n; k *= 2) {
        int count = k < n - k ? k : n - k;
        motet_send(s, MOTET_OUTPUT, me, count, motet_mod(me - k, n));
        motet_recv(s, MOTET_OUTPUT, me + k, count, motet_mod(me + k, n));
        motet_end_round(s);
    }
}

static void reduce_scatter_direct(struct motet_schedule *s, const struct motet_shape *shape)
{
    struct motet_span own = motet_range(shape->position);
    motet_schedule_begin(s, shape, shape->nranks, 1);
    s->stage_chunks = shape->nranks;
    add(s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .each = 1, .to = motet_everybody(shape->nranks)});
    add(s, (struct motet_step){.dst = MOTET_OUTPUT,
                               .src = MOTET_INPUT,
                               .nsrc = 1,
                               .n = 1,
                               .dst_at = own,
                               .src_at = own,
                               .from = motet_everybody(shape->nranks)});
}

static void all_to_all_direct(struct motet_schedule *s, const struct motet_shape *shape)
{
    motet_schedule_begin(s, shape, shape->nranks, 1);
    s->stage_chunks = shape->nranks;
    add(s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .each = 1, .to = motet_everybody(shape->nranks)});
    add(s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1, .each = 1, .from = motet_everybody(shape->nranks)});
    motet_copy_chunks(s, MOTET_OUTPUT, shape->position, MOTET_INPUT, shape->position, 1);
}

static void gather_direct(struct motet_schedule *s, const struct motet_shape *shape)
{
    motet_schedule_begin(s, shape, shape->nranks, 1);
    s->stage_chunks = 1;
    if (shape->position != shape->root) {
        motet_send(s, MOTET_INPUT, shape->position, 1, shape->root);
    } else {
        add(s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1, .each = 1, .from = motet_everybody(shape->nranks)});
        motet_copy_chunks(s, MOTET_OUTPUT, shape->root, MOTET_INPUT, shape->root, 1);
    }
}

static void scatter_direct(struct motet_schedule *s, const struct motet_shape *shape)
{
    motet_schedule_begin(s, shape, shape->nranks, 1);
    s->stage_chunks = shape->nranks;
    if (shape->position != shape->root) {
        motet_recv(s, MOTET_OUTPUT, shape->position, 1, shape->root);
    } else {
        add(s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .each = 1, .to = motet_everybody(shape->nranks)});
        motet_copy_chunks(s, MOTET_OUTPUT, shape->root, MOTET_INPUT, shape->root, 1);
    }
}

static void barrier_dissemination(struct motet_schedule *s, const struct motet_shape *shape)
{
    motet_schedule_begin(s, shape, 1, 1);
    for (int k = 1; k < shape->nranks; k *= 2) {
        add(s, (struct motet_step){.to = motet_peer(motet_mod(shape->position + k, shape->nranks))});
        add(s, (struct motet_step){.from = motet_peer(motet_mod(shape->position - k, shape->nranks))});
        motet_end_round(s);
    }
}

/* Two ranks; each reads its input again after it has written its output, but asks for a copy of it first. */
static void all_reduce_twice(struct motet_schedule *s, const struct motet_shape *shape)
{
    int peer = 1 - shape->position;
    motet_schedule_begin(s, shape, 1, 1);
    s->stage_chunks = 2;
    motet_send(s, MOTET_INPUT, 0, 1, peer);
    motet_copy_chunks(s, MOTET_SCRATCH, 0, MOTET_INPUT, 0, 1);
    motet_recv_reduce(s, MOTET_OUTPUT, MOTET_INPUT, 0, 1, peer, false);
    motet_end_round(s);
    motet_send(s, MOTET_SCRATCH, 0, 1, peer);
    motet_recv(s, MOTET_SCRATCH + 1, 0, 1, peer);
}

enum base {
    ONE_SHOT,
    TWO_SHOT,
    DOUBLING,
    RING,
    REDUCE,
    BROADCAST,
    GATHER_ALL,
    SCATTER_SUM,
    EXCHANGE,
    GATHER,
    SCATTER,
    BARRIER,
    TWICE,
    NBASES
};

static const struct motet_algorithm bases[NBASES] = {
    [ONE_SHOT] = {"one_shot", "", MOTET_ALLREDUCE, MOTET_ORDER_CANONICAL, MOTET_COUNTS_EQUAL, NULL, all_reduce_one_shot},
    [TWO_SHOT] = {"two_shot", "", MOTET_ALLREDUCE, MOTET_ORDER_CANONICAL, MOTET_COUNTS_EQUAL, NULL, all_reduce_two_shot},
    [DOUBLING] = {"doubling", "", MOTET_ALLREDUCE, MOTET_ORDER_CANONICAL, MOTET_COUNTS_EQUAL, NULL, all_reduce_doubling},
    [RING] = {"ring", "", MOTET_ALLREDUCE, MOTET_ORDER_ROTATED, MOTET_COUNTS_EQUAL, NULL, all_reduce_ring},
    [REDUCE] = {"direct", "", MOTET_REDUCE, MOTET_ORDER_CANONICAL, MOTET_COUNTS_EQUAL, NULL, reduce_direct},
    [BROADCAST] = {"chain", "", MOTET_BROADCAST, MOTET_ORDER_NONE, MOTET_COUNTS_EQUAL, NULL, broadcast_chain},
    [GATHER_ALL] = {"bruck", "", MOTET_ALLGATHER, MOTET_ORDER_NONE, MOTET_COUNTS_ALL_KNOW, NULL, all_gather_bruck},
    [SCATTER_SUM] = {"direct", "", MOTET_REDUCESCATTER, MOTET_ORDER_CANONICAL, MOTET_COUNTS_ALL_KNOW, NULL, reduce_scatter_direct},
    [EXCHANGE] = {"direct", "", MOTET_ALLTOALL, MOTET_ORDER_NONE, MOTET_COUNTS_PAIR_KNOWS, NULL, all_to_all_direct},
    [GATHER] = {"direct", "", MOTET_GATHER, MOTET_ORDER_NONE, MOTET_COUNTS_PAIR_KNOWS, NULL, gather_direct},
    [SCATTER] = {"direct", "", MOTET_SCATTER, MOTET_ORDER_NONE, MOTET_COUNTS_PAIR_KNOWS, NULL, scatter_direct},
    [BARRIER] = {"dissemination", "", MOTET_BARRIER, MOTET_ORDER_NONE, MOTET_COUNTS_EQUAL, NULL, barrier_dissemination},
    [TWICE] = {"twice", "", MOTET_ALLREDUCE, MOTET_ORDER_CANONICAL, MOTET_COUNTS_EQUAL, NULL, all_reduce_twice},
};

/* ---- Accepted ---- */

/* Verifies a base on n ranks after `damage` (may be NULL) was done to the expanded schedules. */
static void verify(enum base base, int n, int root, break_function *damage, const int *rank_at, struct motet_verdict *verdict)
{
    int host_first[2] = {0, n};
    struct motet_shape shape = {.nranks = n, .root = root, .nhosts = 1, .host_first = host_first};
    struct motet_verify_options options = {
        .seed = 7, .interleavings = n <= MOTET_VERIFY_ALL_MIXES ? 1 << n : 3, .rank_at = rank_at};
    struct motet_schedule schedules[MAX_RANKS] = {0};
    for (int p = 0; p < n; p++) {
        shape.position = p;
        bases[base].build(&schedules[p], &shape);
        motet_schedule_expand(&schedules[p]);
    }
    if (damage)
        damage(schedules, n);
    assert_int_equal(motet_verify_schedules(&bases[base], &shape, schedules, &options, verdict), motetSuccess);
    for (int p = 0; p < n; p++)
        motet_schedule_free(&schedules[p]);
}

static bool ranks_fit(enum base base, int n)
{
    return base == DOUBLING ? !(n & (n - 1)) : base == TWICE ? n == 2 : base == RING ? n > 1 : true;
}

static void test_verify_right_schedules_are_accepted_on_all_rank_counts_and_roots(void **state)
{
    (void)state;
    for (int base = 0; base < NBASES; base++) {
        for (int n = 1; n <= MAX_RANKS; n++) {
            for (int root = 0; root < (motet_collective_has_root(bases[base].collective) ? n : 1) && ranks_fit(base, n); root++) {
                struct motet_verdict verdict;
                verify(base, n, root, NULL, NULL, &verdict);
                if (!verdict.ok)
                    fail_msg("%s", verdict.text);
                assert_string_equal(verdict.text, "");
                assert_true(verdict.unbuffered_ok);
                /* A ring of two ranks adds both inputs in rank order. */
                enum motet_order order = base == RING && n == 2 ? MOTET_ORDER_CANONICAL : bases[base].order;
                assert_int_equal(verdict.order, order);
                motet_verdict_free(&verdict);
            }
        }
    }
}

static void test_verdict_of_two_shot_counts_what_moves(void **state)
{
    (void)state;
    struct motet_verdict verdict;
    verify(TWO_SHOT, 5, 0, NULL, NULL, &verdict);
    assert_true(verdict.ok);
    assert_int_equal(verdict.rounds, 1);
    assert_int_equal(verdict.sends, 5); /* four of raw chunks, one of the own result to all */
    assert_int_equal(verdict.nchunks, 5);
    assert_int_equal(verdict.chunks_total, 5 * 8);
    for (int p = 0; p < 5; p++) {
        assert_int_equal(verdict.chunks_sent[p], 8);
        assert_int_equal(verdict.wide_sent[p], 0);
    }
    assert_true(verdict.direct_ok);
    assert_false(verdict.direct_ok_in_place); /* what others still read of the input becomes output */
    motet_verdict_free(&verdict);
}

static void test_verdict_of_a_ring_counts_accumulators_and_refuses_direct_reading(void **state)
{
    (void)state;
    struct motet_verdict verdict;
    verify(RING, 6, 0, NULL, NULL, &verdict);
    assert_true(verdict.ok);
    for (int p = 0; p < 6; p++) {
        assert_int_equal(verdict.chunks_sent[p], 2 * 5);
        assert_int_equal(verdict.wide_sent[p], 4); /* all but the raw first and the finished last of the reduce-scatter */
    }
    assert_false(verdict.direct_ok); /* partial sums exist in messages only */
    motet_verdict_free(&verdict);
}

static void test_verdict_order_is_over_ranks_not_positions(void **state)
{
    (void)state;
    static const int swapped_halves[] = {2, 3, 0, 1}, dealt[] = {0, 2, 1, 3};
    struct motet_verdict verdict;
    verify(DOUBLING, 4, 0, NULL, swapped_halves, &verdict);
    assert_int_equal(verdict.order, MOTET_ORDER_CANONICAL); /* a sum does not depend on the order of two operands */
    motet_verdict_free(&verdict);
    verify(DOUBLING, 4, 0, NULL, dealt, &verdict);
    assert_int_equal(verdict.order, MOTET_ORDER_ROTATED);
    motet_verdict_free(&verdict);
}

/* ---- Rejected ---- */

static void drop(struct motet_schedule *schedule, int s)
{
    memmove(&schedule->steps[s], &schedule->steps[s + 1], (size_t)(schedule->nsteps - s - 1) * sizeof(schedule->steps[0]));
    schedule->nsteps--;
}

static void restart(struct motet_schedule *schedule)
{
    schedule->nsteps = 0;
}

static void write_the_input(struct motet_schedule *s, int n)
{
    (void)n;
    s[1].steps[1].dst = MOTET_INPUT;
}

static void forget_the_copy(struct motet_schedule *s, int n)
{
    (void)n;
    drop(&s[2], 0);
}

static void write_twice_in_a_round(struct motet_schedule *s, int n)
{
    (void)n;
    motet_copy_chunks(&s[1], MOTET_OUTPUT, 1, MOTET_INPUT, 1, 1);
}

static void join_rounds(struct motet_schedule *s, int n)
{
    (void)n;
    s[3].steps[1].flags &= (uint8_t)~MOTET_ENDS_ROUND;
}

static void read_after_the_write_of_the_same_round_in_place(struct motet_schedule *s, int n)
{
    (void)n;
    struct motet_step first = s[1].steps[0];
    s[1].steps[0] = s[1].steps[1];
    s[1].steps[1] = first;
}

static void send_the_input_after_it_became_output(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[3].src = MOTET_INPUT;
}

static void combine_in_another_order(struct motet_schedule *s, int n)
{
    (void)n; /* of three ranks the last adds (1 + 2) first */
    restart(&s[2]);
    motet_send(&s[2], MOTET_INPUT, 0, 1, 0);
    motet_send(&s[2], MOTET_INPUT, 0, 1, 1);
    motet_recv_reduce(&s[2], MOTET_PARTIAL, MOTET_INPUT, 0, 1, 1, false);
    motet_end_round(&s[2]);
    motet_recv_reduce(&s[2], MOTET_OUTPUT, MOTET_PARTIAL, 0, 1, 0, false);
    s[2].stage_chunks = s[1].stage_chunks = s[0].stage_chunks = 2;
}

static void add_one_input_twice(struct motet_schedule *s, int n)
{
    (void)n; /* two ranks: the sum is added to the peer's input again */
    for (int p = 0; p < 2; p++) {
        restart(&s[p]);
        motet_send(&s[p], MOTET_INPUT, 0, 1, 1 - p);
        motet_recv_reduce(&s[p], MOTET_PARTIAL, MOTET_INPUT, 0, 1, 1 - p, false);
        motet_end_round(&s[p]);
        motet_send(&s[p], MOTET_INPUT, 0, 1, 1 - p);
        motet_recv_reduce(&s[p], MOTET_OUTPUT, MOTET_PARTIAL, 0, 1, 1 - p, false);
        s[p].stage_chunks = 2;
    }
}

static void leave_one_out(struct motet_schedule *s, int n)
{
    (void)n; /* position 0 of three stores what 2 sent elsewhere */
    s[0].steps[1].from = motet_peer(1);
    motet_recv(&s[0], MOTET_SCRATCH, 0, 1, 2);
}

static void combine_after_rounding(struct motet_schedule *s, int n)
{
    for (int p = 0; p < n; p++) {
        s[p].steps[1].dst = MOTET_SCRATCH;
        s[p].steps[2].src = s[p].steps[3].src = MOTET_SCRATCH;
        s[p].steps[3].flags &= (uint8_t)~MOTET_WIDE;
    }
}

static void forget_wide(struct motet_schedule *s, int n)
{
    (void)n;
    s[2].steps[3].flags &= (uint8_t)~MOTET_WIDE;
}

static void take_raw_for_wide(struct motet_schedule *s, int n)
{
    (void)n;
    s[2].steps[1].flags |= MOTET_WIDE;
}

static void widen_a_finished_value(struct motet_schedule *s, int n)
{
    (void)n;
    motet_end_round(&s[1]);
    motet_copy_chunks(&s[1], MOTET_PARTIAL, 0, MOTET_OUTPUT, 0, 1);
}

static void gather_in_accumulators(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[0].dst = MOTET_PARTIAL;
}

static void add_while_gathering(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[2].src = MOTET_OUTPUT;
    s[0].steps[2].nsrc = 1;
}

static void drop_a_send(struct motet_schedule *s, int n)
{
    (void)n;
    drop(&s[1], 0);
}

static void drop_a_receive(struct motet_schedule *s, int n)
{
    (void)n;
    drop(&s[1], 3);
}

static void send_fewer(struct motet_schedule *s, int n)
{
    (void)n;
    s[1].steps[3].n = 1;
}

static void send_another_part(struct motet_schedule *s, int n)
{
    (void)n;
    s[1].steps[0].src_at.first = s[1].steps[0].dst_at.first = 2;
}

static void send_another_block(struct motet_schedule *s, int n)
{
    (void)n;
    s[1].steps[1].src_at.first = s[1].steps[1].dst_at.first = 3;
}

static void copy_another_block(struct motet_schedule *s, int n)
{
    (void)n;
    s[1].steps[0].src_at.first = 2;
}

static void exchange_with_the_wrong_peers(struct motet_schedule *s, int n)
{
    (void)n; /* position 0 gives each peer the block of the other */
    s[0].steps[0].src_at.first = s[0].steps[0].dst_at.first = 2;
    s[0].steps[1].src_at.first = s[0].steps[1].dst_at.first = 1;
}

static void wait_for_each_other(struct motet_schedule *s, int n)
{
    for (int p = 0; p < n; p++) {
        struct motet_step send = s[p].steps[0];
        s[p].steps[0] = s[p].steps[1];
        s[p].steps[1] = send;
        s[p].steps[0].flags |= MOTET_ENDS_ROUND;
    }
}

static void wait_for_each_other_in_place(struct motet_schedule *s, int n)
{
    for (int p = 0; p < n; p++) { /* the write of out[0] waits for the read of in[0], which waits for what the peer's write sends */
        restart(&s[p]);
        motet_copy_chunks(&s[p], MOTET_SCRATCH + 1, 0, MOTET_INPUT, 0, 1);
        motet_end_round(&s[p]);
        motet_recv_reduce(&s[p], MOTET_SCRATCH, MOTET_INPUT, 0, 1, 1 - p, false);
        motet_copy_chunks(&s[p], MOTET_OUTPUT, 0, MOTET_SCRATCH + 1, 0, 1);
        s[p].steps[s[p].nsteps - 1].to = motet_peer(1 - p);
        motet_end_round(&s[p]);
        motet_copy_chunks(&s[p], MOTET_OUTPUT, 0, MOTET_SCRATCH, 0, 1);
    }
}

static void stage_too_little(struct motet_schedule *s, int n)
{
    for (int p = 0; p < n; p++)
        s[p].stage_chunks = 2;
}

static void stage_unequal(struct motet_schedule *s, int n)
{
    (void)n;
    s[2].stage_chunks++;
}

static void send_too_often(struct motet_schedule *s, int n)
{
    for (int i = 0; i < 4 * n + 64; i++) {
        add(&s[0], (struct motet_step){.to = motet_peer(1)});
        add(&s[1], (struct motet_step){.from = motet_peer(0)});
    }
}

static void write_an_output_that_is_not_there(struct motet_schedule *s, int n)
{
    (void)n;
    motet_copy_chunks(&s[0], MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
}

static void write_the_block_of_another(struct motet_schedule *s, int n)
{
    (void)n;
    motet_copy_chunks(&s[0], MOTET_OUTPUT, 1, MOTET_INPUT, 1, 1);
}

static void broadcast_from_another_rank(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[0] = (struct motet_step){.dst = MOTET_OUTPUT, .src = MOTET_INPUT, .nsrc = 1, .n = 1, .from = s[0].steps[0].from};
}

static void exchange_own_block_wrongly(struct motet_schedule *s, int n)
{
    (void)n;
    struct motet_schedule *first = &s[0]; /* swaps what it receives from 1 with its own block, through scratch */
    for (int i = 0; i < first->nsteps; i++) {
        if (first->steps[i].dst == MOTET_OUTPUT && first->steps[i].dst_at.first < 2)
            first->steps[i].dst = MOTET_SCRATCH;
    }
    motet_end_round(first);
    motet_copy_chunks(first, MOTET_OUTPUT, 0, MOTET_SCRATCH, 1, 1);
    motet_copy_chunks(first, MOTET_OUTPUT, 1, MOTET_SCRATCH, 0, 1);
}

static void leave_the_output_empty(struct motet_schedule *s, int n)
{
    (void)n;
    s[2].steps[0].dst = MOTET_SCRATCH;
}

static void leave_the_barrier_early(struct motet_schedule *s, int n)
{
    for (int p = 0; p < n; p++)
        s[p].nsteps -= 2;
}

static void name_a_peer_twice(struct motet_schedule *s, int n)
{
    s[0].steps[0].to = (struct motet_peers){.first = 1, .n = n, .stride = 2};
}

static void name_no_such_plane(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[1].nsrc = 9;
}

static void read_two_inputs(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[1].nsrc = 2;
    s[0].steps[1].src = MOTET_SCRATCH + 2; /* the next plane is a partial one */
}

static void forget_the_number_of_planes(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[0].nsrc = 0;
}

static void move_more_than_there_is(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[0].n = 2;
}

static void receive_in_vain(struct motet_schedule *s, int n)
{
    (void)n;
    s[2].steps[0] = (struct motet_step){.n = 1, .from = s[2].steps[0].from};
}

static void send_nothing(struct motet_schedule *s, int n)
{
    (void)n;
    s[0].steps[0].src = MOTET_NONE;
    s[0].steps[0].nsrc = 0;
}

static void build_for_another_position(struct motet_schedule *s, int n)
{
    (void)n;
    s[1].position = 0;
}

static void cut_into_other_blocks(struct motet_schedule *s, int n)
{
    for (int p = 0; p < n; p++) {
        s[p].nblocks = 1;
        s[p].parts = n;
    }
}

static void rotate_in_one_message(struct motet_schedule *s, int n)
{
    (void)n;
    motet_copy_chunks(&s[0], MOTET_SCRATCH, 0, MOTET_INPUT, 0, 3);
    motet_end_round(&s[0]);
    motet_copy_chunks(&s[0], MOTET_SCRATCH, 0, MOTET_SCRATCH, 1, 2);
}

static const struct {
    enum base base;
    int n;
    break_function *damage;
    const char *sentence;
} broken[] = {
    {ONE_SHOT, 3, write_the_input, "AllReduce one_shot, 3 ranks on 1 host: position 1, step 1: writes the input"},
    {GATHER_ALL, 4, forget_the_copy,
     "AllGather bruck, 4 ranks on 1 host: position 2, step 0, chunk 2: reads out[2], where nothing was written"},
    {TWO_SHOT, 4, write_twice_in_a_round, "position 1, step 7, chunk 1: writes out[1], as step 3 of the same round does"},
    {DOUBLING, 4, join_rounds, "position 3, step 2, chunk 0: reads partial0[0], which step 1 of the same round writes"},
    {ONE_SHOT, 3, read_after_the_write_of_the_same_round_in_place,
     "position 1, step 1, chunk 0: reads in[0] in place, which step 0"},
    {TWICE, 2, send_the_input_after_it_became_output, "position 0, step 3, chunk 0: uses another value than out of place"},
    {ONE_SHOT, 3, combine_in_another_order, "position 2, chunk 0: the result is combined in another order"},
    {ONE_SHOT, 2, add_one_input_twice, "adds the input of one rank twice"},
    {ONE_SHOT, 3, leave_one_out, "position 0, chunk 0: the result lacks the input of position 2"},
    {DOUBLING, 4, combine_after_rounding, "combines a value that was finished (rounded) before"},
    {DOUBLING, 4, forget_wide, "position 2, step 3: takes what position 0 sends in its step 2 for finished or raw data"},
    {DOUBLING, 4, take_raw_for_wide, "position 2, step 1: takes what position 3 sends in its step 0 for accumulators"},
    {ONE_SHOT, 3, widen_a_finished_value, "position 1, step 2, chunk 0: finishes (rounds) a value for the second time"},
    {GATHER_ALL, 4, gather_in_accumulators, "position 0, step 0: uses accumulators, but this collective only moves data"},
    {GATHER_ALL, 4, add_while_gathering, "position 0, step 2: combines values, but this collective only moves data"},
    {ONE_SHOT, 3, drop_a_send, "waits for a message that position 1 never sends"},
    {DOUBLING, 4, drop_a_receive, "position 3, step 2: sends a message that position 1 never receives"},
    {GATHER_ALL, 4, send_fewer, "expects 2 chunks from position 1, which sends 1 in its step 3"},
    {TWO_SHOT, 4, send_another_part, "takes chunk 2 of position 1, which may have another length"},
    {GATHER_ALL, 4, send_another_block, "takes chunk 3 of position 1, which may have another length"},
    {GATHER_ALL, 4, copy_another_block, "position 1, step 0, chunk 1: puts chunk 2, which may have another length, in chunk 1"},
    {EXCHANGE, 4, exchange_with_the_wrong_peers, "takes a block of position 0 whose count it cannot know"},
    {DOUBLING, 2, wait_for_each_other, "deadlock: waits for step 1 of position"},
    {ONE_SHOT, 2, wait_for_each_other_in_place, "cannot run (in place)"},
    {GATHER_ALL, 4, stage_too_little, "sends 3 chunks, but stage_chunks is 2"},
    {GATHER_ALL, 4, stage_unequal, "position 2: parts and stage_chunks are 1 and 5 here, 1 and 4 at position 0"},
    {ONE_SHOT, 3, send_too_often, "position 0: has 77 sends, more than 4 * nranks + 64"},
    {REDUCE, 4, write_an_output_that_is_not_there, "writes out[0], but only the root has an output"},
    {GATHER, 4, write_an_output_that_is_not_there, "writes out[0], but only the root has an output"},
    {SCATTER_SUM, 4, write_the_block_of_another, "writes out[1], but the output holds only the own block"},
    {SCATTER, 4, write_the_block_of_another, "writes out[1], but the output holds only the own block"},
    {BARRIER, 4, write_an_output_that_is_not_there, "writes out[0], but a barrier has no output"},
    {BROADCAST, 4, broadcast_from_another_rank, "combines values, but this collective only moves data"},
    {EXCHANGE, 3, exchange_own_block_wrongly, "may have another length"},
    {BROADCAST, 4, leave_the_output_empty, "position 2, chunk 0: the output was never written"},
    {BARRIER, 5, leave_the_barrier_early, "leaves the barrier without having heard of position"},
    {ONE_SHOT, 4, name_a_peer_twice, "position 0, step 0: names a peer twice"},
    {ONE_SHOT, 3, name_no_such_plane, "position 0, step 1: names a plane that does not exist"},
    {ONE_SHOT, 3, read_two_inputs, "position 0, step 1: names a plane that does not exist"},
    {ONE_SHOT, 3, forget_the_number_of_planes, "position 0, step 0: has 0 local planes from in"},
    {ONE_SHOT, 3, move_more_than_there_is, "position 0, step 0: has 2 chunks of 1"},
    {BROADCAST, 4, receive_in_vain, "position 2, step 0: receives data and drops it"},
    {ONE_SHOT, 3, send_nothing, "position 0, step 0: has nothing to send or store"},
    {ONE_SHOT, 3, build_for_another_position, "position 1: the schedule was built for another shape"},
    {GATHER_ALL, 4, cut_into_other_blocks, "the schedule has 1 blocks"},
};

static void test_verify_broken_schedules_are_rejected_with_the_reason(void **state)
{
    (void)state;
    int failures = 0;
    for (size_t b = 0; b < sizeof(broken) / sizeof(broken[0]); b++) {
        struct motet_verdict verdict;
        verify(broken[b].base, broken[b].n, 1 % broken[b].n, broken[b].damage, NULL, &verdict);
        if (!strstr(verdict.text, broken[b].sentence)) {
            print_error("says \"%s\"\nnot  \"%s\"\n", verdict.text, broken[b].sentence);
            failures++;
        }
        assert_false(verdict.ok && failures == 0);
        motet_verdict_free(&verdict);
    }
    assert_int_equal(failures, 0);
}

/* A row that serves only equal counts may permute blocks. */
static void assert_rejected_with_equal_counts(break_function *damage, const char *sentence)
{
    struct motet_algorithm equal = bases[EXCHANGE];
    int host_first[2] = {0, 3};
    struct motet_shape shape = {.nranks = 3, .nhosts = 1, .host_first = host_first};
    struct motet_schedule schedules[3] = {0};
    struct motet_verdict verdict;
    equal.counts = MOTET_COUNTS_EQUAL;
    for (int p = 0; p < 3; p++) {
        shape.position = p;
        equal.build(&schedules[p], &shape);
        motet_schedule_expand(&schedules[p]);
    }
    damage(schedules, 3);
    assert_int_equal(motet_verify_schedules(&equal, &shape, schedules, NULL, &verdict), motetSuccess);
    assert_false(verdict.ok);
    if (!strstr(verdict.text, sentence))
        fail_msg("says \"%s\"\ninstead of \"%s\"", verdict.text, sentence);
    motet_verdict_free(&verdict);
    for (int p = 0; p < 3; p++)
        motet_schedule_free(&schedules[p]);
}

static void test_verify_wrong_block_of_equal_counts_is_rejected_by_its_value(void **state)
{
    (void)state;
    assert_rejected_with_equal_counts(exchange_own_block_wrongly,
                                      "position 0, chunk 0: the output is chunk 0 of position 1's input");
}

static void test_verify_rotation_within_one_message_is_rejected(void **state)
{
    (void)state;
    assert_rejected_with_equal_counts(rotate_in_one_message,
                                      "writes scratch0[1], which it reads for another chunk of the same message");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify_right_schedules_are_accepted_on_all_rank_counts_and_roots),
        cmocka_unit_test(test_verdict_of_two_shot_counts_what_moves),
        cmocka_unit_test(test_verdict_of_a_ring_counts_accumulators_and_refuses_direct_reading),
        cmocka_unit_test(test_verdict_order_is_over_ranks_not_positions),
        cmocka_unit_test(test_verify_broken_schedules_are_rejected_with_the_reason),
        cmocka_unit_test(test_verify_wrong_block_of_equal_counts_is_rejected_by_its_value),
        cmocka_unit_test(test_verify_rotation_within_one_message_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
