/* SPDX-License-Identifier: Apache-2.0
 * The public collectives. Each describes itself in a motet_call and says where its data lie on this rank; checks and the hand-over are
 * common. Count arrays are copied here, so that callers may reuse theirs at once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "flat.h"
#include "group.h"
#include "profile.h"
#include "stream.h"

/* What a public function knows of its call. */
struct request {
    struct motet_call call;
    motetComm_t comm;
    motetStream_t stream;
    motetRedOp_t op; /* as the user gave it */
    struct motet_buffers buffers;
};

/* Checks that need no lengths; afterwards the communicator, datatype, root and stream can be used. */
static motetResult_t check_names(struct request *r)
{
    const char *function = r->call.name;
    TRY(motet_check_comm(r->comm, function));
    TRY(motet_check_dtype(r->call.dtype, function));
    if (motet_collective_has_root(r->call.collective))
        TRY(motet_check_rank(r->comm, r->call.root, "root", function));
    if (r->stream)
        TRY(motet_stream_check(r->stream, function));
    if (motet_collective_reduces(r->call.collective) && r->call.collective != MOTET_BARRIER) {
        struct motet_reduction reduction;
        TRY(motet_resolve_op(r->comm, r->op, &r->call, function));
        TRY(motet_reduction_init(&reduction, r->call.dtype, r->call.op, r->comm->nranks));
    }
    return motetSuccess;
}

/* Ends every public function: the error of a check belongs to the group, if one is open. */
static motetResult_t submit(struct request *r, motetResult_t checked)
{
    if (checked == motetSuccess)
        checked = motet_check_buffers(&r->buffers, r->call.name);
    if (checked == motetSuccess) {
        r->call.checked = true;
        r->call.send_bytes = r->buffers.send_bytes;
        r->call.recv_bytes = r->buffers.recv_bytes;
        r->call.in_place = r->buffers.in_place;
        return motet_submit_collective(r->comm, &r->call, r->stream);
    }
    motet_call_drop_arrays(&r->call);
    return motet_group_failed(checked);
}

/* Whether these buffers pass the checks, given what is known of calls like this one. */
static inline bool fits(const struct motet_flat *flat, const void *send, const void *recv)
{
    uintptr_t in = (uintptr_t)send, out = (uintptr_t)recv;
    bool apart = in >= out + flat->recv_bytes || out >= in + flat->send_bytes;
    bool named = (send || flat->send_bytes == 0) && (recv || flat->recv_bytes == 0);
    return flat->checked && named && (apart || in == out + (uintptr_t)flat->in_place);
}

/* The short way of a call, NULL: none is known, or not for these buffers, or others are before it. Inside the communicator, and with nothing
 * on a stream, no other thread changes what is known. */
static inline __attribute__((always_inline)) const struct motet_flat *find_flat(const struct motet_flat_key *key, const void *send,
                                                                                const void *recv, motetComm_t comm)
{
    bool idle = !atomic_load_explicit(&comm->queue_first, memory_order_acquire);
    const struct motet_flat *flat = idle ? motet_flat_find(comm, key) : NULL;
    return flat && fits(flat, send, recv) && motet_flat_takes(flat, send, recv) ? flat : NULL;
}

/* As repeat, on a stream; apart from it, and its key a copy, so that it costs callers without one nothing. */
static __attribute__((noinline)) bool repeat_on_stream(struct motet_flat_key key, const void *send, void *recv, motetComm_t comm,
                                                       motetStream_t stream, motetResult_t *result)
{
    if (motet_profile_is_calling() || motet_comm_enter(comm, "a collective") != motetSuccess)
        return false;
    const struct motet_flat *flat = find_flat(&key, send, recv, comm);
    if (flat && (!flat->is_small || !motet_stream_is_idle(stream)))
        flat = NULL; /* the stream's thread copies while the caller computes */
    if (flat)
        *result = motet_stream_run_flat(stream, comm, flat, send, recv);
    motet_comm_leave(comm);
    return flat != NULL;
}

/* Calls like one that has passed all checks before need only what may differ: buffers, stream, group, the state of the communicator. False:
 * nothing was done, the long way finds out what is to be done or said. */
