/* SPDX-License-Identifier: Apache-2.0
 * The elements and attributes of a topology: one table, NCCL's first, then what is added here. What is not in it is kept and reported, so that
 * files of later versions can be read; what is in it and has a wrong form is an error. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/topo.h"

#define UNKNOWN_MOST 50 /* unknown words that are reported */
#define IN(kind)     (1u << (kind))

enum form { TEXT, WHOLE, REAL, HEX, MASK, LIST, BUS_ID, SPEED };
static const char *const form_words[] = {"a text",
                                         "a whole number",
                                         "a number",
                                         "a hexadecimal number",
                                         "a mask of CPUs such as 0000ffff,ffffffff",
                                         "a list of CPUs such as 0-3,8",
                                         "a PCI address such as 0000:3b:00.0",
                                         "a speed such as \"16.0 GT/s PCIe\""};

static const struct {
    const char *element;
    motetTopoKind_t kind;
    unsigned parents;
} elements[] = {
    {"system", motetTopoSystem, 0},
    {"cpu", motetTopoNumaNode, IN(motetTopoSystem)},
    {"pci", motetTopoPci, IN(motetTopoNumaNode) | IN(motetTopoPci)},
    {"gpu", motetTopoGpu, IN(motetTopoPci)},
    {"nvlink", motetTopoNvlink, IN(motetTopoGpu) | IN(motetTopoNumaNode)},
    {"nic", motetTopoNic, IN(motetTopoNumaNode) | IN(motetTopoPci)},
    {"net", motetTopoNet, IN(motetTopoNic)},
    {"cache", motetTopoCache, IN(motetTopoNumaNode) | IN(motetTopoCache)},
    {"core", motetTopoCore, IN(motetTopoNumaNode) | IN(motetTopoCache)},
    {"rank", motetTopoRank, IN(motetTopoSystem)},
    {"link", motetTopoLink, IN(motetTopoSystem)},
};
#define NELEMENTS (sizeof elements / sizeof elements[0])

/* NCCL's, without meaning for CPUs: neither checked nor reported. */
static const char *const silent_elements[] = {"c2c", "pcilink", "gin", "rma"};

static const struct {
    motetTopoKind_t kind;
    const char *name;
    enum form form;
    bool required;
} attributes[] = {
    {motetTopoSystem, "version", WHOLE, false},
    {motetTopoSystem, "name", TEXT, false},
    {motetTopoNumaNode, "numaid", WHOLE, true},
    {motetTopoNumaNode, "affinity", MASK, false},
    {motetTopoNumaNode, "arch", TEXT, false},
    {motetTopoNumaNode, "vendor", TEXT, false},
    {motetTopoNumaNode, "familyid", WHOLE, false},
    {motetTopoNumaNode, "modelid", WHOLE, false},
    {motetTopoNumaNode, "host_hash", TEXT, false},
    {motetTopoPci, "busid", BUS_ID, true},
    {motetTopoPci, "class", HEX, false},
    {motetTopoPci, "vendor", HEX, false},
    {motetTopoPci, "device", HEX, false},
    {motetTopoPci, "subsystem_vendor", HEX, false},
    {motetTopoPci, "subsystem_device", HEX, false},
    {motetTopoPci, "link_speed", SPEED, false},
    {motetTopoPci, "link_width", WHOLE, false},
    {motetTopoPci, "keep", WHOLE, false},
    {motetTopoGpu, "dev", WHOLE, false},
    {motetTopoGpu, "sm", WHOLE, false},
    {motetTopoGpu, "rank", WHOLE, false},
    {motetTopoGpu, "gdr", WHOLE, false},
    {motetTopoGpu, "mlopart", WHOLE, false},
    {motetTopoGpu, "keep", WHOLE, false},
    {motetTopoNvlink, "target", TEXT, false},
    {motetTopoNvlink, "count", WHOLE, false},
    {motetTopoNvlink, "tclass", HEX, false},
    {motetTopoNic, "keep", WHOLE, false},
    {motetTopoNet, "name", TEXT, false},
    {motetTopoNet, "dev", WHOLE, false},
    {motetTopoNet, "speed", REAL, false},
    {motetTopoNet, "latency", REAL, false},
    {motetTopoNet, "port", WHOLE, false},
    {motetTopoNet, "guid", HEX, false},
    {motetTopoNet, "maxconn", WHOLE, false},
    {motetTopoNet, "gdr", WHOLE, false},
    {motetTopoNet, "coll", WHOLE, false},
    {motetTopoNet, "rail", WHOLE, false},
    {motetTopoNet, "plane", WHOLE, false},
    {motetTopoNet, "net", WHOLE, false},
    {motetTopoNet, "gin", WHOLE, false},
    {motetTopoNet, "rma", WHOLE, false},
    {motetTopoNet, "keep", WHOLE, false},
    /* Added to NCCL's. */
    {motetTopoSystem, "host", TEXT, false},
    {motetTopoSystem, "left_out", LIST, false},
    {motetTopoNumaNode, "package", WHOLE, false},
    {motetTopoPci, "max_link_speed", SPEED, false},
    {motetTopoPci, "max_link_width", WHOLE, false},
    {motetTopoPci, "current_link_speed", SPEED, false},
    {motetTopoPci, "current_link_width", WHOLE, false},
    {motetTopoPci, "host_bridge", TEXT, false},
    {motetTopoPci, "irq_cpus", LIST, false},
    {motetTopoPci, "local_cpus", LIST, false},
    {motetTopoGpu, "name", TEXT, false},
    {motetTopoNet, "state", TEXT, false},
    {motetTopoCache, "level", WHOLE, true},
    {motetTopoCache, "size", WHOLE, false},
    {motetTopoCache, "affinity", MASK, true},
    {motetTopoCore, "id", WHOLE, true},
    {motetTopoCore, "affinity", MASK, true},
    {motetTopoRank, "id", WHOLE, true},
    {motetTopoRank, "host", TEXT, false},
    {motetTopoRank, "pid", WHOLE, false},
    {motetTopoRank, "affinity", MASK, false},
    {motetTopoLink, "class", TEXT, true},
    {motetTopoLink, "latency_ns", REAL, false},
    {motetTopoLink, "bandwidth_gbs", REAL, false},
    {motetTopoLink, "cpus", LIST, false},
};
#define NATTRIBUTES (sizeof attributes / sizeof attributes[0])

