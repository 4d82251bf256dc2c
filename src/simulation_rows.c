/* SPDX-License-Identifier: Apache-2.0
 * Ways through regular networks, computed from numbers alone. Links of endpoints come first: out of endpoint e is link e, into it
 * nendpoints + e; a torus has no others than those between neighbours.
 *
 * Star: one switch that is never the bottleneck.
 * Fat tree (Leiserson 1985; Al-Fares, Loukissas, Vahdat 2008): way up by the destination's number, modulo the links up (D-mod-k: Zahavi
 * 2012), so that all that goes to one endpoint comes down one way, and shifts of all endpoints do not meet.
 * Torus: along the first dimension the shorter way, then along the next one (Dally, Seitz 1987).
 * Dragonfly (Kim, Dally, Scott, Abts 2008): groups of routers that all know each other, one link for each pair of groups; the minimal way,
 * at most one link in the own group, one between groups, one in the other. */
#include "simulation_rows.h"

#include <stdio.h>

static void name_end(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME])
{
    bool is_out = link < network->nendpoints;
    int32_t endpoint = is_out ? link : link - network->nendpoints;
    if (network->row->is_rank)
        snprintf(name, MOTET_NETWORK_NAME, "rank %d %s", endpoint, is_out ? "out" : "in");
    else if (network->nics == 1)
        snprintf(name, MOTET_NETWORK_NAME, "host %d %s", endpoint, is_out ? "out" : "in");
    else
        snprintf(name, MOTET_NETWORK_NAME, "host %d nic %d %s", endpoint / network->nics, endpoint % network->nics,
                 is_out ? "out" : "in");
}

/* ---- Star ---- */

const char *motet_star_shape(struct motet_network *network)
{
    network->nnodes = network->nendpoints + 1;
    network->nlinks = 2 * network->nendpoints;
    return NULL;
}

int32_t motet_star_next(const struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind)
{
    (void)src;
    *behind = at < network->nendpoints ? network->nendpoints : dst;
    return at < network->nendpoints ? at : network->nendpoints + dst;
}

void motet_star_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME])
{
    name_end(network, link, name);
}

/* ---- Fat tree. Nodes: endpoints, leaves, switches above leaves (of each pod), cores. ---- */

/* With three levels a pod has `leaves` leaves and `up` switches above them, each with `cores` links to cores of its own number. With two
 * there is one pod and no core. */
const char *motet_fat_tree_shape(struct motet_network *network)
{
    int32_t radix = network->values[0] > 0 ? (int32_t)network->values[0] : 32, levels = (int32_t)network->values[2];
    double over = network->values[1] > 0 ? network->values[1] : 1;
    if (radix < 2 || radix > 1024)
        return "radix, ports of a switch, must be 2 to 1024";
    if (levels != 0 && levels != 2 && levels != 3)
        return "levels must be 2 or 3";
    network->up = (int32_t)(radix / (over + 1) + 0.5);
    network->up = network->up < 1 ? 1 : network->up;
    network->down = radix - network->up;
    if (network->down < 1)
        return "over, links down for each link up, is too small for this radix";
    int32_t leaves = (network->nendpoints - 1) / network->down + 1;
    if (levels == 0)
        levels = leaves <= radix ? 2 : 3;
    network->leaves = levels == 2 ? leaves : radix / 2;
    if (levels == 2 ? leaves > radix : (leaves - 1) / network->leaves + 1 > radix)
        return levels == 2 ? "two levels of this radix do not reach so many endpoints: raise radix, or take levels=3"
                           : "three levels of this radix do not reach so many endpoints: raise radix";
    network->pods = levels == 2 ? 1 : (leaves - 1) / network->leaves + 1;
    network->cores = levels == 2 ? 0 : network->leaves;
    int32_t nleaves = network->pods * network->leaves, nabove = network->pods * network->up;
    network->nnodes = network->nendpoints + nleaves + nabove + network->up * network->cores;
    network->nlinks = 2 * (network->nendpoints + nleaves * network->up + nabove * network->cores);
    return NULL;
}

