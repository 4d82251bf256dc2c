/* SPDX-License-Identifier: Apache-2.0
 * Part of motet.h: what a job is doing and where its time goes: running jobs, counters, memory, profiling. The rules at the top of motet.h hold here,
 * too. Include motet.h. */
#ifndef MOTET_OBSERVE_H
#define MOTET_OBSERVE_H

#include "motet/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- running jobs */

/* Processes of this host that use motet now and belong to the caller's user (root: to anybody): *pids is malloced for the caller to
 * free(), in ascending order, NULL when there is none. Needs /proc. Any thread, needs no communicator; takes milliseconds. */
MOTET_API motetResult_t motetStatusProcesses(int **pids, int *n);

/* What the ranks of a running job are doing, told by process `pid` of this host for all its peers on all hosts, as JSON; the program's
 * own threads are not disturbed and need not cooperate. *json is malloced for the caller to free().
 *   {"version", "pid", "host": who answered; "direct": true when the process did not answer and its shared memory was read,
 *    "rows": [one object per rank of each communicator], "silent": [{"pid", "host"} of processes that did not answer in time]}
 * A row has comm, id, nranks, rank, pid, host, state (alive, finalized, aborted), process (letter of /proc/PID/stat; T is stopped),
 * peers (number of other ranks by transport), calls, messages, bytes (payload of complete calls), queued (operations that have not
 * begun), current (the call it is in: what, number, began_s, algorithm, protocol, transport), last (the call that ended last), idle_s
 * (since its last call ended), waits_s and waits_for (a rank, -1: nobody in particular) when it waits, counters (where the time of its calls
 * went, as in motetCommStats_t, in seconds), late (the rank that keeps the others waiting, if one stands out: rank, cause, compared, share,
 * saved, p50_us, p99_us, sentence), error. Times are ages in seconds but in counters. A
 * rank may have several rows when several processes told of it.
 * Blocks for timeoutMs at most (1 to 60000). Same user or root; motetInvalidArgument for a process that is not there or has no
 * communicators, motetSystemError when the caller may not look into it. Any thread, needs no communicator. */
MOTET_API motetResult_t motetStatus(int pid, int timeoutMs, char **json);

/* Makes the processes of the job of `pid` write what their flight recorders remember: to MOTET_DUMP_FILE as each of them has it, else to
 * motet-dump-HOST-PID.json in their working directories. *json as above; rows have pid, host, file, directory, error ("" is none).
 * motetTimeout when `pid` does not answer. */
MOTET_API motetResult_t motetStatusDump(int pid, int timeoutMs, char **json);

/* ---------------------------------------------------------------- counters
 *
 * What each rank counts anyway (docs/report.md). Counts and bytes are exact; times come from every call of 256 KB and more and from a
 * sample of the smaller ones, so that those of small calls are estimates. */

/* clang-format off */
/* Rows of the counts below; v-variants count with their equal form. */
typedef enum {
    motetStatsAllReduce = 0, motetStatsReduce = 1, motetStatsBroadcast = 2, motetStatsAllGather = 3,
    motetStatsReduceScatter = 4, motetStatsAlltoAll = 5, motetStatsGather = 6, motetStatsScatter = 7,
    motetStatsBarrier = 8, motetStatsSend = 9, motetStatsRecv = 10
} motetStatsOperation_t;

/* Why a rank is late. Computing: it runs its own program. NotRunning: it wants to run and gets no CPU. Sleeping: it is blocked outside of
 * the library (input, output, locks, timers). SlowLink: it is in time, what it sends and gets is not. */
typedef enum {
    motetLateNobody = 0, motetLateComputing = 1, motetLateNotRunning = 2, motetLateSleeping = 3, motetLateSlowLink = 4,
    motetLateUnknown = 5
} motetLateCause_t;

