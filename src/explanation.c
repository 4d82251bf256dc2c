/* SPDX-License-Identifier: Apache-2.0 */
#include "explanation.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/machine.h"
#include "base/settings.h"
#include "reduce/reduce.h"
#include "speeds.h"
#include "tuning.h"

#define NOTHING 1e30 /* a speed at which work takes no time */

/* ---- The scene ---- */

/* Whether two names are the same but for case, '_', '-' and spaces. */
static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '_' || *a == '-' || *a == ' ')
            a++;
        while (*b == '_' || *b == '-' || *b == ' ')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

static motetResult_t find_collective(const char *name, enum motet_collective *collective)
{
    char names[256] = "";
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        const char *known = motet_collective_name((enum motet_collective)c);
        if (name && same_name(name, known)) {
            *collective = (enum motet_collective)c;
            return motetSuccess;
        }
        strncat(names, c ? ", " : "", sizeof(names) - strlen(names) - 1);
        strncat(names, known, sizeof(names) - strlen(names) - 1);
    }
    return motet_fail(motetInvalidArgument, "Explain: there is no collective \"%s\"; there are %s", name ? name : "(null)", names);
}

static motetResult_t check_number(const char *what, int value, int low, int high)
{
    if (value >= low && value <= high)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "Explain: %s is %d, it must be in [%d, %d]", what, value, low, high);
}

static motetResult_t check_speed(const char *what, double value)
{
    if (value >= 0 && value <= 1e9)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "Explain: network.%s is %g, it must be in [0, 1e9]", what, value);
}

static motetResult_t check_query(const motetExplainQuery_t *query, int most_ranks)
{
    TRY(check_number("nranks", query->nranks, 1, most_ranks));
    TRY(check_number("nhosts", query->nhosts, 1, query->nranks));
    TRY(check_number("root", query->root, 0, query->nranks - 1));
    TRY(check_number("coresPerHost", query->coresPerHost, 0, 1 << 20));
    TRY(check_speed("latencyUs", query->network.latencyUs));
    TRY(check_speed("hostGBs", query->network.hostGBs));
    TRY(check_speed("rankGBs", query->network.rankGBs));
    TRY(check_speed("localLatencyUs", query->network.localLatencyUs));
    TRY(check_speed("coreGBs", query->network.coreGBs));
    return check_speed("combineGBs", query->network.combineGBs);
}

static void fill_machine(const motetExplainQuery_t *query, struct motet_cost_machine *machine)
{
    const motetExplainNetwork_t *network = &query->network;
    struct motet_speeds speeds = {0};
    if (query->here)
        motet_speeds_get(&speeds);
    motet_cost_machine_measured(&speeds, machine);
    for (int class = 0; class < MOTET_NLINK_CLASSES; class ++) {
        machine->link[class].rank_bytes_per_ns = network->rankGBs;
        if (network->ideal)
            machine->link[class].message_ns = 0;
        if (class != MOTET_LINK_NET && (network->ideal || network->localLatencyUs > 0))
            machine->link[class].latency_ns = network->localLatencyUs * 1e3;
    }
    if (network->latencyUs > 0) { /* what is said is of all that a message takes */
        machine->link[MOTET_LINK_NET].latency_ns = network->latencyUs * 1e3;
        machine->net_second_ns = 0;
    }
    if (network->hostGBs > 0)
        machine->link[MOTET_LINK_NET].bytes_per_ns = network->hostGBs;
    if (network->ideal) {
        machine->call_ns = machine->short_call_ns = machine->step_ns = machine->switch_ns = 0;
        machine->net_second_ns = machine->net_byte_ns = 0;
        motet_cost_machine_core(machine, NOTHING);
        machine->fetch_bytes_per_ns = machine->exchange_bytes_per_ns = machine->combine_bytes_per_ns = NOTHING;
        machine->fetch_start_ns = machine->exchange_start_ns = machine->exchange_ns = machine->combine_start_ns = 0;
    }
    if (network->coreGBs > 0)
        motet_cost_machine_core(machine, network->coreGBs);
    if (network->combineGBs > 0)
        machine->combine_bytes_per_ns = network->combineGBs;
    machine->whole = network->whole != 0;
}

