/* SPDX-License-Identifier: Apache-2.0
 * Executes one step of a plan in one lane: waits for nothing, moves what is there. A piece of the value is computed from the pieces of
 * its operands that have arrived, stored, staged for readers that map this rank's memory, and put on the streams of the others.
 *
 * Places. Chunk i of a message lies at staging place stage_at + i; `filled` counts in places too: i whole places and the bytes of the
 * next one. Pieces end on cache lines or at the end of a chunk, so the count in lines is exact. */
#include <string.h>

#include "base/error.h"
#include "bypass.h"
#include "run.h"
#include "segment.h"
#include "steps.h"

/* Elements are combined and published in pieces of this many bytes: small enough that a reader overlaps with the writer and the piece
 * stays in the first-level cache between reducing and copying, large enough that one line of bookkeeping per piece does not show. */
#define PIECE_BYTES (16 * 1024)

struct action {
    struct motet_run *run;
    struct motet_lane *lane;
    const struct motet_plan_step *step;
    struct motet_step_state *state;
    int lane_index, index;
};

static size_t width(const struct motet_run *run, bool wide)
{
    return wide ? run->tiling.wide_size : run->tiling.size;
}

static uint64_t turn_word(const struct motet_run *run, size_t tile)
{
    uint64_t turn = tile / run->comm->layout.nlanes;
    return run->seq << 32 | (turn & 0xff) << 24;
}

static bool is_private(int plane)
{
    return plane >= MOTET_SCRATCH;
}

static const struct motet_side *side_of(const struct motet_run *run, int plane)
{
    return plane == MOTET_INPUT ? &run->tiling.input : &run->tiling.output;
}

/* The side whose counts give the length of a step's value: both ends of a message use the side of their own buffer. */
static const struct motet_side *length_side(const struct action *a)
{
    if (a->step->dst == MOTET_INPUT || a->step->dst == MOTET_OUTPUT)
        return &a->run->tiling.output;
    if (a->step->nsrc > 0 && a->step->src == MOTET_OUTPUT)
        return &a->run->tiling.output;
    return &a->run->tiling.input;
}

static struct motet_extent extent(const struct action *a, int i)
{
    int chunk = motet_span_chunk(a->step->dst_at, i, a->run->plan->nchunks);
    return motet_tiling_extent(&a->run->tiling, length_side(a), chunk, a->lane->tile);
}

/* Address of the first element of a chunk in a plane of this rank. */
static char *plane_at(const struct action *a, int plane, int chunk)
{
    if (is_private(plane))
        return a->lane->planes[plane] + (size_t)chunk * a->run->tiling.place_bytes;
    const struct motet_side *side = side_of(a->run, plane);
    struct motet_extent e = motet_tiling_extent(&a->run->tiling, side, chunk, a->lane->tile);
    return motet_tiling_at(&a->run->tiling, side, chunk, e.first);
}

static motetResult_t mismatch(const struct action *a, int peer, uint64_t theirs)
{
    a->run->waits_for = peer;
    return motet_comm_mismatch(a->run->comm, peer, a->run->seq, theirs);
}

