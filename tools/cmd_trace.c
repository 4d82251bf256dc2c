/* SPDX-License-Identifier: Apache-2.0
 * `motet trace`: merges the dumps of ranks, says what went wrong, and draws a timeline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "trace.h"

#define FILE_MOST ((size_t)1 << 30)

struct trace_settings {
    bool json;
    const char *output;
};

static const struct option_row trace_options[] = {
    {'o', "output", "FILE", OPTION_TEXT, offsetof(struct trace_settings, output), 0, 0, NULL, NULL,
     "Writes a timeline for Perfetto (ui.perfetto.dev) or chrome://tracing."},
    {0, "json", NULL, OPTION_FLAG, offsetof(struct trace_settings, json), 0, 0, NULL, NULL, "Prints JSON instead of text."},
};

/* The whole file; malloced. NULL with errno. */
static char *read_file(const char *name, size_t *len)
{
    FILE *in = fopen(name, "re");
    char *text = NULL;
    size_t capacity = 0, n = 1;
    *len = 0;
    if (!in)
        return NULL;
    while (n > 0 && *len < FILE_MOST) {
        if (*len + 65536 > capacity) {
            capacity = capacity ? 2 * capacity : 1 << 20;
            char *grown = realloc(text, capacity);
            if (!grown) {
                errno = ENOMEM;
                break;
            }
            text = grown;
        }
        n = fread(text + *len, 1, 65536, in);
        *len += n;
    }
    bool whole = n == 0 && !ferror(in);
    int error = whole ? 0 : *len >= FILE_MOST ? EFBIG : errno;
    fclose(in);
    if (whole)
        return text;
    free(text);
    errno = error;
    return NULL;
}

/* Returns how many files could not be used. */
static int load(struct trace *trace, const struct arguments *files)
{
    int bad = 0;
    char why[256];
    for (int i = 0; i < files->n; i++) {
        size_t len;
        char *text = read_file(files->items[i], &len);
        if (!text)
            snprintf(why, sizeof why, "%s", strerror(errno));
        if (!text || !trace_add(trace, files->items[i], text, len, why, sizeof why)) {
            fprintf(stderr, "motet trace: %s: %s\n", files->items[i], why);
            bad++;
        }
        free(text);
    }
    trace_sort(trace);
    return bad;
}

static void print_comm(const json_t *comm)
{
    const json_t *findings = json_object_get(comm, "findings"), *missing = json_object_get(comm, "missing");
    printf("communicator \"%s\" (%lld ranks, id %s), %lld calls\n", json_string_value(json_object_get(comm, "communicator")),
           (long long)json_integer_value(json_object_get(comm, "nranks")), json_string_value(json_object_get(comm, "id")),
           (long long)json_integer_value(json_object_get(comm, "calls")));
    for (size_t i = 0; i < json_array_size(missing) && i < 16; i++)
        printf("%s%lld%s", i ? ", " : "  no dump of rank ", (long long)json_integer_value(json_array_get(missing, i)),
               i + 1 == json_array_size(missing) ? "\n"
               : i == 15                         ? ", ...\n"
                                                 : "");
    for (size_t i = 0; i < json_array_size(findings); i++)
        printf("  %s\n", json_string_value(json_array_get(findings, i)));
    if (json_array_size(findings) == 0)
        printf("  nothing is wrong: all records match, and nobody waits\n");
}

static void print_profile(const json_t *profile)
{
    const json_t *calls = json_object_get(profile, "calls");
    printf("profile %s (pid %lld)%s\n", json_string_value(json_object_get(profile, "profile")),
           (long long)json_integer_value(json_object_get(profile, "pid")),
           json_array_size(calls) ? "" : ": no collectives meanwhile in the files of its process");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *row = json_array_get(calls, i);
        double ns = json_number_value(json_object_get(row, "ns")), hidden_ns = json_number_value(json_object_get(row, "hidden_ns"));
        json_int_t n = json_integer_value(json_object_get(row, "calls"));
        printf("  %s: %lld calls of %.3f ms, %.0f %% hidden behind computation\n", json_string_value(json_object_get(row, "call")),
               (long long)n, ns / 1e6 / (double)n, ns > 0 ? 100 * hidden_ns / ns : 0.0);
    }
}

