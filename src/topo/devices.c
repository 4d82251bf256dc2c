/* SPDX-License-Identifier: Apache-2.0
 * PCI bridges, network cards and GPUs, from /sys. As in NCCL's files a switch is one <pci>, its upstream port, and root ports are left out: a
 * device's parent is two steps up its path. Links carry what both ends can do (link_...) and what they do now (current_link_...). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/sysfs.h"
#include "topo/topo.h"

#define STEPS_MOST 32

struct devices {
    struct motetTopo *topo;
    const char *root;
    int nnets, ngpus;
};

/* Where a device lies: the PCI addresses on the way to it, its own last. */
struct route {
    char path[MOTET_SYSFS_PATH_MAX];
    struct {
        char id[32];
        size_t end; /* of the folder's name in path */
    } steps[STEPS_MOST];
    int n;
    char host_bridge[32]; /* "pci0000:3a" */
};

/* "0000:3b:00.0" */
static bool is_address(const char *name, size_t len)
{
    static const char form[] = "xxxx:xx:xx.x";
    size_t extra = len > 12 ? len - 12 : 0; /* domains may have more digits */
    if (len < 12 || extra > 4)
        return false;
    for (size_t i = 0; i < len; i++)
        if (i < extra || form[i - extra] == 'x' ? !isxdigit((unsigned char)name[i]) : name[i] != form[i - extra])
            return false;
    return true;
}

/* False: the path has no PCI device. What comes behind the last one (virtio0, net/eth0) is ignored. */
static bool find_route(struct route *route)
{
    route->n = 0;
    route->host_bridge[0] = '\0';
    for (const char *at = route->path; *at;) {
        size_t len = strcspn(at, "/");
        if (len > 3 && len < sizeof route->host_bridge && strncmp(at, "pci", 3) == 0) {
            snprintf(route->host_bridge, sizeof route->host_bridge, "%.*s", (int)len, at);
            route->n = 0;
        } else if (is_address(at, len) && route->n < STEPS_MOST) {
            snprintf(route->steps[route->n].id, sizeof route->steps[0].id, "%.*s", (int)len, at);
            route->steps[route->n++].end = (size_t)(at - route->path) + len;
        }
        at += len + (at[len] == '/');
    }
    return route->n > 0;
}

/* ---- Links ---- */

struct link {
    char speed[MOTET_SYSFS_TEXT_MAX];
    double gts, lanes;
};

/* "max" or "current". Virtual devices have none, or "Unknown" and 0 or 255 lanes. */
static bool read_link(const char *folder, int len, const char *which, struct link *link)
{
    if (!motet_sysfs_read(link->speed, "%.*s/%s_link_speed", len, folder, which) ||
        !motet_sysfs_read_number(&link->lanes, "%.*s/%s_link_width", len, folder, which))
        return false;
    link->gts = strtod(link->speed, NULL);
    return link->gts > 0 && link->lanes > 0 && link->lanes < 255;
}

static motetResult_t set_link(struct devices *devices, int index, const char *prefix, const struct link *link)
{
    char name[64];
    snprintf(name, sizeof name, "%slink_speed", prefix);
    TRY(motet_topo_set(devices->topo, index, name, link->speed));
    snprintf(name, sizeof name, "%slink_width", prefix);
    return motet_topo_setf(devices->topo, index, name, "%.0f", link->lanes);
}

static motetResult_t describe_link(struct devices *devices, int index, const struct route *route, int step)
{
    struct link own, port, now, both;
    int end = (int)route->steps[step].end, above = step > 0 ? (int)route->steps[step - 1].end : 0;
    if (!read_link(route->path, end, "max", &own))
        return motetSuccess;
    both = own;
    if (above > 0 && read_link(route->path, above, "max", &port)) {
        if (port.gts < both.gts) {
            both.gts = port.gts;
            memcpy(both.speed, port.speed, sizeof both.speed);
        }
        both.lanes = port.lanes < both.lanes ? port.lanes : both.lanes;
    }
    TRY(set_link(devices, index, "", &both));
    if (both.gts < own.gts || both.lanes < own.lanes)
        TRY(set_link(devices, index, "max_", &own));
    return read_link(route->path, end, "current", &now) ? set_link(devices, index, "current_", &now) : motetSuccess;
}

/* ---- PCI devices ---- */

static int find_device(const struct motetTopo *topo, const char *id)
{
    for (int i = 0; i < topo->n; i++)
        if (topo->nodes[i].kind == motetTopoPci && strcmp(motet_topo_get(topo, i, "busid"), id) == 0)
            return i;
    return -1;
}

