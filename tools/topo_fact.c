/* SPDX-License-Identifier: Apache-2.0
 * What single nodes of a topology say, in words. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "topo.h"

const char *topo_text(motetTopo_t topo, int node, const char *name)
{
    const char *value = NULL;
    return node >= 0 && motetTopoAttribute(topo, node, name, &value) == motetSuccess && value ? value : "";
}

double topo_number(motetTopo_t topo, int node, const char *name)
{
    double value = strtod(topo_text(topo, node, name), NULL);
    return value - value == 0 ? value : 0;
}

static motetTopoNode_t get(motetTopo_t topo, int node)
{
    motetTopoNode_t found = {.kind = motetTopoOther, .parent = -1};
    if (node >= 0)
        motetTopoNode(topo, node, &found);
    return found;
}

motetTopoKind_t topo_kind(motetTopo_t topo, int node)
{
    return get(topo, node).kind;
}

int topo_above(motetTopo_t topo, int node, motetTopoKind_t kind)
{
    while (node >= 0 && topo_kind(topo, node) != kind)
        node = get(topo, node).parent;
    return node;
}

bool topo_is_bridge(motetTopo_t topo, int node)
{
    return topo_kind(topo, node) == motetTopoPci && strncasecmp(topo_text(topo, node, "class"), "0x0604", 6) == 0;
}

char *topo_cpus(motetTopo_t topo, int node)
{
    char *list = NULL;
    if (node < 0 || motetTopoCpus(topo, node, &list) != motetSuccess)
        list = strdup("");
    return list;
}

int topo_cpu_count(motetTopo_t topo, int node)
{
    char *list = topo_cpus(topo, node);
    int count = 0;
    for (char *at = list; at && *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (end == at)
            break;
        count += (int)(last - first + 1);
        at = *end == ',' ? end + 1 : end;
    }
    free(list);
    return count;
}

const char *topo_host(motetTopo_t topo, int node)
{
    if (topo_kind(topo, node) == motetTopoRank)
        return topo_text(topo, node, "host");
    return topo_text(topo, topo_above(topo, node, motetTopoNumaNode), "host_hash");
}

/* ---- Links and speeds ---- */

const char *topo_link(motetTopo_t topo, int pci, const char *prefix, char text[48])
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64};
    char name[64];
    int generation = 0;
    snprintf(name, sizeof name, "%slink_speed", prefix);
    double gts = topo_number(topo, pci, name);
    snprintf(name, sizeof name, "%slink_width", prefix);
    int lanes = (int)topo_number(topo, pci, name);
    text[0] = '\0';
    for (int i = 0; i < 6; i++)
        generation = gts >= speeds[i] ? i + 1 : generation;
    if (generation > 0 && lanes > 0)
        snprintf(text, 48, "PCIe %d x%d", generation, lanes);
    return text;
}

double topo_slot_gbs(motetTopo_t topo, int device)
{
    double least = 0;
    for (int i = topo_above(topo, device, motetTopoPci); i >= 0 && topo_kind(topo, i) == motetTopoPci; i = get(topo, i).parent) {
        double gbs = motetTopoPciGBs(topo_number(topo, i, "current_link_speed"), (int)topo_number(topo, i, "current_link_width"));
        if (gbs == 0)
            gbs = motetTopoPciGBs(topo_number(topo, i, "link_speed"), (int)topo_number(topo, i, "link_width"));
        least = gbs > 0 && (least == 0 || gbs < least) ? gbs : least;
    }
    return least;
}

const char *topo_speed(motetTopo_t topo, int net, char text[32])
{
    double speed = topo_number(topo, net, "speed");
    text[0] = '\0';
    if (speed >= 1000)
        snprintf(text, 32, "%.4g Gb/s", speed / 1000);
    else if (speed > 0)
        snprintf(text, 32, "%.4g Mb/s", speed);
    return text;
}
