/* SPDX-License-Identifier: Apache-2.0
 * A topology as nested boxes in an SVG: hosts' memory nodes with caches and cores, below them bridges, cards and GPUs; ranks as marks in their
 * cores; what was measured and what to look at underneath. Boxes flow from left to right and wrap. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "quantity.h"
#include "topo.h"

#define GAP         8.0
#define LINE_HEIGHT 15.0
#define CHARACTER   6.7 /* width of one in the font of 11 pixels */
#define PAGE_WIDTH  1180.0
#define NODE_WIDTH  560.0
#define BOX_WIDTH   420.0
#define LINES_MOST  5
#define LINE_MOST   96

struct picture {
    const struct topo_view *view;
    motetTopo_t topo;
    int n;
    int *first, *next; /* children, -1: none */
    bool *marked;      /* there is something to look at */
    FILE *out;
};

struct label {
    char lines[LINES_MOST][LINE_MOST];
    int n;
    const char *class;
};

struct size {
    double width, height;
};

static void put_text(FILE *out, double x, double y, const char *class, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc(*text, out);
        }
    fputs("</text>\n", out);
}

static void add_line(struct label *label, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_line(struct label *label, const char *format, ...)
{
    va_list args;
    if (label->n == LINES_MOST)
        return;
    va_start(args, format);
    vsnprintf(label->lines[label->n], LINE_MOST, format, args);
    va_end(args);
    label->n += label->lines[label->n][0] != '\0';
}

/* ---- What stands in a box ---- */

/* A cache of one core is a line of that core. */
static int only_core(const struct picture *picture, int node)
{
    int child = picture->first[node];
    bool one = child >= 0 && picture->next[child] < 0 && topo_kind(picture->topo, child) == motetTopoCore;
    return one && topo_kind(picture->topo, node) == motetTopoCache ? child : -1;
}

static const char *cache_text(const struct picture *picture, int node, char text[QUANTITY_MAX + 8])
{
    char size[QUANTITY_MAX];
    double bytes = topo_number(picture->topo, node, "size");
    snprintf(text, QUANTITY_MAX + 8, "L%s%s%s", topo_text(picture->topo, node, "level"), bytes > 0 ? " " : "",
             bytes > 0 ? quantity_bytes(bytes, size) : "");
    return text;
}

/* The ranks that are bound to one core. */
static void list_ranks(const struct picture *picture, int core, char text[LINE_MOST])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < picture->view->n; i++) {
        const struct topo_row *row = &picture->view->rows[i];
        motetTopoPath_t path = motetTopoInHost;
        if (row->what != TOPO_RANKS || motetTopoPath(picture->topo, row->node, core, &path) != motetSuccess ||
            (path != motetTopoSameCore && path != motetTopoSameCpu) || used + 12 > LINE_MOST)
            continue;
        used += (size_t)snprintf(text + used, LINE_MOST - used, "%s%s", used ? " " : "", row->name);
    }
}

static void label_core(const struct picture *picture, int core, int cache, struct label *label)
{
    char ranks[LINE_MOST], text[QUANTITY_MAX + 8];
    char *cpus = topo_cpus(picture->topo, core);
    list_ranks(picture, core, ranks);
    add_line(label, "CPU %s", cpus ? cpus : "");
    if (cache >= 0)
        add_line(label, "%s", cache_text(picture, cache, text));
    add_line(label, "%s", ranks);
    label->class = ranks[0] ? "core used" : "core";
    free(cpus);
}

static void label_device(const struct picture *picture, int node, struct label *label)
{
    char now[48], best[48], name[40] = "";
    for (int i = 0; i < picture->view->n; i++)
        if (picture->view->rows[i].node == node)
            snprintf(name, sizeof name, "%s ", picture->view->rows[i].name);
    topo_link(picture->topo, node, "current_", now);
    topo_link(picture->topo, node, "", best);
    label->class = topo_is_bridge(picture->topo, node) ? "bridge" : "device";
    add_line(label, "%s%s%s", name, topo_is_bridge(picture->topo, node) && !name[0] ? "bridge " : "",
             topo_text(picture->topo, node, "busid"));
    if (now[0] && best[0] && strcmp(now, best) != 0)
        add_line(label, "%s of %s", now, best);
    else
        add_line(label, "%s", now[0] ? now : best);
}

