/* SPDX-License-Identifier: Apache-2.0
 * Steps of a trace: while MOTET_TRACE is set, each step that moves data in this process is noted with its times, in a ring of
 * MOTET_TRACE_STEPS entries for all communicators; profilers hear of the same steps (profile.h). Off, it costs one load of a flag per step. */
#ifndef MOTET_STEPS_H
#define MOTET_STEPS_H

#include "clock.h"
#include "run.h"

struct motet_step_note {
    uint64_t comm_id, seq; /* the collective */
    uint64_t begin_ns, end_ns, bytes;
    int32_t rank, peer; /* peer: rank of the first source, else of the first target; -1: it is local */
    uint32_t tile;
    int16_t round, step;
    uint8_t npeers, reserved[7];
};

extern _Atomic(_Bool) motet_steps_on;

/* Begins to note, once per process. False: no memory. */
bool motet_steps_start(size_t capacity);

/* Whether somebody wants the steps of a run that begins now: a trace, its profiler, or a tool at the probes. */
bool motet_steps_wanted(const struct motet_run *run);

void motet_steps_start_note(const struct motet_run *run, struct motet_lane *lane, int step);

static inline void motet_steps_begin(const struct motet_run *run, struct motet_lane *lane, int step)
{
    if (__builtin_expect(run->noted, 0))
        motet_steps_start_note(run, lane, step);
}

/* The step is complete; `bytes` of value. */
void motet_steps_note(const struct motet_run *run, const struct motet_lane *lane, int step, size_t bytes);

/* A copy of what is remembered, oldest first; malloced. *lost: notes that were overwritten. */
struct motet_step_note *motet_steps_copy(size_t *n, uint64_t *lost);

#endif
