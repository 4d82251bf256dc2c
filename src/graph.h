/* SPDX-License-Identifier: Apache-2.0
 * The schedules of all positions as one graph: steps numbered through, every send matched with its receive. What the verifier proves and
 * the cost model times. Says who waits for whom, not what is moved. */
#ifndef MOTET_GRAPH_H
#define MOTET_GRAPH_H

#include "schedule.h"

struct motet_graph {
    const struct motet_schedule *schedules; /* by position, expanded; not owned */
    int nranks, nsteps, nmessages;          /* a message to two peers counts twice */
    int32_t *first_step;                    /* nranks + 1: steps of position p are first_step[p] .. first_step[p + 1] - 1 */
    int32_t *position;                      /* of a step */
    int32_t *round_end;                     /* of a step: one past the last step of its round */
    int32_t *out_first, *out;               /* per step its messages, out[]: the step that receives */
    int32_t *in_first, *in;                 /* per step its messages in position order of senders, in[]: the step that sends */
    int32_t *local_at;                      /* of a step: senders that stand before the own position */
    int unmatched_step, unmatched_peer;     /* after a failure: a message that has one end only; -1 when memory ran out */
    bool unmatched_receive;                 /* that end */
};

/* False: a message has one end only (unmatched_step >= 0), or memory ran out. The graph must be freed in each case. */
bool motet_graph_build(struct motet_graph *graph, const struct motet_schedule *schedules, int nranks);
void motet_graph_free(struct motet_graph *graph);

static inline const struct motet_step *motet_graph_step(const struct motet_graph *graph, int g)
{
    int p = graph->position[g];
    return &graph->schedules[p].steps[g - graph->first_step[p]];
}

#endif
