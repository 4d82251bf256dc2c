/* SPDX-License-Identifier: Apache-2.0
 * What every public function does first: checks of arguments, before anything is numbered or sent, with the culprit named. */
#ifndef MOTET_API_CHECK_H
#define MOTET_API_CHECK_H

#include "queue.h"
#include "reduce/reduce.h"

/* Where a call's data lie on this rank, for the checks: lengths in bytes, 0 when the rank neither reads nor writes there. */
struct motet_buffers {
    const void *send;
    size_t send_bytes;
    const void *recv;
    size_t recv_bytes;
    ptrdiff_t in_place; /* send == recv + in_place is the one overlap allowed; PTRDIFF_MIN: none is */
};

/* The communicator can be named in a call: not NULL, alive. (Whether another thread is inside is seen by motet_comm_enter.) */
motetResult_t motet_check_odd_comm(motetComm_t comm, const char *function);
static inline motetResult_t motet_check_comm(motetComm_t comm, const char *function)
{
    bool plain = comm && comm->magic == MOTET_COMM_MAGIC && !comm->finalized && !motet_process_forked_from;
    return __builtin_expect(plain, 1) ? motetSuccess : motet_check_odd_comm(comm, function);
}

motetResult_t motet_check_dtype(motetDataType_t dtype, const char *function);

/* root or peer in [0, nranks). `what` is "root" or "peer". */
motetResult_t motet_check_rank(motetComm_t comm, int rank, const char *what, const char *function);

/* *bytes = count * blocks * size of dtype, or an error when that overflows. */
motetResult_t motet_check_bytes(size_t count, size_t blocks, motetDataType_t dtype, const char *function, size_t *bytes);

/* No NULL where bytes are read or written, no overlap but in place. */
motetResult_t motet_check_buffers(const struct motet_buffers *buffers, const char *function);

/* Hands a checked call on: to the open group, to its stream, or runs it. Owns call. */
motetResult_t motet_submit_collective(motetComm_t comm, const struct motet_call *call, motetStream_t stream);

/* Same for one message. */
motetResult_t motet_submit_message(motetComm_t comm, const struct motet_transfer *transfer, motetStatus_t *status,
                                   motetStream_t stream);

/* ---- profiler.c ---- */

/* NULL, or a profiler that can be called. `where` names who was given it. */
motetResult_t motet_check_profiler(const motetProfiler_t *profiler, const char *where);

/* ---- reduction.c: operations made by RedOpCreatePreMulSum ---- */

/* Resolves a user's operation on dtype: built-in ones are themselves; a PreMulSum is Sum with call->premul and its scalar set. */
motetResult_t motet_resolve_op(motetComm_t comm, motetRedOp_t op, struct motet_call *call, const char *function);

/* ---- options.c ---- */

/* Resolves a configuration (NULL: none) against the settings; `parent` (NULL: none) gives what neither says. */
motetResult_t motet_resolve_options(const motetConfig_t *config, const struct motet_options *parent, struct motet_options *options);

#endif
