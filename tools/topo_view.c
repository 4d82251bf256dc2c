/* SPDX-License-Identifier: Apache-2.0
 * Which nodes of a topology become rows of the matrix, in which order, and how they are called. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "topo.h"

#define CORES_MOST 32 /* more make a matrix that no terminal shows */

static const struct {
    const char *word, *prefix;
    enum topo_rows what;
} words[] = {
    {"ranks", "R", TOPO_RANKS},      {"nodes", "N", TOPO_NODES}, {"caches", "L", TOPO_CACHES}, {"cores", "C", TOPO_CORES},
    {"bridges", "SW", TOPO_BRIDGES}, {"nics", "NIC", TOPO_NICS}, {"gpus", "GPU", TOPO_GPUS},
};
#define NWORDS (sizeof words / sizeof words[0])

bool topo_rows_parse(const char *text, unsigned *what)
{
    *what = 0;
    while (*text) {
        size_t len = strcspn(text, ","), i = 0;
        while (i < NWORDS && (strlen(words[i].word) != len || strncasecmp(words[i].word, text, len) != 0))
            i++;
        if (len == 3 && strncasecmp(text, "all", 3) == 0)
            *what |= (1u << NWORDS) - 1;
        else if (i == NWORDS)
            return false;
        else
            *what |= words[i].what;
        text += len + (text[len] == ',');
    }
    return *what != 0;
}

static bool has_child(motetTopo_t topo, int node, motetTopoKind_t kind)
{
    int n = 0;
    motetTopoNode_t child;
    motetTopoCount(topo, &n);
    for (int i = node + 1; i < n; i++)
        if (motetTopoNode(topo, i, &child) == motetSuccess && child.parent == node && child.kind == kind)
            return true;
    return false;
}

/* Files of clouds have cards and GPUs as PCI devices alone: their class tells. */
static unsigned what_is(motetTopo_t topo, int node)
{
    const char *class = topo_text(topo, node, "class");
    switch (topo_kind(topo, node)) {
    case motetTopoRank:
        return TOPO_RANKS;
    case motetTopoNumaNode:
        return TOPO_NODES;
    case motetTopoCache:
        return TOPO_CACHES;
    case motetTopoCore:
        return TOPO_CORES;
    case motetTopoNet:
        return TOPO_NICS;
    case motetTopoGpu:
        return TOPO_GPUS;
    case motetTopoPci:
        if (topo_is_bridge(topo, node))
            return TOPO_BRIDGES;
        if (strncasecmp(class, "0x02", 4) == 0 && !has_child(topo, node, motetTopoNic))
            return TOPO_NICS;
        if ((strncasecmp(class, "0x0302", 6) == 0 || strncasecmp(class, "0x12", 4) == 0) && !has_child(topo, node, motetTopoGpu))
            return TOPO_GPUS;
        return 0;
    default:
        return 0;
    }
}

static int cache_level(motetTopo_t topo, int node)
{
    double level = topo_kind(topo, node) == motetTopoCache ? topo_number(topo, node, "level") : 0;
    return level > 0 && level < 16 ? (int)level : 0;
}

static void name_row(const struct topo_view *view, struct topo_row *row, size_t word, int number)
{
    if (row->what == TOPO_RANKS)
        snprintf(row->name, sizeof row->name, "R%s", topo_text(view->topo, row->node, "id"));
    else if (row->what == TOPO_NODES && view->nhosts == 1)
        snprintf(row->name, sizeof row->name, "N%s", topo_text(view->topo, row->node, "numaid"));
    else if (row->what == TOPO_CACHES)
        snprintf(row->name, sizeof row->name, "L%s.%d", topo_text(view->topo, row->node, "level"), number);
    else
        snprintf(row->name, sizeof row->name, "%s%d", words[word].prefix, number);
}

static int compare_ranks(const void *a, const void *b)
{
    const struct topo_row *x = a, *y = b;
    int p = atoi(x->name + 1), q = atoi(y->name + 1);
    return (p > q) - (p < q);
}

static void count(struct topo_view *view, int nnodes, int *nranks, int *ncores)
{
    for (int i = 0; i < nnodes; i++) {
        motetTopoKind_t kind = topo_kind(view->topo, i);
        bool seen = false;
        *nranks += kind == motetTopoRank;
        *ncores += kind == motetTopoCore;
        if (kind != motetTopoNumaNode)
            continue;
        view->nnodes++;
        view->ncpus += topo_cpu_count(view->topo, i);
        for (int k = 0; k < i; k++)
            seen |=
                topo_kind(view->topo, k) == motetTopoNumaNode && strcmp(topo_host(view->topo, k), topo_host(view->topo, i)) == 0;
        view->nhosts += !seen;
    }
    view->nhosts += view->nhosts == 0;
}

bool topo_view_make(motetTopo_t topo, unsigned what, struct topo_view *view)
{
    int n = 0, nranks = 0, ncores = 0;
    *view = (struct topo_view){.topo = topo};
    motetTopoCount(topo, &n);
    view->rows = calloc((size_t)n + 1, sizeof *view->rows);
    if (!view->rows)
        return false;
    count(view, n, &nranks, &ncores);
    if (what == 0)
        what = TOPO_NICS | TOPO_GPUS | (nranks > 0 ? TOPO_RANKS : ncores > 0 && ncores <= CORES_MOST ? TOPO_CORES : TOPO_NODES);
    for (size_t word = 0; word < NWORDS; word++) {
        int numbers[16] = {0}, first = view->n; /* caches are numbered by level */
        for (int i = 0; i < n && what & words[word].what; i++) {
            if (what_is(topo, i) != words[word].what)
                continue;
            struct topo_row *row = &view->rows[view->n++];
            *row = (struct topo_row){.node = i, .what = words[word].what};
            name_row(view, row, word, numbers[cache_level(topo, i)]++);
        }
        if (words[word].what == TOPO_RANKS && view->n > first)
            qsort(&view->rows[first], (size_t)(view->n - first), sizeof *view->rows, compare_ranks);
    }
    return true;
}

void topo_view_free(struct topo_view *view)
{
    free(view->rows);
    *view = (struct topo_view){0};
}
