/* SPDX-License-Identifier: Apache-2.0
 * motet topo for a terminal: what there is, the matrix, cards, GPUs, what was measured, what to look at, the legend. */
#include <stdlib.h>
#include <string.h>

#include "quantity.h"
#include "topo.h"

/* ---- What there is ---- */

static int count_nodes(const struct topo_view *view)
{
    int n = 0;
    motetTopoCount(view->topo, &n);
    return n;
}

/* All caches of one level of a node in a line: "L2 512 KiB: 0 1 2". */
static void print_caches(const struct topo_view *view, int node, int level)
{
    int n = count_nodes(view);
    char size[QUANTITY_MAX];
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (topo_kind(view->topo, i) != motetTopoCache || (int)topo_number(view->topo, i, "level") != level ||
            topo_above(view->topo, i, motetTopoNumaNode) != node)
            continue;
        char *cpus = topo_cpus(view->topo, i);
        double bytes = topo_number(view->topo, i, "size");
        if (!any)
            printf("  L%d%s%s of CPUs", level, bytes > 0 ? " " : "", bytes > 0 ? quantity_bytes(bytes, size) : "");
        printf(" %s", cpus ? cpus : "");
        free(cpus);
        any = true;
    }
    if (any)
        printf("\n");
}

static void print_nodes(const struct topo_view *view)
{
    int n = count_nodes(view);
    const char *host = "";
    for (int i = 0; i < n; i++) {
        if (topo_kind(view->topo, i) != motetTopoNumaNode)
            continue;
        char *cpus = topo_cpus(view->topo, i);
        const char *package = topo_text(view->topo, i, "package"), *id = topo_text(view->topo, i, "numaid"),
                   *own = topo_host(view->topo, i);
        if (view->nhosts > 1 && strcmp(own, host) != 0)
            printf("host %s\n", own[0] ? own : "without host_hash");
        host = own;
        if (id[0] == '-')
            printf("devices whose memory node is not known\n");
        else
            printf("memory node %s%s%s: CPUs %s\n", id, package[0] ? ", socket " : "", package,
                   cpus && cpus[0] ? cpus : "not said");
        free(cpus);
        for (int level = 5; level >= 2; level--)
            print_caches(view, i, level);
    }
}

static void print_head(const struct topo_view *view)
{
    const char *host = topo_text(view->topo, 0, "host"), *left_out = topo_text(view->topo, 0, "left_out");
    if (view->nhosts > 1)
        printf("%d hosts: ", view->nhosts);
    else if (host[0])
        printf("host %s: ", host);
    printf("%d CPU%s in %d memory node%s\n", view->ncpus, view->ncpus == 1 ? "" : "s", view->nnodes, view->nnodes == 1 ? "" : "s");
    if (left_out[0])
        printf("left out, since they may not be used here: CPUs %s\n", left_out);
    print_nodes(view);
}

/* ---- The matrix ---- */

static int matrix_width(const struct topo_view *view)
{
    size_t width = 5;
    for (int i = 0; i < view->n; i++)
        width = strlen(view->rows[i].name) > width ? strlen(view->rows[i].name) : width;
    return (int)width + 1;
}

/* The memory node that holds a row; -1: none does, or several. */
static int home_of(const struct topo_view *view, int node)
{
    int n = count_nodes(view);
    motetTopoPath_t path;
    if (topo_kind(view->topo, node) != motetTopoRank)
        return topo_above(view->topo, node, motetTopoNumaNode);
    for (int i = 0; i < n; i++)
        if (topo_kind(view->topo, i) == motetTopoNumaNode && motetTopoPath(view->topo, node, i, &path) == motetSuccess &&
            path <= motetTopoInNode)
            return i;
    return -1;
}

static void print_row(const struct topo_view *view, int row, int width, unsigned *used)
{
    int node = view->rows[row].node, home = home_of(view, node);
    char *cpus = topo_cpus(view->topo, node);
    printf("%-*s", width, view->rows[row].name);
    for (int i = 0; i < view->n; i++) {
        motetTopoPath_t path = motetTopoInHost;
        motetTopoPath(view->topo, node, view->rows[i].node, &path);
        *used |= 1u << path;
        printf("%*s", width, motetTopoPathName(path));
    }
    printf("  %-8s %s", cpus && cpus[0] ? cpus : "-", home >= 0 ? topo_text(view->topo, home, "numaid") : "-");
    if (view->rows[row].what == TOPO_RANKS && topo_text(view->topo, node, "host")[0])
        printf("  %s", topo_text(view->topo, node, "host"));
    printf("\n");
    free(cpus);
}

