/* SPDX-License-Identifier: Apache-2.0
 * Memory nodes, caches and cores, as hwloc sees them; only CPUs that may be used. What hwloc calls a NUMA node is a <cpu> of NCCL; caches and
 * cores stand in the node of their first CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "base/os.h"
#include "topo/loaded.h"
#include "topo/sysfs.h"
#include "topo/topo.h"

#define NODES_MOST 1024

struct detection {
    const struct motet_hwloc *hwloc;
    hwloc_topology_t topology;
    struct motetTopo *topo;
    struct motet_cpuset shown;
    int nodes[NODES_MOST], nnodes; /* indices of <cpu> */
};

static struct motet_cpuset convert(const struct detection *detection, hwloc_const_bitmap_t bitmap)
{
    struct motet_cpuset set = {{0}};
    for (int cpu = detection->hwloc->hwloc_bitmap_next(bitmap, -1); cpu >= 0 && cpu < MOTET_CPUSET_MAX;
         cpu = detection->hwloc->hwloc_bitmap_next(bitmap, cpu))
        motet_cpuset_add(&set, cpu);
    return set;
}

/* The CPUs of an object that may be used. */
static struct motet_cpuset usable(const struct detection *detection, hwloc_obj_t object)
{
    struct motet_cpuset set = convert(detection, object->cpuset);
    motet_cpuset_intersect(&set, &detection->shown);
    return set;
}

static const char *info_of(hwloc_obj_t object, const char *name)
{
    for (unsigned i = 0; object && i < object->infos_count; i++)
        if (strcmp(object->infos[i].name, name) == 0)
            return object->infos[i].value;
    return NULL;
}

/* NCCL's word for the architecture. */
static const char *architecture(struct utsname *system)
{
    if (uname(system) != 0)
        return "unknown";
    return strcmp(system->machine, "aarch64") == 0     ? "arm64"
           : strncmp(system->machine, "ppc64", 5) == 0 ? "ppc64"
                                                       : system->machine;
}

static hwloc_obj_t package_of(const struct detection *detection, const struct motet_cpuset *cpus, int *number)
{
    int depth = detection->hwloc->hwloc_get_type_depth(detection->topology, HWLOC_OBJ_PACKAGE);
    unsigned n = depth == HWLOC_TYPE_DEPTH_UNKNOWN ? 0 : detection->hwloc->hwloc_get_nbobjs_by_depth(detection->topology, depth);
    for (unsigned i = 0; i < n; i++) {
        hwloc_obj_t package = detection->hwloc->hwloc_get_obj_by_depth(detection->topology, depth, i);
        struct motet_cpuset all = convert(detection, package->cpuset);
        if (motet_cpuset_covers(&all, cpus)) {
            *number = package->os_index == HWLOC_UNKNOWN_INDEX ? (int)i : (int)package->os_index;
            return package;
        }
    }
    return NULL;
}

static motetResult_t describe_node(struct detection *detection, int index, hwloc_obj_t node, const struct motet_cpuset *cpus,
                                   bool here)
{
    struct motetTopo *topo = detection->topo;
    struct utsname system;
    int number = 0;
    hwloc_obj_t package = package_of(detection, cpus, &number);
    const char *vendor = info_of(package, "CPUVendor"), *family = info_of(package, "CPUFamilyNumber"),
               *model = info_of(package, "CPUModelNumber");
    if (here)
        TRY(motet_topo_setf(topo, index, "host_hash", "0x%llx", (unsigned long long)motet_host_id()));
    TRY(motet_topo_setf(topo, index, "numaid", "%u", node->os_index));
    TRY(motet_topo_set_cpus(topo, index, cpus));
    if (here)
        TRY(motet_topo_set(topo, index, "arch", architecture(&system)));
    TRY(motet_topo_set(topo, index, "vendor", vendor));
    TRY(motet_topo_set(topo, index, "familyid", family));
    TRY(motet_topo_set(topo, index, "modelid", model));
    return package ? motet_topo_setf(topo, index, "package", "%d", number) : motetSuccess;
}

/* Several memories may have the same CPUs (fast and large ones): they are one node here, the first. Memory without CPUs is none. */
static bool is_new(const struct detection *detection, const struct motet_cpuset *cpus)
{
    for (int i = 0; i < detection->nnodes; i++)
        if (motet_cpuset_equals(detection->topo->nodes[detection->nodes[i]].cpus, cpus))
            return false;
    return motet_cpuset_count(cpus) > 0 && detection->nnodes < NODES_MOST;
}

static motetResult_t add_nodes(struct detection *detection, bool here)
{
    const struct motet_hwloc *hwloc = detection->hwloc;
    unsigned n = hwloc->hwloc_get_nbobjs_by_depth(detection->topology, HWLOC_TYPE_DEPTH_NUMANODE);
    for (unsigned i = 0; i < n; i++) {
        int index;
        hwloc_obj_t node = hwloc->hwloc_get_obj_by_depth(detection->topology, HWLOC_TYPE_DEPTH_NUMANODE, i);
        struct motet_cpuset cpus = usable(detection, node);
        if (!is_new(detection, &cpus))
            continue;
        TRY(motet_topo_add(detection->topo, 0, "cpu", &index));
        detection->nodes[detection->nnodes++] = index;
        TRY(describe_node(detection, index, node, &cpus, here));
    }
    if (detection->nnodes > 0)
        return motetSuccess;
    return motet_fail_quiet(motetSystemError, "%s: hwloc finds no memory node with a CPU that may be used", detection->topo->name);
}

