/* SPDX-License-Identifier: Apache-2.0
 * Pictures of a simulation: a trace for Perfetto (Chrome's format: a process for each rank, messages as asynchronous slices, which may
 * overlap), and a map of the use of links: a row for some links, a column for some time, white for idle and dark for busy. */
#include <math.h>

#include "quantity.h"
#include "sim.h"

#define LEFT   170.0
#define TOP    96.0
#define WIDTH  960.0
#define HEIGHT 640.0 /* of all rows, at most */
#define LABELS 40

/* ---- Trace ---- */

static void trace_names(const struct sim_view *view, FILE *out)
{
    for (int r = 0; r < view->result.ranksSimulated; r++)
        fprintf(out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d\"}}",
                r ? ",\n" : "", r, r);
}

void sim_write_trace(const struct sim_view *view, FILE *out)
{
    motetSimulateMessage_t message;
    motetSimulateOperationResult_t operation = {0};
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    trace_names(view, out);
    for (int m = 0, known = -1; m < view->result.logged; m++) {
        if (motetSimulateMessage(view->simulation, m, &message) != motetSuccess)
            break;
        if (message.operation != known)
            motetSimulateOperation(view->simulation, known = message.operation, &operation);
        fprintf(
            out,
            ",\n{\"ph\":\"b\",\"cat\":\"sent\",\"name\":\"to %d\",\"id\":%d,\"pid\":%d,\"tid\":0,\"ts\":%.6f,\"args\":{\"operation\":"
            "\"%s %d\",\"tile\":%d,\"bytes\":%.0f}}",
            message.to, m, message.from, message.sentNs / 1e3, operation.collective, message.operation, message.tile,
            message.bytes);
        fprintf(out, ",\n{\"ph\":\"e\",\"cat\":\"sent\",\"name\":\"to %d\",\"id\":%d,\"pid\":%d,\"tid\":0,\"ts\":%.6f}", message.to,
                m, message.from, message.arrivedNs / 1e3);
        if (message.to >= view->result.ranksSimulated || message.usedNs <= message.arrivedNs)
            continue;
        fprintf(out,
                ",\n{\"ph\":\"b\",\"cat\":\"used\",\"name\":\"from %d\",\"id\":%d,\"pid\":%d,\"tid\":0,\"ts\":%.6f},\n"
                "{\"ph\":\"e\",\"cat\":\"used\",\"name\":\"from %d\",\"id\":%d,\"pid\":%d,\"tid\":0,\"ts\":%.6f}",
                message.from, m, message.to, message.arrivedNs / 1e3, message.from, m, message.to, message.usedNs / 1e3);
    }
    fprintf(out, "\n]}\n");
}

/* ---- Map ---- */

/* White, yellow, red, dark red. */
static void colour_of(double share, char text[8])
{
    static const double stops[][3] = {{255, 255, 255}, {254, 217, 118}, {227, 74, 51}, {127, 0, 24}};
    double at = fmin(fmax(share, 0), 1) * 3;
    int low = at >= 3 ? 2 : (int)at;
    unsigned rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (unsigned)(stops[low][c] + (stops[low + 1][c] - stops[low][c]) * (at - low) + 0.5) & 255;
    snprintf(text, 8, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

static double tick_step(double span)
{
    double step = pow(10, floor(log10(span / 8)));
    return span / step > 40 ? 5 * step : span / step > 16 ? 2 * step : step;
}

/* Cells of one colour beside each other are one rectangle. */
static void draw_row(const struct sim_view *view, FILE *out, int row, double y, double height, double cell)
{
    char colour[8], next[8];
    double share;
    int link, begin = 0;
    for (int bin = 0; bin <= view->result.bins; bin++) {
        next[0] = 0;
        if (bin < view->result.bins && motetSimulateUse(view->simulation, row, bin, &share, &link) == motetSuccess)
            colour_of(share, next);
        if (bin > 0 && !__builtin_strcmp(colour, next))
            continue;
        if (bin > 0 && __builtin_strcmp(colour, "#ffffff"))
            fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", LEFT + begin * cell, y,
                    (bin - begin) * cell + 0.05, height + 0.05, colour);
        __builtin_memcpy(colour, next, sizeof colour);
        begin = bin;
    }
}

static void draw_rows(const struct sim_view *view, FILE *out, double height)
{
    int rows = view->result.rows, every = (rows - 1) / LABELS + 1, link;
    double cell = WIDTH / view->result.bins, share;
    motetSimulateLinkUse_t use;
    for (int row = 0; row < rows; row++) {
        double y = TOP + row * height;
        draw_row(view, out, row, y, height, cell);
        if (row % every == 0 && motetSimulateUse(view->simulation, row, 0, &share, &link) == motetSuccess &&
            motetSimulateLink(view->simulation, link, &use) == motetSuccess)
            fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                    y + fmin(height, 14) / 2 + 4, use.name);
    }
}

static void draw_scale(FILE *out, double y)
{
    char colour[8];
    for (int i = 0; i <= 20; i++) {
        colour_of(i / 20.0, colour);
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10.1\" height=\"12\" fill=\"%s\"/>\n", LEFT + 10.0 * i, y, colour);
    }
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"210\" height=\"12\" class=\"frame\"/>\n", LEFT, y);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">busy: 0 to 100 %% of the time</text>\n", LEFT + 218, y + 11);
}

void sim_draw(const struct sim_view *view, FILE *out)
{
    int rows = view->result.rows;
    double height = fmin(22, HEIGHT / rows), bottom = TOP + rows * height, span = view->result.bins * view->result.binNs;
    double step = tick_step(span), total = bottom + 80;
    char text[QUANTITY_MAX], link[QUANTITY_MAX];
    snprintf(link, sizeof link, "%d links", view->result.links);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
            "<style>text{font-family:sans-serif;fill:#222222}.tick{font-size:12px}.title{font-size:18px}.grid{stroke:#999999;"
            "stroke-opacity:0.35}.frame{fill:none;stroke:#666666}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
            "<text x=\"%.1f\" y=\"30\" class=\"title\">%s, %d ranks, %s: %s</text>\n",
            LEFT + WIDTH + 40, total, LEFT + WIDTH + 40, total, LEFT, view->what, view->result.ranks, view->network,
            quantity_time(view->result.timeNs, text));
    fprintf(out,
            "<text x=\"%.1f\" y=\"54\" class=\"tick\">use of links over time; %s in %d rows, each named after its first</text>\n",
            LEFT, link, rows);
    draw_scale(out, 66);
    draw_rows(view, out, height);
    for (int k = 0; k * step <= span; k++) {
        double x = LEFT + WIDTH * k * step / span;
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x, TOP, x, bottom);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"middle\">%s</text>\n", x, bottom + 18,
                k ? quantity_time(k * step, text) : "0");
    }
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"frame\"/>\n</svg>\n", LEFT, TOP, WIDTH,
            bottom - TOP);
}
