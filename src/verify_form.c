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
    const struct motet_step *send = motet_proof_step(proof, sender), *recv = motet_proof_step(proof, receiver);
    int from = proof->position[sender], to = proof->position[receiver], s = receiver - proof->first_step[to];
    bool same_block = proof->algorithm->collective != MOTET_ALLTOALL;
    if (send->n != recv->n)
        return motet_proof_reject(proof, to, s, -1, "expects %d chunks from position %d, which sends %d in its step %d", recv->n,
                                  from, send->n, sender - proof->first_step[from]);
    if (send->n > 0 && motet_step_sends_wide(send, from, proof->nranks) != !!(recv->flags & MOTET_WIDE))
        return motet_proof_reject(proof, to, s, -1, "takes what position %d sends in its step %d for %s", from,
                                  sender - proof->first_step[from],
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

/* Messages by ordered pair of positions, each pair's in the order of the sender's list. */
struct matching {
    int32_t *starts;  /* nranks^2 + 1: of a pair, into by_pair */
    int32_t *next;    /* nranks^2: first message of a pair that no receive has met */
    int32_t *by_pair; /* messages */
    int32_t *sender;  /* of a message: its step */
};

static size_t pair_of(const struct motet_proof *proof, int from, int to)
{
    return (size_t)from * (size_t)proof->nranks + (size_t)to;
}

/* Numbers what leaves, step by step, and sorts it by pair. */
static void number_sends(struct motet_proof *proof, struct matching *matching)
{
    size_t npairs = pair_of(proof, proof->nranks, 0);
    for (int pass = 0; pass < 2; pass++) {
        for (int g = 0, m = 0; g < proof->nsteps; g++) {
            int p = proof->position[g];
            const struct motet_step *step = motet_proof_step(proof, g);
            for (int i = 0; i < proof->out_first[g + 1] - proof->out_first[g]; i++, m++) {
                size_t pair = pair_of(proof, p, motet_peers_at(step->to, i, p, proof->nranks));
                matching->sender[m] = g;
                if (pass == 0)
                    matching->starts[pair + 1]++;
                else
                    matching->by_pair[matching->next[pair]++] = m;
            }
        }
        for (size_t pair = 0; pass == 0 && pair < npairs; pair++)
            matching->starts[pair + 1] += matching->starts[pair];
        memcpy(matching->next, matching->starts, npairs * sizeof(*matching->next));
    }
}

/* Finds the senders of step g and lists them by position. */
static bool match_receives(struct motet_proof *proof, int g, struct matching *matching)
{
    int p = proof->position[g];
    const struct motet_step *step = motet_proof_step(proof, g);
    int32_t *in = proof->in + proof->in_first[g];
    for (int i = 0; i < proof->in_first[g + 1] - proof->in_first[g]; i++) {
        int peer = motet_peers_at(step->from, i, p, proof->nranks), at = i;
        size_t pair = pair_of(proof, peer, p);
        if (matching->next[pair] == matching->starts[pair + 1])
            return motet_proof_reject(proof, p, g - proof->first_step[p], -1, "waits for a message that position %d never sends",
                                      peer);
        int m = matching->by_pair[matching->next[pair]++];
        proof->out[m] = g;
        if (!check_message(proof, matching->sender[m], g))
            return false;
        for (; at > 0 && proof->position[in[at - 1]] > peer; at--)
            in[at] = in[at - 1];
        in[at] = matching->sender[m];
        proof->local_at[g] += peer < p;
    }
    return true;
}

static bool match_all(struct motet_proof *proof, struct matching *matching)
{
    number_sends(proof, matching);
    for (int g = 0; g < proof->nsteps; g++) {
        if (!match_receives(proof, g, matching))
            return false;
    }
    for (int p = 0; p < proof->nranks; p++) {
        for (int to = 0; to < proof->nranks; to++) {
            size_t pair = pair_of(proof, p, to);
            if (matching->next[pair] == matching->starts[pair + 1])
                continue;
            int g = matching->sender[matching->by_pair[matching->next[pair]]];
            return motet_proof_reject(proof, p, g - proof->first_step[p], -1, "sends a message that position %d never receives",
                                      to);
        }
    }
    return true;
}

bool motet_verify_messages(struct motet_proof *proof)
{
    size_t npairs = pair_of(proof, proof->nranks, 0), nmessages = (size_t)proof->nmessages + 1;
    struct matching matching = {
        .starts = calloc(npairs + 1, sizeof(int32_t)),
        .next = calloc(npairs + 1, sizeof(int32_t)),
        .by_pair = calloc(nmessages, sizeof(int32_t)),
        .sender = calloc(nmessages, sizeof(int32_t)),
    };
    proof->out_of_memory = !matching.starts || !matching.next || !matching.by_pair || !matching.sender;
    bool ok = !proof->out_of_memory && match_all(proof, &matching);
    free(matching.starts);
    free(matching.next);
    free(matching.by_pair);
    free(matching.sender);
    return ok;
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
    int p = proof->position[g];
    const struct motet_step *step = motet_proof_step(proof, g);
    for (int k = 0; k < step->nsrc; k++) {
        for (int i = 0; i < step->n; i++) {
            int chunk = motet_span_chunk(step->src_at, i, proof->nchunks);
            int place = motet_proof_place(proof, p, step->src + k, chunk, in_place);
            if (touches->writer[place] >= round_start)
                return motet_proof_reject(proof, p, g - proof->first_step[p], chunk,
                                          "reads %s[%d]%s, which step %d of the same round writes", motet_plane_name(step->src + k),
                                          chunk, in_place ? " in place" : "", touches->writer[place] - proof->first_step[p]);
            touches->own_index[place] = touches->own[place] == g && touches->own_index[place] != i ? -1 : i;
            touches->own[place] = g;
        }
    }
    return true;
}

/* Writes of step g: one per place and round, and none to a place that the same message reads at another index. Notes whom they wait for. */
static bool check_writes(struct motet_proof *proof, int g, int round_start, bool in_place, struct touches *touches)
{
    int p = proof->position[g], s = g - proof->first_step[p];
    const struct motet_step *step = motet_proof_step(proof, g);
    for (int i = 0; i < step->n && step->dst != MOTET_NONE; i++) {
        int chunk = motet_span_chunk(step->dst_at, i, proof->nchunks);
        int place = motet_proof_place(proof, p, step->dst, chunk, in_place);
        if (touches->writer[place] >= round_start)
            return motet_proof_reject(proof, p, s, chunk, "writes %s[%d]%s, as step %d of the same round does",
                                      motet_plane_name(step->dst), chunk, in_place ? " in place" : "",
                                      touches->writer[place] - proof->first_step[p]);
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
    for (int g = 0, round_start = 0; g < proof->nsteps; g++) {
        int p = proof->position[g];
        const struct motet_step *step = motet_proof_step(proof, g);
        if (!check_reads(proof, g, round_start, in_place, touches) || !check_writes(proof, g, round_start, in_place, touches))
            return false;
        for (int k = 0; k < step->nsrc; k++) {
            for (int i = 0; i < step->n; i++)
                touches->reader[motet_proof_place(proof, p, step->src + k, motet_span_chunk(step->src_at, i, proof->nchunks),
                                                  in_place)] = g;
        }
        if (g + 1 == proof->round_end[g])
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
