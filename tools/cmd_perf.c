/* SPDX-License-Identifier: Apache-2.0
 * `motet perf`: times the collectives and checks their results. Here: the options, and what happens before and after the sweep. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "binding.h"
#include "command.h"
#include "perf_plot.h"
#include "perf_run.h"
#include "perf_table.h"

#define BYTES_MAX   ((int64_t)1 << 46)
#define MANY        1000000000
#define RANKS_MAX   65536
#define SWEEP_FIRST 8
#define SWEEP_LAST  (64 << 20)

#define AT(member) offsetof(struct perf_settings, member)

static const struct option_row perf_options[] = {
    {0, "ranks", "N", OPTION_INT, AT(processes), 0, RANKS_MAX, NULL, NULL, "Starts N processes, as motet run -n N would."},
    {'t', "nthreads", "N", OPTION_INT, AT(threads), 1, RANKS_MAX, NULL, "1",
     "Threads per process; ranks = processes x threads x -g."},
    {'g', "ngpus", "N", OPTION_INT, AT(devices), 1, RANKS_MAX, NULL, "1; without -t, -g, --ranks and launcher one per CPU",
     "Ranks per thread in nccl-tests; here each is a thread too."},
    {'b', "minbytes", "SIZE", OPTION_SIZE, AT(min_bytes), 0, BYTES_MAX, NULL, "32M", "First size."},
    {'e', "maxbytes", "SIZE", OPTION_SIZE, AT(max_bytes), 0, BYTES_MAX, NULL, "32M",
     "Last size. motet perf without -b, -e, -i and -f goes from 8 to 64M by a factor of 4."},
    {'i', "stepbytes", "SIZE", OPTION_SIZE, AT(step_bytes), 0, BYTES_MAX, NULL, "1M", "Step from size to size."},
    {'f', "stepfactor", "N", OPTION_INT, AT(step_factor), 1, 1024, NULL, "1: by step", "Factor from size to size."},
    {'n', "iters", "N", OPTION_INT, AT(iterations), 1, MANY, NULL, "20", "Calls that are timed."},
    {'m', "agg_iters", "N", OPTION_INT, AT(aggregation), 1, 1000000, NULL, "1", "Calls in one group."},
    {'w', "warmup_iters", "N", OPTION_INT, AT(warmups), 0, MANY, NULL, "1", "Calls before the first time is taken."},
    {'N', "run_cycles", "N", OPTION_INT, AT(cycles), 0, MANY, NULL, "1", "Repetitions of the whole table; 0: until it is stopped."},
    {'p', "parallel_init", "0|1", OPTION_INT, AT(parallel_init), 0, 1, NULL, "1",
     "Accepted: threads always initialise in parallel."},
    {'c', "check", "N", OPTION_INT, AT(checks), 0, MANY, NULL, "1",
     "Calls whose results are checked, every element exactly; 0: none."},
    {'o', "op", "OP", OPTION_TEXT, AT(op_name), 0, 0, "sum|prod|min|max|avg|mulsum|band|bor|bxor|all", "sum",
     "Operation of reductions, or all."},
    {'d', "datatype", "TYPE", OPTION_TEXT, AT(type_name), 0, 0,
     "int8|uint8|int16|uint16|int32|uint32|int64|uint64|half|float|double|bfloat16|f8e4m3|f8e5m2|bool|complex64|complex128|all",
     "float", "Datatype, or all."},
    {'r', "root", "RANK", OPTION_TEXT, AT(root_name), 0, 0, NULL, "0",
     "Root of rooted operations; all or -1: one after the other."},
    {'z', "blocking", "0-3", OPTION_INT, AT(blocking), 0, 3, NULL, "0",
     "1: a barrier after each call; 2: each call is waited for (always so without --stream); 3: a barrier after the last call."},
    {'y', "stream_null", "0|1", OPTION_INT, AT(null_stream), 0, 1, NULL, "1", "Accepted; --stream is motet's way."},
    {0, "stream", NULL, OPTION_FLAG, AT(stream), 0, 0, NULL, NULL, "Calls go to a stream instead of completing one by one."},
    {'T', "timeout", "SECONDS", OPTION_INT, AT(timeout_s), 0, MANY, NULL, "the library's", "A call that waits longer is an error."},
    {'G', "cudagraph", "0", OPTION_INT, AT(graph), 0, 0, NULL, "0", "Accepted as 0: there are no graphs on CPUs."},
    {'C', "report_cputime", "0|1", OPTION_INT, AT(cpu_time), 0, 1, NULL, "0",
     "The time columns show the time until the calls returned."},
    {'S', "report_timestamps", "0|1", OPTION_INT, AT(timestamps), 0, 1, NULL, "0", "Adds the time of day to each row."},
    {'M', "memory", "0|1", OPTION_INT, AT(memory), 0, 1, NULL, "0", "Reports memory at the end."},
    {'I', "per_iter_timing", "0|1", OPTION_INT, AT(per_iteration), 0, 1, NULL, "0",
     "Adds columns i_min, i_max, i_p99 and i_cv% to the table."},
    {'K', "per_iter_skip", "N", OPTION_INT, AT(per_iteration_skip), 0, MANY, NULL, "0", "First calls that percentiles leave out."},
    {'J', "output_file", "FILE", OPTION_TEXT, AT(json_path), 0, 0, NULL, NULL, "Writes the results as JSON."},
    {0, "json", "FILE", OPTION_TEXT, AT(json_path), 0, 0, NULL, NULL, "The same as -J."},
    {0, "plot", "FILE", OPTION_TEXT, AT(plot_path), 0, 0, NULL, NULL, "Draws time and bus bandwidth over size as SVG."},
    {0, "baseline", "FILE", OPTION_TEXT, AT(baseline_path), 0, 0, NULL, NULL,
     "Results that --json wrote before: prints new time / old time for each row; exit status 3 when one is beyond --tolerance."},
    {0, "tolerance", "PERCENT", OPTION_TEXT, AT(tolerance_text), 0, 0, NULL, "10%",
     "How much slower than the baseline still counts as equal."},
    {0, "no-latency", NULL, OPTION_FLAG, AT(no_latency), 0, 0, NULL, NULL,
     "Leaves out the table of percentiles and CPU time, and the calls it takes."},
    {'a', "average", "0-3", OPTION_INT, AT(average), 0, 3, NULL, "1",
     "The time of rank 0 (0), the mean (1), minimum (2) or maximum (3) of all ranks."},
    {'R', "local_register", "0-2", OPTION_INT, AT(registration), 0, 2, NULL, "0",
     "Buffers from motetMemAlloc and registered: 1 motetCommRegister, 2 a symmetric window."},
    {'u', "unalign", "N", OPTION_INT, AT(unalign), 0, 4096, NULL, "0", "Buffers begin N elements behind an aligned address."},
    {0, "expect-ranks", "N", OPTION_INT, AT(expect_ranks), 1, MANY, NULL, NULL, "Fails unless the job has N ranks in all."},
};

static int complain_collective(const char *name)
{
    char words[256] = "";
    size_t used = 0;
    for (int i = 0; i < perf_ncollectives; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i ? " " : "", perf_collectives[i].name);
    const char *nearest = options_nearest(name, words);
    return usage_error("perf", "unknown collective \"%s\"%s%s; there are %s", name, nearest ? "; did you mean " : "",
                       nearest ? nearest : "", words);
}

static int complain_name(const char *what, const char *name, const char *choices)
{
    const char *nearest = options_nearest(name, choices);
    return usage_error("perf", "%s: \"%s\" is none of %s%s%s", what, name, choices, nearest ? "; did you mean " : "",
                       nearest ? nearest : "");
}

static const char *choices_of(char letter)
{
    for (size_t i = 0; i < sizeof perf_options / sizeof perf_options[0]; i++)
        if (perf_options[i].letter == letter)
            return perf_options[i].choices;
    return "";
}

static bool parse_tolerance(const char *text, double *tolerance)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || value < 0 || (*end && strcmp(end, "%")))
        return false;
    *tolerance = value / 100;
    return true;
}

/* Names to numbers; 0 or a usage error's exit code. */
static int read_names(struct perf_settings *settings)
{
    int64_t root = -1;
    bool all_ops = !strcmp(settings->op_name, "all"), all_types = !strcmp(settings->type_name, "all");
    settings->op = all_ops ? -1 : perf_op_find(settings->op_name);
    settings->type = all_types ? -1 : perf_type_find(settings->type_name);
    if (!all_ops && settings->op < 0)
        return complain_name("--op", settings->op_name, choices_of('o'));
    if (!all_types && settings->type < 0)
        return complain_name("--datatype", settings->type_name, choices_of('d'));
    if (settings->op >= 0 && settings->type >= 0 && settings->collective->reduces &&
        !perf_op_fits((enum perf_op)settings->op, &perf_types[settings->type]))
        return usage_error("perf", "--op: %s is not defined on %s", settings->op_name, perf_types[settings->type].name);
    if (strcmp(settings->root_name, "all") && (!options_parse_int(settings->root_name, &root) || root < -1 || root >= RANKS_MAX))
        return usage_error("perf", "--root: \"%s\" is neither a rank nor all", settings->root_name);
    settings->root = (int)root;
    if (!parse_tolerance(settings->tolerance_text, &settings->tolerance))
        return usage_error("perf", "--tolerance: \"%s\" is not a percentage", settings->tolerance_text);
    return EXIT_OK;
}

