/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_table.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "bandwidth.h"

void perf_table_squeeze(double number, int width, char *text, size_t size)
{
    for (int i = 0; i < 4; i++) {
        int len = 0;
        switch (i) {
        case 0:
            len = snprintf(text, size, "%.2f", number);
            break;
        case 1:
            len = snprintf(text, size, "%.1f", number);
            break;
        case 2:
            len = snprintf(text, size, "%.0f", number);
            break;
        default:
            snprintf(text, size, "%.1e", number);
            break;
        }
        if (len && len <= width)
            return;
    }
}

static int count_hosts(const struct team *team)
{
    int hosts = 0;
    for (int i = 0; i < team->nranks; i++) {
        bool seen = false;
        for (int j = 0; !seen && j < i; j++)
            seen = !strcmp(team->members[i].host, team->members[j].host);
        hosts += !seen;
    }
    return hosts;
}

static void print_step(const struct perf_settings *settings)
{
    if (settings->step_factor > 1)
        printf("step: %lld(factor)", (long long)settings->step_factor);
    else
        printf("step: %lld(bytes)", (long long)settings->step_bytes);
}

void perf_table_header(const struct perf_settings *settings, const struct team *team)
{
    const char *launcher;
    int version = 0;
    motetGetVersion(&version);
    team_launched_processes(&launcher);
    printf("# motet version %s nccl-headers=%d nccl-library=%d\n", MOTET_VERSION_STRING, MOTET_VERSION_CODE, version);
    printf("# Collective test starting: %s_perf\n", settings->collective->name);
    printf("# nThread %lld nGpus %lld minBytes %lld maxBytes %lld ", (long long)settings->threads, (long long)settings->devices,
           (long long)settings->min_bytes, (long long)settings->max_bytes);
    print_step(settings);
    printf(" warmup iters: %lld iters: %lld agg iters: %lld validation: %lld graph: 0 unalign: %lld\n",
           (long long)settings->warmups, (long long)settings->iterations, (long long)settings->aggregation,
           (long long)settings->checks, (long long)settings->unalign);
    int hosts = count_hosts(team);
    printf("#\n# %d ranks = %d process%s%s%s x %lld thread%s (-t) x %lld (-g), on %d host%s; every rank is a thread\n",
           team->nranks, team->nprocesses, team->nprocesses > 1 ? "es" : "", launcher ? " of " : "", launcher ? launcher : "",
           (long long)settings->threads, settings->threads > 1 ? "s" : "", (long long)settings->devices, hosts,
           hosts > 1 ? "s" : "");
    printf("# GB/s = 10^9 bytes per second, one way; busbw = algbw * %s\n", bandwidth_formula(settings->collective->kind));
    if (team->nranks == 1)
        printf("# one rank: nothing is communicated, so busbw says nothing\n");
    if (!settings->collective->in_place)
        printf("# %s has no in-place form: the second group of columns repeats the first\n", settings->collective->name);
    printf("#\n# Using devices\n");
    for (int rank = 0; rank < team->nranks; rank++) {
        const struct team_member *member = &team->members[rank];
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [cpu %d] %s\n", rank, 0, (int)member->pid, member->host,
               rank % team->nlocal, (int)member->cpu, member->model);
    }
    fflush(stdout);
}

static void print_times(const struct perf_settings *settings, const char *const names[4], const char *const samples[4])
{
    for (int half = 0; half < 2; half++) {
        printf("  %7s  %6s  %6s  %6s", names[0], names[1], names[2], names[3]);
        if (settings->per_iteration)
            printf("  %7s  %7s  %7s  %6s", samples[0], samples[1], samples[2], samples[3]);
    }
    if (settings->timestamps)
        printf(" %19s", names[0][0] == 't' ? "timestamp" : "");
    printf(" \n");
}

