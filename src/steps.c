/* SPDX-License-Identifier: Apache-2.0
 * The ring of steps. Writers take places by counting; a reader that copies while they write drops entries that are not whole. */
#include "steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "profile.h"

_Atomic(_Bool) motet_steps_on;

struct place {
    _Atomic uint64_t ticket; /* of the note in it + 1; 0 while it is written */
    struct motet_step_note note;
};

static struct place *ring;
static size_t length;
static _Atomic uint64_t next_ticket;

bool motet_steps_start(size_t capacity)
{
    if (ring)
        return true;
    ring = calloc(capacity, sizeof *ring);
    length = capacity;
    atomic_store(&motet_steps_on, ring != NULL);
    return ring != NULL;
}

static void copy_note(struct motet_step_note *to, const struct motet_step_note *from)
{
    const uint64_t *source = (const uint64_t *)(const void *)from;
    uint64_t *target = (uint64_t *)(void *)to;
    _Static_assert(sizeof *from % sizeof *source == 0, "whole words");
    for (size_t i = 0; i < sizeof *from / sizeof *source; i++)
        __atomic_store_n(&target[i], __atomic_load_n(&source[i], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

bool motet_steps_wanted(const struct motet_run *run)
{
    return atomic_load_explicit(&motet_steps_on, memory_order_relaxed) || run->profile ||
           MOTET_PROBE_WANTED(motet_semaphore_step_begin) || MOTET_PROBE_WANTED(motet_semaphore_step_end);
}

void motet_steps_start_note(const struct motet_run *run, struct motet_lane *lane, int index)
{
    lane->steps[index].begin_ns = motet_now_ns();
    motet_profile_start_step(run, lane, index, lane->steps[index].begin_ns);
}

static void keep(const struct motet_run *run, const struct motet_lane *lane, int index, size_t bytes, uint64_t now_ns)
{
    const struct motet_plan_step *step = &run->plan->steps[index];
    int peer = step->nsources > 0   ? run->plan->sources[step->first_source].peer
               : step->ntargets > 0 ? run->plan->targets[step->first_target]
                                    : -1;
    int npeers = step->nsources > step->ntargets ? step->nsources : step->ntargets;
    struct motet_step_note note = {
        .comm_id = run->comm->id,
        .seq = run->seq,
        .begin_ns = lane->steps[index].begin_ns,
        .end_ns = now_ns,
        .bytes = bytes,
        .rank = run->comm->rank,
        .peer = peer >= 0 ? run->comm->rank_at[peer] : -1,
        .tile = (uint32_t)lane->tile,
        .round = (int16_t)step->round,
        .step = (int16_t)index,
        .npeers = (uint8_t)(npeers > 255 ? 255 : npeers),
    };
    uint64_t ticket = atomic_fetch_add_explicit(&next_ticket, 1, memory_order_relaxed);
    struct place *place = &ring[ticket % length];
    atomic_store_explicit(&place->ticket, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* a reader that sees new words sees ticket 0 or the new one */
    copy_note(&place->note, &note);
    atomic_store_explicit(&place->ticket, ticket + 1, memory_order_release);
}

void motet_steps_note(const struct motet_run *run, const struct motet_lane *lane, int index, size_t bytes)
{
    uint64_t now_ns = motet_now_ns();
    motet_profile_stop_step(run, lane, index, bytes, now_ns);
    if (atomic_load_explicit(&motet_steps_on, memory_order_relaxed))
        keep(run, lane, index, bytes, now_ns);
}

struct motet_step_note *motet_steps_copy(size_t *n, uint64_t *lost)
{
    uint64_t end = atomic_load(&next_ticket), begin = end > length ? end - length : 0;
    struct motet_step_note *notes = ring ? malloc((size_t)(end - begin) * sizeof *notes + 1) : NULL;
    *n = 0;
    *lost = begin;
    for (uint64_t t = begin; notes && t < end; t++) {
        struct place *place = &ring[t % length];
        if (atomic_load_explicit(&place->ticket, memory_order_acquire) != t + 1)
            continue;
        copy_note(&notes[*n], &place->note);
        atomic_thread_fence(memory_order_acquire);
        *n += atomic_load_explicit(&place->ticket, memory_order_relaxed) == t + 1;
    }
    return notes;
}
