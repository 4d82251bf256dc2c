/* SPDX-License-Identifier: Apache-2.0
 * From a query to a simulation that can run: network, operations with their schedules and tiles, what is planted.
 *
 * Ranks that do the same. If the network looks the same from every host (flat, hosts), all hosts are of one size, nothing is planted, and
 * the schedule of rank p + L is that of rank p with all peers shifted by L, then shifting all ranks by L changes nothing: ranks p, p + L,
 * p + 2L ... do the same at the same times, and one of each is simulated. Schedules are compared to know it (simulation_course.h). Where
 * two messages reach a link at the very same moment, all shifted copies decide alike here who goes first. */
#include "simulation.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/settings.h"
#include "simulation_state.h"

#define RECORDS_MOST  (UINT32_C(1) << 21) /* under way: some 500 MB */
#define MESSAGES_MOST 1e7
#define TILES_LEAST   4
#define FASTEST       1e30 /* a core for which work takes no time */
#define LINE          64   /* a chunk's place in staging is a multiple: see motet_tiling_make */

static motetResult_t refuse(const char *what, double value, const char *rule)
{
    return motet_fail(motetInvalidArgument, "Simulate: %s is %g, it must be %s", what, value, rule);
}

static motetResult_t no_memory(const struct motetSimulation *simulation)
{
    return motet_fail(motetSystemError, "Simulate: out of memory for %d ranks", simulation->nranks);
}

/* ---- Checks ---- */

static motetResult_t check_plant(const motetSimulatePlant_t *plant, int nranks)
{
    bool of_link = plant->kind == motetSimulateSlowLink || plant->kind == motetSimulateDeadLink;
    bool slow = plant->kind == motetSimulateSlowLink || plant->kind == motetSimulateSlowRank;
    if (plant->kind < motetSimulateSlowLink || plant->kind > motetSimulateDeadLink)
        return refuse("kind of a plant", plant->kind, "one of motetSimulateFault_t");
    if (of_link && !plant->link)
        return motet_fail(motetInvalidArgument, "Simulate: a plant concerns links, and its link is NULL");
    if (!of_link && (plant->rank < 0 || plant->rank >= nranks))
        return refuse("rank of a plant", plant->rank, "one of the ranks");
    if (slow && !(plant->factor >= 1e-6 && plant->factor <= 1e6))
        return refuse("factor of a plant", plant->factor, "from 1e-6 to 1e6");
    if (!slow && !(plant->atNs >= 0 && plant->atNs <= 1e15))
        return refuse("atNs of a plant", plant->atNs, "from 0 to 1e15");
    return motetSuccess;
}

static motetResult_t check_query(const motetSimulateQuery_t *query)
{
    const motetExplainQuery_t *call = &query->call;
    if (call->nranks < 1 || call->nranks > MOTET_SIMULATE_RANKS)
        return refuse("call.nranks", call->nranks, "from 1 to 1048576");
    if (call->nhosts < 0 || call->nhosts > call->nranks)
        return refuse("call.nhosts", call->nhosts, "from 0 to the number of ranks");
    if (call->scattered)
        return refuse("call.scattered", call->scattered, "0");
    if (call->network.rankGBs > 0)
        return refuse("call.network.rankGBs", call->network.rankGBs, "0: a network says which links there are");
    if (query->jitter < 0 || !(query->jitter <= 1000))
        return refuse("jitter", query->jitter, "from 0 to 1000");
    if (query->noperations < 0 || (query->noperations > 0 && !query->operations) || query->noperations > 1 << 20)
        return refuse("noperations", query->noperations, "from 0 to 1048576, with operations that are not NULL");
    if (query->nplants < 0 || (query->nplants > 0 && !query->plants))
        return refuse("nplants", query->nplants, "from 0 on, with plants that are not NULL");
    if (query->nlinks < 0 || query->nswitches < 0 || (query->nlinks > 0) != (query->links != NULL))
        return refuse("nlinks", query->nlinks, "from 0 on, and links NULL where it is 0");
    if (query->logged < 0 || query->logged > 1 << 24)
        return refuse("logged", query->logged, "from 0 to 2^24");
    if (query->bins < 0 || query->bins > 1024)
        return refuse("bins", query->bins, "from 0 to 1024");
    if (!(query->mostMessages >= 0))
        return refuse("mostMessages", query->mostMessages, "from 0 on");
    for (int i = 0; i < query->nplants; i++)
        TRY(check_plant(&query->plants[i], call->nranks));
    return motetSuccess;
}

