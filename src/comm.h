/* SPDX-License-Identifier: Apache-2.0
 * A communicator: who the ranks are, what memory of theirs this rank can read, what has been called so far, and what went wrong.
 * Everything above (group, queue, api) and the engine below share this one structure; its files are comm.c (create, split, destroy),
 * fault.c (errors that concern all ranks) and wait.c (how a thread waits). */
#ifndef MOTET_COMM_H
#define MOTET_COMM_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "boot/boot.h"
#include "endpoint.h"
#include "plan.h"
#include "region.h"

/* What this rank knows of another rank, by position. */
struct motet_peer {
    int rank;
    struct motet_endpoint *endpoint;
    bool mapped;         /* its region can be read in place, and it reads mine */
    bool same_process;   /* even plain addresses mean the same */
    char *region;        /* its region: mapped, or the mirror kept here */
    uint64_t key;        /* stream endpoints: the window at the peer that mirrors my region */
    _Atomic(_Bool) dead; /* its endpoint died */
    int local_index;     /* bit in the leader's sleepers word; -1 on other hosts */
};

/* What the caller asked for in motetConfig_t and the settings, resolved; constant. */
struct motet_options {
    int64_t timeout_ms, init_timeout_ms, warn_after_ms;
    const char *timeout_from, *init_timeout_from; /* who set these: names for sentences */
    bool blocking;
    bool direct; /* direct access to peers' buffers allowed */
    int nlanes;
    size_t lane_bytes;
    size_t eager_bytes;
    char name[64];
    char algorithms[128];     /* instead of MOTET_ALGO; "": MOTET_ALGO */
    motetProfiler_t profiler; /* size 0: none */
};

struct motet_lane_use {            /* the last use of a lane: whose reading must be over before it is used again */
    const struct motet_plan *plan; /* NULL: free */
    uint64_t need;                 /* value of the readers' done words */
};

struct motet_premul { /* an operation made by RedOpCreatePreMulSum */
    bool live;
    motetDataType_t dtype;
    _Alignas(16) char scalar[16];
};

struct motet_registration { /* CommRegister, and windows */
    uint64_t magic;
    void *buff;
    size_t size;
    struct motet_registration *next;
};

/* An operation that has its place in the order and has not begun, for dumps. Guarded by the queue's lock. */
struct motet_scheduled {
    struct motet_scheduled *next;
    uint64_t since_ns;
    uint64_t calls, messages; /* numbers that its first call or message will have, when what is before it begins as it should */
    /* What its index-th call or message will be recorded as, all but times; false: it has no such. */
    bool (*describe)(const struct motet_scheduled *scheduled, int index, struct motet_record *out);
};

enum motet_creation_state { MOTET_CREATION_DONE, MOTET_CREATION_RUNS, MOTET_CREATION_ABORTED };

struct motet_op;               /* queue.h */
struct motet_transfer;         /* p2p.h */
struct motet_unmatched_answer; /* unmatched.c */
struct motet_audit;            /* mismatch.c */
struct motet_tuner;            /* tune.h */
struct motet_flats;            /* flat.h */
struct motet_moved;            /* timing.h */
struct motet_ledger;           /* ledger.c */

/* How this rank stages, and what it knows of others' lines: bypass.h. */
struct motet_bypass {
    bool on, chosen; /* this call's messages go past the cache; what was chosen for call `seq` */
    uint64_t seq;
    uint32_t since_retry; /* calls past the cache since one went through it */
    uint32_t prices[3];   /* the last probes */
    uint32_t nprobes;
    uint64_t next_probe, next_message; /* not before this call, this message */
};