/* The <cpu> of a memory node. Where the machine does not say, and it could be several: a node of its own, as NCCL does. */
static motetResult_t find_node(struct devices *devices, int node, int *index)
{
    int first = -1, count = 0;
    for (int i = 0; i < devices->topo->n; i++) {
        if (devices->topo->nodes[i].kind != motetTopoNumaNode)
            continue;
        *index = i;
        if ((int)motet_topo_number(devices->topo, i, "numaid", -2) == node)
            return motetSuccess;
        first = first < 0 ? i : first;
        count++;
    }
    if (count == 1 && node < 0) {
        *index = first;
        return motetSuccess;
    }
    TRY(motet_topo_add(devices->topo, 0, "cpu", index));
    const char *host = first < 0 ? NULL : motet_topo_get(devices->topo, first, "host_hash");
    TRY(motet_topo_set(devices->topo, *index, "host_hash", host));
    return motet_topo_setf(devices->topo, *index, "numaid", "%d", node);
}

static motetResult_t find_parent(struct devices *devices, const struct route *route, int step, int *parent);

/* Step `step` of a route as a <pci>, made with all above it. */
static motetResult_t find_or_add(struct devices *devices, const struct route *route, int step, int *index)
{
    static const char *const names[][2] = {{"class", "class"},
                                           {"vendor", "vendor"},
                                           {"device", "device"},
                                           {"subsystem_vendor", "subsystem_vendor"},
                                           {"subsystem_device", "subsystem_device"}};
    int parent, len = (int)route->steps[step].end;
    char text[MOTET_SYSFS_TEXT_MAX];
    *index = find_device(devices->topo, route->steps[step].id);
    if (*index >= 0)
        return motetSuccess;
    TRY(find_parent(devices, route, step, &parent));
    TRY(motet_topo_add(devices->topo, parent, "pci", index));
    TRY(motet_topo_set(devices->topo, *index, "busid", route->steps[step].id));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (motet_sysfs_read(text, "%.*s/%s", len, route->path, names[i][0]))
            TRY(motet_topo_set(devices->topo, *index, names[i][1], text));
    TRY(describe_link(devices, *index, route, step));
    if (step < 2 && route->host_bridge[0])
        TRY(motet_topo_set(devices->topo, *index, "host_bridge", route->host_bridge));
    return motetSuccess;
}

static motetResult_t find_parent(struct devices *devices, const struct route *route, int step, int *parent)
{
    double node = -1;
    if (step >= 2)
        return find_or_add(devices, route, step - 2, parent);
    motet_sysfs_read_number(&node, "%.*s/numa_node", (int)route->steps[step].end, route->path);
    return find_node(devices, (int)node, parent);
}

/* ---- Interrupts ---- */

static void add_interrupt(const struct devices *devices, const char *number, struct motet_cpuset *cpus)
{
    char text[MOTET_SYSFS_TEXT_MAX];
    struct motet_cpuset more;
    if ((motet_sysfs_read(text, "%s/proc/irq/%s/effective_affinity_list", devices->root, number) ||
         motet_sysfs_read(text, "%s/proc/irq/%s/smp_affinity_list", devices->root, number)) &&
        motet_cpuset_parse_list(text, &more))
        motet_cpuset_unite(cpus, &more);
}

/* Which CPUs serve the interrupts of a card, and which are near it: those of its <cpu> are only the ones that may be used. */
static motetResult_t describe_interrupts(struct devices *devices, int index, const struct route *route)
{
    char **numbers, text[MOTET_TOPO_VALUE_MAX];
    struct motet_cpuset cpus = {{0}};
    int len = (int)route->steps[route->n - 1].end;
    size_t n = motet_sysfs_list(&numbers, "%.*s/msi_irqs", len, route->path);
    for (size_t i = 0; i < n; i++)
        add_interrupt(devices, numbers[i], &cpus);
    motet_sysfs_free(numbers, n);
    if (n == 0 && motet_sysfs_read(text, "%.*s/irq", len, route->path))
        add_interrupt(devices, text, &cpus);
    if (motet_cpuset_count(&cpus) == 0)
        return motetSuccess;
    TRY(motet_topo_set(devices->topo, index, "irq_cpus", motet_cpuset_list(&cpus, text, sizeof text)));
    if (motet_sysfs_read(text, "%.*s/local_cpulist", len, route->path) && motet_cpuset_parse_list(text, &cpus))
        return motet_topo_set(devices->topo, index, "local_cpus", text);
    return motetSuccess;
}