/* What a communicator's memory on this rank is for. Staging, lines, message rings, recorder and counters lie in its shared region,
 * which like the mirrors (copies of the regions of ranks behind a network) is sparse: what was never used takes no memory. Sockets:
 * buffers here and in the kernel, shared by all communicators with the same processes. Registrations: the caller's own memory, in no
 * sum. Total: all other parts, as reserved. Resident: pages of region and mirrors that are in memory. */
typedef enum {
    motetStatMemStaging = 0, motetStatMemLines = 1, motetStatMemMessages = 2, motetStatMemRecorder = 3,
    motetStatMemCounters = 4, motetStatMemMirrors = 5, motetStatMemScratch = 6, motetStatMemSchedules = 7,
    motetStatMemSockets = 8, motetStatMemRegistrations = 9, motetStatMemTotal = 100, motetStatMemResident = 101
} motetCommMemStat_t;
/* clang-format on */
#define MOTET_STATS_OPERATIONS 11
/* Columns: up to 64 bytes, 1 KB, 16 KB, 256 KB, 4 MB, 64 MB, 1 GB, and more. */
#define MOTET_STATS_CLASSES 8
/* What carried bytes: memory of the same process, shared memory of the host, the network. */
typedef enum { motetStatsThreads = 0, motetStatsShm = 1, motetStatsNet = 2 } motetStatsTransport_t;
#define MOTET_STATS_TRANSPORTS 3

/* Counters of one rank in one communicator since it was made. Times in nanoseconds. */
typedef struct {
    size_t size;                                                 /* filled by the caller: sizeof(motetCommStats_t) */
    uint64_t calls[MOTET_STATS_OPERATIONS][MOTET_STATS_CLASSES]; /* complete operations */
    uint64_t bytes[MOTET_STATS_OPERATIONS][MOTET_STATS_CLASSES]; /* their payload: the larger of what the caller gave and got */
    uint64_t sentBytes[MOTET_STATS_TRANSPORTS];                  /* of messages, by what carried them */
    uint64_t receivedBytes[MOTET_STATS_TRANSPORTS];
    uint64_t timeNs;       /* from begin to end of all operations, on the caller's thread and on streams */
    uint64_t streamTimeNs; /* the part of it on streams */
    uint64_t waitNs;       /* nothing could be done: another rank was late, or data were under way */
    uint64_t waitLateNs;   /* the part of waitNs for ranks of this host that had not called yet */
    uint64_t moveNs;       /* copying, sending, receiving */
    uint64_t reduceNs;     /* adding up; timeNs = waitNs + moveNs + reduceNs */
    uint64_t blockedNs;    /* callers blocked until something on a stream was complete */
    uint64_t longWaits;    /* waits of more than about 50 microseconds */
    /* The rank of this host (or behind a link of this rank) that keeps the others waiting, if one stands out. */
    uint64_t compared;          /* calls in which the ranks of this host were compared */
    int lateRank;               /* -1: nobody stands out */
    motetLateCause_t lateCause; /* motetLateNobody exactly when lateRank is -1 */
    double lateShare; /* of the compared calls it came last in so many, 0..1; slow links: its share of this rank's waiting */
    double lateSaved; /* of all waiting so much would not be if it were in time, 0..1 */
    uint64_t lateP50Ns, lateP99Ns; /* how long after the last but one it came; 0 for slow links */
} motetCommStats_t;

/* Fills *stats as far as stats->size says. Local, does not block; any thread, also while calls run: the numbers are a moment apart then. */
MOTET_API motetResult_t motetCommStats(motetComm_t comm, motetCommStats_t *stats);

/* *value = bytes. Local, does not block; any thread. docs/report.md says which setting lowers what. */
MOTET_API motetResult_t motetCommMemStats(motetComm_t comm, motetCommMemStat_t stat, uint64_t *value);

/* A step (iteration of training) of this rank ends here and the next begins: the report then has time and exposed share by step. comm: the
 * process's first communicator, or one split from it. Local, does not block, about a microsecond. */
MOTET_API motetResult_t motetStepMark(motetComm_t comm);

