/* SPDX-License-Identifier: Apache-2.0
 * Spans, peers, expanding, the facts of a step, and the printed form of schedules. */
#include "schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct motet_schedule begin(int nranks, int position, int nblocks, int parts)
{
    static const int host_first[2];
    struct motet_shape shape = {.nranks = nranks, .position = position, .nhosts = 1, .host_first = host_first};
    struct motet_schedule schedule = {0};
    motet_schedule_begin(&schedule, &shape, nblocks, parts);
    return schedule;
}

static struct motet_step *add(struct motet_schedule *schedule, struct motet_step step)
{
    struct motet_step *added = motet_schedule_append(schedule);
    *added = step;
    return added;
}

static void assert_span(struct motet_span span, int nchunks, int n, const int *expected)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(motet_span_chunk(span, i, nchunks), expected[i]);
}

static void test_span_of_one_run_wraps_at_the_last_chunk(void **state)
{
    (void)state;
    assert_span((struct motet_span){.first = 3}, 5, 4, (int[]){3, 4, 0, 1});
    assert_span((struct motet_span){.first = -2}, 5, 3, (int[]){3, 4, 0});
    assert_span((struct motet_span){.first = 12}, 5, 2, (int[]){2, 3});
    assert_span((struct motet_span){.first = 0}, 1, 3, (int[]){0, 0, 0});
}

static void test_span_of_runs_strides_both_ways(void **state)
{
    (void)state;
    assert_span((struct motet_span){.first = 2, .run = 2, .stride = 4}, 12, 6, (int[]){2, 3, 6, 7, 10, 11});
    assert_span((struct motet_span){.first = 1, .run = 1, .stride = -1}, 4, 4, (int[]){1, 0, 3, 2});
    assert_span((struct motet_span){.first = 5, .run = 3, .stride = -3}, 9, 6, (int[]){5, 6, 7, 2, 3, 4});
    assert_int_equal(motet_span_chunk((struct motet_span){.first = 1, .run = 1, .stride = INT32_MAX}, 4, 7),
                     (int)((1 + 4 * (int64_t)INT32_MAX) % 7));
}

static void assert_peers(struct motet_peers peers, int position, int nranks, int n, const int *expected)
{
    assert_int_equal(motet_peers_count(peers, position, nranks), n);
    for (int i = 0; i < n; i++)
        assert_int_equal(motet_peers_at(peers, i, position, nranks), expected[i]);
}

static void test_peers_skip_the_own_position_wherever_it_stands(void **state)
{
    (void)state;
    assert_peers(motet_everybody(4), 0, 4, 3, (int[]){1, 2, 3});
    assert_peers(motet_everybody(4), 2, 4, 3, (int[]){0, 1, 3});
    assert_peers(motet_everybody(4), 3, 4, 3, (int[]){0, 1, 2});
    assert_peers(motet_everybody(1), 0, 1, 0, NULL);
    assert_peers(motet_peer(2), 2, 4, 0, NULL);
    assert_peers(motet_peer(2), 1, 4, 1, (int[]){2});
    assert_peers((struct motet_peers){0}, 1, 4, 0, NULL);
}

static void test_peers_wrap_and_stride(void **state)
{
    (void)state;
    assert_peers((struct motet_peers){.first = 3, .n = 3, .stride = 1}, 1, 5, 3, (int[]){3, 4, 0});
    assert_peers((struct motet_peers){.first = 3, .n = 3}, 4, 5, 2, (int[]){3, 0});
    assert_peers((struct motet_peers){.first = 1, .n = 4, .stride = 4}, 9, 16, 3, (int[]){1, 5, 13});
    assert_peers((struct motet_peers){.first = 2, .n = 3, .stride = -2}, 0, 7, 2, (int[]){2, 5});
    assert_peers((struct motet_peers){.first = -1, .n = 2, .stride = 1}, 2, 5, 2, (int[]){4, 0});
}