static inline __attribute__((always_inline)) bool repeat(const struct motet_flat_key *key, const void *send, void *recv,
                                                         motetComm_t comm, motetStream_t stream, motetResult_t *result)
{
    if (!comm || comm->magic != MOTET_COMM_MAGIC || motet_group_is_open() || comm->finalized)
        return false;
    if (__builtin_expect(stream != NULL, 0))
        return repeat_on_stream(*key, send, recv, comm, stream, result);
    if (__builtin_expect(motet_profile_is_calling(), 0))
        return false; /* this may be a call from inside of one */
    if (motet_comm_enter(comm, "a collective") != motetSuccess)
        return false;
    const struct motet_flat *flat = find_flat(key, send, recv, comm);
    if (flat)
        *result = motet_engine_run_flat(comm, flat, send, recv, NULL);
    motet_comm_leave(comm);
    return flat != NULL;
}

static struct request begin(enum motet_collective collective, const char *name, const void *send, void *recv, size_t count,
                            motetDataType_t dtype, motetComm_t comm, motetStream_t stream)
{
    return (struct request){
        .call = {.collective = collective, .name = name, .send = send, .recv = recv, .count = count, .dtype = dtype},
        .comm = comm,
        .stream = stream,
        .buffers = {.send = send, .recv = recv, .in_place = 0}};
}

/* ---- Equal counts ---- */

/* Lengths of the two buffers in blocks of count. */
static motetResult_t check_equal(struct request *r, bool names_checked, size_t send_blocks, size_t recv_blocks)
{
    if (!names_checked)
        TRY(check_names(r));
    TRY(motet_check_bytes(r->call.count, send_blocks, r->call.dtype, r->call.name, &r->buffers.send_bytes));
    return motet_check_bytes(r->call.count, recv_blocks, r->call.dtype, r->call.name, &r->buffers.recv_bytes);
}

static ptrdiff_t block_offset(const struct request *r)
{
    return (ptrdiff_t)((size_t)r->comm->rank * r->call.count * motet_dtype_row(r->call.dtype)->size);
}

motetResult_t motetAllReduce(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, motetRedOp_t op,
                             motetComm_t comm, motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {count, MOTET_ALLREDUCE, datatype, op, 0};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_ALLREDUCE, "AllReduce", sendbuff, recvbuff, count, datatype, comm, stream);
    r.op = op;
    return submit(&r, check_equal(&r, false, 1, 1));
}

motetResult_t motetReduce(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, motetRedOp_t op, int root,
                          motetComm_t comm, motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {count, MOTET_REDUCE, datatype, op, root};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_REDUCE, "Reduce", sendbuff, recvbuff, count, datatype, comm, stream);
    r.op = op;
    r.call.root = root;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, 1, comm->rank == root);
    return submit(&r, checked);
}

motetResult_t motetBroadcast(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, int root,
                             motetComm_t comm, motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {count, MOTET_BROADCAST, datatype, 0, root};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_BROADCAST, "Broadcast", sendbuff, recvbuff, count, datatype, comm, stream);
    r.call.root = root;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, comm->rank == root, 1);
    return submit(&r, checked);
}

motetResult_t motetBcast(void *buff, size_t count, motetDataType_t datatype, int root, motetComm_t comm, motetStream_t stream)
{
    return motetBroadcast(buff, buff, count, datatype, root, comm, stream);
}

motetResult_t motetAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, motetDataType_t datatype, motetComm_t comm,
                             motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {sendcount, MOTET_ALLGATHER, datatype, 0, 0};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_ALLGATHER, "AllGather", sendbuff, recvbuff, sendcount, datatype, comm, stream);
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, 1, (size_t)comm->nranks);
    if (checked == motetSuccess)
        r.buffers.in_place = block_offset(&r);
    return submit(&r, checked);
}

motetResult_t motetReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, motetDataType_t datatype, motetRedOp_t op,
                                 motetComm_t comm, motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {recvcount, MOTET_REDUCESCATTER, datatype, op, 0};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_REDUCESCATTER, "ReduceScatter", sendbuff, recvbuff, recvcount, datatype, comm, stream);
    r.op = op;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, (size_t)comm->nranks, 1);
    if (checked == motetSuccess)
        r.buffers.in_place = -block_offset(&r);
    return submit(&r, checked);
}

motetResult_t motetAlltoAll(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, motetComm_t comm,
                            motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {count, MOTET_ALLTOALL, datatype, 0, 0};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_ALLTOALL, "AlltoAll", sendbuff, recvbuff, count, datatype, comm, stream);
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, (size_t)comm->nranks, (size_t)comm->nranks);
    r.buffers.in_place = PTRDIFF_MIN;
    return submit(&r, checked);
}

