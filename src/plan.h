/* SPDX-License-Identifier: Apache-2.0
 * A schedule made ready to run at one position: message numbers resolved against the peers' schedules (built here too, they are pure
 * functions), hazards worked out, facts of each step stored. Independent of counts, datatypes and buffers; cached per communicator. */
#ifndef MOTET_PLAN_H
#define MOTET_PLAN_H

#include "coll/coll.h"
#include "motet.h"

/* Where a peer's message is found: slot `slot` of its lane, its chunk i at staging chunk stage_at + i. */
struct motet_plan_source {
    int32_t peer, slot, stage_at;
};

struct motet_plan_step {
    struct motet_span dst_at, src_at;
    int32_t n;
    int32_t round;
    int32_t first_source, nsources; /* in plan->sources, in operand order */
    int32_t local_at;               /* how many sources stand before the local planes in operand order */
    int32_t first_target, ntargets; /* in plan->targets */
    int32_t slot, stage_at;         /* own message, if ntargets > 0; else -1 */
    int32_t after[2]; /* [in place]: steps of this round before this index must be complete before this one writes dst */
    uint8_t dst, src, nsrc;
    bool arrives_wide, finishes, sends_wide;
    bool direct_ok[2]; /* [in place]: readers may read the data where it lies in the caller's buffers until the operation ends */
};

struct motet_moved;

struct motet_plan {
    const struct motet_algorithm *algorithm;
    int root, position, nranks;
    int32_t nblocks, parts, nchunks, stage_chunks;
    int32_t nsteps, nrounds;
    struct motet_plan_step *steps;
    int32_t *round_first;              /* nrounds + 1 entries */
    struct motet_plan_source *sources; /* all sources of all steps */
    int32_t *targets;                  /* all targets of all steps: positions */
    int32_t *readers;                  /* positions that read from this one, each once */
    int32_t nreaders;
    int32_t *writers; /* positions that this one reads from, each once */
    int32_t nwriters;
    uint32_t planes;           /* bit per plane used */
    uint8_t transports;        /* bits of enum motet_record_transport that its messages take; set by whoever knows the peers */
    struct motet_moved *moved; /* counts the bytes of its messages; set by the same */
};

/* Builds the plan of shape->position. nslots: limit on messages per rank. */
motetResult_t motet_plan_build(const struct motet_algorithm *algorithm, const struct motet_shape *shape, int nslots,
                               struct motet_plan **plan);
void motet_plan_free(struct motet_plan *plan);

/* Memory that a plan takes. */
size_t motet_plan_bytes(const struct motet_plan *plan);

#endif
