/* SPDX-License-Identifier: Apache-2.0
 * Part of motet.h: handles, results, element types and reductions, the words in which all functions speak. Include motet.h. */
#ifndef MOTET_TYPES_H
#define MOTET_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOTET_API __attribute__((visibility("default")))
#else
#define MOTET_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's end of a communicator. Made by the CommInit functions, CommSplit, CommShrink and CommGrow, freed by CommDestroy or CommAbort. */
typedef struct motetComm *motetComm_t;
#define MOTET_COMM_NULL NULL

/* An ordered queue of operations that run beside the caller. NULL is the caller itself: the call completes before it returns. */
typedef struct motetStream *motetStream_t;

/* A point in a stream. */
typedef struct motetEvent *motetEvent_t;

/* A buffer registered by all ranks of a communicator. */
typedef struct motetWindow *motetWindow_t;

/* Names a communicator that is about to be made: one rank gets it, all others receive a copy by any means and pass it to
 * CommInitRank. Holds a secret: whoever can read it can join. */
#define MOTET_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[MOTET_UNIQUE_ID_BYTES];
} motetUniqueId;

/* X(name, value, sentence) of every result. */
#define MOTET_RESULT_MAP(X)                                                                       \
    X(motetSuccess, 0, "no error")                                                                \
    X(motetUnhandledCudaError, 1, "unhandled device error")                                       \
    X(motetSystemError, 2, "unhandled system error (run with MOTET_DEBUG=INFO for details)")      \
    X(motetInternalError, 3, "internal error - please report this issue to the motet developers") \
    X(motetInvalidArgument, 4, "invalid argument (run with MOTET_DEBUG=WARN for details)")        \
    X(motetInvalidUsage, 5, "invalid usage (run with MOTET_DEBUG=WARN for details)")              \
    X(motetRemoteError, 6, "remote process exited or there was a network error")                  \
    X(motetInProgress, 7, "operation in progress")                                                \
    X(motetTimeout, 8, "operation timed out")

/* UnhandledCudaError exists for its value only and is never returned. System, Internal, Remote and Timeout are fatal to the
 * communicator. InvalidUsage is fatal only when it reports calls that do not match on all ranks. */
typedef enum {
#define MOTET_RESULT_ENUMERATOR(name, value, sentence) name = value,
    MOTET_RESULT_MAP(MOTET_RESULT_ENUMERATOR)
#undef MOTET_RESULT_ENUMERATOR
        motetNumResults = 9
} motetResult_t;

/* Element types. 16- and 8-bit floats accumulate in float32 and are rounded once. Complex types: two floats (re, im). */
typedef enum {
    motetInt8 = 0,
    motetChar = 0,
    motetUint8 = 1,
    motetInt32 = 2,
    motetInt = 2,
    motetUint32 = 3,
    motetInt64 = 4,
    motetUint64 = 5,
    motetFloat16 = 6,
    motetHalf = 6,
    motetFloat32 = 7,
    motetFloat = 7,
    motetFloat64 = 8,
    motetDouble = 8,
    motetBfloat16 = 9,
    motetFloat8e4m3 = 10, /* no infinity: overflow becomes NaN */
    motetFloat8e5m2 = 11, /* overflow becomes infinity */
    motetInt16 = 12,
    motetUint16 = 13,
    motetBool = 14, /* one byte, 0 or 1; any other value counts as 1 */
    motetComplex64 = 15,
    motetComplex128 = 16,
    motetNumTypes = 17
} motetDataType_t;

/* Reductions. The result of an element is the same bits on every rank, and repeats from run to run.
 * Sum, Prod: integers wrap. Max, Min: NaN wins, max(+0, -0) = +0, min(+0, -0) = -0. Avg: the sum divided by the number of ranks of
 * the communicator (integers: summed in 64 bits, then truncated toward zero). Band, Bor, Bxor: bitwise.
 * Bool: Sum and Max are OR, Prod and Min are AND. Refused with motetInvalidArgument: Avg on bool; Prod, Max, Min on complex types;
 * bitwise operations on floats and complex types. Values from motetNumOps on are made by motetRedOpCreatePreMulSum. */
typedef enum {
    motetSum = 0,
    motetProd = 1,
    motetMax = 2,
    motetMin = 3,
    motetAvg = 4,
    motetBand = 5,
    motetBor = 6,
    motetBxor = 7,
    motetNumOps = 8,
    motetMaxRedOp = 0x7fffffff
} motetRedOp_t;

/* Where the scalar of a PreMulSum is. Both are host memory here. Device: read when the operation runs, so it must stay valid and
 * may change between calls. HostImmediate: read during motetRedOpCreatePreMulSum. */
typedef enum { motetScalarDevice = 0, motetScalarHostImmediate = 1 } motetScalarResidence_t;

#ifdef __cplusplus
}
#endif

#endif