/* The first hosts have one rank more. Dealt out, rank r is on host r mod nhosts, and the shape knows one host only. */
static motetResult_t fill_shape(const motetExplainQuery_t *query, struct motet_explanation_scene *scene)
{
    int nhosts = query->scattered ? 1 : query->nhosts, n = query->nranks;
    int *host_first = calloc((size_t)nhosts + 1, sizeof(*host_first));
    scene->shape = (struct motet_shape){.nranks = n, .root = query->root, .nhosts = nhosts, .host_first = host_first};
    scene->network_hosts = query->nhosts;
    scene->network_host = query->scattered ? calloc((size_t)n, sizeof(*scene->network_host)) : NULL;
    if (!host_first || (query->scattered && !scene->network_host))
        return motet_fail(motetSystemError, "out of memory for an explanation of %d ranks", n);
    for (int h = 0; h < nhosts; h++)
        host_first[h + 1] = host_first[h] + n / nhosts + (h < n % nhosts);
    for (int p = 0; query->scattered && p < n; p++)
        scene->network_host[p] = p % query->nhosts;
    return motetSuccess;
}

static motetResult_t fill_load(const motetExplainQuery_t *query, struct motet_explanation_scene *scene)
{
    scene->load = (struct motet_cost_load){.bytes = (double)query->bytes, .size = 1, .wide_size = 1};
    if (!motet_dtype_row(query->datatype))
        return motet_fail(motetInvalidArgument, "Explain: %d is not a datatype", (int)query->datatype);
    if (!motet_collective_reduces(scene->collective))
        return motetSuccess;
    struct motet_reduction reduction;
    TRY(motet_reduction_init(&reduction, query->datatype, query->op, query->nranks));
    scene->load.size = (double)reduction.size;
    scene->load.wide_size = (double)reduction.wide_size;
    return motetSuccess;
}

/* As a communicator is. */
static motetResult_t fill_real(const motetExplainQuery_t *query, const struct motet_tune_world *real,
                               struct motet_explanation_scene *scene)
{
    int *host_first = calloc((size_t)real->nhosts + 1, sizeof(*host_first));
    scene->shape =
        (struct motet_shape){.nranks = real->nranks, .root = query->root, .nhosts = real->nhosts, .host_first = host_first};
    scene->network_hosts = real->nhosts;
    if (!host_first)
        return motet_fail(motetSystemError, "out of memory for an explanation of %d ranks", real->nranks);
    memcpy(host_first, real->host_first, ((size_t)real->nhosts + 1) * sizeof(*host_first));
    scene->machine = real->machine ? *real->machine : motet_cost_default;
    scene->world = (struct motet_cost_world){
        .machine = &scene->machine,
        .ncpus = real->ncpus,
        .local_ranks = real->local_ranks,
        .same_process = real->same_process,
        .lane_bytes = (double)real->lane_bytes,
    };
    return motetSuccess;
}

static motetResult_t fill_imagined(const motetExplainQuery_t *query, struct motet_explanation_scene *scene)
{
    size_t tile = query->tileBytes ? query->tileBytes : (size_t)motet_setting_int(MOTET_SET_BUFFSIZE);
    TRY(fill_shape(query, scene));
    fill_machine(query, &scene->machine);
    scene->world = (struct motet_cost_world){
        .machine = &scene->machine,
        .ncpus = query->coresPerHost,
        .local_ranks = (query->nranks + query->nhosts - 1) / query->nhosts,
        .same_process = query->threads != 0,
        .lane_bytes = tile == SIZE_MAX ? 0 : (double)tile,
        .host = scene->network_host,
    };
    return motetSuccess;
}

motetResult_t motet_explanation_scene_make(const motetExplainQuery_t *query, int most_ranks, const struct motet_tune_world *real,
                                           struct motet_explanation_scene *scene)
{
    *scene = (struct motet_explanation_scene){0};
    TRY(motet_settings_load());
    motetExplainQuery_t checked = *query;
    if (real) {
        checked.nranks = real->nranks < most_ranks ? real->nranks : most_ranks;
        checked.nhosts = 1;
    }
    TRY(check_query(&checked, most_ranks));
    TRY(find_collective(query->collective, &scene->collective));
    TRY(fill_load(query, scene));
    motetResult_t result = real ? fill_real(query, real, scene) : fill_imagined(query, scene);
    if (result != motetSuccess)
        motet_explanation_scene_free(scene);
    return result;
}

void motet_explanation_scene_free(struct motet_explanation_scene *scene)
{
    free((void *)scene->shape.host_first);
    free(scene->network_host);
    scene->shape.host_first = NULL;
    scene->network_host = NULL;
}

/* ---- The choice ---- */

static size_t whole_bytes(double bytes)
{
    return bytes < 1 ? 0 : (size_t)bytes;
}

