/* SPDX-License-Identifier: Apache-2.0
 * Reading dumps. A file may be cut, old, or made by hand: every member is checked, and what makes no sense is left out. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define NUMBER_MAX ((int64_t)1 << 62) /* of times and numbers: sums of two stay in range */

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static int64_t int_of(const json_t *object, const char *key)
{
    int64_t value = json_integer_value(json_object_get(object, key));
    return value > NUMBER_MAX / 2 || value < -NUMBER_MAX / 2 ? 0 : value;
}

static int small_of(const json_t *object, const char *key)
{
    int64_t value = int_of(object, key);
    return value >= 0 && value < INT32_MAX ? (int)value : -1;
}

static bool grow(void **array, size_t n, size_t more, size_t size)
{
    void *grown = more < SIZE_MAX / size - n ? realloc(*array, (n + more + 1) * size) : NULL;
    if (grown)
        *array = grown;
    return grown != NULL;
}

/* pg_config is an object with the keys "0", "1", ...; entries name them by pg_id. Returns how many were read from 0 on. */
static size_t read_members(struct trace *trace, const json_t *config, const json_t *status, size_t file)
{
    size_t n = 0, most = json_object_size(config);
    char key[24];
    for (; n < most; n++) {
        snprintf(key, sizeof key, "%zu", n);
        const json_t *pg = json_object_get(config, key);
        struct trace_member member = {.comm = text_of(pg, "desc", ""),
                                      .id = text_of(pg, "name", ""),
                                      .error = text_of(pg, "error", NULL),
                                      .late = text_of(json_object_get(status, key), "late", NULL),
                                      .rank = small_of(pg, "rank"),
                                      .nranks = small_of(pg, "nranks"),
                                      .file = file};
        if (!pg || member.rank < 0 || member.nranks <= member.rank)
            break;
        trace->members[trace->nmembers + n] = member;
    }
    return n;
}

static bool read_entry(const json_t *object, size_t first_member, size_t nmembers, struct trace_entry *entry)
{
    int pg = small_of(object, "pg_id");
    bool message = json_is_true(json_object_get(object, "is_p2p"));
    const char *state = text_of(object, "state", "");
    if (pg < 0 || (size_t)pg >= nmembers)
        return false;
    *entry = (struct trace_entry){
        .member = first_member + (size_t)pg,
        .number = int_of(object, message ? "p2p_seq_id" : "collective_seq_id"),
        .is_message = message,
        .complete = strcmp(state, "completed") == 0,
        .failed = strcmp(state, "failed") == 0,
        .what = text_of(object, "what", text_of(object, "profiling_name", "?")),
        .name = text_of(object, "profiling_name", "?"),
        .algorithm = text_of(object, "algorithm", ""),
        .protocol = text_of(object, "protocol", ""),
        .transport = text_of(object, "transport", ""),
        .history = int_of(object, "history"),
        .begin_ns = int_of(object, "time_discovered_started_ns"),
        .end_ns = int_of(object, "time_discovered_completed_ns"),
        .peer = small_of(object, "peer"),
    };
    if (strncmp(entry->name, "motet:", 6) == 0)
        entry->name += 6;
    return entry->number > 0 && strcmp(state, "scheduled") != 0 && (entry->end_ns == 0 || entry->end_ns >= entry->begin_ns);
}

static bool read_step(const struct trace *trace, const json_t *object, size_t first_member, size_t nmembers,
                      struct trace_step *step)
{
    const char *id = text_of(object, "comm", "");
    int rank = small_of(object, "rank");
    size_t m = first_member;
    while (m < first_member + nmembers && (trace->members[m].rank != rank || strcmp(trace->members[m].id, id) != 0))
        m++;
    *step = (struct trace_step){.member = m,
                                .seq = int_of(object, "seq"),
                                .bytes = int_of(object, "bytes"),
                                .begin_ns = int_of(object, "begin_ns"),
                                .end_ns = int_of(object, "end_ns"),
                                .round = small_of(object, "round"),
                                .step = small_of(object, "step"),
                                .tile = small_of(object, "tile"),
                                .peer = small_of(object, "peer"),
                                .npeers = small_of(object, "npeers")};
    return m < first_member + nmembers && step->end_ns >= step->begin_ns;
}

