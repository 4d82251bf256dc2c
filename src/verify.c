/* SPDX-License-Identifier: Apache-2.0
 * The verifier: why a few runs prove every timing, every count and every mix of in-place ranks.
 *
 * 1. No race. verify_form.c shows, for each position by itself, that no place is written twice in a round, that nothing reads what its
 *    round writes, and who must wait for earlier-listed reads; both out of place and in place. So each position is a deterministic program,
 *    and positions exchange numbered messages only: every timing computes the same values (a Kahn network).
 * 2. No deadlock. Steps wait for messages, for the round before, and for earlier-listed reads. Executing the graph once to its end shows
 *    that it has no cycle. In place, more places coincide, so more steps wait: the run with all ranks in place has every wait that any mix
 *    has. Here a step waits for all steps listed before its last reader, and moves whole messages: engines that wait for less, and move
 *    piece by piece, have fewer waits and the same values, since chunk i of a message depends on chunk i of its operands alone and step 1
 *    holds for each chunk separately.
 * 3. Every mix. If all messages of the run in place equal those of the run out of place, then by induction over the order of waiting each
 *    rank, in place or not, receives and sends the same in any mix.
 * Random interleavings with random mixes, and the run in which sends wait for their receivers, are executed beside the proof: they would
 * show a flaw in the argument. */
#include "verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "verify_proof.h"

