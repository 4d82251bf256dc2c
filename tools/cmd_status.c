/* SPDX-License-Identifier: Apache-2.0
 * `motet status`: asks running processes what their ranks do, and prints a table and a verdict per communicator. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "motet.h"
#include "status_job.h"

struct status_settings {
    bool json, watch, dump, counters;
    int64_t interval_ms, timeout_ms;
};

static const struct option_row status_options[] = {
    {'w', "watch", NULL, OPTION_FLAG, offsetof(struct status_settings, watch), 0, 0, NULL, NULL,
     "Asks again and again, until the job is gone."},
    {'i', "interval", "TIME", OPTION_TIME, offsetof(struct status_settings, interval_ms), 100, 3600000, NULL, "2s",
     "How long --watch pauses between two questions."},
    {'t', "timeout", "TIME", OPTION_TIME, offsetof(struct status_settings, timeout_ms), 100, 60000, NULL, "2s",
     "How long to wait for answers, of other hosts too."},
    {0, "dump", NULL, OPTION_FLAG, offsetof(struct status_settings, dump), 0, 0, NULL, NULL,
     "Makes every process of the job write what its flight recorder remembers, and prints the names of the files."},
    {'c', "counters", NULL, OPTION_FLAG, offsetof(struct status_settings, counters), 0, 0, NULL, NULL,
     "Prints where the time of each rank's calls went, and what it sent and received, instead of what it is in."},
    {0, "json", NULL, OPTION_FLAG, offsetof(struct status_settings, json), 0, 0, NULL, NULL, "Prints JSON instead of tables."},
};

/* Which processes to ask, and whose rows to keep. */
struct target {
    int pid;          /* 0: all of this user */
    const char *word; /* communicator; NULL: all */
};

/* ---- Asking ---- */

static bool is_covered(const struct status_job *job, int pid)
{
    for (size_t i = 0; i < job->n; i++)
        if (job->rows[i].pid == pid)
            return true;
    return false;
}

/* Asks one process. *direct: it did not answer and its memory was read. */
static bool ask(struct status_job *job, int pid, const struct status_settings *settings, bool *direct)
{
    char *text = NULL, why[256];
    if (motetStatus(pid, (int)settings->timeout_ms, &text) != motetSuccess)
        return false;
    *direct = strstr(text, "\"direct\":true") != NULL;
    bool added = status_job_add(job, text, why, sizeof why);
    if (!added)
        fprintf(stderr, "motet status: process %d: %s\n", pid, why);
    free(text);
    return added;
}

/* All processes that nobody asked before has told of. False: there are none. */
static bool ask_all(struct status_job *job, const struct status_settings *settings, const struct target *target)
{
    int *pids = NULL, n = 0;
    bool direct, any = false;
    if (motetStatusProcesses(&pids, &n) != motetSuccess)
        return false;
    for (int i = 0; i < n; i++)
        if (pids[i] != target->pid && !is_covered(job, pids[i]))
            any |= ask(job, pids[i], settings, &direct);
    free(pids);
    return any;
}

static bool collect(struct status_job *job, const struct status_settings *settings, const struct target *target)
{
    bool direct = false;
    if (!target->pid) {
        if (!ask_all(job, settings, target))
            return false;
    } else {
        if (!ask(job, target->pid, settings, &direct)) {
            fprintf(stderr, "motet status: %s\n", motetGetLastError(NULL));
            return false;
        }
        if (direct) /* it is stopped: its neighbours know the others */
            ask_all(job, settings, target);
        status_job_filter_pid(job, target->pid);
    }
    if (target->word)
        status_job_filter(job, target->word);
    return true;
}

/* ---- Printing ---- */

