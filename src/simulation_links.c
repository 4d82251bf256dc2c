/* SPDX-License-Identifier: Apache-2.0
 * Messages on links. A link carries one message at a time, whole, in the order in which they reach it; one that is passed on leaves a node
 * as its first byte arrives, so the links of a way work at the same time.
 *
 * First come, first served, instead of dividing a link among all who want it (max-min fairness: SimGrid; Bertsekas, Gallager 1992): a
 * link is never idle while somebody wants it in either case, so any set of messages through one link ends at the same moment; equal
 * messages that start together end together but for the length of one. Chunks of a schedule are of one length, mostly. What it gets
 * wrong is a short message behind a long one, by at most the long one's time on the link. In exchange a message costs one reservation per
 * link instead of a new division for everybody, and the result does not depend on the order of sums. LogGOPSim (Hoefler, Schneider,
 * Lumsdaine 2010) does the same for network cards. */
#include "simulation_state.h"

#include <string.h>

/* ---- Use over time ---- */

/* Halves the number of intervals. */
static void coarsen(struct motetSimulation *simulation)
{
    int32_t n = simulation->nbins;
    for (int32_t row = 0; row < simulation->nrows; row++) {
        float *use = simulation->use + (size_t)row * (size_t)n;
        for (int32_t b = 0; b < n / 2; b++)
            use[b] = use[2 * b] + use[2 * b + 1];
        memset(use + n / 2, 0, (size_t)(n - n / 2) * sizeof(*use));
    }
    simulation->bin_ps *= 2;
}

static void note_use(struct motetSimulation *simulation, int32_t link, uint64_t begin, uint64_t end)
{
    int32_t row = (int32_t)((int64_t)link * simulation->nrows / simulation->network.nlinks);
    while (end / simulation->bin_ps >= (uint64_t)simulation->nbins)
        coarsen(simulation);
    float *use = simulation->use + (size_t)row * (size_t)simulation->nbins;
    while (begin < end) {
        uint64_t bin = begin / simulation->bin_ps, stop = (bin + 1) * simulation->bin_ps;
        stop = stop < end ? stop : end;
        use[bin] += (float)(stop - begin);
        begin = stop;
    }
}

/* ---- Ways ---- */

static int32_t endpoint_of(const struct motetSimulation *simulation, int32_t rank)
{
    const struct motet_network *network = &simulation->network;
    if (network->row && network->row->is_rank)
        return rank;
    if (!simulation->host)
        return rank * network->nics;
    int32_t host = simulation->host[rank];
    return host * network->nics + (rank - simulation->scene.shape.host_first[host]) % network->nics;
}

uint64_t motet_simulation_out_free(const struct motetSimulation *simulation, int32_t rank)
{
    /* The links out of an endpoint of a regular network begin with that of its number; of others any may be the first. */
    return simulation->network.row ? simulation->links[endpoint_of(simulation, rank)].free : 0;
}

static int32_t rank_of_sender(const struct motetSimulation *simulation, const struct motet_simulation_record *record)
{
    return (int32_t)(record->sender % (uint32_t)simulation->nsimulated);
}

static void lose(struct motetSimulation *simulation, uint32_t number)
{
    struct motet_simulation_record *record = &simulation->records[number];
    if (simulation->network_lost_at == MOTET_SIMULATION_NEVER) {
        simulation->network_lost_at = simulation->now;
        simulation->lost_from = rank_of_sender(simulation, record);
        simulation->lost_to = record->dst_rank;
    }
    motet_simulation_drop_record(simulation, number);
}

/* Takes a link from `earliest` on. */
static void cross(struct motetSimulation *simulation, struct motet_simulation_record *record, int32_t number, uint64_t earliest,
                  bool is_first)
{
    struct motet_simulation_link *link = &simulation->links[number];
    uint64_t begin = link->free > earliest ? link->free : earliest;
    uint64_t on_wire = (uint64_t)((double)record->bytes * link->ps_per_byte + 0.5);
    float piece = (float)on_wire;
    uint64_t latency = motet_simulation_vary(simulation, is_first ? link->latency_first : link->latency);
    double piece_bytes = simulation->scene.machine.piece_bytes, weight = simulation->operations[record->op].weight;
    if ((double)record->bytes > piece_bytes)
        piece = (float)(piece_bytes * link->ps_per_byte);
    link->free = begin + on_wire;
    link->busy += (double)on_wire * weight;
    link->bytes += (double)record->bytes * weight;
    if (simulation->nbins > 0)
        note_use(simulation, number, begin, link->free);
    record->piece = piece > record->piece ? piece : record->piece;
    record->tail = (record->tail > link->free ? record->tail : link->free) + latency;
    record->head = begin + latency;
    record->sent = is_first ? begin : record->sent;
    record->back += (float)latency;
    record->path.queue += (float)(begin - earliest);
    record->path.latency += (float)latency;
    float held = (float)(on_wire + begin - earliest);
    if (record->path.link == (uint32_t)number + 1)
        record->path.link_ps += held;
    else if (held > record->path.link_ps) {
        record->path.link = (uint32_t)number + 1;
        record->path.link_ps = held;
    }
}

/* From its node over the next link. */
static void step_on(struct motetSimulation *simulation, uint32_t number, bool is_first)
{
    struct motet_simulation_record *record = &simulation->records[number];
    int32_t behind, link = motet_network_next(&simulation->network, record->at,
                                              endpoint_of(simulation, rank_of_sender(simulation, record)), record->dst, &behind);
    if (link < 0) {
        simulation->no_way = true;
        motet_simulation_drop_record(simulation, number);
        return;
    }
    if (simulation->any_dead && simulation->links[link].dead_at <= record->head) {
        lose(simulation, number);
        return;
    }
    cross(simulation, record, link, record->head, is_first);
    record->at = behind;
    if (behind != record->dst) {
        motet_simulation_plan(simulation, record->head, MOTET_SIMULATION_HOP, number);
        return;
    }
    record->head += (uint64_t)record->piece;
    record->head = record->head < record->tail && !simulation->scene.machine.whole ? record->head : record->tail;
    motet_simulation_plan(simulation, record->head, MOTET_SIMULATION_READY, number);
}

void motet_simulation_hop(struct motetSimulation *simulation, uint32_t record)
{
    step_on(simulation, record, false);
}

void motet_simulation_send(struct motetSimulation *simulation, uint32_t number)
{
    struct motet_simulation_record *record = &simulation->records[number];
    int32_t n = simulation->nsimulated, from = rank_of_sender(simulation, record), to = record->dst_rank;
    const struct motet_cost_machine *machine = &simulation->scene.machine;
    record->path.messages++;
    if (motet_simulation_host(simulation, from) == motet_simulation_host(simulation, to)) {
        enum motet_link_class class = simulation->scene.world.same_process ? MOTET_LINK_THREADS : MOTET_LINK_SHARED;
        uint64_t latency = motet_simulation_vary(simulation, (uint64_t)(machine->link[class].latency_ns * 1e3));
        record->sent = record->head;
        record->head += latency;
        record->tail += latency;
        record->back = (float)latency;
        record->path.latency += (float)latency;
        if (machine->whole)
            record->head = record->tail;
        motet_simulation_plan(simulation, record->head, MOTET_SIMULATION_READY, number);
        return;
    }
    record->at = endpoint_of(simulation, from);
    record->dst = endpoint_of(simulation, to < n ? to : to % n);
    step_on(simulation, number, true);
}
