/* SPDX-License-Identifier: Apache-2.0
 * Turns a schedule into a plan. The k-th send of a rank has message number k on that rank; a reader finds the number of the i-th message
 * from a peer by building the peer's schedule. Nothing is negotiated. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Messages of one peer to this position, in the peer's order. */
struct inbox {
    struct motet_plan_source *messages;
    int32_t *lengths; /* chunks of each */
    int32_t count, next;
    bool built;
};

struct builder {
    struct motet_plan *plan;
    struct motet_schedule own;
    const struct motet_shape *shape;
    struct inbox *inboxes; /* by position */
    int nslots;
};

static int count_targets(const struct motet_step *step, int position, int nranks)
{
    return motet_peers_count(step->to, position, nranks);
}

static motetResult_t build_schedule(const struct motet_algorithm *algorithm, struct motet_shape shape, int position,
                                    struct motet_schedule *schedule)
{
    shape.position = position;
    algorithm->build(schedule, &shape);
    motet_schedule_expand(schedule);
    if (schedule->out_of_memory)
        return motet_fail(motetSystemError, "out of memory while building schedule %s of %s for %d ranks", algorithm->name,
                          motet_collective_name(algorithm->collective), shape.nranks);
    return motetSuccess;
}

static bool names_peer(struct motet_peers peers, int wanted, int position, int nranks)
{
    int n = motet_peers_count(peers, position, nranks);
    for (int i = 0; i < n; i++)
        if (motet_peers_at(peers, i, position, nranks) == wanted)
            return true;
    return false;
}

/* Numbers the messages that `peer` sends to this position. */
static motetResult_t fill_inbox(struct builder *b, int peer)
{
    struct inbox *inbox = &b->inboxes[peer];
    struct motet_schedule theirs = {0};
    int me = b->shape->position, nranks = b->shape->nranks;
    motetResult_t result = build_schedule(b->plan->algorithm, *b->shape, peer, &theirs);
    if (result == motetSuccess) {
        inbox->messages = calloc((size_t)theirs.nsteps + 1, sizeof *inbox->messages);
        inbox->lengths = calloc((size_t)theirs.nsteps + 1, sizeof *inbox->lengths);
        if (!inbox->messages || !inbox->lengths)
            result = motet_fail(motetSystemError, "out of memory while planning %s", b->plan->algorithm->name);
    }
    int32_t slot = 0, stage_at = 0;
    for (int i = 0; result == motetSuccess && i < theirs.nsteps; i++) {
        const struct motet_step *step = &theirs.steps[i];
        if (count_targets(step, peer, nranks) == 0)
            continue;
        if (names_peer(step->to, me, peer, nranks)) {
            inbox->messages[inbox->count] = (struct motet_plan_source){.peer = peer, .slot = slot, .stage_at = stage_at};
            inbox->lengths[inbox->count++] = step->n;
        }
        slot++;
        stage_at += step->n;
    }
    inbox->built = true;
    motet_schedule_free(&theirs);
    return result;
}

static int compare_sources(const void *a, const void *b)
{
    const struct motet_plan_source *x = a, *y = b;
    return (x->peer > y->peer) - (x->peer < y->peer);
}

static motetResult_t resolve_sources(struct builder *b, const struct motet_step *step, struct motet_plan_step *out, int32_t *used)
{
    struct motet_plan *plan = b->plan;
    int me = plan->position, nranks = plan->nranks;
    out->first_source = *used;
    out->nsources = motet_peers_count(step->from, me, nranks);
    for (int i = 0; i < out->nsources; i++) {
        int peer = motet_peers_at(step->from, i, me, nranks);
        struct inbox *inbox = &b->inboxes[peer];
        if (!inbox->built)
            TRY(fill_inbox(b, peer));
        if (inbox->next >= inbox->count || inbox->lengths[inbox->next] != step->n)
            return motet_fail(motetInternalError,
                              "schedule %s of %s: position %d expects a message of %d chunks from %d that is not sent",
                              plan->algorithm->name, motet_collective_name(plan->algorithm->collective), me, step->n, peer);
        plan->sources[(*used)++] = inbox->messages[inbox->next++];
    }
    struct motet_plan_source *first = &plan->sources[out->first_source];
    qsort(first, (size_t)out->nsources, sizeof *first, compare_sources);
    out->local_at = 0;
    while (out->local_at < out->nsources && first[out->local_at].peer < me)
        out->local_at++;
    return motetSuccess;
}

static void resolve_targets(struct builder *b, const struct motet_step *step, struct motet_plan_step *out, int32_t *used,
                            int32_t *slot, int32_t *stage_at)
{
    struct motet_plan *plan = b->plan;
    out->first_target = *used;
    out->ntargets = motet_peers_count(step->to, plan->position, plan->nranks);
    out->slot = out->stage_at = -1;
    if (out->ntargets == 0)
        return;
    for (int i = 0; i < out->ntargets; i++)
        plan->targets[(*used)++] = motet_peers_at(step->to, i, plan->position, plan->nranks);
    out->slot = (*slot)++;
    out->stage_at = *stage_at;
    *stage_at += step->n;
}

