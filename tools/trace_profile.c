/* SPDX-License-Identifier: Apache-2.0
 * Files of PyTorch's profiler beside dumps: what a process computed while its collectives ran. A file belongs to the dumps of the same
 * process and host, and shares their clock. It may be cut or made by hand: events that make no sense are left out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define TIME_MAX_US 2e15 /* with the base, nanoseconds stay in range */

struct interval {
    int64_t begin_ns, end_ns;
};

struct intervals {
    struct interval *items; /* apart from each other, in order */
    size_t n;
    int64_t begin_ns, end_ns; /* of the whole file */
};

bool trace_profile_is(const json_t *document)
{
    return json_is_array(json_object_get(document, "traceEvents")) &&
           json_is_integer(json_object_get(document, "baseTimeNanoseconds"));
}

bool trace_profile_add(struct trace *trace, const char *name, json_t *document)
{
    struct trace_profile *grown = realloc(trace->profiles, (trace->nprofiles + 1) * sizeof *grown);
    const json_t *events = json_object_get(document, "traceEvents"), *host = json_object_get(document, "host_name");
    int64_t base_ns = json_integer_value(json_object_get(document, "baseTimeNanoseconds"));
    if (!grown)
        return false;
    trace->profiles = grown;
    struct trace_profile *profile = &grown[trace->nprofiles++];
    *profile = (struct trace_profile){.document = document,
                                      .name = name,
                                      .host = json_is_string(host) ? json_string_value(host) : "",
                                      .base_ns = base_ns > 0 && base_ns < (int64_t)1 << 61 ? base_ns : 0,
                                      .pid = -1};
    for (size_t i = 0; i < json_array_size(events) && profile->pid < 0; i++) {
        const json_t *event = json_array_get(events, i), *category = json_object_get(event, "cat");
        int64_t pid = json_integer_value(json_object_get(event, "pid"));
        if (json_is_string(category) && strcmp(json_string_value(category), "cpu_op") == 0 && pid > 0 && pid < INT32_MAX)
            profile->pid = (int)pid;
    }
    return true;
}

void trace_profile_align(struct trace *trace)
{
    for (size_t p = 0; p < trace->nprofiles; p++)
        for (size_t f = 0; f < trace->nfiles; f++)
            if (strcmp(trace->files[f].host, trace->profiles[p].host) == 0)
                trace->profiles[p].offset_ns = trace->files[f].offset_ns;
}

bool trace_profile_time(const struct trace_profile *profile, const json_t *event, int64_t *begin_ns, int64_t *end_ns)
{
    const json_t *ts = json_object_get(event, "ts"), *duration = json_object_get(event, "dur");
    double begin_us = json_number_value(ts), duration_us = json_number_value(duration);
    if (!json_is_number(ts) || !(fabs(begin_us) < TIME_MAX_US) || !(duration_us >= 0 && duration_us < TIME_MAX_US))
        return false;
    int64_t own_ns = profile->base_ns + llrint(begin_us * 1e3);
    return !__builtin_sub_overflow(own_ns, profile->offset_ns, begin_ns) &&
           !__builtin_add_overflow(*begin_ns, llrint(duration_us * 1e3), end_ns);
}

static int compare_intervals(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* When operators of torch itself ran: their names begin with aten::, and those that communicate do not. */
static struct intervals computing(const struct trace_profile *profile)
{
    const json_t *events = json_object_get(profile->document, "traceEvents");
    struct intervals found = {.items = calloc(json_array_size(events) + 1, sizeof *found.items)};
    size_t n = 0;
    for (size_t i = 0; found.items && i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i), *name = json_object_get(event, "name");
        struct interval *next = &found.items[n];
        if (!json_is_string(name) || strncmp(json_string_value(name), "aten::", 6) != 0 ||
            !trace_profile_time(profile, event, &next->begin_ns, &next->end_ns))
            continue;
        found.begin_ns = n == 0 || next->begin_ns < found.begin_ns ? next->begin_ns : found.begin_ns;
        found.end_ns = n == 0 || next->end_ns > found.end_ns ? next->end_ns : found.end_ns;
        n++;
    }
    if (n > 0)
        qsort(found.items, n, sizeof *found.items, compare_intervals);
    for (size_t i = 0; i < n; i++) {
        struct interval *last = found.n > 0 ? &found.items[found.n - 1] : NULL, next = found.items[i];
        if (!last || next.begin_ns > last->end_ns)
            found.items[found.n++] = next;
        else if (next.end_ns > last->end_ns)
            last->end_ns = next.end_ns;
    }
    return found;
}

static int64_t overlap_ns(const struct intervals *with, int64_t begin_ns, int64_t end_ns)
{
    int64_t sum_ns = 0;
    size_t low = 0, high = with->n;
    while (low < high) { /* the first that ends after the beginning */
        size_t middle = low + (high - low) / 2;
        if (with->items[middle].end_ns <= begin_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < with->n && with->items[low].begin_ns < end_ns; low++) {
        const struct interval *item = &with->items[low];
        sum_ns += (item->end_ns < end_ns ? item->end_ns : end_ns) - (item->begin_ns > begin_ns ? item->begin_ns : begin_ns);
    }
    return sum_ns;
}

static json_t *sum_of(const json_t *row, const char *member, int64_t more)
{
    json_int_t sum;
    return json_integer(__builtin_add_overflow(json_integer_value(json_object_get(row, member)), more, &sum) ? INT64_MAX : sum);
}

/* Adds numbers to the row of a call's name; rows stand in order of their first call. */
static void add_to_row(json_t *rows, const char *what, int64_t ns, int64_t hidden_ns)
{
    json_t *row = NULL;
    for (size_t i = 0; i < json_array_size(rows) && !row; i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(rows, i), "call")), what) == 0)
            row = json_array_get(rows, i);
    if (!row) {
        row = json_pack("{s:s, s:i, s:I, s:I}", "call", what, "calls", 0, "ns", (json_int_t)0, "hidden_ns", (json_int_t)0);
        if (!row || json_array_append_new(rows, row) != 0)
            return;
    }
    json_object_set_new(row, "calls", sum_of(row, "calls", 1));
    json_object_set_new(row, "ns", sum_of(row, "ns", ns));
    json_object_set_new(row, "hidden_ns", sum_of(row, "hidden_ns", hidden_ns));
}

void trace_profile_analyse(const struct trace *trace, json_t *profiles)
{
    for (size_t p = 0; p < trace->nprofiles; p++) {
        const struct trace_profile *profile = &trace->profiles[p];
        struct intervals busy = computing(profile);
        json_t *rows = json_array();
        for (size_t i = 0; i < trace->nentries; i++) {
            const struct trace_entry *entry = &trace->entries[i];
            const struct trace_file *file = &trace->files[trace->members[entry->member].file];
            if (file->pid != profile->pid || strcmp(file->host, profile->host) != 0 || entry->is_message || !entry->complete ||
                entry->begin_ns < busy.begin_ns || entry->end_ns > busy.end_ns || entry->end_ns < entry->begin_ns)
                continue;
            add_to_row(rows, entry->what, entry->end_ns - entry->begin_ns, overlap_ns(&busy, entry->begin_ns, entry->end_ns));
        }
        free(busy.items);
        json_array_append_new(profiles, json_pack("{s:s, s:i, s:o}", "profile", profile->name, "pid", profile->pid, "calls", rows));
    }
}

void trace_profile_free(struct trace *trace)
{
    for (size_t p = 0; p < trace->nprofiles; p++)
        json_decref(trace->profiles[p].document);
    free(trace->profiles);
}
