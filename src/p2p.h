/* SPDX-License-Identifier: Apache-2.0
 * Point to point messages. Every ordered pair of ranks has a ring in the sender's region: headers and payloads in order, `written` by the
 * sender, `taken` by the receiver. A large message between ranks that can read each other's memory carries its address instead of its
 * bytes. Ring positions are monotone byte counts; entries are multiples of the cache line. */
#ifndef MOTET_P2P_H
#define MOTET_P2P_H

#include "comm.h"

#define MOTET_UNTAGGED (-2) /* the tag of Send and Recv: a space of its own, never matched by a tagged call */

/* One Send or Recv of a batch. Filled by the caller, all fields; `done`, `received` and `source` are results. */
struct motet_transfer {
    bool is_send;
    int peer;     /* position; -1: any source (receives only) */
    int tag;      /* MOTET_ANY_TAG for receives that take any tag */
    void *buf;    /* sends: not written */
    size_t bytes; /* receives: the room */
    motetDataType_t dtype;
    const char *name; /* "Send", "RecvTag" */
    bool done;
    size_t received; /* receives: bytes of the message */
    int source, received_tag;
    /* Private to p2p.c. */
    size_t moved;
    uint64_t wait_until; /* direct sends: `taken` that says the receiver has copied; 0 none */
    bool begun, posted, past_cache;
    uint64_t number; /* of its record */
    struct motet_profile *profile;
    struct motet_batch *batch;
};

/* Messages that progress together: the sends and receives of one group, or a single one. Several batches of a communicator may be active
 * when one thread drives them all: they are matched like one, in the order in which they began, and the first of them moves all. */
struct motet_batch {
    motetComm_t comm;
    struct motet_batch *next;         /* active after this one */
    bool on_stream;                   /* messages of other streams may go on beside it */
    struct motet_transfer *transfers; /* in call order */
    int count, sends, receives;       /* of them, sends and receives that are not done */
    bool any_source;                  /* one of the receives takes what comes from any rank */
    bool announced;                   /* this rank shows that it waits in Send */
    int told;                         /* positions before this one know what it shows */
    int looks;
    uint64_t cycle;            /* state of the cycle seen last; 0: none */
    uint64_t blocked_since_ns; /* a send has found no room since then; 0: none */
};

/* What a message is recorded as when it begins: all but its times. group: messages in its batch. */
struct motet_record motet_transfer_record(motetComm_t comm, const struct motet_transfer *message, int group);

/* Begins a batch over transfers[0..count): argument checks were done. The array stays the caller's. It is active until it has succeeded, or
 * until its end. */
motetResult_t motet_batch_begin(struct motet_batch *batch, motetComm_t comm, struct motet_transfer *transfers, int count,
                                bool on_stream);

/* Moves what can be moved. motetInProgress, motetSuccess when all messages are done, or an error. */
motetResult_t motet_batch_progress(struct motet_batch *batch, bool *moved);

/* What a wait asks about a batch (comm.h). */
void motet_batch_describe(void *batch, char *text, size_t len);
bool motet_batch_needs(void *batch, motetComm_t comm, int position);
int motet_batch_whom(void *batch, motetComm_t comm);
const struct motet_transfer *motet_batch_message(void *batch, motetComm_t comm, int position);

/* Forgets a batch in any state (after an error or abort). */
void motet_batch_end(struct motet_batch *batch);

/* Bytes of a peer's ring to this rank that the peer cannot use again yet, as far as it has been told. A header alone is consumed before that
 * is told. */
uint64_t motet_p2p_held(motetComm_t comm, int peer);

/* Frees what the communicator keeps for point to point. */
void motet_p2p_free(motetComm_t comm);

#endif
