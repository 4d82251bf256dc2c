/* SPDX-License-Identifier: Apache-2.0
 * By what two nodes reach each other. CPUs: the smallest thing that holds all CPUs of both. Devices: bridges on the way between them, then the
 * memory node. Only what the tree says counts; where it says nothing the answer is that they are on the same host. */
#include <string.h>
#include <strings.h>

#include "topo/topo.h"

static const struct {
    const char *name, *meaning;
} paths[MOTET_TOPO_PATHS] = {
    [motetTopoSelf] = {"X", "itself"},
    [motetTopoSameProcess] = {"PROC", "threads of one process"},
    [motetTopoSameCpu] = {"CPU", "one CPU: ranks take turns on it"},
    [motetTopoSameCore] = {"CORE", "CPUs of one core"},
    [motetTopoSharedL2] = {"L2", "cores that share a second-level cache"},
    [motetTopoSharedL3] = {"L3", "cores that share a last-level cache"},
    [motetTopoNvlinked] = {"NVL", "NVLinks"},
    [motetTopoOneBridge] = {"PIX", "at most one PCIe bridge"},
    [motetTopoBridges] = {"PXB", "several PCIe bridges, but no host bridge"},
    [motetTopoHostBridge] = {"PHB", "a PCIe host bridge of the same memory node"},
    [motetTopoInNode] = {"NODE", "the same memory node, but no shared cache or host bridge"},
    [motetTopoInSocket] = {"SOCK", "another memory node of the same socket"},
    [motetTopoAcross] = {"SYS", "the connection between memory nodes or sockets"},
    [motetTopoInHost] = {"HOST", "the same host; how is not known"},
    [motetTopoByNetwork] = {"NET", "a network: they are on different hosts"},
};

const char *motetTopoPathName(motetTopoPath_t path)
{
    return (unsigned)path < MOTET_TOPO_PATHS ? paths[path].name : "?";
}

const char *motetTopoPathMeaning(motetTopoPath_t path)
{
    return (unsigned)path < MOTET_TOPO_PATHS ? paths[path].meaning : "";
}

/* ---- Hosts ---- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* A memory node of the host of `index`; -1: the host is not in the tree. */
static int node_of_host(const struct motetTopo *topo, int index)
{
    int own = motet_topo_above(topo, index, motetTopoNumaNode);
    if (own >= 0 || topo->nodes[index].kind != motetTopoRank)
        return own;
    const char *host = motet_topo_get(topo, index, "host"), *here = motet_topo_get(topo, 0, "host");
    for (int i = topo->nodes[0].first_child; i >= 0; i = topo->nodes[i].next)
        if (topo->nodes[i].kind == motetTopoNumaNode &&
            (!host || same_text(host, here) || same_text(host, motet_topo_get(topo, i, "host_hash"))))
            return i;
    return -1;
}

static bool same_host(const struct motetTopo *topo, int a, int b)
{
    int x = node_of_host(topo, a), y = node_of_host(topo, b);
    if (x >= 0 && y >= 0)
        return same_text(motet_topo_get(topo, x, "host_hash"), motet_topo_get(topo, y, "host_hash"));
    if (x < 0 && y < 0) /* ranks of hosts that are not in the tree; what belongs to no host is everywhere */
        return topo->nodes[a].kind != motetTopoRank || topo->nodes[b].kind != motetTopoRank ||
               same_text(motet_topo_get(topo, a, "host"), motet_topo_get(topo, b, "host"));
    return topo->nodes[x < 0 ? a : b].kind != motetTopoRank;
}

/* ---- CPUs ---- */

static motetTopoPath_t holds(const struct motet_topo_node *node, const struct motetTopo *topo, int index)
{
    if (node->kind == motetTopoCore)
        return motetTopoSameCore;
    if (node->kind == motetTopoCache)
        return motet_topo_number(topo, index, "level", 9) <= 2 ? motetTopoSharedL2 : motetTopoSharedL3;
    return motetTopoInNode;
}