/* Sizes and rank counts that were not given. -1 in the settings means "not given". */
static int fill_defaults(struct perf_settings *settings)
{
    const char *launcher;
    bool as_nccl_tests = strstr(program_invocation_short_name, "_perf") != NULL;
    bool sweep = !as_nccl_tests && settings->min_bytes < 0 && settings->max_bytes < 0 && settings->step_bytes < 0 &&
                 settings->step_factor < 0;
    team_launched_processes(&launcher);
    bool all_cpus = settings->threads < 0 && settings->devices < 0 && !launcher && settings->processes < 0 && !as_nccl_tests;
    if (settings->devices < 0)
        settings->devices = all_cpus ? binding_cpu_count() : 1;
    if (settings->threads < 0)
        settings->threads = 1;
    if (settings->min_bytes < 0)
        settings->min_bytes = sweep                                                        ? SWEEP_FIRST
                              : settings->max_bytes >= 0 && settings->max_bytes < 32 << 20 ? settings->max_bytes
                                                                                           : 32 << 20;
    if (settings->max_bytes < 0)
        settings->max_bytes = sweep ? SWEEP_LAST : settings->min_bytes > 32 << 20 ? settings->min_bytes : 32 << 20;
    if (settings->step_bytes < 0)
        settings->step_bytes = 1 << 20;
    if (settings->step_factor < 0)
        settings->step_factor = sweep ? 4 : 1;
    if (settings->min_bytes > settings->max_bytes)
        return usage_error("perf", "--minbytes %lld is more than --maxbytes %lld", (long long)settings->min_bytes,
                           (long long)settings->max_bytes);
    return EXIT_OK;
}

