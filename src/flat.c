/* SPDX-License-Identifier: Apache-2.0
 * Calls made ready, kept by the communicator, and the loop that runs them: see flat.h. */
#include "flat.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "recorder.h"
#include "run.h"
#include "tune.h"

/* Kinds of calls remembered per communicator: a program repeats few. A power of two; one that collides with another takes its place. */
#define FLATS 64

/* Beyond this a message is worth cutting into pieces that overlap, or reading where it lies: the engine's work. */
#define FLAT_BYTES_MAX (MOTET_DIRECT_FROM_BYTES - 1)

#define OPERANDS_MAX 64

struct flat_step {
    size_t bytes, elements;
    size_t src, dst;            /* bytes from the start of the send and the receive buffer */
    int32_t first_source;       /* in plan->sources */
    int32_t nsources, local_at; /* local_at: operands before the own one; -1: no own one */
    int32_t slot;               /* of the message; -1: sends nothing */
    size_t stage_at;            /* bytes from the start of the lane's staging */
    uint32_t lines;             /* `filled` when the whole message is there */
    bool stores, combines;      /* stores: the value goes into the receive buffer. combines: it is made by the kernels */
};

struct motet_flat {
    /* Which calls. */
    size_t count;
    enum motet_collective collective;
    motetDataType_t dtype;
    motetRedOp_t op;
    int root;
    /* How. */
    uint64_t fingerprint;
    size_t payload; /* bytes that the record counts */
    size_t inline_bytes, place_bytes; /* as in the engine */
    enum motet_record_protocol protocol;
    const struct motet_plan *plan;
    struct motet_reduction reduction;
    int nsteps;
    struct flat_step steps[];
};

struct motet_flats {
    struct motet_flat *at[FLATS];
};

static unsigned place_of(const struct motet_call *call)
{
    uint64_t h = call->count * 0x9e3779b97f4a7c15ull + (uint64_t)call->collective * 0x85ebca6b00000001ull +
                 (uint64_t)call->dtype * 0xc2b2ae3500000000ull + (uint64_t)call->root * 0x27d4eb2f16500000ull + (uint64_t)call->op;
    return (unsigned)(h >> 32 ^ h) & (FLATS - 1);
}

static bool is_simple(const struct motet_call *call)
{
    return call->counts == MOTET_COUNTS_EQUAL && !call->premul && call->group == 0 &&
           !(call->send_counts || call->recv_counts || call->send_displs || call->recv_displs);
}

