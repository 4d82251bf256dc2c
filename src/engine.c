/* SPDX-License-Identifier: Apache-2.0
 * The life of one collective: number, record, choice, tiles in lanes, credits, completion. Steps are executed in step.c.
 *
 * Credits. A lane of this rank's region may be used again when every rank that read from its last use says so in its done word. Each rank
 * publishes one done word: {seq, tiles}; it only grows. That is the whole flow control, on any transport. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "bypass.h"
#include "flat.h"
#include "footprint.h"
#include "profile.h"
#include "recorder.h"
#include "run.h"
#include "segment.h"
#include "steps.h"
#include "tune.h"
#include "verify.h"

void motet_call_drop_arrays(const struct motet_call *call)
{
    free(call->send_counts);
    free(call->send_displs);
    free(call->recv_counts);
    free(call->recv_displs);
    free(call->premultiplied);
}

void motet_call_free(struct motet_call *call)
{
    if (!call)
        return;
    motet_call_drop_arrays(call);
    free(call);
}

static void note_choice(struct motet_run *run)
{
    enum motet_record_protocol protocol = run->any_direct                                               ? MOTET_RECORD_DIRECT
                                          : run->call->count * run->reduction.size <= run->inline_bytes ? MOTET_RECORD_LL
                                                                                                        : MOTET_RECORD_SIMPLE;
    motet_record_choice(run->record, (uint16_t)(run->plan->algorithm - motet_algorithms), protocol, run->plan->transports);
}

/* ---- Choice ---- */

static bool moves_nothing(const struct motet_call *call, int nranks)
{
    const size_t *counts = call->recv_counts ? call->recv_counts : call->send_counts;
    if (call->collective == MOTET_BARRIER || call->counts == MOTET_COUNTS_PAIR_KNOWS)
        return false;
    if (call->counts == MOTET_COUNTS_EQUAL)
        return call->count == 0;
    for (int r = 0; r < nranks; r++)
        if (counts[r] > 0)
            return false;
    return true;
}

/* Elements that one rank contributes or ends up with, whichever all ranks know: what the choice is made by. */
static size_t known_elements(const struct motet_call *call, int nranks)
{
    const size_t *counts = call->recv_counts ? call->recv_counts : call->send_counts;
    if (call->counts == MOTET_COUNTS_EQUAL)
        return call->count * (size_t)motet_collective_nblocks(call->collective, nranks);
    if (call->counts == MOTET_COUNTS_PAIR_KNOWS)
        return 0;
    size_t sum = 0;
    for (int r = 0; r < nranks; r++)
        sum += counts[r];
    return sum;
}

/* Counts that only pairs know: the larger of what this rank gives and gets. */
static size_t pair_bytes(const struct motet_call *call, int nranks, size_t size)
{
    size_t sent = 0, received = 0;
    for (int r = 0; r < nranks; r++) {
        sent += call->send_counts ? call->send_counts[r] : 0;
        received += call->recv_counts ? call->recv_counts[r] : 0;
    }
    if (!call->send_counts && !call->recv_counts)
        sent = call->count;
    return (sent > received ? sent : received) * size;
}

/* MOTET_CHECK: proves the schedules of all ranks before the first use. */
static motetResult_t verify(motetComm_t comm, const struct motet_algorithm *algorithm, const struct motet_shape *shape)
{
    struct motet_verdict verdict;
    struct motet_verify_options options = {.seed = 1, .interleavings = 4, .rank_at = comm->rank_at};
    motetResult_t result = motet_verify(algorithm, shape, &options, &verdict);
    if (result == motetSuccess && !verdict.ok)
        result = motet_fail(motetInternalError, "MOTET_CHECK: %s", verdict.text);
    if (result == motetSuccess)
        INFO(MOTET_LOG_TUNING, "MOTET_CHECK: %s of %s on %d ranks is proved right", algorithm->name,
             motet_collective_name(algorithm->collective), shape->nranks);
    motet_verdict_free(&verdict);
    return result;
}