void perf_table_columns(const struct perf_settings *settings)
{
    static const char *const names[4] = {"time", "algbw", "busbw", "#wrong"}, *const units[4] = {"(us)", "(GB/s)", "(GB/s)", ""};
    static const char *const samples[4] = {"i_min", "i_max", "i_p99", "i_cv%"}, *const sample_units[4] = {"(us)", "(us)", "(us)",
                                                                                                          ""};
    int extra = settings->per_iteration ? 35 : 0;
    printf("#\n# %10s  %12s  %8s  %6s  %6s           out-of-place          %*s             in-place          \n", "", "", "", "",
           "", extra, "");
    printf("# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
    print_times(settings, names, samples);
    printf("# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
    print_times(settings, units, sample_units);
    fflush(stdout);
}

void perf_table_row_begin(const struct perf_row *row)
{
    printf("%12zu  %12zu  %8s  %6s  %6d", row->size, row->count, row->type, row->op, row->root);
    fflush(stdout);
}

void perf_table_row_half(const struct perf_settings *settings, const struct perf_half *half)
{
    char time[32], algbw[32], busbw[32], minimum[32], maximum[32], p99[32], spread[32];
    perf_table_squeeze(half->time, 7, time, sizeof time);
    perf_table_squeeze(half->algbw, 6, algbw, sizeof algbw);
    perf_table_squeeze(half->busbw, 6, busbw, sizeof busbw);
    printf("  %7s  %6s  %6s", time, algbw, busbw);
    if (half->wrong < 0)
        printf("  %6s", "N/A");
    else
        printf("  %6g", (double)half->wrong);
    if (settings->per_iteration) {
        perf_table_squeeze(half->min, 7, minimum, sizeof minimum);
        perf_table_squeeze(half->max, 7, maximum, sizeof maximum);
        perf_table_squeeze(half->p99, 7, p99, sizeof p99);
        perf_table_squeeze(half->spread, 6, spread, sizeof spread);
        printf("  %7s  %7s  %7s  %6s", minimum, maximum, p99, spread);
    }
    fflush(stdout);
}

void perf_table_row_end(const struct perf_settings *settings)
{
    if (settings->timestamps) {
        char text[32];
        time_t now = time(NULL);
        struct tm local;
        localtime_r(&now, &local);
        strftime(text, sizeof text, "%F %T", &local);
        printf(" %s", text);
    }
    printf("\n");
    fflush(stdout);
}

void perf_table_latencies(const struct perf_settings *settings, const struct perf_results *results)
{
    bool compared = settings->baseline_path != NULL;
    printf("#\n# Time of single calls on the slowest rank, and CPU time of a rank per call\n");
    printf("# %10s  %8s  %6s  %6s", "", "", "", "");
    for (int half = 0; half < 2; half++)
        printf("  %-*s", compared ? 43 : 34, half ? "in-place" : "out-of-place");
    printf("\n# %10s  %8s  %6s  %6s", "size", "type", "redop", "root");
    for (int half = 0; half < 2; half++)
        printf("  %7s  %7s  %7s  %7s%s", "p50", "p99", "max", "cpu", compared ? "  to old" : "");
    printf("\n# %10s  %8s  %6s  %6s", "(B)", "", "", "");
    for (int half = 0; half < 2; half++)
        printf("  %7s  %7s  %7s  %7s%s", "(us)", "(us)", "(us)", "(us)", compared ? "        " : "");
    printf("\n");
    for (int i = 0; i < results->n; i++) {
        const struct perf_row *row = &results->rows[i];
        printf("# %10zu  %8s  %6s  %6d", row->size, row->type, row->op, row->root);
        for (int half = 0; half < 2; half++) {
            const double times[4] = {row->half[half].p50, row->half[half].p99, row->half[half].max, row->half[half].cpu};
            for (int k = 0; k < 4; k++) {
                char text[32];
                perf_table_squeeze(times[k], 7, text, sizeof text);
                printf("  %7s", text);
            }
            if (compared && row->half[half].ratio > 0)
                printf("  %5.2fx", row->half[half].ratio);
            else if (compared)
                printf("  %6s", "-");
        }
        printf("\n");
    }
    fflush(stdout);
}

void perf_table_footer(const struct perf_settings *settings, const struct perf_results *results, int64_t out_of_bounds,
                       double min_bandwidth)
{
    double average = perf_results_average(results);
    bool fast_enough = min_bandwidth <= 0 || average >= 0.9 * min_bandwidth;
    if (settings->memory) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("# %-20s : %.1f MB resident at most, in this process\n", "Memory usage", (double)usage.ru_maxrss / 1024);
    }
    printf("# %-20s : %lld %s\n", "Out of bounds values", (long long)out_of_bounds, out_of_bounds ? "FAILED" : "OK");
    printf("# %-20s : %g %s\n", "Avg bus bandwidth", average, min_bandwidth > 0 ? (fast_enough ? "OK" : "FAILED") : "");
    printf("#\n# Collective test concluded: %s_perf\n#\n", settings->collective->name);
    fflush(stdout);
}
