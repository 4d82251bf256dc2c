/* SPDX-License-Identifier: Apache-2.0
 * Hand-made right schedules for tests of the verifier, as short as they can be. */
#ifndef MOTET_TESTS_UNIT_HANDMADE_H
#define MOTET_TESTS_UNIT_HANDMADE_H

#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_RANKS 16

typedef void build_function(struct motet_schedule *, const struct motet_shape *);
typedef void break_function(struct motet_schedule *schedules, int n);

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

#endif
