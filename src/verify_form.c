/* SPDX-License-Identifier: Apache-2.0
 * What the verifier can say of schedules without running them: steps are well formed and touch only what exists, every send meets its
 * receive, and no place is read and written by steps that run at the same time, in place and out of place. */
#include "verify_proof.h"

#include <stdlib.h>
#include <string.h>

/* ---- Steps ---- */

/* INPUT, OUTPUT, SCRATCH and PARTIAL: planes that may stand side by side in one step. */
static int plane_family(int plane)
{
    return plane >= MOTET_PARTIAL ? MOTET_PARTIAL : plane >= MOTET_SCRATCH ? MOTET_SCRATCH : plane;
}

static int greatest_common_divisor(int a, int b)
{
    while (b) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

static bool peers_are_distinct(struct motet_peers peers, int nranks)
{
    int stride = peers.stride ? peers.stride : 1;
    return peers.n >= 0 && peers.n <= nranks / greatest_common_divisor(stride, nranks);
}

/* Whether the caller's receive buffer has this block at this position. */
static bool output_exists(const struct motet_proof *proof, int position, int block)
{
    switch (proof->algorithm->collective) {
    case MOTET_REDUCE:
    case MOTET_GATHER:
        return position == proof->shape->root;
    case MOTET_REDUCESCATTER:
    case MOTET_SCATTER:
        return block == position;
    case MOTET_BARRIER:
        return false;
    default:
        return true;
    }
}

static const char *missing_output(const struct motet_proof *proof)
{
    if (proof->algorithm->collective == MOTET_BARRIER)
        return "a barrier has no output";
    return motet_collective_has_root(proof->algorithm->collective) && proof->algorithm->collective != MOTET_SCATTER
               ? "only the root has an output"
               : "the output holds only the own block";
}

static bool check_planes(struct motet_proof *proof, int p, int s, const struct motet_step *step)
{
    int last = step->src + (step->nsrc ? step->nsrc - 1 : 0);
    if (step->dst >= MOTET_NPLANES || last >= MOTET_NPLANES || plane_family(step->src) != plane_family(last))
        return motet_proof_reject(proof, p, s, -1, "names a plane that does not exist");
    if ((step->src == MOTET_NONE) != (step->nsrc == 0) || (step->nsrc > 1 && step->src <= MOTET_OUTPUT))
        return motet_proof_reject(proof, p, s, -1, "has %d local planes from %s", step->nsrc, motet_plane_name(step->src));
    if (step->dst == MOTET_INPUT)
        return motet_proof_reject(proof, p, s, -1, "writes the input");
    if (!motet_collective_reduces(proof->algorithm->collective)) {
        if (motet_plane_is_wide(step->dst) || motet_plane_is_wide(step->src) || (step->flags & MOTET_WIDE))
            return motet_proof_reject(proof, p, s, -1, "uses accumulators, but this collective only moves data");
        if (step->n > 0 && motet_step_operands(step, p, proof->nranks) > 1)
            return motet_proof_reject(proof, p, s, -1, "combines values, but this collective only moves data");
    }
    return true;
}

/* Every chunk it touches exists, and what it combines has one length. */
static bool check_chunks(struct motet_proof *proof, int p, int s, const struct motet_step *step)
{
    bool same_block = proof->algorithm->counts != MOTET_COUNTS_EQUAL;
    for (int i = 0; i < step->n; i++) {
        int dst = motet_span_chunk(step->dst_at, i, proof->nchunks);
        int src = motet_span_chunk(step->src_at, i, proof->nchunks);
        if (step->dst == MOTET_OUTPUT && !output_exists(proof, p, dst / proof->parts))
            return motet_proof_reject(proof, p, s, dst, "writes out[%d], but %s", dst, missing_output(proof));
        if (step->src == MOTET_NONE)
            continue;
        if (src % proof->parts != dst % proof->parts || (same_block && src / proof->parts != dst / proof->parts))
            return motet_proof_reject(proof, p, s, dst, "puts chunk %d, which may have another length, in chunk %d", src, dst);
    }
    return true;
}

static bool check_step(struct motet_proof *proof, int p, int s, const struct motet_step *step)
{
    int nranks = proof->nranks;
    if (step->n < 0 || step->n > proof->nchunks)
        return motet_proof_reject(proof, p, s, -1, "has %d chunks of %d", step->n, proof->nchunks);
    if (!peers_are_distinct(step->from, nranks) || !peers_are_distinct(step->to, nranks))
        return motet_proof_reject(proof, p, s, -1, "names a peer twice");
    if (!check_planes(proof, p, s, step))
        return false;
    if (step->n == 0)
        return true;
    if (motet_step_operands(step, p, nranks) == 0)
        return motet_proof_reject(proof, p, s, -1, "has nothing to send or store");
    if (step->dst == MOTET_NONE && motet_peers_count(step->to, p, nranks) == 0)
        return motet_proof_reject(proof, p, s, -1, "receives data and drops it");
    return check_chunks(proof, p, s, step);
}

/* Limits on what one position sends; fills the verdict's counts. */
static bool check_volume(struct motet_proof *proof, int p)
{
    const struct motet_schedule *schedule = &proof->schedules[p];
    struct motet_verdict *verdict = proof->verdict;
    int sends = 0, rounds = 0;
    int64_t staged = 0;
    for (int s = 0; s < schedule->nsteps; s++) {
        const struct motet_step *step = &schedule->steps[s];
        int targets = motet_peers_count(step->to, p, proof->nranks);
        rounds += (step->flags & MOTET_ENDS_ROUND) || s == schedule->nsteps - 1;
        sends += targets > 0;
        staged += targets > 0 ? step->n : 0;
        verdict->chunks_sent[p] += (int64_t)targets * step->n;
        if (motet_step_sends_wide(step, p, proof->nranks))
            verdict->wide_sent[p] += (int64_t)targets * step->n;
    }
    verdict->sends = sends > verdict->sends ? sends : verdict->sends;
    verdict->rounds = rounds > verdict->rounds ? rounds : verdict->rounds;
    verdict->chunks_total += verdict->chunks_sent[p];
    if (staged > schedule->stage_chunks)
        return motet_proof_reject(proof, p, -1, -1, "sends %lld chunks, but stage_chunks is %d", (long long)staged,
                                  schedule->stage_chunks);
    if (sends > 4 * proof->nranks + 64)
        return motet_proof_reject(proof, p, -1, -1, "has %d sends, more than 4 * nranks + 64", sends);
    return true;
}

static bool check_header(struct motet_proof *proof, int p)
{
    const struct motet_schedule *schedule = &proof->schedules[p], *first = &proof->schedules[0];
    if (schedule->nranks != proof->nranks || schedule->position != p)
        return motet_proof_reject(proof, p, -1, -1, "the schedule was built for another shape");
    if (schedule->nblocks != motet_collective_nblocks(proof->algorithm->collective, proof->nranks))
        return motet_proof_reject(proof, p, -1, -1, "the schedule has %d blocks", schedule->nblocks);
    if (schedule->parts != first->parts || schedule->stage_chunks != first->stage_chunks)
        return motet_proof_reject(proof, p, -1, -1, "parts and stage_chunks are %d and %d here, %d and %d at position 0",
                                  schedule->parts, schedule->stage_chunks, first->parts, first->stage_chunks);
    return true;
}

bool motet_verify_steps(struct motet_proof *proof)
{
    for (int p = 0; p < proof->nranks; p++) {
        if (!check_header(proof, p))
            return false;
        for (int s = 0; s < proof->schedules[p].nsteps; s++) {
            if (!check_step(proof, p, s, &proof->schedules[p].steps[s]))
                return false;
        }
        if (!check_volume(proof, p))
            return false;
    }
    return true;
}

/* ---- Messages ---- */

/* A block whose count only two positions know must go straight from one to the other. */
static bool pair_knows(const struct motet_proof *proof, int from, int to, int sent_block, int received_block)
{
    switch (proof->algorithm->collective) {
    case MOTET_GATHER:
        return sent_block == from && to == proof->shape->root;
    case MOTET_SCATTER:
        return sent_block == to && from == proof->shape->root;
    case MOTET_ALLTOALL:
        return sent_block == to && received_block == from;
    default:
        return true;
    }
}

/* Whether both ends of a message mean the same. */
static bool check_message(struct motet_proof *proof, int sender, int receiver)
{
    const struct motet_step *send = motet_graph_step(&proof->graph, sender), *recv = motet_graph_step(&proof->graph, receiver);
    int from = proof->graph.position[sender], to = proof->graph.position[receiver], s = receiver - proof->graph.first_step[to];
    bool same_block = proof->algorithm->collective != MOTET_ALLTOALL;
    if (send->n != recv->n)
        return motet_proof_reject(proof, to, s, -1, "expects %d chunks from position %d, which sends %d in its step %d", recv->n,
                                  from, send->n, sender - proof->graph.first_step[from]);
    if (send->n > 0 && motet_step_sends_wide(send, from, proof->nranks) != !!(recv->flags & MOTET_WIDE))
        return motet_proof_reject(proof, to, s, -1, "takes what position %d sends in its step %d for %s", from,
                                  sender - proof->graph.first_step[from],
                                  recv->flags & MOTET_WIDE ? "accumulators" : "finished or raw data");
    for (int i = 0; i < send->n; i++) {
        int sent = motet_span_chunk(send->dst_at, i, proof->nchunks), received = motet_span_chunk(recv->dst_at, i, proof->nchunks);
        int sent_block = sent / proof->parts, received_block = received / proof->parts;
        if (sent % proof->parts != received % proof->parts || (same_block && sent_block != received_block))
            return motet_proof_reject(proof, to, s, received, "takes chunk %d of position %d, which may have another length", sent,
                                      from);
        if (proof->algorithm->counts == MOTET_COUNTS_PAIR_KNOWS && !pair_knows(proof, from, to, sent_block, received_block))
            return motet_proof_reject(proof, to, s, received, "takes a block of position %d whose count it cannot know", from);
    }
    return true;
}

bool motet_verify_messages(struct motet_proof *proof)
{
    const struct motet_graph *graph = &proof->graph;
    for (int g = 0; g < graph->nsteps; g++) {
        for (int k = graph->in_first[g]; k < graph->in_first[g + 1]; k++) {
            if (!check_message(proof, graph->in[k], g))
                return false;
        }
    }
    return true;
}

/* ---- Hazards ---- */

/* Who touched a place last, as step numbers; what is older than the round does not count. */
struct touches {
    int32_t *writer, *reader; /* by place; readers are listed before the current step */
    int32_t *own, *own_index; /* by place: the step that reads it now, and at which index of its message */
};

/* Reads of step g: nothing that its own round has written. */
static bool check_reads(struct motet_proof *proof, int g, int round_start, bool in_place, struct touches *touches)
{
    int p = proof->graph.position[g];
    const struct motet_step *step = motet_graph_step(&proof->graph, g);
    for (int k = 0; k < step->nsrc; k++) {
        for (int i = 0; i < step->n; i++) {
            int chunk = motet_span_chunk(step->src_at, i, proof->nchunks);
            int place = motet_proof_place(proof, p, step->src + k, chunk, in_place);
            if (touches->writer[place] >= round_start)
                return motet_proof_reject(proof, p, g - proof->graph.first_step[p], chunk,
                                          "reads %s[%d]%s, which step %d of the same round writes", motet_plane_name(step->src + k),
                                          chunk, in_place ? " in place" : "", touches->writer[place] - proof->graph.first_step[p]);
            touches->own_index[place] = touches->own[place] == g && touches->own_index[place] != i ? -1 : i;
            touches->own[place] = g;
        }
    }
    return true;
}

/* Writes of step g: one per place and round, and none to a place that the same message reads at another index. Notes whom they wait for. */
static bool check_writes(struct motet_proof *proof, int g, int round_start, bool in_place, struct touches *touches)
{
    int p = proof->graph.position[g], s = g - proof->graph.first_step[p];
    const struct motet_step *step = motet_graph_step(&proof->graph, g);
    for (int i = 0; i < step->n && step->dst != MOTET_NONE; i++) {
        int chunk = motet_span_chunk(step->dst_at, i, proof->nchunks);
        int place = motet_proof_place(proof, p, step->dst, chunk, in_place);
        if (touches->writer[place] >= round_start)
            return motet_proof_reject(proof, p, s, chunk, "writes %s[%d]%s, as step %d of the same round does",
                                      motet_plane_name(step->dst), chunk, in_place ? " in place" : "",
                                      touches->writer[place] - proof->graph.first_step[p]);
        if (touches->own[place] == g && touches->own_index[place] != i)
            return motet_proof_reject(proof, p, s, chunk, "writes %s[%d]%s, which it reads for another chunk of the same message",
                                      motet_plane_name(step->dst), chunk, in_place ? " in place" : "");
        touches->writer[place] = g;
        if (touches->reader[place] >= round_start && touches->reader[place] + 1 > proof->after[in_place][g])
            proof->after[in_place][g] = touches->reader[place] + 1;
    }
    return true;
}

static bool check_all_touches(struct motet_proof *proof, bool in_place, struct touches *touches)
{
    for (int g = 0, round_start = 0; g < proof->graph.nsteps; g++) {
        int p = proof->graph.position[g];
        const struct motet_step *step = motet_graph_step(&proof->graph, g);
        if (!check_reads(proof, g, round_start, in_place, touches) || !check_writes(proof, g, round_start, in_place, touches))
            return false;
        for (int k = 0; k < step->nsrc; k++) {
            for (int i = 0; i < step->n; i++)
                touches->reader[motet_proof_place(proof, p, step->src + k, motet_span_chunk(step->src_at, i, proof->nchunks),
                                                  in_place)] = g;
        }
        if (g + 1 == proof->graph.round_end[g])
            round_start = g + 1;
    }
    return true;
}

bool motet_verify_hazards(struct motet_proof *proof)
{
    size_t nplaces = (size_t)proof->nslots * (size_t)proof->nchunks, bytes = nplaces * sizeof(int32_t);
    int32_t *memory = malloc(4 * bytes);
    proof->out_of_memory = !memory;
    bool ok = memory;
    for (int in_place = 0; ok && in_place < 2; in_place++) {
        struct touches touches = {memory, memory + nplaces, memory + 2 * nplaces, memory + 3 * nplaces};
        memset(memory, 0xff, 4 * bytes);
        ok = check_all_touches(proof, in_place, &touches);
    }
    free(memory);
    return ok;
}