/* Finds the i-th chunk (len elements) of what a source sent. available = 0 when nothing of this lane turn is there yet. */
static motetResult_t find_source(const struct action *a, const struct motet_plan_source *source, int i, size_t len,
                                 struct motet_found *out)
{
    struct motet_run *run = a->run;
    const struct motet_peer *peer = &run->comm->peers[source->peer];
    const struct motet_layout *layout = &run->comm->layout;
    const struct motet_slot *slot =
        (const struct motet_slot *)(peer->region + motet_layout_slot(layout, a->lane_index, source->slot));
    uint64_t filled = atomic_load_explicit(&slot->filled, memory_order_acquire), turn = turn_word(run, a->lane->tile);
    out->available = 0;
    out->remote = false;
    out->wide = a->step->arrives_wide;
    if ((filled & ~0xffffffull) != turn) {
        if ((int32_t)((uint32_t)(filled >> 32) - (uint32_t)run->seq) > 0)
            return mismatch(a, source->peer, filled >> 32);
        return motetSuccess;
    }
    if (slot->call != run->call_word)
        return mismatch(a, source->peer, slot->call);
    size_t bytes = len * width(run, out->wide), place = run->tiling.place_bytes;
    size_t there = (filled & 0xffffff) * MOTET_LINE, before = (size_t)i * place;
    if (there <= before)
        return motetSuccess;
    out->available = there - before >= bytes ? len : (there - before) / width(run, out->wide);
    out->remote = true;
    if (slot->direct) {
        run->reads_direct = true;
        out->at = slot->direct & 1 ? peer->endpoint->segment + (slot->direct >> 1) : (const char *)(uintptr_t)(slot->direct >> 1);
    } else if (a->step->n == 1 && bytes <= run->inline_bytes) {
        out->at = (const char *)slot->bytes;
    } else {
        out->at = peer->region + motet_layout_staging(layout, a->lane_index) + ((size_t)source->stage_at + (size_t)i) * place;
        motet_bypass_look(run->comm, source->peer, run->seq, out->at, out->available * width(run, out->wide));
    }
    return motetSuccess;
}

/* ---- Publishing ---- */

static struct motet_slot *own_slot(const struct action *a)
{
    return (struct motet_slot *)(a->run->comm->region + motet_layout_slot(&a->run->comm->layout, a->lane_index, a->step->slot));
}

static size_t stage_offset(const struct action *a, int i)
{
    return motet_layout_staging(&a->run->comm->layout, a->lane_index) +
           ((size_t)a->step->stage_at + (size_t)i) * a->run->tiling.place_bytes;
}

static bool is_inline(const struct action *a, size_t bytes)
{
    return a->step->n == 1 && bytes <= a->run->inline_bytes;
}

/* Lines of the message that are there when the value is complete up to the cursor. */
static uint64_t lines_at(const struct action *a, struct motet_cursor cursor)
{
    size_t place_lines = a->run->tiling.place_bytes / MOTET_LINE;
    if (a->step->n == 0)
        return 1; /* a signal */
    return (uint64_t)cursor.chunk * place_lines + cursor.element * width(a->run, a->step->sends_wide) / MOTET_LINE;
}

/* Tells readers that map this rank's memory how far the message is. */
static void publish(const struct action *a)
{
    struct motet_slot *slot = own_slot(a);
    uint64_t turn = turn_word(a->run, a->lane->tile);
    if ((atomic_load_explicit(&slot->filled, memory_order_relaxed) & ~0xffffffull) != turn) {
        slot->call = a->run->call_word;
        slot->direct = 0;
        if (a->run->sending[a->index] == MOTET_SEND_DIRECT) {
            bool input = a->step->dst == MOTET_NONE;
            int chunk = motet_span_chunk(input ? a->step->src_at : a->step->dst_at, 0, a->run->plan->nchunks);
            const char *at = plane_at(a, input ? MOTET_INPUT : MOTET_OUTPUT, chunk);
            uint64_t offset;
            slot->direct = motet_segment_offset(at, 1, &offset) ? offset << 1 | 1 : (uint64_t)(uintptr_t)at << 1;
        }
    }
    /* release: whoever sees the count sees call, direct, the inline bytes and the staged or direct data. */
    atomic_store_explicit(&slot->filled, turn | lines_at(a, a->state->value), memory_order_release);
    a->run->published = true;
}

/* ---- Stream targets ---- */

/* Where the outgoing value of chunk i lies in this process. */
static const char *outgoing_at(const struct action *a, int i, size_t chunk_bytes)
{
    if (a->run->sending[a->index] == MOTET_SEND_STAGED)
        return is_inline(a, chunk_bytes) ? (const char *)own_slot(a)->bytes : a->run->comm->region + stage_offset(a, i);
    int plane = a->step->dst != MOTET_NONE ? a->step->dst : a->step->src;
    struct motet_span at = a->step->dst != MOTET_NONE ? a->step->dst_at : a->step->src_at;
    return plane_at(a, plane, motet_span_chunk(at, i, a->run->plan->nchunks));
}

