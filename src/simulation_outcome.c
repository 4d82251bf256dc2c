/* SPDX-License-Identifier: Apache-2.0
 * What came of a simulation: who was done when, what the others would report, links, and the chain that ended last.
 *
 * Deaths. A process that dies closes its connections: its peers hear one latency later, and say it to all. A host without power, or a link
 * that loses what enters it, is silent, and is noticed after MOTET_LINK_TIMEOUT. A rank that still computes hears at its next call. */
#include "simulation.h"

#include <stdio.h>
#include <string.h>

#include "simulation_state.h"

static const struct motet_simulation_member *member_of(const struct motetSimulation *simulation, int32_t rank, int32_t stream)
{
    return &simulation->members[stream * simulation->nsimulated + rank % simulation->nsimulated];
}

/* The operation that a rank did not end, of any stream; -1: it ended all. */
static int32_t unfinished(const struct motetSimulation *simulation, int32_t rank)
{
    for (int32_t s = 0; s < simulation->nstreams; s++) {
        int32_t op = member_of(simulation, rank, s)->op;
        if (op < simulation->noperations)
            return op;
    }
    return -1;
}

static uint64_t done_at(const struct motetSimulation *simulation, int32_t rank)
{
    uint64_t done = 0;
    for (int32_t s = 0; s < simulation->nstreams; s++) {
        uint64_t at = member_of(simulation, rank, s)->done_at;
        done = at > done ? at : done;
    }
    return done;
}

uint64_t motet_simulation_news(const struct motetSimulation *simulation, int32_t rank)
{
    uint64_t news = MOTET_SIMULATION_NEVER;
    const struct motet_cost_machine *machine = &simulation->scene.machine;
    if (simulation->network_lost_at != MOTET_SIMULATION_NEVER)
        news = simulation->network_lost_at + simulation->link_timeout_ps;
    if (simulation->dead_rank < 0)
        return news;
    bool same_host = motet_simulation_host(simulation, rank) == motet_simulation_host(simulation, simulation->dead_rank);
    enum motet_link_class class = same_host ? MOTET_LINK_SHARED : MOTET_LINK_NET;
    uint64_t after = simulation->dead_is_silent ? simulation->link_timeout_ps : (uint64_t)(machine->link[class].latency_ns * 1e3);
    uint64_t told = simulation->ranks[simulation->dead_rank].dead_at + after;
    return told < news ? told : news;
}

static void judge_rank(struct motetSimulation *simulation, int32_t r)
{
    struct motet_simulation_rank *rank = &simulation->ranks[r];
    int32_t op = unfinished(simulation, r);
    uint64_t news;
    if (op < 0 || rank->dead_at <= simulation->now || (news = motet_simulation_news(simulation, r)) == MOTET_SIMULATION_NEVER)
        return;
    const struct motet_simulation_operation *operation = &simulation->operations[op];
    uint64_t calls = (uint64_t)((double)operation->computed * (double)rank->slowness) + rank->late_by;
    rank->told_at = news > calls ? news : calls;
}

static int32_t failed_ranks(const struct motetSimulation *simulation)
{
    int32_t failed = 0;
    for (int32_t r = 0; r < simulation->nsimulated; r++)
        failed += unfinished(simulation, r) >= 0;
    return failed;
}

static double memory_of(const struct motetSimulation *simulation)
{
    double lanes = (double)simulation->nmembers * simulation->nlanes;
    double bytes = lanes * sizeof(struct motet_simulation_lane) + (double)simulation->room * sizeof(struct motet_simulation_record);
    bytes += (double)simulation->nmembers * sizeof(struct motet_simulation_member) +
             (double)simulation->network.nlinks * sizeof(struct motet_simulation_link);
    for (int64_t lane = 0; lane < (int64_t)lanes; lane++)
        bytes += (double)simulation->lanes[lane].ngatherings * sizeof(struct motet_simulation_gathering);
    for (int b = 0; b < 65; b++)
        bytes += (double)simulation->queue.buckets[b].room * sizeof(struct motet_simulation_event);
    for (int c = 0; c < simulation->ncourses; c++) {
        const struct motet_courses *courses = simulation->courses[c];
        for (int32_t k = 0; k < courses->ncourses; k++) {
            const struct motet_course *course = &courses->courses[k];
            bytes += (double)course->nentries * (sizeof(struct motet_course_entry) + sizeof(struct motet_step)) +
                     (double)course->nreceives * sizeof(struct motet_course_receive) + (double)course->nsenders * 8;
        }
    }
    return bytes;
}

