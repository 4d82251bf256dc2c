/* SPDX-License-Identifier: Apache-2.0
 * Operations made by the user: PreMulSum. A value of motetRedOp_t beyond the built-in ones is an index into the communicator's list. */
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/error.h"

motetResult_t motetRedOpCreatePreMulSum(motetRedOp_t *op, void *scalar, motetDataType_t datatype, motetScalarResidence_t residence,
                                        motetComm_t comm)
{
    struct motet_reduction reduction;
    TRY(motet_check_comm(comm, "RedOpCreatePreMulSum"));
    TRY(motet_check_dtype(datatype, "RedOpCreatePreMulSum"));
    if (!op || !scalar)
        return motet_fail(motetInvalidArgument, "RedOpCreatePreMulSum: %s is NULL", op ? "scalar" : "op");
    if (residence != motetScalarDevice && residence != motetScalarHostImmediate)
        return motet_fail(motetInvalidArgument, "RedOpCreatePreMulSum: %d is not a scalar residence", (int)residence);
    TRY(motet_reduction_init(&reduction, datatype, motetSum, comm->nranks));
    int i = 0;
    while (i < comm->npremuls && comm->premuls[i].live)
        i++;
    if (i == comm->npremuls) {
        struct motet_premul *grown = realloc(comm->premuls, ((size_t)i + 1) * sizeof *grown);
        if (!grown)
            return motet_fail(motetSystemError, "RedOpCreatePreMulSum: out of memory");
        comm->premuls = grown;
        comm->npremuls++;
    }
    comm->premuls[i] = (struct motet_premul){.live = true, .dtype = datatype};
    memcpy(comm->premuls[i].scalar, scalar, motet_dtype_row(datatype)->size);
    *op = (motetRedOp_t)(motetNumOps + i);
    return motetSuccess;
}

static struct motet_premul *find(motetComm_t comm, motetRedOp_t op)
{
    int64_t i = (int64_t)(int)op - motetNumOps;
    return i >= 0 && i < comm->npremuls && comm->premuls[i].live ? &comm->premuls[i] : NULL;
}

motetResult_t motetRedOpDestroy(motetRedOp_t op, motetComm_t comm)
{
    TRY(motet_check_comm(comm, "RedOpDestroy"));
    struct motet_premul *premul = find(comm, op);
    if (!premul)
        return motet_fail(motetInvalidArgument, "RedOpDestroy: %d is not an operation made on communicator %s", (int)op,
                          comm->options.name);
    premul->live = false;
    return motetSuccess;
}

motetResult_t motet_resolve_op(motetComm_t comm, motetRedOp_t op, struct motet_call *call, const char *function)
{
    call->op = op;
    if ((unsigned)op < (unsigned)motetNumOps)
        return motetSuccess;
    const struct motet_premul *premul = find(comm, op);
    if (!premul)
        return motet_fail(motetInvalidArgument, "%s: %d is not a reduction operation of communicator %s", function, (int)op,
                          comm->options.name);
    if (premul->dtype != call->dtype)
        return motet_fail(motetInvalidArgument, "%s: the PreMulSum was made for %s, the call is on %s", function,
                          motet_dtype_row(premul->dtype)->name, motet_dtype_row(call->dtype)->name);
    call->op = motetSum;
    call->premul = true;
    memcpy(call->scalar, premul->scalar, sizeof call->scalar);
    return motetSuccess;
}
