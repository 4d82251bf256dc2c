/* SPDX-License-Identifier: Apache-2.0
 * Calls made ready, kept by the communicator, and the loop that runs them: see flat.h. */
#include "flat.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bypass.h"
#include "cost.h"
#include "profile.h"
#include "recorder.h"
#include "run.h"
#include "steps.h"
#include "tune.h"

/* Beyond this a message that goes one way is worth cutting into pieces that overlap: the engine's work. Where every rank sends and
 * receives at once, all are busy all the time anyway, and pieces only cost: 15 to 30 % of an all-gather of two ranks. */
#define ONE_WAY_BYTES_MAX  (MOTET_DIRECT_FROM_BYTES - 1)
#define EXCHANGE_BYTES_MAX (512 * 1024)
_Static_assert(ONE_WAY_BYTES_MAX == MOTET_COST_SHORT_BYTES, "the cost model prices the short way where it is taken");

#define OPERANDS_MAX 64

struct flat_source {
    const struct motet_slot *slots; /* the peer's slot of this message, lane 0 */
    const char *staging;            /* and its place in the peer's staging */
    int32_t peer;
};

struct flat_step {
    size_t bytes, elements;
    size_t src, dst; /* bytes from the start of the send and the receive buffer */
    struct flat_source *sources;
    int32_t nsources, local_at; /* local_at: operands before the own one; -1: no own one */
    char *slots, *staging;      /* of the own message, lane 0; NULL: sends nothing */
    uint32_t lines;             /* `filled` when the whole message is there */
    bool stores, combines;      /* stores: the value goes into the receive buffer. combines: it is made by the kernels */
};

struct motet_flat_loop {
    const struct motet_plan *plan;
    uint64_t fingerprint;
    const char *comm_name;
    struct motet_record record; /* as it starts */
    size_t payload;             /* bytes that the record counts */
    size_t inline_bytes;        /* as in the engine */
    size_t largest;             /* bytes of a message */
    struct motet_reduction reduction;
    struct flat_source *sources; /* of all steps */
    int nsteps;
    struct flat_step steps[];
};

static bool is_simple(const struct motet_call *call)
{
    return call->counts == MOTET_COUNTS_EQUAL && !call->premul && call->group == 0 &&
           !(call->send_counts || call->recv_counts || call->send_displs || call->recv_displs);
}

static struct motet_flat_key key_of(const struct motet_call *call)
{
    return (struct motet_flat_key){call->count, call->collective, call->dtype, call->op, call->root};
}

struct motet_flat *motet_flat_of(motetComm_t comm, const struct motet_call *call)
{
    struct motet_flat_key key = key_of(call);
    return is_simple(call) ? motet_flat_find(comm, &key) : NULL;
}

struct motet_call motet_flat_call(const struct motet_flat *flat, const void *send, void *recv)
{
    const struct motet_flat_key *key = &flat->key;
    return (struct motet_call){.collective = key->collective,
                               .name = flat->name,
                               .send = send,
                               .recv = recv,
                               .count = key->count,
                               .dtype = key->dtype,
                               .op = key->op,
                               .root = key->root};
}

/* ---- Learning ---- */

static bool all_mapped(const motetComm_t comm, const struct motet_plan *plan)
{
    for (int i = 0; i < plan->nreaders; i++)
        if (!comm->peers[plan->readers[i]].mapped)
            return false;
    for (int i = 0; i < plan->nwriters; i++)
        if (!comm->peers[plan->writers[i]].mapped)
            return false;
    return true;
}

/* Whether a step can be done as it stands in the list: sends come from the input and before everything that waits. */
static bool is_flat_step(const struct motet_plan_step *step, bool received)
{
    bool narrow = step->dst <= MOTET_OUTPUT && !step->sends_wide && !step->arrives_wide;
    bool one_local = step->nsrc == 0 || (step->nsrc == 1 && step->src == MOTET_INPUT);
    if (!narrow || !one_local || step->n > 1 || step->nsources + step->nsrc > OPERANDS_MAX)
        return false;
    if (step->ntargets > 0)
        return !received && step->nsources == 0 && !step->finishes;
    return step->n == 0 || step->dst == MOTET_OUTPUT;
}