void motet_simulation_judge(struct motetSimulation *simulation)
{
    uint64_t last = 0;
    if (simulation->dead_rank >= 0 && simulation->ranks[simulation->dead_rank].dead_at > simulation->now)
        simulation->now = simulation->ranks[simulation->dead_rank].dead_at;
    for (int32_t r = 0; r < simulation->nsimulated; r++) {
        judge_rank(simulation, r);
        uint64_t end =
            simulation->ranks[r].told_at != MOTET_SIMULATION_NEVER ? simulation->ranks[r].told_at : done_at(simulation, r);
        if (r > 0 && end <= last)
            continue;
        last = end;
        simulation->last_rank = r;
    }
    simulation->now = last;
    simulation->failed_ranks = failed_ranks(simulation);
    simulation->memory = memory_of(simulation);
}

/* ---- What can be asked ---- */

void motet_simulation_result(const struct motetSimulation *simulation, motetSimulateResult_t *result)
{
    int32_t compared = 0;
    for (int c = 0; c < simulation->ncourses; c++) {
        if (c == 0 || simulation->courses[c]->compared < compared)
            compared = simulation->courses[c]->compared;
    }
    *result = (motetSimulateResult_t){
        .timeNs = (double)simulation->now * 1e-3,
        .messages = simulation->weighted_messages,
        .simulated = simulation->nmessages,
        .bytes = simulation->weighted_bytes,
        .memory = simulation->memory,
        .operations = simulation->noperations,
        .ranks = simulation->nranks,
        .links = simulation->network.nlinks,
        .ranksSimulated = simulation->nsimulated,
        .ranksCompared = simulation->nsimulated < simulation->nranks ? compared : simulation->nranks,
        .lastRank = simulation->last_rank,
        .failedRanks = simulation->failed_ranks,
        .logged = simulation->nlog,
        .rows = simulation->nbins > 0 ? simulation->nrows : 0,
        .bins = simulation->nbins > 0 ? (int)(simulation->now / simulation->bin_ps) + 1 : 0,
        .binNs = (double)simulation->bin_ps * 1e-3,
    };
    result->bins = result->bins > simulation->nbins ? simulation->nbins : result->bins;
}

void motet_simulation_operation(const struct motetSimulation *simulation, int index, motetSimulateOperationResult_t *result)
{
    const struct motet_simulation_operation *operation = &simulation->operations[index];
    double begin = operation->first_begin == MOTET_SIMULATION_NEVER ? -1 : (double)operation->first_begin * 1e-3;
    double end = operation->ranks_done > 0 ? (double)operation->last_end * 1e-3 : -1;
    *result = (motetSimulateOperationResult_t){
        .collective = motet_collective_name(operation->collective),
        .algorithm = operation->algorithm->name,
        .bytes = operation->bytes,
        .beginNs = begin,
        .endNs = end,
        .algGBs = end > begin ? operation->bytes / (end - begin) : 0,
        .tiles = operation->ntiles,
        .tilesSimulated = operation->ntiles_simulated,
        .tileBytes = operation->tile_bytes,
    };
}

