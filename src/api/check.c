/* SPDX-License-Identifier: Apache-2.0
 * Argument checks and the hand-over of checked calls. A failed check has done nothing: the communicator stays as it was, on all ranks. */
#include "api/check.h"

#include <stdlib.h>

#include "base/error.h"
#include "group.h"
#include "profile.h"
#include "stream.h"

motetResult_t motet_check_odd_comm(motetComm_t comm, const char *function)
{
    if (!comm)
        return motet_fail(motetInvalidArgument, "%s: the communicator is NULL", function);
    TRY(motet_process_check_fork());
    if (comm->magic == MOTET_COMM_INIT_MAGIC)
        return motet_fail(motetInvalidUsage,
                          "%s: the communicator is still being initialised (or failed to): see motetCommGetAsyncError", function);
    if (comm->magic != MOTET_COMM_MAGIC)
        return motet_fail(motetInvalidArgument, "%s: the communicator was destroyed or never was one", function);
    if (comm->finalized)
        return motet_fail(motetInvalidUsage, "%s: communicator %s is finalized", function, comm->options.name);
    return motetSuccess;
}

motetResult_t motet_check_dtype(motetDataType_t dtype, const char *function)
{
    if (!motet_dtype_row(dtype))
        return motet_fail(motetInvalidArgument, "%s: %d is not a datatype", function, (int)dtype);
    return motetSuccess;
}

motetResult_t motet_check_rank(motetComm_t comm, int rank, const char *what, const char *function)
{
    if (rank < 0 || rank >= comm->nranks)
        return motet_fail(motetInvalidArgument, "%s: %s %d is outside communicator %s of %d ranks", function, what, rank,
                          comm->options.name, comm->nranks);
    return motetSuccess;
}

motetResult_t motet_check_bytes(size_t count, size_t blocks, motetDataType_t dtype, const char *function, size_t *bytes)
{
    size_t elements;
    if (__builtin_mul_overflow(count, blocks, &elements) || __builtin_mul_overflow(elements, motet_dtype_row(dtype)->size, bytes) ||
        *bytes > PTRDIFF_MAX)
        return motet_fail(motetInvalidArgument, "%s: count x size overflows: %zu elements of %s in each of %zu blocks", function,
                          count, motet_dtype_row(dtype)->name, blocks);
    return motetSuccess;
}

motetResult_t motet_check_buffers(const struct motet_buffers *b, const char *function)
{
    if (b->send_bytes > 0 && !b->send)
        return motet_fail(motetInvalidArgument, "%s: the send buffer is NULL (%zu bytes)", function, b->send_bytes);
    if (b->recv_bytes > 0 && !b->recv)
        return motet_fail(motetInvalidArgument, "%s: the receive buffer is NULL (%zu bytes)", function, b->recv_bytes);
    uintptr_t send = (uintptr_t)b->send, recv = (uintptr_t)b->recv;
    bool overlap = b->send_bytes > 0 && b->recv_bytes > 0 && send < recv + b->recv_bytes && recv < send + b->send_bytes;
    bool in_place = b->in_place != PTRDIFF_MIN && send == recv + (uintptr_t)b->in_place;
    if (overlap && !in_place)
        return motet_fail(motetInvalidArgument,
                          "%s: send buffer %p (%zu bytes) and receive buffer %p (%zu bytes) overlap, not in place", function,
                          b->send, b->send_bytes, b->recv, b->recv_bytes);
    return motetSuccess;
}

/* ---- Handing over ---- */

/* A profiler's callback runs in the middle of an operation, which would wait for this call to return. */
static motetResult_t check_caller(const char *function)
{
    if (!motet_profile_is_calling())
        return motetSuccess;
    return motet_fail(motetInvalidUsage, "%s: called inside of a profiler's callback", function);
}

/* Appends to the communicator's order, then gives the operation to its stream or drives it here. Inside the communicator. */
static motetResult_t launch(struct motet_op *op, motetStream_t stream)
{
    if (!op)
        return motet_fail(motetSystemError, "out of memory for an operation");
    if (!stream)
        return motet_queue_run(op);
    motet_queue_append(op);
    if (motet_stream_submit(stream, &op, 1) == motetSuccess)
        return motetSuccess;
    motetResult_t result = motet_queue_drive(&op, 1);
    motet_op_free(op);
    return result;
}

/* The caller's call, on its way to a group or a queue. Owned arrays go with it, or are freed. */
static struct motet_call *keep(const struct motet_call *call)
{
    struct motet_call *kept = malloc(sizeof *kept);
    if (kept)
        *kept = *call;
    else
        motet_call_drop_arrays(call);
    return kept;
}

static motetResult_t submit_to_group(motetComm_t comm, const struct motet_call *call, motetStream_t stream)
{
    struct motet_call *kept = keep(call);
    if (!kept)
        return motet_group_failed(motet_fail(motetSystemError, "%s: out of memory", call->name));
    return motet_group_collective(comm, kept, stream);
}

motetResult_t motet_submit_collective(motetComm_t comm, const struct motet_call *call, motetStream_t stream)
{
    motetResult_t result = check_caller(call->name);
    if (result == motetSuccess && motet_group_is_open())
        return submit_to_group(comm, call, stream);
    if (result == motetSuccess)
        result = motet_comm_enter(comm, call->name);
    if (result != motetSuccess) {
        motet_call_drop_arrays(call);
        return result;
    }
    struct motet_call *kept = NULL;
    if (!stream && !atomic_load_explicit(&comm->queue_first, memory_order_acquire))
        result = motet_engine_run(comm, call);
    else if ((kept = keep(call)) != NULL)
        result = launch(motet_op_collective(comm, kept), stream);
    else
        result = motet_fail(motetSystemError, "%s: out of memory", call->name);
    motet_comm_leave(comm);
    return result;
}

motetResult_t motet_submit_message(motetComm_t comm, const struct motet_transfer *transfer, motetStatus_t *status,
                                   motetStream_t stream)
{
    TRY(check_caller(transfer->name));
    if (motet_group_is_open())
        return motet_group_message(comm, transfer, status, stream);
    TRY(motet_comm_enter(comm, transfer->name));
    struct motet_op *op = motet_op_batch(comm);
    motetResult_t result = op ? motet_op_add(op, transfer, status) : motet_fail(motetSystemError, "out of memory for a message");
    if (result == motetSuccess)
        result = launch(op, stream);
    else
        motet_op_free(op);
    motet_comm_leave(comm);
    return result;
}
