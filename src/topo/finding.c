/* SPDX-License-Identifier: Apache-2.0
 * What a person should look at: network cards that cannot reach their speed, and interrupts that are served far from their card. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/topo.h"

/* Payload per transfer and lane: two bits of ten are lost up to 5 GT/s, two of 130 up to 32, and about one byte of 64 in the frames of later
 * generations. */
double motetTopoPciGBs(double speed, int lanes)
{
    if (!(speed > 0) || lanes <= 0)
        return 0;
    double share = speed <= 5.0 ? 0.8 : speed <= 32.0 ? 128.0 / 130 : 242.0 / 256;
    return speed * lanes * share / 8;
}

struct link {
    double gts, gbs;
    int lanes;
};

static struct link link_of(const struct motetTopo *topo, int index, const char *prefix)
{
    char name[64];
    struct link link;
    snprintf(name, sizeof name, "%slink_speed", prefix);
    link.gts = motet_topo_number(topo, index, name, 0);
    snprintf(name, sizeof name, "%slink_width", prefix);
    link.lanes = (int)motet_topo_number(topo, index, name, 0);
    link.gbs = motetTopoPciGBs(link.gts, link.lanes);
    return link;
}

/* What the link does now, else what it could do. */
static struct link link_now(const struct motetTopo *topo, int index)
{
    struct link now = link_of(topo, index, "current_");
    return now.gbs > 0 ? now : link_of(topo, index, "");
}

static const char *generation(const struct link *link, char text[48])
{
    static const double speeds[] = {2.5, 5, 8, 16, 32, 64};
    int found = 0;
    for (int i = 0; i < 6; i++)
        found = link->gts >= speeds[i] ? i + 1 : found;
    snprintf(text, 48, "PCIe %d x%d, %.3g GB/s", found, link->lanes, link->gbs);
    return text;
}

/* Of a card's nets in GB/s, and the names for a sentence. The same port often shows both as InfiniBand device and as interface. */
static double speed_of_card(const struct motetTopo *topo, int nic, char *names, size_t len)
{
    double ports = 0, interfaces = 0;
    names[0] = '\0';
    for (int i = topo->nodes[nic].first_child; i >= 0; i = topo->nodes[i].next) {
        if (topo->nodes[i].kind != motetTopoNet)
            continue;
        const char *name = motet_topo_get(topo, i, "name");
        double speed = motet_topo_number(topo, i, "speed", 0) / 8000;
        if (motet_topo_get(topo, i, "guid"))
            ports += speed;
        else
            interfaces += speed;
        snprintf(names + strlen(names), len - strlen(names), "%s%.64s", names[0] ? ", " : "", name ? name : "?");
    }
    return ports > interfaces ? ports : interfaces;
}

/* The narrowest link on the way from a card to its memory node. */
static int narrowest(const struct motetTopo *topo, int device, struct link *link)
{
    int found = -1;
    for (int i = device; topo->nodes[i].kind == motetTopoPci; i = topo->nodes[i].parent) {
        struct link one = link_now(topo, i);
        if (one.gbs > 0 && (found < 0 || one.gbs < link->gbs)) {
            *link = one;
            found = i;
        }
    }
    return found;
}

static motetResult_t look_at_slot(struct motetTopo *topo, int nic, int device)
{
    char names[256], text[48];
    struct link link;
    double needs = speed_of_card(topo, nic, names, sizeof names);
    int where = narrowest(topo, device, &link);
    if (where < 0 || !(needs > link.gbs))
        return motetSuccess;
    return motet_topo_find(topo, device, "NIC %s moves %.4g GB/s each way, but its %s (%s) carries only %s", names, needs,
                           where == device ? "slot" : "bridge", motet_topo_get(topo, where, "busid"), generation(&link, text));
}

static motetResult_t look_at_link(struct motetTopo *topo, int device)
{
    char now_text[48], best_text[48];
    struct link now = link_of(topo, device, "current_"), best = link_of(topo, device, "");
    if (!(now.gbs > 0) || !(best.gbs > 0) || now.gbs >= best.gbs)
        return motetSuccess;
    return motet_topo_find(topo, device, "link of %s runs at %s; both ends could do %s", motet_topo_get(topo, device, "busid"),
                           generation(&now, now_text), generation(&best, best_text));
}

/* CPUs that are not at the memory node of a device: what the machine says, else those of the other nodes. */
static struct motet_cpuset far_cpus(const struct motetTopo *topo, int device, const struct motet_cpuset *among)
{
    const char *list = motet_topo_get(topo, device, "local_cpus");
    struct motet_cpuset far = *among, others = {{0}}, local;
    int node = motet_topo_above(topo, device, motetTopoNumaNode);
    if (list && motet_cpuset_parse_list(list, &local)) {
        motet_cpuset_remove(&far, &local);
        return far;
    }
    for (int i = topo->nodes[0].first_child; i >= 0; i = topo->nodes[i].next)
        if (topo->nodes[i].kind == motetTopoNumaNode && i != node && topo->nodes[i].cpus)
            motet_cpuset_unite(&others, topo->nodes[i].cpus);
    if (topo->nodes[node].cpus)
        motet_cpuset_remove(&others, topo->nodes[node].cpus);
    motet_cpuset_intersect(&far, &others);
    return far;
}

static motetResult_t look_at_interrupts(struct motetTopo *topo, int nic, int device)
{
    char names[256], there[256];
    struct motet_cpuset cpus;
    const char *list = motet_topo_get(topo, device, "irq_cpus");
    int node = motet_topo_above(topo, device, motetTopoNumaNode);
    if (!list || !motet_cpuset_parse_list(list, &cpus) || motet_topo_number(topo, node, "numaid", -1) < 0)
        return motetSuccess;
    cpus = far_cpus(topo, device, &cpus);
    if (motet_cpuset_count(&cpus) == 0)
        return motetSuccess;
    motet_cpuset_list(&cpus, there, sizeof there);
    speed_of_card(topo, nic, names, sizeof names);
    return motet_topo_find(topo, device, "interrupts of NIC %s are served by CPUs %s, but the card is at memory node %s", names,
                           there, motet_topo_get(topo, node, "numaid"));
}

motetResult_t motet_topo_look(struct motetTopo *topo)
{
    if (topo->looked)
        return motetSuccess;
    for (int i = 0; i < topo->n; i++) {
        const struct motet_topo_node *node = &topo->nodes[i];
        int device = node->parent;
        if (node->kind == motetTopoPci)
            TRY(look_at_link(topo, i));
        if (node->kind != motetTopoNic || device < 0 || topo->nodes[device].kind != motetTopoPci)
            continue;
        TRY(look_at_slot(topo, i, device));
        TRY(look_at_interrupts(topo, i, device));
    }
    topo->looked = true;
    return motetSuccess;
}