/* --ranks: starts this command again under motet run, with --ranks 0 at the end, which means that this has been done. */
static int run_processes(const struct perf_settings *settings, int argc, char **argv)
{
    static char *const before[] = {"run", "--quiet", "--no-prefix", "-n"};
    char number[24];
    char *own = command_own_path();
    char **words = calloc((size_t)argc + 16, sizeof *words);
    int n = 0;
    snprintf(number, sizeof number, "%lld", (long long)settings->processes);
    if (!words || !own) {
        free(words);
        free(own);
        return usage_error("perf", "cannot start processes: /proc is not mounted"), EXIT_FAILED;
    }
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        words[n++] = before[i];
    words[n++] = number;
    words[n++] = own;
    words[n++] = "perf";
    for (int i = 1; i < argc; i++)
        words[n++] = argv[i];
    words[n++] = "--ranks";
    words[n++] = "0";
    int code = command_run.run(n, words);
    free(words);
    free(own);
    return code;
}

/* Lowers max_bytes to what the memory of the host allows for two buffers of every local rank. */
static void fit_memory(struct perf_settings *settings, int nlocal, int nprocesses, bool reports)
{
    double available = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    char line[128];
    long long kilobytes;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld kB", &kilobytes) == 1)
            available = (double)kilobytes * 1024;
    if (file)
        fclose(file);
    double limit = available * 0.8 / (2.0 * nlocal * nprocesses);
    if (limit >= (double)settings->max_bytes || limit < (double)settings->min_bytes)
        return;
    settings->max_bytes = (int64_t)limit / 4096 * 4096;
    if (reports)
        printf("#\n# Reducing maxBytes to %lld due to memory limitation\n#\n", (long long)settings->max_bytes);
}

/* The smallest limit of all processes counts: they must sweep the same sizes. */
static bool agree_on_memory(struct perf_run *run)
{
    struct team *team = &run->team;
    int64_t limit;
    fit_memory(&run->settings, team->nlocal, team->nprocesses, perf_run_reports(run));
    limit = run->settings.max_bytes;
    if (team->processes && motetAllReduce(&limit, &limit, 1, motetInt64, motetMin, team->processes, NULL) != motetSuccess) {
        snprintf(team->error, sizeof team->error, "the processes cannot agree on sizes: %s", motetGetLastError(team->processes));
        team->failed = true;
        return false;
    }
    run->settings.max_bytes = limit;
    return true;
}

