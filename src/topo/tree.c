/* SPDX-License-Identifier: Apache-2.0
 * Nodes and attributes. Knows nothing of what they mean, but that "affinity" is a set of CPUs. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/topo.h"

static motetResult_t no_memory(const struct motetTopo *topo)
{
    return motet_fail_quiet(motetSystemError, "%s: out of memory", topo ? topo->name : "topology");
}

struct motetTopo *motet_topo_new(const char *name)
{
    struct motetTopo *topo = calloc(1, sizeof *topo);
    char *copy = topo ? strdup(name) : NULL;
    if (!copy) {
        free(topo);
        no_memory(NULL);
        return NULL;
    }
    topo->name = copy;
    return topo;
}

static void free_node(struct motet_topo_node *node)
{
    for (int i = 0; i < node->nattributes; i++) {
        free(node->attributes[i].name);
        free(node->attributes[i].value);
    }
    free(node->attributes);
    free(node->element);
    free(node->cpus);
}

void motet_topo_free(struct motetTopo *topo)
{
    if (!topo)
        return;
    for (int i = 0; i < topo->n; i++)
        free_node(&topo->nodes[i]);
    for (int i = 0; i < topo->nfindings; i++)
        free(topo->findings[i].sentence);
    free(topo->findings);
    free(topo->nodes);
    free(topo->name);
    free(topo);
}

static bool make_room(struct motetTopo *topo)
{
    if (topo->n < topo->capacity)
        return true;
    int capacity = topo->capacity ? 2 * topo->capacity : 64;
    struct motet_topo_node *nodes = realloc(topo->nodes, (size_t)capacity * sizeof *nodes);
    if (!nodes)
        return false;
    topo->nodes = nodes;
    topo->capacity = capacity;
    return true;
}

motetResult_t motet_topo_add(struct motetTopo *topo, int parent, const char *element, int *index)
{
    if (topo->n >= MOTET_TOPO_NODES_MAX)
        return motet_fail_quiet(motetInvalidArgument, "%s: more than %d elements", topo->name, MOTET_TOPO_NODES_MAX);
    char *copy = make_room(topo) ? strdup(element) : NULL;
    if (!copy)
        return no_memory(topo);
    int own = topo->n++;
    bool in_unknown = parent >= 0 && topo->nodes[parent].kind == motetTopoOther; /* nothing in there has a meaning */
    topo->nodes[own] = (struct motet_topo_node){
        .kind = in_unknown ? motetTopoOther : motet_topo_kind(element),
        .element = copy,
        .parent = parent,
        .depth = parent < 0 ? 0 : topo->nodes[parent].depth + 1,
        .first_child = -1,
        .last_child = -1,
        .next = -1,
    };
    if (parent >= 0) {
        struct motet_topo_node *above = &topo->nodes[parent];
        if (above->last_child < 0)
            above->first_child = own;
        else
            topo->nodes[above->last_child].next = own;
        above->last_child = own;
    }
    if (index)
        *index = own;
    return motetSuccess;
}