static void label_leaf(const struct picture *picture, int node, struct label *label)
{
    char speed[32], name[40] = "";
    for (int i = 0; i < picture->view->n; i++)
        if (picture->view->rows[i].node == node)
            snprintf(name, sizeof name, "%s ", picture->view->rows[i].name);
    label->class = topo_kind(picture->topo, node) == motetTopoNet ? "net" : "gpu";
    add_line(label, "%s%.60s", name, topo_text(picture->topo, node, "name"));
    add_line(label, "%s", topo_speed(picture->topo, node, speed));
}

static void label_node(const struct picture *picture, int node, struct label *label)
{
    char *cpus = topo_cpus(picture->topo, node);
    const char *id = topo_text(picture->topo, node, "numaid"), *package = topo_text(picture->topo, node, "package");
    label->class = "node";
    if (id[0] == '-')
        add_line(label, "memory node not known");
    else
        add_line(label, "memory node %s%s%s", id, package[0] ? ", socket " : "", package);
    if (cpus && cpus[0])
        add_line(label, "CPUs %.80s", cpus);
    if (picture->view->nhosts > 1)
        add_line(label, "host %.40s", topo_host(picture->topo, node));
    free(cpus);
}

/* False: the node is not drawn, but its children are, in its place. */
static bool make_label(const struct picture *picture, int node, struct label *label)
{
    char text[QUANTITY_MAX + 8];
    *label = (struct label){.class = "cache"};
    switch (topo_kind(picture->topo, node)) {
    case motetTopoNumaNode:
        label_node(picture, node, label);
        return true;
    case motetTopoCache:
        if (only_core(picture, node) >= 0)
            label_core(picture, only_core(picture, node), node, label);
        else
            add_line(label, "%s", cache_text(picture, node, text));
        return true;
    case motetTopoCore:
        label_core(picture, node, -1, label);
        return true;
    case motetTopoPci:
        label_device(picture, node, label);
        return true;
    case motetTopoNet:
    case motetTopoGpu:
        label_leaf(picture, node, label);
        return true;
    default:
        return false;
    }
}

/* ---- Boxes ---- */

static struct size flow(const struct picture *picture, int parent, double x, double y, double wrap, bool draws);

static bool is_drawn(const struct picture *picture, int node)
{
    motetTopoKind_t kind = topo_kind(picture->topo, node);
    return kind == motetTopoNumaNode || kind == motetTopoCache || kind == motetTopoCore || kind == motetTopoPci ||
           kind == motetTopoNic || kind == motetTopoNet || kind == motetTopoGpu;
}

/* The box of a node at a place; draws it, or only says how large it is. */
static struct size box(const struct picture *picture, int node, double x, double y, bool draws)
{
    struct label label;
    if (!make_label(picture, node, &label))
        return flow(picture, node, x, y, BOX_WIDTH, draws);
    double wrap = topo_kind(picture->topo, node) == motetTopoNumaNode ? NODE_WIDTH : BOX_WIDTH;
    double top = LINE_HEIGHT * label.n + GAP, width = 0;
    for (int i = 0; i < label.n; i++)
        width = CHARACTER * (double)strlen(label.lines[i]) > width ? CHARACTER * (double)strlen(label.lines[i]) : width;
    struct size inside = {0};
    if (only_core(picture, node) < 0)
        inside = flow(picture, node, x + GAP, y + top, wrap, false);
    struct size size = {2 * GAP + (inside.width > width ? inside.width : width),
                        top + (inside.height > 0 ? inside.height + GAP : 0)};
    if (!draws)
        return size;
    fprintf(picture->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" class=\"%s%s\"/>\n", x, y,
            size.width, size.height, label.class, picture->marked[node] ? " marked" : "");
    for (int i = 0; i < label.n; i++)
        put_text(picture->out, x + GAP, y + LINE_HEIGHT * (i + 1) - 1, i == 0 ? "title" : "small", label.lines[i]);
    if (only_core(picture, node) < 0)
        flow(picture, node, x + GAP, y + top, wrap, true);
    return size;
}

