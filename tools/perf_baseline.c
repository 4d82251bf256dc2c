/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_baseline.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perf_run.h"

static const char *const half_keys[2] = {"out_of_place", "in_place"};

static bool read_row(const json_t *from, struct perf_baseline_row *row)
{
    const json_t *root = json_object_get(from, "root");
    const char *type = json_string_value(json_object_get(from, "type"));
    const char *op = json_string_value(json_object_get(from, "redop"));
    const json_t *size = json_object_get(from, "size");
    if (!type || !op || !json_is_integer(size))
        return false;
    row->size = (size_t)json_integer_value(size);
    /* nccl-tests writes the root as it stands in the table, as text. */
    row->root = json_is_string(root) ? atoi(json_string_value(root)) : (int)json_integer_value(root);
    for (int half = 0; half < 2; half++)
        row->time[half] = json_number_value(json_object_get(json_object_get(from, half_keys[half]), "time"));
    row->type = strdup(type);
    row->op = strdup(op);
    return row->type && row->op;
}

bool perf_baseline_read(struct perf_baseline *baseline, const char *path, char *error, size_t len)
{
    json_error_t problem;
    json_t *root = json_load_file(path, 0, &problem);
    const json_t *results = json_object_get(root, "results");
    *baseline = (struct perf_baseline){0};
    if (!root || !json_is_array(results)) {
        if (root)
            snprintf(error, len, "%s has no \"results\": it was not written by --json", path);
        else
            snprintf(error, len, "%s: %s (line %d)", path, problem.text, problem.line);
        json_decref(root);
        return false;
    }
    baseline->rows = calloc(json_array_size(results) + 1, sizeof *baseline->rows);
    for (size_t i = 0; baseline->rows && i < json_array_size(results); i++)
        if (read_row(json_array_get(results, i), &baseline->rows[baseline->n]))
            baseline->n++;
    json_decref(root);
    if (!baseline->n)
        snprintf(error, len, "%s has no rows", path);
    return baseline->n > 0;
}

double perf_baseline_ratio(const struct perf_baseline *baseline, const struct perf_row *row, int half)
{
    for (int i = 0; i < baseline->n; i++) {
        const struct perf_baseline_row *old = &baseline->rows[i];
        if (old->size == row->size && old->root == row->root && !strcmp(old->type, row->type) && !strcmp(old->op, row->op) &&
            old->time[half] > 0)
            return row->half[half].time / old->time[half];
    }
    return 0;
}

void perf_baseline_free(struct perf_baseline *baseline)
{
    for (int i = 0; i < baseline->n; i++) {
        free(baseline->rows[i].type);
        free(baseline->rows[i].op);
    }
    free(baseline->rows);
    *baseline = (struct perf_baseline){0};
}

static json_t *time_text(double seconds)
{
    char text[32];
    time_t whole = (time_t)seconds;
    struct tm parts;
    gmtime_r(&whole, &parts);
    strftime(text, sizeof text, "%FT%TZ", &parts);
    return json_string(text);
}

static json_t *half_json(const struct perf_half *half)
{
    json_t *object = json_pack("{s:f s:f s:f s:f s:f s:f s:f s:f s:f}", "time", half->time, "alg_bw", half->algbw, "bus_bw",
                               half->busbw, "min", half->min, "p50", half->p50, "p99", half->p99, "max", half->max,
                               "spread_percent", half->spread, "cpu_time", half->cpu);
    json_object_set_new(object, "nwrong", half->wrong < 0 ? json_string("N/A") : json_integer(half->wrong));
    if (half->ratio > 0)
        json_object_set_new(object, "ratio_to_baseline", json_real(half->ratio));
    return object;
}

