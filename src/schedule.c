/* SPDX-License-Identifier: Apache-2.0
 * Building, expanding and reading schedules: what the rules of schedule.h mean, in one place for every reader.
 * Knows nothing of algorithms, counts or how a schedule is executed. How it looks in print is in schedule_text.c. */
#include "schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Building ---- */

void motet_schedule_begin(struct motet_schedule *schedule, const struct motet_shape *shape, int nblocks, int parts)
{
    assert(nblocks > 0 && parts > 0);
    schedule->nsteps = 0;
    schedule->nranks = shape->nranks;
    schedule->position = shape->position;
    schedule->nblocks = nblocks;
    schedule->parts = parts;
    schedule->stage_chunks = 0;
    schedule->out_of_memory = false;
}

void motet_schedule_free(struct motet_schedule *schedule)
{
    free(schedule->steps);
    schedule->steps = NULL;
    schedule->nsteps = 0;
    schedule->capacity = 0;
}

struct motet_step *motet_schedule_append(struct motet_schedule *schedule)
{
    static _Thread_local struct motet_step lost; /* what a builder fills in vain once memory has run out */

    if (schedule->nsteps == schedule->capacity && !schedule->out_of_memory) {
        int capacity = schedule->capacity ? schedule->capacity * 2 : 16;
        struct motet_step *steps = realloc(schedule->steps, (size_t)capacity * sizeof(*steps));
        if (steps) {
            schedule->steps = steps;
            schedule->capacity = capacity;
        } else {
            schedule->out_of_memory = true;
        }
    }
    struct motet_step *step = schedule->out_of_memory ? &lost : &schedule->steps[schedule->nsteps++];
    memset(step, 0, sizeof(*step));
    return step;
}

void motet_send(struct motet_schedule *schedule, enum motet_plane src, int at, int n, int to)
{
    struct motet_step *step = motet_schedule_append(schedule);
    step->src = (uint8_t)src;
    step->nsrc = 1;
    step->src_at = step->dst_at = motet_range(at);
    step->n = n;
    step->to = motet_peer(to);
}

void motet_recv(struct motet_schedule *schedule, enum motet_plane dst, int at, int n, int from)
{
    struct motet_step *step = motet_schedule_append(schedule);
    step->dst = (uint8_t)dst;
    step->src_at = step->dst_at = motet_range(at);
    step->n = n;
    step->from = motet_peer(from);
}

void motet_recv_reduce(struct motet_schedule *schedule, enum motet_plane dst, enum motet_plane src, int at, int n, int from,
                       bool wide)
{
    struct motet_step *step = motet_schedule_append(schedule);
    step->dst = (uint8_t)dst;
    step->src = (uint8_t)src;
    step->nsrc = 1;
    step->src_at = step->dst_at = motet_range(at);
    step->n = n;
    step->from = motet_peer(from);
    step->flags = wide ? MOTET_WIDE : 0;
}

void motet_copy_chunks(struct motet_schedule *schedule, enum motet_plane dst, int dst_at, enum motet_plane src, int src_at, int n)
{
    struct motet_step *step = motet_schedule_append(schedule);
    step->dst = (uint8_t)dst;
    step->src = (uint8_t)src;
    step->nsrc = 1;
    step->dst_at = motet_range(dst_at);
    step->src_at = motet_range(src_at);
    step->n = n;
}

void motet_end_round(struct motet_schedule *schedule)
{
    if (schedule->nsteps > 0)
        schedule->steps[schedule->nsteps - 1].flags |= MOTET_ENDS_ROUND;
}

/* ---- Reading ---- */

int motet_span_chunk(struct motet_span span, int i, int nchunks)
{
    int64_t at = span.run ? span.first + (int64_t)(i / span.run) * span.stride + i % span.run : (int64_t)span.first + i;
    if (at >= 0 && at < nchunks)
        return (int)at;
    at %= nchunks;
    return (int)(at < 0 ? at + nchunks : at);
}

/* Position named by the i-th entry, the own one not skipped. */
static int peer_entry(struct motet_peers peers, int i, int nranks)
{
    int64_t at = (peers.first + (int64_t)i * (peers.stride ? peers.stride : 1)) % nranks;
    return (int)(at < 0 ? at + nranks : at);
}

/* Index of the own position among the entries, or n. */
static int own_entry(struct motet_peers peers, int position, int nranks)
{
    if (peers.stride == 0 || peers.stride == 1) {
        int i = motet_mod(position - peers.first, nranks);
        return i < peers.n ? i : peers.n;
    }
    int i = 0;
    while (i < peers.n && peer_entry(peers, i, nranks) != position)
        i++;
    return i;
}

