/* SPDX-License-Identifier: Apache-2.0
 * Messages of one candidate as pictures: an SVG over time, and a sequence diagram for Mermaid. */
#include <math.h>
#include <string.h>

#include "explain.h"
#include "quantity.h"

#define LEFT         90.0
#define TOP          90.0
#define PLOT_WIDTH   1000.0
#define ROW_HEIGHT   44.0
#define DRAWN_MOST   20000
#define MERMAID_MOST 2000

static const char *const colours[] = {"#1f6fb4", "#d1571b", "#2d8a4e", "#8b52a8", "#b8961a", "#c2386f", "#3b9aa8", "#7a5a3a"};
#define NCOLOURS (int)(sizeof colours / sizeof colours[0])

/* Of all messages the last arrival; false: they are not known. */
static bool find_span(const struct explain_view *view, int *nmessages, double *last_ns)
{
    motetExplainMessage_t message;
    *last_ns = 0;
    if (motetExplainMessageCount(view->explanation, view->shown, nmessages) != motetSuccess)
        return false;
    for (int m = 0; m < *nmessages; m++) {
        if (motetExplainMessage(view->explanation, view->shown, m, &message) != motetSuccess)
            return false;
        *last_ns = message.arrivedNs > *last_ns ? message.arrivedNs : *last_ns;
    }
    return true;
}

/* 1, 2 or 5 times a power of ten, so that about eight ticks fit. */
static double tick_step(double span)
{
    double step = pow(10, floor(log10(span / 8)));
    return span / step > 40 ? 5 * step : span / step > 16 ? 2 * step : step;
}

static void draw_axes(const struct explain_view *view, FILE *out, double last_ns)
{
    double bottom = TOP + ROW_HEIGHT * view->query->nranks, step = tick_step(last_ns);
    char text[QUANTITY_MAX];
    for (int rank = 0, host = 0; rank < view->query->nranks; rank++) {
        double y = TOP + ROW_HEIGHT * (rank + 0.5);
        int next = (int)((long)(host + 1) * (view->query->nranks / view->query->nhosts)) +
                   (host + 1 < view->query->nranks % view->query->nhosts ? host + 1 : view->query->nranks % view->query->nhosts);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"rank\"/>\n", LEFT, y, LEFT + PLOT_WIDTH, y);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"end\">rank %d</text>\n", LEFT - 8, y + 4, rank);
        if (view->query->nhosts > 1 && !view->query->scattered && rank + 1 == next && ++host < view->query->nhosts)
            fprintf(out, "<line x1=\"10\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"host\"/>\n", y + ROW_HEIGHT / 2,
                    LEFT + PLOT_WIDTH, y + ROW_HEIGHT / 2);
    }
    for (int k = 0; k * step <= last_ns * 1.0001; k++) {
        double x = LEFT + PLOT_WIDTH * k * step / last_ns;
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", x, TOP, x, bottom);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\" text-anchor=\"middle\">%s</text>\n", x, bottom + 18,
                k ? quantity_time(k * step, text) : "0");
    }
}

static bool draw_messages(const struct explain_view *view, FILE *out, int nmessages, double last_ns)
{
    motetExplainMessage_t message;
    char text[QUANTITY_MAX];
    for (int m = 0; m < nmessages && m < DRAWN_MOST; m++) {
        if (motetExplainMessage(view->explanation, view->shown, m, &message) != motetSuccess)
            return false;
        double x1 = LEFT + PLOT_WIDTH * message.sentNs / last_ns, x2 = LEFT + PLOT_WIDTH * message.arrivedNs / last_ns;
        double y1 = TOP + ROW_HEIGHT * (message.from + 0.5), y2 = TOP + ROW_HEIGHT * (message.to + 0.5);
        const char *colour = colours[(message.round - 1) % NCOLOURS];
        fprintf(
            out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"1.4\"%s><title>round %d: %d to %d, "
            "chunk %d%s, %s</title></line>\n",
            x1, y1, x2, y2, colour, message.sum ? "" : " stroke-dasharray=\"5 3\"", message.round, message.from, message.to,
            message.chunk, message.chunks > 1 ? " and more" : "", quantity_bytes(message.bytes, text));
        fprintf(out, "<g><title>round %d: %d to %d, chunk %d%s, %s</title>", message.round, message.from, message.to, message.chunk,
                message.chunks > 1 ? " and more" : "", quantity_bytes(message.bytes, text));
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"1.4\"%s/>", x1, y1, x2, y2,
                colour, message.sum ? "" : " stroke-dasharray=\"5 3\"");
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/></g>\n", x2, y2, colour);
    }
    return true;
}

bool explain_draw(const struct explain_view *view, FILE *out)
{
    const motetExplainCandidate_t *shown = &view->candidates[view->shown];
    int nmessages;
    double last_ns, height = TOP + ROW_HEIGHT * view->query->nranks + 70;
    char tile[QUANTITY_MAX];
    if (!find_span(view, &nmessages, &last_ns))
        return false;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n"
            "<style>text{font-family:sans-serif;fill:#222222}.tick{font-size:12px}.title{font-size:18px}.grid{stroke:#dddddd}"
            ".rank{stroke:#bbbbbb}.host{stroke:#444444;stroke-dasharray:2 3}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
            "<text x=\"%.1f\" y=\"30\" class=\"title\">%s %s, %s, %d ranks on %d host%s</text>\n"
            "<text x=\"%.1f\" y=\"52\" class=\"tick\">predicted: %s for %s; one colour a round (%d), a dot is an arrival, "
            "solid: sums, dashed: data as they are</text>\n",
            LEFT + PLOT_WIDTH + 40, height, LEFT + PLOT_WIDTH + 40, height, LEFT, view->collective, shown->name, view->what,
            view->query->nranks, view->query->nhosts, view->query->nhosts == 1 ? "" : "s", LEFT, quantity_time(shown->tileNs, tile),
            shown->tiles > 1 ? "the first tile" : "all of it", shown->rounds);
    if (last_ns > 0)
        draw_axes(view, out, last_ns);
    bool good = draw_messages(view, out, nmessages, last_ns);
    fprintf(out, "</svg>\n");
    return good;
}

bool explain_print_mermaid(const struct explain_view *view)
{
    int nmessages, round = 0;
    motetExplainMessage_t message;
    char size[QUANTITY_MAX];
    if (motetExplainMessageCount(view->explanation, view->shown, &nmessages) != motetSuccess)
        return false;
    printf("sequenceDiagram\n");
    for (int rank = 0; rank < view->query->nranks; rank++)
        printf("    participant r%d as rank %d\n", rank, rank);
    for (int m = 0; m < nmessages; m++) {
        if (m == MERMAID_MOST) {
            fprintf(stderr, "motet explain: %d of %d messages are drawn; --svg draws more\n", MERMAID_MOST, nmessages);
            break;
        }
        if (motetExplainMessage(view->explanation, view->shown, m, &message) != motetSuccess)
            return false;
        if (message.round != round)
            printf("    Note over r0,r%d: round %d\n", view->query->nranks - 1, message.round);
        round = message.round;
        printf("    r%d->>r%d: ", message.from, message.to);
        if (message.chunks == 0)
            printf("signal\n");
        else if (message.chunks == 1)
            printf("chunk %d%s, %s\n", message.chunk, message.sum ? " summed" : "", quantity_bytes(message.bytes, size));
        else
            printf("%d chunks from %d%s, %s\n", message.chunks, message.chunk, message.sum ? " summed" : "",
                   quantity_bytes(message.bytes, size));
    }
    return true;
}
