/* SPDX-License-Identifier: Apache-2.0
 * The public registration of a profiler, and the check that a configuration shares with it. */
#include "api/check.h"
#include "base/error.h"
#include "profile.h"

motetResult_t motet_check_profiler(const motetProfiler_t *profiler, const char *where)
{
    if (!profiler)
        return motetSuccess;
    if (profiler->size != sizeof *profiler)
        return motet_fail(motetInvalidArgument, "%s: the profiler's size is %zu, it must be sizeof(motetProfiler_t), %zu", where,
                          profiler->size, sizeof *profiler);
    if (!profiler->startCall && !profiler->stopCall && !profiler->startStep && !profiler->stopStep)
        return motet_fail(motetInvalidArgument, "%s: the profiler has no callback", where);
    return motetSuccess;
}

motetResult_t motetProfilerRegister(const motetProfiler_t *profiler)
{
    TRY(motet_check_profiler(profiler, "ProfilerRegister"));
    motet_profile_register(profiler);
    return motetSuccess;
}
