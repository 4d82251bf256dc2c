/* SPDX-License-Identifier: Apache-2.0
 * Plans: where messages are found, which writes wait for which reads, which sends may be read in place. On schedules made by hand, where
 * the answer is known, and on every row of the table, where both ends must agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "plan.h"
#include "region.h"

#define MAX_RANKS 129

/* ---- Schedules made by hand ---- */

static void (*by_hand)(struct motet_schedule *schedule, int position);
static int hand_parts;

static void build_by_hand(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    motet_schedule_begin(schedule, shape, 1, hand_parts);
    schedule->stage_chunks = 8;
    by_hand(schedule, shape->position);
}

static const struct motet_algorithm hand = {.name = "hand", .collective = MOTET_ALLREDUCE, .build = build_by_hand};

static struct motet_plan *plan_of(int nranks, int position, int parts, void (*build)(struct motet_schedule *, int))
{
    const int host_first[2] = {0, nranks};
    struct motet_shape shape = {.nranks = nranks, .position = position, .nhosts = 1, .host_first = host_first};
    struct motet_plan *plan;
    by_hand = build;
    hand_parts = parts;
    assert_int_equal(motet_plan_build(&hand, &shape, 64, &plan), motetSuccess);
    return plan;
}

/* 1 sends chunk 0 to 0 and 2, then chunks 1 and 2 to 2, then a signal to 0. */
static void several_messages(struct motet_schedule *schedule, int position)
{
    if (position == 1) {
        struct motet_step *both = motet_schedule_append(schedule);
        *both = (struct motet_step){.to = {.first = 0, .n = 3, .stride = 1}, .src = MOTET_INPUT, .nsrc = 1, .n = 1};
        motet_send(schedule, MOTET_INPUT, 1, 2, 2);
        *motet_schedule_append(schedule) = (struct motet_step){.to = motet_peer(0)};
    } else if (position == 0) {
        motet_recv(schedule, MOTET_OUTPUT, 0, 1, 1);
        *motet_schedule_append(schedule) = (struct motet_step){.from = motet_peer(1)};
    } else {
        motet_recv(schedule, MOTET_OUTPUT, 0, 1, 1);
        motet_recv(schedule, MOTET_OUTPUT, 1, 2, 1);
    }
}

