/* SPDX-License-Identifier: Apache-2.0
 * The job report for people: the verdict first, then a line per rank, then what was called. */
#include <string.h>

#include "report.h"

#define RANKS_SHOWN 64

static const char *size_text(uint64_t bytes, char *text, size_t len)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 4)
        value /= 1024, unit++;
    snprintf(text, len, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return text;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

static void print_verdict(FILE *out, motetComm_t comm, const struct motet_verdict_of_job *verdict)
{
    char text[512];
    const char *remedy;
    motet_report_verdict_text(verdict, text, sizeof text);
    fprintf(out, "verdict: %s\n", text);
    if (verdict->straggler.rank >= 0) {
        motet_report_straggler_text(&verdict->straggler, motet_report_host(comm, verdict->straggler.rank), text, sizeof text);
        fprintf(out, "slowest: %s\n", text);
    } else {
        fprintf(out, "slowest: no rank stands out\n");
    }
    for (int i = 0; (remedy = motet_report_remedy(verdict, i)); i++)
        fprintf(out, "%s %s\n", i == 0 ? "remedies:" : "         ", remedy);
}

/* Which transports carried anything. */
static void transports_text(const struct motet_account *account, char *text, size_t len)
{
    size_t used = 0;
    text[0] = '\0';
    for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++)
        if (account->sent[t] + account->received[t] > 0 && used < len)
            used += (size_t)snprintf(text + used, len - used, "%s%s", used ? "+" : "", motet_report_transports[t]);
    if (!used)
        snprintf(text, len, "none");
}

static void print_rank(FILE *out, motetComm_t comm, const struct motet_standing *standings, int rank)
{
    const struct motet_account *a = standings[rank].account;
    char sent[32], received[32], transports[64];
    uint64_t sum_sent = 0, sum_received = 0;
    if (!a) {
        fprintf(out, "%5d  %-15.15s  said nothing\n", rank, motet_report_host(comm, rank));
        return;
    }
    for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++) {
        sum_sent += a->sent[t];
        sum_received += a->received[t];
    }
    transports_text(a, transports, sizeof transports);
    uint64_t moving = a->time_ns - a->wait_ns - a->reduce_ns;
    fprintf(out, "%5d  %-15.15s %8.2f %7.1f%% %7.1f%% %7.1f%% %7.1f%% %8.1f%% %7.1f%% %7.1f%% %9s %9s  %s%s\n", rank,
            motet_report_host(comm, rank), (double)a->wall_ns / 1e9, percent(a->time_ns, a->wall_ns),
            percent(a->wait_ns, a->wall_ns), percent(a->wait_late_ns, a->wall_ns), percent(moving, a->wall_ns),
            percent(a->reduce_ns, a->wall_ns), percent(motet_report_exposed(a), a->wall_ns),
            percent(motet_report_overlapped(a), a->wall_ns), size_text(sum_sent, sent, sizeof sent),
            size_text(sum_received, received, sizeof received), transports, a->final || rank == 0 ? "" : "  (not ended)");
}

static void print_ranks(FILE *out, motetComm_t comm, const struct motet_standing *standings)
{
    fprintf(
        out,
        "\n rank  host              wall s  in call waiting (late)   moving reducing  exposed overlap      sent  received  via\n");
    for (int r = 0; r < comm->nranks && r < RANKS_SHOWN; r++)
        print_rank(out, comm, standings, r);
    if (comm->nranks > RANKS_SHOWN)
        fprintf(out, "  ... and %d more (all are in the JSON form)\n", comm->nranks - RANKS_SHOWN);
}

static void print_operations(FILE *out, const struct motet_standing *standings, int nranks)
{
    bool any = false;
    for (int k = 0; k < MOTET_TALLY_KINDS; k++)
        for (int c = 0; c < MOTET_TALLY_CLASSES; c++) {
            uint64_t calls = 0, bytes = 0;
            char text[32];
            for (int r = 0; r < nranks; r++) {
                calls += standings[r].account ? standings[r].account->calls[k][c] : 0;
                bytes += standings[r].account ? standings[r].account->bytes[k][c] : 0;
            }
            if (calls == 0)
                continue;
            if (!any)
                fprintf(out, "\noperation       up to     calls of all ranks      bytes\n");
            any = true;
            fprintf(out, "%-14s %6s %22llu  %9s\n", motet_report_operations[k], motet_report_classes[c], (unsigned long long)calls,
                    size_text(bytes, text, sizeof text));
        }
}

/* Middle of the steps by their histogram. */
static uint64_t median_step(const struct motet_account *account)
{
    uint64_t seen = 0;
    for (unsigned b = 0; b < MOTET_LAG_BUCKETS; b++) {
        seen += account->step_lengths[b];
        if (2 * seen >= account->steps)
            return motet_lag_least_ns(b) * 5 / 4;
    }
    return 0;
}

static void print_steps(FILE *out, const struct motet_standing *standings, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        const struct motet_account *a = standings[r].account;
        if (!a || a->steps == 0)
            continue;
        fprintf(
            out,
            "\nsteps of rank %d: %llu, %.3f ms each on average, about %.3f ms in the middle, the longest %.3f ms; %.1f %% of their time "
            "exposed\n",
            r, (unsigned long long)a->steps, (double)a->step_ns / 1e6 / (double)a->steps, (double)median_step(a) / 1e6,
            (double)a->step_longest_ns / 1e6, percent(a->step_exposed_ns, a->step_ns));
        return; /* of one rank: steps end together */
    }
}

static void print_memory(FILE *out, const struct motet_standing *standings, int nranks)
{
    uint64_t most = 0;
    char text[32];
    int whose = 0;
    for (int r = 0; r < nranks; r++)
        if (standings[r].account && standings[r].account->memory_bytes > most)
            most = standings[r].account->memory_bytes, whose = r;
    fprintf(out, "\nmemory: up to %s on a rank (rank %d, communicators: %llu)\n", size_text(most, text, sizeof text), whose,
            (unsigned long long)(standings[whose].account ? standings[whose].account->communicators : 0));
}

void motet_report_print_text(FILE *out, motetComm_t comm, const struct motet_standing *standings)
{
    struct motet_verdict_of_job verdict = motet_report_judge(standings, comm->nranks);
    fprintf(out, "motet report: comm \"%s\", %d rank%s on %d host%s, %.2f s\n", comm->options.name, comm->nranks,
            comm->nranks == 1 ? "" : "s", comm->nhosts, comm->nhosts == 1 ? "" : "s",
            standings[0].account ? (double)standings[0].account->wall_ns / 1e9 : 0.0);
    print_verdict(out, comm, &verdict);
    print_ranks(out, comm, standings);
    print_operations(out, standings, comm->nranks);
    print_steps(out, standings, comm->nranks);
    print_memory(out, standings, comm->nranks);
}