struct motetComm {
    _Atomic uint64_t magic; /* MOTET_COMM_MAGIC while alive */
    int nranks, rank, position;
    int *rank_at, *position_of;  /* rank by position, position by rank */
    int nhosts, *host_first;     /* hosts as ranges of positions; nhosts + 1 entries */
    int nlocal;                  /* ranks of the own host, itself included */
    int nmapped;                 /* ranks whose regions are mapped, itself included */
    int ncpus;                   /* CPUs of this host that the local ranks share */
    int crowd_ranks, crowd_cpus; /* of the host whose ranks outnumber its CPUs most */
    struct motet_bypass bypass;
    /* Until `placed`, peers are by rank, and the service thread may look at them already: handlers hold the lock, and so does placing. */
    pthread_mutex_t peers_lock;
    bool placed;
    struct motet_peer *peers; /* by position; peers[position] is this rank itself */
    struct motet_layout layout;
    char *region;                       /* own region, in the segment */
    struct motet_control_area *control; /* start of the own region */
    struct motet_control_area *leader;  /* control area whose sleepers word the local ranks share */
    uint64_t local_mask;                /* own bit in it */
    uint64_t first_key;                 /* windows of this communicator in this process: + rank of the peer */
    bool has_windows;
    struct motet_options options;
    uint64_t id; /* the same on all ranks: names the communicator in logs */
    struct motet_secret secret;

    /* Collectives: touched by the thread that runs the current operation only. */
    uint64_t seq;       /* of the last collective begun; its low 32 bits travel */
    uint32_t history;   /* mix of the fingerprints of all collectives so far */
    uint32_t places;    /* calls and messages begun: recorder.h */
    uint64_t messages;  /* number of the last message begun */
    uint64_t queued_ns; /* when the operation that begins now was put into the queue; 0: just now */
    uint64_t asked_seq; /* collective about which remote ranks were asked because a slot of theirs shows another call */
    struct motet_lane_use *lane_uses;
    uint64_t *done_seen;       /* by position: a value that its done word has reached */
    struct motet_flats *flats; /* calls made ready (flat.h); NULL: none yet */
    char **scratch;            /* by lane and plane: private memory of SCRATCH and PARTIAL planes */
    size_t *scratch_bytes;
    struct motet_plan **plans; /* cache */
    int nplans;
    struct motet_tuner *tuner;
    struct motet_pair *pairs;    /* point to point state by position (p2p.c); allocated on first use */
    bool messages_broken;        /* a batch of messages failed: rings may end in half a message */
    struct motet_batch *batches; /* active, in the order in which they began */
    struct motet_audit *audit;   /* what remote ranks called, as far as asked (mismatch.c); under peers_lock; NULL: never asked */
    struct motet_unmatched_answer *wait_answers; /* what remote ranks said last, by position; under peers_lock; NULL: never asked */
    uint64_t block_count;                        /* sends that were announced as blocked so far */

    /* Counting (timing.h); read by the service thread. */
    struct motet_moved *_Atomic moved; /* bytes by transport of the plans' collectives */
    _Atomic uint64_t message_bytes_sent[MOTET_STATS_TRANSPORTS], message_bytes_received[MOTET_STATS_TRANSPORTS];
    uint64_t left_ns, left_seq;     /* when the collective of that number was left, where the next one may be timed */
    _Atomic uint64_t long_since_ns; /* a wait has left the spin phase then; 0: none */
    _Atomic uint64_t long_total_ns; /* all such waits so far, from then on */
    struct motet_ledger *ledger;    /* this communicator in the list of all (ledger.c) */
    int thread_seen;                /* the thread that calls, as the service thread saw it last (account.c) */
    uint64_t thread_ran_ns, thread_delayed_ns, thread_since_ns;

    _Atomic uint64_t scratch_total, schedules_total, registered_total; /* bytes (footprint.c) */

    /* Operations waiting for their turn (queue.c), in call order. */
    pthread_mutex_t queue_lock;
    struct motet_op *_Atomic queue_first, *queue_last;
    struct motet_scheduled *scheduled_first, *scheduled_last; /* those of them that have not begun */
    uint64_t scheduled_calls, scheduled_messages;             /* the last numbers that were promised to one */
    _Atomic(pid_t) caller;                                    /* thread inside a call, 0: none */
    _Atomic(_Bool) closing;                                   /* somebody is freeing it */
    _Atomic(_Bool) abandoned;                                 /* Abort no longer waits for calls to leave: the last one frees */

    /* Agreement on members, whatever state the communicator is in (council.c); under peers_lock. */
    struct motet_council_message *council_mail;
    uint32_t councils; /* begun so far by this rank */