/* ---- Operations ---- */

/* The schedules of one algorithm, made when they are first needed. */
static motetResult_t find_courses(struct motetSimulation *simulation, const struct motet_algorithm *algorithm,
                                  const struct motet_cost_load *load, int period, struct motet_courses **found)
{
    for (int c = 0; c < simulation->ncourses; c++) {
        if (simulation->courses[c]->algorithm == algorithm) {
            *found = simulation->courses[c];
            return motetSuccess;
        }
    }
    struct motet_courses **more = realloc(simulation->courses, ((size_t)simulation->ncourses + 1) * sizeof(struct motet_courses *));
    simulation->courses = more ? more : simulation->courses;
    *found = more ? calloc(1, sizeof(**found)) : NULL;
    if (!*found)
        return no_memory(simulation);
    simulation->courses[simulation->ncourses++] = *found;
    return motet_courses_make(algorithm, &simulation->scene.shape, &simulation->scene.world, load, period, *found);
}

/* Cuts the operation into tiles as the engine would. */
static void cut(const struct motetSimulation *simulation, const struct motet_cost_load *load,
                struct motet_simulation_operation *operation)
{
    const struct motet_course *course = &operation->courses->courses[0];
    int64_t nchunks = (int64_t)course->nblocks * course->parts;
    double ratio = load->wide_size > load->size ? load->wide_size / load->size : 1, tiles = 1;
    if (simulation->scene.world.lane_bytes > 0 && course->stage_chunks > 0) {
        double place = (double)((int64_t)(simulation->scene.world.lane_bytes / course->stage_chunks) / LINE * LINE);
        double most = (place < LINE ? LINE : place) / ratio * (double)nchunks;
        tiles = operation->bytes > most ? operation->bytes / most : 1;
    }
    operation->ntiles = tiles < 1e9 ? (int32_t)tiles + (tiles > (int32_t)tiles) : 1000000000;
    operation->tile_bytes = operation->bytes / operation->ntiles;
    operation->chunk_bytes = operation->tile_bytes / (double)nchunks;
}

static motetResult_t make_operation(struct motetSimulation *simulation, const motetSimulateQuery_t *query, int i, int period)
{
    struct motet_simulation_operation *operation = &simulation->operations[i];
    motetExplainQuery_t call = query->call;
    struct motet_explanation_scene scene;
    call.nhosts = query->call.nhosts ? query->call.nhosts : query->call.nranks;
    if (query->noperations > 0) {
        const motetSimulateOperation_t *asked = &query->operations[i];
        if (asked->stream < 0 || asked->stream >= MOTET_SIMULATION_STREAMS)
            return refuse("stream of an operation", asked->stream, "from 0 to 15");
        if (!(asked->computedNs >= 0 && asked->computedNs <= 1e15))
            return refuse("computedNs of an operation", asked->computedNs, "from 0 to 1e15");
        call.collective = asked->collective ? asked->collective : call.collective;
        call.bytes = asked->bytes;
        call.algo = asked->algo ? asked->algo : call.algo;
        operation->stream = asked->stream;
        operation->computed = (uint64_t)(asked->computedNs * 1e3);
    }
    TRY(motet_explanation_scene_make(&call, MOTET_SIMULATE_RANKS, NULL, &scene));
    operation->collective = scene.collective;
    operation->bytes = scene.collective == MOTET_BARRIER ? 0 : (double)call.bytes;
    operation->next = -1;
    operation->first_begin = MOTET_SIMULATION_NEVER;
    struct motet_cost_load load = scene.load;
    motetResult_t result = motet_explanation_pick(&scene, &call, &operation->algorithm);
    motet_explanation_scene_free(&scene);
    TRY(result);
    TRY(find_courses(simulation, operation->algorithm, &load, period, &operation->courses));
    cut(simulation, &load, operation);
    operation->core_bytes_per_ns = motet_cost_core_speed(&simulation->scene.world, &simulation->scene.shape, operation->bytes);
    return motetSuccess;
}

/* Each stream is a list; its tiles go round the lanes. */
static void order_operations(struct motetSimulation *simulation)
{
    int32_t last[MOTET_SIMULATION_STREAMS];
    simulation->nstreams = 1;
    for (int s = 0; s < MOTET_SIMULATION_STREAMS; s++)
        last[s] = simulation->first_of_stream[s] = -1;
    for (int i = 0; i < simulation->noperations; i++) {
        struct motet_simulation_operation *operation = &simulation->operations[i];
        int s = operation->stream;
        if (last[s] < 0)
            simulation->first_of_stream[s] = i;
        else {
            simulation->operations[last[s]].next = i;
            operation->first_lane = (simulation->operations[last[s]].first_lane + 1) % simulation->nlanes;
        }
        last[s] = i;
        simulation->nstreams = s >= simulation->nstreams ? s + 1 : simulation->nstreams;
    }
}

