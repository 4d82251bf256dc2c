/* SPDX-License-Identifier: Apache-2.0
 * The table of networks, the grammar of their parameters, and networks that are lists of links: shortest ways by number of links, among
 * equals one by the numbers of both ends, so that a pair keeps its way. */
#include "simulation_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "simulation_rows.h"

#define FAR UINT16_MAX

const struct motet_network_row motet_network_rows[] = {
    {.name = "flat",
     .title = "a link for each rank and nothing in between that is ever full",
     .parameters = "",
     .shape = motet_star_shape,
     .next = motet_star_next,
     .name_link = motet_star_name,
     .is_rank = true,
     .is_alike = true},
    {.name = "hosts",
     .title = "the ranks of a host share its links; nothing in between is ever full",
     .parameters = "",
     .shape = motet_star_shape,
     .next = motet_star_next,
     .name_link = motet_star_name,
     .is_alike = true},
    {.name = "fat-tree",
     .title = "switches of radix ports in two or three levels, over links down for each link up",
     .parameters = "radix,over,levels",
     .shape = motet_fat_tree_shape,
     .next = motet_fat_tree_next,
     .name_link = motet_fat_tree_name,
     .hop_ns = 100},
    {.name = "torus",
     .title = "each host is linked to its neighbours in each of two or three dimensions",
     .parameters = "dims",
     .shape = motet_torus_shape,
     .next = motet_torus_next,
     .name_link = motet_torus_name,
     .hop_ns = 100},
    {.name = "dragonfly",
     .title = "groups of routers with a link between each two, and a link for each two groups",
     .parameters = "routers,hosts,global,speed",
     .shape = motet_dragonfly_shape,
     .next = motet_dragonfly_next,
     .speed = motet_dragonfly_speed,
     .name_link = motet_dragonfly_name,
     .hop_ns = 100},
};

const int motet_network_nrows = sizeof(motet_network_rows) / sizeof(motet_network_rows[0]);

/* ---- Parameters ---- */

static const struct motet_network_row *find_row(const char *text, size_t len)
{
    for (int r = 0; r < motet_network_nrows; r++) {
        if (strlen(motet_network_rows[r].name) == len && memcmp(motet_network_rows[r].name, text, len) == 0)
            return &motet_network_rows[r];
    }
    return NULL;
}

static motetResult_t refuse(const char *text, const char *why)
{
    return motet_fail(motetInvalidArgument, "Simulate: network \"%s\": %s", text, why);
}

/* "8x8x4" */
static bool parse_dims(const char *text, const char *end, struct motet_network *network)
{
    network->ndims = 0;
    while (network->ndims < 4) {
        char *after;
        long n = strtol(text, &after, 10);
        if (after == text || after > end || n < 1 || n > 65536)
            return false;
        network->dims[network->ndims++] = (int32_t)n;
        if (after == end)
            return true;
        if (*after != 'x')
            return false;
        text = after + 1;
    }
    return false;
}

/* Index of a word in a list with commas; -1. */
static int place_of(const char *list, const char *word, size_t len)
{
    for (int place = 0; *list; place++) {
        size_t n = strcspn(list, ",");
        if (n == len && memcmp(list, word, len) == 0)
            return place;
        list += n + (list[n] == ',');
    }
    return -1;
}

/* One NAME=VALUE up to `end`. nics and hop are known to all rows. */
static motetResult_t parse_parameter(const char *text, const char *word, const char *end, struct motet_network *network)
{
    const char *equals = memchr(word, '=', (size_t)(end - word));
    char why[160], *after;
    if (!equals)
        return refuse(text, "parameters are NAME=VALUE, separated by commas");
    size_t len = (size_t)(equals - word);
    if (len == 4 && memcmp(word, "dims", 4) == 0 && strcmp(network->row->parameters, "dims") == 0)
        return parse_dims(equals + 1, end, network) ? motetSuccess : refuse(text, "dims must be up to four numbers such as 8x8x4");
    double value = strtod(equals + 1, &after);
    int place = place_of(network->row->parameters, word, len);
    if (after != end || !(value >= 0) || value > 1e9)
        return refuse(text, "a value must be a number from 0 on");
    if (place >= 0)
        network->values[place] = value;
    else if (len == 4 && memcmp(word, "nics", 4) == 0 && !network->row->is_rank && value >= 1 && value <= 64)
        network->nics = (int32_t)value;
    else if (len == 3 && memcmp(word, "hop", 3) == 0)
        network->hop_ns = value;
    else {
        snprintf(why, sizeof(why), "\"%.*s\" is not a parameter of %s; it has %s%shop (ns of each link but the first)%s",
                 (int)(len > 32 ? 32 : len), word, network->row->name, network->row->parameters,
                 *network->row->parameters ? "," : "", network->row->is_rank ? "" : ", nics (1 to 64 of a host)");
        return refuse(text, why);
    }
    return motetSuccess;
}