bool motet_flat_suits(const struct motet_plan *plan)
{
    bool received = false;
    if (plan->nrounds != 1)
        return false;
    for (int i = 0; i < plan->nsteps; i++) {
        if (!is_flat_step(&plan->steps[i], received))
            return false;
        received |= plan->steps[i].nsources > 0;
    }
    return true;
}

/* The longest message of a plan that goes the short way. Threads read what is longer where it lies. */
static size_t bytes_max(const motetComm_t comm, const struct motet_plan *plan)
{
    for (int i = 0; i < plan->nreaders; i++)
        if (comm->peers[plan->readers[i]].same_process)
            return ONE_WAY_BYTES_MAX;
    return plan->nreaders > 0 && plan->nwriters > 0 ? EXCHANGE_BYTES_MAX : ONE_WAY_BYTES_MAX;
}

static size_t offset_in(const struct motet_tiling *tiling, const struct motet_side *side, struct motet_span span, int nchunks,
                        struct motet_extent *extent)
{
    int chunk = motet_span_chunk(span, 0, nchunks);
    *extent = motet_tiling_extent(tiling, side, chunk, 0);
    return (size_t)(motet_tiling_at(tiling, side, chunk, extent->first) - side->base);
}

static struct flat_source make_source(const motetComm_t comm, const struct motet_plan_source *source, size_t place_bytes)
{
    const char *region = comm->peers[source->peer].region;
    return (struct flat_source){.slots = (const struct motet_slot *)(region + motet_layout_slot(&comm->layout, 0, source->slot)),
                                .staging = region + motet_layout_staging(&comm->layout, 0) + (size_t)source->stage_at * place_bytes,
                                .peer = source->peer};
}

static struct flat_step make_step(const motetComm_t comm, const struct motet_tiling *tiling, const struct motet_plan *plan,
                                  const struct motet_plan_step *step, struct flat_source *sources)
{
    struct flat_step out = {.sources = sources,
                            .nsources = step->nsources,
                            .local_at = step->nsrc > 0 ? step->local_at : -1,
                            .stores = step->dst == MOTET_OUTPUT,
                            .combines = step->nsources + step->nsrc > 1 || step->finishes,
                            .lines = 1};
    for (int i = 0; i < step->nsources; i++)
        sources[i] = make_source(comm, &plan->sources[step->first_source + i], tiling->place_bytes);
    if (step->ntargets > 0) {
        out.slots = comm->region + motet_layout_slot(&comm->layout, 0, step->slot);
        out.staging = comm->region + motet_layout_staging(&comm->layout, 0) + (size_t)step->stage_at * tiling->place_bytes;
    }
    if (step->n == 0)
        return out;
    struct motet_extent in = {0}, extent = {0};
    if (step->nsrc > 0)
        out.src = offset_in(tiling, &tiling->input, step->src_at, plan->nchunks, &in);
    extent = in;
    if (out.stores)
        out.dst = offset_in(tiling, &tiling->output, step->dst_at, plan->nchunks, &extent);
    out.elements = extent.len;
    out.bytes = extent.len * tiling->size;
    out.lines = (uint32_t)(tiling->place_bytes / MOTET_LINE);
    return out;
}

static void free_loop(struct motet_flat_loop *loop)
{
    if (loop)
        free(loop->sources);
    free(loop);
}

static struct motet_record make_record(const struct motet_call *call, const struct motet_plan *plan,
                                       enum motet_record_protocol protocol)
{
    struct motet_record record = motet_ticket_record(call, plan->nranks);
    record.algorithm = (uint16_t)(plan->algorithm - motet_algorithms);
    record.protocol = (uint8_t)protocol;
    record.transports = plan->transports;
    return record;
}