/* How many tiles are simulated: all, or as many as the limit allows. */
static void limit_tiles(struct motetSimulation *simulation, double most)
{
    simulation->expected = 0;
    for (int i = 0; i < simulation->noperations; i++) {
        struct motet_simulation_operation *operation = &simulation->operations[i];
        const struct motet_courses *courses = operation->courses;
        double tile = 0;
        for (int32_t p = 0; p < simulation->nsimulated; p++)
            tile += (double)courses->courses[courses->of[p % courses->period]].nsent;
        double tiles = tile > 0 ? most / tile : operation->ntiles;
        tiles = tiles < TILES_LEAST ? TILES_LEAST : tiles;
        operation->ntiles_simulated = tiles < operation->ntiles ? (int32_t)tiles & ~1 : operation->ntiles;
        operation->weight = (double)operation->ntiles / operation->ntiles_simulated * simulation->nranks / simulation->nsimulated;
        simulation->expected += tile * operation->ntiles_simulated;
    }
}

static motetResult_t make_operations(struct motetSimulation *simulation, const motetSimulateQuery_t *query)
{
    const struct motet_shape *shape = &simulation->scene.shape;
    int local = shape->nranks / shape->nhosts, period = local;
    bool planted = query->nplants > 0 || query->jitter > 0 || query->everyRank;
    if (planted || !simulation->network.row || !simulation->network.row->is_alike || shape->nranks % shape->nhosts != 0)
        period = 0;
    simulation->noperations = query->noperations > 0 ? query->noperations : 1;
    simulation->operations = calloc((size_t)simulation->noperations, sizeof(*simulation->operations));
    if (!simulation->operations)
        return no_memory(simulation);
    for (int i = 0; i < simulation->noperations; i++)
        TRY(make_operation(simulation, query, i, period));
    simulation->nsimulated = period > 0 ? period : shape->nranks;
    for (int c = 0; c < simulation->ncourses; c++) {
        if (simulation->courses[c]->period != period)
            simulation->nsimulated = shape->nranks;
    }
    order_operations(simulation);
    limit_tiles(simulation, query->mostMessages > 0 ? query->mostMessages : MESSAGES_MOST);
    return motetSuccess;
}

/* ---- Where ---- */

static motetResult_t make_place(struct motetSimulation *simulation, const motetSimulateQuery_t *query)
{
    motetExplainQuery_t call = query->call;
    call.nhosts = call.nhosts ? call.nhosts : call.nranks;
    simulation->nranks = call.nranks;
    TRY(motet_explanation_scene_make(&call, MOTET_SIMULATE_RANKS, NULL, &simulation->scene));
    simulation->scene.world.machine = &simulation->scene.machine;
    const struct motet_cost_machine *machine = &simulation->scene.machine;
    struct motet_network_request request = {
        .nranks = call.nranks,
        .nhosts = call.nhosts,
        .host_first = simulation->scene.shape.host_first,
        .latency_ns = machine->link[MOTET_LINK_NET].latency_ns,
        .bytes_per_ns = machine->link[MOTET_LINK_NET].bytes_per_ns,
        .links = query->links,
        .nlinks = query->nlinks,
        .nswitches = query->nswitches,
    };
    simulation->cores_are_free =
        machine->step_ns <= 0 && machine->core_bytes_per_ns >= FASTEST && machine->combine_bytes_per_ns >= FASTEST;
    int64_t lanes = motet_setting_int(MOTET_SET_NCHANNELS), least = motet_setting_int(MOTET_SET_MIN_NCHANNELS),
            most = motet_setting_int(MOTET_SET_MAX_NCHANNELS);
    lanes = lanes < least ? least : lanes;
    simulation->nlanes = (int32_t)(lanes > most ? most : lanes);
    simulation->link_timeout_ps = (uint64_t)motet_setting_int(MOTET_SET_LINK_TIMEOUT) * UINT64_C(1000000000);
    if (call.nhosts < call.nranks) {
        simulation->host = malloc((size_t)call.nranks * sizeof(*simulation->host));
        if (!simulation->host)
            return no_memory(simulation);
        for (int h = 0; h < call.nhosts; h++) {
            for (int p = request.host_first[h]; p < request.host_first[h + 1]; p++)
                simulation->host[p] = h;
        }
    }
    return motet_network_make(query->topology, &request, &simulation->network);
}

