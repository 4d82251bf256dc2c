/* SPDX-License-Identifier: Apache-2.0
 * What `motet explain` prints: candidates, reasons, sizes, shorthands, steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "quantity.h"

double explain_busbw(const struct explain_view *view, const motetExplainCandidate_t *candidate)
{
    if (!(candidate->timeNs > 0) || !view->moves)
        return 0;
    return (double)view->query->bytes / candidate->timeNs * bandwidth_factor(view->kind, view->query->nranks);
}

double explain_busy_share(const motetExplainCandidate_t *candidate)
{
    double share = candidate->timeNs > 0 ? candidate->busiestNs * candidate->tiles / candidate->timeNs : 0;
    return share < 1 ? share : 1;
}

char *explain_resource(const motetExplainCandidate_t *candidate, char *text, size_t size)
{
    static const char *const names[] = {[motetExplainCore] = "the core of rank %d",
                                        [motetExplainRankLink] = "rank %d's own link",
                                        [motetExplainHostLink] = "host %d's link to the other hosts"};
    const char *name = names[candidate->busiest], *number = strstr(name, "%d");
    snprintf(text, size, "%.*s%d%s", (int)(number - name), name, candidate->busiestWhere, number + 2);
    return text;
}

/* Those that may run by time, then the others by time, then those that do not exist here. */
static int rank_of(const motetExplainCandidate_t *candidate)
{
    return !candidate->fits ? 2 : candidate->excludedBy ? 1 : 0;
}

static int by_time(const void *a, const void *b)
{
    const motetExplainCandidate_t *left = *(const motetExplainCandidate_t *const *)a,
                                  *right = *(const motetExplainCandidate_t *const *)b;
    if (rank_of(left) != rank_of(right))
        return rank_of(left) - rank_of(right);
    if (left->chosen != right->chosen)
        return right->chosen - left->chosen;
    return left->timeNs < right->timeNs ? -1 : left->timeNs > right->timeNs;
}

static void sort(const struct explain_view *view, const motetExplainCandidate_t *sorted[EXPLAIN_CANDIDATES])
{
    for (int i = 0; i < view->n; i++)
        sorted[i] = &view->candidates[i];
    qsort(sorted, (size_t)view->n, sizeof *sorted, by_time);
}

static char *rounds_text(const motetExplainCandidate_t *candidate, char text[QUANTITY_MAX])
{
    snprintf(text, QUANTITY_MAX, candidate->rounds ? "%d" : "-", candidate->rounds);
    return text;
}

void explain_print_candidates(const struct explain_view *view)
{
    const motetExplainCandidate_t *sorted[EXPLAIN_CANDIDATES];
    char a[QUANTITY_MAX], b[QUANTITY_MAX], c[QUANTITY_MAX], d[QUANTITY_MAX], e[QUANTITY_MAX], f[QUANTITY_MAX];
    bool hosts = view->query->nhosts > 1, continued = false;
    sort(view, sorted);
    printf("  %-20s %10s %11s %11s %11s %11s", "algorithm", "time", "busbw", "rank sends", "receives", "all send");
    printf(hosts ? " %12s %6s  %s\n" : "%.0s %6s  %s\n", "host sends", "rounds", "excluded");
    for (int i = 0; i < view->n; i++) {
        const motetExplainCandidate_t *row = sorted[i];
        if (!row->fits) {
            printf("  %-20s %10s  %s\n", row->name, "-", row->excludedBy ? row->excludedBy : "");
            continue;
        }
        snprintf(f, sizeof f, "%.4g GB/s", explain_busbw(view, row));
        continued |= row->timeIsContinued;
        printf("%c %-20s %10s %11s %11s %11s %11s", row->chosen ? '*' : ' ', row->name, quantity_time(row->timeNs, a),
               view->moves ? f : "-", quantity_bytes(row->sentMost, b), quantity_bytes(row->receivedMost, c),
               quantity_bytes(row->total, d));
        if (hosts)
            printf(" %12s", quantity_bytes(row->hostMost, e));
        printf(" %6s  %s\n", rounds_text(row, e), row->excludedBy ? row->excludedBy : row->measured ? "measured" : "");
    }
    printf("* chosen. Times are predictions. A rank's and a host's bytes are those of the busiest one.%s\n",
           continued ? " Times are continued from fewer ranks." : "");
}

static void print_bound(const motetExplainCandidate_t *row)
{
    char where[64], busy[QUANTITY_MAX];
    printf("%s works %s of it (%.0f %%)", explain_resource(row, where, sizeof where),
           quantity_time(row->busiestNs * row->tiles, busy), 100 * explain_busy_share(row));
    if (row->rounds)
        printf("; the rest is %d round%s of latency and waiting", row->rounds, row->rounds == 1 ? "" : "s");
}

