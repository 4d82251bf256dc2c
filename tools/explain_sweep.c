/* SPDX-License-Identifier: Apache-2.0
 * How ring and trees compare over sizes and numbers of ranks, every rank behind its own link. "serial" is a reduction up a binomial tree and
 * a broadcast down it, one after the other, whole messages: what formulas with 2 log2 N mean. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "quantity.h"

#define SIZES      11 /* 1 KB to 1 GB, in steps of four */
#define FIRST_SIZE 1024.0
#define STEPS_MOST 12

enum series { RING, SERIAL, ONE_TREE, TWO_TREES, NSERIES };

static const struct {
    const char *name, *letter, *colour;
} series[NSERIES] = {{"ring", "r", "#1f6fb4"},
                     {"serial binomial", "s", "#7a5a3a"},
                     {"binary_tree", "b", "#d1571b"},
                     {"double_binary_tree", "d", "#2d8a4e"}};

struct sweep_row {
    int nranks;
    double crossover; /* bytes from which the ring beats the serial tree; 0: always */
    double ns[NSERIES][SIZES];
};

static bool times(const motetExplainQuery_t *base, const char *collective, const char *algorithm, bool whole, const double *bytes,
                  int n, double *ns)
{
    motetExplainQuery_t query = *base;
    query.collective = collective;
    query.network.whole = whole;
    return motetExplainTimes(&query, algorithm, bytes, n, ns) == motetSuccess;
}

static bool series_times(const motetExplainQuery_t *query, enum series which, const double *bytes, int n, double *ns)
{
    double down[SIZES];
    switch (which) {
    case RING:
        return times(query, "AllReduce", "ring", true, bytes, n, ns);
    case ONE_TREE:
        return times(query, "AllReduce", "binary_tree", false, bytes, n, ns);
    case TWO_TREES:
        return times(query, "AllReduce", "double_binary_tree", false, bytes, n, ns);
    default:
        if (!times(query, "Reduce", "binomial", true, bytes, n, ns) || !times(query, "Broadcast", "binomial", true, bytes, n, down))
            return false;
        for (int k = 0; k < n; k++)
            ns[k] += down[k];
        return true;
    }
}

/* By how much the ring is slower than the serial tree. */
static bool difference(const motetExplainQuery_t *query, double bytes, double *ns)
{
    double ring, serial;
    if (!series_times(query, RING, &bytes, 1, &ring) || !series_times(query, SERIAL, &bytes, 1, &serial))
        return false;
    *ns = ring - serial;
    return true;
}

/* Both times grow along straight lines, or nearly, so that the secant through two sizes leads to the third. */
static bool find_crossover(const motetExplainQuery_t *query, double *crossover)
{
    double low = 1, high = 1 << 20, at_low, at_high;
    *crossover = 0;
    if (!difference(query, low, &at_low) || !difference(query, high, &at_high))
        return false;
    for (int k = 0; k < 8 && at_low > 0 && fabs(at_high) > 1e-6 * at_low; k++) {
        double next = high - at_high * (high - low) / (at_high - at_low);
        if (!(next > 0) || !isfinite(next))
            return true;
        *crossover = high = next;
        if (!difference(query, high, &at_high))
            return false;
    }
    return true;
}

static bool fill_row(const motetExplainQuery_t *base, int nranks, struct sweep_row *row)
{
    motetExplainQuery_t query = *base;
    double bytes[SIZES];
    query.nranks = query.nhosts = nranks;
    query.tileBytes = SIZE_MAX;
    row->nranks = nranks;
    for (int k = 0; k < SIZES; k++)
        bytes[k] = FIRST_SIZE * pow(4, k);
    for (int s = 0; s < NSERIES; s++)
        if (!series_times(&query, (enum series)s, bytes, SIZES, row->ns[s]))
            return false;
    return find_crossover(&query, &row->crossover);
}

static int winner(const struct sweep_row *row, int k)
{
    int best = RING;
    for (int s = 0; s < NSERIES; s++)
        best = row->ns[s][k] < row->ns[best][k] ? s : best;
    return best;
}

static void print_table(const motetExplainQuery_t *query, const struct sweep_row *rows, int n)
{
    char text[QUANTITY_MAX];
    printf("AllReduce, every rank behind a link of its own: %g us, %g GB/s each way\n\n", query->network.latencyUs,
           query->network.hostGBs);
    printf("%6s  %-28s", "ranks", "ring beats serial from");
    for (int k = 0; k < SIZES; k++)
        printf(" %8s", quantity_bytes(FIRST_SIZE * pow(4, k), text));
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("%6d  %-28s", rows[i].nranks, rows[i].crossover > 0 ? quantity_decimal_bytes(rows[i].crossover, text) : "any size");
        for (int k = 0; k < SIZES; k++)
            printf(" %8s", series[winner(&rows[i], k)].letter);
        printf("\n");
    }
    printf(
        "\nfastest at each size: r ring, b one binary tree, d two of them, both pipelined; s reduce up a binomial tree, then broadcast\n"
        "down it, whole messages: the one that 2 log2(N) (latency + M / speed) describes.\n");
}