static motetResult_t parse(const char *text, struct motet_network *network)
{
    size_t len = strcspn(text, ":");
    char why[160] = "there are", *at = why + strlen(why);
    network->row = find_row(text, len);
    if (!network->row) {
        for (int r = 0; r < motet_network_nrows; r++)
            at += snprintf(at, (size_t)(why + sizeof(why) - at), "%s %s", r ? "," : "", motet_network_rows[r].name);
        return refuse(text, why);
    }
    network->nics = 1;
    network->hop_ns = network->row->hop_ns;
    const char *word = text + len + (text[len] == ':');
    while (*word) {
        const char *end = word + strcspn(word, ",");
        TRY(parse_parameter(text, word, end, network));
        word = end + (*end == ',');
    }
    return motetSuccess;
}

/* ---- Lists of links ---- */

static motetResult_t out_of_memory(int32_t nlinks)
{
    return motet_fail(motetSystemError, "Simulate: out of memory for a network of %d links", nlinks);
}

static motetResult_t check_link(const struct motet_network *network, const motetSimulateLink_t *link, int32_t l)
{
    if (link->from < 0 || link->from >= network->nnodes || link->to < 0 || link->to >= network->nnodes || link->from == link->to)
        return motet_fail(motetInvalidArgument, "Simulate: link %d goes from node %d to node %d; there are %d, hosts first", l,
                          link->from, link->to, network->nnodes);
    if (!(link->GBs > 0 && link->GBs <= 1e9) || !(link->latencyUs >= 0 && link->latencyUs <= 1e9))
        return motet_fail(motetInvalidArgument, "Simulate: link %d has %g GB/s and %g us, which are no speed and no latency", l,
                          link->GBs, link->latencyUs);
    return motetSuccess;
}

static motetResult_t copy_links(const struct motet_network_request *request, struct motet_network *network)
{
    motetSimulateLink_t *links = calloc((size_t)network->nlinks + 1, sizeof(*links));
    network->links = links;
    network->out_first = calloc((size_t)network->nnodes + 1, sizeof(int32_t));
    network->out = calloc((size_t)network->nlinks + 1, sizeof(int32_t));
    network->distance = calloc((size_t)network->nendpoints + 1, sizeof(*network->distance));
    if (!links || !network->out_first || !network->out || !network->distance)
        return out_of_memory(network->nlinks);
    for (int32_t l = 0; l < network->nlinks; l++) {
        TRY(check_link(network, &request->links[l], l));
        links[l] = request->links[l];
        links[l].name = request->links[l].name ? strdup(request->links[l].name) : NULL;
        network->out_first[links[l].from + 1]++;
    }
    for (int32_t node = 0; node < network->nnodes; node++)
        network->out_first[node + 1] += network->out_first[node];
    for (int32_t l = network->nlinks - 1; l >= 0; l--) /* backwards: each end of a range moves to its start, in order */
        network->out[--network->out_first[links[l].from + 1]] = l;
    for (int32_t node = 0; node < network->nnodes; node++) /* starts stand one place too far */
        network->out_first[node] = network->out_first[node + 1];
    network->out_first[network->nnodes] = network->nlinks;
    return motetSuccess;
}

