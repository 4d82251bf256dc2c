/* SPDX-License-Identifier: Apache-2.0
 * Mutants of every row's schedules: a step dropped, peers swapped, a wrong chunk or plane, rounds joined, WIDE forgotten, steps reordered.
 * The verifier must reject each, or it is equivalent: then a simulation that shares no code with the verifier finds the same results. */
/* test: slow timeout=600 */
#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/simulator.h"

#define MAX_RANKS 9
#define MAX_STEPS 24 /* of a position, spread over its schedule */

enum mutation {
    DROP_STEP,
    OTHER_PEER,
    OTHER_DESTINATION_CHUNK,
    OTHER_SOURCE_CHUNK,
    OTHER_DESTINATION_PLANE,
    OTHER_SOURCE_PLANE,
    JOIN_ROUNDS,
    TOGGLE_WIDE,
    SWAP_WITH_NEXT,
    ONE_CHUNK_LESS,
    FORGET_SOURCE,
    NMUTATIONS
};

static const char *const names[NMUTATIONS] = {
    "drop a step",
    "another peer",
    "another destination chunk",
    "another source chunk",
    "another destination plane",
    "another source plane",
    "join two rounds",
    "wide taken for narrow or back",
    "swap two steps",
    "one chunk less",
    "forget the local operand",
};

struct count {
    long mutants, rejected, equivalent, simulated_wrong;
};

/* Damages step s; false if this mutation means nothing there. */
static bool mutate(struct motet_schedule *schedule, int s, enum mutation mutation)
{
    struct motet_step *step = &schedule->steps[s], swap;
    int nchunks = motet_schedule_nchunks(schedule), nranks = schedule->nranks;
    switch (mutation) {
    case DROP_STEP:
        if (s > 0)
            step[-1].flags |= step->flags & MOTET_ENDS_ROUND;
        memmove(step, step + 1, (size_t)(schedule->nsteps - s - 1) * sizeof(*step));
        schedule->nsteps--;
        return true;
    case OTHER_PEER:
        if (nranks < 3)
            return false;
        if (step->from.n)
            step->from.first = (step->from.first + 1) % nranks;
        else if (step->to.n)
            step->to.first = (step->to.first + 1) % nranks;
        return step->from.n || step->to.n;
    case OTHER_DESTINATION_CHUNK:
        step->dst_at.first = (step->dst_at.first + 1) % nchunks;
        return step->n > 0 && nchunks > 1;
    case OTHER_SOURCE_CHUNK:
        step->src_at.first = (step->src_at.first + 1) % nchunks;
        return step->n > 0 && nchunks > 1 && step->src != MOTET_NONE;
    case OTHER_DESTINATION_PLANE:
        if (step->dst == MOTET_NONE)
            return false;
        step->dst = step->dst == MOTET_OUTPUT ? MOTET_SCRATCH + 2 : MOTET_OUTPUT;
        return true;
    case OTHER_SOURCE_PLANE:
        if (step->src == MOTET_NONE || step->nsrc > 1)
            return false;
        step->src = step->src == MOTET_INPUT ? MOTET_OUTPUT : MOTET_INPUT;
        return true;
    case JOIN_ROUNDS:
        if (!(step->flags & MOTET_ENDS_ROUND) || s == schedule->nsteps - 1)
            return false;
        step->flags &= (uint8_t)~MOTET_ENDS_ROUND;
        return true;
    case TOGGLE_WIDE:
        step->flags ^= MOTET_WIDE;
        return step->from.n && step->n > 0;
    case SWAP_WITH_NEXT:
        if (s + 1 >= schedule->nsteps)
            return false;
        swap = step[0];
        step[0] = step[1];
        step[1] = swap;
        step[0].flags = (uint8_t)((step[0].flags & MOTET_WIDE) | (step[1].flags & MOTET_ENDS_ROUND));
        step[1].flags = (uint8_t)((step[1].flags & MOTET_WIDE) | 0);
        return true;
    case ONE_CHUNK_LESS:
        step->n--;
        return step->n > 0;
    case FORGET_SOURCE:
        if (step->src == MOTET_NONE || motet_step_operands(step, schedule->position, nranks) < 2)
            return false;
        step->src = MOTET_NONE;
        step->nsrc = 0;
        return true;
    default:
        return false;
    }
}

static void copy_schedules(struct motet_schedule *to, const struct motet_schedule *from, int nranks)
{
    for (int p = 0; p < nranks; p++) {
        to[p] = from[p];
        to[p].capacity = from[p].nsteps + 1;
        to[p].steps = malloc((size_t)to[p].capacity * sizeof(*to[p].steps));
        assert_non_null(to[p].steps);
        memcpy(to[p].steps, from[p].steps, (size_t)from[p].nsteps * sizeof(*to[p].steps));
    }
}

static void free_schedules(struct motet_schedule *schedules, int nranks)
{
    for (int p = 0; p < nranks; p++)
        motet_schedule_free(&schedules[p]);
}

