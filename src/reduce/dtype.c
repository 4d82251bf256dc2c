/* SPDX-License-Identifier: Apache-2.0
 * The rows of the public datatypes and the names of the operations. What is done with them is in the kernel tables. */
#include "reduce/reduce.h"

const struct motet_dtype motet_dtypes[motetNumTypes] = {
    [motetInt8] = {"int8", 1, MOTET_KIND_INT},
    [motetUint8] = {"uint8", 1, MOTET_KIND_UINT},
    [motetInt16] = {"int16", 2, MOTET_KIND_INT},
    [motetUint16] = {"uint16", 2, MOTET_KIND_UINT},
    [motetInt32] = {"int32", 4, MOTET_KIND_INT},
    [motetUint32] = {"uint32", 4, MOTET_KIND_UINT},
    [motetInt64] = {"int64", 8, MOTET_KIND_INT},
    [motetUint64] = {"uint64", 8, MOTET_KIND_UINT},
    [motetFloat16] = {"float16", 2, MOTET_KIND_FLOAT},
    [motetBfloat16] = {"bfloat16", 2, MOTET_KIND_FLOAT},
    [motetFloat32] = {"float32", 4, MOTET_KIND_FLOAT},
    [motetFloat64] = {"float64", 8, MOTET_KIND_FLOAT},
    [motetFloat8e4m3] = {"float8e4m3", 1, MOTET_KIND_FLOAT},
    [motetFloat8e5m2] = {"float8e5m2", 1, MOTET_KIND_FLOAT},
    [motetBool] = {"bool", 1, MOTET_KIND_BOOL},
    [motetComplex64] = {"complex64", 8, MOTET_KIND_COMPLEX},
    [motetComplex128] = {"complex128", 16, MOTET_KIND_COMPLEX},
};

static const char *const op_names[motetNumOps] = {
    [motetSum] = "sum", [motetProd] = "prod", [motetMax] = "max", [motetMin] = "min",
    [motetAvg] = "avg", [motetBand] = "band", [motetBor] = "bor", [motetBxor] = "bxor",
};

const char *motet_op_name(motetRedOp_t op)
{
    return (unsigned)op < motetNumOps ? op_names[op] : "?";
}