/* NULL: messages are too long, or memory is short (the long way needs none that is not there already). */
static struct motet_flat_loop *make_loop(motetComm_t comm, const struct motet_call *call, const struct motet_reduction *reduction,
                                         const struct motet_plan *plan)
{
    struct motet_tiling tiling;
    size_t nsources = 1, largest = 0, used = 0;
    motet_tiling_make(&tiling, call, reduction, plan, comm->rank_at, comm->layout.lane_bytes);
    for (int i = 0; i < plan->nsteps; i++)
        nsources += (size_t)plan->steps[i].nsources;
    struct motet_flat_loop *loop = calloc(1, sizeof *loop + (size_t)plan->nsteps * sizeof loop->steps[0]);
    if (loop)
        loop->sources = calloc(nsources, sizeof *loop->sources);
    if (!loop || !loop->sources || tiling.ntiles > 1) {
        free_loop(loop);
        return NULL;
    }
    loop->plan = plan;
    loop->nsteps = plan->nsteps;
    loop->reduction = *reduction;
    loop->comm_name = comm->options.name;
    loop->fingerprint = motet_ticket_fingerprint(call, 0); /* no counts by rank */
    loop->payload = call->count * reduction->size * (size_t)motet_collective_nblocks(call->collective, comm->nranks);
    loop->inline_bytes = motet_tune_protocols(comm->tuner, call->collective) & MOTET_PROTO_LL ? MOTET_INLINE : 0;
    for (int i = 0; i < plan->nsteps; i++) {
        struct flat_step *step = &loop->steps[i];
        *step = make_step(comm, &tiling, plan, &plan->steps[i], loop->sources + used);
        used += (size_t)plan->steps[i].nsources;
        if (plan->steps[i].n > 0 && step->bytes == 0) /* is not sent at all */
            largest = SIZE_MAX;
        largest = step->bytes > largest ? step->bytes : largest;
    }
    loop->largest = largest;
    loop->record = make_record(call, plan, largest <= loop->inline_bytes ? MOTET_RECORD_LL : MOTET_RECORD_SIMPLE);
    if (largest <= bytes_max(comm, plan))
        return loop;
    free_loop(loop);
    return NULL;
}

static bool shows_output(const struct motet_plan *plan)
{
    bool shows = false;
    for (int i = 0; i < plan->nsteps; i++)
        shows |= plan->steps[i].ntargets > 0 && plan->steps[i].dst == MOTET_OUTPUT;
    return shows;
}

void motet_flat_check(struct motet_flat *flat, const struct motet_call *call)
{
    flat->checked = call->checked;
    flat->name = call->name;
    flat->send_bytes = call->send_bytes;
    flat->recv_bytes = call->recv_bytes;
    flat->in_place = call->in_place;
}

void motet_flat_learn(motetComm_t comm, const struct motet_call *call, const struct motet_reduction *reduction,
                      const struct motet_plan *plan)
{
    struct motet_flat_key key = key_of(call);
    if (atomic_load_explicit(&motet_steps_on, memory_order_relaxed) ||
        comm->options.profiler.size) /* the loop has no steps to tell of */
        return;
    /* The bound spares calls that are too long the making of a loop, each time: no chunk is shorter than its part of the block. */
    if (!is_simple(call) || call->count > bytes_max(comm, plan) / reduction->size * (size_t)plan->parts ||
        motet_flat_find(comm, &key) || !motet_flat_suits(plan) || !all_mapped(comm, plan))
        return;
    if (!comm->flats)
        comm->flats = calloc(1, sizeof *comm->flats);
    struct motet_flat_loop *loop = comm->flats ? make_loop(comm, call, reduction, plan) : NULL;
    if (!loop)
        return;
    struct motet_flat *flat = motet_flat_place(comm->flats, &key);
    free_loop(flat->loop);
    *flat = (struct motet_flat){.key = key,
                                .name = call->name,
                                .is_small = loop->largest < MOTET_DIRECT_FROM_BYTES,
                                .shows_output = shows_output(plan),
                                .loop = loop};
    motet_flat_check(flat, call);
}

void motet_flat_free(motetComm_t comm)
{
    for (int i = 0; comm->flats && i < MOTET_FLATS; i++)
        free_loop(comm->flats->at[i].loop);
    free(comm->flats);
    comm->flats = NULL;
}

/* ---- Running ---- */

struct context {
    const struct motet_flat_loop *loop;
    motetComm_t comm;
    const char *send;
    char *recv;
    size_t lane_offset; /* from lane 0 to the lane of this call */
    uint64_t seq;
    uint64_t done_before;     /* done word of a rank that is through with the call before */
    uint64_t turn, call_word; /* what `filled` and `call` of this call's slots show */
    struct motet_timing *timing;
};