/* First link of each kind: leaf up, leaf down, core up, core down. */
static int32_t fat_tree_base(const struct motet_network *network, int kind)
{
    int32_t leaf = network->pods * network->leaves * network->up, core = network->pods * network->up * network->cores;
    return 2 * network->nendpoints + (kind > 0 ? leaf : 0) + (kind > 1 ? leaf : 0) + (kind > 2 ? core : 0);
}

int32_t motet_fat_tree_next(const struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind)
{
    int32_t n = network->nendpoints, up = network->up, to_leaf = dst / network->down, to_pod = to_leaf / network->leaves;
    int32_t leaf_node = n, above_node = n + network->pods * network->leaves, core_node = above_node + network->pods * up;
    int32_t lane = dst % up, core = network->cores ? dst / up % network->cores : 0;
    (void)src;
    if (at < n) {
        *behind = leaf_node + at / network->down;
        return at;
    }
    if (at < above_node) {
        int32_t leaf = at - leaf_node;
        if (leaf == to_leaf) {
            *behind = dst;
            return n + dst;
        }
        *behind = above_node + leaf / network->leaves * up + lane;
        return fat_tree_base(network, 0) + leaf * up + lane;
    }
    if (at < core_node) {
        int32_t above = at - above_node, pod = above / up;
        if (pod == to_pod) {
            *behind = leaf_node + to_leaf;
            return fat_tree_base(network, 1) + to_leaf * up + above % up;
        }
        *behind = core_node + above % up * network->cores + core;
        return fat_tree_base(network, 2) + above * network->cores + core;
    }
    int32_t above = to_pod * up + (at - core_node) / network->cores;
    *behind = above_node + above;
    return fat_tree_base(network, 3) + above * network->cores + (at - core_node) % network->cores;
}

void motet_fat_tree_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME])
{
    static const char *const kinds[] = {"leaf %d up %d", "leaf %d down %d", "pod %d up %d to core %d",
                                        "pod %d down %d from core %d"};
    int kind = 3;
    if (link < 2 * network->nendpoints) {
        name_end(network, link, name);
        return;
    }
    while (kind > 0 && link < fat_tree_base(network, kind))
        kind--;
    int32_t at = link - fat_tree_base(network, kind);
    if (kind < 2)
        snprintf(name, MOTET_NETWORK_NAME, kinds[kind], at / network->up, at % network->up);
    else
        snprintf(name, MOTET_NETWORK_NAME, kind == 2 ? kinds[2] : kinds[3], at / network->cores / network->up,
                 at / network->cores % network->up, at % network->cores);
}

/* ---- Torus. Nodes are endpoints; link (node * ndims + dimension) * 2 + (1: backwards). ---- */

const char *motet_torus_shape(struct motet_network *network)
{
    int64_t size = 1;
    if (network->ndims == 0) { /* two dimensions, as square as the number allows */
        int32_t n = network->nendpoints, short_side = 1;
        for (int32_t divisor = 2; divisor <= n / divisor; divisor++)
            short_side = n % divisor == 0 ? divisor : short_side;
        network->dims[0] = short_side;
        network->dims[1] = n / short_side;
        network->ndims = 2;
    }
    for (int d = 0; d < network->ndims; d++)
        size *= network->dims[d];
    if (size < network->nendpoints || size > 1 << 24)
        return size < network->nendpoints ? "dims have fewer places than there are hosts" : "dims have too many places";
    network->nnodes = (int32_t)size;
    network->nlinks = (int32_t)size * network->ndims * 2;
    return NULL;
}