static int find_attribute(const struct motet_topo_node *node, const char *name)
{
    for (int i = 0; i < node->nattributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return i;
    return -1;
}

static void take_away(struct motet_topo_node *node, int at)
{
    free(node->attributes[at].name);
    free(node->attributes[at].value);
    memmove(&node->attributes[at], &node->attributes[at + 1], (size_t)(node->nattributes - at - 1) * sizeof *node->attributes);
    node->nattributes--;
}

static motetResult_t append_attribute(struct motetTopo *topo, struct motet_topo_node *node, const char *name, const char *value)
{
    struct motet_topo_attribute *grown = realloc(node->attributes, (size_t)(node->nattributes + 1) * sizeof *grown);
    if (!grown)
        return no_memory(topo);
    node->attributes = grown;
    struct motet_topo_attribute made = {strdup(name), strdup(value)};
    if (!made.name || !made.value) {
        free(made.name);
        free(made.value);
        return no_memory(topo);
    }
    node->attributes[node->nattributes++] = made;
    return motetSuccess;
}

motetResult_t motet_topo_set(struct motetTopo *topo, int index, const char *name, const char *value)
{
    struct motet_topo_node *node = &topo->nodes[index];
    int at = find_attribute(node, name);
    if (!value) {
        if (at >= 0)
            take_away(node, at);
        return motetSuccess;
    }
    if (at < 0)
        return append_attribute(topo, node, name, value);
    char *copy = strdup(value);
    if (!copy)
        return no_memory(topo);
    free(node->attributes[at].value);
    node->attributes[at].value = copy;
    return motetSuccess;
}

motetResult_t motet_topo_setf(struct motetTopo *topo, int index, const char *name, const char *format, ...)
{
    char value[MOTET_TOPO_VALUE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    return motet_topo_set(topo, index, name, value);
}

motetResult_t motet_topo_set_cpus(struct motetTopo *topo, int index, const struct motet_cpuset *cpus)
{
    char text[MOTET_CPUSET_TEXT_MAX];
    struct motet_topo_node *node = &topo->nodes[index];
    if (!node->cpus)
        node->cpus = malloc(sizeof *node->cpus);
    if (!node->cpus)
        return no_memory(topo);
    *node->cpus = *cpus;
    return motet_topo_set(topo, index, "affinity", motet_cpuset_mask(cpus, text));
}

const char *motet_topo_get(const struct motetTopo *topo, int index, const char *name)
{
    int at = index >= 0 ? find_attribute(&topo->nodes[index], name) : -1;
    return at < 0 ? NULL : topo->nodes[index].attributes[at].value;
}

double motet_topo_number(const struct motetTopo *topo, int index, const char *name, double otherwise)
{
    const char *text = motet_topo_get(topo, index, name);
    char *end;
    double value = text ? strtod(text, &end) : 0;
    return text && end != text && value - value == 0 ? value : otherwise;
}

int motet_topo_above(const struct motetTopo *topo, int index, motetTopoKind_t kind)
{
    while (index >= 0 && topo->nodes[index].kind != kind)
        index = topo->nodes[index].parent;
    return index;
}

/* What comes after a node in the order of writing. */
static int after(const struct motetTopo *topo, int index)
{
    if (topo->nodes[index].first_child >= 0)
        return topo->nodes[index].first_child;
    while (index >= 0 && topo->nodes[index].next < 0)
        index = topo->nodes[index].parent;
    return index < 0 ? -1 : topo->nodes[index].next;
}

motetResult_t motet_topo_arrange(struct motetTopo *topo)
{
    struct motet_topo_node *sorted = malloc((size_t)topo->n * sizeof *sorted);
    int *number = malloc((size_t)topo->n * sizeof *number), n = 0;
    if (!sorted || !number) {
        free(sorted);
        free(number);
        return no_memory(topo);
    }
    for (int i = topo->n > 0 ? 0 : -1; i >= 0; i = after(topo, i))
        number[i] = n++;
    for (int i = 0; i < topo->n; i++) {
        struct motet_topo_node node = topo->nodes[i];
        node.parent = node.parent < 0 ? -1 : number[node.parent];
        node.first_child = node.first_child < 0 ? -1 : number[node.first_child];
        node.last_child = node.last_child < 0 ? -1 : number[node.last_child];
        node.next = node.next < 0 ? -1 : number[node.next];
        sorted[number[i]] = node;
    }
    free(number);
    free(topo->nodes);
    topo->nodes = sorted;
    topo->capacity = topo->n;
    return motetSuccess;
}

motetResult_t motet_topo_find(struct motetTopo *topo, int index, const char *format, ...)
{
    char sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    struct motet_topo_finding *grown = realloc(topo->findings, (size_t)(topo->nfindings + 1) * sizeof *grown);
    if (grown)
        topo->findings = grown;
    char *copy = grown ? strdup(sentence) : NULL;
    if (!copy)
        return no_memory(topo);
    topo->findings[topo->nfindings++] = (struct motet_topo_finding){index, copy};
    return motetSuccess;
}
