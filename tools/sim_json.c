/* SPDX-License-Identifier: Apache-2.0
 * What came of a simulation, for programs. */
#include <jansson.h>

#include "sim.h"

#define LINKS_MOST 1000

static json_t *operations_json(const struct sim_view *view)
{
    json_t *array = json_array();
    for (int i = 0; i < view->result.operations; i++) {
        motetSimulateOperationResult_t row;
        if (motetSimulateOperation(view->simulation, i, &row) == motetSuccess)
            json_array_append_new(array,
                                  json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "collective", row.collective,
                                            "algorithm", row.algorithm, "bytes", row.bytes, "begin_us", row.beginNs / 1e3, "end_us",
                                            row.endNs < 0 ? -1 : row.endNs / 1e3, "busbw_GBs", sim_busbw(view, &row), "tiles",
                                            row.tiles, "tiles_simulated", row.tilesSimulated, "tile_bytes", row.tileBytes));
    }
    return array;
}

static json_t *links_json(const struct sim_view *view, int *used, double *mean)
{
    static struct sim_link links[LINKS_MOST];
    json_t *array = json_array();
    int n = sim_busiest_links(view, links, LINKS_MOST, used, mean);
    for (int i = 0; i < n; i++)
        json_array_append_new(array, json_pack("{s:s, s:f, s:f, s:f}", "name", links[i].use.name, "busy_share", links[i].share,
                                               "bytes", links[i].use.bytes, "GBs", links[i].use.GBs));
    return array;
}

static json_t *failures_json(const struct sim_view *view)
{
    json_t *array = json_array();
    for (int r = 0; view->result.failedRanks > 0 && r < view->result.ranks; r++) {
        motetSimulateRank_t rank;
        if (motetSimulateRank(view->simulation, r, &rank) == motetSuccess && rank.doneNs < 0)
            json_array_append_new(array, json_pack("{s:i, s:b, s:f, s:i, s:s}", "rank", r, "dead", rank.dead, "told_us",
                                                   rank.toldNs < 0 ? -1 : rank.toldNs / 1e3, "operation", rank.operation, "report",
                                                   rank.report));
    }
    return array;
}

static json_t *path_json(const struct sim_view *view)
{
    motetSimulatePath_t path;
    if (motetSimulatePath(view->simulation, &path) != motetSuccess)
        return json_null();
    json_t *object = json_pack("{s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "first_rank", path.firstRank, "last_rank", path.lastRank,
                               "messages", path.messages, "compute_us", path.computeNs / 1e3, "links_us", path.wireNs / 1e3,
                               "waiting_us", path.queueNs / 1e3, "latency_us", path.latencyNs / 1e3, "cores_us", path.coreNs / 1e3);
    json_object_update_new(object, json_pack("{s:s, s:f, s:i, s:f}", "link", path.link, "link_us", path.linkNs / 1e3,
                                             "slowest_rank", path.slowestRank, "slowest_us", path.slowestNs / 1e3));
    return object;
}

bool sim_print_json(const struct sim_view *view)
{
    const motetSimulateResult_t *result = &view->result;
    int used;
    double mean;
    json_t *links = links_json(view, &used, &mean);
    json_t *all =
        json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:i, s:i}", "what", view->what, "network", view->network, "ranks",
                  result->ranks, "hosts", view->query->call.nhosts ? view->query->call.nhosts : result->ranks, "time_us",
                  result->timeNs / 1e3, "messages", result->messages, "bytes", result->bytes, "messages_simulated",
                  result->simulated, "ranks_simulated", result->ranksSimulated, "ranks_compared", result->ranksCompared);
    json_object_update_new(all, json_pack("{s:f, s:i, s:f, s:i, s:o, s:o, s:o, s:o}", "memory_bytes", result->memory, "links_used",
                                          used, "links_busy_mean", mean, "failed_ranks", result->failedRanks, "operations",
                                          operations_json(view), "busiest_links", links, "path", path_json(view), "failures",
                                          failures_json(view)));
    bool good = all && json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    printf("\n");
    json_decref(all);
    return good;
}
