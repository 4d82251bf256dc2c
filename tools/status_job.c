/* SPDX-License-Identifier: Apache-2.0
 * Rows of status from JSON. The text comes from a process of the same user, perhaps of another version: every member may be missing or
 * of another type, and then has a value that means nothing. */
#include "status_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : otherwise;
}

static int64_t int_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static int small_of(const json_t *object, const char *key)
{
    int64_t value = int_of(object, key);
    return value >= -1 && value <= INT32_MAX ? (int)value : -1;
}

static double real_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static bool read_call(const json_t *object, struct status_call *call)
{
    if (!json_is_object(object))
        return false;
    *call = (struct status_call){
        .what = text_of(object, "what", "?"),
        .name = text_of(object, "name", "?"),
        .algorithm = text_of(object, "algorithm", ""),
        .protocol = text_of(object, "protocol", ""),
        .transport = text_of(object, "transport", ""),
        .is_message = json_is_true(json_object_get(object, "is_message")),
        .number = int_of(object, "number"),
        .history = int_of(object, "history"),
        .began_s = real_of(object, "began_s"),
        .ended_s = real_of(object, "ended_s"),
    };
    return true;
}

static int64_t sum_of(const json_t *object)
{
    int64_t sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int64_t more = json_integer_value(value);
        sum += more > 0 && more < INT64_MAX - sum ? more : 0; /* whatever stands there */
    }
    return sum;
}

static void read_counters(const json_t *object, struct status_row *row)
{
    const json_t *counters = json_object_get(object, "counters"), *late = json_object_get(object, "late");
    row->has_counters = json_is_object(counters);
    row->time_s = real_of(counters, "time_s");
    row->wait_s = real_of(counters, "wait_s");
    row->move_s = real_of(counters, "move_s");
    row->reduce_s = real_of(counters, "reduce_s");
    row->long_waits = int_of(counters, "long_waits");
    row->sent = sum_of(json_object_get(counters, "sent"));
    row->received = sum_of(json_object_get(counters, "received"));
    row->late = text_of(late, "sentence", NULL);
    row->late_saved = real_of(late, "saved");
}

static void read_row(json_t *object, struct status_row *row)
{
    const json_t *peers = json_object_get(object, "peers");
    *row = (struct status_row){
        .comm = text_of(object, "comm", ""),
        .id = text_of(object, "id", ""),
        .host = text_of(object, "host", "?"),
        .state = text_of(object, "state", "?"),
        .error = text_of(object, "error", NULL),
        .nranks = small_of(object, "nranks"),
        .rank = small_of(object, "rank"),
        .pid = small_of(object, "pid"),
        .process = text_of(object, "process", "?")[0],
        .calls = int_of(object, "calls"),
        .messages = int_of(object, "messages"),
        .bytes = int_of(object, "bytes"),
        .queued = int_of(object, "queued"),
        .direct = small_of(peers, "P2P/direct"),
        .shm = small_of(peers, "SHM"),
        .net = small_of(peers, "NET/Socket"),
        .idle_s = real_of(object, "idle_s"),
        .waits = json_is_number(json_object_get(object, "waits_s")),
        .waits_s = real_of(object, "waits_s"),
        .waits_for = json_is_integer(json_object_get(object, "waits_for")) ? small_of(object, "waits_for") : -1,
        .source = object,
    };
    read_counters(object, row);
    row->has_current = read_call(json_object_get(object, "current"), &row->current);
    row->has_last = read_call(json_object_get(object, "last"), &row->last);
}

