/* SPDX-License-Identifier: Apache-2.0
 * One endpoint per peer process, shared by all communicators: so a subgroup costs no socket, no thread, no mapping. An endpoint either
 * maps the peer's segment, or carries remote writes over a stream: "write these bytes at this offset of the mirror you keep of my
 * region, then store this word". So everybody above reads and writes memory, whatever lies between.
 *
 * The service thread (service.c) of the process accepts connections, watches peers' lives (pidfd, control connections), flushes output
 * that callers left behind, and reads control messages; it sleeps in epoll otherwise. Callers that wait read data sockets themselves. */
#ifndef MOTET_ENDPOINT_H
#define MOTET_ENDPOINT_H

#include "boot/boot.h"
#include "transport/transport.h"

struct motet_endpoint {
    struct motet_process process;
    const struct motet_transport *transport;
    char *segment;       /* mapped: the peer's segment here (the own one for the own process); NULL for streams */
    _Atomic(_Bool) dead; /* set once, by the service thread or by whoever met the broken connection; never cleared */
    bool left;           /* valid once dead: it said goodbye */
    bool orderly;        /* valid once dead: it left, or exited with status 0, having sent all it had to send */
    char cause[296];     /* why, in words, valid once dead: "killed by SIGKILL", "connection reset", "silent for 5 s" */
    void *state;         /* private to endpoint.c */
};

/* ---- Process ---- */

/* Describes this process; starts listeners and the service thread on first use. Idempotent, thread safe. Fails in a forked child
 * ("communicator belongs to pid N (forked)"). */
motetResult_t motet_process_open(struct motet_process *me);

/* Balances motet_process_open; when the last user is gone the service thread, listeners, descriptors and segment are released, and it
 * returns true. */
bool motet_process_close(void);

/* In a child of fork: an error that names the process whose communicators these are. Nothing of them may be touched then: shared memory is
 * not mapped in the child. */
extern pid_t motet_process_forked_from; /* 0: this is no such child */
motetResult_t motet_process_fork_error(void);
static inline motetResult_t motet_process_check_fork(void)
{
    return __builtin_expect(motet_process_forked_from == 0, 1) ? motetSuccess : motet_process_fork_error();
}

/* ---- Connecting ---- */

/* Connects to n peer processes (own process included: answered at once), all in parallel; both sides call it. Endpoints that exist are
 * shared (reference counted). Which transport: the first of the table that both `reach` and that really connects; a probe completed by
 * both sides proves it (a fallback is one WARN line saying why). The secret authenticates every connection. All or nothing: on failure no
 * endpoint is left, and the sentence names the peer's host, pid, address and what happened. Blocks until deadline_ns or *abort. */
motetResult_t motet_endpoint_connect(const struct motet_process *const peers[], int n, const struct motet_secret *secret,
                                     uint64_t deadline_ns, const _Atomic(_Bool) *abort, struct motet_endpoint *endpoints[]);

/* The same inside an init: secret, deadline and abort flag are the boot's, and what another rank tells of its failure ends it too. */
motetResult_t motet_endpoint_connect_in(struct motet_boot *boot, const struct motet_process *const peers[], int n,
                                        struct motet_endpoint *endpoints[]);

/* Another reference to an endpoint that the caller already holds (split). */
void motet_endpoint_retain(struct motet_endpoint *endpoint);
void motet_endpoint_release(struct motet_endpoint *endpoint);

/* ---- Windows: memory that a peer's remote writes may touch, and where its control messages go ---- */

enum motet_control {
    MOTET_CONTROL_DEATH, /* the endpoint died (made locally; text = cause) */
    MOTET_CONTROL_FAULT, /* a peer tells of an error of the communicator */
    MOTET_CONTROL_AUDIT, /* question about records, and its answer */
    MOTET_CONTROL_ANSWER,
    MOTET_CONTROL_COUNCIL,       /* ranks agree on members: council.h */
    MOTET_CONTROL_WAIT_QUESTION, /* who waits in a collective for whom: unmatched.c */
    MOTET_CONTROL_WAIT_ANSWER,
    MOTET_CONTROL_ACCOUNT, /* what a rank counted (ledger.h) */
    MOTET_CONTROL_KINDS
};