static bool check_ranks(const struct perf_run *run)
{
    const struct perf_settings *settings = &run->settings;
    int n = run->team.nranks;
    if (settings->expect_ranks && n != settings->expect_ranks)
        usage_error("perf", "the job has %d ranks (%d processes x %d), not %lld as expected", n, run->team.nprocesses,
                    run->team.nlocal, (long long)settings->expect_ranks);
    else if (settings->root >= n)
        usage_error("perf", "--root %d: there are %d ranks", settings->root, n);
    else if (settings->collective->power_of_two && (n & (n - 1)))
        usage_error("perf", "%s needs a power of two of ranks, and there are %d", settings->collective->name, n);
    else
        return true;
    return false;
}

static bool slower_than_baseline(const struct perf_run *run)
{
    int compared = 0, slower = 0;
    for (int i = 0; i < run->results.n; i++)
        for (int half = 0; half < 2; half++) {
            double ratio = run->results.rows[i].half[half].ratio;
            compared += ratio > 0;
            slower += ratio > 1 + run->settings.tolerance;
        }
    printf("# %-20s : %d of %d times are more than %g%% above %s %s\n", "Baseline", slower, compared, 100 * run->settings.tolerance,
           run->settings.baseline_path,
           !compared ? "NOTHING TO COMPARE"
           : slower  ? "FAILED"
                     : "OK");
    return slower > 0 || !compared;
}

static bool write_files(const struct perf_run *run, int argc, char **argv)
{
    const struct perf_settings *settings = &run->settings;
    char error[512], title[160], subtitle[256];
    bool ok = true;
    if (settings->json_path && !perf_json_write(settings->json_path, run, argc, argv, error, sizeof error)) {
        usage_error("perf", "%s", error);
        ok = false;
    }
    if (!settings->plot_path)
        return ok;
    snprintf(title, sizeof title, "%s, %d ranks", settings->collective->name, run->team.nranks);
    snprintf(subtitle, sizeof subtitle, "%d process%s x %d, %s (%s)", run->team.nprocesses, run->team.nprocesses > 1 ? "es" : "",
             run->team.nlocal, run->team.members[0].host, run->team.members[0].model);
    if (!perf_plot_write(settings->plot_path, &run->results, title, subtitle, error, sizeof error)) {
        usage_error("perf", "%s", error);
        ok = false;
    }
    return ok;
}

/* What rank 0's process does when all is measured. */
static int conclude(const struct perf_run *run, int argc, char **argv)
{
    const char *variable = getenv("NCCL_TESTS_MIN_BW");
    double min_bandwidth = variable ? strtod(variable, NULL) : 0;
    int code = EXIT_OK;
    perf_table_footer(&run->settings, &run->results, run->out_of_bounds, min_bandwidth);
    if (run->settings.baseline_path && slower_than_baseline(run))
        code = EXIT_SLOWER;
    if (min_bandwidth > 0 && perf_results_average(&run->results) < 0.9 * min_bandwidth)
        code = EXIT_FAILED;
    if (!write_files(run, argc, argv) || run->out_of_bounds)
        code = EXIT_FAILED;
    return code;
}

static int measure(struct perf_run *run, int argc, char **argv)
{
    char error[512];
    int code = EXIT_FAILED;
    const struct perf_settings *settings = &run->settings;
    run->started = (double)time(NULL);
    if (settings->timeout_s) {
        char text[32];
        snprintf(text, sizeof text, "%llds", (long long)settings->timeout_s);
        setenv("MOTET_TIMEOUT", text, 1);
    }
    if (settings->baseline_path && !perf_baseline_read(&run->baseline, settings->baseline_path, error, sizeof error))
        return usage_error("perf", "--baseline: %s", error);
    if (team_open(&run->team, (int)(settings->threads * settings->devices))) {
        if (!check_ranks(run))
            code = EXIT_USAGE;
        else if (agree_on_memory(run) && perf_run_ranks(run))
            code = perf_run_reports(run) ? conclude(run, argc, argv) : EXIT_OK;
    }
    if (run->team.failed)
        fprintf(stderr, "# error: %s\n", run->team.error);
    team_close(&run->team);
    pattern_free(&run->pattern);
    perf_baseline_free(&run->baseline);
    free(run->results.rows);
    return code;
}