static motetResult_t find_plan(motetComm_t comm, const struct motet_algorithm *algorithm, int root, const struct motet_plan **plan)
{
    for (int i = 0; i < comm->nplans; i++) {
        *plan = comm->plans[i];
        if ((*plan)->algorithm == algorithm && (*plan)->root == root)
            return motetSuccess;
    }
    struct motet_shape shape = {
        .nranks = comm->nranks, .position = comm->position, .root = root, .nhosts = comm->nhosts, .host_first = comm->host_first};
    struct motet_plan **grown = realloc(comm->plans, ((size_t)comm->nplans + 1) * sizeof *grown);
    if (!grown)
        return motet_fail(motetSystemError, "out of memory for the schedule cache of communicator %s", comm->options.name);
    comm->plans = grown;
    if (motet_setting_int(MOTET_SET_CHECK))
        TRY(verify(comm, algorithm, &shape));
    TRY(motet_plan_build(algorithm, &shape, (int)comm->layout.nslots, &comm->plans[comm->nplans]));
    struct motet_plan *built = comm->plans[comm->nplans++];
    for (int i = 0; i < built->nreaders; i++)
        built->transports |= motet_record_transport(&comm->peers[built->readers[i]]);
    for (int i = 0; i < built->nwriters; i++)
        built->transports |= motet_record_transport(&comm->peers[built->writers[i]]);
    built->moved = motet_timing_plan(comm, built);
    motet_tally_add(&comm->schedules_total, motet_plan_bytes(built));
    *plan = built;
    return motetSuccess;
}

static motetResult_t choose(struct motet_run *run)
{
    motetComm_t comm = run->comm;
    const struct motet_call *call = run->call;
    int root = motet_collective_has_root(call->collective) ? comm->position_of[call->root] : 0;
    struct motet_tune_request request = {.collective = call->collective,
                                         .counts = call->counts,
                                         .dtype = call->dtype,
                                         .op = call->op,
                                         .bytes = known_elements(call, comm->nranks) * run->reduction.size,
                                         .root = root};
    const struct motet_algorithm *algorithm;
    TRY(motet_tune_choose(comm->tuner, &request, &algorithm));
    run->payload = call->counts == MOTET_COUNTS_PAIR_KNOWS ? pair_bytes(call, comm->nranks, run->reduction.size) : request.bytes;
    return find_plan(comm, algorithm, root, &run->plan);
}

/* ---- Preparation ---- */

static bool overlap(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a < b + b_len && b < a + a_len;
}

static size_t span_bytes(const struct motet_run *run, const struct motet_side *side)
{
    size_t largest = side->single || !run->tiling.rank_at ? side->count : side->count * (size_t)run->comm->nranks;
    for (int r = 0; side->counts && r < run->comm->nranks; r++) {
        size_t end = (side->displs && !side->single ? side->displs[r] : 0) + side->counts[r];
        if (end > largest)
            largest = end;
    }
    return largest * run->tiling.size;
}

static bool is_in_place(const struct motet_run *run)
{
    const struct motet_side *in = &run->tiling.input, *out = &run->tiling.output;
    return in->base && out->base && overlap(in->base, span_bytes(run, in), out->base, span_bytes(run, out));
}

/* Whether all targets that map this rank's memory can read the caller's buffer at `at`. */
static bool all_can_read(const struct motet_run *run, const struct motet_plan_step *step, const void *at)
{
    uint64_t offset;
    bool in_segment = motet_segment_offset(at, 1, &offset);
    for (int t = 0; t < step->ntargets; t++) {
        const struct motet_peer *peer = &run->comm->peers[run->plan->targets[step->first_target + t]];
        if (peer->mapped && !peer->same_process && !in_segment)
            return false;
    }
    return true;
}