/* Barriers have no buffers, and nobody may add even nothing to NULL. */
static const char *in_at(const struct context *c, const struct flat_step *step)
{
    return (const char *)((uintptr_t)c->send + step->src);
}

static char *out_at(const struct context *c, const struct flat_step *step)
{
    return (char *)((uintptr_t)c->recv + step->dst);
}

static void publish(const struct context *c, const struct flat_step *step)
{
    struct motet_slot *slot = (struct motet_slot *)(step->slots + c->lane_offset);
    const char *from = in_at(c, step);
    slot->call = c->call_word;
    slot->direct = 0;
    if (step->bytes <= c->loop->inline_bytes)
        motet_copy_line(slot->bytes, from, step->bytes);
    else
        motet_bypass_stage(c->comm, step->staging + c->lane_offset, from, step->bytes);
    /* release: whoever sees the count sees call, direct and the bytes. */
    atomic_store_explicit(&slot->filled, c->turn | step->lines, memory_order_release);
}

/* The slot of a source if what it shows is of this call, else NULL. */
static inline const struct motet_slot *slot_of(const struct context *c, const struct flat_source *source, uint64_t *filled)
{
    const struct motet_slot *slot = (const struct motet_slot *)((const char *)source->slots + c->lane_offset);
    *filled = atomic_load_explicit(&slot->filled, memory_order_acquire);
    return ((*filled ^ c->turn) & ~0xffffffull) == 0 && slot->call == c->call_word ? slot : NULL;
}

/* Where the message of a source lies; NULL: not there yet, or not of this call. */
static inline const char *find(const struct context *c, const struct flat_step *step, const struct flat_source *source)
{
    uint64_t filled;
    const struct motet_slot *slot = slot_of(c, source, &filled);
    if (!slot || (filled & 0xffffff) * MOTET_LINE < step->bytes || slot->direct != 0)
        return NULL;
    /* It is in this call, so it is through with all before. */
    c->comm->done_seen[source->peer] = c->done_before;
    return step->bytes <= c->loop->inline_bytes ? (const char *)slot->bytes : source->staging + c->lane_offset;
}

static void store(const struct context *c, const struct flat_step *step, struct motet_operand *operands, int k)
{
    char *to = out_at(c, step);
    if (!step->stores || step->bytes == 0)
        return;
    if (step->combines) {
        uint64_t began_ns = motet_timing_reduces(c->timing);
        motet_reduce(&c->loop->reduction, to, false, operands, k, step->elements);
        motet_timing_reduced(c->timing, began_ns);
    } else if (step->bytes <= MOTET_INLINE && operands[0].at != to)
        motet_copy_line(to, operands[0].at, step->bytes);
    else if (operands[0].at != to)
        motet_copy_private(to, operands[0].at, step->bytes);
}

/* Whether what a source sent is there, but where only the engine reads it: in the sender's own buffer. */
static bool lies_elsewhere(const struct context *c, const struct flat_step *step, const struct flat_source *source)
{
    uint64_t filled;
    const struct motet_slot *slot = step->bytes >= MOTET_DIRECT_FROM_BYTES ? slot_of(c, source, &filled) : NULL;
    return slot && slot->direct != 0;
}

/* As find, after a look that found nothing; NULL: the peer is late, or it is the engine's work. */
static inline const char *await(const struct context *c, const struct flat_step *step, const struct flat_source *source,
                                struct motet_wait *wait)
{
    const char *at;
    motet_timing_seen(c->timing, c->comm, false);
    while (!(at = find(c, step, source)))
        if (!motet_wait_brief(wait) || lies_elsewhere(c, step, source))
            return NULL;
    motet_timing_look(c->timing, source->peer);
    motet_timing_seen(c->timing, c->comm, true);
    return at;
}

