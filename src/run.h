/* SPDX-License-Identifier: Apache-2.0
 * The state of one collective in progress, shared by engine.c (tiles, lanes, life) and step.c (one step). Private to the engine. */
#ifndef MOTET_RUN_H
#define MOTET_RUN_H

#include "engine.h"
#include "tile.h"
#include "timing.h"

/* How far something has come: chunk `chunk`, element `element` of it. chunk == n: all of it. */
struct motet_cursor {
    int32_t chunk;
    size_t element;
};

struct motet_step_state {
    struct motet_cursor value; /* computed, stored and staged so far */
    uint64_t begin_ns;         /* of a trace: steps.h */
    bool begun, complete;      /* complete: and taken by all stream targets */
};

struct motet_served { /* how far a stream target has been served */
    struct motet_cursor at;
    bool opened; /* the slot's call word has been put */
};

struct motet_found {   /* one operand of the chunk at hand */
    const char *at;    /* its first element */
    bool wide, remote; /* remote: in another rank's memory, which its core's cache may still hold */
    size_t available;  /* elements that are there */
};

/* How this run executes a step's sending; the same for all tiles. */
enum motet_sending {
    MOTET_SEND_NONE,   /* nothing to send, or only stream targets that are served from where the value lies */
    MOTET_SEND_STAGED, /* readers find it in the own staging */
    MOTET_SEND_DIRECT, /* readers find it in the caller's buffers */
};

struct motet_lane {
    bool active;
    size_t tile;
    int32_t round, remaining; /* open round, incomplete steps in it */
    int32_t prefix;           /* all steps before this one are complete */
    struct motet_step_state *steps;
    struct motet_served *served; /* by index into plan->targets */
    char **planes;               /* SCRATCH and PARTIAL planes of this lane, by plane number */
};

struct motet_profile; /* profile.h */

struct motet_run {
    motetComm_t comm;
    struct motet_call *call;
    struct motet_reduction reduction;
    const struct motet_plan *plan;
    struct motet_tiling tiling;
    uint64_t seq;
    uint64_t call_word;                   /* {history32, seq32} */
    size_t inline_bytes;                  /* messages up to this fit in their slot's line; the same on all ranks */
    bool in_place, trivial;               /* trivial: nothing to move (zero elements): complete at once */
    bool has_streams, direct, any_direct; /* direct: allowed; any_direct: used */
    uint8_t *sending;                     /* enum motet_sending by step */
    struct motet_lane *lanes;
    size_t next_tile, tiles_done; /* tiles begun; tiles complete, all before included */
    uint64_t done;                /* own done word */
    int32_t told;                 /* stream writers told of it; nwriters: all */
    bool published;               /* peers must be woken */
    bool reads_direct;            /* some of what it reads lies in other ranks' buffers */
    struct motet_record *record;
    struct motet_profile *profile; /* who is told of it; NULL: nobody */
    bool noted;                    /* its steps are noted, or told */
    struct motet_timing timing;
    size_t payload;            /* bytes that the caller gave or gets */
    struct motet_found *found; /* operands of the chunk at hand; room for the plan's widest step */
    struct motet_operand *operands;
    int32_t waits_for; /* position last found missing, for describe; -1 */
};

/* Whether an incomplete step still waits for a message of the rank at `position`. */
bool motet_step_needs(struct motet_run *run, struct motet_lane *lane, int lane_index, int step, int position);

/* Advances one step of a lane as far as its operands allow. *moved is set when anything happened. Errors: mismatch found in a slot. */
motetResult_t motet_step_advance(struct motet_run *run, struct motet_lane *lane, int lane_index, int step, bool *moved);

#endif