/* Called by the service thread or by a caller that reads a socket; must not block and must not call into endpoint.h except
 * motet_doorbell_ring and motet_endpoint_control. The death of an endpoint that was dead before the windows were opened is told by
 * motet_windows_open itself, on the caller's thread; a death may be told twice. A peer that destroyed its last communicator in an
 * orderly way "left": that is a death too, after everything it sent has arrived, and matters only to those who still need it. */
typedef void motet_control_handler(void *context, struct motet_endpoint *from, enum motet_control kind, const void *bytes,
                                   size_t len);

/* Opens n windows with consecutive keys; *first_key is unique in this process for its whole life. bases[i] may be NULL (no memory, control
 * only). Remote writes outside [0, len) of a window, or to a key that is not open, are dropped (late words of a destroyed communicator).
 * The handler gets control messages to any of the keys and the death of any of `endpoints` (nendpoints of them). */
motetResult_t motet_windows_open(int n, void *const bases[], size_t len, struct motet_endpoint *const endpoints[], int nendpoints,
                                 motet_control_handler *handler, void *context, uint64_t *first_key);

/* When it returns no handler runs any more and nothing writes to the windows. */
void motet_windows_close(uint64_t first_key);

/* ---- Remote writes (stream endpoints only) ---- */

#define MOTET_PUT_MAX (64 * 1024)

/* Writes len (<= MOTET_PUT_MAX) bytes at `offset` of the peer's window `key`, then stores the 64-bit `word` at `word_offset` (release
 * order: whoever reads the word there sees the bytes; word_offset UINT64_MAX: no word). All or nothing: false means no room now, try
 * later. Bytes are copied or taken by the kernel before it returns. Never blocks; a dead endpoint swallows everything. Thread safe. */
bool motet_endpoint_put(struct motet_endpoint *endpoint, uint64_t key, uint64_t offset, const void *bytes, size_t len,
                        uint64_t word_offset, uint64_t word);

/* Bytes of buffers that a stream endpoint has, here and in the kernel's sockets; 0 for mapped ones. */
uint64_t motet_endpoint_buffers(struct motet_endpoint *endpoint);

/* For how long, since the connection was made, bytes to the peer were under way or waited for the network; 0 for mapped ones. */
uint64_t motet_endpoint_busy_ns(struct motet_endpoint *endpoint);

/* Reads what has arrived and carries it out. True if anything did. Cheap when nothing is there; if another thread is reading this
 * endpoint it returns false at once. */
bool motet_endpoint_progress(struct motet_endpoint *endpoint);

/* Sends a control message (<= 4 KB) to the peer's handler of `key`, over the control connection; queued, never blocks. For a mapped
 * endpoint of another process it goes over the local control connection as well; for the own process the handler is called directly. */
void motet_endpoint_control(struct motet_endpoint *endpoint, uint64_t key, enum motet_control kind, const void *bytes, size_t len);

/* ---- Simulated peers, for tests (transport/sim.h) ---- */

struct motet_sim_options;

/* Two connected stream endpoints inside this process: what is put into one arrives in this process's windows when the other makes
 * progress (and the other way round). No process_open and no service thread needed: the caller polls both, also to hear of a death.
 * Control messages are delivered at once. options may be NULL. Each end is freed by motet_endpoint_release. */
motetResult_t motet_sim_endpoint_pair(uint64_t seed, const struct motet_sim_options *options, struct motet_endpoint **a,
                                      struct motet_endpoint **b);

/* Breaks the connection, as a reset would: both ends die at their next progress. */
void motet_sim_endpoint_break(struct motet_endpoint *endpoint);

/* ---- Sleeping and waking (doorbell.c) ---- */

/* Sleeps until this process's doorbell rings, a data socket is readable, or deadline_ns. Returns at once if it rang since `ticket` was
 * taken. Protocol: ticket = motet_doorbell_ticket(); announce that you sleep; check your condition again; motet_doorbell_wait(ticket).
 * Any number of threads may wait; the first sleeps in epoll, others on a futex, and all wake. */
uint32_t motet_doorbell_ticket(void);
void motet_doorbell_wait(uint32_t ticket, uint64_t deadline_ns);

/* Wakes the sleepers of a mapped peer's process, or of the own one. Async-signal-safe, never blocks. */
void motet_doorbell_ring(struct motet_endpoint *endpoint);
void motet_doorbell_ring_self(void);

#endif
