/* SPDX-License-Identifier: Apache-2.0
 * The state of one proof, shared by the three files of the verifier only: verify.c (entry, results), verify_form.c (what can be said
 * without running: well-formed steps, messages, hazards), verify_run.c (symbolic execution). Steps are numbered as in graph.h. */
#ifndef MOTET_VERIFY_PROOF_H
#define MOTET_VERIFY_PROOF_H

#include "expression.h"
#include "graph.h"
#include "verify.h"

/* A value: expression << 2 | kind. RAW: an input as it is. PARTIAL: an accumulator. FINISHED: rounded, must not be combined again. */
typedef uint32_t motet_value;
enum motet_value_kind { MOTET_VALUE_RAW, MOTET_VALUE_PARTIAL, MOTET_VALUE_FINISHED };

struct motet_proof {
    const struct motet_algorithm *algorithm;
    const struct motet_shape *shape;
    const struct motet_verify_options *options;
    struct motet_schedule *schedules;
    struct motet_verdict *verdict;
    bool out_of_memory;

    int nranks, nblocks, parts, nchunks;
    struct motet_graph graph;
    int32_t *after[2]; /* [in place]: 0, or the step waits until all steps of its position before this one are complete */

    int64_t *value_first;               /* per step, into values */
    motet_value *values, *first_values; /* of this run; of the first one */
    bool has_first_values;
    int slot[MOTET_NPLANES], nslots; /* planes in use get memory */
    motet_value *memory;
    struct motet_expressions expressions;
};

/* How one run goes. */
struct motet_verify_run {
    uint64_t seed;
    const bool *in_place; /* by position */
    bool unbuffered;      /* a send is complete only when its receivers have reached the round that takes it */
    const char *what;     /* "out of place", for texts */
};

/* Records what is wrong and returns false. position, step, chunk: -1 where there is none. step counts from the position's first. */
bool motet_proof_reject(struct motet_proof *proof, int position, int step, int chunk, const char *format, ...)
    __attribute__((format(printf, 5, 6), cold));

/* verify_form.c. False: rejected, or out of memory. */
bool motet_verify_steps(struct motet_proof *proof);
bool motet_verify_messages(struct motet_proof *proof);
bool motet_verify_hazards(struct motet_proof *proof);

/* verify_run.c: executes all schedules, leaves the final memory. False: rejected, or out of memory. */
bool motet_verify_execute(struct motet_proof *proof, const struct motet_verify_run *run);

static inline bool motet_proof_shared(const struct motet_proof *proof, int position, int chunk)
{
    return motet_chunk_is_shared_in_place(proof->algorithm->collective, proof->shape, position, chunk / proof->parts);
}

/* Index of a place within a position's memory. */
static inline int motet_proof_place(const struct motet_proof *proof, int position, int plane, int chunk, bool in_place)
{
    if (plane == MOTET_OUTPUT && in_place && motet_proof_shared(proof, position, chunk))
        plane = MOTET_INPUT;
    return proof->slot[plane] * proof->nchunks + chunk;
}

#endif