/* Where an element with these CPUs goes: into what surrounds it, if that is of the same node. */
static int place(const struct detection *detection, const struct motet_cpuset *cpus, int around)
{
    int node = detection->nodes[0], first = motet_cpuset_next(cpus, 0);
    for (int i = 0; i < detection->nnodes; i++)
        if (motet_cpuset_has(detection->topo->nodes[detection->nodes[i]].cpus, first))
            node = detection->nodes[i];
    return around >= 0 && motet_topo_above(detection->topo, around, motetTopoNumaNode) == node ? around : node;
}

static motetResult_t add_cache(struct detection *detection, hwloc_obj_t object, const struct motet_cpuset *cpus, int *around)
{
    int index;
    TRY(motet_topo_add(detection->topo, place(detection, cpus, *around), "cache", &index));
    TRY(motet_topo_setf(detection->topo, index, "level", "%u", object->attr->cache.depth));
    TRY(motet_topo_setf(detection->topo, index, "size", "%llu", (unsigned long long)object->attr->cache.size));
    *around = index;
    return motet_topo_set_cpus(detection->topo, index, cpus);
}

static motetResult_t add_core(struct detection *detection, hwloc_obj_t object, const struct motet_cpuset *cpus, int around)
{
    int index;
    TRY(motet_topo_add(detection->topo, place(detection, cpus, around), "core", &index));
    TRY(motet_topo_setf(detection->topo, index, "id", "%u", object->os_index));
    return motet_topo_set_cpus(detection->topo, index, cpus);
}

/* First-level caches belong to one core everywhere and say nothing about paths. */
static motetResult_t add_objects(struct detection *detection, hwloc_obj_t object, int around)
{
    struct motet_cpuset cpus = usable(detection, object);
    if (motet_cpuset_count(&cpus) == 0)
        return motetSuccess;
    if (object->type >= HWLOC_OBJ_L2CACHE && object->type <= HWLOC_OBJ_L5CACHE)
        TRY(add_cache(detection, object, &cpus, &around));
    if (object->type == HWLOC_OBJ_CORE || object->type == HWLOC_OBJ_PU)
        return add_core(detection, object, &cpus, around);
    for (unsigned i = 0; i < object->arity; i++)
        TRY(add_objects(detection, object->children[i], around));
    return motetSuccess;
}

/* hwloc takes the other root from the environment only. */
static motetResult_t load(struct detection *detection, const char *root)
{
    const char *before = getenv("HWLOC_FSROOT");
    char *kept = root[0] && before ? strdup(before) : NULL;
    if (root[0]) {
        setenv("HWLOC_FSROOT", root, 1);
        /* It asks the processor that it runs on. */
        detection->hwloc->hwloc_topology_set_components(detection->topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    }
    bool good = detection->hwloc->hwloc_topology_set_flags(detection->topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) == 0 &&
                detection->hwloc->hwloc_topology_set_io_types_filter(detection->topology, HWLOC_TYPE_FILTER_KEEP_NONE) == 0 &&
                detection->hwloc->hwloc_topology_load(detection->topology) == 0;
    if (root[0] && kept)
        setenv("HWLOC_FSROOT", kept, 1);
    else if (root[0])
        unsetenv("HWLOC_FSROOT");
    free(kept);
    return good ? motetSuccess : motet_fail_quiet(motetSystemError, "%s: hwloc cannot load the topology", detection->topo->name);
}

static motetResult_t fill(struct detection *detection, const char *root, bool bound)
{
    char text[MOTET_TOPO_VALUE_MAX];
    struct motetTopo *topo = detection->topo;
    TRY(load(detection, root));
    bool here = detection->hwloc->hwloc_topology_is_thissystem(detection->topology) == 1;
    hwloc_obj_t machine = detection->hwloc->hwloc_get_obj_by_depth(detection->topology, 0, 0);
    struct motet_cpuset all = convert(detection, machine->cpuset), own = motet_cpuset_allowed();
    detection->shown = convert(detection, detection->hwloc->hwloc_topology_get_allowed_cpuset(detection->topology));
    motet_cpuset_intersect(&detection->shown, &all);
    if (here && bound)
        motet_cpuset_intersect(&detection->shown, &own);
    motet_cpuset_remove(&all, &detection->shown);
    TRY(motet_topo_add(topo, -1, "system", NULL));
    TRY(motet_topo_set(topo, 0, "version", "1"));
    if (here)
        TRY(motet_topo_set(topo, 0, "host", motet_host_name()));
    if (motet_cpuset_count(&all) > 0)
        TRY(motet_topo_set(topo, 0, "left_out", motet_cpuset_list(&all, text, sizeof text)));
    TRY(add_nodes(detection, here));
    TRY(add_objects(detection, machine, -1));
    TRY(motet_topo_add_devices(topo, root));
    return motet_topo_arrange(topo);
}

motetResult_t motet_topo_detect(const char *root, bool bound, struct motetTopo **topo)
{
    struct detection detection = {0};
    *topo = NULL;
    if (root[0] && !motet_sysfs_exists("%s/sys/devices/system/cpu", root))
        return motet_fail_quiet(motetInvalidArgument, "%s has no copy of a machine: no sys/devices/system/cpu is there", root);
    TRY(motet_loaded_hwloc(&detection.hwloc));
    detection.topo = motet_topo_new(root[0] ? root : "this machine");
    if (!detection.topo)
        return motetSystemError;
    motetResult_t result = motetSystemError;
    if (detection.hwloc->hwloc_topology_init(&detection.topology) == 0) {
        result = fill(&detection, root, bound);
        detection.hwloc->hwloc_topology_destroy(detection.topology);
    } else {
        motet_fail_quiet(motetSystemError, "%s: hwloc cannot be initialized", detection.topo->name);
    }
    if (result != motetSuccess) {
        motet_topo_free(detection.topo);
        return result;
    }
    *topo = detection.topo;
    return motetSuccess;
}