/* Whether the memory nodes of one package of that host hold all. */
static bool in_package(const struct motetTopo *topo, int node, const struct motet_cpuset *cpus)
{
    for (int i = topo->nodes[0].first_child; i >= 0; i = topo->nodes[i].next) {
        const char *package = topo->nodes[i].kind == motetTopoNumaNode ? motet_topo_get(topo, i, "package") : NULL;
        struct motet_cpuset all = {{0}};
        if (!package || !same_host(topo, i, node))
            continue;
        for (int k = topo->nodes[0].first_child; k >= 0; k = topo->nodes[k].next)
            if (topo->nodes[k].cpus && topo->nodes[k].kind == motetTopoNumaNode && same_host(topo, i, k) &&
                same_text(package, motet_topo_get(topo, k, "package")))
                motet_cpuset_unite(&all, topo->nodes[k].cpus);
        if (motet_cpuset_covers(&all, cpus))
            return true;
    }
    return false;
}

motetTopoPath_t motet_topo_cpu_path(const struct motetTopo *topo, int node, const struct motet_cpuset *cpus)
{
    motetTopoPath_t best = motetTopoAcross;
    int count = motet_cpuset_count(cpus);
    if (count == 0)
        return motetTopoInHost;
    for (int i = 0; i < topo->n; i++) {
        const struct motet_topo_node *one = &topo->nodes[i];
        if (!one->cpus || one->kind == motetTopoRank || !motet_cpuset_covers(one->cpus, cpus) || !same_host(topo, i, node))
            continue;
        motetTopoPath_t path = holds(one, topo, i);
        best = path < best ? path : best;
    }
    if (best == motetTopoAcross && in_package(topo, node, cpus))
        best = motetTopoInSocket;
    return count == 1 && best < motetTopoAcross ? motetTopoSameCpu : best;
}

/* ---- Devices ---- */

static bool is_bridge(const struct motetTopo *topo, int index)
{
    const char *class = motet_topo_get(topo, index, "class");
    return class && strncasecmp(class, "0x0604", 6) == 0;
}

static bool same_slot(const struct motetTopo *topo, int a, int b)
{
    const char *x = motet_topo_get(topo, a, "busid"), *y = motet_topo_get(topo, b, "busid");
    const char *dot = x ? strchr(x, '.') : NULL;
    return dot && y && strncasecmp(x, y, (size_t)(dot - x) + 1) == 0;
}

/* The <pci> below a memory node from which `index` hangs. */
static int top_of(const struct motetTopo *topo, int index)
{
    while (topo->nodes[topo->nodes[index].parent].kind == motetTopoPci)
        index = topo->nodes[index].parent;
    return index;
}

/* The nearest node above both. */
static int common_of(const struct motetTopo *topo, int a, int b)
{
    while (a != b) {
        if (topo->nodes[a].depth >= topo->nodes[b].depth)
            a = topo->nodes[a].parent;
        else
            b = topo->nodes[b].parent;
    }
    return a;
}

/* a and b are <pci>. */
static motetTopoPath_t device_path(const struct motetTopo *topo, int a, int b)
{
    int common = common_of(topo, a, b);
    if (a == b || same_slot(topo, a, b))
        return motetTopoOneBridge;
    if (topo->nodes[common].kind == motetTopoPci) {
        int bridges = is_bridge(topo, common) && common != a && common != b;
        for (int i = a; i != common; i = topo->nodes[i].parent)
            bridges += i != a;
        for (int i = b; i != common; i = topo->nodes[i].parent)
            bridges += i != b;
        return bridges <= 1 ? motetTopoOneBridge : motetTopoBridges;
    }
    if (topo->nodes[common].kind != motetTopoNumaNode)
        return motetTopoAcross;
    const char *x = motet_topo_get(topo, top_of(topo, a), "host_bridge"), *y = motet_topo_get(topo, top_of(topo, b), "host_bridge");
    return x && y && strcmp(x, y) != 0 ? motetTopoInNode : motetTopoHostBridge;
}

