/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "motet.h"
#include "topo.h"

#define HOSTS_MOST 4096

struct host {
    const char *name;
    int cpus;
    double gbs; /* of its cards */
};

struct reading {
    motetTopo_t topo;
    int n;
    struct host *hosts;
    int nhosts;
    double rank_gbs;
};

/* NULL: too many, or it belongs to none. */
static struct host *host_of(struct reading *reading, int node)
{
    if (topo_above(reading->topo, node, motetTopoNumaNode) < 0)
        return NULL;
    const char *name = topo_host(reading->topo, node);
    for (int i = 0; i < reading->nhosts; i++)
        if (strcmp(reading->hosts[i].name, name) == 0)
            return &reading->hosts[i];
    if (reading->nhosts == HOSTS_MOST)
        return NULL;
    reading->hosts[reading->nhosts] = (struct host){.name = name};
    return &reading->hosts[reading->nhosts++];
}

/* A card's ports and interfaces are the same wires. */
static double card_gbs(const struct reading *reading, int device)
{
    double ports = 0, interfaces = 0, slot = topo_slot_gbs(reading->topo, device);
    for (int i = device; i < reading->n; i++) {
        if (topo_kind(reading->topo, i) != motetTopoNet || topo_above(reading->topo, i, motetTopoPci) != device)
            continue;
        double speed = topo_number(reading->topo, i, "speed") / 8000;
        if (topo_text(reading->topo, i, "guid")[0])
            ports += speed;
        else
            interfaces += speed;
    }
    double needs = ports > interfaces ? ports : interfaces;
    return needs > 0 && (slot == 0 || needs < slot) ? needs : slot;
}

static bool has_class(const struct reading *reading, int node, const char *class)
{
    return strncasecmp(topo_text(reading->topo, node, "class"), class, strlen(class)) == 0;
}

static bool has_gpu(const struct reading *reading, int device)
{
    for (int i = device + 1; i < reading->n; i++)
        if (topo_kind(reading->topo, i) == motetTopoGpu && topo_above(reading->topo, i, motetTopoPci) == device)
            return true;
    return has_class(reading, device, "0x0302") || has_class(reading, device, "0x12");
}

static bool has_net(const struct reading *reading, int device)
{
    for (int i = device + 1; i < reading->n; i++)
        if (topo_kind(reading->topo, i) == motetTopoNet && topo_above(reading->topo, i, motetTopoPci) == device)
            return true;
    return has_class(reading, device, "0x02");
}

static void read_device(struct reading *reading, int device)
{
    struct host *host = host_of(reading, device);
    double gbs = topo_slot_gbs(reading->topo, device);
    if (topo_is_bridge(reading->topo, device))
        return;
    if (has_gpu(reading, device) && gbs > 0 && (reading->rank_gbs == 0 || gbs < reading->rank_gbs))
        reading->rank_gbs = gbs;
    if (host && has_net(reading, device))
        host->gbs += card_gbs(reading, device);
}

static void read_link(const struct reading *reading, int node, motetExplainNetwork_t *network)
{
    double ns = topo_number(reading->topo, node, "latency_ns"), gbs = topo_number(reading->topo, node, "bandwidth_gbs");
    ns = ns > 0 ? ns : 0;
    gbs = gbs > 0 ? gbs : 0;
    if (has_class(reading, node, "NET")) {
        network->latencyUs = ns > 0 ? ns / 1000 : network->latencyUs;
        network->hostGBs = gbs > 0 ? gbs : network->hostGBs;
        return;
    }
    network->localLatencyUs = ns / 1000 > network->localLatencyUs ? ns / 1000 : network->localLatencyUs;
    if (gbs > 0 && (network->coreGBs == 0 || 2 * gbs < network->coreGBs))
        network->coreGBs = 2 * gbs;
}

static void read_hosts(struct reading *reading, struct network_file *file)
{
    for (int i = 0; i < reading->n; i++) {
        motetTopoKind_t kind = topo_kind(reading->topo, i);
        struct host *host = kind == motetTopoNumaNode ? host_of(reading, i) : NULL;
        if (host)
            host->cpus += topo_cpu_count(reading->topo, i);
        if (kind == motetTopoPci)
            read_device(reading, i);
        double us = kind == motetTopoNet ? topo_number(reading->topo, i, "latency") : 0;
        file->network.latencyUs = us > file->network.latencyUs ? us : file->network.latencyUs;
    }
    for (int i = 0; i < reading->nhosts; i++) {
        const struct host *host = &reading->hosts[i];
        file->cores = host->cpus > 0 && (file->cores == 0 || host->cpus < file->cores) ? host->cpus : file->cores;
        if (host->gbs > 0 && (file->network.hostGBs == 0 || host->gbs < file->network.hostGBs))
            file->network.hostGBs = host->gbs;
    }
    file->hosts = reading->nhosts;
    file->network.rankGBs = reading->rank_gbs;
}

bool topo_network_parse(const char *name, const char *text, size_t len, struct network_file *file, char *why, size_t why_len)
{
    struct host *hosts = calloc(HOSTS_MOST, sizeof *hosts);
    struct reading reading = {.hosts = hosts};
    *file = (struct network_file){0};
    bool good = hosts && motetTopoParse(name, text, len, &reading.topo) == motetSuccess &&
                motetTopoCount(reading.topo, &reading.n) == motetSuccess;
    if (!good)
        snprintf(why, why_len, "%s", hosts ? motetGetLastError(NULL) : "out of memory");
    if (good) {
        read_hosts(&reading, file);
        for (int i = 0; i < reading.n; i++)
            if (topo_kind(reading.topo, i) == motetTopoLink)
                read_link(&reading, i, &file->network);
    }
    motetTopoFree(reading.topo);
    free(hosts);
    return good;
}