static void test_plan_messages_are_numbered_as_their_sender_does(void **state)
{
    (void)state;
    struct motet_plan *p0 = plan_of(3, 0, 3, several_messages), *p1 = plan_of(3, 1, 3, several_messages),
                      *p2 = plan_of(3, 2, 3, several_messages);
    assert_int_equal(p1->nsteps, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(p1->steps[i].slot, i);
    assert_int_equal(p1->steps[0].stage_at, 0);
    assert_int_equal(p1->steps[1].stage_at, 1);
    assert_int_equal(p1->steps[2].stage_at, 3);
    assert_int_equal(p1->steps[0].ntargets, 2);
    assert_int_equal(p1->targets[0], 0);
    assert_int_equal(p1->targets[1], 2);
    assert_int_equal(p1->nreaders, 2);
    assert_int_equal(p1->nwriters, 0);
    assert_int_equal(p0->sources[0].slot, 0);
    assert_int_equal(p0->sources[1].slot, 2);
    assert_int_equal(p2->sources[0].slot, 0);
    assert_int_equal(p2->sources[1].slot, 1);
    assert_int_equal(p2->sources[1].stage_at, 1);
    assert_int_equal(p2->steps[0].slot, -1);
    assert_int_equal(p2->nwriters, 1);
    assert_int_equal(p2->writers[0], 1);
    motet_plan_free(p0);
    motet_plan_free(p1);
    motet_plan_free(p2);
}

/* 2 combines what 4, 0, 3 and 1 send, named in this order, with its own input. */
static void cyclic_reduction(struct motet_schedule *schedule, int position)
{
    if (position != 2) {
        motet_send(schedule, MOTET_INPUT, 0, 1, 2);
        return;
    }
    *motet_schedule_append(schedule) =
        (struct motet_step){.from = {.first = 4, .n = 5, .stride = 1}, .src = MOTET_INPUT, .nsrc = 1, .dst = MOTET_OUTPUT, .n = 1};
}

static void test_plan_operands_stand_in_position_order(void **state)
{
    (void)state;
    struct motet_plan *plan = plan_of(5, 2, 1, cyclic_reduction);
    const int wanted[] = {0, 1, 3, 4};
    assert_int_equal(plan->steps[0].nsources, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(plan->sources[i].peer, wanted[i]);
    assert_int_equal(plan->steps[0].local_at, 2);
    assert_true(plan->steps[0].finishes);
    assert_int_equal(plan->planes, 1u << MOTET_INPUT | 1u << MOTET_OUTPUT);
    motet_plan_free(plan);
}

/* Steps of one round on position 0: 0 sends in[0], 1 sends in[1], 2 receives out[0], 3 receives out[1], 4 copies scratch0[2] to out[2];
 * next round: 5 sends in[2], 6 receives into scratch0[2]. */
static void writes_after_reads(struct motet_schedule *schedule, int position)
{
    int other = 1 - position;
    motet_send(schedule, MOTET_INPUT, 0, 1, other);
    motet_send(schedule, MOTET_INPUT, 1, 1, other);
    motet_recv(schedule, MOTET_OUTPUT, 0, 1, other);
    motet_recv(schedule, MOTET_OUTPUT, 1, 1, other);
    motet_copy_chunks(schedule, MOTET_OUTPUT, 2, MOTET_SCRATCH, 2, 1);
    motet_end_round(schedule);
    motet_send(schedule, MOTET_INPUT, 2, 1, other);
    motet_recv(schedule, MOTET_SCRATCH, 2, 1, other);
}

static void test_plan_writes_wait_for_earlier_reads_of_the_round(void **state)
{
    (void)state;
    struct motet_plan *plan = plan_of(2, 0, 3, writes_after_reads);
    assert_int_equal(plan->nrounds, 2);
    assert_int_equal(plan->round_first[1], 5);
    /* Out of place nothing that is written was read in its round: "after" is the start of the round. */
    const int out_of_place[] = {0, 0, 0, 0, 0, 5, 5};
    /* In place out[0] is in[0], read by step 0, out[1] by step 1; scratch was read in the round before, which is over. */
    const int in_place[] = {0, 0, 1, 2, 0, 5, 5};
    for (int i = 0; i < 7; i++) {
        assert_int_equal(plan->steps[i].after[0], out_of_place[i]);
        assert_int_equal(plan->steps[i].after[1], in_place[i]);
    }
    motet_plan_free(plan);
}

/* Two reads of one place in a round, then a write of a range over it; and a scratch place read and written in one round. */
static void last_reader(struct motet_schedule *schedule, int position)
{
    int other = 1 - position;
    motet_send(schedule, MOTET_SCRATCH, 1, 1, other);
    motet_send(schedule, MOTET_SCRATCH, 0, 2, other);
    motet_send(schedule, MOTET_SCRATCH, 3, 1, other);
    motet_recv(schedule, MOTET_SCRATCH, 1, 1, other);
    motet_recv(schedule, MOTET_SCRATCH, 2, 2, other);
    motet_recv(schedule, MOTET_OUTPUT, 0, 1, other);
}

static void test_plan_the_last_of_several_readers_counts(void **state)
{
    (void)state;
    struct motet_plan *plan = plan_of(2, 1, 4, last_reader);
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_int_equal(plan->steps[3].after[in_place], 2);
        assert_int_equal(plan->steps[4].after[in_place], 3);
        assert_int_equal(plan->steps[5].after[in_place], 0);
    }
    motet_plan_free(plan);
}

/* What is sent: 0 in[0], overwritten in place by 3; 1 in[1] and in[2] in one message; 2 out[1], as it arrives; 3 receives out[0];
 * next round: 4 sends out[0]; 5 sends scratch0[0]; 6 sends out[2], which 7 writes again a round later. */
static void kinds_of_sends(struct motet_schedule *schedule, int position)
{
    int other = 1 - position;
    motet_send(schedule, MOTET_INPUT, 0, 1, other);
    motet_send(schedule, MOTET_INPUT, 1, 2, other);
    motet_recv(schedule, MOTET_OUTPUT, 0, 1, other);
    motet_recv(schedule, MOTET_SCRATCH, 1, 2, other);
    motet_end_round(schedule);
    struct motet_step *forward = motet_schedule_append(schedule);
    *forward = (struct motet_step){.src = MOTET_SCRATCH,
                                   .nsrc = 1,
                                   .src_at = motet_range(1),
                                   .dst = MOTET_OUTPUT,
                                   .dst_at = motet_range(1),
                                   .n = 1,
                                   .to = motet_peer(other)};
    forward = motet_schedule_append(schedule);
    *forward = (struct motet_step){.src = MOTET_SCRATCH,
                                   .nsrc = 1,
                                   .src_at = motet_range(1),
                                   .dst = MOTET_OUTPUT,
                                   .dst_at = motet_range(2),
                                   .n = 1,
                                   .to = motet_peer(other)};
    motet_send(schedule, MOTET_SCRATCH, 1, 1, other);
    motet_recv(schedule, MOTET_SCRATCH, 0, 1, other);
    motet_recv(schedule, MOTET_SCRATCH, 2, 1, other);
    motet_recv(schedule, MOTET_SCRATCH + 1, 0, 1, other);
    motet_end_round(schedule);
    motet_copy_chunks(schedule, MOTET_OUTPUT, 2, MOTET_SCRATCH, 0, 1);
}

static void test_plan_only_what_stays_may_be_read_in_place(void **state)
{
    (void)state;
    struct motet_plan *plan = plan_of(2, 0, 3, kinds_of_sends);
    assert_true(plan->steps[0].direct_ok[0]);  /* in[0] stays */
    assert_false(plan->steps[0].direct_ok[1]); /* in place it is written by what arrives for out[0] */
    assert_false(plan->steps[1].direct_ok[0]); /* two chunks need not lie side by side */
    assert_false(plan->steps[1].direct_ok[1]);
    for (int in_place = 0; in_place < 2; in_place++) {
        assert_true(plan->steps[4].direct_ok[in_place]);  /* out[1] is written here, and never again */
        assert_false(plan->steps[5].direct_ok[in_place]); /* out[2] is */
        assert_false(plan->steps[6].direct_ok[in_place]); /* scratch is private */
    }
    motet_plan_free(plan);
}

/* ---- Schedules that are wrong ---- */

static void nobody_sends(struct motet_schedule *schedule, int position)
{
    if (position == 0)
        motet_recv(schedule, MOTET_OUTPUT, 0, 1, 1);
}

static void lengths_differ(struct motet_schedule *schedule, int position)
{
    if (position == 0)
        motet_recv(schedule, MOTET_OUTPUT, 0, 2, 1);
    else
        motet_send(schedule, MOTET_INPUT, 0, 1, 0);
}

static void too_many_chunks(struct motet_schedule *schedule, int position)
{
    for (int i = 0; position == 0 && i < 9; i++)
        motet_send(schedule, MOTET_INPUT, 0, 1, 1);
}

static void too_many_messages(struct motet_schedule *schedule, int position)
{
    for (int i = 0; position == 0 && i < 65; i++)
        *motet_schedule_append(schedule) = (struct motet_step){.to = motet_peer(1)};
}

static void expect_refusal(void (*build)(struct motet_schedule *, int), const char *words)
{
    const int host_first[2] = {0, 2};
    struct motet_shape shape = {.nranks = 2, .nhosts = 1, .host_first = host_first};
    struct motet_plan *plan = (struct motet_plan *)&shape;
    by_hand = build;
    hand_parts = 3;
    assert_int_equal(motet_plan_build(&hand, &shape, 64, &plan), motetInternalError);
    assert_null(plan);
    assert_non_null(strstr(motet_error_text(), words));
}

static void test_plan_of_a_wrong_schedule_is_refused(void **state)
{
    (void)state;
    expect_refusal(nobody_sends, "a message of 1 chunks from 1 that is not sent");
    expect_refusal(lengths_differ, "a message of 2 chunks from 1 that is not sent");
    expect_refusal(too_many_chunks, "9 chunks (declared 8)");
    expect_refusal(too_many_messages, "sends 65 messages (limit 64)");
}

/* ---- Every row ---- */

struct place {
    struct motet_shape shape;
    int host_first[MAX_RANKS + 1];
};

static void make_place(struct place *place, int nranks, int per_host, int root)
{
    place->shape = (struct motet_shape){.nranks = nranks, .root = root, .host_first = place->host_first};
    for (int first = 0; first < nranks; first += per_host)
        place->host_first[place->shape.nhosts++] = first;
    place->host_first[place->shape.nhosts] = nranks;
}

/* The k-th message from a to b is one and the same on both sides, and no message is left over. */
static void check_pair(const struct motet_plan *a, const struct motet_plan *b)
{
    int step = -1, target = 0;
    for (int i = 0; i < b->nsteps; i++)
        for (int s = 0; s < b->steps[i].nsources; s++) {
            const struct motet_plan_source *source = &b->sources[b->steps[i].first_source + s];
            if (source->peer != a->position)
                continue;
            bool found = false;
            while (!found && ++step < a->nsteps)
                for (target = 0; !found && target < a->steps[step].ntargets; target++)
                    found = a->targets[a->steps[step].first_target + target] == b->position;
            assert_true(found);
            assert_int_equal(a->steps[step].slot, source->slot);
            assert_int_equal(a->steps[step].stage_at, source->stage_at);
            assert_int_equal(a->steps[step].n, b->steps[i].n);
            assert_int_equal(a->steps[step].sends_wide, b->steps[i].arrives_wide);
        }
    while (++step < a->nsteps)
        for (int t = 0; t < a->steps[step].ntargets; t++)
            assert_int_not_equal(a->targets[a->steps[step].first_target + t], b->position);
}

static bool is_in(const int32_t *list, int n, int position)
{
    for (int i = 0; i < n; i++)
        if (list[i] == position)
            return true;
    return false;
}

static void check_row(const struct motet_algorithm *row, int nranks, int per_host, int root)
{
    static struct motet_plan *plans[MAX_RANKS];
    struct place place;
    make_place(&place, nranks, per_host, root);
    if (row->fits && !row->fits(&place.shape))
        return;
    struct motet_layout layout = motet_layout_make(nranks, 2, 65536, 16384, 1024);
    for (int p = 0; p < nranks; p++) {
        place.shape.position = p;
        if (motet_plan_build(row, &place.shape, (int)layout.nslots, &plans[p]) != motetSuccess)
            fail_msg("%s %s, %d ranks: %s", motet_collective_name(row->collective), row->name, nranks, motet_error_text());
    }
    for (int p = 0; p < nranks; p++) {
        assert_int_equal(plans[p]->stage_chunks, plans[0]->stage_chunks);
        assert_int_equal(plans[p]->parts, plans[0]->parts);
        assert_int_equal(plans[p]->nblocks, plans[0]->nblocks);
        assert_true((size_t)plans[p]->stage_chunks * MOTET_LINE <=
                    layout.lane_bytes); /* a line per chunk, at the smallest setting */
        for (int q = 0; q < nranks; q++) {
            if (nranks <= 17)
                check_pair(plans[p], plans[q]);
            assert_int_equal(is_in(plans[p]->readers, plans[p]->nreaders, q), is_in(plans[q]->writers, plans[q]->nwriters, p));
        }
    }
    for (int p = 0; p < nranks; p++)
        motet_plan_free(plans[p]);
}

static void test_plan_of_every_row_both_ends_agree(void **state)
{
    (void)state;
    for (int row = 0; row < motet_nalgorithms; row++)
        for (int nranks = 1; nranks <= 17; nranks++)
            for (int per_host = 1; per_host <= nranks; per_host += nranks > 9 ? 4 : 1)
                check_row(&motet_algorithms[row], nranks, per_host,
                          motet_collective_has_root(motet_algorithms[row].collective) ? (row + per_host) % nranks : 0);
}

static void test_plan_of_every_row_many_ranks_fit_slots_and_staging(void **state)
{
    (void)state;
    for (int row = 0; row < motet_nalgorithms; row++) {
        check_row(&motet_algorithms[row], 64, 64, 0);
        check_row(&motet_algorithms[row], 64, 8, 0);
        check_row(&motet_algorithms[row], 129, 129, 0);
        check_row(&motet_algorithms[row], 128, 16, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_messages_are_numbered_as_their_sender_does),
        cmocka_unit_test(test_plan_operands_stand_in_position_order),
        cmocka_unit_test(test_plan_writes_wait_for_earlier_reads_of_the_round),
        cmocka_unit_test(test_plan_the_last_of_several_readers_counts),
        cmocka_unit_test(test_plan_only_what_stays_may_be_read_in_place),
        cmocka_unit_test(test_plan_of_a_wrong_schedule_is_refused),
        cmocka_unit_test(test_plan_of_every_row_both_ends_agree),
        cmocka_unit_test(test_plan_of_every_row_many_ranks_fit_slots_and_staging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