static enum motet_sending choose_sending(struct motet_run *run, const struct motet_plan_step *step)
{
    int mapped = 0;
    for (int t = 0; t < step->ntargets; t++)
        mapped += run->comm->peers[run->plan->targets[step->first_target + t]].mapped;
    bool stored = step->dst != MOTET_NONE && motet_plane_is_wide(step->dst) == step->sends_wide; /* as it is sent */
    bool lies_in_a_plane = stored || (step->dst == MOTET_NONE && step->nsources == 0 && step->nsrc == 1) || step->n == 0;
    run->has_streams |= mapped < step->ntargets;
    if (mapped == 0)
        return step->ntargets == 0 || lies_in_a_plane ? MOTET_SEND_NONE : MOTET_SEND_STAGED;
    if (!run->direct || !step->direct_ok[run->in_place])
        return MOTET_SEND_STAGED;
    const struct motet_side *side = step->dst == MOTET_NONE ? &run->tiling.input : &run->tiling.output;
    int chunk = motet_span_chunk(step->dst == MOTET_NONE ? step->src_at : step->dst_at, 0, run->plan->nchunks);
    struct motet_extent e = motet_tiling_extent(&run->tiling, side, chunk, 0);
    if (e.len * run->tiling.size < MOTET_DIRECT_FROM_BYTES ||
        !all_can_read(run, step, motet_tiling_at(&run->tiling, side, chunk, e.first)))
        return MOTET_SEND_STAGED;
    run->any_direct = true;
    return MOTET_SEND_DIRECT;
}

/* Private planes of a lane are kept by the communicator and grown as calls need. */
static motetResult_t prepare_planes(struct motet_run *run, struct motet_lane *lane, int lane_index)
{
    motetComm_t comm = run->comm;
    size_t bytes = (size_t)run->plan->nchunks * run->tiling.place_bytes;
    lane->planes = &comm->scratch[(size_t)lane_index * MOTET_NPLANES];
    for (int plane = MOTET_SCRATCH; plane < MOTET_NPLANES; plane++) {
        size_t *have = &comm->scratch_bytes[(size_t)lane_index * MOTET_NPLANES + (size_t)plane];
        if (!(run->plan->planes & 1u << plane) || *have >= bytes)
            continue;
        free(lane->planes[plane]);
        motet_tally_add(&comm->scratch_total, -(uint64_t)*have);
        *have = 0;
        lane->planes[plane] = aligned_alloc(MOTET_LINE, bytes);
        if (!lane->planes[plane])
            return motet_footprint_fail(comm, bytes, "scratch");
        *have = bytes;
        motet_tally_add(&comm->scratch_total, bytes);
    }
    return motetSuccess;
}