int motet_peers_count(struct motet_peers peers, int position, int nranks)
{
    if (peers.n <= 0)
        return 0;
    return peers.n - (own_entry(peers, position, nranks) < peers.n);
}

int motet_peers_at(struct motet_peers peers, int i, int position, int nranks)
{
    return peer_entry(peers, i + (i >= own_entry(peers, position, nranks)), nranks);
}

int motet_step_operands(const struct motet_step *step, int position, int nranks)
{
    return motet_peers_count(step->from, position, nranks) + (step->src == MOTET_NONE ? 0 : step->nsrc);
}

/* Whether value[] is an accumulator before it is stored. */
static bool combines_or_carries_wide(const struct motet_step *step, int position, int nranks)
{
    int from = motet_peers_count(step->from, position, nranks);
    int local = step->src == MOTET_NONE ? 0 : step->nsrc;
    return from + local > 1 || (from && (step->flags & MOTET_WIDE)) || (local && motet_plane_is_wide(step->src));
}

bool motet_step_finishes(const struct motet_step *step, int position, int nranks)
{
    return step->dst != MOTET_NONE && !motet_plane_is_wide(step->dst) && combines_or_carries_wide(step, position, nranks);
}

bool motet_step_sends_wide(const struct motet_step *step, int position, int nranks)
{
    return motet_peers_count(step->to, position, nranks) > 0 && (step->dst == MOTET_NONE || motet_plane_is_wide(step->dst)) &&
           combines_or_carries_wide(step, position, nranks);
}

/* ---- Expanding ---- */

bool motet_step_does_nothing(const struct motet_step *step, int position, int nranks)
{
    bool lonely = !motet_peers_count(step->from, position, nranks) && !motet_peers_count(step->to, position, nranks);
    return lonely && (step->each || step->dst == MOTET_NONE || step->n == 0);
}

static struct motet_span shifted(struct motet_span span, int64_t by, int nchunks)
{
    int64_t first = (span.first + by) % nchunks;
    span.first = (int32_t)(first < 0 ? first + nchunks : first);
    return span;
}

/* Writes the single steps of `step` to `out` (room for each peer entry); returns how many. */
static int single_steps(const struct motet_schedule *schedule, const struct motet_step *step, struct motet_step *out)
{
    int nranks = schedule->nranks, position = schedule->position, count = 0;
    if (!step->each) {
        if (!motet_step_does_nothing(step, position, nranks))
            out[count++] = *step;
        return count;
    }
    bool sends = step->to.n > 0;
    struct motet_peers peers = sends ? step->to : step->from;
    for (int i = 0; i < peers.n; i++) {
        int peer = peer_entry(peers, i, nranks);
        if (peer == position)
            continue;
        struct motet_step *single = &out[count++];
        int64_t by = (int64_t)i * step->each;
        *single = *step;
        single->each = 0;
        *(sends ? &single->to : &single->from) = motet_peer(peer);
        single->dst_at = shifted(step->dst_at, by, motet_schedule_nchunks(schedule));
        single->src_at = shifted(step->src_at, by, motet_schedule_nchunks(schedule));
    }
    return count;
}

void motet_schedule_expand(struct motet_schedule *schedule)
{
    int64_t room = 1;
    for (int s = 0; s < schedule->nsteps; s++) {
        const struct motet_step *step = &schedule->steps[s];
        room += step->each ? step->from.n + step->to.n : 1;
    }
    struct motet_step *steps = room <= INT32_MAX ? malloc((size_t)room * sizeof(*steps)) : NULL;
    if (!steps) {
        schedule->out_of_memory = true;
        return;
    }
    int count = 0, round_start = 0;
    for (int s = 0; s < schedule->nsteps; s++) {
        const struct motet_step *step = &schedule->steps[s];
        int added = single_steps(schedule, step, steps + count);
        for (int i = 0; i < added; i++)
            steps[count + i].flags &= (uint8_t)~MOTET_ENDS_ROUND;
        count += added;
        if ((step->flags & MOTET_ENDS_ROUND) && count > round_start) {
            steps[count - 1].flags |= MOTET_ENDS_ROUND;
            round_start = count;
        }
    }
    free(schedule->steps);
    schedule->steps = steps;
    schedule->nsteps = count;
    schedule->capacity = (int)room;
}