/* How many links each node is from dst: breadth first, against the links, which are looked through whole for each ring of nodes. */
static uint16_t *measure(const struct motet_network *network, int32_t dst)
{
    size_t bytes = (size_t)network->nnodes * sizeof(uint16_t);
    uint16_t *distance = malloc(bytes);
    bool more = distance;
    if (distance) {
        memset(distance, 0xff, bytes);
        distance[dst] = 0;
    }
    for (uint16_t ring = 0; more; ring++) {
        more = false;
        for (int32_t l = 0; l < network->nlinks; l++) {
            const motetSimulateLink_t *link = &network->links[l];
            if (distance[link->to] != ring || distance[link->from] != FAR)
                continue;
            distance[link->from] = (uint16_t)(ring + 1);
            more = true;
        }
    }
    return distance;
}

static int32_t next_of_list(struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind)
{
    if (!network->distance[dst])
        network->distance[dst] = measure(network, dst);
    const uint16_t *distance = network->distance[dst];
    int32_t nways = 0;
    if (!distance || distance[at] == FAR)
        return -1;
    for (int pass = 0, wanted = -1; pass < 2; pass++) {
        int32_t way = 0;
        for (int32_t k = network->out_first[at]; k < network->out_first[at + 1]; k++) {
            int32_t to = network->links[network->out[k]].to;
            if (distance[to] + 1 != distance[at])
                continue;
            if (way++ == wanted) {
                *behind = to;
                return network->out[k];
            }
        }
        nways = way;
        wanted = nways ? (int)(((uint32_t)src * 31u + (uint32_t)dst) % (uint32_t)nways) : -1;
    }
    return -1;
}

/* ---- The network ---- */

static motetResult_t make(const char *text, const struct motet_network_request *request, struct motet_network *network)
{
    if (!request->links)
        TRY(parse(text ? text : "flat", network));
    network->nics = network->nics ? network->nics : 1;
    network->nendpoints = network->row && network->row->is_rank ? request->nranks : request->nhosts * network->nics;
    network->first_ns = request->latency_ns;
    network->bytes_per_ns = request->bytes_per_ns;
    if (request->links) {
        network->nnodes = network->nendpoints + request->nswitches;
        network->nlinks = request->nlinks;
        return network->nnodes > MOTET_SIMULATE_NODES
                   ? motet_fail(motetInvalidArgument, "Simulate: a list of links may have %d nodes, this one has %d",
                                MOTET_SIMULATE_NODES, network->nnodes)
                   : copy_links(request, network);
    }
    const char *problem = network->row->shape(network);
    return problem ? refuse(text ? text : "flat", problem) : motetSuccess;
}

motetResult_t motet_network_make(const char *text, const struct motet_network_request *request, struct motet_network *network)
{
    *network = (struct motet_network){0};
    motetResult_t result = make(text, request, network);
    if (result != motetSuccess)
        motet_network_free(network);
    return result;
}

void motet_network_free(struct motet_network *network)
{
    for (int32_t l = 0; network->links && l < network->nlinks; l++)
        free((void *)network->links[l].name);
    for (int32_t e = 0; network->distance && e < network->nendpoints; e++)
        free(network->distance[e]);
    free((void *)network->links);
    free(network->out_first);
    free(network->out);
    free(network->distance);
    *network = (struct motet_network){0};
}

double motet_network_bytes_per_ns(const struct motet_network *network, int32_t link)
{
    if (network->links)
        return network->links[link].GBs;
    return network->bytes_per_ns * (network->row->speed ? network->row->speed(network, link) : 1);
}

double motet_network_latency_ns(const struct motet_network *network, int32_t link, bool is_first)
{
    if (network->links)
        return network->links[link].latencyUs * 1e3;
    return is_first ? network->first_ns : network->hop_ns;
}

void motet_network_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME])
{
    if (!network->links)
        network->row->name_link(network, link, name);
    else if (network->links[link].name)
        snprintf(name, MOTET_NETWORK_NAME, "%s", network->links[link].name);
    else
        snprintf(name, MOTET_NETWORK_NAME, "node %d to %d", network->links[link].from, network->links[link].to);
}

int32_t motet_network_next(struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind)
{
    return network->links ? next_of_list(network, at, src, dst, behind) : network->row->next(network, at, src, dst, behind);
}