/* What has not begun is no call yet for those who compare calls. */
static void count_scheduled(const json_t *entries, struct trace_member *members, size_t n)
{
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *object = json_array_get(entries, i);
        int64_t pg = int_of(object, "pg_id");
        if (pg >= 0 && (size_t)pg < n && strcmp(text_of(object, "state", ""), "scheduled") == 0)
            members[pg].scheduled++;
    }
}

bool trace_add(struct trace *trace, const char *name, const char *text, size_t len, char *why, size_t why_len)
{
    json_error_t error;
    json_t *document = json_loadb(text, len, 0, &error), *entries = json_object_get(document, "entries"),
           *config = json_object_get(document, "pg_config"), *steps = json_object_get(document, "steps"),
           *clock = json_object_get(document, "clock");
    if (trace_profile_is(document) && trace_profile_add(trace, name, document))
        return true;
    if (!json_is_array(entries) || !json_is_object(config)) {
        if (document)
            snprintf(why, why_len, "this is not a dump of motet: there are no pg_config and entries");
        else
            snprintf(why, why_len, "not JSON: %s (line %d)", error.text, error.line);
        json_decref(document);
        return false;
    }
    if (!grow((void **)&trace->documents, trace->nfiles, 1, sizeof(json_t *)) ||
        !grow((void **)&trace->files, trace->nfiles, 1, sizeof *trace->files) ||
        !grow((void **)&trace->members, trace->nmembers, json_object_size(config), sizeof *trace->members) ||
        !grow((void **)&trace->entries, trace->nentries, json_array_size(entries), sizeof *trace->entries) ||
        !grow((void **)&trace->steps, trace->nsteps, json_array_size(steps), sizeof *trace->steps)) {
        snprintf(why, why_len, "out of memory");
        json_decref(document);
        return false;
    }
    size_t first = trace->nmembers, members = read_members(trace, config, json_object_get(document, "pg_status"), trace->nfiles);
    count_scheduled(entries, &trace->members[first], members);
    for (size_t i = 0; i < json_array_size(entries); i++)
        trace->nentries += read_entry(json_array_get(entries, i), first, members, &trace->entries[trace->nentries]);
    for (size_t i = 0; i < json_array_size(steps); i++)
        trace->nsteps += read_step(trace, json_array_get(steps, i), first, members, &trace->steps[trace->nsteps]);
    trace->nmembers += members;
    trace->documents[trace->nfiles] = document;
    trace->files[trace->nfiles++] = (struct trace_file){.name = name,
                                                        .host = text_of(document, "host", "?"),
                                                        .host_id = text_of(document, "host_id", "?"),
                                                        .reason = text_of(document, "reason", ""),
                                                        .pid = small_of(document, "pid"),
                                                        .error_ns = int_of(clock, "error_ns"),
                                                        .steps_lost = int_of(document, "steps_lost")};
    return true;
}

/* ---- Sorting ---- */

/* What a member was called before it was sorted. */
struct order {
    struct trace_member member;
    size_t before;
};

static int compare_members(const void *a, const void *b)
{
    const struct trace_member *x = &((const struct order *)a)->member, *y = &((const struct order *)b)->member;
    int order = strcmp(x->id, y->id);
    if (x->nranks != y->nranks)
        return x->nranks > y->nranks ? -1 : 1;
    if (order != 0 || x->rank != y->rank)
        return order != 0 ? order : x->rank > y->rank ? 1 : -1;
    return (x->file > y->file) - (x->file < y->file);
}