/* Where memory of (plane, chunk) is tracked; `in_place` folds INPUT onto OUTPUT, which is exact where both exist and harmless elsewhere. */
static size_t place(const struct motet_plan *plan, int plane, int chunk, bool in_place)
{
    if (in_place && plane == MOTET_INPUT)
        plane = MOTET_OUTPUT;
    return (size_t)plane * (size_t)plan->nchunks + (size_t)chunk;
}

/* after[]: the last earlier-listed step of the same round that reads a place this step writes. One forward pass over the steps,
 * remembering the last reader of every place. */
static void find_write_hazards(struct motet_plan *plan, int32_t *last_reader, bool in_place)
{
    for (int i = 0; i < plan->nsteps; i++) {
        struct motet_plan_step *step = &plan->steps[i];
        int32_t first = plan->round_first[step->round], after = first;
        for (int c = 0; step->dst != MOTET_NONE && c < step->n; c++) {
            int32_t reader = last_reader[place(plan, step->dst, motet_span_chunk(step->dst_at, c, plan->nchunks), in_place)] - 1;
            if (reader >= first && reader + 1 > after)
                after = reader + 1;
        }
        step->after[in_place] = after;
        for (int k = 0; k < step->nsrc; k++)
            for (int c = 0; c < step->n; c++)
                last_reader[place(plan, step->src + k, motet_span_chunk(step->src_at, c, plan->nchunks), in_place)] = i + 1;
    }
}

/* direct_ok[]: what is sent lies in one chunk of the caller's buffers, which no later step of this position writes. One backward pass,
 * remembering whether a later step writes a place. */
static void find_direct_sends(struct motet_plan *plan, int32_t *written_later, bool in_place)
{
    for (int i = plan->nsteps - 1; i >= 0; i--) {
        struct motet_plan_step *step = &plan->steps[i];
        bool moves_input = step->dst == MOTET_NONE && step->nsources == 0 && step->nsrc == 1 && step->src == MOTET_INPUT;
        step->direct_ok[in_place] = false;
        if (step->ntargets > 0 && step->n == 1 && (moves_input || step->dst == MOTET_OUTPUT)) {
            int plane = moves_input ? MOTET_INPUT : MOTET_OUTPUT;
            int chunk = motet_span_chunk(moves_input ? step->src_at : step->dst_at, 0, plan->nchunks);
            step->direct_ok[in_place] = !written_later[place(plan, plane, chunk, in_place)];
        }
        for (int c = 0; step->dst != MOTET_NONE && c < step->n; c++)
            written_later[place(plan, step->dst, motet_span_chunk(step->dst_at, c, plan->nchunks), in_place)] = 1;
    }
}

static motetResult_t find_hazards(struct motet_plan *plan)
{
    size_t places = (size_t)MOTET_NPLANES * (size_t)plan->nchunks;
    int32_t *memory = malloc(places * sizeof *memory);
    if (!memory)
        return motet_fail(motetSystemError, "out of memory while planning %s", plan->algorithm->name);
    for (int in_place = 0; in_place < 2; in_place++) {
        memset(memory, 0, places * sizeof *memory);
        find_write_hazards(plan, memory, in_place);
        memset(memory, 0, places * sizeof *memory);
        find_direct_sends(plan, memory, in_place);
    }
    free(memory);
    return motetSuccess;
}

/* Distinct positions among `all`, ascending. */
static motetResult_t distinct(const int32_t *all, int count, int stride, int nranks, int32_t **out, int32_t *nout)
{
    *out = calloc((size_t)nranks, sizeof **out);
    bool *seen = calloc((size_t)nranks, sizeof *seen);
    *nout = 0;
    if (*out && seen) {
        for (int i = 0; i < count; i++)
            seen[all[(ptrdiff_t)i * stride]] = true;
        for (int p = 0; p < nranks; p++)
            if (seen[p])
                (*out)[(*nout)++] = p;
    }
    bool ok = *out && seen;
    free(seen);
    return ok ? motetSuccess : motet_fail(motetSystemError, "out of memory while planning");
}

