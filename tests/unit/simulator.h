/* SPDX-License-Identifier: Apache-2.0
 * A second opinion on schedules, written apart from the verifier: runs them chunk by chunk on numbers, in a random order that the rules
 * of schedule.h allow, and looks at the buffers at the end. Slow and simple on purpose; for a few ranks. */
#ifndef MOTET_TESTS_UNIT_SIMULATOR_H
#define MOTET_TESTS_UNIT_SIMULATOR_H

#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"

enum simulated_state { SIMULATED_POISON, SIMULATED_RAW, SIMULATED_PARTIAL, SIMULATED_FINISHED };

/* A number of which the sum does not depend on order, and one that does. */
struct simulated_value {
    uint64_t sum, tree;
    int state;
};

struct simulation {
    enum motet_collective collective;
    int nranks, root, nchunks, parts;
    const struct motet_schedule *schedules;
    const bool *in_place;
    uint64_t random;
    struct simulated_value *memory; /* [position][plane][chunk] */
    struct simulated_value *sent;   /* [position][step][chunk] */
    bool *done;                     /* the same */
    int most_steps;
    const char *problem; /* the first one; NULL while all is well */
};

static uint64_t simulated_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b;
    z = (z ^ z >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 32;
}

static bool simulated_aliases(const struct simulation *sim, int p, int chunk)
{
    int block = chunk / sim->parts;
    switch (sim->collective) {
    case MOTET_ALLREDUCE:
    case MOTET_REDUCE:
    case MOTET_BROADCAST:
        return sim->in_place[p];
    case MOTET_ALLGATHER:
    case MOTET_REDUCESCATTER:
        return sim->in_place[p] && block == p;
    case MOTET_GATHER:
    case MOTET_SCATTER:
        return sim->in_place[p] && block == p && p == sim->root;
    default:
        return false;
    }
}

static struct simulated_value *simulated_place(const struct simulation *sim, int p, int plane, int chunk)
{
    if (plane == MOTET_OUTPUT && simulated_aliases(sim, p, chunk))
        plane = MOTET_INPUT;
    return &sim->memory[((size_t)p * MOTET_NPLANES + (size_t)plane) * (size_t)sim->nchunks + (size_t)chunk];
}

/* Chunk i of step s at position p, in sent and done; a signal has one. */
static size_t simulated_unit(const struct simulation *sim, int p, int s, int i)
{
    return ((size_t)p * (size_t)sim->most_steps + (size_t)s) * ((size_t)sim->nchunks + 1) + (size_t)i;
}

static int simulated_units(const struct motet_step *step)
{
    return step->n ? step->n : 1;
}

static bool simulated_has(const struct simulation *sim, struct motet_peers peers, int own, int wanted)
{
    for (int i = 0; i < motet_peers_count(peers, own, sim->nranks); i++) {
        if (motet_peers_at(peers, i, own, sim->nranks) == wanted)
            return true;
    }
    return false;
}

/* The step of `peer` whose message step s of p takes; -1. */
static int simulated_sender(const struct simulation *sim, int p, int s, int peer)
{
    int ordinal = 0;
    for (int t = 0; t < s; t++)
        ordinal += simulated_has(sim, sim->schedules[p].steps[t].from, p, peer);
    for (int t = 0; t < sim->schedules[peer].nsteps; t++) {
        if (simulated_has(sim, sim->schedules[peer].steps[t].to, peer, p) && ordinal-- == 0)
            return t;
    }
    return -1;
}

static bool simulated_step_is_done(const struct simulation *sim, int p, int s)
{
    for (int i = 0; i < simulated_units(&sim->schedules[p].steps[s]); i++) {
        if (!sim->done[simulated_unit(sim, p, s, i)])
            return false;
    }
    return true;
}

/* Whether chunk i of step s may run: its round is open, its messages are there, and nobody listed earlier still reads where it writes. */
static bool simulated_ready(const struct simulation *sim, int p, int s, int i)
{
    const struct motet_schedule *schedule = &sim->schedules[p];
    const struct motet_step *step = &schedule->steps[s];
    int round_start = s;
    while (round_start > 0 && !(schedule->steps[round_start - 1].flags & MOTET_ENDS_ROUND))
        round_start--;
    for (int t = 0; t < round_start; t++) {
        if (!simulated_step_is_done(sim, p, t))
            return false;
    }
    for (int k = 0; k < motet_peers_count(step->from, p, sim->nranks); k++) {
        int peer = motet_peers_at(step->from, k, p, sim->nranks), sender = simulated_sender(sim, p, s, peer);
        if (sender < 0 || !sim->done[simulated_unit(sim, peer, sender, i)])
            return false;
    }
    if (step->dst == MOTET_NONE || step->n == 0)
        return true;
    const struct simulated_value *place = simulated_place(sim, p, step->dst, motet_span_chunk(step->dst_at, i, sim->nchunks));
    for (int t = round_start; t < s; t++) {
        const struct motet_step *earlier = &schedule->steps[t];
        for (int j = 0; j < earlier->n; j++) {
            for (int k = 0; k < earlier->nsrc && !sim->done[simulated_unit(sim, p, t, j)]; k++) {
                if (simulated_place(sim, p, earlier->src + k, motet_span_chunk(earlier->src_at, j, sim->nchunks)) == place)
                    return false;
            }
        }
    }
    return true;
}

