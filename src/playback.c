/* SPDX-License-Identifier: Apache-2.0 */
#include "playback.h"

#include <stdlib.h>

#include "base/error.h"
#include "graph.h"
#include "verify_proof.h"

/* ---- Rounds ---- */

/* One pass over the steps of position p; whether a round grew. after: as in verify_proof.h; NULL: no hazards. */
static bool raise_rounds(const struct motet_graph *graph, const int32_t *after, int p, int32_t *round)
{
    bool grew = false;
    int32_t before = 0, most = 0; /* of all steps of earlier rounds; of all steps so far */
    for (int g = graph->first_step[p]; g < graph->first_step[p + 1]; g++) {
        bool opens = g > graph->first_step[p] && graph->round_end[g - 1] == g;
        int32_t own = before = opens ? most : before;
        for (int k = graph->in_first[g]; k < graph->in_first[g + 1]; k++)
            own = round[graph->in[k]] + 1 > own ? round[graph->in[k]] + 1 : own;
        for (int earlier = graph->first_step[p]; after && earlier < after[g]; earlier++)
            own = round[earlier] > own ? round[earlier] : own;
        grew |= own > round[g];
        round[g] = own;
        most = own > most ? own : most;
    }
    return grew;
}

/* round[g]: the length of the longest chain of messages that ends in step g. */
static void number_rounds(const struct motet_graph *graph, const int32_t *after, int32_t *round)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (int p = 0; p < graph->nranks; p++)
            grew |= raise_rounds(graph, after, p, round);
    }
}

static int last_round(const struct motet_graph *graph, const int32_t *round)
{
    int last = 0;
    for (int g = 0; g < graph->nsteps; g++)
        last = round[g] > last ? round[g] : last;
    return last;
}

bool motet_playback_rounds(const struct motet_schedule *schedules, int nranks, int *rounds)
{
    struct motet_graph graph = {0};
    bool ok = motet_graph_build(&graph, schedules, nranks);
    int32_t *round = ok ? calloc((size_t)graph.nsteps + 1, sizeof(*round)) : NULL;
    if (round) {
        number_rounds(&graph, NULL, round);
        *rounds = last_round(&graph, round);
    }
    free(round);
    motet_graph_free(&graph);
    return round != NULL;
}

/* ---- What the verifier shows ---- */

struct watcher {
    struct motet_playback *playback;
    const struct motet_cost_world *world;
    const struct motet_cost_load *load;
    bool failed; /* no memory */
};

static uint64_t inputs_of(const struct motet_proof *proof, motet_value value)
{
    uint64_t set = 0;
    for (int p = 0; p < proof->nranks; p++)
        set |= (uint64_t)motet_expression_contains(&proof->expressions, value / 4, p) << p;
    return set;
}

/* In an all-to-all a chunk is another one at each end, so that only buffers of the caller have chunks that mean something. */
static void note_value(struct motet_playback *playback, const struct motet_proof *proof, int p, int round, int plane, int chunk,
                       motet_value value)
{
    bool moves = proof->algorithm->collective == MOTET_ALLTOALL;
    int origin = motet_expression_chunk(&proof->expressions, value / 4);
    if (moves && plane != MOTET_OUTPUT)
        return;
    playback->values[playback->nvalues++] = (struct motet_playback_value){
        .position = p,
        .round = round,
        .chunk = moves ? chunk : origin,
        .origin = origin,
        .is_result = plane == MOTET_OUTPUT,
        .inputs = inputs_of(proof, value),
    };
}

static void note_values(struct motet_playback *playback, const struct motet_proof *proof, const int32_t *round)
{
    size_t each = (size_t)proof->nslots * (size_t)proof->nchunks;
    for (int p = 0; p < proof->nranks; p++) {
        playback->first_value[p] = playback->nvalues;
        for (int chunk = 0; chunk < proof->nchunks; chunk++) {
            motet_value value = proof->memory[(size_t)p * each + (size_t)motet_proof_place(proof, p, MOTET_INPUT, chunk, false)];
            if (value && proof->algorithm->collective != MOTET_ALLTOALL)
                note_value(playback, proof, p, 0, MOTET_INPUT, chunk, value);
        }
        for (int g = proof->graph.first_step[p]; g < proof->graph.first_step[p + 1]; g++) {
            const struct motet_step *step = motet_graph_step(&proof->graph, g);
            for (int i = 0; i < step->n; i++)
                note_value(playback, proof, p, round[g], step->dst, motet_span_chunk(step->dst_at, i, proof->nchunks),
                           proof->values[proof->value_first[g] + i]);
        }
    }
    playback->first_value[proof->nranks] = playback->nvalues;
}