static motetResult_t prepare(struct motet_run *run)
{
    motetComm_t comm = run->comm;
    const struct motet_plan *plan = run->plan;
    size_t nlanes = comm->layout.nlanes, ntargets = 0, widest = 1;
    if ((size_t)plan->stage_chunks * MOTET_LINE > comm->layout.lane_bytes)
        return motet_fail(motetInvalidUsage, "%s by %s of %d ranks needs MOTET_BUFFSIZE of at least %zu bytes, not %zu",
                          run->call->name, plan->algorithm->name, comm->nranks, (size_t)plan->stage_chunks * MOTET_LINE,
                          comm->layout.lane_bytes);
    motet_tiling_make(&run->tiling, run->call, &run->reduction, plan, comm->rank_at, comm->layout.lane_bytes);
    if (run->tiling.ntiles >= MOTET_ALL_TILES)
        return motet_fail(motetInvalidUsage, "%s of %zu elements by %s would take %zu tiles, more than %llu: raise MOTET_BUFFSIZE",
                          run->call->name, run->call->count, plan->algorithm->name, run->tiling.ntiles, MOTET_ALL_TILES - 1);
    run->in_place = is_in_place(run);
    unsigned protocols = motet_tune_protocols(comm->tuner, run->call->collective);
    run->inline_bytes = protocols & MOTET_PROTO_LL ? MOTET_INLINE : 0;
    run->direct = comm->options.direct && (protocols & MOTET_PROTO_DIRECT);
    for (int i = 0; i < plan->nsteps; i++) {
        ntargets += (size_t)plan->steps[i].ntargets;
        size_t operands = (size_t)plan->steps[i].nsources + plan->steps[i].nsrc;
        widest = operands > widest ? operands : widest;
    }
    run->told = plan->nwriters;
    run->lanes = calloc(nlanes, sizeof *run->lanes);
    run->sending = calloc((size_t)plan->nsteps + 1, sizeof *run->sending);
    run->found = calloc(widest, sizeof *run->found);
    run->operands = calloc(widest, sizeof *run->operands);
    struct motet_step_state *steps = calloc(nlanes * (size_t)plan->nsteps + 1, sizeof *steps);
    struct motet_served *served = calloc(nlanes * ntargets + 1, sizeof *served);
    if (run->lanes) {
        run->lanes[0].steps = steps;
        run->lanes[0].served = served;
    }
    if (!run->lanes || !run->sending || !run->found || !run->operands || !steps || !served) {
        if (!run->lanes) {
            free(steps);
            free(served);
        }
        return motet_fail(motetSystemError, "out of memory while starting %s on communicator %s", run->call->name,
                          comm->options.name);
    }
    for (int i = 0; i < plan->nsteps; i++)
        run->sending[i] = (uint8_t)choose_sending(run, &plan->steps[i]);
    for (size_t lane = 0; lane < nlanes; lane++) {
        run->lanes[lane].steps = steps + lane * (size_t)plan->nsteps;
        run->lanes[lane].served = served + lane * ntargets;
        TRY(prepare_planes(run, &run->lanes[lane], (int)lane));
    }
    return motetSuccess;
}

/* PreMulSum: the owner multiplies, and rounds, before anybody reads. An all-reduce does it in the receive buffer. */
static motetResult_t premultiply(struct motet_run *run)
{
    struct motet_call *call = run->call;
    void *to = call->recv;
    size_t elements = known_elements(call, run->comm->nranks);
    if (call->collective != MOTET_ALLREDUCE) {
        call->premultiplied = to = malloc(elements * run->reduction.size);
        if (!to)
            return motet_fail(motetSystemError, "%s: out of memory: %zu bytes for the multiplied input", call->name,
                              elements * run->reduction.size);
    }
    motet_premultiply(call->dtype, to, call->send, call->scalar, elements);
    call->send = to;
    return motetSuccess;
}

/* Chooses and prepares. Failures concern all: the others have begun or will, so they must hear. */
static motetResult_t make_ready(struct motet_run *run)
{
    motetComm_t comm = run->comm;
    const struct motet_call *call = run->call;
    motetResult_t result = call->premul ? premultiply(run) : motetSuccess;
    if (result == motetSuccess)
        result = choose(run);
    if (result == motetSuccess)
        result = prepare(run);
    if (result != motetSuccess)
        return motet_comm_fault(comm, result);
    motet_bypass_begin(comm, run->plan, run->seq, run->tiling.tile / (size_t)run->tiling.parts * run->tiling.size);
    note_choice(run);
    motet_flat_learn(comm, call, &run->reduction, run->plan);
    motet_ticket_say(comm, run->seq, call, run->plan->algorithm);
    return motetSuccess;
}

static struct motet_ticket take_ticket(motetComm_t comm, const struct motet_call *call)
{
    struct motet_record record = motet_ticket_record(call, comm->nranks);
    struct motet_ticket ticket = motet_ticket_take(comm, &record, motet_ticket_fingerprint(call, record.counts_hash));
    MOTET_PROBE_CALL_BEGIN(comm->id, (const char *)comm->options.name, comm->rank, ticket.seq, call->name, call->count,
                           (int)call->dtype, call->root);
    return ticket;
}