/* ---- Network cards ---- */

static motetResult_t find_nic(struct devices *devices, int parent, int *index)
{
    for (int i = devices->topo->nodes[parent].first_child; i >= 0; i = devices->topo->nodes[i].next)
        if (devices->topo->nodes[i].kind == motetTopoNic) {
            *index = i;
            return motetSuccess;
        }
    return motet_topo_add(devices->topo, parent, "nic", index);
}

/* The card of a class device (/sys/class/net/eth0); virtual ones stand in the first memory node. */
static motetResult_t find_card(struct devices *devices, const char *class, const char *name, int *index)
{
    struct route *route = calloc(1, sizeof *route);
    if (!route)
        return motet_fail_quiet(motetSystemError, "%s: out of memory", devices->topo->name);
    motetResult_t result;
    if (motet_sysfs_resolve(route->path, "%s/sys/class/%s/%s/device", devices->root, class, name) && find_route(route)) {
        result = find_or_add(devices, route, route->n - 1, index);
        if (result == motetSuccess && !motet_topo_get(devices->topo, *index, "irq_cpus"))
            result = describe_interrupts(devices, *index, route);
    } else {
        *index = devices->topo->nodes[0].first_child; /* memory nodes come first, and there is one */
        result = motetSuccess;
    }
    free(route);
    return result == motetSuccess ? find_nic(devices, *index, index) : result;
}

static motetResult_t add_net(struct devices *devices, const char *class, const char *device, const char *name, int *index)
{
    int card;
    TRY(find_card(devices, class, device, &card));
    TRY(motet_topo_add(devices->topo, card, "net", index));
    TRY(motet_topo_set(devices->topo, *index, "name", name));
    return motet_topo_setf(devices->topo, *index, "dev", "%d", devices->nnets++);
}

static bool is_virtual(const struct devices *devices, const char *name)
{
    return !motet_sysfs_exists("%s/sys/class/net/%s/device", devices->root, name);
}

/* Of interfaces without a device those that carry an address of their own: up, and no part of a bridge. */
static bool is_of_interest(const struct devices *devices, const char *name)
{
    char state[MOTET_SYSFS_TEXT_MAX];
    if (strcmp(name, "lo") == 0)
        return false;
    if (!is_virtual(devices, name))
        return true;
    return motet_sysfs_read(state, "%s/sys/class/net/%s/operstate", devices->root, name) && strcmp(state, "up") == 0 &&
           !motet_sysfs_exists("%s/sys/class/net/%s/bridge", devices->root, name) &&
           !motet_sysfs_exists("%s/sys/class/net/%s/brport", devices->root, name);
}

static motetResult_t add_interface(struct devices *devices, const char *name)
{
    int index;
    double speed;
    char state[MOTET_SYSFS_TEXT_MAX], shown[256];
    snprintf(shown, sizeof shown, "%.255s", name);
    TRY(add_net(devices, "net", name, motet_sysfs_clean(shown), &index));
    if (motet_sysfs_read_number(&speed, "%s/sys/class/net/%s/speed", devices->root, name) && speed > 0)
        TRY(motet_topo_setf(devices->topo, index, "speed", "%.0f", speed));
    if (motet_sysfs_read(state, "%s/sys/class/net/%s/operstate", devices->root, name))
        TRY(motet_topo_set(devices->topo, index, "state", state));
    return motetSuccess;
}

/* "0c42:a103:0065:4f2e" as one number. */
static void join_guid(char *guid)
{
    char *to = guid;
    for (const char *from = guid; *from; from++)
        if (isxdigit((unsigned char)*from))
            *to++ = *from;
    *to = '\0';
}

static motetResult_t add_port(struct devices *devices, const char *name, const char *port)
{
    int index;
    double speed;
    char text[MOTET_SYSFS_TEXT_MAX], shown[256];
    snprintf(shown, sizeof shown, "%.255s", name);
    TRY(add_net(devices, "infiniband", name, motet_sysfs_clean(shown), &index));
    if (motet_sysfs_read_number(&speed, "%s/sys/class/infiniband/%s/ports/%s/rate", devices->root, name, port) && speed > 0)
        TRY(motet_topo_setf(devices->topo, index, "speed", "%.0f", speed * 1000));
    TRY(motet_topo_set(devices->topo, index, "port", port));
    if (motet_sysfs_read(text, "%s/sys/class/infiniband/%s/node_guid", devices->root, name)) {
        join_guid(text);
        TRY(motet_topo_setf(devices->topo, index, "guid", "0x%.16s", text));
    }
    if (motet_sysfs_read(text, "%s/sys/class/infiniband/%s/ports/%s/state", devices->root, name, port)) {
        const char *word = strchr(text, ':'); /* "4: ACTIVE" */
        TRY(motet_topo_set(devices->topo, index, "state", word ? word + 1 + (word[1] == ' ') : text));
    }
    return motetSuccess;
}

