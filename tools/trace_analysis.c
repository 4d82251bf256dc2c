/* SPDX-License-Identifier: Apache-2.0
 * What went wrong, from the merged records: errors, missing dumps, the first call in which ranks differ, ranks that are behind, messages
 * that never ended, and who came late. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define FINDINGS_MOST 20 /* of one kind */

static void find(json_t *findings, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void find(json_t *findings, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_array_append_new(findings, json_string(text));
}

/* "rank 3", "ranks 0-2, 5": the ranks of members[first..first + n) that are marked. */
static const char *name_ranks(const struct trace *trace, size_t first, size_t n, const bool *marked, char text[256])
{
    size_t used = 0, count = 0;
    for (size_t i = 0; i < n; i++)
        count += marked[i];
    used += (size_t)snprintf(text, 256, count == 1 ? "rank" : "ranks");
    for (size_t i = 0, listed = 0; i < n && used < 230; i++) {
        size_t last = i;
        if (!marked[i])
            continue;
        while (last + 1 < n && marked[last + 1] && trace->members[first + last + 1].rank == trace->members[first + last].rank + 1)
            last++;
        used += (size_t)snprintf(text + used, 256 - used, "%s%d", listed++ ? ", " : " ", trace->members[first + i].rank);
        if (last > i)
            used += (size_t)snprintf(text + used, 256 - used, "-%d", trace->members[first + last].rank);
        i = last;
    }
    return text;
}

static void find_errors(const struct trace *trace, size_t first, size_t n, json_t *findings)
{
    for (size_t i = first; i < first + n; i++) {
        bool said = !trace->members[i].error;
        for (size_t k = first; k < i && !said; k++)
            said = trace->members[k].error && strcmp(trace->members[k].error, trace->members[i].error) == 0;
        if (!said)
            find(findings, "it failed: %s", trace->members[i].error);
    }
}

/* Ranks without a dump, as an array. */
static json_t *list_missing(const struct trace *trace, size_t first, size_t n)
{
    json_t *missing = json_array();
    size_t at = first;
    int nranks = trace->members[first].nranks;
    for (int rank = 0; rank < nranks && json_array_size(missing) < 1024; rank++) {
        while (at < first + n && trace->members[at].rank < rank)
            at++;
        if (at == first + n || trace->members[at].rank != rank)
            json_array_append_new(missing, json_integer(rank));
    }
    return missing;
}

/* The first call of which several ranks have records that differ. */
static bool find_divergence(const struct trace *trace, size_t first, size_t n, int64_t low, int64_t high, json_t *findings)
{
    bool *marked = calloc(n, sizeof *marked);
    char ranks[256];
    bool found = false;
    for (int64_t number = low; marked && number <= high && !found; number++) {
        const struct trace_entry *one = NULL;
        for (size_t i = 0; i < n && !found; i++) {
            const struct trace_entry *entry = trace_find(trace, first + i, false, number);
            one = one ? one : entry;
            found = entry && (strcmp(entry->what, one->what) != 0 || entry->history != one->history);
        }
        if (!found)
            continue;
        char text[1024] = "";
        size_t used = 0;
        bool same = true;
        for (size_t i = 0; i < n && used < sizeof text; i++) {
            const struct trace_entry *mine = trace_find(trace, first + i, false, number), *earlier = NULL;
            for (size_t k = 0; mine && k < i && !earlier; k++) {
                earlier = trace_find(trace, first + k, false, number);
                earlier = earlier && strcmp(earlier->what, mine->what) == 0 ? earlier : NULL;
            }
            if (!mine || earlier)
                continue;
            for (size_t k = 0; k < n; k++) {
                const struct trace_entry *other = trace_find(trace, first + k, false, number);
                marked[k] = other && strcmp(other->what, mine->what) == 0;
            }
            same &= used == 0;
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s called %s", used ? ", " : "",
                                     name_ranks(trace, first, n, marked, ranks), mine->what);
        }
        find(findings, "the first call that differs is #%" PRId64 ": %s%s", number, text, same ? "; an earlier call differed" : "");
    }
    free(marked);
    return found;
}

/* What the ranks counted themselves, over all calls and not only those that the recorder still has. */
static void find_chronic(const struct trace *trace, size_t first, size_t n, json_t *findings)
{
    for (size_t i = first; i < first + n; i++) {
        bool said = !trace->members[i].late;
        for (size_t k = first; k < i && !said; k++)
            said = trace->members[k].late != NULL; /* the first of a host counts for it, and rank 0 for all */
        if (!said)
            find(findings, "slowest: %s", trace->members[i].late);
    }
}

static void find_behind(const struct trace *trace, size_t first, size_t n, int64_t high, json_t *findings)
{
    bool *waits = calloc(n, sizeof *waits);
    const struct trace_entry *newest = NULL;
    int64_t low, mine;
    char ranks[256];
    size_t nwait = 0;
    for (size_t i = 0; waits && i < n; i++) {
        const struct trace_entry *entry = trace_find(trace, first + i, false, high);
        waits[i] = entry && !entry->complete;
        nwait += waits[i];
        newest = entry ? entry : newest;
    }
    for (size_t i = 0; waits && newest && nwait && i < n; i++) {
        if (trace_range(trace, first + i, &low, &mine) && mine >= high)
            continue;
        const struct trace_entry *last = trace_find(trace, first + i, false, mine);
        const struct trace_file *file = &trace->files[trace->members[first + i].file];
        char queued[64] = "";
        if (trace->members[first + i].scheduled > 0)
            snprintf(queued, sizeof queued, "; %" PRId64 " more stand in its queue", trace->members[first + i].scheduled);
        if (json_array_size(findings) < FINDINGS_MOST)
            find(findings, "rank %d (pid %d, host %s) has not called %s #%" PRId64 ", in which %s %s; its last call is %s%s%s",
                 trace->members[first + i].rank, file->pid, file->host, newest->name, high,
                 name_ranks(trace, first, n, waits, ranks), nwait == 1 ? "waits" : "wait", last ? last->what : "unknown",
                 last && !last->complete ? ", which has not ended" : "", queued);
    }
    free(waits);
}