void explain_print_reasons(const struct explain_view *view)
{
    const motetExplainCandidate_t *sorted[EXPLAIN_CANDIDATES], *chosen = &view->candidates[view->chosen];
    char time[QUANTITY_MAX];
    sort(view, sorted);
    printf("\n%s is chosen: %s. It takes %s%s; ", chosen->name, chosen->title, quantity_time(chosen->timeNs, time),
           chosen->measured ? ", as measured" : "");
    print_bound(chosen);
    printf(".\n");
    for (int i = 0; i < view->n; i++) {
        const motetExplainCandidate_t *row = sorted[i];
        if (row->chosen)
            continue;
        printf("  not %s: ", row->name);
        if (!row->fits) {
            printf("%s\n", row->excludedBy ? row->excludedBy : "it does not exist for this shape");
            continue;
        }
        if (row->excludedBy)
            printf("%s. It would take %s; ", row->excludedBy, quantity_time(row->timeNs, time));
        else if (row->timeNs <= chosen->timeNs)
            printf("not faster over its class of sizes, for which the choice is made once: %s; ", quantity_time(row->timeNs, time));
        else
            printf("%.2f times as long, %s; ", row->timeNs / chosen->timeNs, quantity_time(row->timeNs, time));
        if (chosen->measured && !row->measured)
            printf("predicted only, and what was measured goes before; ");
        print_bound(row);
        printf("\n");
    }
}

bool explain_print_ranges(const struct explain_view *view)
{
    motetExplainRange_t ranges[64];
    char from[QUANTITY_MAX];
    int n;
    if (!view->moves)
        return true;
    if (motetExplainRanges(view->explanation, ranges, 64, &n) != motetSuccess)
        return false;
    printf("\nchoice by size: %s", view->candidates[ranges[0].candidate].name);
    for (int r = 1; r < n && r < 64; r++)
        printf(", from %s %s", quantity_bytes(ranges[r].fromBytes, from), view->candidates[ranges[r].candidate].name);
    printf("\n");
    return true;
}

bool explain_print_steps(const struct explain_view *view, int rank)
{
    const motetExplainCandidate_t *shown = &view->candidates[view->shown];
    char *text = NULL;
    if (motetExplainSteps(view->explanation, view->shown, rank, &text) != motetSuccess)
        return false;
    printf("\n%s, %s\n%s", shown->name, shown->title, text);
    free(text);
    return true;
}

void explain_print_sizes(const struct explain_view *view)
{
    char a[QUANTITY_MAX], b[QUANTITY_MAX], c[QUANTITY_MAX], d[QUANTITY_MAX];
    printf("%-20s %12s %12s %8s %12s %9s %7s %12s\n", "algorithm", "rank sends", "receives", "busiest", "all send", "messages",
           "rounds", "connections");
    for (int i = 0; i < view->n; i++) {
        const motetExplainCandidate_t *row = &view->candidates[i];
        if (!row->fits)
            continue;
        printf("%-20s %12s %12s %8d %12s %9.0f %7s %12.0f\n", row->name, quantity_bytes(row->sentMost, a),
               quantity_bytes(row->receivedMost, b), row->sentMostRank, quantity_bytes(row->total, c), row->messages,
               rounds_text(row, d), row->connections);
    }
    printf(
        "Bytes of the busiest rank each way, and its number; rounds: the longest chain of messages of which each needs the one before;\n"
        "connections: pairs of ranks that exchange anything.\n");
}

static void print_shorthand(const char *name, double bytes, const char *meaning)
{
    char text[QUANTITY_MAX];
    printf("  %-22s %12s  %s\n", name, quantity_bytes(bytes, text), meaning);
}

void explain_print_why(const struct explain_view *view)
{
    double m = (double)view->query->bytes, n = view->query->nranks, doublings = ceil(log2(n));
    char size[QUANTITY_MAX];
    printf("Shorthands for an all-reduce of M = %s on N = %d ranks, what they are here, and of what:\n", quantity_bytes(m, size),
           view->query->nranks);
    print_shorthand("2(N-1)/N M", 2 * (n - 1) / n * m, "what a rank sends, and what it receives, in a ring: the least possible");
    print_shorthand("2M", 2 * m, "the same for large N, rounded up");
    print_shorthand("4(N-1)/N M", 4 * (n - 1) / n * m, "sent and received added up: both go at once, on links that work both ways");
    print_shorthand("2(N-1) M", 2 * (n - 1) * m, "what all ranks send together, in a ring and with one rank in the middle alike");
    print_shorthand("(N-1) M", (n - 1) * m, "what the rank in the middle receives and then sends: its link is the bottleneck");
    print_shorthand("2 log2(N) M", 2 * doublings * m,
                    "the critical path of a serial binomial reduce and broadcast; pipelined trees do not have it");
    print_shorthand("log2(N) M", doublings * m, "what a rank sends in recursive doubling, in half as many rounds");
    printf("  %-22s %12.0f  %s\n", "2(N-1)", 2 * (n - 1), "rounds of a ring: its latency grows with N");
    printf("  %-22s %12.0f  %s\n", "2 log2(N)", 2 * doublings, "rounds of a tree, up and down, or of halving and doubling");
    printf("  %-22s %12.0f  %s\n", "N(N-1)/2", n * (n - 1) / 2, "connections when everybody talks to everybody; a ring has N");
    printf(
        "So a tree beats a ring when latency counts, a ring beats a serial tree when bytes count: there is no rule for N without a size.\n"
        "motet explain --sweep n=2..1024 shows where they cross.\n");
}