/* A run of a call that has its number, or gets it here (ticket NULL). */
static motetResult_t start(motetComm_t comm, struct motet_call *call, const struct motet_ticket *ticket, struct motet_run **out)
{
    struct motet_run *run = calloc(1, sizeof *run);
    *out = run;
    if (!run) {
        motet_call_free(call);
        motet_fail(motetSystemError, "comm \"%s\" (%d ranks): rank %d is out of memory for a collective", comm->options.name,
                   comm->nranks, comm->rank);
        return motet_comm_fault(comm, motetSystemError); /* the others wait for it */
    }
    struct motet_ticket own = ticket ? *ticket : take_ticket(comm, call);
    run->comm = comm;
    run->call = call;
    run->waits_for = -1;
    run->seq = own.seq;
    run->call_word = own.call_word;
    run->record = own.record;
    motet_comm_note_cpu(comm);
    atomic_store_explicit(&comm->control->driver, motet_thread_id(), memory_order_relaxed);
    atomic_store_explicit(&comm->control->inside, run->seq,
                          memory_order_relaxed); /* before the look at faults: see motet_comm_await_readers */
    TRY(motet_comm_check(comm));
    TRY(motet_reduction_init(&run->reduction, call->dtype, motet_collective_reduces(call->collective) ? call->op : motetSum,
                             comm->nranks));
    run->trivial = moves_nothing(call, comm->nranks);
    run->done = motet_done_word(run->seq, 0);
    if (!ticket && !run->trivial)
        motet_timing_begin(&run->timing, comm, run->seq, call->count * run->reduction.size);
    TRY(run->trivial ? motetSuccess : make_ready(run));
    run->profile = motet_profile_start_run(run);
    run->noted = motet_steps_wanted(run);
    return motetSuccess;
}

motetResult_t motet_engine_start(motetComm_t comm, struct motet_call *call, struct motet_run **run)
{
    return start(comm, call, NULL, run);
}

/* A rank that this very thread drives, too, reads nothing now, and sees the fault before it reads again (motet_op_progress): to wait for it
 * would be to wait for oneself. */
static bool is_inside(const void *context, int position)
{
    const struct motet_run *run = context;
    const struct motet_peer *peer = &run->comm->peers[position];
    const struct motet_control_area *control = motet_region_control(peer->region);
    return atomic_load(&control->inside) == run->seq && !(peer->same_process && atomic_load(&control->driver) == motet_thread_id());
}

/* The operation failed while peers may be copying from the caller's buffers, which the caller may free when it hears of it. */
static void wait_for_readers(const struct motet_run *run)
{
    motet_comm_await_readers(run->comm, run->plan->readers, run->plan->nreaders, is_inside, run);
}

static void tell_end(const struct motet_run *run)
{
    motetResult_t result = motetSuccess;
    if (run->record->state != MOTET_RECORD_DONE)
        result = motet_comm_async_error(run->comm) != motetSuccess ? motet_comm_async_error(run->comm) : motetSystemError;
    MOTET_PROBE_CALL_END(run->comm->id, run->comm->rank, run->seq, run->call->name, (int)result);
    motet_profile_stop(run->profile, result);
}

void motet_engine_end(struct motet_run *run)
{
    if (!run)
        return;
    atomic_store_explicit(&run->comm->control->inside, 0, memory_order_release);
    if (run->record && run->record->state == MOTET_RECORD_STARTED) {
        motet_record_end(run->comm, run->record, MOTET_RECORD_FAILED, 0);
        if (run->any_direct)
            wait_for_readers(run);
    }
    if (run->record)
        tell_end(run);
    if (run->lanes) {
        free(run->lanes[0].steps);
        free(run->lanes[0].served);
    }
    free(run->lanes);
    free(run->sending);
    free(run->found);
    free(run->operands);
    motet_call_free(run->call);
    free(run);
}

/* ---- Tiles ---- */