static void find_messages(const struct trace *trace, size_t first, size_t n, json_t *findings)
{
    size_t said = 0;
    for (size_t i = 0; i < trace->nentries && said < FINDINGS_MOST; i++) {
        const struct trace_entry *entry = &trace->entries[i];
        if (!entry->is_message || entry->complete || entry->member < first || entry->member >= first + n)
            continue;
        find(findings, "rank %d: %s has not ended", trace->members[entry->member].rank, entry->what);
        said++;
    }
}

/* ---- Who is late ---- */

struct lateness {
    int64_t sum_ns, most_ns;
    size_t times;
};

/* Of each call that all ranks with a dump completed: who began last, and how long after the one before. */
static size_t measure(const struct trace *trace, size_t first, size_t n, int64_t low, int64_t high, struct lateness *late)
{
    size_t calls = 0;
    int64_t error = 0;
    for (size_t i = first; i < first + n; i++)
        error = trace->files[trace->members[i].file].error_ns > error ? trace->files[trace->members[i].file].error_ns : error;
    for (int64_t number = low; number <= high; number++) {
        int64_t last = INT64_MIN, before = INT64_MIN;
        size_t who = 0, there = 0;
        for (size_t i = 0; i < n; i++) {
            const struct trace_entry *entry = trace_find(trace, first + i, false, number);
            if (!entry || !entry->complete || !trace_synchronizes(entry))
                break;
            there++;
            if (entry->begin_ns > last) {
                before = last;
                last = entry->begin_ns;
                who = i;
            } else if (entry->begin_ns > before) {
                before = entry->begin_ns;
            }
        }
        if (there < n || n < 2)
            continue;
        calls++;
        int64_t behind = last - before;
        if (behind <= error)
            continue;
        late[who].times++;
        late[who].sum_ns += behind;
        late[who].most_ns = behind > late[who].most_ns ? behind : late[who].most_ns;
    }
    return calls;
}

static json_t *find_late(const struct trace *trace, size_t first, size_t n, int64_t low, int64_t high, json_t *findings)
{
    struct lateness *late = calloc(n, sizeof *late);
    json_t *list = json_array();
    size_t calls = late ? measure(trace, first, n, low, high, late) : 0;
    for (size_t i = 0; late && i < n; i++) {
        if (late[i].times == 0)
            continue;
        double mean_us = (double)late[i].sum_ns / (double)late[i].times / 1e3, most_us = (double)late[i].most_ns / 1e3;
        int rank = trace->members[first + i].rank;
        json_array_append_new(list, json_pack("{s:i, s:I, s:I, s:f, s:f}", "rank", rank, "times", (json_int_t)late[i].times, "of",
                                              (json_int_t)calls, "mean_us", mean_us, "most_us", most_us));
        if (late[i].times * 2 > calls && calls >= 3)
            find(findings, "rank %d (host %s) began last in %zu of %zu calls, %.0f us after the others on average, %.0f us at most",
                 rank, trace->files[trace->members[first + i].file].host, late[i].times, calls, mean_us, most_us);
    }
    free(late);
    return list;
}

static void analyse_comm(const struct trace *trace, size_t first, size_t n, json_t *comms)
{
    json_t *comm = json_object(), *findings = json_array();
    int64_t low = INT64_MIN, high = 0, lowest, highest;
    find_errors(trace, first, n, findings);
    for (size_t i = first; i < first + n; i++)
        if (trace_range(trace, i, &lowest, &highest)) {
            low = lowest > low ? lowest : low; /* from here on all rings still have their calls */
            high = highest > high ? highest : high;
        }
    json_t *late = NULL;
    if (low > 0 && high - low < (int64_t)trace->nentries) {
        if (!find_divergence(trace, first, n, low, high, findings))
            find_behind(trace, first, n, high, findings);
        late = find_late(trace, first, n, low, high, findings);
    }
    find_messages(trace, first, n, findings);
    find_chronic(trace, first, n, findings);
    json_object_set_new(comm, "communicator", json_string(trace->members[first].comm));
    json_object_set_new(comm, "id", json_string(trace->members[first].id));
    json_object_set_new(comm, "nranks", json_integer(trace->members[first].nranks));
    json_object_set_new(comm, "calls", json_integer(high));
    json_object_set_new(comm, "missing", list_missing(trace, first, n));
    json_object_set_new(comm, "findings", findings);
    json_object_set_new(comm, "late", late ? late : json_array());
    json_array_append_new(comms, comm);
}

void trace_analyse(const struct trace *trace, json_t *comms)
{
    for (size_t first = 0, n; first < trace->nmembers; first += n) {
        n = trace_comm(trace, first);
        analyse_comm(trace, first, n, comms);
    }
}