/* Whether the GPU of device a has NVLinks to device b, or to a switch that b has links to as well. */
static bool nvlinked(const struct motetTopo *topo, int a, int b)
{
    int x = topo->nodes[a].first_child, y = topo->nodes[b].first_child;
    while (x >= 0 && topo->nodes[x].kind != motetTopoGpu)
        x = topo->nodes[x].next;
    while (y >= 0 && topo->nodes[y].kind != motetTopoGpu)
        y = topo->nodes[y].next;
    const char *id = motet_topo_get(topo, b, "busid");
    for (int i = x < 0 ? -1 : topo->nodes[x].first_child; i >= 0; i = topo->nodes[i].next) {
        const char *target = topo->nodes[i].kind == motetTopoNvlink ? motet_topo_get(topo, i, "target") : NULL;
        const char *class = motet_topo_get(topo, i, "tclass");
        if (target && id && strcasecmp(target, id) == 0)
            return true;
        bool is_switch = target && class && strncasecmp(class, "0x0680", 6) == 0;
        for (int k = is_switch && y >= 0 ? topo->nodes[y].first_child : -1; k >= 0; k = topo->nodes[k].next) {
            const char *other = topo->nodes[k].kind == motetTopoNvlink ? motet_topo_get(topo, k, "tclass") : NULL;
            if (other && strncasecmp(other, "0x0680", 6) == 0)
                return true;
        }
    }
    return false;
}

/* ---- All ---- */

static bool is_cpu_like(motetTopoKind_t kind)
{
    return kind == motetTopoNumaNode || kind == motetTopoCache || kind == motetTopoCore || kind == motetTopoRank;
}

static bool is_device(motetTopoKind_t kind)
{
    return kind == motetTopoPci || kind == motetTopoNic || kind == motetTopoNet || kind == motetTopoGpu;
}

/* From CPUs to a device: a host bridge, if all of them are of its memory node. */
static motetTopoPath_t mixed_path(const struct motetTopo *topo, int cpus, int device)
{
    int node = motet_topo_above(topo, device, motetTopoNumaNode);
    const struct motet_cpuset *set = topo->nodes[cpus].cpus, *local = topo->nodes[node].cpus;
    if (cpus == node)
        return motetTopoHostBridge;
    if (!set || motet_cpuset_count(set) == 0 || motet_topo_number(topo, node, "numaid", -1) < 0)
        return motetTopoInHost;
    return local && motet_cpuset_covers(local, set) ? motetTopoHostBridge : motetTopoAcross;
}

static motetTopoPath_t both_cpus(const struct motetTopo *topo, int a, int b)
{
    const struct motet_cpuset *x = topo->nodes[a].cpus, *y = topo->nodes[b].cpus;
    int node = node_of_host(topo, a);
    if (!x || !y || motet_cpuset_count(x) == 0 || motet_cpuset_count(y) == 0 || node < 0)
        return motetTopoInHost;
    struct motet_cpuset both = *x;
    motet_cpuset_unite(&both, y);
    return motet_topo_cpu_path(topo, node, &both);
}

motetTopoPath_t motet_topo_path(const struct motetTopo *topo, int a, int b)
{
    const struct motet_topo_node *x = &topo->nodes[a], *y = &topo->nodes[b];
    if (a == b)
        return motetTopoSelf;
    if (!same_host(topo, a, b))
        return motetTopoByNetwork;
    if (x->kind == motetTopoRank && y->kind == motetTopoRank) {
        double pid = motet_topo_number(topo, a, "pid", 0);
        if (pid > 0 && pid == motet_topo_number(topo, b, "pid", 0))
            return motetTopoSameProcess;
    }
    if (is_cpu_like(x->kind) && is_cpu_like(y->kind))
        return both_cpus(topo, a, b);
    if (!(is_cpu_like(x->kind) || is_device(x->kind)) || !(is_cpu_like(y->kind) || is_device(y->kind)))
        return motetTopoInHost;
    int p = motet_topo_above(topo, a, motetTopoPci), q = motet_topo_above(topo, b, motetTopoPci);
    if ((is_device(x->kind) && p < 0) || (is_device(y->kind) && q < 0))
        return motetTopoInHost; /* virtual interfaces are nowhere */
    if (is_cpu_like(x->kind))
        return mixed_path(topo, a, b);
    if (is_cpu_like(y->kind))
        return mixed_path(topo, b, a);
    return p != q && nvlinked(topo, p, q) ? motetTopoNvlinked : device_path(topo, p, q);
}
