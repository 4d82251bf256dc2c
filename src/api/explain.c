/* SPDX-License-Identifier: Apache-2.0
 * The public questions about what a collective would do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "explanation.h"

static motetResult_t read_query(const char *function, const motetExplainQuery_t *query, motetExplainQuery_t *copy)
{
    static const motetExplainQuery_t defaults = MOTET_EXPLAIN_QUERY_INITIALIZER;
    if (!query)
        return motet_fail(motetInvalidArgument, "%s: query is NULL", function);
    if (query->size != sizeof(*query))
        return motet_fail(
            motetInvalidArgument,
            "%s: query->size is %zu, it must be sizeof(motetExplainQuery_t), %zu: use MOTET_EXPLAIN_QUERY_INITIALIZER", function,
            query->size, sizeof(*query));
    *copy = *query;
    if (!copy->collective)
        copy->collective = defaults.collective;
    return motetSuccess;
}

static motetResult_t check_explanation(const char *function, motetExplanation_t explanation, const void *out)
{
    if (explanation && out)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "%s: %s is NULL", function, explanation ? "the result" : "explanation");
}

static motetResult_t check_index(const char *function, motetExplanation_t explanation, int index, const void *out)
{
    TRY(check_explanation(function, explanation, out));
    if (index >= 0 && index < explanation->ncandidates)
        return motetSuccess;
    return motet_fail(motetInvalidArgument, "%s: candidate %d is not in [0, %d)", function, index, explanation->ncandidates);
}

motetResult_t motetExplain(const motetExplainQuery_t *query, motetExplanation_t *explanation)
{
    motetExplainQuery_t copy;
    if (!explanation)
        return motet_fail(motetInvalidArgument, "Explain: explanation is NULL");
    *explanation = NULL;
    TRY(read_query("Explain", query, &copy));
    return motet_explanation_make(&copy, NULL, explanation);
}

motetResult_t motetCommExplain(motetComm_t comm, const motetExplainQuery_t *query, motetExplanation_t *explanation)
{
    motetExplainQuery_t copy;
    if (!explanation)
        return motet_fail(motetInvalidArgument, "CommExplain: explanation is NULL");
    *explanation = NULL;
    TRY(motet_check_comm(comm, "CommExplain"));
    TRY(read_query("CommExplain", query, &copy));
    return motet_explanation_make(&copy, motet_tuner_world(comm->tuner), explanation);
}

motetResult_t motetCommShape(motetComm_t comm, motetTuneShape_t *shape)
{
    TRY(motet_check_comm(comm, "CommShape"));
    if (!shape)
        return motet_fail(motetInvalidArgument, "CommShape: shape is NULL");
    const struct motet_tune_world *world = motet_tuner_world(comm->tuner);
    *shape = (motetTuneShape_t){
        .size = sizeof *shape,
        .machine = world->machines,
        .nranks = world->nranks,
        .nhosts = world->nhosts,
        .cpus = motet_tune_crowded_cpus(world),
        .threads = world->same_process,
    };
    return motetSuccess;
}

motetResult_t motetExplainFree(motetExplanation_t explanation)
{
    motet_explanation_free(explanation);
    return motetSuccess;
}

motetResult_t motetExplainCount(motetExplanation_t explanation, int *candidates)
{
    TRY(check_explanation("ExplainCount", explanation, candidates));
    *candidates = explanation->ncandidates;
    return motetSuccess;
}

motetResult_t motetExplainCandidate(motetExplanation_t explanation, int index, motetExplainCandidate_t *candidate)
{
    static const char *const orders[] = {
        [MOTET_ORDER_NONE] = "none", [MOTET_ORDER_CANONICAL] = "canonical", [MOTET_ORDER_ROTATED] = "rotated"};
    TRY(check_index("ExplainCandidate", explanation, index, candidate));
    const struct motet_explanation_candidate *row = &explanation->candidates[index];
    const struct motet_explanation_volume *volume = &row->volume;
    *candidate = (motetExplainCandidate_t){
        .name = row->algorithm->name,
        .title = row->algorithm->title,
        .order = orders[row->algorithm->order],
        .excludedBy = row->excluded_by,
        .fits = row->fits,
        .chosen = index == explanation->chosen,
        .measured = row->is_measured,
        .timeNs = row->is_measured ? row->measured_ns : row->time.ns,
        .timeIsContinued = row->fits && !row->time.is_exact,
        .tileNs = row->time.tile_ns,
        .tiles = row->time.ntiles,
        .busiest = (motetExplainResource_t)row->time.busiest,
        .busiestWhere = row->time.where,
        .busiestNs = row->time.busiest_ns,
        .sentMost = volume->sent_most,
        .receivedMost = volume->received_most,
        .sentMostRank = volume->sent_most_rank,
        .receivedMostRank = volume->received_most_rank,
        .total = volume->total,
        .hostMost = volume->host_most,
        .hostMostHost = volume->host_most_host,
        .messagesMost = volume->messages_most,
        .messages = volume->messages,
        .connections = volume->connections,
        .rounds = volume->rounds,
        .phases = volume->phases,
        .parts = volume->parts,
    };
    return motetSuccess;
}

motetResult_t motetExplainRanges(motetExplanation_t explanation, motetExplainRange_t *ranges, int room, int *n)
{
    TRY(check_explanation("ExplainRanges", explanation, n));
    if (room < 0 || (room > 0 && !ranges))
        return motet_fail(motetInvalidArgument, "ExplainRanges: %s", room < 0 ? "room is negative" : "ranges is NULL");
    return motet_explanation_ranges(explanation, ranges, room, n);
}

motetResult_t motetExplainSteps(motetExplanation_t explanation, int index, int rank, char **text)
{
    TRY(check_index("ExplainSteps", explanation, index, text));
    const struct motet_explanation_candidate *row = &explanation->candidates[index];
    struct motet_shape shape = explanation->scene.shape;
    if (rank < 0 || rank >= shape.nranks)
        return motet_fail(motetInvalidArgument, "ExplainSteps: rank %d is not in [0, %d)", rank, shape.nranks);
    if (!row->fits)
        return motet_fail(motetInvalidArgument, "ExplainSteps: %s does not exist for %d ranks on %d hosts", row->algorithm->name,
                          shape.nranks, shape.nhosts);
    size_t len = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &len);
    struct motet_schedule schedule = {0};
    shape.position = rank;
    row->algorithm->build(&schedule, &shape);
    bool ok = out && !schedule.out_of_memory;
    if (ok)
        motet_schedule_print(out, &schedule);
    ok = out && fclose(out) == 0 && ok;
    motet_schedule_free(&schedule);
    if (ok)
        return motetSuccess;
    free(*text);
    *text = NULL;
    return motet_fail(motetSystemError, "out of memory for the steps of %s", row->algorithm->name);
}

motetResult_t motetExplainMessageCount(motetExplanation_t explanation, int index, int *messages)
{
    const struct motet_playback *playback;
    TRY(check_index("ExplainMessageCount", explanation, index, messages));
    TRY(motet_explanation_play(explanation, index, &playback));
    *messages = playback->nmessages;
    return motetSuccess;
}

motetResult_t motetExplainMessage(motetExplanation_t explanation, int index, int message, motetExplainMessage_t *description)
{
    const struct motet_playback *playback;
    TRY(check_index("ExplainMessage", explanation, index, description));
    TRY(motet_explanation_play(explanation, index, &playback));
    if (message < 0 || message >= playback->nmessages)
        return motet_fail(motetInvalidArgument, "ExplainMessage: message %d is not in [0, %d)", message, playback->nmessages);
    const struct motet_playback_message *row = &playback->messages[message];
    *description = (motetExplainMessage_t){
        .from = row->from,
        .to = row->to,
        .round = row->round,
        .chunk = row->chunk,
        .chunks = row->chunks,
        .bytes = row->bytes,
        .sum = row->sum,
        .sentNs = row->sent_ns,
        .arrivedNs = row->arrived_ns,
    };
    return motetSuccess;
}

motetResult_t motetExplainHolding(motetExplanation_t explanation, int index, int round, int rank, int chunk,
                                  motetExplainHolding_t *holding)
{
    const struct motet_playback *playback;
    TRY(check_index("ExplainHolding", explanation, index, holding));
    TRY(motet_explanation_play(explanation, index, &playback));
    if (rank < 0 || rank >= playback->nranks || chunk < 0 || chunk >= playback->nchunks || round < 0)
        return motet_fail(motetInvalidArgument,
                          "ExplainHolding: round %d, rank %d, chunk %d: there are %d rounds, %d ranks, %d chunks", round, rank,
                          chunk, playback->nrounds, playback->nranks, playback->nchunks);
    const struct motet_playback_value *now = motet_playback_find(playback, round, rank, chunk);
    const struct motet_playback_value *before = round > 0 ? motet_playback_find(playback, round - 1, rank, chunk) : NULL;
    *holding = (motetExplainHolding_t){.chunk = chunk};
    if (now)
        *holding = (motetExplainHolding_t){
            .ranks = now->inputs, .chunk = now->origin, .isResult = now->is_result, .isNew = round > 0 && now != before};
    return motetSuccess;
}

motetResult_t motetExplainTimes(const motetExplainQuery_t *query, const char *algorithm, const double *bytes, int sizes,
                                double *timesNs)
{
    motetExplainQuery_t copy;
    struct motet_explanation_scene scene;
    TRY(read_query("ExplainTimes", query, &copy));
    if (!algorithm || (sizes > 0 && (!bytes || !timesNs)) || sizes < 0)
        return motet_fail(motetInvalidArgument, "ExplainTimes: %s",
                          sizes < 0    ? "sizes is negative"
                          : !algorithm ? "algorithm is NULL"
                                       : "bytes or timesNs is NULL");
    TRY(motet_explanation_scene_make(&copy, MOTET_EXPLANATION_RANKS, NULL, &scene));
    const struct motet_algorithm *row = motet_algorithm_find(scene.collective, algorithm);
    struct motet_cost_time *times = calloc((size_t)sizes + 1, sizeof(*times));
    motetResult_t result;
    if (!times)
        result = motet_fail(motetSystemError, "out of memory for %d sizes", sizes);
    else if (!row || (row->fits && !row->fits(&scene.shape)))
        result = motet_fail(motetInvalidArgument, "ExplainTimes: %s has no algorithm %s for %d ranks on %d hosts",
                            motet_collective_name(scene.collective), algorithm, scene.shape.nranks, scene.shape.nhosts);
    else
        result = motet_cost_predict_sizes(row, &scene.shape, &scene.world, &scene.load, bytes, sizes, times);
    for (int k = 0; result == motetSuccess && k < sizes; k++)
        timesNs[k] = times[k].ns;
    free(times);
    motet_explanation_scene_free(&scene);
    return result;
}
