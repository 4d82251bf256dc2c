/* SPDX-License-Identifier: Apache-2.0
 * Networks of a simulation: directed links with latency and bandwidth between nodes, and which link comes next on the way to an endpoint.
 * The first nodes are endpoints (network cards of hosts), the others switches. Regular networks are rows of a table and compute their
 * ways; others are lists of links with shortest paths. Knows nothing of ranks, messages and time. */
#ifndef MOTET_SIMULATION_NETWORK_H
#define MOTET_SIMULATION_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"

#define MOTET_NETWORK_NAME   64
#define MOTET_NETWORK_VALUES 8

struct motet_network;

/* What a row is made from. */
struct motet_network_request {
    int nranks, nhosts;
    const int *host_first;
    double latency_ns;                /* of a message that crosses one link */
    double bytes_per_ns;              /* of a link */
    const motetSimulateLink_t *links; /* instead of a row: not NULL */
    int nlinks, nswitches;
};

/* A kind of network. Values are its parameters, in the order of their names, 0 where not given. */
struct motet_network_row {
    const char *name, *title;
    const char *parameters; /* "radix,over": whole or decimal numbers */
    /* Sets counts of nodes and links from values; a sentence when they do not fit, NULL when they do. */
    const char *(*shape)(struct motet_network *network);
    /* The link out of `at` on the way from endpoint src to endpoint dst, and the node behind it. */
    int32_t (*next)(const struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind);
    /* Relative speed of a link, 1: as an endpoint's; NULL: all alike. */
    double (*speed)(const struct motet_network *network, int32_t link);
    void (*name_link)(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME]);
    double hop_ns; /* what each link but the first adds, unless said */
    bool is_rank;  /* an endpoint for each rank */
    bool is_alike; /* no pair of endpoints differs from another one, but for the two at the same host */
};

struct motet_network {
    const struct motet_network_row *row; /* NULL: a list of links */
    double values[MOTET_NETWORK_VALUES];
    int32_t nendpoints, nics, nnodes, nlinks;    /* nics: endpoints of a host */
    int32_t dims[4], ndims;                      /* of a torus */
    int32_t down, up, leaves, pods, cores;       /* of a fat tree; leaves of a pod */
    int32_t per_router, routers, global, groups; /* of a dragonfly */
    double first_ns, hop_ns, bytes_per_ns;
    /* A list: links by node they leave, and per destination, made when it is first asked for, how many links each node is away. */
    const motetSimulateLink_t *links;
    int32_t *out_first, *out;
    uint16_t **distance;
};

extern const struct motet_network_row motet_network_rows[];
extern const int motet_network_nrows;

/* "torus:dims=8x8", "fat-tree:radix=32,over=2"; NULL is flat. Errors name the word, and what there is. */
motetResult_t motet_network_make(const char *text, const struct motet_network_request *request, struct motet_network *network);
void motet_network_free(struct motet_network *network);

/* Speed and latency of a link. */
double motet_network_bytes_per_ns(const struct motet_network *network, int32_t link);
double motet_network_latency_ns(const struct motet_network *network, int32_t link, bool is_first);
void motet_network_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME]);

/* As row->next; -1: there is no way, or no memory to look for it. */
int32_t motet_network_next(struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind);

#endif