static void print_json(const struct sweep_row *rows, int n)
{
    json_t *all = json_array();
    for (int i = 0; i < n; i++) {
        json_t *row = json_pack("{s:i, s:f}", "ranks", rows[i].nranks, "ring_beats_serial_from_bytes", rows[i].crossover);
        json_t *points = json_array();
        for (int k = 0; k < SIZES; k++) {
            json_t *point = json_pack("{s:f, s:s}", "bytes", FIRST_SIZE * pow(4, k), "fastest", series[winner(&rows[i], k)].name);
            for (int s = 0; s < NSERIES; s++)
                json_object_set_new(point, series[s].name, json_real(rows[i].ns[s][k] / 1e3));
            json_array_append_new(points, point);
        }
        json_object_set_new(row, "times_us", points);
        json_array_append_new(all, row);
    }
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(all);
}

/* ---- SVG: two panels, few ranks and many ---- */

#define WIDTH  430.0
#define HEIGHT 320.0
#define TOP    80.0

static double y_of(double ns, double low, double high)
{
    return TOP + HEIGHT * (high - log10(ns)) / (high - low);
}

static void draw_panel(FILE *out, const struct sweep_row *row, double left)
{
    double low = INFINITY, high = -INFINITY;
    char text[QUANTITY_MAX];
    for (int s = 0; s < NSERIES; s++)
        for (int k = 0; k < SIZES; k++) {
            low = fmin(low, floor(log10(row->ns[s][k])));
            high = fmax(high, ceil(log10(row->ns[s][k])));
        }
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis\">%d ranks</text>\n", left, TOP - 10, row->nranks);
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n", left, TOP, WIDTH, HEIGHT);
    for (double decade = low; decade <= high; decade++) {
        double y = y_of(pow(10, decade), low, high);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", left, y, left + WIDTH, y);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"end\">%s</text>\n", left - 6, y + 4,
                quantity_time(pow(10, decade), text));
    }
    for (int k = 0; k < SIZES; k += 2)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"middle\">%s</text>\n",
                left + WIDTH * k / (SIZES - 1), TOP + HEIGHT + 18, quantity_bytes(FIRST_SIZE * pow(4, k), text));
    for (int s = 0; s < NSERIES; s++) {
        fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", series[s].colour);
        for (int k = 0; k < SIZES; k++)
            fprintf(out, "%.1f,%.1f ", left + WIDTH * k / (SIZES - 1), y_of(row->ns[s][k], low, high));
        fprintf(out, "\"/>\n");
    }
    if (row->crossover > FIRST_SIZE && row->crossover < FIRST_SIZE * pow(4, SIZES - 1)) {
        double x = left + WIDTH * log2(row->crossover / FIRST_SIZE) / (2 * (SIZES - 1));
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"cross\"/>\n", x, TOP, x, TOP + HEIGHT);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%s</text>\n", x + 4, TOP + 14,
                quantity_decimal_bytes(row->crossover, text));
    }
}

static void draw(FILE *out, const motetExplainQuery_t *query, const struct sweep_row *rows, int n)
{
    int few = n > 2 ? 2 : 0;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1080\" height=\"480\" viewBox=\"0 0 1080 480\">\n"
        "<style>text{font-family:sans-serif;fill:#222222}.tick{font-size:12px}.axis{font-size:13px}.title{font-size:18px}"
        ".grid{stroke:#dddddd}.frame{fill:none;stroke:#666666}.cross{stroke:#222222;stroke-dasharray:3 3}</style>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"80\" y=\"30\" class=\"title\">AllReduce on a flat network "
        "of %g us and %g GB/s each way: predicted time over size</text>\n",
        query->network.latencyUs, query->network.hostGBs);
    draw_panel(out, &rows[few], 80);
    if (n > 1)
        draw_panel(out, &rows[n - 1], 80 + WIDTH + 100);
    for (int s = 0; s < NSERIES; s++) {
        fprintf(out, "<line x1=\"%d\" y1=\"450\" x2=\"%d\" y2=\"450\" stroke=\"%s\" stroke-width=\"2\"/>\n", 80 + 200 * s,
                108 + 200 * s, series[s].colour);
        fprintf(out, "<text x=\"%d\" y=\"454\" class=\"tick\">%s</text>\n", 114 + 200 * s, series[s].name);
    }
    fprintf(out, "</svg>\n");
}

bool explain_sweep(const motetExplainQuery_t *query, int low, int high, bool json, FILE *drawn)
{
    struct sweep_row rows[STEPS_MOST];
    int n = 0;
    for (int nranks = low; nranks <= high && n < STEPS_MOST; nranks *= 2)
        if (!fill_row(query, nranks, &rows[n++]))
            return false;
    if (json)
        print_json(rows, n);
    else
        print_table(query, rows, n);
    if (drawn)
        draw(drawn, query, rows, n);
    return true;
}
