/* SPDX-License-Identifier: Apache-2.0
 * Numbers steps and matches messages: the i-th send of a that includes b meets the i-th receive of b from a. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* Messages by ordered pair of positions, each pair's in the order of the sender's list. */
struct matching {
    int32_t *starts;  /* nranks^2 + 1: of a pair, into by_pair */
    int32_t *next;    /* nranks^2: first message of a pair that no receive has met */
    int32_t *by_pair; /* messages */
    int32_t *sender;  /* of a message: its step */
};

static size_t pair_of(const struct motet_graph *graph, int from, int to)
{
    return (size_t)from * (size_t)graph->nranks + (size_t)to;
}

/* Numbers what leaves, step by step, and sorts it by pair. */
static void number_sends(struct motet_graph *graph, struct matching *matching)
{
    size_t npairs = pair_of(graph, graph->nranks, 0);
    for (int pass = 0; pass < 2; pass++) {
        for (int g = 0, m = 0; g < graph->nsteps; g++) {
            int p = graph->position[g];
            const struct motet_step *step = motet_graph_step(graph, g);
            for (int i = 0; i < graph->out_first[g + 1] - graph->out_first[g]; i++, m++) {
                size_t pair = pair_of(graph, p, motet_peers_at(step->to, i, p, graph->nranks));
                matching->sender[m] = g;
                if (pass == 0)
                    matching->starts[pair + 1]++;
                else
                    matching->by_pair[matching->next[pair]++] = m;
            }
        }
        for (size_t pair = 0; pass == 0 && pair < npairs; pair++)
            matching->starts[pair + 1] += matching->starts[pair];
        memcpy(matching->next, matching->starts, npairs * sizeof(*matching->next));
    }
}

static bool report_unmatched(struct motet_graph *graph, int g, int peer, bool receive)
{
    graph->unmatched_step = g;
    graph->unmatched_peer = peer;
    graph->unmatched_receive = receive;
    return false;
}

/* Finds the senders of step g and lists them by position. */
static bool match_receives(struct motet_graph *graph, int g, struct matching *matching)
{
    int p = graph->position[g];
    const struct motet_step *step = motet_graph_step(graph, g);
    int32_t *in = graph->in + graph->in_first[g];
    for (int i = 0; i < graph->in_first[g + 1] - graph->in_first[g]; i++) {
        int peer = motet_peers_at(step->from, i, p, graph->nranks), at = i;
        size_t pair = pair_of(graph, peer, p);
        if (matching->next[pair] == matching->starts[pair + 1])
            return report_unmatched(graph, g, peer, true);
        int m = matching->by_pair[matching->next[pair]++];
        graph->out[m] = g;
        for (; at > 0 && graph->position[in[at - 1]] > peer; at--)
            in[at] = in[at - 1];
        in[at] = matching->sender[m];
        graph->local_at[g] += peer < p;
    }
    return true;
}

static bool match_all(struct motet_graph *graph, struct matching *matching)
{
    number_sends(graph, matching);
    for (int g = 0; g < graph->nsteps; g++) {
        if (!match_receives(graph, g, matching))
            return false;
    }
    for (int p = 0; p < graph->nranks; p++) {
        for (int to = 0; to < graph->nranks; to++) {
            size_t pair = pair_of(graph, p, to);
            if (matching->next[pair] != matching->starts[pair + 1])
                return report_unmatched(graph, matching->sender[matching->by_pair[matching->next[pair]]], to, false);
        }
    }
    return true;
}

static void number_steps(struct motet_graph *graph)
{
    int g = 0, nin = 0, nout = 0;
    for (int p = 0; p < graph->nranks; p++) {
        const struct motet_schedule *schedule = &graph->schedules[p];
        graph->first_step[p] = g;
        for (int s = 0, round_start = g; s < schedule->nsteps; s++, g++) {
            const struct motet_step *step = &schedule->steps[s];
            bool ends_round = (step->flags & MOTET_ENDS_ROUND) || s == schedule->nsteps - 1;
            graph->position[g] = p;
            graph->in_first[g] = nin;
            graph->out_first[g] = nout;
            nin += motet_peers_count(step->from, p, graph->nranks);
            nout += motet_peers_count(step->to, p, graph->nranks);
            for (; ends_round && round_start <= g; round_start++)
                graph->round_end[round_start] = g + 1;
        }
    }
    graph->first_step[graph->nranks] = g;
    graph->in_first[g] = nin;
    graph->out_first[g] = nout;
    graph->nmessages = nout;
}

static bool allocate_steps(struct motet_graph *graph)
{
    size_t n = (size_t)graph->nsteps + 1;
    int32_t *memory = calloc((size_t)graph->nranks + 1 + 5 * n, sizeof(int32_t));
    graph->first_step = memory;
    if (!memory)
        return false;
    graph->position = memory + graph->nranks + 1;
    graph->round_end = graph->position + n;
    graph->out_first = graph->round_end + n;
    graph->in_first = graph->out_first + n;
    graph->local_at = graph->in_first + n;
    return true;
}

bool motet_graph_build(struct motet_graph *graph, const struct motet_schedule *schedules, int nranks)
{
    *graph = (struct motet_graph){.schedules = schedules, .nranks = nranks, .unmatched_step = -1, .unmatched_peer = -1};
    for (int p = 0; p < nranks; p++)
        graph->nsteps += schedules[p].nsteps;
    if (!allocate_steps(graph))
        return false;
    number_steps(graph);
    size_t npairs = pair_of(graph, nranks, 0), nmessages = (size_t)graph->nmessages + 1;
    int32_t *numbers = calloc(2 * npairs + 1 + 2 * nmessages, sizeof(*numbers));
    graph->out = calloc(nmessages, sizeof(int32_t));
    graph->in = calloc((size_t)graph->in_first[graph->nsteps] + 1, sizeof(int32_t));
    bool ok = numbers && graph->out && graph->in;
    if (ok) {
        struct matching matching = {.starts = numbers, .next = numbers + npairs + 1};
        matching.by_pair = matching.next + npairs;
        matching.sender = matching.by_pair + nmessages;
        ok = match_all(graph, &matching);
    }
    free(numbers);
    return ok;
}

void motet_graph_free(struct motet_graph *graph)
{
    free(graph->first_step);
    free(graph->out);
    free(graph->in);
    *graph = (struct motet_graph){0};
}