const struct motet_flat *motet_flat_find(motetComm_t comm, const struct motet_call *call)
{
    if (!comm->flats || call->counts != MOTET_COUNTS_EQUAL || call->premul || call->group != 0)
        return NULL;
    const struct motet_flat *flat = comm->flats->at[place_of(call)];
    bool same = flat && flat->count == call->count && flat->collective == call->collective && flat->dtype == call->dtype &&
                flat->op == call->op && flat->root == call->root && is_simple(call);
    return same ? flat : NULL;
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

static bool is_flat(const motetComm_t comm, const struct motet_plan *plan)
{
    bool received = false;
    if (plan->nrounds != 1 || !all_mapped(comm, plan))
        return false;
    for (int i = 0; i < plan->nsteps; i++) {
        if (!is_flat_step(&plan->steps[i], received))
            return false;
        received |= plan->steps[i].nsources > 0;
    }
    return true;
}

static size_t offset_in(const struct motet_tiling *tiling, const struct motet_side *side, struct motet_span span, int nchunks,
                        struct motet_extent *extent)
{
    int chunk = motet_span_chunk(span, 0, nchunks);
    *extent = motet_tiling_extent(tiling, side, chunk, 0);
    return (size_t)(motet_tiling_at(tiling, side, chunk, extent->first) - side->base);
}

static struct flat_step make_step(const struct motet_tiling *tiling, const struct motet_plan *plan,
                                  const struct motet_plan_step *step)
{
    struct flat_step out = {.first_source = step->first_source,
                            .nsources = step->nsources,
                            .local_at = step->nsrc > 0 ? step->local_at : -1,
                            .slot = step->ntargets > 0 ? step->slot : -1,
                            .stores = step->dst == MOTET_OUTPUT,
                            .combines = step->nsources + step->nsrc > 1 || step->finishes,
                            .lines = 1};
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
    out.stage_at = out.slot < 0 ? 0 : (size_t)step->stage_at * tiling->place_bytes;
    return out;
}

void motet_flat_learn(motetComm_t comm, const struct motet_call *call, const struct motet_reduction *reduction,
                      const struct motet_plan *plan)
{
    struct motet_tiling tiling;
    if (!is_simple(call) || call->count > FLAT_BYTES_MAX || motet_flat_find(comm, call) || !is_flat(comm, plan))
        return;
    motet_tiling_make(&tiling, call, reduction, plan, comm->rank_at, comm->layout.lane_bytes);
    if (tiling.ntiles > 1)
        return;
    if (!comm->flats)
        comm->flats = calloc(1, sizeof *comm->flats);
    struct motet_flat *flat = calloc(1, sizeof *flat + (size_t)plan->nsteps * sizeof flat->steps[0]);
    if (!flat || !comm->flats) { /* the long way needs no memory that is not there already */
        free(flat);
        return;
    }
    unsigned protocols = motet_tune_protocols(comm->tuner, call->collective);
    *flat = (struct motet_flat){.count = call->count,
                                .collective = call->collective,
                                .dtype = call->dtype,
                                .op = call->op,
                                .root = call->root,
                                .fingerprint = motet_ticket_fingerprint(call, comm->nranks),
                                .plan = plan,
                                .reduction = *reduction,
                                .inline_bytes = protocols & MOTET_PROTO_LL ? MOTET_INLINE : 0,
                                .place_bytes = tiling.place_bytes,
                                .nsteps = plan->nsteps};
    size_t largest = 0;
    for (int i = 0; i < plan->nsteps; i++) {
        flat->steps[i] = make_step(&tiling, plan, &plan->steps[i]);
        largest = flat->steps[i].bytes > largest ? flat->steps[i].bytes : largest;
        if (plan->steps[i].n > 0 && flat->steps[i].bytes == 0) /* is not sent at all */
            largest = SIZE_MAX;
    }
    flat->payload = call->count * reduction->size * (size_t)motet_collective_nblocks(call->collective, comm->nranks);
    flat->protocol = largest <= flat->inline_bytes ? MOTET_RECORD_LL : MOTET_RECORD_SIMPLE;
    if (largest > FLAT_BYTES_MAX) {
        free(flat);
        return;
    }
    struct motet_flat **at = &comm->flats->at[place_of(call)];
    free(*at);
    *at = flat;
}

void motet_flat_free(motetComm_t comm)
{
    for (int i = 0; comm->flats && i < FLATS; i++)
        free(comm->flats->at[i]);
    free(comm->flats);
    comm->flats = NULL;
}

/* ---- Running ---- */

/* At most MOTET_INLINE bytes, by words that overlap: a call of memcpy with a length that the compiler does not know costs more. */
static inline void copy_line(void *to, const void *from, size_t len)
{
    char *dst = to;
    const char *src = from;
    if (len >= 16) {
        __builtin_memcpy(dst, src, 16);
        if (len > 32)
            __builtin_memcpy(dst + 16, src + 16, 16);
        __builtin_memcpy(dst + len - 16, src + len - 16, 16);
    } else if (len >= 8) {
        uint64_t head, tail;
        __builtin_memcpy(&head, src, 8);
        __builtin_memcpy(&tail, src + len - 8, 8);
        __builtin_memcpy(dst, &head, 8);
        __builtin_memcpy(dst + len - 8, &tail, 8);
    } else {
        for (size_t i = 0; i < len; i++)
            dst[i] = src[i];
    }
}

struct context {
    const struct motet_flat *flat;
    motetComm_t comm;
    const char *send;
    char *recv;
    int lane;
    uint64_t turn, call_word; /* what `filled` and `call` of this call's slots show */
};

static struct motet_slot *slot_at(const struct context *c, char *region, int slot)
{
    return (struct motet_slot *)(region + motet_layout_slot(&c->comm->layout, c->lane, slot));
}

static char *staging_at(const struct context *c, char *region, size_t offset)
{
    return region + motet_layout_staging(&c->comm->layout, c->lane) + offset;
}

static void publish(const struct context *c, const struct flat_step *step)
{
    struct motet_slot *slot = slot_at(c, c->comm->region, step->slot);
    const char *from = c->send + step->src;
    slot->call = c->call_word;
    slot->direct = 0;
    if (step->bytes <= c->flat->inline_bytes)
        copy_line(slot->bytes, from, step->bytes);
    else
        motet_copy(staging_at(c, c->comm->region, step->stage_at), from, step->bytes);
    /* release: whoever sees the count sees call, direct and the bytes. */
    atomic_store_explicit(&slot->filled, c->turn | step->lines, memory_order_release);
}

/* Where the message of a source lies; NULL: not there yet, or not of this call. */
static const char *find(const struct context *c, const struct flat_step *step, const struct motet_plan_source *source)
{
    char *region = c->comm->peers[source->peer].region;
    struct motet_slot *slot = slot_at(c, region, source->slot);
    uint64_t filled = atomic_load_explicit(&slot->filled, memory_order_acquire);
    if (((filled ^ c->turn) & ~0xffffffull) != 0 || slot->call != c->call_word)
        return NULL;
    if ((filled & 0xffffff) * MOTET_LINE < step->bytes || slot->direct != 0)
        return NULL;
    /* It is in this call, so it is through with all before. */
    c->comm->done_seen[source->peer] = (c->turn & ~0xffffffffull) - 1;
    if (step->bytes <= c->flat->inline_bytes)
        return (const char *)slot->bytes;
    return staging_at(c, region, (size_t)source->stage_at * c->flat->place_bytes);
}

/* Whether the value of the step could be made. */
static bool receive(const struct context *c, const struct flat_step *step, struct motet_wait *wait)
{
    struct motet_operand operands[OPERANDS_MAX];
    int k = 0;
    for (int s = 0; s <= step->nsources; s++) {
        if (s == step->local_at)
            operands[k++].at = c->send + step->src;
        if (s == step->nsources)
            break;
        const struct motet_plan_source *source = &c->flat->plan->sources[step->first_source + s];
        while (!(operands[k].at = find(c, step, source)))
            if (!motet_wait_brief(wait))
                return false;
        k++;
    }
    char *to = c->recv + step->dst;
    if (!step->stores || step->bytes == 0)
        return true;
    if (!step->combines) {
        if (step->bytes <= MOTET_INLINE && operands[0].at != to)
            copy_line(to, operands[0].at, step->bytes);
        else if (operands[0].at != to)
            motet_copy(to, operands[0].at, step->bytes);
        return true;
    }
    for (int i = 0; i < k; i++)
        operands[i].wide = false;
    motet_reduce(&c->flat->reduction, to, false, operands, k, step->elements);
    return true;
}

/* The lane's last readers must be through before it is written again. */
static bool begin(const struct context *c, struct motet_wait *wait, uint64_t seq)
{
    struct motet_lane_use *use = &c->comm->lane_uses[c->lane];
    while (use->plan && motet_engine_reader_at_work(c->comm, use->plan, use->need) >= 0)
        if (!motet_wait_brief(wait))
            return false;
    *use = (struct motet_lane_use){c->flat->plan, seq << 32 | 1};
    return true;
}

static void finish(const struct context *c, const struct motet_ticket *ticket)
{
    /* release: what this rank read from others' staging was read before. */
    atomic_store_explicit(&c->comm->control->done, ticket->seq << 32 | MOTET_ALL_TILES, memory_order_release);
    motet_comm_wake(c->comm);
    motet_record_end(c->comm, ticket->record, MOTET_RECORD_DONE, c->flat->payload);
}

motetResult_t motet_flat_run(const struct motet_flat *flat, motetComm_t comm, const struct motet_call *call, struct motet_wait *wait,
                             struct motet_flat_state *state)
{
    struct motet_ticket *ticket = &state->ticket;
    *ticket = motet_ticket_take(comm, call, flat->fingerprint);
    motet_record_choice(ticket->record, (uint16_t)(flat->plan->algorithm - motet_algorithms), flat->protocol, flat->plan->transports);
    motet_comm_note_cpu(comm);
    struct context c = {.flat = flat,
                        .comm = comm,
                        .send = call->send,
                        .recv = call->recv,
                        .lane = (int)(ticket->seq % comm->layout.nlanes),
                        .turn = ticket->seq << 32,
                        .call_word = ticket->call_word};
    state->begun = begin(&c, wait, ticket->seq);
    if (!state->begun)
        return motetInProgress;
    bool published = false;
    for (state->steps_done = 0; state->steps_done < flat->nsteps; state->steps_done++) {
        const struct flat_step *step = &flat->steps[state->steps_done];
        if (step->slot >= 0) {
            publish(&c, step);
            published = true;
            if (step->stores && c.recv + step->dst != c.send + step->src)
                motet_copy(c.recv + step->dst, c.send + step->src, step->bytes);
            continue;
        }
        if (published) {
            motet_comm_wake(comm);
            published = false;
        }
        if (!receive(&c, step, wait))
            return motetInProgress;
    }
    finish(&c, ticket);
    INFO(MOTET_LOG_COLL,
         "%s: opCount %lx sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p [nranks=%d] algorithm %s", call->name,
         (unsigned long)ticket->seq, call->send, call->recv, call->count, call->dtype, call->op, call->root, (void *)comm,
         comm->nranks, flat->plan->algorithm->name);
    return motetSuccess;
}