/* Children from left to right, in rows no wider than `wrap`; devices begin a row of their own below caches and cores. */
static struct size flow(const struct picture *picture, int parent, double x, double y, double wrap, bool draws)
{
    struct size all = {0};
    double left = 0, top = 0, row_height = 0;
    bool devices = false;
    for (int child = picture->first[parent]; child >= 0; child = picture->next[child]) {
        motetTopoKind_t kind = topo_kind(picture->topo, child);
        bool device = kind == motetTopoPci || kind == motetTopoNic;
        if (!is_drawn(picture, child))
            continue;
        struct size one = box(picture, child, 0, 0, false);
        if (left > 0 && (left + one.width > wrap || device != devices)) {
            top += row_height + GAP;
            left = row_height = 0;
        }
        devices = device;
        if (draws)
            box(picture, child, x + left, y + top, true);
        all.width = left + one.width > all.width ? left + one.width : all.width;
        row_height = one.height > row_height ? one.height : row_height;
        all.height = top + row_height;
        left += one.width + GAP;
    }
    return all;
}

/* ---- What stands below ---- */

/* Whether a rank is a mark in a core. */
static bool is_in_core(const struct picture *picture, int rank)
{
    motetTopoPath_t path;
    for (int i = 0; i < picture->n; i++)
        if (topo_kind(picture->topo, i) == motetTopoCore && motetTopoPath(picture->topo, rank, i, &path) == motetSuccess &&
            (path == motetTopoSameCore || path == motetTopoSameCpu))
            return true;
    return false;
}

/* The ranks that are in no core, those with the same CPUs together. */
static int note_ranks(const struct picture *picture, double x, double y)
{
    const struct topo_view *view = picture->view;
    int lines = 0, last;
    for (int i = 0; i < view->n; i = last + 1) {
        char *cpus = view->rows[i].what == TOPO_RANKS ? topo_cpus(picture->topo, view->rows[i].node) : NULL;
        bool same = cpus != NULL;
        for (last = i; same && last + 1 < view->n && view->rows[last + 1].what == TOPO_RANKS;) {
            char *more = topo_cpus(picture->topo, view->rows[last + 1].node);
            same = more && strcmp(cpus, more) == 0 &&
                   strcmp(topo_host(picture->topo, view->rows[i].node), topo_host(picture->topo, view->rows[last + 1].node)) == 0;
            last += same;
            free(more);
        }
        if (cpus && !is_in_core(picture, view->rows[i].node)) {
            char text[512];
            const char *host = topo_host(picture->topo, view->rows[i].node);
            snprintf(text, sizeof text, "%s%s%s run%s on %s%.200s%s%.64s", view->rows[i].name, last > i ? " to " : "",
                     last > i ? view->rows[last].name : "", last > i ? "" : "s", cpus[0] ? "CPUs " : "CPUs that are not known",
                     cpus, host[0] ? " of " : "", host);
            if (y >= 0)
                put_text(picture->out, x, y + LINE_HEIGHT * lines, "small", text);
            lines++;
        }
        free(cpus);
    }
    return lines;
}

/* Lines under the boxes; returns how many. Draws where `y` is not negative. */
static int notes(const struct picture *picture, double x, double y)
{
    int lines = 0, n = 0, node;
    char text[1100];
    const char *sentence;
    for (int i = 0; i < picture->n; i++) {
        if (topo_kind(picture->topo, i) != motetTopoLink)
            continue;
        snprintf(text, sizeof text, "measured, %s: %.4g ns, %.4g GB/s (CPUs %s)", topo_text(picture->topo, i, "class"),
                 topo_number(picture->topo, i, "latency_ns"), topo_number(picture->topo, i, "bandwidth_gbs"),
                 topo_text(picture->topo, i, "cpus"));
        if (y >= 0)
            put_text(picture->out, x, y + LINE_HEIGHT * lines, "small", text);
        lines++;
    }
    lines += note_ranks(picture, x, y < 0 ? y : y + LINE_HEIGHT * lines);
    motetTopoFindingCount(picture->topo, &n);
    for (int i = 0; i < n; i++)
        if (motetTopoFinding(picture->topo, i, &node, &sentence) == motetSuccess) {
            if (y >= 0)
                put_text(picture->out, x, y + LINE_HEIGHT * lines, "warning", sentence);
            lines++;
        }
    return lines;
}

