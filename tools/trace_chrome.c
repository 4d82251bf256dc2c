/* SPDX-License-Identifier: Apache-2.0
 * Chrome's trace format, which Perfetto reads too. A communicator is a "process", a rank a "thread" in it; a call is a slice on the rank's
 * row and its steps are slices inside. Slices of a row must nest, so steps that overlap go to further rows of the same rank. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define ROWS_MOST 32 /* per rank */

struct canvas {
    const struct trace *trace;
    FILE *out;
    int64_t zero_ns;
    bool any;
};

static void put(struct canvas *canvas, json_t *event)
{
    fputs(canvas->any ? ",\n" : "\n", canvas->out);
    canvas->any = true;
    if (event)
        json_dumpf(event, canvas->out, JSON_COMPACT);
    else
        fputs("{}", canvas->out);
    json_decref(event);
}

static void name_row(struct canvas *canvas, const char *kind, int process, int row, const char *name, int order)
{
    put(canvas,
        json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", kind, "pid", process, "tid", row, "args", "name", name));
    if (strcmp(kind, "thread_name") == 0)
        put(canvas, json_pack("{s:s, s:s, s:i, s:i, s:{s:i}}", "ph", "M", "name", "thread_sort_index", "pid", process, "tid", row,
                              "args", "sort_index", order));
}

static void put_slice(struct canvas *canvas, const char *name, const char *category, int process, int row, int64_t begin_ns,
                      int64_t end_ns, json_t *arguments)
{
    put(canvas,
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "name", name, "cat", category, "pid", process, "tid", row,
                  "ts", (double)(begin_ns - canvas->zero_ns) / 1e3, "dur", (double)(end_ns - begin_ns) / 1e3, "args", arguments));
}

static void draw_calls(struct canvas *canvas, size_t member, int process, int row, int64_t last_ns)
{
    const struct trace *trace = canvas->trace;
    for (size_t i = 0; i < trace->nentries; i++) {
        const struct trace_entry *entry = &trace->entries[i];
        if (entry->member != member)
            continue;
        char number[32];
        snprintf(number, sizeof number, "#%lld", (long long)entry->number);
        const char *state = entry->complete ? "complete" : entry->failed ? "failed" : "not ended";
        put_slice(canvas, entry->what, entry->is_message ? "message" : "collective", process, row, entry->begin_ns,
                  entry->end_ns               ? entry->end_ns
                  : last_ns > entry->begin_ns ? last_ns
                                              : entry->begin_ns,
                  json_pack("{s:s, s:s, s:s, s:s, s:s}", "number", number, "state", state, "algorithm", entry->algorithm,
                            "protocol", entry->protocol, "transport", entry->transport));
    }
}

/* Returns the number of rows used beside the first. */
static int draw_steps(struct canvas *canvas, size_t member, int process, int row)
{
    const struct trace *trace = canvas->trace;
    int64_t ends[ROWS_MOST];
    int used = 1;
    ends[0] = INT64_MIN;
    for (size_t i = 0; i < trace->nsteps; i++) {
        const struct trace_step *step = &trace->steps[i];
        int at = 0;
        if (step->member != member)
            continue;
        while (at < used && ends[at] > step->begin_ns)
            at++;
        if (at == ROWS_MOST)
            continue;
        used = at == used ? used + 1 : used;
        ends[at] = step->end_ns;
        char name[64];
        if (step->peer < 0)
            snprintf(name, sizeof name, "step %d", step->step);
        else
            snprintf(name, sizeof name, "step %d: rank %d%s", step->step, step->peer, step->npeers > 1 ? " and others" : "");
        put_slice(canvas, name, "step", process, row + at, step->begin_ns, step->end_ns,
                  json_pack("{s:I, s:i, s:i, s:i, s:I}", "call", (json_int_t)step->seq, "round", step->round, "step", step->step,
                            "tile", step->tile, "bytes", (json_int_t)step->bytes));
    }
    return used - 1;
}