static unsigned print_matrix(const struct topo_view *view)
{
    unsigned used = 0;
    int width = matrix_width(view);
    bool hosts = false;
    if (view->n == 0)
        return 0;
    for (int i = 0; i < view->n; i++)
        hosts |= view->rows[i].what == TOPO_RANKS && topo_text(view->topo, view->rows[i].node, "host")[0];
    printf("\n%*s", width, "");
    for (int i = 0; i < view->n; i++)
        printf("%*s", width, view->rows[i].name);
    printf("  %-8s node%s\n", "CPUs", hosts ? "  host" : "");
    for (int i = 0; i < view->n; i++)
        print_row(view, i, width, &used);
    return used;
}

/* ---- Cards and GPUs ---- */

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static void print_card(const struct topo_view *view, const struct topo_row *row)
{
    motetTopo_t topo = view->topo;
    int pci = topo_above(topo, row->node, motetTopoPci), home = topo_above(topo, row->node, motetTopoNumaNode);
    bool is_net = topo_kind(topo, row->node) == motetTopoNet;
    char speed[32], now[48], best[48];
    const char *port = is_net ? topo_text(topo, row->node, "port") : "";
    char name[80];
    snprintf(name, sizeof name, "%.40s%s%.8s", is_net ? or_dash(topo_text(topo, row->node, "name")) : "-", port[0] ? ":" : "",
             port);
    printf("%-6s %-14s %-12s %-12s %-10s %-10s %4s  %s\n", row->name, name, or_dash(topo_text(topo, pci, "busid")),
           or_dash(is_net ? topo_speed(topo, row->node, speed) : ""), or_dash(topo_link(topo, pci, "current_", now)),
           or_dash(topo_link(topo, pci, "", best)), or_dash(topo_text(topo, home, "numaid")),
           or_dash(topo_text(topo, pci, "irq_cpus")));
}

static void print_cards(const struct topo_view *view)
{
    bool any = false;
    for (int i = 0; i < view->n; i++) {
        if (view->rows[i].what != TOPO_NICS && view->rows[i].what != TOPO_GPUS)
            continue;
        if (!any)
            printf("\n%-6s %-14s %-12s %-12s %-10s %-10s %4s  %s\n", "", "name", "PCI device", "speed", "link now", "at most",
                   "node", "interrupts on CPUs");
        any = true;
        print_card(view, &view->rows[i]);
    }
}

/* ---- The rest ---- */

static void print_measured(const struct topo_view *view)
{
    int n = count_nodes(view);
    bool any = false;
    for (int i = 0; i < n; i++) {
        if (topo_kind(view->topo, i) != motetTopoLink)
            continue;
        if (!any)
            printf("\n%-8s %12s %14s  %s\n", "measured", "latency", "bandwidth", "CPUs");
        any = true;
        printf("%-8s %9.4g ns %9.4g GB/s  %s\n", topo_text(view->topo, i, "class"), topo_number(view->topo, i, "latency_ns"),
               topo_number(view->topo, i, "bandwidth_gbs"), topo_text(view->topo, i, "cpus"));
    }
}

static void print_findings(const struct topo_view *view)
{
    int n = 0, node;
    const char *sentence;
    motetTopoFindingCount(view->topo, &n);
    for (int i = 0; i < n; i++)
        if (motetTopoFinding(view->topo, i, &node, &sentence) == motetSuccess)
            printf("%slook: %s\n", i == 0 ? "\n" : "", sentence);
}

static void print_legend(unsigned used)
{
    for (int path = 0; path < MOTET_TOPO_PATHS; path++)
        if (used >> path & 1)
            printf("%s  %-5s %s\n", used && (used & ((1u << path) - 1)) == 0 ? "\n" : "", motetTopoPathName((motetTopoPath_t)path),
                   motetTopoPathMeaning((motetTopoPath_t)path));
}

void topo_print_text(const struct topo_view *view)
{
    print_head(view);
    unsigned used = print_matrix(view);
    print_cards(view);
    print_measured(view);
    print_findings(view);
    print_legend(used);
}