static void test_append_grows_and_zeroes(void **state)
{
    (void)state;
    struct motet_schedule schedule = begin(2, 0, 1, 1);
    for (int i = 0; i < 1000; i++) {
        struct motet_step *step = motet_schedule_append(&schedule);
        static const struct motet_step zero;
        assert_memory_equal(step, &zero, sizeof(zero));
        step->n = i;
    }
    assert_int_equal(schedule.nsteps, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(schedule.steps[i].n, i);
    int capacity = schedule.capacity;
    motet_schedule_begin(&schedule, &(struct motet_shape){.nranks = 3, .position = 1}, 3, 2);
    assert_int_equal(schedule.nsteps, 0);
    assert_int_equal(schedule.capacity, capacity);
    assert_int_equal(motet_schedule_nchunks(&schedule), 6);
    motet_schedule_free(&schedule);
    assert_null(schedule.steps);
}

static void test_end_round_without_steps_does_nothing(void **state)
{
    (void)state;
    struct motet_schedule schedule = begin(2, 0, 1, 1);
    motet_end_round(&schedule);
    assert_int_equal(schedule.nsteps, 0);
    motet_send(&schedule, MOTET_INPUT, 0, 1, 1);
    motet_end_round(&schedule);
    motet_end_round(&schedule);
    assert_int_equal(schedule.nsteps, 1);
    assert_int_equal(schedule.steps[0].flags, MOTET_ENDS_ROUND);
    motet_schedule_free(&schedule);
}

static void test_helpers_fill_what_they_say(void **state)
{
    (void)state;
    struct motet_schedule s = begin(4, 1, 4, 1);
    motet_send(&s, MOTET_INPUT, 3, 2, 2);
    motet_recv(&s, MOTET_OUTPUT, 1, 1, 0);
    motet_recv_reduce(&s, MOTET_PARTIAL, MOTET_INPUT, 2, 1, 3, true);
    motet_copy_chunks(&s, MOTET_OUTPUT, 0, MOTET_INPUT, 1, 1);
    assert_int_equal(motet_step_operands(&s.steps[0], 1, 4), 1);
    assert_int_equal(motet_peers_at(s.steps[0].to, 0, 1, 4), 2);
    assert_int_equal(motet_step_operands(&s.steps[1], 1, 4), 1);
    assert_int_equal(motet_step_operands(&s.steps[2], 1, 4), 2);
    assert_int_equal(s.steps[2].flags, MOTET_WIDE);
    assert_int_equal(s.steps[3].src_at.first, 1);
    assert_int_equal(s.steps[3].dst_at.first, 0);
    assert_int_equal(motet_step_operands(&s.steps[3], 1, 4), 1);
    motet_schedule_free(&s);
}

/* Where a value becomes an accumulator, and where it is rounded. */
static void test_step_facts_follow_operands_planes_and_flags(void **state)
{
    (void)state;
    struct motet_peers two = {.first = 0, .n = 3, .stride = 1}, one = motet_peer(0), next = motet_peer(2);
    static const struct {
        const char *what;
        uint8_t dst, src, flags, from, to;
        bool finishes, sends_wide;
    } cases[] = {
        {"a send of raw data", MOTET_NONE, MOTET_INPUT, 0, 0, 1, false, false},
        {"a combination that is only sent", MOTET_NONE, MOTET_INPUT, 0, 1, 1, false, true},
        {"a combination stored as accumulator and sent", MOTET_PARTIAL, MOTET_INPUT, 0, 1, 1, false, true},
        {"a combination stored in the output and sent", MOTET_OUTPUT, MOTET_INPUT, 0, 1, 1, true, false},
        {"a combination stored in scratch", MOTET_SCRATCH + 2, MOTET_INPUT, 0, 1, 0, true, false},
        {"a receive", MOTET_OUTPUT, MOTET_NONE, 0, 1, 0, false, false},
        {"a wide receive", MOTET_OUTPUT, MOTET_NONE, MOTET_WIDE, 1, 0, true, false},
        {"a wide value forwarded", MOTET_NONE, MOTET_NONE, MOTET_WIDE, 1, 1, false, true},
        {"a wide value stored as accumulator", MOTET_PARTIAL + 1, MOTET_NONE, MOTET_WIDE, 1, 0, false, false},
        {"an accumulator copied to the output", MOTET_OUTPUT, MOTET_PARTIAL, 0, 0, 0, true, false},
        {"an accumulator sent", MOTET_NONE, MOTET_PARTIAL + 2, 0, 0, 1, false, true},
        {"a copy", MOTET_OUTPUT, MOTET_INPUT, 0, 0, 0, false, false},
        {"two peers combined and sent", MOTET_NONE, MOTET_NONE, 0, 2, 1, false, true},
        {"two peers combined in the output", MOTET_OUTPUT, MOTET_NONE, 0, 2, 0, true, false},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct motet_step step = {
            .dst = cases[c].dst, .src = cases[c].src, .nsrc = cases[c].src ? 1 : 0, .n = 1, .flags = cases[c].flags};
        if (cases[c].from)
            step.from = cases[c].from == 2 ? two : one;
        if (cases[c].to)
            step.to = next;
        if (motet_step_finishes(&step, 1, 4) != cases[c].finishes || motet_step_sends_wide(&step, 1, 4) != cases[c].sends_wide)
            fail_msg("%s: finishes %d, sends wide %d", cases[c].what, motet_step_finishes(&step, 1, 4),
                     motet_step_sends_wide(&step, 1, 4));
    }
}

static void test_expand_makes_one_step_per_peer(void **state)
{
    (void)state;
    struct motet_schedule s = begin(4, 1, 4, 2);
    add(&s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 2, .each = 2, .to = motet_everybody(4)});
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT,
                                .n = 2,
                                .each = 2,
                                .from = {.first = 2, .n = 4, .stride = 1},
                                .dst_at = {.first = 4},
                                .flags = MOTET_ENDS_ROUND});
    motet_schedule_expand(&s);
    assert_false(s.out_of_memory);
    assert_int_equal(s.nsteps, 6);
    static const int to[] = {0, 2, 3}, from[] = {2, 3, 0}, dst[] = {4, 6, 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s.steps[i].each, 0);
        assert_int_equal(motet_peers_count(s.steps[i].to, 1, 4), 1);
        assert_int_equal(motet_peers_at(s.steps[i].to, 0, 1, 4), to[i]);
        assert_int_equal(s.steps[i].src_at.first, 2 * to[i]);
        assert_int_equal(motet_peers_at(s.steps[3 + i].from, 0, 1, 4), from[i]);
        assert_int_equal(s.steps[3 + i].dst_at.first, dst[i]);
        assert_int_equal(s.steps[i].flags, 0);
        assert_int_equal(s.steps[3 + i].flags, i == 2 ? MOTET_ENDS_ROUND : 0);
    }
    motet_schedule_free(&s);
}