static struct motet_tune_request request_for(const struct motet_explanation_scene *scene, motetDataType_t dtype, motetRedOp_t op,
                                             double bytes)
{
    return (struct motet_tune_request){
        .collective = scene->collective,
        .dtype = dtype,
        .op = op,
        .bytes = scene->collective == MOTET_BARRIER ? 0 : whole_bytes(bytes),
        .root = scene->shape.root,
    };
}

static struct motet_tune_request request_of(const struct motetExplanation *explanation, double bytes)
{
    return request_for(&explanation->scene, explanation->dtype, explanation->op, bytes);
}

static int index_of(const struct motetExplanation *explanation, const struct motet_algorithm *algorithm)
{
    int i = 0;
    while (explanation->candidates[i].algorithm != algorithm)
        i++;
    return i;
}

motetResult_t motet_explanation_choose(struct motetExplanation *explanation, double bytes, int *index)
{
    struct motet_tune_request request = request_of(explanation, bytes);
    const struct motet_algorithm *algorithm;
    TRY(motet_tune_choose(explanation->tuner, &request, &algorithm));
    *index = index_of(explanation, algorithm);
    return motetSuccess;
}

/* Classes of sizes begin at 2^k and 1.5 * 2^k. */
#define EDGES 61

static size_t edge_bytes(int edge)
{
    size_t power = (size_t)1 << edge / 2;
    return edge % 2 ? power + (power + 1) / 2 : power;
}

/* Which edges to look at now, given what is known (-1: nothing): at first every fourth, then the middles between different choices. */
static int next_edges(const int *chosen, int *edges)
{
    int n = 0, left = 0;
    for (int edge = 0; chosen[0] < 0 && edge < EDGES; edge += 4)
        edges[n++] = edge;
    for (int edge = 1; chosen[0] >= 0 && edge < EDGES; edge++) {
        if (chosen[edge] < 0)
            continue;
        if (chosen[edge] != chosen[left] && edge - left > 1)
            edges[n++] = left + (edge - left) / 2;
        left = edge;
    }
    return n;
}

motetResult_t motet_explanation_ranges(struct motetExplanation *explanation, motetExplainRange_t *ranges, int room, int *n)
{
    struct motet_tune_request request = request_of(explanation, 0);
    const struct motet_algorithm *choices[EDGES];
    int chosen[EDGES], edges[EDGES], last = -1;
    size_t bytes[EDGES];
    memset(chosen, -1, sizeof(chosen));
    for (int some; (some = next_edges(chosen, edges)) > 0;) {
        for (int k = 0; k < some; k++)
            bytes[k] = explanation->scene.collective == MOTET_BARRIER ? 0 : edge_bytes(edges[k]);
        TRY(motet_tune_choose_sizes(explanation->tuner, &request, bytes, some, choices));
        for (int k = 0; k < some; k++)
            chosen[edges[k]] = index_of(explanation, choices[k]);
    }
    *n = 0;
    for (int edge = 0; edge < EDGES; edge++) {
        if (chosen[edge] < 0 || chosen[edge] == last)
            continue;
        last = chosen[edge];
        if (*n < room)
            ranges[*n] = (motetExplainRange_t){.fromBytes = (double)edge_bytes(edge), .candidate = last};
        ++*n;
    }
    return motetSuccess;
}

static motetResult_t make_tuner(const struct motet_explanation_scene *scene, const motetExplainQuery_t *query,
                                const struct motet_tune_world *real, struct motet_tuner **tuner)
{
    if (real) {
        struct motet_tune_world same = *real;
        same.algorithms = query->algo ? query->algo : real->algorithms;
        return motet_tuner_create(&same, tuner);
    }
    struct motet_tune_world world = {
        .nranks = scene->shape.nranks,
        .nhosts = scene->shape.nhosts,
        .host_first = scene->shape.host_first,
        .ncpus = scene->world.ncpus,
        .local_ranks = scene->world.local_ranks,
        .same_process = scene->world.same_process,
        .lane_bytes = (size_t)scene->world.lane_bytes,
        .machine = scene->world.machine,
        .network_host = scene->network_host,
        .algorithms = query->algo,
    };
    /* A table that the user names is meant; the one in the cache directory is of this machine. */
    if (query->here || motet_setting_is_set(MOTET_SET_TUNER_FILE))
        TRY(motet_tuning_load(&world.tuning));
    world.machines = motet_machine_fingerprint();
    return motet_tuner_create(&world, tuner);
}

