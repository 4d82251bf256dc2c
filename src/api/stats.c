/* SPDX-License-Identifier: Apache-2.0
 * The public questions about counters, steps and memory. */
#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "footprint.h"
#include "ledger.h"
#include "timing.h"

motetResult_t motetCommStats(motetComm_t comm, motetCommStats_t *stats)
{
    TRY(motet_check_comm(comm, "CommStats"));
    if (!stats)
        return motet_fail(motetInvalidArgument, "CommStats: stats is NULL");
    size_t size = stats->size;
    if (size < sizeof size || size > 65536)
        return motet_fail(motetInvalidArgument, "CommStats: stats->size is %zu, it must be sizeof(motetCommStats_t), %zu", size,
                          sizeof *stats);
    motetCommStats_t all = {.size = size};
    motet_ledger_stats(comm, &all);
    memcpy(stats, &all, size < sizeof all ? size : sizeof all);
    return motetSuccess;
}

motetResult_t motetStepMark(motetComm_t comm)
{
    TRY(motet_check_comm(comm, "StepMark"));
    return motet_ledger_step(comm);
}

motetResult_t motetCommMemStats(motetComm_t comm, motetCommMemStat_t stat, uint64_t *value)
{
    TRY(motet_check_comm(comm, "CommMemStats"));
    if (!value)
        return motet_fail(motetInvalidArgument, "CommMemStats: value is NULL");
    if (stat == motetStatMemTotal)
        *value = motet_footprint_total(comm);
    else if (stat == motetStatMemResident)
        *value = motet_footprint_resident(comm);
    else if ((int)stat >= 0 && (int)stat < MOTET_FOOTPRINT_PARTS)
        *value = motet_footprint_part_bytes(comm, (enum motet_footprint_part)stat);
    else
        return motet_fail(motetInvalidArgument, "CommMemStats: %d is not a statistic", (int)stat);
    return motetSuccess;
}
