/* SPDX-License-Identifier: Apache-2.0
 * Ranks as nodes of a topology. */
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/os.h"
#include "topo/sysfs.h"
#include "topo/topo.h"

/* Where the first thread of a process of this host may run. */
static bool cpus_of_process(int pid, struct motet_cpuset *cpus)
{
    char path[64], line[4096];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = motet_descriptor_read(path);
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, "Cpus_allowed_list:", 18) == 0 && motet_cpuset_parse_list(line + 18, cpus);
    if (file)
        fclose(file);
    return found;
}

motetResult_t motet_topo_add_rank(struct motetTopo *topo, int rank, const char *host, int pid, const char *cpus)
{
    int index;
    char shown[256];
    struct motet_cpuset set;
    bool here = !host || strcmp(host, motet_host_name()) == 0, known = false;
    if (rank < 0 || pid < 0)
        return motet_fail_quiet(motetInvalidArgument, "TopoAddRank: %s is negative", rank < 0 ? "rank" : "pid");
    for (int i = topo->n > 0 ? topo->nodes[0].first_child : -1; i >= 0; i = topo->nodes[i].next)
        if (topo->nodes[i].kind == motetTopoRank && motet_topo_number(topo, i, "id", -1) == rank)
            return motet_fail_quiet(motetInvalidArgument, "TopoAddRank: rank %d is there already", rank);
    if (cpus && !motet_cpuset_parse_list(cpus, &set))
        return motet_fail_quiet(motetInvalidArgument, "TopoAddRank: cpus is \"%.64s\", not a list of CPUs such as 0-3,8", cpus);
    known = cpus || (here && pid > 0 && cpus_of_process(pid, &set));
    TRY(motet_topo_add(topo, 0, "rank", &index));
    TRY(motet_topo_setf(topo, index, "id", "%d", rank));
    if (host) {
        snprintf(shown, sizeof shown, "%.255s", host);
        TRY(motet_topo_set(topo, index, "host", motet_sysfs_clean(shown)));
    }
    if (pid > 0)
        TRY(motet_topo_setf(topo, index, "pid", "%d", pid));
    return known ? motet_topo_set_cpus(topo, index, &set) : motetSuccess;
}