motetResult_t motetGather(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, int root, motetComm_t comm,
                          motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {count, MOTET_GATHER, datatype, 0, root};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_GATHER, "Gather", sendbuff, recvbuff, count, datatype, comm, stream);
    r.call.root = root;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, 1, comm->rank == root ? (size_t)comm->nranks : 0);
    if (checked == motetSuccess)
        r.buffers.in_place = block_offset(&r);
    return submit(&r, checked);
}

motetResult_t motetScatter(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, int root, motetComm_t comm,
                           motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {count, MOTET_SCATTER, datatype, 0, root};
    if (repeat(&key, sendbuff, recvbuff, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_SCATTER, "Scatter", sendbuff, recvbuff, count, datatype, comm, stream);
    r.call.root = root;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = check_equal(&r, true, comm->rank == root ? (size_t)comm->nranks : 0, 1);
    if (checked == motetSuccess)
        r.buffers.in_place = -block_offset(&r);
    return submit(&r, checked);
}

motetResult_t motetBarrier(motetComm_t comm, motetStream_t stream)
{
    motetResult_t result;
    const struct motet_flat_key key = {0, MOTET_BARRIER, motetUint8, 0, 0};
    if (repeat(&key, NULL, NULL, comm, stream, &result))
        return result;
    struct request r = begin(MOTET_BARRIER, "Barrier", NULL, NULL, 0, motetUint8, comm, stream);
    return submit(&r, check_names(&r));
}

/* ---- Counts by rank ---- */

/* Copies counts and displacements (NULL: packed) of nranks blocks; *span is the bytes from the base to the end of the last block. */
static motetResult_t copy_blocks(struct request *r, const char *what, const size_t *counts, const size_t *displs,
                                 size_t **counts_out, size_t **displs_out, size_t *span)
{
    size_t n = (size_t)r->comm->nranks, packed = 0, end = 0;
    if (!counts)
        return motet_fail(motetInvalidArgument, "%s: the array of %s counts is NULL", r->call.name, what);
    *counts_out = malloc(n * sizeof(size_t));
    *displs_out = malloc(n * sizeof(size_t));
    if (!*counts_out || !*displs_out)
        return motet_fail(motetSystemError, "%s: out of memory for the counts of %zu ranks", r->call.name, n);
    for (size_t i = 0; i < n; i++) {
        size_t last;
        (*counts_out)[i] = counts[i];
        (*displs_out)[i] = displs ? displs[i] : packed;
        if (__builtin_add_overflow((*displs_out)[i], counts[i], &last) || __builtin_add_overflow(packed, counts[i], &packed))
            return motet_fail(motetInvalidArgument, "%s: the %s counts overflow at rank %zu", r->call.name, what, i);
        end = counts[i] > 0 && last > end ? last : end;
    }
    return motet_check_bytes(end, 1, r->call.dtype, r->call.name, span);
}

static ptrdiff_t element_offset(const struct request *r, size_t element)
{
    return (ptrdiff_t)(element * motet_dtype_row(r->call.dtype)->size);
}

motetResult_t motetAllGatherV(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts,
                              const size_t *displs, motetDataType_t datatype, motetComm_t comm, motetStream_t stream)
{
    struct request r = begin(MOTET_ALLGATHER, "AllGatherV", sendbuff, recvbuff, 0, datatype, comm, stream);
    r.call.counts = MOTET_COUNTS_ALL_KNOW;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = copy_blocks(&r, "receive", recvcounts, displs, &r.call.recv_counts, &r.call.recv_displs, &r.buffers.recv_bytes);
    if (checked == motetSuccess && recvcounts[comm->rank] != sendcount)
        checked = motet_fail(motetInvalidArgument, "AllGatherV: rank %d sends %zu elements, recvcounts[%d] says %zu", comm->rank,
                             sendcount, comm->rank, recvcounts[comm->rank]);
    if (checked == motetSuccess) {
        r.buffers.send_bytes = (size_t)element_offset(&r, sendcount);
        r.buffers.in_place = element_offset(&r, r.call.recv_displs[comm->rank]);
    }
    return submit(&r, checked);
}

motetResult_t motetReduceScatterV(const void *sendbuff, void *recvbuff, const size_t *recvcounts, motetDataType_t datatype,
                                  motetRedOp_t op, motetComm_t comm, motetStream_t stream)
{
    struct request r = begin(MOTET_REDUCESCATTER, "ReduceScatterV", sendbuff, recvbuff, 0, datatype, comm, stream);
    r.op = op;
    r.call.counts = MOTET_COUNTS_ALL_KNOW;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = copy_blocks(&r, "receive", recvcounts, NULL, &r.call.send_counts, &r.call.send_displs, &r.buffers.send_bytes);
    if (checked == motetSuccess) {
        r.buffers.recv_bytes = (size_t)element_offset(&r, recvcounts[comm->rank]);
        r.buffers.in_place = -element_offset(&r, r.call.send_displs[comm->rank]);
    }
    return submit(&r, checked);
}

motetResult_t motetAlltoAllV(const void *sendbuff, const size_t *sendcounts, const size_t *senddispls, void *recvbuff,
                             const size_t *recvcounts, const size_t *recvdispls, motetDataType_t datatype, motetComm_t comm,
                             motetStream_t stream)
{
    struct request r = begin(MOTET_ALLTOALL, "AlltoAllV", sendbuff, recvbuff, 0, datatype, comm, stream);
    r.call.counts = MOTET_COUNTS_PAIR_KNOWS;
    r.buffers.in_place = PTRDIFF_MIN;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = copy_blocks(&r, "send", sendcounts, senddispls, &r.call.send_counts, &r.call.send_displs, &r.buffers.send_bytes);
    if (checked == motetSuccess)
        checked =
            copy_blocks(&r, "receive", recvcounts, recvdispls, &r.call.recv_counts, &r.call.recv_displs, &r.buffers.recv_bytes);
    if (checked == motetSuccess && sendcounts[comm->rank] != recvcounts[comm->rank])
        checked = motet_fail(motetInvalidArgument, "AlltoAllV: rank %d sends itself %zu elements and receives %zu", comm->rank,
                             sendcounts[comm->rank], recvcounts[comm->rank]);
    return submit(&r, checked);
}

motetResult_t motetGatherV(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts, const size_t *displs,
                           motetDataType_t datatype, int root, motetComm_t comm, motetStream_t stream)
{
    struct request r = begin(MOTET_GATHER, "GatherV", sendbuff, recvbuff, sendcount, datatype, comm, stream);
    r.call.root = root;
    r.call.counts = MOTET_COUNTS_PAIR_KNOWS;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = motet_check_bytes(sendcount, 1, datatype, "GatherV", &r.buffers.send_bytes);
    if (checked == motetSuccess && comm->rank == root) {
        checked = copy_blocks(&r, "receive", recvcounts, displs, &r.call.recv_counts, &r.call.recv_displs, &r.buffers.recv_bytes);
        if (checked == motetSuccess && recvcounts[root] != sendcount)
            checked = motet_fail(motetInvalidArgument, "GatherV: the root sends itself %zu elements and receives %zu", sendcount,
                                 recvcounts[root]);
        if (checked == motetSuccess)
            r.buffers.in_place = element_offset(&r, r.call.recv_displs[root]);
    }
    return submit(&r, checked);
}

motetResult_t motetScatterV(const void *sendbuff, const size_t *sendcounts, const size_t *displs, void *recvbuff, size_t recvcount,
                            motetDataType_t datatype, int root, motetComm_t comm, motetStream_t stream)
{
    struct request r = begin(MOTET_SCATTER, "ScatterV", sendbuff, recvbuff, recvcount, datatype, comm, stream);
    r.call.root = root;
    r.call.counts = MOTET_COUNTS_PAIR_KNOWS;
    motetResult_t checked = check_names(&r);
    if (checked == motetSuccess)
        checked = motet_check_bytes(recvcount, 1, datatype, "ScatterV", &r.buffers.recv_bytes);
    if (checked == motetSuccess && comm->rank == root) {
        checked = copy_blocks(&r, "send", sendcounts, displs, &r.call.send_counts, &r.call.send_displs, &r.buffers.send_bytes);
        if (checked == motetSuccess && sendcounts[root] != recvcount)
            checked = motet_fail(motetInvalidArgument, "ScatterV: the root sends itself %zu elements and receives %zu",
                                 sendcounts[root], recvcount);
        if (checked == motetSuccess)
            r.buffers.in_place = -element_offset(&r, r.call.send_displs[root]);
    }
    return submit(&r, checked);
}
