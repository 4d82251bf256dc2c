/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PANEL_WIDTH  440.0
#define PANEL_HEIGHT 320.0
#define LEFT         70.0
#define TOP          84.0
#define GAP          90.0
#define SERIES_MAX   12

/* One panel: what it shows, and how numbers become points. */
struct panel {
    const char *title;
    double (*value)(const struct perf_half *half);
    double x, y;                           /* upper left corner */
    double size_low, size_high, low, high; /* logarithms: base 2 for sizes, base 10 for values */
};

static const char *const colours[] = {"#1f6fb4", "#d1571b", "#2d8a4e", "#8b52a8", "#b8961a", "#c2386f",
                                      "#3b9aa8", "#7a5a3a", "#5b6b7a", "#9c2b2b", "#5a8f1d", "#3d3d9e"};

static double time_of(const struct perf_half *half)
{
    return half->time;
}

static double busbw_of(const struct perf_half *half)
{
    return half->busbw;
}

static void print_escaped(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            fputc(*text, file);
        }
}

void perf_plot_size_label(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, size, "%.4g %s", bytes, units[unit]);
}

static double x_of(const struct panel *panel, double size)
{
    double range = panel->size_high - panel->size_low;
    return panel->x + PANEL_WIDTH * (range > 0 ? (log2(size) - panel->size_low) / range : 0.5);
}

static double y_of(const struct panel *panel, double value)
{
    return panel->y + PANEL_HEIGHT * (panel->high - log10(value)) / (panel->high - panel->low);
}

static void find_limits(struct panel *panel, const struct perf_results *results)
{
    panel->size_low = panel->low = INFINITY;
    panel->size_high = panel->high = -INFINITY;
    for (int i = 0; i < results->n; i++)
        for (int half = 0; half < 2; half++) {
            double value = panel->value(&results->rows[i].half[half]);
            if (results->rows[i].size == 0 || !(value > 0))
                continue;
            panel->size_low = fmin(panel->size_low, log2((double)results->rows[i].size));
            panel->size_high = fmax(panel->size_high, log2((double)results->rows[i].size));
            panel->low = fmin(panel->low, log10(value));
            panel->high = fmax(panel->high, log10(value));
        }
    if (!isfinite(panel->low)) {
        panel->size_low = panel->size_high = panel->low = 0;
        panel->high = 1;
    }
    panel->low = floor(panel->low);
    panel->high = ceil(panel->high + 1e-9);
}

static void draw_value_axis(FILE *file, const struct panel *panel)
{
    for (int decade = (int)panel->low; decade <= (int)panel->high; decade++) {
        double y = y_of(panel, pow(10, decade));
        fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", panel->x, y,
                panel->x + PANEL_WIDTH, y);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"end\">%g</text>\n", panel->x - 8, y + 4,
                pow(10, decade));
        for (int digit = 2; decade < (int)panel->high && digit < 10; digit++) {
            double minor = y_of(panel, digit * pow(10, decade));
            fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"minor\"/>\n", panel->x, minor,
                    panel->x + PANEL_WIDTH, minor);
        }
    }
}

static void draw_size_axis(FILE *file, const struct panel *panel)
{
    int first = (int)ceil(panel->size_low - 1e-9), last = (int)floor(panel->size_high + 1e-9);
    int step = (last - first) / 8 + 1;
    for (int power = first; power <= last; power += step) {
        char label[32];
        double x = x_of(panel, ldexp(1, power));
        perf_plot_size_label(ldexp(1, power), label, sizeof label);
        fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x, panel->y, x,
                panel->y + PANEL_HEIGHT);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"middle\">%s</text>\n", x,
                panel->y + PANEL_HEIGHT + 18, label);
    }
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis\" text-anchor=\"middle\">size</text>\n", panel->x + PANEL_WIDTH / 2,
            panel->y + PANEL_HEIGHT + 38);
}

static void draw_frame(FILE *file, const struct panel *panel)
{
    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n", panel->x, panel->y, PANEL_WIDTH,
            PANEL_HEIGHT);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis\">", panel->x, panel->y - 10);
    print_escaped(file, panel->title);
    fprintf(file, "</text>\n");
    draw_value_axis(file, panel);
    draw_size_axis(file, panel);
}

static int same_series(const struct perf_row *a, const struct perf_row *b)
{
    return !strcmp(a->type, b->type) && !strcmp(a->op, b->op) && a->root == b->root;
}