/* Larger communicators first: the world above its parts. */
static int compare_rows(const void *a, const void *b)
{
    const struct status_row *x = a, *y = b;
    if (x->nranks != y->nranks)
        return x->nranks > y->nranks ? -1 : 1;
    int order = strcmp(x->comm, y->comm);
    if (order == 0)
        order = strcmp(x->id, y->id);
    return order != 0 ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

static bool same_comm(const struct status_row *a, const struct status_row *b)
{
    return strcmp(a->id, b->id) == 0 && a->nranks == b->nranks;
}

/* Sorts, and drops all but one row of each rank. */
static void tidy(struct status_job *job)
{
    size_t kept = 0;
    if (job->n > 0)
        qsort(job->rows, job->n, sizeof *job->rows, compare_rows);
    for (size_t i = 0; i < job->n; i++)
        if (kept == 0 || !same_comm(&job->rows[kept - 1], &job->rows[i]) || job->rows[kept - 1].rank != job->rows[i].rank)
            job->rows[kept++] = job->rows[i];
    job->n = kept;
}

static bool is_known(const struct status_job *job, int pid, const char *host)
{
    for (size_t i = 0; i < job->n; i++)
        if (job->rows[i].pid == pid && strcmp(job->rows[i].host, host) == 0)
            return true;
    for (size_t i = 0; i < job->nsilent; i++)
        if (job->silent[i].pid == pid && strcmp(job->silent[i].host, host) == 0)
            return true;
    return false;
}

/* Those of whom somebody else could tell are not silent. */
static void add_silent(struct status_job *job, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        int pid = small_of(entry, "pid");
        const char *host = text_of(entry, "host", "?");
        struct status_silent *grown = is_known(job, pid, host) ? NULL : realloc(job->silent, (job->nsilent + 1) * sizeof *grown);
        if (!grown)
            continue;
        job->silent = grown;
        job->silent[job->nsilent++] = (struct status_silent){host, pid};
    }
}

bool status_job_add(struct status_job *job, const char *text, char *why, size_t len)
{
    json_error_t error;
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &error), *rows = json_object_get(document, "rows");
    if (!document || !json_is_array(rows)) {
        if (document)
            snprintf(why, len, "the answer has no rows");
        else
            snprintf(why, len, "the answer is not JSON: %s (line %d)", error.text, error.line);
        json_decref(document);
        return false;
    }
    json_t **documents = realloc(job->documents, (job->ndocuments + 1) * sizeof *documents);
    if (documents)
        job->documents = documents;
    struct status_row *grown = realloc(job->rows, (job->n + json_array_size(rows) + 1) * sizeof *grown);
    if (grown)
        job->rows = grown;
    if (!documents || !grown) {
        snprintf(why, len, "out of memory");
        json_decref(document);
        return false;
    }
    job->documents[job->ndocuments++] = document;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_is_object(json_array_get(rows, i)))
            read_row(json_array_get(rows, i), &job->rows[job->n++]);
    tidy(job);
    add_silent(job, json_object_get(document, "silent"));
    return true;
}

void status_job_filter(struct status_job *job, const char *word)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->n; i++)
        if (strcmp(job->rows[i].comm, word) == 0 || (strlen(word) >= 4 && strncmp(job->rows[i].id, word, strlen(word)) == 0))
            job->rows[kept++] = job->rows[i];
    job->n = kept;
}

void status_job_filter_pid(struct status_job *job, int pid)
{
    size_t kept = 0;
    for (size_t first = 0, n; first < job->n; first += n) {
        bool has = false;
        n = status_job_comm(job, first);
        for (size_t i = first; i < first + n; i++)
            has |= job->rows[i].pid == pid;
        for (size_t i = first; has && i < first + n; i++)
            job->rows[kept++] = job->rows[i];
    }
    job->n = kept;
}

size_t status_job_comm(const struct status_job *job, size_t first)
{
    size_t n = 0;
    while (first + n < job->n && same_comm(&job->rows[first], &job->rows[first + n]))
        n++;
    return n;
}

void status_job_free(struct status_job *job)
{
    for (size_t i = 0; i < job->ndocuments; i++)
        json_decref(job->documents[i]);
    free(job->documents);
    free(job->rows);
    free(job->silent);
    *job = (struct status_job){0};
}