static motetResult_t make_links(struct motetSimulation *simulation)
{
    simulation->links = calloc((size_t)simulation->network.nlinks + 1, sizeof(*simulation->links));
    if (!simulation->links)
        return no_memory(simulation);
    for (int32_t l = 0; l < simulation->network.nlinks; l++)
        simulation->links[l] = (struct motet_simulation_link){
            .dead_at = MOTET_SIMULATION_NEVER,
            .latency_first = (uint64_t)(motet_network_latency_ns(&simulation->network, l, true) * 1e3 + 0.5),
            .latency = (uint64_t)(motet_network_latency_ns(&simulation->network, l, false) * 1e3 + 0.5),
            .ps_per_byte = 1e3 / motet_network_bytes_per_ns(&simulation->network, l),
        };
    return motetSuccess;
}

static motetResult_t make_members(struct motetSimulation *simulation)
{
    int32_t n = simulation->nsimulated;
    int64_t nlanes = (int64_t)n * simulation->nstreams * simulation->nlanes;
    simulation->nmembers = n * simulation->nstreams;
    simulation->ranks = nlanes < INT32_MAX ? calloc((size_t)n, sizeof(*simulation->ranks)) : NULL;
    simulation->members = calloc((size_t)simulation->nmembers, sizeof(*simulation->members));
    simulation->lanes = simulation->ranks ? calloc((size_t)nlanes, sizeof(*simulation->lanes)) : NULL;
    if (!simulation->ranks || !simulation->members || !simulation->lanes)
        return no_memory(simulation);
    for (int32_t r = 0; r < n; r++)
        simulation->ranks[r] =
            (struct motet_simulation_rank){.dead_at = MOTET_SIMULATION_NEVER, .told_at = MOTET_SIMULATION_NEVER, .slowness = 1};
    for (int32_t m = 0; m < simulation->nmembers; m++) {
        int32_t first = simulation->first_of_stream[m / n];
        simulation->members[m].op = first < 0 ? simulation->noperations : first;
        simulation->members[m].wakes = MOTET_SIMULATION_NEVER;
        for (int32_t lane = 0; lane < simulation->nlanes; lane++) {
            simulation->lanes[m * simulation->nlanes + lane].member = (uint32_t)m;
            simulation->lanes[m * simulation->nlanes + lane].op = -1;
        }
    }
    return motetSuccess;
}

/* ---- What is planted ---- */

static motetResult_t plant_in_links(struct motetSimulation *simulation, const motetSimulatePlant_t *plant)
{
    char name[MOTET_NETWORK_NAME];
    bool found = false;
    for (int32_t l = 0; l < simulation->network.nlinks; l++) {
        motet_network_name(&simulation->network, l, name);
        if (fnmatch(plant->link, name, 0) != 0)
            continue;
        found = true;
        if (plant->kind == motetSimulateSlowLink)
            simulation->links[l].ps_per_byte *= plant->factor;
        else
            simulation->links[l].dead_at = (uint64_t)(plant->atNs * 1e3);
    }
    motet_network_name(&simulation->network, 0, name);
    return found
               ? motetSuccess
               : motet_fail(motetInvalidArgument, "Simulate: no link is called \"%s\"; the first one is \"%s\"", plant->link, name);
}

static void kill(struct motetSimulation *simulation, int32_t rank, uint64_t at, bool silently)
{
    if (simulation->dead_rank < 0 || at < simulation->ranks[simulation->dead_rank].dead_at) {
        simulation->dead_rank = rank;
        simulation->dead_is_silent = silently;
    }
    simulation->ranks[rank].dead_at = at < simulation->ranks[rank].dead_at ? at : simulation->ranks[rank].dead_at;
    simulation->any_dead = true;
}

static motetResult_t plant(struct motetSimulation *simulation, const motetSimulatePlant_t *plant)
{
    struct motet_simulation_rank *rank = &simulation->ranks[plant->rank];
    uint64_t at = (uint64_t)(plant->atNs * 1e3);
    switch (plant->kind) {
    case motetSimulateSlowRank:
        rank->slowness *= (float)plant->factor;
        return motetSuccess;
    case motetSimulateLateRank:
        rank->late_by += at;
        return motetSuccess;
    case motetSimulateDeadRank:
        kill(simulation, plant->rank, at, false);
        return motetSuccess;
    case motetSimulateDeadHost:
        for (int32_t r = 0; r < simulation->nranks; r++) {
            if (motet_simulation_host(simulation, r) == motet_simulation_host(simulation, plant->rank))
                kill(simulation, r, at, true);
        }
        return motetSuccess;
    case motetSimulateDeadLink:
        simulation->any_dead = true;
        return plant_in_links(simulation, plant);
    default:
        return plant_in_links(simulation, plant);
    }
}