int motet_engine_reader_at_work(motetComm_t comm, const struct motet_plan *plan, uint64_t need)
{
    for (int i = 0; i < plan->nreaders; i++) {
        int reader = plan->readers[i];
        const struct motet_peer *peer = &comm->peers[reader];
        if ((int64_t)(comm->done_seen[reader] - need) >= 0)
            continue;
        comm->done_seen[reader] = atomic_load_explicit(&motet_region_control(peer->region)->done, memory_order_acquire);
        if ((int64_t)(comm->done_seen[reader] - need) < 0 && !atomic_load_explicit(&peer->dead, memory_order_relaxed))
            return reader;
    }
    return -1;
}

/* Whether all ranks that read from this one by `plan` have said `need`. */
static bool readers_done(struct motet_run *run, const struct motet_plan *plan, uint64_t need)
{
    int reader = motet_engine_reader_at_work(run->comm, plan, need);
    run->waits_for = reader >= 0 ? reader : run->waits_for;
    return reader < 0;
}

static int lane_of(const struct motet_run *run, size_t tile)
{
    return (int)((run->seq + tile) % run->comm->layout.nlanes);
}

static void open_round(struct motet_run *run, struct motet_lane *lane, int round)
{
    lane->round = round;
    lane->prefix = run->plan->round_first[round];
    lane->remaining = run->plan->round_first[round + 1] - lane->prefix;
}

/* Starts tiles while a lane is free. */
static void begin_tiles(struct motet_run *run, bool *moved)
{
    motetComm_t comm = run->comm;
    while (run->next_tile < run->tiling.ntiles) {
        int index = lane_of(run, run->next_tile);
        struct motet_lane *lane = &run->lanes[index];
        struct motet_lane_use *use = &comm->lane_uses[index];
        if (lane->active || (use->plan && !readers_done(run, use->plan, use->need)))
            return;
        *use = (struct motet_lane_use){run->plan, motet_done_word(run->seq, run->next_tile + 1)};
        size_t nsteps = (size_t)run->plan->nsteps;
        memset(lane->steps, 0, nsteps * sizeof *lane->steps);
        for (size_t i = 0; i < nsteps; i++)
            memset(&lane->served[run->plan->steps[i].first_target], 0, (size_t)run->plan->steps[i].ntargets * sizeof *lane->served);
        lane->active = nsteps > 0;
        lane->tile = run->next_tile++;
        if (lane->active)
            open_round(run, lane, 0);
        *moved = true;
    }
}

/* Advances the steps of the open round, and opens the next when all are complete. */
static motetResult_t advance_lane(struct motet_run *run, struct motet_lane *lane, int index, bool *moved)
{
    const struct motet_plan *plan = run->plan;
    for (;;) {
        int last = plan->round_first[lane->round + 1];
        for (int s = lane->prefix; s < last; s++) {
            if (lane->steps[s].complete)
                continue;
            TRY(motet_step_advance(run, lane, index, s, moved));
            if (lane->steps[s].complete)
                lane->remaining--;
            while (lane->prefix < last && lane->steps[lane->prefix].complete)
                lane->prefix++;
        }
        if (lane->remaining > 0)
            return motetSuccess;
        if (lane->round + 1 == plan->nrounds) {
            lane->active = false;
            return motetSuccess;
        }
        open_round(run, lane, lane->round + 1);
    }
}

/* Tells everybody how many tiles this rank is through with. */
static void publish_done(struct motet_run *run, bool *moved)
{
    motetComm_t comm = run->comm;
    while (run->tiles_done < run->next_tile) {
        const struct motet_lane *lane = &run->lanes[lane_of(run, run->tiles_done)];
        if (lane->active && lane->tile == run->tiles_done)
            break;
        run->tiles_done++;
    }
    uint64_t done = motet_done_word(run->seq, run->tiles_done == run->tiling.ntiles ? MOTET_ALL_TILES : run->tiles_done);
    if (done != run->done) {
        run->done = done;
        run->told = 0;
        /* release: what this rank read from others' staging was read before. */
        atomic_store_explicit(&comm->control->done, done, memory_order_release);
        run->published = *moved = true;
    }
    for (; run->told < run->plan->nwriters; run->told++) {
        const struct motet_peer *peer = &comm->peers[run->plan->writers[run->told]];
        if (!peer->mapped &&
            !motet_endpoint_put(peer->endpoint, peer->key, 0, NULL, 0, offsetof(struct motet_control_area, done), done))
            return;
    }
}

