/* SPDX-License-Identifier: Apache-2.0
 * Symbolic execution of all schedules at once, in a random interleaving. A step runs when its round is open, its messages have arrived and
 * the reads that its writes wait for are complete. Ends with the final memory, or with the sentence that says what went wrong or who is stuck. */
#include "verify_proof.h"

#include <stdlib.h>
#include <string.h>

struct state {
    struct motet_proof *proof;
    const struct motet_verify_run *run;
    uint64_t random;
    int32_t *pending;    /* per step: what it still waits for */
    int32_t *unfinished; /* per step: 1 until it has run, + receivers that are not there yet */
    int32_t *ready, nready;
    int32_t *finished, nfinished; /* finished, but not yet counted in its round */
    bool *complete;
    int32_t *waiting, *next_waiting;   /* lists of steps by the `after` they wait for */
    int32_t *open_end, *left, *prefix; /* per position: end of the open round, steps left in it, first incomplete step */
    int32_t nrun;
    motet_value *operands; /* of one combination */
    uint64_t *known;       /* barrier: per step, then per position twice (when its round opened; so far), the positions heard of */
    int words;
};

static uint64_t next_random(struct state *state)
{
    uint64_t z = state->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- One step ---- */

static motet_value *place_of(struct motet_proof *proof, int p, int plane, int chunk, bool in_place)
{
    return &proof->memory[(size_t)p * (size_t)proof->nslots * (size_t)proof->nchunks +
                          (size_t)motet_proof_place(proof, p, plane, chunk, in_place)];
}

/* Operands of chunk i of step g in position order; 0: rejected. */
static int gather_operands(struct state *state, int g, int i)
{
    struct motet_proof *proof = state->proof;
    int p = proof->graph.position[g], count = 0, first = proof->graph.in_first[g], n = proof->graph.in_first[g + 1] - first;
    const struct motet_step *step = motet_graph_step(&proof->graph, g);
    for (int k = 0; k < proof->graph.local_at[g]; k++)
        state->operands[count++] = proof->values[proof->value_first[proof->graph.in[first + k]] + i];
    for (int k = 0; k < step->nsrc; k++) {
        int chunk = motet_span_chunk(step->src_at, i, proof->nchunks);
        motet_value value = *place_of(proof, p, step->src + k, chunk, state->run->in_place[p]);
        if (!value) {
            motet_proof_reject(proof, p, g - proof->graph.first_step[p], chunk, "reads %s[%d], where nothing was written (%s)",
                               motet_plane_name(step->src + k), chunk, state->run->what);
            return 0;
        }
        state->operands[count++] = value;
    }
    for (int k = proof->graph.local_at[g]; k < n; k++)
        state->operands[count++] = proof->values[proof->value_first[proof->graph.in[first + k]] + i];
    return count;
}

/* The balanced tree over operands[low, high), split at the largest power of two below their number. 0: *problem says why, or no memory. */
static motet_expression combine(struct state *state, int low, int high, const char **problem)
{
    if (high - low == 1) {
        if (state->operands[low] % 4 == MOTET_VALUE_FINISHED)
            *problem = "combines a value that was finished (rounded) before";
        return state->operands[low] / 4;
    }
    int half = 1;
    while (2 * half < high - low)
        half *= 2;
    motet_expression left = combine(state, low, low + half, problem),
                     right = *problem ? 0 : combine(state, low + half, high, problem);
    return *problem || !left || !right ? 0 : motet_expression_join(&state->proof->expressions, left, right, problem);
}

/* Value of chunk i of step g; 0: rejected or out of memory. */
static motet_value compute(struct state *state, int g, int i)
{
    struct motet_proof *proof = state->proof;
    int p = proof->graph.position[g], count = gather_operands(state, g, i);
    const struct motet_step *step = motet_graph_step(&proof->graph, g);
    bool finishes = motet_step_finishes(step, p, proof->nranks);
    if (count == 0)
        return 0;
    const char *problem = NULL;
    motet_expression tree = state->operands[0] / 4;
    motet_value kind = state->operands[0] % 4;
    if (count > 1) {
        tree = combine(state, 0, count, &problem);
        kind = MOTET_VALUE_PARTIAL;
    } else if (kind == MOTET_VALUE_FINISHED && (finishes || motet_plane_is_wide(step->dst))) {
        problem = "finishes (rounds) a value for the second time";
    }
    if (problem)
        motet_proof_reject(proof, p, g - proof->graph.first_step[p], motet_span_chunk(step->dst_at, i, proof->nchunks), "%s",
                           problem);
    if (problem || !tree)
        return 0;
    return tree * 4 + (finishes ? MOTET_VALUE_FINISHED : kind);
}

static bool run_step(struct state *state, int g)
{
    struct motet_proof *proof = state->proof;
    int p = proof->graph.position[g];
    const struct motet_step *step = motet_graph_step(&proof->graph, g);
    motet_value *values = proof->values + proof->value_first[g];
    for (int i = 0; i < step->n; i++) {
        values[i] = compute(state, g, i);
        if (!values[i]) {
            proof->out_of_memory |= proof->expressions.out_of_memory;
            return false;
        }
    }
    for (int i = 0; i < step->n && step->dst != MOTET_NONE; i++) {
        bool widens = motet_plane_is_wide(step->dst) && values[i] % 4 == MOTET_VALUE_RAW;
        *place_of(proof, p, step->dst, motet_span_chunk(step->dst_at, i, proof->nchunks), state->run->in_place[p]) =
            values[i] + (widens ? MOTET_VALUE_PARTIAL - MOTET_VALUE_RAW : 0);
    }
    return true;
}

/* ---- Barriers: who has heard of whom ---- */

static uint64_t *known_by_step(struct state *state, int g)
{
    return state->known + (size_t)g * (size_t)state->words;
}

static uint64_t *known_at(struct state *state, int position, bool so_far)
{
    return known_by_step(state, state->proof->graph.nsteps + 2 * position + so_far);
}

static void hear(struct state *state, uint64_t *ear, const uint64_t *news)
{
    for (int w = 0; w < state->words; w++)
        ear[w] |= news[w];
}

static void hear_messages(struct state *state, int g)
{
    struct motet_proof *proof = state->proof;
    hear(state, known_by_step(state, g), known_at(state, proof->graph.position[g], false));
    for (int k = proof->graph.in_first[g]; k < proof->graph.in_first[g + 1]; k++)
        hear(state, known_by_step(state, g), known_by_step(state, proof->graph.in[k]));
    hear(state, known_at(state, proof->graph.position[g], true), known_by_step(state, g));
}

static bool check_everybody_was_heard(struct state *state)
{
    for (int p = 0; p < state->proof->nranks; p++) {
        for (int other = 0; other < state->proof->nranks; other++) {
            if (!(known_at(state, p, true)[other / 64] >> other % 64 & 1))
                return motet_proof_reject(state->proof, p, -1, -1, "leaves the barrier without having heard of position %d", other);
        }
    }
    return true;
}

/* ---- Order ---- */

static void one_less(struct state *state, int g)
{
    if (--state->pending[g] == 0 && g < state->open_end[state->proof->graph.position[g]])
        state->ready[state->nready++] = g;
}

static void finish_part(struct state *state, int g)
{
    if (--state->unfinished[g] == 0)
        state->finished[state->nfinished++] = g;
}

/* Opens the round that starts at step `first` of position p, if there is one. */
static void open_round(struct state *state, int p, int first)
{
    struct motet_proof *proof = state->proof;
    if (first == proof->graph.first_step[p + 1])
        return;
    int end = proof->graph.round_end[first];
    state->open_end[p] = end;
    state->left[p] = end - first;
    if (state->known)
        hear(state, known_at(state, p, false), known_at(state, p, true));
    for (int g = first; g < end; g++) {
        if (state->pending[g] == 0)
            state->ready[state->nready++] = g;
        for (int k = proof->graph.in_first[g]; state->run->unbuffered && k < proof->graph.in_first[g + 1]; k++)
            finish_part(state, proof->graph.in[k]);
    }
}

/* Counts a finished step in its round, and lets go who waits for it. */
static void complete(struct state *state, int g)
{
    int p = state->proof->graph.position[g];
    state->complete[g] = true;
    while (state->prefix[p] < state->open_end[p] && state->complete[state->prefix[p]]) {
        for (int w = state->waiting[++state->prefix[p]]; w >= 0; w = state->next_waiting[w])
            one_less(state, w);
    }
    if (--state->left[p] == 0)
        open_round(state, p, state->open_end[p]);
}

static void begin(struct state *state)
{
    struct motet_proof *proof = state->proof;
    memset(state->waiting, 0xff, ((size_t)proof->graph.nsteps + 1) * sizeof(*state->waiting));
    for (int g = 0; g < proof->graph.nsteps; g++) {
        int after = proof->after[state->run->in_place[proof->graph.position[g]]][g];
        state->pending[g] = proof->graph.in_first[g + 1] - proof->graph.in_first[g] + (after > 0);
        state->unfinished[g] = 1 + (state->run->unbuffered ? proof->graph.out_first[g + 1] - proof->graph.out_first[g] : 0);
        if (after > 0) {
            state->next_waiting[g] = state->waiting[after];
            state->waiting[after] = g;
        }
    }
    for (int p = 0; p < proof->nranks; p++) {
        state->prefix[p] = state->open_end[p] = proof->graph.first_step[p];
        if (state->known)
            known_at(state, p, true)[p / 64] |= UINT64_C(1) << p % 64;
    }
    for (int p = 0; p < proof->nranks; p++)
        open_round(state, p, proof->graph.first_step[p]);
}

static bool report_deadlock(struct state *state)
{
    struct motet_proof *proof = state->proof;
    for (int g = 0; g < proof->graph.nsteps; g++) {
        int p = proof->graph.position[g], s = g - proof->graph.first_step[p];
        if (state->complete[g] || g >= state->open_end[p])
            continue;
        for (int k = proof->graph.in_first[g]; k < proof->graph.in_first[g + 1]; k++) {
            int sender = proof->graph.in[k], from = proof->graph.position[sender];
            if (state->unfinished[sender] > 0)
                return motet_proof_reject(proof, p, s, -1, "deadlock: waits for step %d of position %d, which cannot run (%s)",
                                          sender - proof->graph.first_step[from], from, state->run->what);
        }
    }
    return motet_proof_reject(proof, -1, -1, -1, "deadlock: steps wait for each other (%s)", state->run->what);
}

static bool run_all(struct state *state)
{
    struct motet_proof *proof = state->proof;
    begin(state);
    while (state->nready > 0 || state->nfinished > 0) {
        if (state->nfinished > 0) {
            complete(state, state->finished[--state->nfinished]);
            continue;
        }
        int at = (int)(next_random(state) % (uint64_t)state->nready), g = state->ready[at];
        state->ready[at] = state->ready[--state->nready];
        if (!run_step(state, g))
            return false;
        if (state->known)
            hear_messages(state, g);
        state->nrun++;
        finish_part(state, g);
        for (int m = proof->graph.out_first[g]; m < proof->graph.out_first[g + 1]; m++)
            one_less(state, proof->graph.out[m]);
    }
    for (int p = 0; p < proof->nranks; p++) {
        if (state->prefix[p] < proof->graph.first_step[p + 1])
            return report_deadlock(state);
    }
    return !state->known || check_everybody_was_heard(state);
}

/* ---- Memory ---- */

static void fill_inputs(struct motet_proof *proof)
{
    size_t each = (size_t)proof->nslots * (size_t)proof->nchunks;
    enum motet_collective collective = proof->algorithm->collective;
    bool root_only = collective == MOTET_BROADCAST || collective == MOTET_SCATTER;
    bool own_block = collective == MOTET_ALLGATHER || collective == MOTET_GATHER;
    memset(proof->memory, 0, (size_t)proof->nranks * each * sizeof(*proof->memory));
    for (int p = 0; p < proof->nranks && collective != MOTET_BARRIER; p++) {
        if (root_only && p != proof->shape->root)
            continue;
        int first = own_block ? p * proof->parts : 0, end = own_block ? first + proof->parts : proof->nchunks;
        for (int chunk = first; chunk < end; chunk++)
            *place_of(proof, p, MOTET_INPUT, chunk, false) =
                motet_expression_leaf(&proof->expressions, p, chunk) * 4 + MOTET_VALUE_RAW;
    }
}

bool motet_verify_execute(struct motet_proof *proof, const struct motet_verify_run *run)
{
    size_t nsteps = (size_t)proof->graph.nsteps + 1, nranks = (size_t)proof->nranks, words = (nranks + 63) / 64;
    bool barrier = proof->algorithm->collective == MOTET_BARRIER;
    int32_t *numbers = calloc(6 * nsteps + 3 * nranks, sizeof(*numbers));
    struct state state = {
        .proof = proof,
        .run = run,
        .random = run->seed,
        .complete = calloc(nsteps, sizeof(bool)),
        .operands = calloc(nranks + MOTET_PLANES_EACH, sizeof(motet_value)),
        .known = barrier ? calloc((nsteps + 2 * nranks) * words, sizeof(uint64_t)) : NULL,
        .words = (int)words,
    };
    bool ok = false;
    proof->out_of_memory = !numbers || !state.complete || !state.operands || (barrier && !state.known);
    if (!proof->out_of_memory) {
        state.pending = numbers;
        state.unfinished = numbers + nsteps;
        state.ready = numbers + 2 * nsteps;
        state.finished = numbers + 3 * nsteps;
        state.waiting = numbers + 4 * nsteps;
        state.next_waiting = numbers + 5 * nsteps;
        state.open_end = numbers + 6 * nsteps;
        state.left = state.open_end + nranks;
        state.prefix = state.left + nranks;
        fill_inputs(proof);
        ok = run_all(&state);
    }
    free(numbers);
    free(state.complete);
    free(state.operands);
    free(state.known);
    return ok;
}