static void test_expand_keeps_round_ends_of_dropped_steps(void **state)
{
    (void)state;
    struct motet_schedule s = begin(4, 1, 1, 1);
    struct motet_step to_self = {.src = MOTET_INPUT, .nsrc = 1, .n = 1, .to = motet_peer(1), .flags = MOTET_ENDS_ROUND};
    add(&s, to_self); /* an empty first round vanishes */
    motet_send(&s, MOTET_INPUT, 0, 1, 2);
    add(&s, to_self);                                                                         /* ends the round of the send */
    add(&s, to_self);                                                                         /* another empty round */
    add(&s, (struct motet_step){.n = 0, .from = motet_peer(0)});                              /* a signal stays */
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT, .src = MOTET_INPUT, .nsrc = 1, .n = 0}); /* copies nothing */
    motet_copy_chunks(&s, MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
    motet_schedule_expand(&s);
    assert_int_equal(s.nsteps, 3);
    assert_int_equal(s.steps[0].flags, MOTET_ENDS_ROUND);
    assert_int_equal(motet_peers_count(s.steps[0].to, 1, 4), 1);
    assert_int_equal(motet_peers_count(s.steps[1].from, 1, 4), 1);
    assert_int_equal(s.steps[1].flags, 0);
    assert_int_equal(s.steps[2].dst, MOTET_OUTPUT);
    motet_schedule_free(&s);
}

static void test_expand_of_one_rank_leaves_local_steps(void **state)
{
    (void)state;
    struct motet_schedule s = begin(1, 0, 1, 1);
    add(&s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .each = 1, .to = motet_everybody(1)});
    add(&s, (struct motet_step){
                .dst = MOTET_OUTPUT, .src = MOTET_INPUT, .nsrc = 1, .n = 1, .from = motet_everybody(1), .to = motet_everybody(1)});
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1, .each = 1, .from = motet_everybody(1)});
    motet_schedule_expand(&s);
    assert_int_equal(s.nsteps, 1);
    assert_int_equal(s.steps[0].dst, MOTET_OUTPUT);
    assert_int_equal(motet_step_operands(&s.steps[0], 0, 1), 1);
    motet_schedule_free(&s);
}

static void assert_prints(const struct motet_schedule *schedule, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    motet_schedule_print(out, schedule);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static void test_print_shows_two_shot_in_three_lines(void **state)
{
    (void)state;
    struct motet_schedule s = begin(4, 1, 1, 4);
    s.stage_chunks = 4;
    add(&s, (struct motet_step){.src = MOTET_INPUT, .nsrc = 1, .n = 1, .each = 1, .to = motet_everybody(4)});
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT,
                                .src = MOTET_INPUT,
                                .nsrc = 1,
                                .n = 1,
                                .src_at = {.first = 1},
                                .dst_at = {.first = 1},
                                .from = motet_everybody(4),
                                .to = motet_everybody(4)});
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1, .each = 1, .from = motet_everybody(4)});
    assert_prints(&s, "position 1 of 4: 1 block of 4 parts, 3 steps in 1 round, stages 4 of 4 chunks\n"
                      "round 0\n"
                      "   0  send                 in[peer]          -> each\n"
                      "   1  reduce      out[1] = in[1] + from all  -> all\n"
                      "   2  receive  out[peer] = from each\n");
    motet_schedule_free(&s);
}