/* ---- Memory of what happens ---- */

static motetResult_t make_memory(struct motetSimulation *simulation, const motetSimulateQuery_t *query)
{
    int32_t nlinks = simulation->network.nlinks;
    simulation->log_room = query->logged;
    simulation->log = query->logged > 0 ? calloc((size_t)query->logged, sizeof(*simulation->log)) : NULL;
    simulation->nbins = query->bins;
    simulation->nrows = nlinks < MOTET_SIMULATION_ROWS ? nlinks : MOTET_SIMULATION_ROWS;
    simulation->bin_ps = 1000;
    if (query->bins > 0)
        simulation->use = calloc((size_t)simulation->nrows * (size_t)query->bins + 1, sizeof(*simulation->use));
    simulation->nrecords = 1; /* 0 is none */
    simulation->room = 1024;
    if (posix_memalign((void **)&simulation->records, 64, simulation->room * sizeof(*simulation->records)) != 0)
        simulation->records = NULL;
    simulation->most_records = RECORDS_MOST;
    if (!simulation->records || (query->logged > 0 && !simulation->log) || (query->bins > 0 && !simulation->use))
        return no_memory(simulation);
    return motetSuccess;
}

static motetResult_t prepare(struct motetSimulation *simulation, const motetSimulateQuery_t *query)
{
    simulation->dead_rank = -1;
    simulation->network_lost_at = MOTET_SIMULATION_NEVER;
    simulation->jitter = query->jitter;
    simulation->random = query->seed;
    TRY(check_query(query));
    TRY(make_place(simulation, query));
    TRY(make_operations(simulation, query));
    TRY(make_links(simulation));
    TRY(make_members(simulation));
    for (int i = 0; i < query->nplants; i++)
        TRY(plant(simulation, &query->plants[i]));
    for (int32_t r = 0; r < simulation->nsimulated; r++)
        simulation->ranks[r].news_at = motet_simulation_news(simulation, r);
    return make_memory(simulation, query);
}

static motetResult_t run(struct motetSimulation *simulation, const motetSimulateQuery_t *query)
{
    bool stopped = false;
    if (motet_simulation_run(simulation, query->progress, query->context, &stopped)) {
        motet_simulation_judge(simulation);
        return motetSuccess;
    }
    if (stopped)
        return motet_fail_quiet(motetInvalidUsage, "Simulate: progress ended it");
    if (simulation->no_way)
        return motet_fail(motetInvalidArgument, "Simulate: the network has no way between two ranks that exchange messages");
    return no_memory(simulation);
}

motetResult_t motet_simulation_make(const motetSimulateQuery_t *query, struct motetSimulation **made)
{
    struct motetSimulation *simulation = calloc(1, sizeof(*simulation));
    if (!simulation)
        return motet_fail(motetSystemError, "Simulate: out of memory");
    motetResult_t result = prepare(simulation, query);
    if (result == motetSuccess)
        result = run(simulation, query);
    if (result == motetSuccess)
        *made = simulation;
    else
        motet_simulation_free(simulation);
    return result;
}

void motet_simulation_free(struct motetSimulation *simulation)
{
    if (!simulation)
        return;
    int64_t nlanes = (int64_t)simulation->nmembers * simulation->nlanes;
    for (int64_t lane = 0; simulation->lanes && lane < nlanes; lane++)
        free(simulation->lanes[lane].gatherings);
    for (int c = 0; c < simulation->ncourses; c++) {
        motet_courses_free(simulation->courses[c]);
        free(simulation->courses[c]);
    }
    free(simulation->courses);
    free(simulation->operations);
    free(simulation->links);
    free(simulation->ranks);
    free(simulation->members);
    free(simulation->lanes);
    free(simulation->records);
    free(simulation->log);
    free(simulation->use);
    free(simulation->host);
    motet_simulation_queue_free(&simulation->queue);
    motet_network_free(&simulation->network);
    motet_explanation_scene_free(&simulation->scene);
    free(simulation);
}
