/* SPDX-License-Identifier: Apache-2.0
 * Counters in JSON, see counters.h. The words are those of the job report. */
#include "counters.h"

#include "ledger.h"
#include "report.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void write_late(struct motet_json *json, const motetCommStats_t *stats, const char *sentence)
{
    motet_json_begin(json, "late", '{');
    motet_json_int(json, "rank", stats->lateRank);
    motet_json_text(json, "cause", motet_straggler_cause_name(stats->lateCause));
    motet_json_int(json, "compared", (int64_t)stats->compared);
    motet_json_real(json, "share", stats->lateShare);
    motet_json_real(json, "saved", stats->lateSaved);
    motet_json_real(json, "p50_us", (double)stats->lateP50Ns / 1e3);
    motet_json_real(json, "p99_us", (double)stats->lateP99Ns / 1e3);
    motet_json_text(json, "sentence", sentence);
    motet_json_end(json, '}');
}

void motet_counters_write(struct motet_json *json, const char *region)
{
    motetCommStats_t stats = {.size = sizeof stats};
    char sentence[MOTET_COUNTERS_SENTENCE_MAX];
    if (!motet_ledger_look(region, &stats, sentence, sizeof sentence))
        return;
    motet_json_begin(json, "counters", '{');
    motet_json_real(json, "time_s", seconds(stats.timeNs));
    motet_json_real(json, "stream_s", seconds(stats.streamTimeNs));
    motet_json_real(json, "wait_s", seconds(stats.waitNs));
    motet_json_real(json, "wait_late_s", seconds(stats.waitLateNs));
    motet_json_real(json, "move_s", seconds(stats.moveNs));
    motet_json_real(json, "reduce_s", seconds(stats.reduceNs));
    motet_json_real(json, "blocked_s", seconds(stats.blockedNs));
    motet_json_int(json, "long_waits", (int64_t)stats.longWaits);
    for (int sent = 1; sent >= 0; sent--) {
        motet_json_begin(json, sent ? "sent" : "received", '{');
        for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++)
            motet_json_int(json, motet_report_transports[t], (int64_t)(sent ? stats.sentBytes[t] : stats.receivedBytes[t]));
        motet_json_end(json, '}');
    }
    motet_json_end(json, '}');
    if (stats.lateRank >= 0)
        write_late(json, &stats, sentence);
}

const char *motet_counters_late(const char *region, char text[MOTET_COUNTERS_SENTENCE_MAX])
{
    motetCommStats_t stats = {.size = sizeof stats};
    if (!motet_ledger_look(region, &stats, text, MOTET_COUNTERS_SENTENCE_MAX))
        text[0] = '\0';
    return text;
}