static const char *format_bytes(char text[32], int64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 32, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

static void format_call(char *text, size_t len, const struct status_call *call)
{
    if (call->is_message)
        snprintf(text, len, "%s", call->what);
    else
        snprintf(text, len, "#%" PRId64 " %s", call->number, call->what);
}

static void format_now(char *text, size_t len, const struct status_row *row)
{
    if (row->process == 'T' || row->process == 't')
        snprintf(text, len, "stopped");
    else if (strcmp(row->state, "alive") != 0)
        snprintf(text, len, "%s", row->state);
    else if (row->has_current)
        format_call(text, len, &row->current);
    else
        snprintf(text, len, "user code");
}

/* By which transport the call goes, else by which the rank reaches the others. */
static void format_transport(char *text, size_t len, const struct status_row *row)
{
    if (row->has_current && row->current.transport[0])
        snprintf(text, len, "%s", row->current.transport);
    else
        snprintf(text, len, "%s%s%s%s%s", row->direct > 0 ? "P2P/direct" : "", row->direct > 0 && row->shm > 0 ? "+" : "",
                 row->shm > 0 ? "SHM" : "", (row->direct > 0 || row->shm > 0) && row->net > 0 ? "+" : "",
                 row->net > 0 ? "NET/Socket" : "");
}

enum { COLUMNS_MAX = 12, CELL = 96 };

/* A table: its heads, and one line of it as texts. */
struct table {
    int ncolumns;
    const char *heads[COLUMNS_MAX];
    void (*fill)(char cells[COLUMNS_MAX][CELL], const struct status_row *row);
};

static void fill_who(char cells[COLUMNS_MAX][CELL], const struct status_row *row)
{
    snprintf(cells[0], CELL, "%d", row->rank);
    snprintf(cells[1], CELL, "%d", row->pid);
    snprintf(cells[2], CELL, "%.90s", row->host);
}

static void fill_state(char cells[COLUMNS_MAX][CELL], const struct status_row *row)
{
    char duration[32], bytes[32];
    double since_s = row->has_current ? row->current.began_s : row->idle_s;
    fill_who(cells, row);
    if (row->has_last)
        format_call(cells[3], CELL, &row->last);
    else
        snprintf(cells[3], CELL, "-");
    format_now(cells[4], CELL, row);
    snprintf(cells[5], CELL, "%s", status_duration(duration, since_s));
    if (row->waits && row->has_current && row->waits_for >= 0)
        snprintf(cells[6], CELL, "rank %d", row->waits_for);
    else
        snprintf(cells[6], CELL, "%s", row->waits && row->has_current ? "others" : "-");
    snprintf(cells[7], CELL, "%s", format_bytes(bytes, row->bytes));
    format_transport(cells[8], CELL, row);
}

/* A process that does not answer tells no counters: its memory was read. */
static void fill_counters(char cells[COLUMNS_MAX][CELL], const struct status_row *row)
{
    const double times[] = {row->time_s, row->wait_s, row->move_s, row->reduce_s};
    char text[32];
    fill_who(cells, row);
    snprintf(cells[3], CELL, "%" PRId64, row->calls);
    snprintf(cells[4], CELL, "%" PRId64, row->messages);
    for (int c = 5; c < COLUMNS_MAX; c++)
        snprintf(cells[c], CELL, "-");
    if (!row->has_counters)
        return;
    for (int t = 0; t < 4; t++)
        snprintf(cells[5 + t], CELL, "%s", status_duration(text, times[t]));
    snprintf(cells[9], CELL, "%" PRId64, row->long_waits);
    snprintf(cells[10], CELL, "%s", format_bytes(text, row->sent));
    snprintf(cells[11], CELL, "%s", format_bytes(text, row->received));
}

static const struct table state_table = {
    9, {"RANK", "PID", "HOST", "LAST COMPLETED", "NOW IN", "FOR", "WAITS FOR", "PAYLOAD", "TRANSPORT"}, fill_state};
static const struct table counters_table = {
    12,
    {"RANK", "PID", "HOST", "CALLS", "MESSAGES", "IN CALLS", "WAITING", "MOVING", "REDUCING", "LONG WAITS", "SENT", "RECEIVED"},
    fill_counters};

static void print_table(const struct table *table, const struct status_row *rows, size_t n)
{
    static char cells[COLUMNS_MAX][CELL];
    int widths[COLUMNS_MAX], last = table->ncolumns - 1;
    for (int c = 0; c <= last; c++)
        widths[c] = (int)strlen(table->heads[c]);
    for (size_t i = 0; i < n; i++) {
        table->fill(cells, &rows[i]);
        for (int c = 0; c <= last; c++)
            widths[c] = (int)strlen(cells[c]) > widths[c] ? (int)strlen(cells[c]) : widths[c];
    }
    for (int c = 0; c <= last; c++)
        printf("%-*s%s", c < last ? widths[c] : 0, table->heads[c], c < last ? "  " : "\n");
    for (size_t i = 0; i < n; i++) {
        table->fill(cells, &rows[i]);
        for (int c = 0; c <= last; c++)
            printf("%-*s%s", c < last ? widths[c] : 0, cells[c], c < last ? "  " : "\n");
    }
}

static void print_comm(const struct status_job *job, size_t first, size_t n, const struct table *table)
{
    char verdict[4096];
    bool stuck;
    const char *late = status_late(job, first, n);
    printf("communicator \"%s\" (%d ranks, id %s)\n", job->rows[first].comm, job->rows[first].nranks, job->rows[first].id);
    print_table(table, &job->rows[first], n);
    printf("=> %s\n", status_verdict(job, first, n, verdict, sizeof verdict, &stuck));
    if (late)
        printf("=> slowest: %s\n", late);
}

static void print_tables(const struct status_job *job, const struct table *table)
{
    for (size_t first = 0, n; first < job->n; first += n) {
        n = status_job_comm(job, first);
        if (first > 0)
            printf("\n");
        print_comm(job, first, n, table);
    }
    for (size_t i = 0; i < job->nsilent; i++)
        printf("process %d on host %s did not answer\n", job->silent[i].pid, job->silent[i].host);
}

static void print_json(const struct status_job *job)
{
    json_t *root = json_object(), *comms = json_array(), *silent = json_array();
    for (size_t first = 0, n; first < job->n; first += n) {
        char verdict[4096];
        bool stuck;
        json_t *comm = json_object(), *ranks = json_array();
        n = status_job_comm(job, first);
        status_verdict(job, first, n, verdict, sizeof verdict, &stuck);
        for (size_t i = first; i < first + n; i++)
            json_array_append(ranks, job->rows[i].source);
        json_object_set_new(comm, "name", json_string(job->rows[first].comm));
        json_object_set_new(comm, "id", json_string(job->rows[first].id));
        json_object_set_new(comm, "nranks", json_integer(job->rows[first].nranks));
        json_object_set_new(comm, "stuck", json_boolean(stuck));
        json_object_set_new(comm, "verdict", json_string(verdict));
        if (status_late(job, first, n))
            json_object_set_new(comm, "slowest", json_string(status_late(job, first, n)));
        json_object_set_new(comm, "ranks", ranks);
        json_array_append_new(comms, comm);
    }
    for (size_t i = 0; i < job->nsilent; i++)
        json_array_append_new(silent, json_pack("{s:i, s:s}", "pid", job->silent[i].pid, "host", job->silent[i].host));
    json_object_set_new(root, "communicators", comms);
    json_object_set_new(root, "silent", silent);
    json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

/* ---- Dumps ---- */

/* Prints the files that the processes of one job wrote. Returns whether all could. */
static bool dump_job(int pid, const struct status_settings *settings, json_t *all)
{
    char *text = NULL;
    bool good = true;
    if (motetStatusDump(pid, (int)settings->timeout_ms, &text) != motetSuccess) {
        fprintf(stderr, "motet status: %s\n", motetGetLastError(NULL));
        return false;
    }
    json_t *answer = json_loads(text, 0, NULL), *rows = json_object_get(answer, "rows"),
           *silent = json_object_get(answer, "silent");
    free(text);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_array_append(all, json_array_get(rows, i));
        const char *error = json_string_value(json_object_get(json_array_get(rows, i), "error"));
        good &= error && !error[0];
    }
    good &= json_array_size(silent) == 0 && json_array_size(rows) > 0;
    for (size_t i = 0; i < json_array_size(silent); i++)
        fprintf(stderr, "motet status: process %d on host %s did not write in time\n",
                (int)json_integer_value(json_object_get(json_array_get(silent, i), "pid")),
                json_string_value(json_object_get(json_array_get(silent, i), "host")));
    json_decref(answer);
    return good;
}

static bool was_dumped(const json_t *all, int pid)
{
    for (size_t i = 0; i < json_array_size(all); i++)
        if (json_integer_value(json_object_get(json_array_get(all, i), "pid")) == pid)
            return true;
    return false;
}

static const char *member(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void print_dumps(const json_t *all)
{
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *row = json_array_get(all, i);
        const char *directory = member(row, "directory"), *error = member(row, "error");
        printf("%s:%s%s%s%s%s\n", member(row, "host"), directory, directory[0] ? "/" : "", member(row, "file"),
               error[0] ? ": " : "", error);
    }
}

static int dump(const struct status_settings *settings, const struct target *target)
{
    json_t *all = json_array();
    int *pids = NULL, n = 0, only = target->pid;
    bool good = true;
    if (!only && motetStatusProcesses(&pids, &n) != motetSuccess)
        n = 0;
    for (int i = 0; i < (only ? 1 : n); i++)
        if (only || !was_dumped(all, pids[i]))
            good &= dump_job(only ? only : pids[i], settings, all);
    free(pids);
    if (settings->json)
        json_dumpf(all, stdout, JSON_INDENT(2)), printf("\n");
    else
        print_dumps(all);
    bool any = json_array_size(all) > 0;
    json_decref(all);
    if (!any && !only)
        fprintf(stderr, "motet status: no process of this user on this host uses motet\n");
    return any && good ? EXIT_OK : EXIT_FAILED;
}

/* ---- The command ---- */

static int show_once(const struct status_settings *settings, const struct target *target)
{
    struct status_job job = {0};
    bool found = collect(&job, settings, target);
    if (found && job.n > 0) {
        if (settings->watch && isatty(STDOUT_FILENO))
            printf("\033[H\033[2J");
        if (settings->json)
            print_json(&job);
        else
            print_tables(&job, settings->counters ? &counters_table : &state_table);
    } else if (!target->pid && !target->word) {
        fprintf(stderr, "motet status: no process of this user on this host uses motet\n");
    } else if (found) {
        fprintf(stderr, "motet status: there is no such communicator\n");
    }
    bool any = job.n > 0;
    status_job_free(&job);
    return any ? EXIT_OK : EXIT_FAILED;
}

static int show(const struct status_settings *settings, const struct target *target)
{
    const struct timespec pause = {settings->interval_ms / 1000, settings->interval_ms % 1000 * 1000000};
    int code = show_once(settings, target);
    while (settings->watch && code == EXIT_OK) {
        fflush(stdout);
        nanosleep(&pause, NULL);
        if (show_once(settings, target) != EXIT_OK)
            break; /* the job is over */
    }
    return code;
}

static int run_status(int argc, char **argv)
{
    struct status_settings settings = {.interval_ms = 2000, .timeout_ms = 2000};
    struct arguments rest = {0};
    struct target target = {0};
    int64_t pid;
    int code;
    enum options_result parsed = options_parse(&command_status, argc, argv, &settings, false, &rest);
    if (parsed == OPTIONS_OK && rest.n == 1 && options_parse_int(rest.items[0], &pid) && pid > 0 && pid <= INT32_MAX)
        target.pid = (int)pid;
    else if (parsed == OPTIONS_OK && rest.n == 1)
        target.word = rest.items[0];
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_status), code = EXIT_OK;
    else if (rest.n > 1)
        code = usage_error("status", "\"%s\" is too much: one process or one communicator", rest.items[1]);
    else if (settings.dump && (settings.watch || target.word))
        code = usage_error("status", "--dump takes no %s", settings.watch ? "--watch" : "communicator, but a process");
    else
        code = settings.dump ? dump(&settings, &target) : show(&settings, &target);
    free(rest.items);
    return code;
}