static bool put(const struct action *a, const struct motet_peer *peer, size_t offset, const void *bytes, size_t len, bool word,
                uint64_t value)
{
    size_t slot = motet_layout_slot(&a->run->comm->layout, a->lane_index, a->step->slot);
    return motet_endpoint_put(peer->endpoint, peer->key, offset, bytes, len,
                              word ? slot + offsetof(struct motet_slot, filled) : UINT64_MAX, value);
}

/* The slot's {call, direct} and, for a message that fits in the line, all of it. */
static bool put_line(const struct action *a, const struct motet_peer *peer, const char *bytes, size_t len, bool word,
                     uint64_t value)
{
    char line[2 * sizeof(uint64_t) + MOTET_INLINE];
    uint64_t head[2] = {a->run->call_word, 0};
    memcpy(line, head, sizeof head);
    if (len > 0)
        memcpy(line + sizeof head, bytes, len);
    size_t slot = motet_layout_slot(&a->run->comm->layout, a->lane_index, a->step->slot);
    return put(a, peer, slot + offsetof(struct motet_slot, call), line, sizeof head + len, word, value);
}

/* Puts the next stretch of chunk served->at.chunk (e.len elements, `limit` of them computed). Returns false when there is no room now. */
static bool serve_chunk(const struct action *a, const struct motet_peer *peer, struct motet_served *served, size_t len,
                        size_t limit)
{
    struct motet_cursor *at = &served->at;
    uint64_t turn = turn_word(a->run, a->lane->tile);
    size_t w = width(a->run, a->step->sends_wide), bytes = (limit - at->element) * w;
    const char *from = outgoing_at(a, at->chunk, len * w);
    struct motet_cursor next = {at->chunk + 1, 0};
    if (is_inline(a, len * w)) {
        if (!put_line(a, peer, from, len * w, true, turn | lines_at(a, next)))
            return false;
        *at = next;
        return true;
    }
    if (!served->opened && !put_line(a, peer, NULL, 0, false, 0))
        return false;
    served->opened = true;
    if (bytes > MOTET_PUT_MAX)
        bytes = MOTET_PUT_MAX;
    if (at->element + bytes / w < len)
        next = (struct motet_cursor){at->chunk, at->element + bytes / w};
    if (!put(a, peer, stage_offset(a, at->chunk) + at->element * w, from + at->element * w, bytes, true, turn | lines_at(a, next)))
        return false;
    *at = next;
    return true;
}

/* Serves one stream target up to what has been computed. Returns whether it has everything. */
static bool serve(const struct action *a, int target, bool *moved)
{
    struct motet_served *served = &a->lane->served[a->step->first_target + target];
    struct motet_cursor *at = &served->at, *value = &a->state->value;
    const struct motet_peer *peer = &a->run->comm->peers[a->run->plan->targets[a->step->first_target + target]];
    if (a->step->n == 0) {
        if (at->chunk == 0 && put_line(a, peer, NULL, 0, true, turn_word(a->run, a->lane->tile) | 1))
            at->chunk = 1, *moved = true;
        return at->chunk == 1;
    }
    while (at->chunk < value->chunk || (at->chunk == value->chunk && at->element < value->element)) {
        size_t len = extent(a, at->chunk).len;
        if (len == 0)
            *at = (struct motet_cursor){at->chunk + 1, 0};
        else if (!serve_chunk(a, peer, served, len, at->chunk < value->chunk ? len : value->element))
            return false;
        *moved = true;
    }
    return at->chunk == a->step->n;
}

static bool serve_streams(const struct action *a, bool *moved)
{
    bool all = true;
    for (int t = 0; t < a->step->ntargets; t++)
        if (!a->run->comm->peers[a->run->plan->targets[a->step->first_target + t]].mapped && !serve(a, t, moved))
            all = false;
    return all;
}

/* ---- Computing ---- */