static void note_messages(struct watcher *watcher, const struct motet_proof *proof, const int32_t *round,
                          const struct motet_cost_timeline *timeline)
{
    const struct motet_graph *graph = &proof->graph;
    struct motet_playback *playback = watcher->playback;
    double chunk_bytes = timeline->tile_bytes / proof->nchunks;
    for (int g = 0; g < graph->nsteps; g++) {
        const struct motet_step *step = motet_graph_step(graph, g);
        int p = graph->position[g];
        bool wide = motet_step_sends_wide(step, p, proof->nranks);
        double ratio = wide ? watcher->load->wide_size / watcher->load->size : 1;
        bool sum = step->n > 0 && __builtin_popcountll(inputs_of(proof, proof->values[proof->value_first[g]])) > 1;
        for (int m = graph->out_first[g]; m < graph->out_first[g + 1]; m++)
            playback->messages[playback->nmessages++] = (struct motet_playback_message){
                .from = p,
                .to = graph->position[graph->out[m]],
                .round = round[g] + 1,
                .chunk = step->n ? motet_span_chunk(step->dst_at, 0, proof->nchunks) : 0,
                .chunks = step->n,
                .sum = sum,
                .bytes = step->n * chunk_bytes * ratio,
                .sent_ns = timeline->begun[g],
                .arrived_ns = timeline->arrived[m],
            };
    }
}

static int compare_messages(const void *a, const void *b)
{
    const struct motet_playback_message *left = a, *right = b;
    if (left->round != right->round)
        return left->round - right->round;
    if (left->from != right->from)
        return left->from - right->from;
    return left->to != right->to ? left->to - right->to : left->chunk - right->chunk;
}

static void watch(const struct motet_proof *proof, void *context)
{
    struct watcher *watcher = context;
    struct motet_playback *playback = watcher->playback;
    const struct motet_graph *graph = &proof->graph;
    size_t nsteps = (size_t)graph->nsteps + 1, nmessages = (size_t)graph->nmessages + 1;
    size_t nvalues = (size_t)proof->value_first[graph->nsteps] + (size_t)proof->nranks * (size_t)proof->nchunks + 1;
    int32_t *round = calloc(nsteps, sizeof(*round));
    double *times = calloc(2 * nsteps + nmessages, sizeof(*times));
    struct motet_cost_timeline timeline = {.begun = times};
    playback->messages = calloc(nmessages, sizeof(*playback->messages));
    playback->values = calloc(nvalues, sizeof(*playback->values));
    watcher->failed = !round || !times || !playback->messages || !playback->values;
    if (!watcher->failed) {
        timeline.ended = times + nsteps;
        timeline.arrived = times + 2 * nsteps;
        watcher->failed = !motet_cost_trace(graph, proof->shape, watcher->world, watcher->load, &timeline);
        number_rounds(graph, proof->after[0], round);
        playback->nrounds = last_round(graph, round);
        playback->nchunks = proof->nchunks;
        note_values(playback, proof, round);
        note_messages(watcher, proof, round, &timeline);
        qsort(playback->messages, (size_t)playback->nmessages, sizeof(*playback->messages), compare_messages);
    }
    free(round);
    free(times);
}

motetResult_t motet_playback_make(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                  const struct motet_cost_world *world, const struct motet_cost_load *load,
                                  struct motet_playback **made)
{
    struct motet_playback *playback = calloc(1, sizeof(*playback));
    struct watcher watcher = {.playback = playback, .world = world, .load = load};
    struct motet_verify_options options = {.watch = watch, .context = &watcher};
    struct motet_verdict verdict = {0};
    if (!playback)
        return motet_fail(motetSystemError, "out of memory for the rounds of %s", algorithm->name);
    playback->nranks = shape->nranks;
    motetResult_t result = motet_verify(algorithm, shape, &options, &verdict);
    if (result == motetSuccess && watcher.failed)
        result = motet_fail(motetSystemError, "out of memory for the rounds of %s", algorithm->name);
    else if (result == motetSuccess && !verdict.ok)
        result = motet_fail(motetInternalError, "%s", verdict.text);
    motet_verdict_free(&verdict);
    if (result == motetSuccess)
        *made = playback;
    else
        motet_playback_free(playback);
    return result;
}

void motet_playback_free(struct motet_playback *playback)
{
    if (!playback)
        return;
    free(playback->messages);
    free(playback->values);
    free(playback);
}

const struct motet_playback_value *motet_playback_find(const struct motet_playback *playback, int round, int position, int chunk)
{
    const struct motet_playback_value *best = NULL;
    for (int v = playback->first_value[position]; v < playback->first_value[position + 1]; v++) {
        const struct motet_playback_value *value = &playback->values[v];
        if (value->chunk != chunk || value->round > round)
            continue;
        int more = best ? __builtin_popcountll(value->inputs) - __builtin_popcountll(best->inputs) : 1;
        if (more > 0 || (more == 0 && value->is_result && !best->is_result))
            best = value;
    }
    return best;
}