/* ---------------------------------------------------------------- profiling
 *
 * Callbacks at the beginning and the end of calls and of their steps, for tools that draw timelines or add up on their own. docs/profiling.md
 * has an example, and the probes by which perf and bpftrace see the same from outside. */

/* A call of this rank on a communicator: a collective, or one message. Strings and the structure itself are valid during the callback, except
 * that operation, algorithm and protocol stay. */
typedef struct {
    uint64_t commId; /* the same on all ranks, and in logs, motet status and dumps */
    const char *commName;
    int rank, nRanks;
    uint64_t seqNumber; /* among the collectives of the communicator (from 1, the same on all ranks); of messages: among this
                                       rank's messages */
    const char *name;   /* of the function without prefix: "AllGatherV" */
    motetStatsOperation_t operation;
    size_t count; /* elements per block; 0 for v-variants. Receives: the room, at their end what came */
    motetDataType_t datatype;
    int redOp;             /* motetRedOp_t; -1: nothing is reduced */
    int peer;              /* the root, or the other rank of a message; -1: none, or any source */
    size_t bytes;          /* payload: the larger of what the caller gives and gets */
    const char *algorithm; /* "ring"; NULL: messages, and calls without elements */
    const char *protocol;  /* "LL", "Simple", "Direct"; NULL as above */
    int onStream;          /* 1: motet's progress thread runs it, 0: the caller */
    const void *sendbuff;  /* as the caller gave them; NULL where there is none */
    void *recvbuff;
    uint64_t timeNs; /* CLOCK_MONOTONIC, of this event */
} motetProfilerCall_t;

/* A step of a collective: a message or a reduction in one round of the schedule, for one tile (part of the buffers). */
typedef struct {
    int round, step; /* step: number in the schedule of this rank */
    size_t tile;
    int peer;     /* rank of the first source, else of the first target; -1: nothing crosses */
    int nPeers;   /* sources or targets, whichever are more */
    size_t bytes; /* at the end: of the value; 0 at the beginning */
    uint64_t timeNs;
} motetProfilerStep_t;

/* Callbacks; any may be NULL. *handle is the tool's own, NULL at first: what startCall puts there comes back at the end of the call and in its
 * steps, what startStep puts there at the end of the step. result: motetSuccess, or why the call failed; then steps that were begun have no
 * end.
 *
 * Threads: callbacks run on the thread that runs the operation: a caller's, or the progress thread. Those of one communicator come one after
 * the other, those of different communicators side by side. They should be short: other ranks wait. They may call functions that say "any
 * thread, does not block" and nothing else: collectives and messages of any communicator are motetInvalidUsage inside of a callback, and
 * waiting for a stream never ends. A callback that does not return hangs the call. */
typedef struct {
    size_t size; /* filled by the caller: sizeof(motetProfiler_t) */
    void *context;
    void (*startCall)(void *context, const motetProfilerCall_t *call, void **handle);
    void (*stopCall)(void *context, const motetProfilerCall_t *call, void *handle, motetResult_t result);
    void (*startStep)(void *context, const motetProfilerCall_t *call, void *callHandle, const motetProfilerStep_t *step,
                      void **handle);
    void (*stopStep)(void *context, const motetProfilerCall_t *call, void *callHandle, const motetProfilerStep_t *step,
                     void *handle);
} motetProfiler_t;

/* From now on the communicators that this process makes report to *profiler (copied; its context must live as long as they do), unless their
 * configuration names another (motetConfig_t.profiler); those that are split, shrunk or grown from one report to the same as that one. NULL:
 * later ones report to nobody. Communicators that exist already are not changed: without a profiler they run the short way of small calls,
 * and pay nothing. With one, small calls take some microseconds more. Local, does not block; any thread. motetInvalidArgument: size is not
 * that of a profiler, or it has no callback at all. */
MOTET_API motetResult_t motetProfilerRegister(const motetProfiler_t *profiler);

#ifdef __cplusplus
}
#endif

#endif