static void move_piece(const struct action *a, const struct motet_found *from, char *dst, char *stage, size_t first, size_t n)
{
    size_t w = width(a->run, from->wide);
    const char *at = from->at + first * w;
    if (dst && motet_plane_is_wide(a->step->dst) && !from->wide) {
        motet_reduce(&a->run->reduction, dst + first * width(a->run, true), true, &(struct motet_operand){at, false}, 1, n);
    } else if (dst && dst + first * w != at) {
        if (from->remote)
            motet_copy_private(dst + first * w, at, n * w);
        else
            motet_copy_shared(dst + first * w, at, n * w);
    }
    if (stage && stage + first * w != at)
        motet_bypass_stage(a->run->comm, stage + first * w, at, n * w);
}

static void combine_piece(const struct action *a, int k, char *dst, char *stage, size_t first, size_t n)
{
    const struct motet_found *operands = a->run->found;
    struct motet_operand *all = a->run->operands;
    for (int i = 0; i < k; i++)
        all[i] = (struct motet_operand){operands[i].at + first * width(a->run, operands[i].wide), operands[i].wide};
    bool wide = dst ? motet_plane_is_wide(a->step->dst) : a->step->sends_wide;
    char *to = (dst ? dst : stage) + first * width(a->run, wide);
    uint64_t began_ns = motet_timing_reduces(&a->run->timing);
    motet_reduce(&a->run->reduction, to, wide, all, k, n);
    motet_timing_reduced(&a->run->timing, began_ns);
    if (dst && stage)
        motet_bypass_stage(a->run->comm, stage + first * width(a->run, wide), to, n * width(a->run, wide));
}

/* Collects the operands of chunk i in position order. *there: elements that all of them have. */
static motetResult_t collect(const struct action *a, int i, size_t len, int *k, size_t *there)
{
    struct motet_found *operands = a->run->found;
    const struct motet_plan_step *step = a->step;
    const struct motet_plan *plan = a->run->plan;
    *k = 0;
    *there = len;
    for (int s = 0; s <= step->nsources; s++) {
        for (int p = 0; s == step->local_at && p < step->nsrc; p++) {
            int plane = step->src + p;
            operands[(*k)++] = (struct motet_found){.at = plane_at(a, plane, motet_span_chunk(step->src_at, i, plan->nchunks)),
                                                    .wide = motet_plane_is_wide(plane),
                                                    .available = len};
        }
        if (s == step->nsources)
            break;
        TRY(find_source(a, &plan->sources[step->first_source + s], i, len, &operands[*k]));
        if (operands[*k].available < *there) {
            *there = operands[*k].available;
            a->run->waits_for = plan->sources[step->first_source + s].peer;
        }
        (*k)++;
    }
    return motetSuccess;
}

/* Computes what can be computed of the value's current chunk. */
static motetResult_t compute_chunk(const struct action *a, bool *moved)
{
    struct motet_cursor *at = &a->state->value;
    struct motet_extent e = extent(a, at->chunk);
    int k;
    size_t there;
    if (e.len == 0) {
        *at = (struct motet_cursor){at->chunk + 1, 0};
        *moved = true;
        return motetSuccess;
    }
    TRY(collect(a, at->chunk, e.len, &k, &there));
    bool moves = k == 1 && !a->step->finishes;
    size_t out_width = width(a->run, a->step->sends_wide), piece = PIECE_BYTES / a->run->tiling.wide_size;
    char *dst = a->step->dst == MOTET_NONE
                    ? NULL
                    : plane_at(a, a->step->dst, motet_span_chunk(a->step->dst_at, at->chunk, a->run->plan->nchunks));
    char *stage = NULL;
    if (a->run->sending[a->index] == MOTET_SEND_STAGED)
        stage = is_inline(a, e.len * out_width) ? (char *)own_slot(a)->bytes : a->run->comm->region + stage_offset(a, at->chunk);
    bool to_mapped = a->run->sending[a->index] != MOTET_SEND_NONE;
    while (at->element < there) {
        size_t n = there - at->element;
        if (n >= piece)
            n = piece;
        else if (there < e.len)
            break; /* less than a piece and more to come */
        if (moves)
            move_piece(a, &a->run->found[0], dst, stage, at->element, n);
        else
            combine_piece(a, k, dst, stage, at->element, n);
        if (a->run->reads_direct)
            TRY(motet_comm_check_read(a->run->comm));
        at->element += n;
        *moved = true;
        if (at->element < e.len && to_mapped)
            publish(a);
    }
    if (at->element == e.len) {
        *at = (struct motet_cursor){at->chunk + 1, 0};
        if (to_mapped)
            publish(a);
    }
    return motetSuccess;
}