motetResult_t motet_engine_progress(struct motet_run *run, bool *moved)
{
    motetComm_t comm = run->comm;
    if (run->trivial) {
        motet_record_end(comm, run->record, MOTET_RECORD_DONE, 0);
        motet_timing_count(comm, run->call->collective, NULL, 0, 0);
        return motetSuccess;
    }
    motet_timing_look(&run->timing, run->waits_for);
    run->waits_for = -1;
    begin_tiles(run, moved);
    for (uint32_t i = 0; i < comm->layout.nlanes; i++)
        if (run->lanes[i].active)
            TRY(advance_lane(run, &run->lanes[i], (int)i, moved));
    publish_done(run, moved);
    if (run->published) {
        run->published = false;
        motet_comm_wake(comm);
    }
    motet_timing_seen(&run->timing, comm, *moved);
    if (run->tiles_done < run->tiling.ntiles || run->told < run->plan->nwriters)
        return motetInProgress;
    if (run->any_direct && !readers_done(run, run->plan, motet_done_word(run->seq, MOTET_ALL_TILES)))
        return motetInProgress;
    motet_record_end(comm, run->record, MOTET_RECORD_DONE, run->payload);
    motet_timing_end(&run->timing, comm, run->seq);
    motet_timing_count(comm, run->call->collective, run->plan->moved, run->payload,
                       run->tiling.wide_size >> __builtin_ctzll(run->tiling.size));
    return motetSuccess;
}

void motet_engine_describe(void *context, char *text, size_t len)
{
    const struct motet_run *run = context;
    int rank = run->waits_for >= 0 ? run->comm->rank_at[run->waits_for] : -1;
    if (rank >= 0)
        snprintf(text, len, "%s #%lu waits for rank %d (pid %d on %s)", run->call->name, (unsigned long)run->seq, rank,
                 (int)run->comm->peers[run->waits_for].endpoint->process.pid,
                 run->comm->peers[run->waits_for].endpoint->process.host_name);
    else
        snprintf(text, len, "%s #%lu", run->call->name, (unsigned long)run->seq);
}

/* Whether a tile that has not begun still waits for a message of the rank at `position`: the tile may wait for its lane only. */
static bool coming_tile_needs(struct motet_run *run, size_t tile, int position)
{
    struct motet_lane lane = {.tile = tile, .steps = run->lanes[0].steps}; /* steps: for their addresses only */
    for (int s = 0; s < run->plan->nsteps; s++)
        if (motet_step_needs(run, &lane, lane_of(run, tile), s, position))
            return true;
    return false;
}

bool motet_engine_needs(void *context, motetComm_t comm, int position)
{
    struct motet_run *run = context;
    const struct motet_plan *plan = run->plan;
    if (run->comm != comm || run->trivial || !plan)
        return false;
    for (size_t tile = run->next_tile; tile < run->tiling.ntiles; tile++)
        if (coming_tile_needs(run, tile, position))
            return true;
    for (uint32_t i = 0; i < comm->layout.nlanes; i++)
        for (int s = run->lanes[i].prefix; run->lanes[i].active && s < plan->nsteps; s++)
            if (!run->lanes[i].steps[s].complete && motet_step_needs(run, &run->lanes[i], (int)i, s, position))
                return true;
    return false;
}

int motet_engine_whom(void *context, motetComm_t comm)
{
    const struct motet_run *run = context;
    return run->comm == comm && run->waits_for >= 0 ? comm->rank_at[run->waits_for] : -1;
}

