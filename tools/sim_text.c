/* SPDX-License-Identifier: Apache-2.0
 * What came of a simulation, for people. */
#include <stdlib.h>
#include <string.h>

#include "quantity.h"
#include "sim.h"

#define SHOWN_LINKS   5
#define SHOWN_REPORTS 8
#define SHOWN_BUCKETS 12

double sim_busbw(const struct sim_view *view, const motetSimulateOperationResult_t *operation)
{
    return operation->algGBs * bandwidth_factor(view->kind, view->query->call.nranks);
}

int sim_busiest_links(const struct sim_view *view, struct sim_link *links, int room, int *used, double *mean)
{
    int n = 0;
    double sum = 0;
    *used = 0;
    for (int l = 0; l < view->result.links; l++) {
        struct sim_link link;
        if (motetSimulateLink(view->simulation, l, &link.use) != motetSuccess || link.use.bytes <= 0)
            continue;
        link.share = view->result.timeNs > link.use.busyNs ? link.use.busyNs / view->result.timeNs : 1;
        sum += link.share;
        ++*used;
        int at = n < room ? n++ : room - 1;
        if (at == room - 1 && n == room && *used > room && links[at].share >= link.share)
            continue;
        for (; at > 0 && links[at - 1].share < link.share; at--)
            links[at] = links[at - 1];
        links[at] = link;
    }
    *mean = *used ? sum / *used : 0;
    return n;
}

static void print_operations(const struct sim_view *view)
{
    char size[QUANTITY_MAX], begin[QUANTITY_MAX], end[QUANTITY_MAX];
    int n = view->result.operations, shown = n > SHOWN_BUCKETS ? SHOWN_BUCKETS : n;
    printf("  %-14s %-20s %10s %10s %10s %8s\n", "operation", "algorithm", "size", "begins", "ends", "busbw");
    for (int i = 0; i < shown; i++) {
        motetSimulateOperationResult_t row;
        int index = i < shown / 2 ? i : n - shown + i;
        if (i == shown / 2 && shown < n)
            printf("  ... %d more\n", n - shown);
        if (motetSimulateOperation(view->simulation, index, &row) != motetSuccess)
            continue;
        printf("  %-14s %-20s %10s %10s %10s %8.4g\n", row.collective, row.algorithm, quantity_bytes(row.bytes, size),
               row.beginNs < 0 ? "never" : quantity_time(row.beginNs, begin),
               row.endNs < 0 ? "never" : quantity_time(row.endNs, end), sim_busbw(view, &row));
    }
}

static void print_links(const struct sim_view *view)
{
    struct sim_link links[SHOWN_LINKS];
    int used;
    double mean;
    char bytes[QUANTITY_MAX];
    int n = sim_busiest_links(view, links, SHOWN_LINKS, &used, &mean);
    if (n == 0)
        return;
    printf("\nlinks: busy %.1f %% of the time on average", 100 * mean);
    if (view->result.ranksSimulated == view->result.ranks)
        printf(", %d of %d are used", used, view->result.links);
    printf("; the busiest:\n");
    for (int i = 0; i < n; i++)
        printf("  %-28s %5.1f %%  %10s at %g GB/s\n", links[i].use.name, 100 * links[i].share,
               quantity_bytes(links[i].use.bytes, bytes), links[i].use.GBs);
}

void sim_print_path(const struct sim_view *view, FILE *out)
{
    motetSimulatePath_t path;
    char link[QUANTITY_MAX], slowest[QUANTITY_MAX], time[QUANTITY_MAX];
    if (motetSimulatePath(view->simulation, &path) != motetSuccess || path.timeNs <= 0)
        return;
    double whole = path.timeNs / 100;
    fprintf(out, "rank %d is last, at %s. It ends a chain of %.0f messages from rank %d on, each of which needs the one before: ",
            path.lastRank, quantity_time(path.timeNs, time), path.messages, path.firstRank);
    if (path.computeNs > 0)
        fprintf(out, "%.1f %% computing before it, ", path.computeNs / whole);
    fprintf(out, "%.1f %% on links, %.1f %% waiting for links, %.1f %% latency, %.1f %% cores.", path.wireNs / whole,
            path.queueNs / whole, path.latencyNs / whole, path.coreNs / whole);
    if (path.link[0])
        fprintf(out, " The link that held it longest is %s: %s, waiting included.", path.link, quantity_time(path.linkNs, link));
    if (path.slowestRank >= 0 && path.slowestNs > 0)
        fprintf(out, " The rank that held it longest is %d: %s.", path.slowestRank, quantity_time(path.slowestNs, slowest));
    fprintf(out, "\n");
}