/* Whether a message of a step is moved at all: a chunked message whose chunks are all empty by count is skipped by both ends. */
static bool is_empty(const struct action *a)
{
    if (a->step->n == 0)
        return false;
    for (int i = 0; i < a->step->n; i++)
        if (extent(a, i).len > 0)
            return false;
    return true;
}

/* A signal: wait for all sources, then signal all targets. */
static motetResult_t compute_signal(const struct action *a, bool *moved)
{
    for (int s = 0; s < a->step->nsources; s++) {
        struct motet_found operand;
        TRY(find_source(a, &a->run->plan->sources[a->step->first_source + s], 0, 1, &operand));
        if (operand.available == 0) {
            a->run->waits_for = a->run->plan->sources[a->step->first_source + s].peer;
            return motetSuccess;
        }
    }
    a->state->value.chunk = 1;
    if (a->run->sending[a->index] != MOTET_SEND_NONE)
        publish(a);
    *moved = true;
    return motetSuccess;
}

/* All that a step computes or passes on, for traces. */
static size_t value_bytes(const struct action *a)
{
    size_t elements = 0;
    for (int i = 0; i < a->step->n; i++)
        elements += extent(a, i).len;
    return elements * a->run->tiling.size;
}

motetResult_t motet_step_advance(struct motet_run *run, struct motet_lane *lane, int lane_index, int index, bool *moved)
{
    const struct motet_plan_step *step = &run->plan->steps[index];
    struct action a = {
        .run = run, .lane = lane, .step = step, .state = &lane->steps[index], .lane_index = lane_index, .index = index};
    int32_t whole = step->n > 0 ? step->n : 1;
    if (lane->prefix < step->after[run->in_place])
        return motetSuccess;
    if (!a.state->begun) {
        a.state->begun = true;
        motet_steps_begin(run, lane, index);
        if (is_empty(&a)) {
            a.state->complete = true;
            *moved = true;
            return motetSuccess;
        }
    }
    while (a.state->value.chunk < whole) {
        struct motet_cursor before = a.state->value;
        TRY(step->n > 0 ? compute_chunk(&a, moved) : compute_signal(&a, moved));
        if (a.state->value.chunk == before.chunk)
            break;
    }
    bool served = !run->has_streams || step->ntargets == 0 || serve_streams(&a, moved);
    if (a.state->value.chunk == whole && served) {
        a.state->complete = true;
        if (__builtin_expect(a.state->begin_ns != 0, 0))
            motet_steps_note(run, lane, index, value_bytes(&a));
        *moved = true;
    }
    return motetSuccess;
}

bool motet_step_needs(struct motet_run *run, struct motet_lane *lane, int lane_index, int index, int position)
{
    const struct motet_plan_step *step = &run->plan->steps[index];
    struct action a = {
        .run = run, .lane = lane, .step = step, .state = &lane->steps[index], .lane_index = lane_index, .index = index};
    int last = step->n - 1;
    while (last > 0 && extent(&a, last).len == 0)
        last--;
    size_t len = step->n > 0 ? extent(&a, last).len : 1;
    for (int s = 0; s < step->nsources; s++) {
        const struct motet_plan_source *source = &run->plan->sources[step->first_source + s];
        struct motet_found found = {0};
        if (source->peer == position && len > 0 &&
            (find_source(&a, source, last < 0 ? 0 : last, len, &found) != motetSuccess || found.available < len))
            return true;
    }
    return false;
}
