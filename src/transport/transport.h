/* SPDX-License-Identifier: Apache-2.0
 * The transport seam: how bytes get from one process to another. A transport never blocks, never calls back, and never sees
 * collectives, communicators or datatypes. A new transport is one file here and one row in table.c; the conformance suite walks the
 * table.
 *
 * Two kinds. MAPPED: the peer's segment (segment.h) becomes readable memory of this process; nothing is ever sent. STREAM: reliable,
 * ordered byte streams ("lanes") on which remote writes are framed.
 *
 * How two processes meet, the same for every transport: one dials the other's listener; both ends prove that they know the job's
 * secret; each hands over its offer; each joins with what the other offered. The transport supplies only the parts that differ. */
#ifndef MOTET_TRANSPORT_TRANSPORT_H
#define MOTET_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/cpus.h"
#include "base/speeds.h"
#include "motet.h"

/* What a process tells the others about itself at init (a blob of fixed size, exchanged by the bootstrap, no pointers). */
struct motet_process {
    uint64_t host_id;  /* equal ids make a local probe worth trying, nothing more */
    uint8_t token[16]; /* random, made each time the library starts in a process: its identity */
    int32_t pid;
    int32_t cpu_limit; /* CPUs that its cgroup's quota is worth; 0: no quota */
    struct motet_cpus cpus;
    struct motet_speeds speeds;
    uint64_t segment_len; /* bytes of its segment (virtual) */
    char host_name[64];
    uint8_t addresses[512]; /* records of the transports: motet_address_record and motet_address_find below */
};

#define MOTET_LANES_MAX       16 /* data connections of one channel */
#define MOTET_OFFER_BYTES     64
#define MOTET_OFFER_FILES_MAX 4
#define MOTET_WHERE_MAX       128

/* What one end hands to the other when they have proved who they are. Descriptors only where the connection carries them. */
struct motet_offer {
    uint8_t bytes[MOTET_OFFER_BYTES];
    int files[MOTET_OFFER_FILES_MAX];
    int nfiles;
};

struct motet_silence { /* of one connected socket */
    uint64_t acknowledged;
    uint64_t since_ns; /* that count has been the same since, with more under way; 0: nothing is */
};

struct motet_channel; /* the connection to one peer process; private to the transport */

/* Results below that are `int` or `ssize_t` report failure as a negative errno. */
struct motet_transport {
    const char *name; /* as in log lines: "P2P/direct", "SHM", "NET/Socket", "sim" */
    bool mapped;

    /* Whether connecting is worth trying, from the descriptions and the settings alone; the same answer at both ends. Any thread. */
    bool (*reach)(const struct motet_process *me, const struct motet_process *peer);

    /* Once per life of the library in this process: start listening, write this transport's record into me->addresses. `doorbell` is a
     * descriptor whose writing wakes this process. motetInvalidArgument: a setting is wrong, init fails. Other errors are quiet and mean
     * that this transport cannot be used here. NULL: nothing to do. */
    motetResult_t (*open)(struct motet_process *me, int doorbell);
    /* Undoes open; accepts any state that open left. Channels are closed before. */
    void (*shutdown)(void);

    /* The i-th listening descriptor, -1 after the last. NULL: nothing listens (the peer is this process). */
    int (*listener)(int i);
    /* Starts a connection to the index-th address of the peer, best first: a non-blocking stream socket that is writable when it
     * stands. -ENOENT after the last address. Writes the address, for error texts. */
    int (*dial)(const struct motet_process *me, const struct motet_process *peer, int index, char where[MOTET_WHERE_MAX]);
    /* Sets what this transport wants of a connected socket; lane 0 is the control connection, 1, 2, ... the data connections. */
    void (*tune)(int fd, int lane);
    /* Data connections that the dialing side adds to the first one (which stays the control connection). Equal at both ends. */
    int (*lanes)(void);

    /* What to hand to the peer; the descriptors stay owned by the transport. NULL: nothing. */
    motetResult_t (*offer)(struct motet_offer *mine);
    /* Makes the channel of the peer's offer and the data connections. Proves that it works as far as one end can (mapped: the token
     * that the offer names is read back through the mapping). Takes all descriptors given, also on failure. */
    motetResult_t (*join)(const struct motet_process *peer, struct motet_offer *theirs, const int *lanes, int nlanes,
                          struct motet_channel **channel);

    /* Stream: bytes taken or delivered now on one lane, 0 = none now, try later; -ESHUTDOWN at the end of the stream. One thread at a
     * time per lane and direction. Mapped: NULL. */
    ssize_t (*send)(struct motet_channel *, int lane, const struct iovec *parts, int nparts);
    ssize_t (*recv)(struct motet_channel *, int lane, const struct iovec *parts, int nparts);
    /* Stream: descriptor of a lane to wait on, or -1: then the endpoint is polled. */
    int (*descriptor)(struct motet_channel *, int lane);
    /* For how many milliseconds the host at the other end of a connected socket has owed an answer, by the kernel's own probes and what
     * they bring back: whether its process runs does not matter. 0: it owes none; -1: unknown. `silence` is kept from look to look, zero at
     * first. NULL: nobody can tell. */
    int64_t (*silent_ms)(int fd, int lane, uint64_t now_ns, struct motet_silence *silence);
    /* ... and from which silence on the host is gone. */
    int64_t (*silence_limit_ms)(void);
    /* Stream: for how long, since it was made, bytes of a lane were under way or waited for the network, not for their reader. NULL: 0. */
    uint64_t (*busy_ns)(struct motet_channel *, int lane);
    /* Stream: nothing more will be sent; the peer reads what was sent, then meets the end. */
    void (*finish)(struct motet_channel *);

    /* Mapped: where the peer's segment lies in this process. */
    void *(*map)(struct motet_channel *, size_t *len);
    /* Mapped: wakes the peer process. Async-signal-safe. */
    void (*ring)(struct motet_channel *);
    /* Mapped: a descriptor that becomes readable when the peer process is gone, or -1. */
    int (*watch)(struct motet_channel *);

    /* Frees the channel and its descriptors. No other call is running. */
    void (*close)(struct motet_channel *);
};

extern const struct motet_transport *const motet_transports[]; /* in order of preference; NULL-terminated */

/* Adds a transport's record to process->addresses. False: no room. */
bool motet_address_record(struct motet_process *process, const char *transport, const void *bytes, size_t len);

/* Finds it, in a description that may come from anywhere: NULL when it is not there or the bytes make no sense. */
const void *motet_address_find(const struct motet_process *process, const char *transport, size_t *len);

#endif
