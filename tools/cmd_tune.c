/* SPDX-License-Identifier: Apache-2.0
 * `motet tune`: measures all algorithms and writes the table that the library chooses by. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "perf_collective.h"
#include "perf_team.h"
#include "tune_measure.h"
#include "tune_table.h"

#define MEGABYTE  ((int64_t)1 << 20)
#define RANKS_MAX 1024
#define JOBS_MAX  16 /* numbers of ranks in one go */

struct tune_settings {
    int64_t budget_ms, min_bytes, max_bytes, factor;
    const char *ranks, *output, *collective;
    bool json, quiet, started;
};

#define AT(member) offsetof(struct tune_settings, member)

static const struct option_row tune_options[] = {
    {'n', "ranks", "N,N,...", OPTION_TEXT, AT(ranks), 0, 0, NULL, "2, 4, ... up to twice the CPUs",
     "Numbers of ranks to measure, one job after the other on this host. Not under a launcher: there it is the job that is measured."},
    {0, "budget", "TIME", OPTION_TIME, AT(budget_ms), 100, 24 * 3600 * (int64_t)1000, NULL, "30s",
     "How long to measure, in all. Less time means fewer samples of each point."},
    {'o', "output", "FILE", OPTION_TEXT, AT(output), 0, 0, NULL, "tuning.json in the cache directory",
     "The table. Points of other jobs that are in it already stay."},
    {'b', "minbytes", "SIZE", OPTION_SIZE, AT(min_bytes), 4, 1024 * MEGABYTE, NULL, "8", "First size."},
    {'e', "maxbytes", "SIZE", OPTION_SIZE, AT(max_bytes), 4, 1024 * MEGABYTE, NULL, "32M", "Last size."},
    {'f', "stepfactor", "N", OPTION_INT, AT(factor), 2, 1024, NULL, "4", "Factor from size to size."},
    {'c', "collective", "NAME", OPTION_TEXT, AT(collective), 0, 0, NULL, "all of them", "Measures one collective only."},
    {0, "json", NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "Prints what was measured as JSON, predicted times beside."},
    {'q', "quiet", NULL, OPTION_FLAG, AT(quiet), 0, 0, NULL, NULL, "Shows no progress and prints no summary."},
    {0, "started", NULL, OPTION_FLAG, AT(started), 0, 0, NULL, NULL,
     "For jobs that this command starts: no advice about launchers."},
};

static int failed(const char *why)
{
    fprintf(stderr, "motet tune: %s\n", why);
    return EXIT_FAILED;
}

/* ---- One job: this process is a rank of it ---- */

static void summarize(const struct tune_plan *plan, const struct tune_point *points, int n, const char *file)
{
    int changed = 0;
    double gain = 1;
    for (int i = 0; i < n; i++) {
        const struct tune_time *best = &points[i].times[0], *chosen = NULL;
        for (int a = 0; a < points[i].n; a++) {
            best = points[i].times[a].us < best->us ? &points[i].times[a] : best;
            chosen = points[i].chosen && !strcmp(points[i].chosen, points[i].times[a].name) ? &points[i].times[a] : chosen;
        }
        if (!chosen || chosen->us <= 1.05 * best->us)
            continue;
        changed++;
        gain = chosen->us / best->us > gain ? chosen->us / best->us : gain;
    }
    printf("%d ranks on %d host%s: %d points measured; at %d another algorithm is more than 5%% faster", plan->nranks, plan->nhosts,
           plan->nhosts == 1 ? "" : "s", n, changed);
    if (changed)
        printf(", at most %.1f times", gain);
    printf("; written to %s\n", file);
}

static int conclude(const struct tune_settings *settings, const struct tune_plan *plan, const struct tune_point *points, int n)
{
    char why[1200];
    if (settings->json && plan->rank == 0)
        tune_table_print(plan, points, n);
    if (!tune_table_merge(settings->output, plan, points, n, why, sizeof why))
        return failed(why);
    if (plan->rank == 0 && !settings->quiet && !settings->json)
        summarize(plan, points, n, settings->output);
    return EXIT_OK;
}

/* One rank of each host writes the table there. */
static bool writes(const struct tune_plan *plan)
{
    const char *local = getenv("LOCAL_RANK");
    return local ? !strcmp(local, "0") : plan->rank == 0;
}

static int measure_job(const struct tune_settings *settings)
{
    struct tune_plan plan = {.budget_s = (double)settings->budget_ms / 1e3,
                             .min_bytes = (size_t)settings->min_bytes,
                             .max_bytes = (size_t)settings->max_bytes,
                             .factor = (int)settings->factor,
                             .only = settings->collective,
                             .shows_progress = !settings->quiet && isatty(2)};
    struct tune_point *points = NULL;
    char why[1200];
    int code = EXIT_OK;
    if (motetCommInitEnv(&plan.comm, NULL) != motetSuccess || motetCommShape(plan.comm, &plan.shape) != motetSuccess ||
        motetCommUserRank(plan.comm, &plan.rank) != motetSuccess) {
        code = failed(motetGetLastError(NULL));
        motetCommAbort(plan.comm);
        return code;
    }
    plan.nranks = plan.shape.nranks;
    plan.nhosts = plan.shape.nhosts;
    int n = tune_measure(&plan, &points, why);
    if (n < 0)
        code = failed(why);
    else if (plan.rank == 0 || writes(&plan))
        code = conclude(settings, &plan, points, n);
    free(points);
    if (code != EXIT_OK)
        motetCommAbort(plan.comm);
    else if (motetCommDestroy(plan.comm) != motetSuccess)
        code = failed(motetGetLastError(NULL));
    return code;
}