static int start(struct perf_settings *settings, const struct arguments *rest, int argc, char **argv)
{
    const char *launcher;
    struct perf_run run = {0};
    if (rest->n == 0)
        return usage_error("perf", "which collective? usage: motet perf %s", command_perf.synopsis);
    if (rest->n > 1)
        return usage_error("perf", "\"%s\" is one word too many", rest->items[1]);
    settings->collective = perf_collective_find(rest->items[0]);
    if (!settings->collective)
        return complain_collective(rest->items[0]);
    int code = read_names(settings);
    if (code == EXIT_OK && settings->processes > 0) {
        team_launched_processes(&launcher);
        if (launcher)
            return usage_error("perf", "--ranks %lld: the processes were started by %s already", (long long)settings->processes,
                               launcher);
        return run_processes(settings, argc, argv);
    }
    if (code == EXIT_OK)
        code = fill_defaults(settings);
    if (code != EXIT_OK)
        return code;
    run.settings = *settings;
    return measure(&run, argc, argv);
}

static int run_perf(int argc, char **argv)
{
    struct perf_settings settings = {.threads = -1,
                                     .devices = -1,
                                     .processes = -1,
                                     .min_bytes = -1,
                                     .max_bytes = -1,
                                     .step_bytes = -1,
                                     .step_factor = -1,
                                     .iterations = 20,
                                     .warmups = 1,
                                     .aggregation = 1,
                                     .cycles = 1,
                                     .checks = 1,
                                     .average = 1,
                                     .parallel_init = 1,
                                     .null_stream = 1,
                                     .op_name = "sum",
                                     .type_name = "float",
                                     .root_name = "0",
                                     .tolerance_text = "10%"};
    struct arguments rest = {0};
    int code = EXIT_USAGE;
    enum options_result parsed = options_parse(&command_perf, argc, argv, &settings, false, &rest);
    if (parsed == OPTIONS_HELP) {
        help_print_command(&command_perf);
        code = EXIT_OK;
    } else if (parsed == OPTIONS_OK) {
        code = start(&settings, &rest, argc, argv);
    }
    free(rest.items);
    return code;
}

const struct command command_perf = {
    .name = "perf",
    .summary = "times the collectives like nccl-tests and checks every result",
    .synopsis = "COLLECTIVE [OPTIONS]",
    .description =
        "COLLECTIVE is all_reduce, all_gather, broadcast, reduce, reduce_scatter, alltoall, gather, scatter, sendrecv, hypercube or barrier. "
        "Options, columns, factors and the order of events are those of nccl-tests, and the program may be called by their names "
        "(all_reduce_perf -b 8 -e 256M -f 2 -g 8). Ranks are processes x -t x -g; those of one process are threads. Processes come from "
        "--ranks, or from motet run, torchrun, srun or mpirun.\n\n"
        "Data differ by rank and index and are chosen so that results are exact in every datatype and every order of operations; outputs "
        "are poisoned before, and every element is compared bit by bit. #wrong counts differing elements of all ranks; the first ones are "
        "shown on stderr.\n\n"
        "time is the mean of -n calls; algbw = size / time; busbw = algbw times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, "
        "reduce_scatter, alltoall, gather and scatter, 1 otherwise: what a link carries one way. GB/s are 10^9 bytes per second. A second "
        "table, in comment lines, has the percentiles of single calls on the slowest rank and the CPU time of a rank.",
    .exit_status =
        "0  all results are right\n1  a result is wrong, a call failed, or the average bandwidth is below NCCL_TESTS_MIN_BW\n"
        "2  wrong usage\n3  slower than the baseline, or nothing in it to compare with",
    .examples = "motet perf all_reduce # all CPUs, 8 bytes to 64 MB\n"
                "motet perf all_reduce --ranks 2 -b 8 -e 64M -f 2 # two processes\n"
                "motet perf reduce -d all -o all -r all -b 1K -e 1K # everything once, for its correctness\n"
                "motet run --hosts a,b all_reduce_perf -b 1M -e 1G -f 2 # one rank on each of two hosts\n"
                "motet perf all_reduce --json new.json --baseline old.json --tolerance 5% # a gate for changes",
    .words = "all_reduce all_gather broadcast reduce reduce_scatter alltoall gather scatter sendrecv hypercube barrier",
    .options = perf_options,
    .noptions = sizeof perf_options / sizeof perf_options[0],
    .run = run_perf,
};