/* First rows of the series, in order; returns their number, at most SERIES_MAX. */
static int find_series(const struct perf_results *results, int first[SERIES_MAX])
{
    int n = 0;
    for (int i = 0; i < results->n && n < SERIES_MAX; i++) {
        int known = 0;
        for (int k = 0; !known && k < n; k++)
            known = same_series(&results->rows[i], &results->rows[first[k]]);
        if (!known)
            first[n++] = i;
    }
    return n;
}

static void draw_line(FILE *file, const struct panel *panel, const struct perf_results *results, const struct perf_row *key,
                      int half, const char *colour)
{
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
            half ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < results->n; i++) {
        double value = panel->value(&results->rows[i].half[half]);
        if (same_series(&results->rows[i], key) && results->rows[i].size && value > 0)
            fprintf(file, "%.1f,%.1f ", x_of(panel, (double)results->rows[i].size), y_of(panel, value));
    }
    fprintf(file, "\"/>\n");
    for (int i = 0; i < results->n; i++) {
        double value = panel->value(&results->rows[i].half[half]);
        char label[32];
        if (!same_series(&results->rows[i], key) || !results->rows[i].size || !(value > 0))
            continue;
        perf_plot_size_label((double)results->rows[i].size, label, sizeof label);
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\" stroke=\"%s\"><title>%s: %.4g</title></circle>\n",
                x_of(panel, (double)results->rows[i].size), y_of(panel, value), half ? "#ffffff" : colour, colour, label, value);
    }
}

static void draw_legend(FILE *file, const struct perf_results *results, const int *first, int n)
{
    double y = TOP + PANEL_HEIGHT + 66;
    for (int i = 0; i < n; i++) {
        const struct perf_row *row = &results->rows[first[i]];
        double x = LEFT + (i % 4) * 240.0, line = y + (i / 4) * 20.0;
        char name[96];
        int used = snprintf(name, sizeof name, "%s", row->type);
        if (strcmp(row->op, "none"))
            used += snprintf(name + used, sizeof name - (size_t)used, " %s", row->op);
        if (row->root >= 0)
            snprintf(name + used, sizeof name - (size_t)used, " root %d", row->root);
        fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n", x, line, x + 28,
                line, colours[i]);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%s</text>\n", x + 34, line + 4, name);
    }
    fprintf(
        file,
        "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">solid: out of place, dashed: in place; GB/s = 10^9 bytes per second</text>\n",
        LEFT, y + (n + 3) / 4 * 20.0 + 2);
}

static void draw(FILE *file, const struct perf_results *results, const char *title, const char *subtitle)
{
    struct panel panels[2] = {{"time of a call (us)", time_of, LEFT, TOP, 0, 0, 0, 0},
                              {"bus bandwidth (GB/s)", busbw_of, LEFT + PANEL_WIDTH + GAP, TOP, 0, 0, 0, 0}};
    int first[SERIES_MAX];
    int n = find_series(results, first);
    double width = LEFT + 2 * PANEL_WIDTH + GAP + 30, height = TOP + PANEL_HEIGHT + 92 + (n + 3) / 4 * 20.0;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
            "<style>text{font-family:sans-serif;fill:#222222}.tick{font-size:12px}.axis{font-size:13px}.title{font-size:18px}"
            ".grid{stroke:#cccccc;stroke-width:1}.minor{stroke:#eeeeee;stroke-width:1}.frame{fill:none;stroke:#666666}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"%.1f\" y=\"30\" class=\"title\">",
            width, height, width, height, LEFT);
    print_escaped(file, title);
    fprintf(file, "</text>\n<text x=\"%.1f\" y=\"50\" class=\"tick\">", LEFT);
    print_escaped(file, subtitle);
    fprintf(file, "</text>\n");
    for (int i = 0; i < 2; i++) {
        find_limits(&panels[i], results);
        draw_frame(file, &panels[i]);
        for (int k = 0; k < n; k++)
            for (int half = 0; half < 2; half++)
                draw_line(file, &panels[i], results, &results->rows[first[k]], half, colours[k]);
    }
    draw_legend(file, results, first, n);
    fprintf(file, "</svg>\n");
}

bool perf_plot_write(const char *path, const struct perf_results *results, const char *title, const char *subtitle, char *error,
                     size_t len)
{
    FILE *file = fopen(path, "we");
    if (file)
        draw(file, results, title, subtitle);
    bool bad = !file || ferror(file);
    if (file && fclose(file))
        bad = true;
    if (bad)
        snprintf(error, len, "cannot write %s: %s", path, strerror(errno));
    return !bad;
}