    /* State. */
    _Atomic(_Bool) abort;    /* set by Abort: every wait ends */
    _Atomic(_Bool) dumped;   /* the record of calls has been asked for because of the error */
    _Atomic(_Bool) revoked;  /* by this rank itself */
    _Atomic int async_error; /* motetResult_t: first error that concerns the communicator */
    char error_text[MOTET_ERROR_TEXT_MAX];
    _Atomic int init_state; /* motetInProgress while it is being made, then the outcome */
    _Atomic int creation;   /* enum motet_creation_state, of a creation on the caller's thread */
    _Atomic int background; /* creations from it, and its finalize, that run beside the caller */
    motetComm_t parent;     /* while it is being made from one; under peers_lock */
    pthread_t init_thread;  /* makes it, or finalizes it, in the background */
    bool has_init_thread, finalized, holds_process;
    struct motet_premul *premuls; /* dynamic reduction operations (api.c) */
    int npremuls;
    struct motet_registration *registrations;
};

/* Whether the rank at `position` has finished with the communicator (unmatched.c); then everything it sent has arrived. */
static inline bool motet_comm_has_finished(const struct motetComm *comm, int position)
{
    const struct motet_peer *peer = &comm->peers[position];
    /* acquire: what the rank wrote before is seen. */
    return position != comm->position && peer->region &&
           atomic_load_explicit(&motet_region_control(peer->region)->state, memory_order_acquire) == MOTET_RANK_FINALIZED;
}

#define MOTET_COMM_MAGIC      0x6d6f74657420636full
#define MOTET_COMM_INIT_MAGIC 0x6d6f746574206963ull /* being initialised */

/* ---- comm.c ---- */

/* A handle that is not a communicator yet: its abort flag works, everything else waits for create or split. NULL: out of memory. */
motetComm_t motet_comm_new(const struct motet_options *options);

/* Makes the handle a communicator over an open boot (closed by the caller). Collective over the boot's ranks. On failure the handle remains
 * the caller's to close. */
motetResult_t motet_comm_create(motetComm_t comm, struct motet_boot *boot);

/* Frees everything, in any state, without talking to anybody. Memory that a local peer may still touch is kept until it has let go. */
void motet_comm_close(motetComm_t comm);

/* ---- fault.c: errors of the communicator. The first one wins, is stored here, in every local peer's region, and sent to all others. ---- */

/* Records an error with the sentence of motet_error_text() and tells every rank. Returns the code of the error that won. */
motetResult_t motet_comm_fault(motetComm_t comm, motetResult_t code);

/* This rank failed to place the communicator after all had agreed on it (peers are by rank, with the keys of their windows): tells the
 * others, who believe that it lives. */
void motet_comm_fault_unplaced(motetComm_t comm, motetResult_t code);

/* The first error known here (own, or told by a peer), motetSuccess if none; sets the thread's sentence. One load when there is none. */
motetResult_t motet_comm_check(motetComm_t comm);

/* After reading another rank's buffers: an error if they may have been given back to their owner's caller meanwhile. An owner whose call fails
 * stores the fault here, and passes a barrier, before its call returns. */
motetResult_t motet_comm_check_read(motetComm_t comm);

/* Before a failed call returns whose buffers others may be reading: waits, for a short time at most, while `reads(context, p)` for any of the
 * mapped ranks at positions[0..n). Readers say that they read, then look for faults; this rank's process has the fault stored in theirs,
 * passes a barrier on behalf of both, then looks whether they read. */
void motet_comm_await_readers(motetComm_t comm, const int *positions, int n, bool (*reads)(const void *context, int position),
                              const void *context);

/* A slot of the peer at `position` shows another call than collective `seq` of this rank: says what all ranks called and faults the
 * communicator (mismatch.c). */
motetResult_t motet_comm_mismatch(motetComm_t comm, int position, uint64_t seq, uint64_t theirs);

/* Compares the current call with every rank's record: local ones at once, remote ones by question and answer. Run by waits that last. */
motetResult_t motet_comm_audit(motetComm_t comm);

/* The rank at `position` died and is still needed: faults the communicator. */
motetResult_t motet_comm_dead(motetComm_t comm, int position);

/* The first error known here, without side effects; any thread. */
motetResult_t motet_comm_async_error(motetComm_t comm);

/* Tells all other ranks that this one aborted, and wakes every thread that waits in it. */
void motet_comm_tell_abort(motetComm_t comm);