motetTopoKind_t motet_topo_kind(const char *element)
{
    for (size_t i = 0; i < NELEMENTS; i++)
        if (strcmp(elements[i].element, element) == 0)
            return elements[i].kind;
    return motetTopoOther;
}

/* ---- Forms ---- */

static bool is_number(const char *text, bool whole, int base)
{
    char *end;
    double value = whole ? (double)strtoll(text, &end, base) : strtod(text, &end);
    return end != text && !*end && value - value == 0;
}

/* domain:bus:device.function; NCCL's own switches may have any digits. */
static bool is_bus_id(const char *text)
{
    int at = 0;
    return sscanf(text, "%*8[0-9a-fA-F]:%*2[0-9a-fA-F]:%*2[0-9a-fA-F].%*1[0-9a-fA-F]%n", &at) == 0 && at > 0 && text[at] == '\0';
}

/* Files of virtual machines have "" and "Unknown". */
static bool is_speed(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text)
        return !*text || strncasecmp(text, "unknown", 7) == 0;
    return value >= 0 && value < 1e6 && (*end == ' ' || *end == '\0');
}

static bool has_form(const char *text, enum form form, struct motet_cpuset *cpus)
{
    switch (form) {
    case WHOLE:
        return is_number(text, true, 0) || is_number(text, true, 10);
    case REAL:
        return is_number(text, false, 10);
    case HEX:
        return is_number(text, true, 16) ||
               (strlen(text) == 18 && strncmp(text, "0x", 2) == 0 && strspn(text + 2, "0123456789abcdefABCDEF") == 16);
    case MASK:
        return motet_cpuset_parse_mask(text, cpus);
    case LIST:
        return motet_cpuset_parse_list(text, cpus);
    case BUS_ID:
        return is_bus_id(text);
    case SPEED:
        return is_speed(text);
    default:
        return true;
    }
}

/* ---- Nodes ---- */

static motetResult_t complain(const struct motetTopo *topo, int index, const char *attribute, const char *problem)
{
    const struct motet_topo_node *node = &topo->nodes[index];
    return motet_fail_quiet(motetInvalidArgument, "%s:%lu: <%.64s>%s%.64s%s %s", topo->name, node->line ? node->line : 1,
                            node->element, attribute[0] ? " attribute " : "", attribute, attribute[0] ? "" : "", problem);
}

static motetResult_t report_unknown(struct motetTopo *topo, int index, const char *attribute)
{
    const struct motet_topo_node *node = &topo->nodes[index];
    if (topo->nfindings >= UNKNOWN_MOST)
        return motetSuccess;
    return attribute ? motet_topo_find(topo, index, "%s:%lu: <%.64s> has an attribute %.64s that is not known and has no effect",
                                       topo->name, node->line, node->element, attribute)
                     : motet_topo_find(topo, index, "%s:%lu: <%.64s> is not known and has no effect", topo->name, node->line,
                                       node->element);
}

static int find_attribute(motetTopoKind_t kind, const char *name)
{
    for (size_t i = 0; i < NATTRIBUTES; i++)
        if (attributes[i].kind == kind && strcmp(attributes[i].name, name) == 0)
            return (int)i;
    return -1;
}