static json_t *results_json(const struct perf_run *run)
{
    json_t *array = json_array();
    for (int i = 0; i < run->results.n; i++) {
        const struct perf_row *row = &run->results.rows[i];
        json_t *object =
            json_pack("{s:I s:I s:s s:s s:i s:I}", "size", (json_int_t)row->size, "count", (json_int_t)row->count, "type",
                      row->type, "redop", row->op, "root", row->root, "actual_iterations", (json_int_t)run->settings.iterations);
        for (int half = 0; half < 2; half++)
            json_object_set_new(object, half_keys[half], half_json(&row->half[half]));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *devices_json(const struct team *team)
{
    json_t *array = json_array();
    for (int rank = 0; rank < team->nranks; rank++) {
        const struct team_member *member = &team->members[rank];
        json_array_append_new(array, json_pack("{s:i s:i s:s s:i s:s}", "rank", rank, "pid", (int)member->pid, "hostname",
                                               member->host, "cpu", (int)member->cpu, "device_name", member->model));
    }
    return array;
}

static json_t *config_json(const struct perf_run *run)
{
    const struct perf_settings *settings = &run->settings;
    json_t *config = json_pack("{s:i s:i s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I s:I}", "nranks", run->team.nranks, "nprocesses",
                               run->team.nprocesses, "nthreads", (json_int_t)settings->threads, "ngpus",
                               (json_int_t)settings->devices, "minimum_bytes", (json_int_t)settings->min_bytes, "maximum_bytes",
                               (json_int_t)settings->max_bytes, "step_bytes", (json_int_t)settings->step_bytes, "step_factor",
                               (json_int_t)settings->step_factor, "warmup_iters", (json_int_t)settings->warmups, "iterations",
                               (json_int_t)settings->iterations, "aggregated_iterations", (json_int_t)settings->aggregation,
                               "validation", (json_int_t)settings->checks, "unalign", (json_int_t)settings->unalign);
    json_object_set_new(config, "devices", devices_json(&run->team));
    return config;
}

static json_t *environment_json(void)
{
    json_t *object = json_object();
    for (char **at = environ; *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[128];
        if (strncmp(*at, "MOTET_", 6) || !equals || (size_t)(equals - *at) >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *at), *at);
        if (strcmp(name, "MOTET_SECRET") && strcmp(name, "MOTET_UNIQUE_ID"))
            json_object_set_new(object, name, json_string(equals + 1));
    }
    return object;
}

static json_t *run_json(const struct perf_run *run, int argc, char **argv)
{
    json_t *root = json_object();
    json_t *args = json_array();
    int library = 0;
    motetGetVersion(&library);
    for (int i = 0; i < argc; i++)
        json_array_append_new(args, json_string(argv[i]));
    json_object_set_new(root, "version", json_integer(3));
    json_object_set_new(root, "motet_version", json_string(MOTET_VERSION_STRING));
    json_object_set_new(root, "nccl_version", json_integer(library));
    json_object_set_new(root, "collective", json_string(run->settings.collective->name));
    json_object_set_new(root, "start_time", time_text(run->started));
    json_object_set_new(root, "args", args);
    json_object_set_new(root, "env", environment_json());
    json_object_set_new(root, "config", config_json(run));
    json_object_set_new(root, "results", results_json(run));
    json_object_set_new(root, "out_of_bounds",
                        json_pack("{s:I s:b}", "count", (json_int_t)run->out_of_bounds, "okay", run->out_of_bounds == 0));
    json_object_set_new(root, "average_bus_bandwidth",
                        json_pack("{s:f s:b}", "bandwidth", perf_results_average(&run->results), "okay", 1));
    json_object_set_new(root, "errors", json_array());
    json_object_set_new(root, "end_time", time_text((double)time(NULL)));
    return root;
}

bool perf_json_write(const char *path, const struct perf_run *run, int argc, char **argv, char *error, size_t len)
{
    char temporary[4200];
    json_t *root = run_json(run, argc, argv);
    snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid());
    bool ok = !json_dump_file(root, temporary, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) && !rename(temporary, path);
    if (!ok) {
        snprintf(error, len, "cannot write %s: %s", path, strerror(errno));
        unlink(temporary);
    }
    json_decref(root);
    return ok;
}