static void draw_member(struct canvas *canvas, size_t member, int process, int64_t last_ns)
{
    const struct trace_member *who = &canvas->trace->members[member];
    const struct trace_file *file = &canvas->trace->files[who->file];
    char name[256];
    int row = who->rank < INT32_MAX / ROWS_MOST ? who->rank * ROWS_MOST : 0;
    snprintf(name, sizeof name, "rank %d (pid %d, %.100s)", who->rank, file->pid, file->host);
    name_row(canvas, "thread_name", process, row, name, row);
    draw_calls(canvas, member, process, row, last_ns);
    int more = draw_steps(canvas, member, process, row);
    for (int i = 1; i <= more; i++) {
        snprintf(name, sizeof name, "rank %d, steps beside", who->rank);
        name_row(canvas, "thread_name", process, row + i, name, row + i);
    }
}

/* Numbers of processes and of arrows must differ from those of all other files; names of processes are kept. */
static void renumber(json_t *event, const char *key, json_int_t by)
{
    const json_t *value = json_object_get(event, key);
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < INT32_MAX)
        json_object_set_new(event, key, json_integer(json_integer_value(value) + by));
}

/* The events of a profile as they are, on the common clock. */
static void draw_profile(struct canvas *canvas, size_t number)
{
    const struct trace_profile *profile = &canvas->trace->profiles[number];
    const json_t *events = json_object_get(profile->document, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        int64_t begin_ns, end_ns;
        json_t *event = json_deep_copy(json_array_get(events, i));
        if (!json_is_object(event)) {
            json_decref(event);
            continue;
        }
        if (trace_profile_time(profile, event, &begin_ns, &end_ns))
            json_object_set_new(event, "ts", json_real((double)(begin_ns - canvas->zero_ns) / 1e3));
        renumber(event, "pid", (json_int_t)(number + 1) * 10000000);
        renumber(event, "id", (json_int_t)(number + 1) << 32);
        put(canvas, event);
    }
}

/* The earliest time of all. */
static int64_t begin_of(const struct trace *trace)
{
    int64_t zero_ns = INT64_MAX, begin_ns, end_ns;
    for (size_t i = 0; i < trace->nentries; i++)
        zero_ns = trace->entries[i].begin_ns < zero_ns ? trace->entries[i].begin_ns : zero_ns;
    if (trace->nentries == 0 && trace->nsteps > 0)
        zero_ns = trace->steps[0].begin_ns;
    for (size_t p = 0; p < trace->nprofiles; p++) {
        const json_t *events = json_object_get(trace->profiles[p].document, "traceEvents");
        for (size_t i = 0; i < json_array_size(events); i++)
            if (trace_profile_time(&trace->profiles[p], json_array_get(events, i), &begin_ns, &end_ns) && begin_ns < zero_ns)
                zero_ns = begin_ns;
    }
    return zero_ns == INT64_MAX ? 0 : zero_ns;
}

bool trace_chrome(const struct trace *trace, FILE *out)
{
    struct canvas canvas = {.trace = trace, .out = out, .zero_ns = begin_of(trace)};
    int64_t last_ns = INT64_MIN;
    int process = 0;
    for (size_t i = 0; i < trace->nentries; i++) {
        const struct trace_entry *entry = &trace->entries[i];
        last_ns = entry->begin_ns > last_ns ? entry->begin_ns : last_ns;
        last_ns = entry->end_ns > last_ns ? entry->end_ns : last_ns;
    }
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out);
    for (size_t first = 0, n; first < trace->nmembers; first += n, process++) {
        char name[128];
        n = trace_comm(trace, first);
        snprintf(name, sizeof name, "communicator %.80s (%d ranks)", trace->members[first].comm, trace->members[first].nranks);
        name_row(&canvas, "process_name", process, 0, name, 0);
        for (size_t m = first; m < first + n; m++)
            draw_member(&canvas, m, process, last_ns);
    }
    for (size_t p = 0; p < trace->nprofiles; p++)
        draw_profile(&canvas, p);
    fputs("\n]}\n", out);
    return fflush(out) == 0 && !ferror(out);
}