static motetResult_t check_value(struct motetTopo *topo, int index, const char *name, const char *value)
{
    char problem[256];
    struct motet_cpuset cpus;
    int row = find_attribute(topo->nodes[index].kind, name);
    if (row < 0)
        return report_unknown(topo, index, name);
    if (!has_form(value, attributes[row].form, &cpus)) {
        snprintf(problem, sizeof problem, "is \"%.64s\", not %s", value, form_words[attributes[row].form]);
        return complain(topo, index, name, problem);
    }
    if (strcmp(name, "affinity") != 0)
        return motetSuccess;
    struct motet_cpuset *kept = malloc(sizeof *kept);
    if (!kept)
        return motet_fail_quiet(motetSystemError, "%s: out of memory", topo->name);
    *kept = cpus;
    free(topo->nodes[index].cpus);
    topo->nodes[index].cpus = kept;
    return motetSuccess;
}

static motetResult_t check_parent(const struct motetTopo *topo, int index)
{
    char problem[256];
    const struct motet_topo_node *node = &topo->nodes[index], *above = node->parent < 0 ? NULL : &topo->nodes[node->parent];
    unsigned parents = elements[0].parents;
    for (size_t i = 0; i < NELEMENTS; i++)
        if (elements[i].kind == node->kind)
            parents = elements[i].parents;
    if (!above && node->kind == motetTopoSystem)
        return motetSuccess;
    if (!above)
        return complain(topo, index, "",
                        strcmp(node->element, "topology") == 0
                            ? "is a file of hwloc; a topology in NCCL's form begins with <system>"
                            : "cannot be the outermost element, which is <system>");
    if (parents & IN(above->kind))
        return motetSuccess;
    snprintf(problem, sizeof problem, "may not stand in <%.64s>", above->element);
    return complain(topo, index, "", problem);
}

motetResult_t motet_topo_check(struct motetTopo *topo, int index)
{
    struct motet_topo_node *node = &topo->nodes[index];
    if (node->kind == motetTopoOther && node->parent >= 0 && topo->nodes[node->parent].kind == motetTopoOther)
        return motetSuccess;
    if (node->kind == motetTopoOther && node->parent >= 0) {
        for (size_t i = 0; i < sizeof silent_elements / sizeof silent_elements[0]; i++)
            if (strcmp(silent_elements[i], node->element) == 0)
                return motetSuccess;
        return report_unknown(topo, index, NULL);
    }
    TRY(check_parent(topo, index));
    for (int i = 0; i < node->nattributes; i++)
        TRY(check_value(topo, index, node->attributes[i].name, node->attributes[i].value));
    for (size_t i = 0; i < NATTRIBUTES; i++)
        if (attributes[i].kind == node->kind && attributes[i].required && !motet_topo_get(topo, index, attributes[i].name))
            return complain(topo, index, attributes[i].name, "is missing");
    if (node->kind == motetTopoSystem && motet_topo_number(topo, index, "version", 1) != 1)
        return complain(topo, index, "version", "is not 1, the only one there is");
    return motetSuccess;
}

/* ---- Identities ---- */

/* What must be there once: the key of a node, "" where it may occur often. */
static void identity(const struct motetTopo *topo, int index, char *key, size_t len)
{
    const char *host = NULL;
    int above = motet_topo_above(topo, index, motetTopoNumaNode);
    key[0] = '\0';
    switch (topo->nodes[index].kind) {
    case motetTopoNumaNode:
    case motetTopoPci:
        host = motet_topo_get(topo, above, "host_hash");
        snprintf(key, len, "%s %.64s of host %.128s", topo->nodes[index].kind == motetTopoPci ? "busid" : "numaid",
                 motet_topo_get(topo, index, topo->nodes[index].kind == motetTopoPci ? "busid" : "numaid"), host ? host : "");
        break;
    case motetTopoRank:
        snprintf(key, len, "id %.64s", motet_topo_get(topo, index, "id"));
        break;
    default:
        break;
    }
    for (char *c = key; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

struct key {
    char text[256];
    int index;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

motetResult_t motet_topo_check_all(struct motetTopo *topo)
{
    if (topo->n == 0)
        return motet_fail_quiet(motetInvalidArgument, "%s:1: there is no element <system>", topo->name);
    struct key *keys = malloc((size_t)topo->n * sizeof *keys);
    if (!keys)
        return motet_fail_quiet(motetSystemError, "%s: out of memory", topo->name);
    int nkeys = 0;
    for (int i = 0; i < topo->n; i++) {
        if (topo->nodes[i].kind != motetTopoOther)
            identity(topo, i, keys[nkeys].text, sizeof keys[nkeys].text);
        else
            keys[nkeys].text[0] = '\0';
        keys[nkeys].index = i;
        nkeys += keys[nkeys].text[0] != '\0';
    }
    qsort(keys, (size_t)nkeys, sizeof *keys, compare_keys);
    motetResult_t result = motetSuccess;
    for (int i = 1; i < nkeys && result == motetSuccess; i++)
        if (strcmp(keys[i - 1].text, keys[i].text) == 0) {
            char problem[384];
            snprintf(problem, sizeof problem, "is there twice (%.200s): first in line %lu", keys[i].text,
                     topo->nodes[keys[i - 1].index].line);
            result = complain(topo, keys[i].index, "", problem);
        }
    free(keys);
    return result;
}