static const char style[] = "<style>\n"
                            "text { font: 11px 'DejaVu Sans Mono', 'Liberation Mono', monospace; fill: #1d2733 }\n"
                            ".head { font-size: 15px; font-weight: bold }\n"
                            ".title { font-weight: bold }\n"
                            ".small { fill: #3f4c5a }\n"
                            ".warning { fill: #b3261e }\n"
                            "rect { stroke-width: 1; stroke: #8a97a5 }\n"
                            ".node { fill: #f4f6f8 }\n"
                            ".cache { fill: #e3ebf3 }\n"
                            ".core { fill: #ffffff }\n"
                            ".core.used { fill: #ffe9b8; stroke: #b8860b }\n"
                            ".bridge { fill: #ece7f3 }\n"
                            ".device { fill: #ffffff }\n"
                            ".net { fill: #d6f0dd }\n"
                            ".gpu { fill: #d9ecff }\n"
                            ".marked { stroke: #b3261e; stroke-width: 2 }\n"
                            "</style>\n";

static bool prepare(struct picture *picture)
{
    int count = 0, node;
    const char *sentence;
    motetTopoNode_t one;
    motetTopoCount(picture->topo, &picture->n);
    size_t n = (size_t)picture->n;
    picture->first = malloc((n + 1) * sizeof *picture->first);
    picture->next = malloc((n + 1) * sizeof *picture->next);
    picture->marked = calloc(n + 1, sizeof *picture->marked);
    if (!picture->first || !picture->next || !picture->marked)
        return false;
    for (int i = 0; i < picture->n; i++)
        picture->first[i] = picture->next[i] = -1;
    for (int i = picture->n - 1; i > 0; i--)
        if (motetTopoNode(picture->topo, i, &one) == motetSuccess && one.parent >= 0) {
            picture->next[i] = picture->first[one.parent];
            picture->first[one.parent] = i;
        }
    motetTopoFindingCount(picture->topo, &count);
    for (int i = 0; i < count; i++)
        if (motetTopoFinding(picture->topo, i, &node, &sentence) == motetSuccess)
            picture->marked[node] = true;
    return true;
}

static void draw(const struct picture *picture)
{
    char head[512];
    const char *host = topo_text(picture->topo, 0, "host"), *left_out = topo_text(picture->topo, 0, "left_out");
    struct size size = flow(picture, 0, 0, 0, PAGE_WIDTH, false);
    int lines = notes(picture, 0, -1);
    double top = 52, bottom = top + size.height + 24, height = bottom + LINE_HEIGHT * lines;
    double width = size.width + 40 > 760 ? size.width + 40 : 760;
    fprintf(picture->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n%s"
            "<rect width=\"100%%\" height=\"100%%\" style=\"fill: #ffffff; stroke: none\"/>\n",
            width, height, width, height, style);
    snprintf(head, sizeof head, "%s%.200s%s%d CPU%s in %d memory node%s%s%.200s", host[0] ? "host " : "", host, host[0] ? ": " : "",
             picture->view->ncpus, picture->view->ncpus == 1 ? "" : "s", picture->view->nnodes,
             picture->view->nnodes == 1 ? "" : "s", left_out[0] ? "; left out: CPUs " : "", left_out);
    put_text(picture->out, 20, 32, "head", head);
    flow(picture, 0, 20, top, PAGE_WIDTH, true);
    notes(picture, 20, bottom);
    fputs("</svg>\n", picture->out);
}

void topo_draw(const struct topo_view *view, FILE *out)
{
    struct picture picture = {.view = view, .topo = view->topo, .out = out};
    if (prepare(&picture))
        draw(&picture);
    free(picture.first);
    free(picture.next);
    free(picture.marked);
}