static void test_print_shows_every_kind_of_step_set_and_flag(void **state)
{
    (void)state;
    struct motet_schedule s = begin(8, 5, 8, 2);
    s.stage_chunks = 20;
    motet_send(&s, MOTET_INPUT, 14, 5, 6);
    motet_recv_reduce(&s, MOTET_PARTIAL, MOTET_INPUT, 0, 16, 4, true);
    motet_end_round(&s);
    add(&s, (struct motet_step){.n = 4, .from = motet_peer(4), .to = {.first = 6, .n = 3, .stride = 1}, .flags = MOTET_WIDE});
    add(&s, (struct motet_step){
                .dst = MOTET_SCRATCH, .n = 4, .src = MOTET_PARTIAL, .nsrc = 2, .dst_at = {1, 1, 4}, .src_at = {2, 2, 4}});
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT,
                                .n = 8,
                                .src = MOTET_SCRATCH + 2,
                                .nsrc = 1,
                                .dst_at = {15, 1, -1},
                                .src_at = {0, 1, 2},
                                .flags = MOTET_ENDS_ROUND});
    add(&s, (struct motet_step){
                .src = MOTET_OUTPUT, .nsrc = 1, .n = 2, .each = 4, .src_at = {3, 0, 0}, .to = {.first = 1, .n = 4, .stride = 2}});
    add(&s, (struct motet_step){.dst = MOTET_OUTPUT, .n = 1, .each = 3, .from = {.first = 6, .n = 4, .stride = 1}});
    add(&s, (struct motet_step){.to = {.first = 1, .n = 3, .stride = 2}});
    add(&s, (struct motet_step){.from = motet_everybody(8)});
    assert_prints(&s, "position 5 of 8: 8 blocks of 2 parts, 9 steps in 3 rounds, stages 20 of 16 chunks\n"
                      "round 0\n"
                      "   0  send                          in[14..2]                      -> 6\n"
                      "   1  reduce        partial0[all] = in[all] + from 4 wide\n"
                      "round 1\n"
                      "   2  forward              [0..3] = from 4 wide                    -> 6..0\n"
                      "   3  reduce   scratch0[1,5,9,13] = partial0..partial1[2..3,6..7]\n"
                      "   4  copy        out[15,14,..,8] = scratch2[0,2,..,14]\n"
                      "round 2\n"
                      "   5  send                          out[2*peer+1..2*peer+2]        -> each of 1,3,7\n"
                      "   6  receive      out[0 each +3] = from each of 6..1\n"
                      "   7  signal                                                       -> 1,3\n"
                      "   8  await                         from all\n");
    motet_schedule_free(&s);
}

static void test_print_names_peers_without_the_own_position(void **state)
{
    (void)state;
    struct motet_schedule s = begin(9, 4, 1, 1);
    s.stage_chunks = 1;
    motet_send(&s, MOTET_INPUT, 0, 1, 8);
    s.steps[0].to = (struct motet_peers){.first = 2, .n = 6, .stride = 1};
    add(&s, (struct motet_step){.to = {.first = 4, .n = 3, .stride = 1}});
    add(&s, (struct motet_step){.to = {.first = 7, .n = 7}});
    add(&s, (struct motet_step){.to = {.first = 3, .n = 2}});
    add(&s, (struct motet_step){.from = {.first = 1, .n = 7, .stride = 5}});
    assert_prints(&s, "position 4 of 9: 1 block of 1 part, 5 steps in 1 round, stages 1 of 1 chunk\n"
                      "round 0\n"
                      "   0  send     in[all]        -> 2..3,5..7\n"
                      "   1  signal                  -> 5..6\n"
                      "   2  signal                  -> 7..3\n"
                      "   3  signal                  -> 3\n"
                      "   4  await    from 1,6,..,8\n");
    motet_schedule_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_span_of_one_run_wraps_at_the_last_chunk),
        cmocka_unit_test(test_span_of_runs_strides_both_ways),
        cmocka_unit_test(test_peers_skip_the_own_position_wherever_it_stands),
        cmocka_unit_test(test_peers_wrap_and_stride),
        cmocka_unit_test(test_append_grows_and_zeroes),
        cmocka_unit_test(test_end_round_without_steps_does_nothing),
        cmocka_unit_test(test_helpers_fill_what_they_say),
        cmocka_unit_test(test_step_facts_follow_operands_planes_and_flags),
        cmocka_unit_test(test_expand_makes_one_step_per_peer),
        cmocka_unit_test(test_expand_keeps_round_ends_of_dropped_steps),
        cmocka_unit_test(test_expand_of_one_rank_leaves_local_steps),
        cmocka_unit_test(test_print_shows_two_shot_in_three_lines),
        cmocka_unit_test(test_print_shows_every_kind_of_step_set_and_flag),
        cmocka_unit_test(test_print_names_peers_without_the_own_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
