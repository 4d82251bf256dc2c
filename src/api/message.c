/* SPDX-License-Identifier: Apache-2.0
 * The public point-to-point calls. */
#include "api/check.h"
#include "base/error.h"
#include "group.h"
#include "stream.h"

static motetResult_t check(struct motet_transfer *transfer, size_t count, motetDataType_t dtype, int peer, motetComm_t comm,
                           motetStream_t stream)
{
    TRY(motet_check_comm(comm, transfer->name));
    TRY(motet_check_dtype(dtype, transfer->name));
    if (stream)
        TRY(motet_stream_check(stream, transfer->name));
    if (peer == MOTET_ANY_SOURCE && !transfer->is_send && transfer->tag != MOTET_UNTAGGED) {
        transfer->peer = -1;
    } else {
        TRY(motet_check_rank(comm, peer, "peer", transfer->name));
        transfer->peer = comm->position_of[peer];
    }
    transfer->dtype = dtype;
    TRY(motet_check_bytes(count, 1, dtype, transfer->name, &transfer->bytes));
    if (transfer->bytes > 0 && !transfer->buf)
        return motet_fail(motetInvalidArgument, "%s: the buffer is NULL (%zu bytes)", transfer->name, transfer->bytes);
    return motetSuccess;
}

static motetResult_t submit(struct motet_transfer *transfer, motetResult_t checked, motetStatus_t *status, motetComm_t comm,
                            motetStream_t stream)
{
    if (checked != motetSuccess)
        return motet_group_failed(checked);
    return motet_submit_message(comm, transfer, status, stream);
}

motetResult_t motetSend(const void *sendbuff, size_t count, motetDataType_t datatype, int peer, motetComm_t comm,
                        motetStream_t stream)
{
    struct motet_transfer transfer = {.is_send = true, .tag = MOTET_UNTAGGED, .buf = (void *)(uintptr_t)sendbuff, .name = "Send"};
    return submit(&transfer, check(&transfer, count, datatype, peer, comm, stream), NULL, comm, stream);
}

motetResult_t motetRecv(void *recvbuff, size_t count, motetDataType_t datatype, int peer, motetComm_t comm, motetStream_t stream)
{
    struct motet_transfer transfer = {.tag = MOTET_UNTAGGED, .buf = recvbuff, .name = "Recv"};
    return submit(&transfer, check(&transfer, count, datatype, peer, comm, stream), NULL, comm, stream);
}

motetResult_t motetSendTag(const void *sendbuff, size_t count, motetDataType_t datatype, int peer, int tag, motetComm_t comm,
                           motetStream_t stream)
{
    struct motet_transfer transfer = {.is_send = true, .tag = tag, .buf = (void *)(uintptr_t)sendbuff, .name = "SendTag"};
    motetResult_t checked = check(&transfer, count, datatype, peer, comm, stream);
    if (checked == motetSuccess && tag < 0)
        checked = motet_fail(motetInvalidArgument, "SendTag: tag %d is negative", tag);
    return submit(&transfer, checked, NULL, comm, stream);
}

motetResult_t motetRecvTag(void *recvbuff, size_t count, motetDataType_t datatype, int peer, int tag, motetStatus_t *status,
                           motetComm_t comm, motetStream_t stream)
{
    struct motet_transfer transfer = {.tag = tag, .buf = recvbuff, .name = "RecvTag"};
    motetResult_t checked = check(&transfer, count, datatype, peer, comm, stream);
    if (checked == motetSuccess && tag < 0 && tag != MOTET_ANY_TAG)
        checked = motet_fail(motetInvalidArgument, "RecvTag: tag %d is negative", tag);
    return submit(&transfer, checked, status, comm, stream);
}