/* A call that began on the short way goes on here: what it did is marked as done. */
static motetResult_t resume(motetComm_t comm, struct motet_call *call, const struct motet_flat_state *state, struct motet_run **out)
{
    TRY(start(comm, call, &state->ticket, out));
    struct motet_run *run = *out;
    run->timing = state->timing;
    if (!state->begun)
        return motetSuccess;
    struct motet_lane *lane = &run->lanes[lane_of(run, 0)];
    lane->active = true;
    run->next_tile = 1;
    open_round(run, lane, 0);
    for (int s = 0; s < state->steps_done; s++)
        lane->steps[s] = (struct motet_step_state){.begun = true, .complete = true};
    lane->prefix += state->steps_done;
    lane->remaining -= state->steps_done;
    run->published = true; /* the short way wakes sleepers only now and then */
    return motetSuccess;
}

/* The call's memory becomes the run's. */
static motetResult_t start_or_resume(motetComm_t comm, const struct motet_call *call, const struct motet_flat_state *state,
                                     struct motet_run **run)
{
    struct motet_call *own = malloc(sizeof *own);
    *run = NULL;
    if (!own) {
        motet_call_drop_arrays(call);
        motet_fail(motetSystemError, "comm \"%s\" (%d ranks): rank %d is out of memory for %s", comm->options.name, comm->nranks,
                   comm->rank, call->name);
        return motet_comm_fault(comm, motetSystemError);
    }
    *own = *call;
    return state ? resume(comm, own, state, run) : motet_engine_start(comm, own, run);
}

/* From where the short way left it (state), or from the start (NULL), to the end. The wait has begun. */
static motetResult_t go_on(motetComm_t comm, const struct motet_call *call, const struct motet_flat_state *state,
                           struct motet_wait *wait)
{
    static const struct motet_waiting waiting = {
        .describe = motet_engine_describe, .needs = motet_engine_needs, .whom = motet_engine_whom};
    struct motet_run *run;
    motetResult_t result = start_or_resume(comm, call, state, &run);
    while (result == motetSuccess) {
        bool moved = false;
        result = motet_engine_progress(run, &moved);
        if (result != motetInProgress)
            break;
        motet_comm_poll(comm, &moved);
        result = motetSuccess;
        if (moved)
            motet_wait_progressed(wait);
        else
            result = motet_wait_pause(wait, &waiting, run);
    }
    motet_wait_end(wait);
    motet_engine_end(run);
    return result;
}

motetResult_t motet_engine_run_flat(motetComm_t comm, const struct motet_flat *flat, const void *send, void *recv,
                                    struct motet_run **rest)
{
    struct motet_flat_state state;
    struct motet_wait wait;
    wait.comms = &comm;
    wait.ncomms = 0; /* begins when there is something to wait for */
    if (__builtin_expect(rest != NULL, 0))
        motet_wait_begin_hasty(&wait, &comm, 1);
    motetResult_t result = motet_flat_run(flat, comm, send, recv, &wait, &state);
    if (result != motetInProgress)
        return result; /* it has not slept: nothing to take back */
    const struct motet_call call = motet_flat_call(flat, send, recv);
    if (!rest)
        return go_on(comm, &call, &state, &wait);
    result = start_or_resume(comm, &call, &state, rest);
    return result == motetSuccess ? motetInProgress : result;
}

motetResult_t motet_engine_run(motetComm_t comm, const struct motet_call *call)
{
    struct motet_flat *flat = motet_flat_of(comm, call);
    struct motet_wait wait;
    if (flat && call->checked && !flat->checked)
        motet_flat_check(flat, call);
    if (flat && motet_flat_takes(flat, call->send, call->recv))
        return motet_engine_run_flat(comm, flat, call->send, call->recv, NULL);
    motet_wait_begin(&wait, &comm, 1);
    return go_on(comm, call, NULL, &wait);
}