/* Ends all operations of this rank's end for good, and tells every rank; the first error of the communicator stays the one to report. */
void motet_comm_revoke(motetComm_t comm);

/* Whether the first error is that somebody revoked the communicator: then nothing else is wrong with it. */
bool motet_comm_was_revoked(motetComm_t comm);

/* Handler of control messages and deaths (runs in the service thread). */
void motet_comm_control(void *context, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len);

/* ---- wait.c ---- */

/* What a wait asks about the operations that it waits for; `context` is the caller's. */
struct motet_waiting {
    /* What is waited for, in words: "AllReduce #7 waits for rank 3 (pid 17 on host)". */
    void (*describe)(void *context, char *text, size_t len);
    /* Whether an operation of `comm` cannot complete without something that the rank at `position` has not done yet. NULL: none can. */
    bool (*needs)(void *context, motetComm_t comm, int position);
    /* The rank of `comm` that is missing, if one can be named; -1. NULL: none can. */
    int (*whom)(void *context, motetComm_t comm);
    /* A message to or from the rank at `position` that is not complete; NULL: there is none. NULL: no messages. */
    const struct motet_transfer *(*message)(void *context, motetComm_t comm, int position);
};

/* One thread's wait for operations of one or several communicators. */
struct motet_wait {
    const motetComm_t *comms; /* whose peers are waited for; the caller's array, must outlive the wait */
    int ncomms;
    int pauses, yields;
    bool shares_cpu; /* a peer needs this CPU: spinning only delays it */
    bool asleep_announced;
    bool saw_death;         /* a needed rank is dead or has finished: one more look, then it is an error */
    uint64_t saw_unmatched; /* a rank that is waited for waits in this collective for this one; 0: none was seen */
    uint32_t ticket;
    int missing;                                       /* rank of the first communicator found missing last, -1 */
    bool counted;                                      /* its time since since_ns counts as an operation's */
    uint64_t since_ns, deadline_ns, warn_ns, audit_ns; /* taken when the wait leaves the spin phase; 0 before */
};

void motet_wait_begin(struct motet_wait *wait, const motetComm_t *comms, int ncomms);

/* The same for a caller who has other things to do: brief waits (motet_wait_brief) are a few microseconds, or a few yields. */
void motet_wait_begin_hasty(struct motet_wait *wait, const motetComm_t *comms, int ncomms);

/* After progress: the next pause starts from spinning again. */
void motet_wait_progressed(struct motet_wait *wait);

/* After a look that found nothing: spins, yields, or sleeps, as measured to be best. Returns an error when the wait must end: abort, a
 * fault of one of the communicators, the death of a rank that is needed, the deadline. */
motetResult_t motet_wait_pause(struct motet_wait *wait, const struct motet_waiting *waiting, void *context);

/* The short pauses of a wait, without looking around: spins, or yields when a peer needs this CPU. False: the wait lasts, and the next
 * pause must be motet_wait_pause. A wait with ncomms 0 begins here, over one
 * communicator. */
bool motet_wait_brief(struct motet_wait *wait);

/* Number of the last collective begun; for other threads than the one that runs it. */
static inline uint64_t motet_comm_seq(const struct motetComm *comm)
{
    return __atomic_load_n(&comm->seq, __ATOMIC_RELAXED);
}

/* Tells peers where this rank runs; nearly always nothing to store. */
static inline void motet_comm_note_cpu(motetComm_t comm)
{
    int cpu = sched_getcpu();
    if (atomic_load_explicit(&comm->control->cpu, memory_order_relaxed) != cpu)
        atomic_store_explicit(&comm->control->cpu, cpu, memory_order_relaxed);
}

/* Ends the wait: takes back announcements. Every wait_begin needs one. */
void motet_wait_end(struct motet_wait *wait);

/* Every running thread of the ranks' processes passes a full memory barrier; for slow paths that save fast ones a fence. */
void motet_wait_barrier(void);

/* After publishing something local peers may sleep for: one load when nobody sleeps. */
void motet_comm_wake(motetComm_t comm);

/* Reads the streams of this communicator's peers; nothing when all are mapped. */
void motet_comm_poll(motetComm_t comm, bool *moved);

#endif