/* Whether all of the step's messages came and its value was made. */
static bool receive(const struct context *c, const struct flat_step *step, struct motet_wait *wait)
{
    struct motet_operand operands[OPERANDS_MAX];
    int k = 0;
    for (int s = 0; s <= step->nsources; s++) {
        if (s == step->local_at)
            operands[k++] = (struct motet_operand){.at = in_at(c, step)};
        if (s == step->nsources)
            break;
        operands[k].at = find(c, step, &step->sources[s]);
        if (!operands[k].at && !(operands[k].at = await(c, step, &step->sources[s], wait)))
            return false;
        motet_bypass_look(c->comm, step->sources[s].peer, c->seq, operands[k].at, step->bytes);
        operands[k++].wide = false;
    }
    store(c, step, operands, k);
    return true;
}

/* The lane's last readers must be through before it is written again. */
static bool begin(const struct context *c, struct motet_wait *wait, uint64_t seq, unsigned lane)
{
    struct motet_lane_use *use = &c->comm->lane_uses[lane];
    while (use->plan && motet_engine_reader_at_work(c->comm, use->plan, use->need) >= 0)
        if (!motet_wait_brief(wait))
            return false;
    *use = (struct motet_lane_use){c->loop->plan, motet_done_word(seq, 1)};
    return true;
}

static void finish(const struct context *c, const struct motet_flat *flat, const struct motet_ticket *ticket)
{
    /* release: what this rank read from others' staging was read before. */
    atomic_store_explicit(&c->comm->control->done, motet_done_word(ticket->seq, MOTET_ALL_TILES), memory_order_release);
    motet_comm_wake(c->comm);
    motet_record_end(c->comm, ticket->record, MOTET_RECORD_DONE, c->loop->payload);
    MOTET_PROBE_CALL_END(c->comm->id, c->comm->rank, ticket->seq, flat->name, (int)motetSuccess);
    motet_timing_end(c->timing, c->comm, ticket->seq);
    motet_timing_count(c->comm, c->loop->plan->algorithm->collective, c->loop->plan->moved, c->loop->payload, 1);
}

motetResult_t motet_flat_run(const struct motet_flat *flat, motetComm_t comm, const void *send, void *recv, struct motet_wait *wait,
                             struct motet_flat_state *state)
{
    const struct motet_flat_loop *loop = flat->loop;
    struct motet_ticket *ticket = &state->ticket;
    *ticket = motet_ticket_take(comm, &loop->record, loop->fingerprint);
    MOTET_PROBE_CALL_BEGIN(comm->id, loop->comm_name, comm->rank, ticket->seq, flat->name, flat->key.count, (int)flat->key.dtype,
                           flat->key.root);
    state->timing.begin_ns = 0;
    state->timing.split = false;
    motet_timing_begin(&state->timing, comm, ticket->seq, flat->key.count * loop->reduction.size);
    motet_comm_note_cpu(comm);
    unsigned lane = (unsigned)(ticket->seq % comm->layout.nlanes);
    struct context c = {.loop = loop,
                        .comm = comm,
                        .send = send,
                        .recv = recv,
                        .lane_offset = lane * comm->layout.lane_stride,
                        .seq = ticket->seq,
                        .done_before = motet_done_word(ticket->seq, 0) - 1,
                        .turn = ticket->seq << 32,
                        .call_word = ticket->call_word,
                        .timing = &state->timing};
    motet_bypass_begin(comm, loop->plan, ticket->seq, loop->largest);
    state->begun = begin(&c, wait, ticket->seq, lane);
    if (!state->begun)
        return motetInProgress;
    bool published = false;
    for (state->steps_done = 0; state->steps_done < loop->nsteps; state->steps_done++) {
        const struct flat_step *step = &loop->steps[state->steps_done];
        if (step->slots) {
            publish(&c, step);
            store(&c, step, &(struct motet_operand){.at = in_at(&c, step)}, 1);
            published = true;
            continue;
        }
        if (published)
            motet_comm_wake(comm);
        published = false;
        if (!receive(&c, step, wait))
            return motetInProgress;
    }
    finish(&c, flat, ticket);
    if (motet_log_on(MOTET_LOG_INFO, MOTET_LOG_COLL)) {
        const struct motet_call call = motet_flat_call(flat, send, recv);
        motet_ticket_say(comm, ticket->seq, &call, loop->plan->algorithm);
    }
    return motetSuccess;
}