/* The first problem in four interleavings: out of place, in place, and two mixes. */
static const char *simulate_mixes(const struct motet_algorithm *row, const struct motet_shape *shape,
                                  const struct motet_schedule *schedules)
{
    static const unsigned mixes[] = {0, 0x1ff, 0x0a6, 0x159};
    const char *problem = NULL;
    for (size_t m = 0; m < 4 && !problem; m++) {
        bool in_place[MAX_RANKS];
        for (int p = 0; p < MAX_RANKS; p++)
            in_place[p] = mixes[m] >> p & 1;
        problem = simulate(row->collective, shape->root, schedules, shape->nranks, in_place, m + 1);
    }
    return problem;
}

static void judge(const struct motet_algorithm *row, const struct motet_shape *shape, struct motet_schedule *mutant,
                  enum mutation mutation, int position, int step, struct count *count)
{
    struct motet_verdict verdict;
    assert_int_equal(motet_verify_schedules(row, shape, mutant, NULL, &verdict), motetSuccess);
    count->mutants++;
    if (!verdict.ok) {
        count->rejected++;
        assert_true(strlen(verdict.text) > 20);
        if (count->rejected % 16 == 0) /* the simulation must be able to say no */
            count->simulated_wrong += simulate_mixes(row, shape, mutant) != NULL;
    } else {
        const char *problem = simulate_mixes(row, shape, mutant);
        count->equivalent++;
        if (problem)
            fail_msg("accepted %s %s on %d ranks, root %d, after \"%s\" in step %d of position %d: %s",
                     motet_collective_name(row->collective), row->name, shape->nranks, shape->root, names[mutation], step, position,
                     problem);
    }
    motet_verdict_free(&verdict);
}

static void mutate_step(const struct motet_algorithm *row, const struct motet_shape *shape, const struct motet_schedule *right,
                        int position, int step, struct count *counts)
{
    for (int mutation = 0; mutation < NMUTATIONS; mutation++) {
        struct motet_schedule mutant[MAX_RANKS];
        copy_schedules(mutant, right, shape->nranks);
        if (mutate(&mutant[position], step, (enum mutation)mutation))
            judge(row, shape, mutant, (enum mutation)mutation, position, step, &counts[mutation]);
        free_schedules(mutant, shape->nranks);
    }
}

static void mutate_row(const struct motet_algorithm *row, struct motet_shape *shape, struct count *counts)
{
    struct motet_schedule right[MAX_RANKS] = {0};
    for (int p = 0; p < shape->nranks; p++) {
        shape->position = p;
        row->build(&right[p], shape);
        motet_schedule_expand(&right[p]);
    }
    const char *problem = simulate_mixes(row, shape, right);
    if (problem)
        fail_msg("simulated %s %s on %d ranks: %s", motet_collective_name(row->collective), row->name, shape->nranks, problem);
    for (int p = 0; p < shape->nranks; p++) {
        int nsteps = right[p].nsteps, stride = 1 + (nsteps - 1) / MAX_STEPS;
        if (p != 0 && p != shape->root && p != shape->nranks / 2 && p != shape->nranks - 1)
            continue;
        for (int s = (p + shape->nranks) % stride; s < nsteps; s += stride)
            mutate_step(row, shape, right, p, s, counts);
    }
    free_schedules(right, shape->nranks);
}

static void test_mutants_of_every_row_are_rejected_or_equivalent(void **state)
{
    static const int hosts[][MAX_RANKS + 1] = {{0}, {0, 2}, {0, 1, 4}};
    struct count counts[NMUTATIONS] = {0}, total = {0};
    (void)state;
    for (int a = 0; a < motet_nalgorithms; a++) {
        const struct motet_algorithm *row = &motet_algorithms[a];
        for (int n = 2; n <= MAX_RANKS; n++) {
            int nhosts = n % 3 == 0 ? 1 : n % 3, host_first[MAX_RANKS + 1];
            nhosts = hosts[nhosts - 1][nhosts - 1] < n ? nhosts : 1;
            memcpy(host_first, hosts[nhosts - 1], (size_t)nhosts * sizeof(int));
            host_first[nhosts] = n;
            struct motet_shape shape = {.nranks = n, .nhosts = nhosts, .host_first = host_first};
            shape.root = motet_collective_has_root(row->collective) ? n / 3 : 0;
            if (!row->fits || row->fits(&shape))
                mutate_row(row, &shape, counts);
        }
    }
    print_message("%-30s %8s %8s %10s\n", "mutation", "mutants", "rejected", "equivalent");
    for (int m = 0; m < NMUTATIONS; m++) {
        print_message("%-30s %8ld %8ld %10ld\n", names[m], counts[m].mutants, counts[m].rejected, counts[m].equivalent);
        assert_true(counts[m].rejected > 0);
        assert_int_equal(counts[m].rejected + counts[m].equivalent, counts[m].mutants);
        total.mutants += counts[m].mutants;
        total.rejected += counts[m].rejected;
        total.equivalent += counts[m].equivalent;
        total.simulated_wrong += counts[m].simulated_wrong;
    }
    print_message("%-30s %8ld %8ld %10ld\n", "all", total.mutants, total.rejected, total.equivalent);
    print_message("of every 16th rejected one, the simulation found %ld wrong\n", total.simulated_wrong);
    assert_true(total.simulated_wrong > total.rejected / 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants_of_every_row_are_rejected_or_equivalent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