static int compare_entries(const void *a, const void *b)
{
    const struct trace_entry *x = a, *y = b;
    if (x->member != y->member)
        return x->member > y->member ? 1 : -1;
    if (x->is_message != y->is_message)
        return x->is_message ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare_steps(const void *a, const void *b)
{
    const struct trace_step *x = a, *y = b;
    if (x->member != y->member)
        return x->member > y->member ? 1 : -1;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* Two files of one process repeat each other: the newest record of a call counts. */
static void drop_doubles(struct trace *trace)
{
    size_t kept = 0;
    for (size_t i = 0; i < trace->nentries; i++) {
        if (kept > 0 && compare_entries(&trace->entries[kept - 1], &trace->entries[i]) == 0) {
            if (trace->entries[i].end_ns)
                trace->entries[kept - 1] = trace->entries[i];
            continue;
        }
        trace->entries[kept++] = trace->entries[i];
    }
    trace->nentries = kept;
}

void trace_sort(struct trace *trace)
{
    struct order *order = calloc(trace->nmembers + 1, sizeof *order);
    size_t *now = calloc(trace->nmembers + 1, sizeof *now), kept = 0;
    if (!order || !now || trace->nmembers == 0) {
        trace->nmembers = trace->nentries = trace->nsteps = 0;
        free(order);
        free(now);
        return;
    }
    for (size_t i = 0; i < trace->nmembers; i++)
        order[i] = (struct order){trace->members[i], i};
    qsort(order, trace->nmembers, sizeof *order, compare_members);
    for (size_t i = 0; i < trace->nmembers; i++) {
        struct trace_member *last = kept > 0 ? &trace->members[kept - 1] : NULL, *next = &order[i].member;
        if (!last || last->rank != next->rank || last->nranks != next->nranks || strcmp(last->id, next->id) != 0)
            trace->members[kept++] = *next;
        else if (next->error)
            last->error = next->error;
        now[order[i].before] = kept - 1;
    }
    trace->nmembers = kept;
    for (size_t i = 0; i < trace->nentries; i++)
        trace->entries[i].member = now[trace->entries[i].member];
    for (size_t i = 0; i < trace->nsteps; i++)
        trace->steps[i].member = now[trace->steps[i].member];
    if (trace->nentries > 0)
        qsort(trace->entries, trace->nentries, sizeof *trace->entries, compare_entries);
    if (trace->nsteps > 0)
        qsort(trace->steps, trace->nsteps, sizeof *trace->steps, compare_steps);
    drop_doubles(trace);
    free(order);
    free(now);
}

size_t trace_comm(const struct trace *trace, size_t first)
{
    size_t n = 0;
    while (first + n < trace->nmembers && trace->members[first + n].nranks == trace->members[first].nranks &&
           strcmp(trace->members[first + n].id, trace->members[first].id) == 0)
        n++;
    return n;
}

const struct trace_entry *trace_find(const struct trace *trace, size_t member, bool is_message, int64_t number)
{
    struct trace_entry key = {.member = member, .is_message = is_message, .number = number};
    if (trace->nentries == 0)
        return NULL;
    return bsearch(&key, trace->entries, trace->nentries, sizeof key, compare_entries);
}

bool trace_range(const struct trace *trace, size_t member, int64_t *lowest, int64_t *highest)
{
    size_t low = 0, high = trace->nentries;
    while (low < high) { /* the first entry of the member */
        size_t middle = low + (high - low) / 2;
        if (trace->entries[middle].member < member)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == trace->nentries || trace->entries[low].member != member || trace->entries[low].is_message)
        return false;
    *lowest = trace->entries[low].number;
    while (low < trace->nentries && trace->entries[low].member == member && !trace->entries[low].is_message)
        *highest = trace->entries[low++].number;
    return true;
}

bool trace_synchronizes(const struct trace_entry *entry)
{
    static const char *const names[] = {"AllReduce",  "AllGather",      "ReduceScatter", "AlltoAll",
                                        "AllGatherV", "ReduceScatterV", "Barrier"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(entry->name, names[i]) == 0)
            return true;
    return false;
}

void trace_free(struct trace *trace)
{
    for (size_t i = 0; i < trace->nfiles; i++)
        json_decref(trace->documents[i]);
    trace_profile_free(trace);
    free(trace->documents);
    free(trace->files);
    free(trace->members);
    free(trace->entries);
    free(trace->steps);
    *trace = (struct trace){0};
}