static motetResult_t fill_steps(struct builder *b)
{
    struct motet_plan *plan = b->plan;
    int32_t nsources = 0, ntargets = 0, slot = 0, stage_at = 0, round = 0;
    for (int i = 0; i < plan->nsteps; i++) {
        const struct motet_step *step = &b->own.steps[i];
        struct motet_plan_step *out = &plan->steps[i];
        if (i == 0 || (b->own.steps[i - 1].flags & MOTET_ENDS_ROUND))
            plan->round_first[round++] = i;
        *out = (struct motet_plan_step){.dst_at = step->dst_at,
                                        .src_at = step->src_at,
                                        .n = step->n,
                                        .round = round - 1,
                                        .dst = step->dst,
                                        .src = step->src,
                                        .nsrc = step->src == MOTET_NONE ? 0 : step->nsrc,
                                        .arrives_wide = step->flags & MOTET_WIDE,
                                        .finishes = motet_step_finishes(step, plan->position, plan->nranks),
                                        .sends_wide = motet_step_sends_wide(step, plan->position, plan->nranks)};
        TRY(resolve_sources(b, step, out, &nsources));
        resolve_targets(b, step, out, &ntargets, &slot, &stage_at);
        plan->planes |= 1u << step->dst;
        for (int k = 0; k < out->nsrc; k++)
            plan->planes |= 1u << (step->src + k);
    }
    plan->nrounds = round;
    plan->round_first[round] = plan->nsteps;
    if (slot > b->nslots || stage_at > plan->stage_chunks)
        return motet_fail(motetInternalError,
                          "schedule %s of %s: position %d sends %d messages (limit %d) and %d chunks (declared %d)",
                          plan->algorithm->name, motet_collective_name(plan->algorithm->collective), plan->position, slot,
                          b->nslots, stage_at, plan->stage_chunks);
    TRY(distinct(plan->targets, ntargets, 1, plan->nranks, &plan->readers, &plan->nreaders));
    return distinct(&plan->sources->peer, nsources, sizeof *plan->sources / sizeof(int32_t), plan->nranks, &plan->writers,
                    &plan->nwriters);
}

static motetResult_t allocate(struct builder *b)
{
    struct motet_plan *plan = b->plan;
    size_t nsources = 1, ntargets = 1;
    for (int i = 0; i < b->own.nsteps; i++) {
        nsources += (size_t)motet_peers_count(b->own.steps[i].from, plan->position, plan->nranks);
        ntargets += (size_t)motet_peers_count(b->own.steps[i].to, plan->position, plan->nranks);
    }
    plan->nsteps = b->own.nsteps;
    plan->nblocks = b->own.nblocks;
    plan->parts = b->own.parts;
    plan->nchunks = motet_schedule_nchunks(&b->own);
    plan->stage_chunks = b->own.stage_chunks;
    plan->steps = calloc((size_t)plan->nsteps + 1, sizeof *plan->steps);
    plan->round_first = calloc((size_t)plan->nsteps + 2, sizeof *plan->round_first);
    plan->sources = calloc(nsources, sizeof *plan->sources);
    plan->targets = calloc(ntargets, sizeof *plan->targets);
    b->inboxes = calloc((size_t)plan->nranks, sizeof *b->inboxes);
    if (!plan->steps || !plan->round_first || !plan->sources || !plan->targets || !b->inboxes)
        return motet_fail(motetSystemError, "out of memory while planning %s", plan->algorithm->name);
    return motetSuccess;
}

motetResult_t motet_plan_build(const struct motet_algorithm *algorithm, const struct motet_shape *shape, int nslots,
                               struct motet_plan **plan)
{
    struct builder b = {.shape = shape, .nslots = nslots, .plan = calloc(1, sizeof **plan)};
    if (!b.plan)
        return motet_fail(motetSystemError, "out of memory while planning %s", algorithm->name);
    b.plan->algorithm = algorithm;
    b.plan->root = shape->root;
    b.plan->position = shape->position;
    b.plan->nranks = shape->nranks;
    motetResult_t result = build_schedule(algorithm, *shape, shape->position, &b.own);
    if (result == motetSuccess)
        result = allocate(&b);
    if (result == motetSuccess)
        result = fill_steps(&b);
    if (result == motetSuccess)
        result = find_hazards(b.plan);
    for (int p = 0; b.inboxes && p < shape->nranks; p++) {
        free(b.inboxes[p].messages);
        free(b.inboxes[p].lengths);
    }
    free(b.inboxes);
    motet_schedule_free(&b.own);
    if (result != motetSuccess) {
        motet_plan_free(b.plan);
        b.plan = NULL;
    }
    *plan = b.plan;
    return result;
}

void motet_plan_free(struct motet_plan *plan)
{
    if (!plan)
        return;
    free(plan->steps);
    free(plan->round_first);
    free(plan->sources);
    free(plan->targets);
    free(plan->readers);
    free(plan->writers);
    free(plan);
}

size_t motet_plan_bytes(const struct motet_plan *plan)
{
    size_t bytes = sizeof *plan + (size_t)plan->nsteps * sizeof *plan->steps +
                   (size_t)(plan->nrounds + 1) * sizeof *plan->round_first +
                   (size_t)(plan->nreaders + plan->nwriters) * sizeof(int32_t);
    for (int i = 0; i < plan->nsteps; i++)
        bytes += (size_t)plan->steps[i].nsources * sizeof *plan->sources + (size_t)plan->steps[i].ntargets * sizeof *plan->targets;
    return bytes;
}