bool motet_proof_reject(struct motet_proof *proof, int position, int step, int chunk, const char *format, ...)
{
    struct motet_verdict *verdict = proof->verdict;
    const struct motet_algorithm *algorithm = proof->algorithm;
    size_t size = sizeof(verdict->text), len;
    int hosts = proof->shape->nhosts;
    snprintf(verdict->text, size, "%s %s, %d rank%s on %d host%s", motet_collective_name(algorithm->collective), algorithm->name,
             proof->nranks, proof->nranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s");
    len = strlen(verdict->text);
    if (motet_collective_has_root(algorithm->collective))
        len += (size_t)snprintf(verdict->text + len, size - len, ", root %d", proof->shape->root);
    if (position >= 0)
        len += (size_t)snprintf(verdict->text + len, size - len, ": position %d", position);
    if (step >= 0)
        len += (size_t)snprintf(verdict->text + len, size - len, ", step %d", step);
    if (chunk >= 0)
        len += (size_t)snprintf(verdict->text + len, size - len, ", chunk %d", chunk);
    len += (size_t)snprintf(verdict->text + len, size - len, ": ");
    va_list args;
    va_start(args, format);
    vsnprintf(verdict->text + len, size - len, format, args);
    va_end(args);
    verdict->ok = false;
    return false;
}

bool motet_chunk_is_shared_in_place(enum motet_collective collective, const struct motet_shape *shape, int position, int block)
{
    switch (collective) {
    case MOTET_ALLREDUCE:
    case MOTET_REDUCE:
    case MOTET_BROADCAST:
        return true;
    case MOTET_ALLGATHER:
    case MOTET_REDUCESCATTER:
        return block == position;
    case MOTET_GATHER:
    case MOTET_SCATTER:
        return position == shape->root && block == position;
    default:
        return false;
    }
}

/* ---- Results ---- */

/* Whether the collective promises something in this chunk of OUTPUT. */
static bool output_is_promised(const struct motet_proof *proof, int p, int chunk)
{
    switch (proof->algorithm->collective) {
    case MOTET_REDUCE:
    case MOTET_GATHER:
        return p == proof->shape->root;
    case MOTET_REDUCESCATTER:
    case MOTET_SCATTER:
        return chunk / proof->parts == p;
    default:
        return true;
    }
}

/* Whose input moves to this chunk of OUTPUT, for collectives that only move data. */
static motet_expression moved_input(const struct motet_proof *proof, int p, int chunk)
{
    int block = chunk / proof->parts;
    switch (proof->algorithm->collective) {
    case MOTET_BROADCAST:
    case MOTET_SCATTER:
        return motet_expression_leaf(&proof->expressions, proof->shape->root, chunk);
    case MOTET_ALLTOALL:
        return motet_expression_leaf(&proof->expressions, block, p * proof->parts + chunk % proof->parts);
    default:
        return motet_expression_leaf(&proof->expressions, block, chunk);
    }
}

static bool check_moved(struct motet_proof *proof, int p, int chunk, motet_value value)
{
    int owner = -1, from_chunk = -1;
    if (value / 4 == moved_input(proof, p, chunk))
        return true;
    motet_expression_is_leaf(&proof->expressions, value / 4, &owner, &from_chunk);
    return motet_proof_reject(proof, p, -1, chunk, "the output is chunk %d of position %d's input", from_chunk, owner);
}

/* `tree` is the result of this chunk at the first position that has it. */
static bool check_reduced(struct motet_proof *proof, int p, int chunk, motet_value value, motet_expression *tree)
{
    const struct motet_expressions *all = &proof->expressions;
    if (*tree == value / 4)
        return true;
    if (*tree)
        return motet_proof_reject(proof, p, -1, chunk, "the result is combined in another order than at an earlier position");
    *tree = value / 4;
    if (motet_expression_chunk(all, *tree) != chunk)
        return motet_proof_reject(proof, p, -1, chunk, "the output is the result of chunk %d", motet_expression_chunk(all, *tree));
    for (int other = 0; other < proof->nranks && !motet_expression_is_complete(all, *tree); other++) {
        if (!motet_expression_contains(all, *tree, other))
            return motet_proof_reject(proof, p, -1, chunk, "the result lacks the input of position %d", other);
    }
    if (proof->verdict->order == MOTET_ORDER_CANONICAL && !motet_expression_is_canonical(all, *tree, proof->options->rank_at))
        proof->verdict->order = MOTET_ORDER_ROTATED;
    return true;
}

/* Every promised chunk of OUTPUT holds what it must. trees: one per chunk. */
static bool check_results(struct motet_proof *proof, const struct motet_verify_run *run, motet_expression *trees)
{
    bool reduces = motet_collective_reduces(proof->algorithm->collective);
    size_t each = (size_t)proof->nslots * (size_t)proof->nchunks;
    for (int p = 0; p < proof->nranks && proof->algorithm->collective != MOTET_BARRIER; p++) {
        for (int chunk = 0; chunk < proof->nchunks; chunk++) {
            if (!output_is_promised(proof, p, chunk))
                continue;
            motet_value value =
                proof->memory[(size_t)p * each + (size_t)motet_proof_place(proof, p, MOTET_OUTPUT, chunk, run->in_place[p])];
            if (!value)
                return motet_proof_reject(proof, p, -1, chunk, "the output was never written (%s)", run->what);
            if (!(reduces ? check_reduced(proof, p, chunk, value, &trees[chunk]) : check_moved(proof, p, chunk, value)))
                return false;
        }
    }
    return true;
}

/* Messages and stores are the same as in the first run. */
static bool check_same_values(struct motet_proof *proof, const struct motet_verify_run *run)
{
    for (int g = 0; g < proof->graph.nsteps; g++) {
        int p = proof->graph.position[g];
        const struct motet_step *step = motet_graph_step(&proof->graph, g);
        for (int i = 0; i < step->n; i++) {
            int64_t at = proof->value_first[g] + i;
            if (proof->values[at] != proof->first_values[at])
                return motet_proof_reject(proof, p, g - proof->graph.first_step[p],
                                          motet_span_chunk(step->src_at, i, proof->nchunks),
                                          "uses another value than out of place: it was overwritten (%s)", run->what);
        }
    }
    return true;
}

/* ---- Direct mode ---- */

/* Where the readers of a message find chunk i in the sender's planes, or -1: it exists in the message only. */
static int published_place(const struct motet_proof *proof, int g, int i, bool in_place)
{
    int p = proof->graph.position[g];
    const struct motet_step *step = motet_graph_step(&proof->graph, g);
    bool wide = motet_step_sends_wide(step, p, proof->nranks);
    if (step->dst != MOTET_NONE && motet_plane_is_wide(step->dst) == wide)
        return motet_proof_place(proof, p, step->dst, motet_span_chunk(step->dst_at, i, proof->nchunks), in_place);
    if (step->src != MOTET_NONE && motet_step_operands(step, p, proof->nranks) == 1)
        return motet_proof_place(proof, p, step->src, motet_span_chunk(step->src_at, i, proof->nchunks), in_place);
    return -1;
}

/* Whether no later step of p writes what p's messages show. overwritten: one flag per place. */
static bool direct_is_legal(const struct motet_proof *proof, int p, bool in_place, bool *overwritten)
{
    memset(overwritten, 0, (size_t)proof->nslots * (size_t)proof->nchunks * sizeof(*overwritten));
    for (int g = proof->graph.first_step[p + 1] - 1; g >= proof->graph.first_step[p]; g--) {
        const struct motet_step *step = motet_graph_step(&proof->graph, g);
        for (int i = 0; i < step->n && motet_peers_count(step->to, p, proof->nranks) > 0; i++) {
            int place = published_place(proof, g, i, in_place);
            if (place < 0 || overwritten[place])
                return false;
        }
        for (int i = 0; i < step->n && step->dst != MOTET_NONE; i++)
            overwritten[motet_proof_place(proof, p, step->dst, motet_span_chunk(step->dst_at, i, proof->nchunks), in_place)] = true;
    }
    return true;
}

static bool note_direct(struct motet_proof *proof)
{
    struct motet_verdict *verdict = proof->verdict;
    bool *overwritten = malloc((size_t)proof->nslots * (size_t)proof->nchunks * sizeof(*overwritten));
    proof->out_of_memory = !overwritten;
    verdict->direct_ok = verdict->direct_ok_in_place = true;
    for (int p = 0; overwritten && p < proof->nranks; p++) {
        verdict->direct_ok = verdict->direct_ok && direct_is_legal(proof, p, false, overwritten);
        verdict->direct_ok_in_place = verdict->direct_ok_in_place && direct_is_legal(proof, p, true, overwritten);
    }
    free(overwritten);
    return !proof->out_of_memory;
}

/* ---- The proof ---- */

/* One execution and everything that must hold after it. */
static bool run_and_check(struct motet_proof *proof, const struct motet_verify_run *run, motet_expression *trees)
{
    if (!motet_verify_execute(proof, run) || !check_results(proof, run, trees))
        return false;
    if (proof->has_first_values)
        return check_same_values(proof, run);
    if (proof->options->watch)
        proof->options->watch(proof, proof->options->context);
    motet_value *swap = proof->first_values;
    proof->first_values = proof->values;
    proof->values = swap;
    proof->has_first_values = true;
    return true;
}

static bool run_mixes(struct motet_proof *proof, bool *in_place, motet_expression *trees)
{
    uint64_t seed = proof->options->seed;
    size_t n = (size_t)proof->nranks;
    memset(in_place, false, n);
    if (!run_and_check(proof, &(struct motet_verify_run){.seed = seed, .in_place = in_place, .what = "out of place"}, trees))
        return false;
    memset(in_place, true, n);
    if (!run_and_check(proof, &(struct motet_verify_run){.seed = seed + 1, .in_place = in_place, .what = "in place"}, trees))
        return false;
    for (int k = 0; k < proof->options->interleavings; k++) {
        uint64_t mix = n <= MOTET_VERIFY_ALL_MIXES ? (uint64_t)k : (seed + (uint64_t)k + 1) * UINT64_C(0x9e3779b97f4a7c15);
        for (size_t p = 0; p < n; p++)
            in_place[p] = mix >> p % 61 & 1;
        if (!run_and_check(
                proof, &(struct motet_verify_run){.seed = seed + 2 + (uint64_t)k, .in_place = in_place, .what = "some in place"},
                trees))
            return false;
    }
    memset(in_place, true, n);
    struct motet_verify_run unbuffered = {.seed = seed, .in_place = in_place, .unbuffered = true, .what = "unbuffered"};
    proof->verdict->unbuffered_ok = motet_verify_execute(proof, &unbuffered);
    proof->verdict->text[0] = '\0';
    return !proof->out_of_memory;
}

static bool prove(struct motet_proof *proof)
{
    bool *in_place = malloc((size_t)proof->nranks);
    motet_expression *trees = calloc((size_t)proof->nchunks, sizeof(*trees));
    proof->out_of_memory = !in_place || !trees;
    bool ok = !proof->out_of_memory && motet_verify_messages(proof) && motet_verify_hazards(proof) &&
              run_mixes(proof, in_place, trees) && note_direct(proof);
    free(in_place);
    free(trees);
    return ok;
}

/* ---- Set up and tear down ---- */

static bool allocate(struct motet_proof *proof)
{
    size_t n = (size_t)proof->graph.nsteps + 1;
    proof->after[0] = calloc(2 * n, sizeof(*proof->after[0]));
    proof->value_first = calloc(n, sizeof(*proof->value_first));
    if (!proof->after[0] || !proof->value_first)
        return false;
    proof->after[1] = proof->after[0] + n;
    for (int g = 0; g < proof->graph.nsteps; g++)
        proof->value_first[g + 1] = proof->value_first[g] + motet_graph_step(&proof->graph, g)->n;
    size_t nvalues = (size_t)proof->value_first[proof->graph.nsteps] + 1;
    size_t nplaces = (size_t)proof->nranks * (size_t)proof->nslots * (size_t)proof->nchunks;
    proof->values = calloc(nvalues, sizeof(motet_value));
    proof->first_values = calloc(nvalues, sizeof(motet_value));
    proof->memory = malloc(nplaces * sizeof(motet_value));
    return proof->values && proof->first_values && proof->memory &&
           motet_expressions_begin(&proof->expressions, proof->nranks, proof->nchunks);
}

static void release(struct motet_proof *proof)
{
    motet_graph_free(&proof->graph);
    free(proof->after[0]);
    free(proof->value_first);
    free(proof->values);
    free(proof->first_values);
    free(proof->memory);
    motet_expressions_end(&proof->expressions);
}

/* Every send has its receive. */
static bool link_steps(struct motet_proof *proof)
{
    struct motet_graph *graph = &proof->graph;
    if (motet_graph_build(graph, proof->schedules, proof->nranks))
        return true;
    int g = graph->unmatched_step;
    proof->out_of_memory = g < 0;
    if (g < 0)
        return false;
    int p = graph->position[g], s = g - graph->first_step[p];
    return graph->unmatched_receive
               ? motet_proof_reject(proof, p, s, -1, "waits for a message that position %d never sends", graph->unmatched_peer)
               : motet_proof_reject(proof, p, s, -1, "sends a message that position %d never receives", graph->unmatched_peer);
}

/* Gives each plane that some step names a slot of memory. */
static void assign_slots(struct motet_proof *proof)
{
    bool used[MOTET_NPLANES] = {[MOTET_INPUT] = true, [MOTET_OUTPUT] = true};
    for (int p = 0; p < proof->nranks; p++) {
        for (int s = 0; s < proof->schedules[p].nsteps; s++) {
            const struct motet_step *step = &proof->schedules[p].steps[s];
            used[step->dst] = true;
            for (int k = 0; k < step->nsrc; k++)
                used[step->src + k] = true;
        }
    }
    proof->nslots = 0;
    for (int plane = MOTET_INPUT; plane < MOTET_NPLANES; plane++)
        proof->slot[plane] = used[plane] ? proof->nslots++ : -1;
}

motetResult_t motet_verify_schedules(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                     struct motet_schedule *schedules, const struct motet_verify_options *options,
                                     struct motet_verdict *verdict)
{
    static const struct motet_verify_options none;
    struct motet_proof proof = {
        .algorithm = algorithm,
        .shape = shape,
        .options = options ? options : &none,
        .schedules = schedules,
        .verdict = verdict,
        .nranks = shape->nranks,
        .nblocks = schedules[0].nblocks,
        .parts = schedules[0].parts,
        .nchunks = motet_schedule_nchunks(&schedules[0]),
    };
    *verdict = (struct motet_verdict){.ok = true, .nchunks = proof.nchunks};
    verdict->order = motet_collective_reduces(algorithm->collective) ? MOTET_ORDER_CANONICAL : MOTET_ORDER_NONE;
    verdict->chunks_sent = calloc(2 * (size_t)shape->nranks, sizeof(*verdict->chunks_sent));
    verdict->wide_sent = verdict->chunks_sent + shape->nranks;
    proof.out_of_memory = !verdict->chunks_sent;
    for (int p = 0; p < shape->nranks; p++) {
        motet_schedule_expand(&schedules[p]);
        proof.out_of_memory |= schedules[p].out_of_memory;
    }
    if (!proof.out_of_memory && motet_verify_steps(&proof) && link_steps(&proof)) {
        assign_slots(&proof);
        proof.out_of_memory = !allocate(&proof);
        verdict->ok = !proof.out_of_memory && prove(&proof);
    }
    release(&proof);
    if (proof.out_of_memory)
        return motet_fail(motetSystemError, "out of memory while verifying %s %s on %d ranks",
                          motet_collective_name(algorithm->collective), algorithm->name, shape->nranks);
    return motetSuccess;
}

motetResult_t motet_verify(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                           const struct motet_verify_options *options, struct motet_verdict *verdict)
{
    *verdict = (struct motet_verdict){0};
    struct motet_schedule *schedules = calloc((size_t)shape->nranks, sizeof(*schedules));
    if (!schedules)
        return motet_fail(motetSystemError, "out of memory while verifying %s on %d ranks", algorithm->name, shape->nranks);
    for (int p = 0; p < shape->nranks; p++) {
        struct motet_shape own = *shape;
        own.position = p;
        algorithm->build(&schedules[p], &own);
    }
    motetResult_t result = motet_verify_schedules(algorithm, shape, schedules, options, verdict);
    for (int p = 0; p < shape->nranks; p++)
        motet_schedule_free(&schedules[p]);
    free(schedules);
    return result;
}

void motet_verdict_free(struct motet_verdict *verdict)
{
    free(verdict->chunks_sent);
    verdict->chunks_sent = NULL;
    verdict->wide_sent = NULL;
}