motetResult_t motet_explanation_pick(const struct motet_explanation_scene *scene, const motetExplainQuery_t *query,
                                     const struct motet_algorithm **algorithm)
{
    struct motet_tuner *tuner = NULL;
    struct motet_tune_request request = request_for(scene, query->datatype, query->op, scene->load.bytes);
    motetResult_t result = make_tuner(scene, query, NULL, &tuner);
    if (result == motetSuccess)
        result = motet_tune_choose(tuner, &request, algorithm);
    motet_tuner_free(tuner);
    return result;
}

/* Time and volume of every row that exists here. */
static motetResult_t fill_candidate(struct motetExplanation *explanation, int index)
{
    struct motet_explanation_candidate *candidate = &explanation->candidates[index];
    const struct motet_explanation_scene *scene = &explanation->scene;
    candidate->fits = !candidate->algorithm->fits || candidate->algorithm->fits(&scene->shape);
    if (!candidate->fits)
        return motetSuccess;
    TRY(motet_cost_predict_sizes(candidate->algorithm, &scene->shape, &scene->world, &scene->load, &scene->load.bytes, 1,
                                 &candidate->time));
    return motet_explanation_measure(scene, candidate->algorithm, &candidate->volume);
}

static motetResult_t fill(struct motetExplanation *explanation, const motetExplainQuery_t *query,
                          const struct motet_tune_world *real)
{
    TRY(motet_explanation_scene_make(query, MOTET_EXPLANATION_RANKS, real, &explanation->scene));
    explanation->dtype = query->datatype;
    explanation->op = query->op;
    explanation->algorithms = query->algo ? strdup(query->algo) : NULL;
    explanation->candidates = calloc((size_t)motet_nalgorithms, sizeof(*explanation->candidates));
    if (!explanation->candidates || (query->algo && !explanation->algorithms))
        return motet_fail(motetSystemError, "out of memory for an explanation");
    motetExplainQuery_t kept = *query;
    kept.algo = explanation->algorithms; /* which the tuner names later */
    TRY(make_tuner(&explanation->scene, &kept, real, &explanation->tuner));
    struct motet_tune_candidate rows[64];
    struct motet_tune_request request = request_of(explanation, explanation->scene.load.bytes);
    TRY(motet_tune_candidates(explanation->tuner, &request, rows, 64, &explanation->ncandidates));
    for (int i = 0; i < explanation->ncandidates; i++) {
        explanation->candidates[i].algorithm = rows[i].algorithm;
        explanation->candidates[i].excluded_by = rows[i].excluded_by;
        explanation->candidates[i].is_measured = rows[i].is_measured;
        explanation->candidates[i].measured_ns = rows[i].time_ns;
        TRY(fill_candidate(explanation, i));
    }
    return motet_explanation_choose(explanation, explanation->scene.load.bytes, &explanation->chosen);
}

motetResult_t motet_explanation_make(const motetExplainQuery_t *query, const struct motet_tune_world *real,
                                     struct motetExplanation **made)
{
    struct motetExplanation *explanation = calloc(1, sizeof(*explanation));
    if (!explanation)
        return motet_fail(motetSystemError, "out of memory for an explanation");
    motetResult_t result = fill(explanation, query, real);
    if (result == motetSuccess)
        *made = explanation;
    else
        motet_explanation_free(explanation);
    return result;
}

void motet_explanation_free(struct motetExplanation *explanation)
{
    if (!explanation)
        return;
    for (int i = 0; i < explanation->ncandidates; i++)
        motet_playback_free(explanation->candidates[i].playback);
    free(explanation->candidates);
    motet_tuner_free(explanation->tuner);
    motet_explanation_scene_free(&explanation->scene);
    free(explanation->algorithms);
    free(explanation);
}

motetResult_t motet_explanation_play(struct motetExplanation *explanation, int index, const struct motet_playback **playback)
{
    struct motet_explanation_candidate *candidate = &explanation->candidates[index];
    const struct motet_explanation_scene *scene = &explanation->scene;
    if (!candidate->fits)
        return motet_fail(motetInvalidArgument, "Explain: %s does not exist for %d ranks on %d hosts", candidate->algorithm->name,
                          scene->shape.nranks, scene->shape.nhosts);
    if (scene->shape.nranks > MOTET_PLAYBACK_RANKS)
        return motet_fail(motetInvalidArgument, "Explain: messages are told for up to %d ranks, these are %d", MOTET_PLAYBACK_RANKS,
                          scene->shape.nranks);
    if (!candidate->playback)
        TRY(motet_playback_make(candidate->algorithm, &scene->shape, &scene->world, &scene->load, &candidate->playback));
    *playback = candidate->playback;
    return motetSuccess;
}