static struct simulated_value simulated_combine(struct simulation *sim, const struct simulated_value *operands, int n)
{
    if (n == 1) {
        if (operands->state == SIMULATED_FINISHED)
            sim->problem = "a finished value is combined";
        return operands[0];
    }
    int half = 1;
    while (2 * half < n)
        half *= 2;
    struct simulated_value left = simulated_combine(sim, operands, half), right = simulated_combine(sim, operands + half, n - half);
    return (struct simulated_value){left.sum + right.sum, simulated_mix(left.tree, right.tree), SIMULATED_PARTIAL};
}

/* Operands of chunk i in position order; returns how many. */
static int simulated_operands(struct simulation *sim, int p, int s, int i, struct simulated_value *operands)
{
    const struct motet_step *step = &sim->schedules[p].steps[s];
    int count = 0;
    for (int q = 0; q < sim->nranks; q++) {
        for (int k = 0; q == p && k < step->nsrc; k++) {
            operands[count] = *simulated_place(sim, p, step->src + k, motet_span_chunk(step->src_at, i, sim->nchunks));
            if (operands[count++].state == SIMULATED_POISON)
                sim->problem = "poison is read";
        }
        if (q == p || !simulated_has(sim, step->from, p, q))
            continue;
        operands[count] = sim->sent[simulated_unit(sim, q, simulated_sender(sim, p, s, q), i)];
        if ((operands[count++].state == SIMULATED_PARTIAL) != ((step->flags & MOTET_WIDE) != 0))
            sim->problem = "an accumulator is taken for a value or the other way";
    }
    return count;
}

static void simulated_run(struct simulation *sim, int p, int s, int i)
{
    struct simulated_value operands[64];
    const struct motet_step *step = &sim->schedules[p].steps[s];
    size_t unit = simulated_unit(sim, p, s, i);
    sim->done[unit] = true;
    if (step->n == 0)
        return;
    int count = simulated_operands(sim, p, s, i, operands);
    if (count == 0) {
        sim->problem = "nothing to move";
        return;
    }
    struct simulated_value value = count == 1 ? operands[0] : simulated_combine(sim, operands, count);
    bool wide = motet_plane_is_wide(step->dst);
    if (value.state == SIMULATED_PARTIAL && step->dst != MOTET_NONE && !wide)
        value.state = SIMULATED_FINISHED;
    sim->sent[unit] = value;
    if (step->dst == MOTET_NONE)
        return;
    if (wide && value.state == SIMULATED_FINISHED)
        sim->problem = "a finished value becomes an accumulator";
    if (wide)
        value.state = SIMULATED_PARTIAL;
    if (step->dst == MOTET_INPUT)
        sim->problem = "the input is written";
    *simulated_place(sim, p, step->dst, motet_span_chunk(step->dst_at, i, sim->nchunks)) = value;
}

static struct simulated_value simulated_input(int p, int chunk)
{
    uint64_t number = simulated_mix((uint64_t)p + 1, (uint64_t)chunk + 1);
    return (struct simulated_value){number, number, SIMULATED_RAW};
}

static void simulated_fill(struct simulation *sim)
{
    for (int p = 0; p < sim->nranks && sim->collective != MOTET_BARRIER; p++) {
        for (int chunk = 0; chunk < sim->nchunks; chunk++) {
            bool root_only = sim->collective == MOTET_BROADCAST || sim->collective == MOTET_SCATTER;
            bool own_only = sim->collective == MOTET_ALLGATHER || sim->collective == MOTET_GATHER;
            if ((!root_only || p == sim->root) && (!own_only || chunk / sim->parts == p))
                *simulated_place(sim, p, MOTET_INPUT, chunk) = simulated_input(p, chunk);
        }
    }
}

