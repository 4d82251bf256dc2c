/* SPDX-License-Identifier: Apache-2.0
 * Ranks that wait for each other in a circle although nobody is dead and nothing was called wrongly: rank 0 receives from rank 1, which
 * receives from rank 0. It is no error by itself (another thread may still send), so it is said with what is late, and at the time limit. */
#ifndef MOTET_CIRCLE_H
#define MOTET_CIRCLE_H

#include "comm.h"

/* What a rank waits in, and for whom. */
struct motet_standstill {
    int32_t waits_for; /* rank; -1: it does not wait, or for nobody in particular */
    uint32_t waits_ms;
    uint8_t collective,
        grouped;   /* of the record: a collective or MOTET_RECORD_SEND, _RECV; grouped: it may wait for several at once */
    char what[86]; /* "Recv(3 x float32) from rank 1" */
};

/* What the owner of a region shows now. Any thread. */
struct motet_standstill motet_standstill_read(motetComm_t comm, char *region);

/* Appends "; a circle: rank 0 waits in ..., rank 1 waits in ...: nobody sends" if the waits that lead from this rank come back to it. */
void motet_comm_describe_circle(motetComm_t comm, char *text, size_t len);

/* Asks ranks of other hosts that the waits lead to, so that the description finds their answers. Run by waits that last. */
void motet_comm_look_for_circle(motetComm_t comm);

#endif