static void print_clocks(const struct trace *trace, size_t unknown)
{
    for (size_t f = 1; f < trace->nfiles; f++) {
        size_t same = 0;
        while (strcmp(trace->files[same].host_id, trace->files[f].host_id) != 0)
            same++;
        if (same == f && trace->files[f].offset_ns != 0)
            printf("clock of host %s: %.3f ms before that of %s; corrected\n", trace->files[f].host,
                   (double)trace->files[f].offset_ns / 1e6, trace->files[0].host);
    }
    if (unknown)
        printf("%zu clocks could not be compared: no common calls\n", unknown);
    for (size_t f = 0; f < trace->nfiles; f++)
        if (trace->files[f].steps_lost > 0)
            printf("%s: %lld older steps are lost (see MOTET_TRACE_STEPS)\n", trace->files[f].name,
                   (long long)trace->files[f].steps_lost);
}

static bool draw(const struct trace *trace, const char *name)
{
    FILE *out = fopen(name, "we");
    bool good = out && trace_chrome(trace, out);
    if (out)
        good = fclose(out) == 0 && good;
    if (!good)
        fprintf(stderr, "motet trace: %s: %s\n", name, strerror(errno));
    return good;
}

static int merge(const struct trace_settings *settings, const struct arguments *files)
{
    struct trace trace = {0};
    json_t *comms = json_array();
    int code = load(&trace, files) ? EXIT_FAILED : EXIT_OK;
    size_t unknown = trace_align(&trace);
    trace_analyse(&trace, comms);
    size_t ncomms = json_array_size(comms);
    trace_profile_analyse(&trace, comms);
    if (settings->json) {
        json_dumpf(comms, stdout, JSON_INDENT(2));
        printf("\n");
    } else {
        for (size_t i = 0; i < json_array_size(comms); i++)
            (i < ncomms ? print_comm : print_profile)(json_array_get(comms, i));
        print_clocks(&trace, unknown);
    }
    if (settings->output && !draw(&trace, settings->output))
        code = EXIT_FAILED;
    json_decref(comms);
    trace_free(&trace);
    return code;
}

static int run_trace(int argc, char **argv)
{
    struct trace_settings settings = {0};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_trace, argc, argv, &settings, false, &rest);
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_trace);
    else if (rest.n == 0)
        code = usage_error("trace", "no files; motet status --dump, MOTET_DUMP_FILE and MOTET_TRACE make them");
    else
        code = merge(&settings, &rest);
    free(rest.items);
    return code;
}

const struct command command_trace = {
    .name = "trace",
    .summary = "merges dumps of the flight recorder, says what went wrong and draws a timeline",
    .synopsis = "[OPTIONS] FILE...",
    .description =
        "Reads files that MOTET_DUMP_FILE, MOTET_DUMP_SIGNAL, motet status --dump or MOTET_TRACE made, one per process, and prints for "
        "each communicator: its error, ranks of which there is no dump, the first call in which ranks differ, ranks that are behind, "
        "messages that never ended, and who came late and by how much. Clocks of hosts are aligned by calls that no rank can leave "
        "before all have come.\n\n"
        "With --output a timeline is written, one row per rank. Files of MOTET_TRACE have exact times and the steps inside calls.\n\n"
        "Files that PyTorch's profiler exported may stand among the others. They are drawn below the ranks, on the same clock, and it is "
        "said how much of each collective ran while its process computed.",
    .exit_status = "0  all files were read\n1  a file could not be read or written; the others were used\n2  wrong usage",
    .examples = "motet trace dump-*.json # what went wrong\n"
                "motet trace -o timeline.json trace-*.json # for Perfetto\n"
                "motet trace -o timeline.json trace-*.json profile-*.json # with PyTorch's profiles",
    .words = NULL,
    .options = trace_options,
    .noptions = sizeof trace_options / sizeof trace_options[0],
    .run = run_trace,
};