/* What OUTPUT must be; `first` is the same chunk at the first position that has it. */
static const char *simulated_judge(const struct simulation *sim, int p, int chunk, struct simulated_value got,
                                   struct simulated_value first)
{
    int block = chunk / sim->parts;
    struct simulated_value expected = {0};
    switch (sim->collective) {
    case MOTET_BROADCAST:
    case MOTET_SCATTER:
        expected = simulated_input(sim->root, chunk);
        break;
    case MOTET_ALLTOALL:
        expected = simulated_input(block, p * sim->parts + chunk % sim->parts);
        break;
    case MOTET_ALLGATHER:
    case MOTET_GATHER:
        expected = simulated_input(block, chunk);
        break;
    default:
        for (int q = 0; q < sim->nranks; q++)
            expected.sum += simulated_input(q, chunk).sum;
        expected.tree = sim->collective == MOTET_REDUCESCATTER ? got.tree : first.tree;
        expected.state = sim->nranks > 1 ? SIMULATED_FINISHED : SIMULATED_RAW;
        break;
    }
    return got.sum == expected.sum && got.tree == expected.tree && got.state == expected.state ? NULL : "the output is wrong";
}

static void simulated_check(struct simulation *sim)
{
    for (int p = 0; p < sim->nranks && sim->collective != MOTET_BARRIER; p++) {
        for (int chunk = 0; chunk < sim->nchunks && !sim->problem; chunk++) {
            bool at_root = sim->collective == MOTET_REDUCE || sim->collective == MOTET_GATHER;
            bool own = sim->collective == MOTET_REDUCESCATTER || sim->collective == MOTET_SCATTER;
            struct simulated_value got = *simulated_place(sim, p, MOTET_OUTPUT, chunk);
            int first = at_root ? sim->root : 0;
            if (at_root && p != sim->root)
                sim->problem = got.state != SIMULATED_POISON && !sim->in_place[p] ? "an output that is not there is written" : NULL;
            else if (!own || chunk / sim->parts == p)
                sim->problem = simulated_judge(sim, p, chunk, got, *simulated_place(sim, first, MOTET_OUTPUT, chunk));
        }
    }
}

/* Sweeps over all chunks of all steps in random order until nothing moves. */
static void simulated_sweep(struct simulation *sim)
{
    int nunits = sim->nranks * sim->most_steps * (sim->nchunks + 1);
    for (bool moved = true; moved && !sim->problem;) {
        moved = false;
        sim->random = simulated_mix(sim->random, 1);
        int start = (int)(sim->random % (uint64_t)nunits), by = (int)((sim->random >> 32) % (uint64_t)nunits) | 1;
        for (int a = nunits, b = by; b;) { /* a stride without common divisor visits all */
            int rest = a % b;
            a = b;
            b = rest;
            if (!b && a > 1)
                by = 1;
        }
        for (int k = 0, u = start; k < nunits && !sim->problem; k++, u = (u + by) % nunits) {
            int i = u % (sim->nchunks + 1), s = u / (sim->nchunks + 1) % sim->most_steps,
                p = u / (sim->nchunks + 1) / sim->most_steps;
            const struct motet_schedule *schedule = &sim->schedules[p];
            if (s >= schedule->nsteps || i >= simulated_units(&schedule->steps[s]) || sim->done[u] ||
                !simulated_ready(sim, p, s, i))
                continue;
            simulated_run(sim, p, s, i);
            moved = true;
        }
    }
    for (int p = 0; p < sim->nranks && !sim->problem; p++) {
        for (int s = 0; s < sim->schedules[p].nsteps; s++) {
            if (!simulated_step_is_done(sim, p, s))
                sim->problem = "deadlock";
        }
    }
}

/* Runs expanded schedules once. NULL: the collective was done right; else what went wrong. */
static const char *simulate(enum motet_collective collective, int root, const struct motet_schedule *schedules, int nranks,
                            const bool *in_place, uint64_t seed)
{
    struct simulation sim = {
        .collective = collective, .nranks = nranks, .root = root, .schedules = schedules, .in_place = in_place, .random = seed};
    sim.nchunks = motet_schedule_nchunks(&schedules[0]);
    sim.parts = schedules[0].parts;
    for (int p = 0; p < nranks; p++)
        sim.most_steps = schedules[p].nsteps > sim.most_steps ? schedules[p].nsteps : sim.most_steps;
    size_t nunits = (size_t)nranks * (size_t)sim.most_steps * ((size_t)sim.nchunks + 1) + 1;
    sim.memory = calloc((size_t)nranks * MOTET_NPLANES * (size_t)sim.nchunks, sizeof(*sim.memory));
    sim.sent = calloc(nunits, sizeof(*sim.sent));
    sim.done = calloc(nunits, sizeof(*sim.done));
    if (!sim.memory || !sim.sent || !sim.done)
        abort();
    simulated_fill(&sim);
    if (sim.most_steps > 0)
        simulated_sweep(&sim);
    if (!sim.problem)
        simulated_check(&sim);
    free(sim.memory);
    free(sim.sent);
    free(sim.done);
    return sim.problem;
}

#endif