/* ---- Several jobs, one after the other ---- */

static int parse_ranks(const char *text, int64_t *ranks)
{
    char copy[256], *save;
    int n = 0;
    if (strlen(text) >= sizeof copy)
        return -1;
    strcpy(copy, text);
    for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        if (n == JOBS_MAX || !options_parse_int(word, &ranks[n]) || ranks[n] < 2 || ranks[n] > RANKS_MAX)
            return -1;
        n++;
    }
    return n ? n : -1;
}

static int usual_ranks(int64_t *ranks)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0;
    for (int64_t r = 2; r <= 2 * cpus && r <= 64; r *= 2)
        ranks[n++] = r;
    return n;
}

/* motet run -n RANKS motet tune with its share of the budget. */
static int run_job(const struct tune_settings *settings, int64_t ranks, int64_t budget_ms, int argc, char **argv)
{
    /* Bound, so that two ranks do not end up on one CPU while another is free. */
    static char *const before[] = {"run", "--quiet", "--no-prefix", "--bind", "core", "-n"};
    char number[24], budget[40], *own = command_own_path();
    char **words = calloc((size_t)argc + 24, sizeof *words);
    int n = 0;
    snprintf(number, sizeof number, "%lld", (long long)ranks);
    snprintf(budget, sizeof budget, "%lldms", (long long)budget_ms);
    if (!words || !own) {
        free(words);
        free(own);
        return failed("cannot start processes: /proc is not mounted");
    }
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        words[n++] = before[i];
    words[n++] = number;
    words[n++] = own;
    words[n++] = "tune";
    for (int i = 1; i < argc; i++)
        words[n++] = argv[i];
    words[n++] = "--started";
    words[n++] = "--budget";
    words[n++] = budget;
    words[n++] = "--output";
    words[n++] = (char *)settings->output;
    int code = command_run.run(n, words);
    free(words);
    free(own);
    return code;
}

static int run_jobs(const struct tune_settings *settings, int argc, char **argv)
{
    int64_t ranks[JOBS_MAX];
    int n = settings->ranks ? parse_ranks(settings->ranks, ranks) : usual_ranks(ranks), code = EXIT_OK;
    if (n < 0)
        return usage_error("tune", "--ranks: \"%s\" is not a list of up to %d numbers in [2, %d]", settings->ranks, JOBS_MAX,
                           RANKS_MAX);
    for (int i = 0; i < n && code == EXIT_OK; i++)
        code = run_job(settings, ranks[i], settings->budget_ms / n, argc, argv);
    return code;
}

static int start(struct tune_settings *settings, const struct arguments *rest, int argc, char **argv)
{
    const char *launcher = NULL;
    char usual[4096], why[1200];
    if (rest->n > 0)
        return usage_error("tune", "\"%s\" is one word too many", rest->items[0]);
    if (settings->collective && !perf_collective_find(settings->collective))
        return usage_error("tune", "--collective: \"%s\" is unknown", settings->collective);
    if (settings->min_bytes > settings->max_bytes)
        return usage_error("tune", "--minbytes exceeds --maxbytes");
    if (!settings->output) {
        if (!tune_table_usual_file(usual, sizeof usual, why, sizeof why))
            return failed(why);
        settings->output = usual;
    }
    team_launched_processes(&launcher);
    if (launcher && settings->ranks && !settings->started)
        return usage_error("tune", "--ranks: the processes were started by %s already", launcher);
    return launcher ? measure_job(settings) : run_jobs(settings, argc, argv);
}

static int run_tune(int argc, char **argv)
{
    struct tune_settings settings = {.budget_ms = 30000, .min_bytes = 8, .max_bytes = 32 * MEGABYTE, .factor = 4};
    struct arguments rest = {0};
    int code = EXIT_USAGE;
    enum options_result parsed = options_parse(&command_tune, argc, argv, &settings, false, &rest);
    if (parsed == OPTIONS_HELP) {
        help_print_command(&command_tune);
        code = EXIT_OK;
    } else if (parsed == OPTIONS_OK) {
        code = start(&settings, &rest, argc, argv);
    }
    free(rest.items);
    return code;
}

const struct command command_tune = {
    .name = "tune",
    .summary = "measures this machine, or a job's hosts, so that the library chooses better",
    .synopsis = "[OPTIONS]",
    .description =
        "Times every algorithm of every collective over sizes and writes the times to a table. The library reads the table in the cache "
        "directory, or the one that MOTET_TUNER_FILE names, and where it has times for the communicator at hand, the fastest algorithm "
        "runs instead of the one that is predicted to be. Times count only on machines of the same kind (processors, caches, kernel), for "
        "the same numbers of ranks, hosts and CPUs; elsewhere predictions go on to decide. A table never changes the order in which floats "
        "are added.\n\n"
        "Alone it measures jobs of several sizes on this host. Under motet run, or another launcher, the job itself is measured, on all its "
        "hosts, and the table is written on each of them.",
    .exit_status = "0  measured and written\n1  a call failed, or the table could not be written\n2  wrong usage",
    .examples = "motet tune # this machine: 2 ranks and more, half a minute\n"
                "motet tune -n 2,3 --budget 5s -o table.json # two sizes of jobs, into a file\n"
                "motet run --hosts a:2,b:2 motet tune # a job on two hosts",
    .words = NULL,
    .options = tune_options,
    .noptions = sizeof tune_options / sizeof tune_options[0],
    .run = run_tune,
};