static motetResult_t add_networks(struct devices *devices)
{
    char **names, **ports;
    motetResult_t result = motetSuccess;
    size_t n = motet_sysfs_list(&names, "%s/sys/class/infiniband", devices->root);
    for (size_t i = 0; i < n; i++) {
        size_t nports = motet_sysfs_list(&ports, "%s/sys/class/infiniband/%s/ports", devices->root, names[i]);
        for (size_t k = 0; k < nports && result == motetSuccess; k++)
            if (strspn(ports[k], "0123456789") == strlen(ports[k]))
                result = add_port(devices, names[i], ports[k]);
        motet_sysfs_free(ports, nports);
    }
    motet_sysfs_free(names, n);
    n = motet_sysfs_list(&names, "%s/sys/class/net", devices->root);
    for (int virtual = 0; virtual < 2; virtual ++) /* those at last */
        for (size_t i = 0; i < n && result == motetSuccess; i++)
            if (is_of_interest(devices, names[i]) && is_virtual(devices, names[i]) == virtual)
                result = add_interface(devices, names[i]);
    motet_sysfs_free(names, n);
    return result;
}

/* ---- GPUs ---- */

/* Accelerators, controllers without a screen, and screens that can also compute. */
static bool is_gpu(unsigned class, const char *path)
{
    char **names;
    bool renders = false;
    if (class >> 8 == 0x1200 || class >> 8 == 0x0302)
        return true;
    if (class >> 16 != 0x03)
        return false;
    size_t n = motet_sysfs_list(&names, "%s/drm", path);
    for (size_t i = 0; i < n; i++)
        renders |= strncmp(names[i], "renderD", 7) == 0;
    motet_sysfs_free(names, n);
    return renders;
}

static motetResult_t add_gpu(struct devices *devices, const struct route *route)
{
    static const struct {
        const char *id, *name;
    } vendors[] = {{"0x10de", "NVIDIA"}, {"0x1002", "AMD"}, {"0x8086", "Intel"}};
    int device, gpu;
    TRY(find_or_add(devices, route, route->n - 1, &device));
    const char *vendor = motet_topo_get(devices->topo, device, "vendor");
    TRY(motet_topo_add(devices->topo, device, "gpu", &gpu));
    TRY(motet_topo_setf(devices->topo, gpu, "dev", "%d", devices->ngpus++));
    for (size_t i = 0; vendor && i < sizeof vendors / sizeof vendors[0]; i++)
        if (strcmp(vendors[i].id, vendor) == 0)
            return motet_topo_set(devices->topo, gpu, "name", vendors[i].name);
    return motet_topo_set(devices->topo, gpu, "name", vendor);
}

static motetResult_t add_gpus(struct devices *devices)
{
    char **names, text[MOTET_SYSFS_TEXT_MAX];
    struct route *route = calloc(1, sizeof *route);
    motetResult_t result = route ? motetSuccess : motet_fail_quiet(motetSystemError, "%s: out of memory", devices->topo->name);
    size_t n = motet_sysfs_list(&names, "%s/sys/bus/pci/devices", devices->root);
    for (size_t i = 0; i < n && result == motetSuccess; i++)
        if (motet_sysfs_read(text, "%s/sys/bus/pci/devices/%s/class", devices->root, names[i]) &&
            motet_sysfs_resolve(route->path, "%s/sys/bus/pci/devices/%s", devices->root, names[i]) && find_route(route) &&
            is_gpu((unsigned)strtoul(text, NULL, 16), route->path))
            result = add_gpu(devices, route);
    motet_sysfs_free(names, n);
    free(route);
    return result;
}

motetResult_t motet_topo_add_devices(struct motetTopo *topo, const char *root)
{
    struct devices devices = {.topo = topo, .root = root};
    TRY(add_networks(&devices));
    return add_gpus(&devices);
}
