/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>

#include "explain.h"

static json_t *candidate_json(const struct explain_view *view, const motetExplainCandidate_t *row)
{
    char where[64];
    json_t *object = json_pack("{s:s, s:s, s:s, s:b, s:b, s:s?}", "name", row->name, "title", row->title, "order", row->order,
                               "fits", row->fits, "chosen", row->chosen, "excluded_by", row->excludedBy);
    json_object_set_new(object, "measured", json_boolean(row->measured));
    if (!row->fits)
        return object;
    json_object_update_new(object,
                           json_pack("{s:f, s:b, s:f, s:f, s:f, s:s, s:f, s:f}", "time_us", row->timeNs / 1e3, "time_is_continued",
                                     row->timeIsContinued, "busbw_GBs", explain_busbw(view, row), "tiles", row->tiles, "tile_us",
                                     row->tileNs / 1e3, "busiest", explain_resource(row, where, sizeof where), "busiest_us",
                                     row->busiestNs * row->tiles / 1e3, "busiest_share", explain_busy_share(row)));
    json_object_update_new(object, json_pack("{s:f, s:i, s:f, s:i, s:f, s:f, s:i}", "sent_most", row->sentMost, "sent_most_rank",
                                             row->sentMostRank, "received_most", row->receivedMost, "received_most_rank",
                                             row->receivedMostRank, "total", row->total, "host_sends_most", row->hostMost,
                                             "host_sends_most_host", row->hostMostHost));
    json_object_update_new(object, json_pack("{s:f, s:f, s:i, s:i, s:i}", "messages", row->messages, "connections",
                                             row->connections, "rounds", row->rounds, "phases", row->phases, "parts", row->parts));
    return object;
}

static json_t *ranges_json(const struct explain_view *view)
{
    motetExplainRange_t ranges[64];
    int n = 0;
    json_t *array = json_array();
    if (!view->moves || motetExplainRanges(view->explanation, ranges, 64, &n) != motetSuccess)
        return array;
    for (int r = 0; r < n && r < 64; r++)
        json_array_append_new(array, json_pack("{s:f, s:s}", "from_bytes", ranges[r].fromBytes, "algorithm",
                                               view->candidates[ranges[r].candidate].name));
    return array;
}

/* Messages of what is shown; empty for more ranks than they are told for. */
static json_t *messages_json(const struct explain_view *view)
{
    json_t *array = json_array();
    int n = 0;
    motetExplainMessage_t message;
    if (view->query->nranks > 64 || motetExplainMessageCount(view->explanation, view->shown, &n) != motetSuccess)
        return array;
    for (int m = 0; m < n && motetExplainMessage(view->explanation, view->shown, m, &message) == motetSuccess; m++)
        json_array_append_new(array, json_pack("{s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:f, s:f}", "round", message.round, "from",
                                               message.from, "to", message.to, "chunk", message.chunk, "chunks", message.chunks,
                                               "bytes", message.bytes, "sum", message.sum, "sent_us", message.sentNs / 1e3,
                                               "arrived_us", message.arrivedNs / 1e3));
    return array;
}

static json_t *steps_json(const struct explain_view *view, int rank)
{
    char *text = NULL;
    json_t *steps = NULL;
    if (motetExplainSteps(view->explanation, view->shown, rank, &text) == motetSuccess)
        steps = json_string(text);
    free(text);
    return steps ? steps : json_null();
}

bool explain_print_json(const struct explain_view *view, int rank)
{
    json_t *candidates = json_array();
    for (int i = 0; i < view->n; i++)
        json_array_append_new(candidates, candidate_json(view, &view->candidates[i]));
    json_t *all = json_pack("{s:s, s:I, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:o, s:i, s:o}", "collective", view->collective, "bytes",
                            (json_int_t)view->query->bytes, "ranks", view->query->nranks, "hosts", view->query->nhosts, "root",
                            view->query->root, "chosen", view->candidates[view->chosen].name, "shown",
                            view->candidates[view->shown].name, "candidates", candidates, "ranges", ranges_json(view), "messages",
                            messages_json(view), "steps_rank", rank, "steps", steps_json(view, rank));
    bool good = all && json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0;
    printf("\n");
    json_decref(all);
    return good;
}