void motet_simulation_rank(const struct motetSimulation *simulation, int index, motetSimulateRank_t *result)
{
    const struct motet_simulation_rank *rank = &simulation->ranks[index % simulation->nsimulated];
    int32_t op = unfinished(simulation, index), gone = simulation->dead_rank;
    bool silent = simulation->dead_is_silent;
    *result = (motetSimulateRank_t){.doneNs = -1, .toldNs = -1, .operation = op < 0 ? simulation->noperations - 1 : op};
    if (op < 0) {
        result->doneNs = (double)done_at(simulation, index) * 1e-3;
        return;
    }
    result->dead = rank->told_at == MOTET_SIMULATION_NEVER && rank->dead_at != MOTET_SIMULATION_NEVER;
    if (rank->told_at == MOTET_SIMULATION_NEVER)
        return;
    if (gone < 0 || simulation->network_lost_at + simulation->link_timeout_ps < simulation->ranks[gone].dead_at) {
        gone = index == simulation->lost_to ? simulation->lost_from : simulation->lost_to;
        silent = true;
    }
    result->toldNs = (double)rank->told_at * 1e-3;
    snprintf(result->report, sizeof(result->report), "rank %d (on host %d) is gone: %s", gone,
             motet_simulation_host(simulation, gone), silent ? "silent for too long: host or network down" : "killed");
}

void motet_simulation_link(const struct motetSimulation *simulation, int index, motetSimulateLinkUse_t *use)
{
    const struct motet_simulation_link *link = &simulation->links[index];
    double alike = (double)simulation->nranks / simulation->nsimulated; /* the weights of messages count all of these */
    *use =
        (motetSimulateLinkUse_t){.GBs = 1e3 / link->ps_per_byte, .bytes = link->bytes / alike, .busyNs = link->busy / alike * 1e-3};
    motet_network_name(&simulation->network, index, use->name);
}

void motet_simulation_path(const struct motetSimulation *simulation, motetSimulatePath_t *path)
{
    const struct motet_simulation_member *last = NULL;
    for (int32_t s = 0; s < simulation->nstreams; s++) {
        const struct motet_simulation_member *member = member_of(simulation, simulation->last_rank, s);
        last = !last || member->done_at > last->done_at ? member : last;
    }
    const struct motet_simulation_path *along = &last->path;
    double start = (double)along->start, end = (double)last->done_at;
    double ran = end - (double)last->continued - start, stretch = ran > 0 ? (end - start) / ran : 1;
    *path = (motetSimulatePath_t){
        .timeNs = end * 1e-3,
        .queueNs = (double)along->queue * stretch * 1e-3,
        .latencyNs = (double)along->latency * stretch * 1e-3,
        .coreNs = (double)along->core * stretch * 1e-3,
        .computeNs = start * 1e-3,
        .messages = along->messages * stretch,
        .firstRank = (int)along->origin,
        .lastRank = simulation->last_rank,
        .slowestRank = along->rank ? (int)along->rank - 1 : -1,
        .slowestNs = (double)along->rank_ps * stretch * 1e-3,
        .linkNs = (double)along->link_ps * stretch * 1e-3,
    };
    path->wireNs = path->timeNs - path->queueNs - path->latencyNs - path->coreNs - path->computeNs;
    path->wireNs = path->wireNs > 0 ? path->wireNs : 0;
    if (along->link)
        motet_network_name(&simulation->network, (int32_t)along->link - 1, path->link);
}

void motet_simulation_message(const struct motetSimulation *simulation, int message, motetSimulateMessage_t *result)
{
    *result = simulation->log[message];
}

void motet_simulation_use(const struct motetSimulation *simulation, int row, int bin, double *share, int *link)
{
    int64_t n = simulation->network.nlinks, rows = simulation->nrows;
    int32_t first = (int32_t)((row * n + rows - 1) / rows), end = (int32_t)(((row + 1) * n + rows - 1) / rows);
    double links = end - first;
    *link = first;
    *share = links > 0 ? (double)simulation->use[(size_t)row * (size_t)simulation->nbins + (size_t)bin] /
                             ((double)simulation->bin_ps * links)
                       : 0;
}