const struct command command_status = {
    .name = "status",
    .summary = "says what every rank of a running job is doing, who waits for whom, and who is to blame",
    .synopsis = "[OPTIONS] [PID | COMMUNICATOR]",
    .description =
        "Asks a running process what the ranks of its communicators do, on all hosts, and prints one table per communicator: the "
        "last call that each rank completed, what it is in now and for how long, whom it waits for, the payload of its calls, and "
        "the transport; and below it the verdict in a sentence, and who keeps the others waiting all the time, if somebody does. Without an argument all processes of this user on this host that "
        "use motet are asked; a process is named by its pid, a communicator by its name or the beginning of its id.\n\n"
        "The program need not cooperate and is not disturbed: motet's own thread answers, and where even that cannot (a stopped "
        "process), neighbours or the shared memory tell. Only the same user or root may ask.",
    .exit_status =
        "0  the job told\n1  there is no such job, or it may not be asked; with --dump: a file could not be written\n2  wrong usage",
    .examples = "motet status # all jobs of this user\n"
                "motet status 4711 # the job of process 4711\n"
                "motet status --watch world # the communicator \"world\", every 2 seconds\n"
                "motet status --counters # where the time of the calls went so far\n"
                "motet status --dump 4711 # files for motet trace",
    .words = "",
    .options = status_options,
    .noptions = sizeof status_options / sizeof status_options[0],
    .run = run_status,
};
