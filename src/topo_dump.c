/* SPDX-License-Identifier: Apache-2.0 */
#include "topo_dump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "dump.h"
#include "status.h"
#include "topo/topo.h"

static motetResult_t add_ranks(const struct motetComm *comm, struct motetTopo *topo)
{
    for (int rank = 0; rank < comm->nranks; rank++) {
        const struct motet_process *process = &comm->peers[comm->position_of[rank]].endpoint->process;
        TRY(motet_topo_add_rank(topo, rank, process->host_name, (int)process->pid, NULL));
    }
    return motetSuccess;
}

static motetResult_t write_file(const char *xml)
{
    char path[4096];
    const char *pattern = motet_setting_string(MOTET_SET_TOPO_DUMP_FILE);
    int error = motet_status_expand(pattern, path, sizeof path) ? motet_dump_replace(path, xml, strlen(xml)) : ENAMETOOLONG;
    if (error)
        return motet_fail_quiet(motetSystemError, "%s: %s", pattern, strerror(error));
    INFO(MOTET_LOG_GRAPH, "the topology was written to %s", path);
    return motetSuccess;
}

void motet_topo_dump(motetComm_t comm)
{
    static _Atomic(_Bool) done;
    struct motetTopo *topo = NULL;
    char *xml = NULL;
    if (comm->rank != 0 || !motet_setting_is_set(MOTET_SET_TOPO_DUMP_FILE) || atomic_exchange(&done, true))
        return;
    motetResult_t result = motet_topo_obtain(&topo);
    if (result == motetSuccess)
        result = add_ranks(comm, topo);
    if (result == motetSuccess)
        result = motet_topo_print(topo, &xml);
    if (result == motetSuccess)
        result = write_file(xml);
    if (result != motetSuccess) {
        WARN(MOTET_LOG_GRAPH, "MOTET_TOPO_DUMP_FILE has no effect: %s", motet_error_text());
        motet_error_clear();
    }
    free(xml);
    motet_topo_free(topo);
}
