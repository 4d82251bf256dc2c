/* SPDX-License-Identifier: Apache-2.0
 * Version and error texts. */
#include "base/error.h"

#include "comm.h"

motetResult_t motetGetVersion(int *version)
{
    if (!version)
        return motet_fail(motetInvalidArgument, "GetVersion: version is NULL");
    *version = MOTET_VERSION_CODE;
    return motetSuccess;
}

const char *motetGetErrorString(motetResult_t result)
{
    switch (result) {
#define CASE(name, value, sentence) \
    case name:                      \
        return sentence;
        MOTET_RESULT_MAP(CASE)
#undef CASE
    default:
        return "unknown result code";
    }
}

const char *motetGetLastError(motetComm_t comm)
{
    if (!comm || motet_process_check_fork() != motetSuccess)
        return motet_error_text();
    if (comm->magic == MOTET_COMM_INIT_MAGIC)
        return comm->error_text;
    if (comm->magic == MOTET_COMM_MAGIC && motet_comm_async_error(comm) != motetSuccess)
        return comm->control->fault.text;
    return motet_error_text();
}