static void print_failures(const struct sim_view *view)
{
    int dead = 0, told = 0, stuck = 0;
    double first = -1, last = -1;
    char begin[QUANTITY_MAX], end[QUANTITY_MAX];
    motetSimulateRank_t rank;
    for (int r = 0; r < view->result.ranks; r++) {
        if (motetSimulateRank(view->simulation, r, &rank) != motetSuccess || rank.doneNs >= 0)
            continue;
        dead += rank.dead;
        stuck += !rank.dead && rank.toldNs < 0;
        if (rank.toldNs < 0)
            continue;
        first = told == 0 || rank.toldNs < first ? rank.toldNs : first;
        last = rank.toldNs > last ? rank.toldNs : last;
        if (told++ < SHOWN_REPORTS)
            printf("  rank %d at %s: %s\n", r, quantity_time(rank.toldNs, begin), rank.report);
    }
    if (told > SHOWN_REPORTS)
        printf("  ... %d more\n", told - SHOWN_REPORTS);
    printf("%d rank%s dead, %d report%s an error", dead, dead == 1 ? " is" : "s are", told, told == 1 ? "s" : "");
    if (told)
        printf(" between %s and %s", quantity_time(first, begin), quantity_time(last, end));
    printf(", %d %s done", view->result.ranks - dead - told - stuck, view->result.ranks - dead - told - stuck == 1 ? "is" : "are");
    if (stuck)
        printf(", %d would wait for ever", stuck);
    printf("\n");
}

/* How much was simulated, and why the rest was not. */
static void print_extent(const struct sim_view *view, const motetSimulateOperationResult_t *first)
{
    const motetSimulateResult_t *result = &view->result;
    char bytes[QUANTITY_MAX], tile[QUANTITY_MAX];
    printf("messages   %.4g, %s in all", result->messages, quantity_bytes(result->bytes, bytes));
    if (first->tiles > 1)
        printf("; %.0f tiles of %s", first->tiles, quantity_bytes(first->tileBytes, tile));
    printf("\n");
    if (result->simulated >= result->messages * (1 - 1e-9))
        return;
    printf("simulated  %.4g of them:", result->simulated);
    if (result->ranksSimulated < result->ranks)
        printf(" rank r does what rank r mod %d does at the same times (schedules of %s ranks compared)%s", result->ranksSimulated,
               result->ranksCompared == result->ranks ? "all" : "some", first->tilesSimulated < first->tiles ? ";" : "");
    if (first->tilesSimulated < first->tiles)
        printf(" %.0f tiles, the others continued at the pace of the last %.0f", first->tilesSimulated,
               first->tilesSimulated - (double)((int)first->tilesSimulated / 2));
    printf("\n");
}

void sim_print(const struct sim_view *view)
{
    const motetExplainQuery_t *call = &view->query->call;
    motetSimulateOperationResult_t first = {0};
    char time[QUANTITY_MAX], compute[QUANTITY_MAX], exposed[QUANTITY_MAX];
    int hosts = call->nhosts ? call->nhosts : call->nranks;
    motetSimulateOperation(view->simulation, 0, &first);
    printf("%s on %d ranks, %d host%s, %s: %s\n\n", view->what, call->nranks, hosts, hosts == 1 ? "" : "s", view->network,
           first.algorithm ? first.algorithm : "");
    printf("time       %s", quantity_time(view->result.timeNs, time));
    if (view->is_step)
        printf(": computing %s, and %s that it does not hide", quantity_time(view->compute_ns, compute),
               quantity_time(view->result.timeNs > view->compute_ns ? view->result.timeNs - view->compute_ns : 0, exposed));
    else if (view->result.failedRanks == 0 && view->result.operations == 1 && first.algGBs > 0)
        printf(", busbw %.4g GB/s", sim_busbw(view, &first));
    printf("\n");
    print_extent(view, &first);
    if (view->result.operations > 1) {
        printf("\n");
        print_operations(view);
    }
    if (view->result.failedRanks > 0) {
        printf("\n");
        print_failures(view);
        return;
    }
    print_links(view);
    printf("\n");
    sim_print_path(view, stdout);
}