int32_t motet_torus_next(const struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind)
{
    int32_t stride = 1;
    (void)src;
    for (int d = 0; d < network->ndims; d++) {
        int32_t n = network->dims[d], here = at / stride % n, there = dst / stride % n;
        if (here != there) {
            int32_t ahead = there > here ? there - here : there - here + n;
            bool back = 2 * ahead > n;
            int32_t place = back ? (here ? here - 1 : n - 1) : (here + 1 < n ? here + 1 : 0);
            *behind = at + (place - here) * stride;
            return (at * network->ndims + d) * 2 + back;
        }
        stride *= n;
    }
    *behind = dst;
    return -1;
}

void motet_torus_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME])
{
    int32_t node = link / 2 / network->ndims;
    int used = snprintf(name, MOTET_NETWORK_NAME, "node ");
    for (int d = 0; d < network->ndims; node /= network->dims[d], d++)
        used += snprintf(name + used, MOTET_NETWORK_NAME - (size_t)used, "%s%d", d ? "," : "", node % network->dims[d]);
    snprintf(name + used, MOTET_NETWORK_NAME - (size_t)used, " %c%c", link % 2 ? '-' : '+', "xyzw"[link / 2 % network->ndims]);
}

/* ---- Dragonfly. Nodes: endpoints, routers. Links: out, in, inside groups (router * routers + other), between (group * groups + other). ---- */

const char *motet_dragonfly_shape(struct motet_network *network)
{
    network->routers = network->values[0] > 0 ? (int32_t)network->values[0] : 8;
    network->per_router = network->values[1] > 0 ? (int32_t)network->values[1] : 4;
    network->global = network->values[2] > 0 ? (int32_t)network->values[2] : 4;
    if (network->routers > 1024 || network->per_router > 1024 || network->global > 1024)
        return "routers, hosts and global must be at most 1024";
    int32_t per_group = network->routers * network->per_router;
    network->groups = (network->nendpoints - 1) / per_group + 1;
    if (network->groups > network->routers * network->global + 1)
        return "there are more groups than routers x global links of a group reach: raise routers, hosts or global";
    network->nnodes = network->nendpoints + network->groups * network->routers;
    network->nlinks =
        2 * network->nendpoints + network->groups * network->routers * network->routers + network->groups * network->groups;
    return NULL;
}

/* The router of `group` that has the link to `other`. */
static int32_t dragonfly_gate(const struct motet_network *network, int32_t group, int32_t other)
{
    int32_t slot = (other - group - 1 + network->groups) % network->groups;
    return group * network->routers + slot / network->global;
}

int32_t motet_dragonfly_next(const struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind)
{
    int32_t n = network->nendpoints, target = dst / network->per_router, to_group = target / network->routers;
    (void)src;
    if (at < n) {
        *behind = n + at / network->per_router;
        return at;
    }
    int32_t router = at - n, group = router / network->routers;
    if (router == target) {
        *behind = dst;
        return n + dst;
    }
    int32_t wanted = group == to_group ? target : dragonfly_gate(network, group, to_group);
    if (router == wanted) {
        *behind = n + dragonfly_gate(network, to_group, group);
        return 2 * n + network->groups * network->routers * network->routers + group * network->groups + to_group;
    }
    *behind = n + wanted;
    return 2 * n + router * network->routers + wanted % network->routers;
}

double motet_dragonfly_speed(const struct motet_network *network, int32_t link)
{
    int32_t between = 2 * network->nendpoints + network->groups * network->routers * network->routers;
    return link >= between && network->values[3] > 0 ? network->values[3] : 1;
}

void motet_dragonfly_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME])
{
    int32_t inside = 2 * network->nendpoints, between = inside + network->groups * network->routers * network->routers;
    if (link < inside)
        name_end(network, link, name);
    else if (link < between)
        snprintf(name, MOTET_NETWORK_NAME, "group %d router %d to %d", (link - inside) / network->routers / network->routers,
                 (link - inside) / network->routers % network->routers, (link - inside) % network->routers);
    else
        snprintf(name, MOTET_NETWORK_NAME, "group %d to group %d", (link - between) / network->groups,
                 (link - between) % network->groups);
}
