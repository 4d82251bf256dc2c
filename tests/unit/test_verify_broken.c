/* SPDX-License-Identifier: Apache-2.0
 * The verifier says of each kind of broken schedule what is wrong with it. */
#include "unit/handmade.h"

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
        cmocka_unit_test(test_verify_broken_schedules_are_rejected_with_the_reason),
        cmocka_unit_test(test_verify_wrong_block_of_equal_counts_is_rejected_by_its_value),
        cmocka_unit_test(test_verify_rotation_within_one_message_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
