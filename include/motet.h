/* SPDX-License-Identifier: Apache-2.0
 * motet: collective communication between ranks that are threads, processes or hosts, on CPU memory. The only header
 * to include: it brings those of motet/ with it.
 *
 * Names, argument orders and enum values are NCCL's with the prefix swapped: a program that calls NCCL on host memory is ported
 * by search and replace. What NCCL does not have (v-variants, tags, Barrier, streams and events, stores) follows the same style.
 *
 * Rules that hold for every function unless its comment says otherwise:
 *  - Result: motetSuccess or an error; motetGetLastError has the sentence (rank, peer, operation, cause). The library never
 *    exits, never prints to stdout, installs no signal handlers (unless MOTET_DUMP_SIGNAL asks for one) and leaves the caller's affinity alone.
 *  - Errors: a null, unknown or out-of-range argument is motetInvalidArgument; a call in a wrong state (destroyed communicator,
 *    two calls on one communicator at once) is motetInvalidUsage. Both start nothing and leave the communicator as it was.
 *    Errors of the communicator (a dead peer, a call that does not match on all ranks, a timeout) stay: later calls return the
 *    first one, and only GetAsyncError, GetLastError, Abort and Destroy remain useful.
 *  - Threads: one call at a time per communicator; a second concurrent caller gets motetInvalidUsage. Different communicators
 *    run in parallel. motetCommAbort, motetCommGetAsyncError and motetGetLastError may be called from any thread at any time.
 *  - Counts are in elements, sizes in bytes; both are size_t and may exceed 2^31. No alignment is required of any buffer.
 *  - Buffers, arrays and structs belong to the caller. Arrays and structs are read during the call only; data buffers must stay
 *    valid and unchanged until the operation is complete (return of the call on the NULL stream, of the stream otherwise).
 *  - Strings that the library returns belong to the library. */
#ifndef MOTET_H
#define MOTET_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "motet/explain.h"
#include "motet/observe.h"
#include "motet/simulate.h"
#include "motet/topo.h"
#include "motet/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- version */

/* motet's own version. */
#define MOTET_MAJOR          0
#define MOTET_MINOR          1
#define MOTET_PATCH          0
#define MOTET_SUFFIX         ""
#define MOTET_VERSION_STRING "0.1.0"

/* The NCCL interface level that a ported program may test for, so that guards such as
 * `#if MOTET_VERSION_CODE >= MOTET_VERSION(2, 7, 0)` keep the code that they guard. Not motet's own version. */
#define MOTET_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define MOTET_VERSION_CODE     22600

/* ---------------------------------------------------------------- configuration */

#define MOTET_CONFIG_UNDEF_INT INT_MIN
#define MOTET_CONFIG_UNDEF_PTR NULL
#define MOTET_SPLIT_NOCOLOR    (-1)

#define MOTET_SHRINK_DEFAULT 0x00
#define MOTET_SHRINK_ABORT   0x01
#define MOTET_REVOKE_DEFAULT 0x00

#define MOTET_CTA_POLICY_DEFAULT    0x00
#define MOTET_CTA_POLICY_EFFICIENCY 0x01
#define MOTET_CTA_POLICY_ZERO       0x02

/* Options of one communicator. Start from MOTET_CONFIG_INITIALIZER and set what differs. Fields left undefined take the
 * environment's value or the default; a MOTET_ variable overrides a field that is set. A value out of range is
 * motetInvalidArgument. Programs compiled against an older header keep working: `size` says how much the library may read. */
typedef struct {
    size_t size; /* filled by the initializer, as are magic and version */
    unsigned int magic;
    unsigned int version;
    int blocking;            /* 1 (default); 0: making, revoking and finalizing may return motetInProgress, see CommGetAsyncError */
    int cgaClusterSize;      /* accepted, no effect */
    int minCTAs;             /* lower bound on lanes (tiles in flight at once), 1..64: MOTET_MIN_NCHANNELS */
    int maxCTAs;             /* upper bound on lanes, 1..64: MOTET_MAX_NCHANNELS */
    const char *netName;     /* network transport between hosts, "Socket": MOTET_NET */
    int splitShare;          /* accepted, no effect: communicators of a process always share connections */
    int trafficClass;        /* accepted, no effect */
    const char *commName;    /* name in logs and errors; copied, cut at 63 characters */
    int collnetEnable;       /* accepted, no effect */
    int CTAPolicy;           /* accepted, no effect */
    int shrinkShare;         /* accepted, no effect */
    int nvlsCTAs;            /* accepted, no effect */
    int nChannelsPerNetPeer; /* accepted, no effect: MOTET_NSOCKS sets the sockets per peer */
    int nvlinkCentricSched;  /* accepted, no effect */
    int graphUsageMode;      /* accepted, no effect */
    int numRmaCtx;           /* accepted, no effect */
    int maxP2pPeers;         /* accepted, no effect */
    int graphStreamOrdering; /* accepted, no effect */
    /* motet's own: */
    int timeoutMs;                   /* a call that waits longer fails with motetTimeout; 0: never. MOTET_TIMEOUT, default 30 min */
    int initTimeoutMs;               /* same for creation and split. MOTET_INIT_TIMEOUT, default 5 min */
    int warnAfterMs;                 /* one WARN line names late ranks after this long; 0: never. MOTET_WARN_AFTER, default 10 s */
    int nThreads;                    /* threads per rank that move data, >= 1; accepted, one is used */
    const motetProfiler_t *profiler; /* copied; instead of the one of motetProfilerRegister */
    const char *algo; /* algorithms in the grammar of MOTET_ALGO, at most 127 characters; copied. All ranks the same */
} motetConfig_t;

#define MOTET_CONFIG_MAGIC 0xcafebeefu

/* clang-format off */
#define MOTET_CONFIG_INITIALIZER {                                                                        \
    sizeof(motetConfig_t),  /* size */                                                                    \
    MOTET_CONFIG_MAGIC,     /* magic */                                                                   \
    MOTET_VERSION_CODE,     /* version */                                                                 \
    MOTET_CONFIG_UNDEF_INT, /* blocking */                                                                \
    MOTET_CONFIG_UNDEF_INT, /* cgaClusterSize */                                                          \
    MOTET_CONFIG_UNDEF_INT, /* minCTAs */                                                                 \
    MOTET_CONFIG_UNDEF_INT, /* maxCTAs */                                                                 \
    MOTET_CONFIG_UNDEF_PTR, /* netName */                                                                 \
    MOTET_CONFIG_UNDEF_INT, /* splitShare */                                                              \
    MOTET_CONFIG_UNDEF_INT, /* trafficClass */                                                            \
    MOTET_CONFIG_UNDEF_PTR, /* commName */                                                                \
    MOTET_CONFIG_UNDEF_INT, /* collnetEnable */                                                           \
    MOTET_CONFIG_UNDEF_INT, /* CTAPolicy */                                                               \
    MOTET_CONFIG_UNDEF_INT, /* shrinkShare */                                                             \
    MOTET_CONFIG_UNDEF_INT, /* nvlsCTAs */                                                                \
    MOTET_CONFIG_UNDEF_INT, /* nChannelsPerNetPeer */                                                     \
    MOTET_CONFIG_UNDEF_INT, /* nvlinkCentricSched */                                                      \
    MOTET_CONFIG_UNDEF_INT, /* graphUsageMode */                                                          \
    MOTET_CONFIG_UNDEF_INT, /* numRmaCtx */                                                               \
    MOTET_CONFIG_UNDEF_INT, /* maxP2pPeers */                                                             \
    MOTET_CONFIG_UNDEF_INT, /* graphStreamOrdering */                                                     \
    MOTET_CONFIG_UNDEF_INT, /* timeoutMs */                                                               \
    MOTET_CONFIG_UNDEF_INT, /* initTimeoutMs */                                                           \
    MOTET_CONFIG_UNDEF_INT, /* warnAfterMs */                                                             \
    MOTET_CONFIG_UNDEF_INT, /* nThreads */                                                                \
    MOTET_CONFIG_UNDEF_PTR, /* profiler */                                                                \
    MOTET_CONFIG_UNDEF_PTR  /* algo */                                                                    \
}
/* clang-format on */

/* A key-value store of the caller's, the meeting point of motetCommInitStore. Callbacks run only on the thread that calls init or
 * split, during that call. Keys are NUL-terminated ASCII of at most 128 bytes that start with "motet"; values are at most 64 KiB.
 * set: 0 on success, anything else is an error. get: copies the value and its length; 0 on success, 1 when the key has not
 * appeared within timeout_ms (0: ask once), anything else is an error, also when the value is longer than capacity. */
typedef struct {
    void *context;
    int (*set)(void *context, const char *key, const void *value, size_t len);
    int (*get)(void *context, const char *key, void *value, size_t capacity, size_t *len, int timeout_ms);
} motetStore_t;

/* ---------------------------------------------------------------- version and errors */

/* *version = MOTET_VERSION_CODE of the library. Any thread, does not block. */
MOTET_API motetResult_t motetGetVersion(int *version);

/* Fixed text of a result; never NULL, "unknown result code" for values out of range. */
MOTET_API const char *motetGetErrorString(motetResult_t result);

/* Sentence of the last error of `comm`, or with comm NULL of the calling thread; "" when there is none. Never NULL. Valid until
 * the next error of the same communicator or thread. Any thread. */
MOTET_API const char *motetGetLastError(motetComm_t comm);

/* ---------------------------------------------------------------- communicators */

/* Makes a unique id and starts its meeting point inside the calling process, which must live until all ranks have initialised.
 * An id makes one communicator. MOTET_COMM_ID=host:port fixes the address. Any thread, does not wait for others.
 * Errors: motetSystemError when no interface can listen. */
MOTET_API motetResult_t motetGetUniqueId(motetUniqueId *uniqueId);

/* Makes this rank's end of a communicator of `nranks` ranks; `rank` is in [0, nranks). Collective: blocks until all ranks have
 * called with the same id and nranks, or the init timeout. One thread that makes several ranks must group the calls.
 * On failure *comm is NULL. Errors: motetInvalidArgument (also a corrupted id), motetInvalidUsage (rank taken, sizes or settings
 * differ: named), motetRemoteError (meeting point or a rank died), motetTimeout (names the ranks that did not come). */
MOTET_API motetResult_t motetCommInitRank(motetComm_t *comm, int nranks, motetUniqueId commId, int rank);

/* Same with options; config may be NULL. With config->blocking = 0 it returns motetInProgress at once, *comm is set and may be
 * passed only to CommGetAsyncError, GetLastError and CommAbort until the state is motetSuccess. */
MOTET_API motetResult_t motetCommInitRankConfig(motetComm_t *comm, int nranks, motetUniqueId commId, int rank,
                                                motetConfig_t *config);

/* Makes all `ndev` ranks of a communicator in this process: comm[i] is rank i. devlist is accepted for NCCL's sake and may be
 * NULL. Each rank may be driven by a thread of its own; one thread that drives several ranks must group their calls, else a
 * call waits for ranks that nobody drives. Blocks. On failure all comm[i] are NULL. */
MOTET_API motetResult_t motetCommInitAll(motetComm_t *comm, int ndev, const int *devlist);

/* Makes a communicator of all ranks that a launcher started: rank, size and meeting point come from the environment of motet run,
 * torchrun, mpirun of Open MPI, srun, mpirun of MPICH or Intel MPI, in this order. Without any of them: one rank. config may be NULL.
 * May be called again, by all ranks in the same order, for further communicators. Otherwise as motetCommInitRankConfig. */
MOTET_API motetResult_t motetCommInitEnv(motetComm_t *comm, motetConfig_t *config);

/* Makes a communicator over the caller's key-value store; all ranks see the same store, under a prefix that no other communicator
 * uses. *store is copied; its context must live until the call returns, and as long as the communicator when it is split.
 * With blocking = 0 the call still completes before it returns, since callbacks run only here. Otherwise as motetCommInitRankConfig. */
MOTET_API motetResult_t motetCommInitStore(motetComm_t *comm, int nranks, const motetStore_t *store, int rank,
                                           motetConfig_t *config);

/* Makes a communicator through a directory that all ranks can read and write (created if it is missing; one per communicator, and
 * empty of earlier runs' files). Files are removed by the last rank. Otherwise as motetCommInitRankConfig. */
MOTET_API motetResult_t motetCommInitFile(motetComm_t *comm, int nranks, const char *directory, int rank, motetConfig_t *config);

/* Splits: ranks that give the same color >= 0 form a new communicator, ordered by key, then by rank in `comm`. Color
 * MOTET_SPLIT_NOCOLOR: *newcomm is NULL. Collective over `comm`, counts as one of its operations; blocks until done. config NULL
 * takes the parent's options. The child is independent: the parent may be destroyed first. Same errors as init.
 * With blocking = 0 (of config, else of the parent) it returns motetInProgress: the parent is in use, and its GetAsyncError is
 * motetInProgress, until that of *newcomm no longer is. A communicator that failed cannot be split (its first error is returned);
 * one that was only revoked can. */
MOTET_API motetResult_t motetCommSplit(motetComm_t comm, int color, int key, motetComm_t *newcomm, motetConfig_t *config);

/* Makes a communicator of the ranks of `comm` that are not in excludeRanksList, in the same order. Called by those ranks only, all
 * with the same list (any order, copied; the caller's own rank in it is motetInvalidArgument). `comm` may have failed in any way, as
 * long as the ranks that stay are alive; it remains as it was, to be destroyed or aborted, and those who have not failed go on.
 * shrinkFlags: MOTET_SHRINK_DEFAULT first completes this rank's operations on `comm`; MOTET_SHRINK_ABORT revokes it first, which
 * ends them on all ranks, also in other threads of the caller. Blocks until all have come, or the init timeout; blocking = 0 as in
 * CommSplit. config NULL takes the parent's options. On failure *newcomm is NULL, and it may be tried again with another list.
 * Errors: motetInvalidUsage (lists differ, both are printed; a rank in both lists does not count this one in),
 * motetRemoteError (a rank that should stay died, or destroyed its end: named), motetTimeout (names the ranks that did not come). */
MOTET_API motetResult_t motetCommShrink(motetComm_t comm, int *excludeRanksList, int excludeRanksCount, motetComm_t *newcomm,
                                        motetConfig_t *config, int shrinkFlags);

/* Makes a communicator of the nranks ranks of `comm` that `ranks` lists, in that order. Called by those ranks only, all with the same
 * list and the same tag (a string of any kind; NULL is ""). It is none of the operations of `comm`: it waits for none, other threads
 * may be inside `comm`, and ranks may make several and call other things in different orders, as long as tags differ or lists do.
 * `comm` may have failed in any way, but must not be destroyed meanwhile.
 * Blocks until all have come, or the init timeout; blocking = 0 as in CommSplit. config NULL takes the parent's options. On failure
 * *newcomm is NULL, and the same tag and list cannot be used again. Both arguments are copied. The child is independent.
 * Errors: motetInvalidArgument (a rank listed twice, or not in `comm`; the caller not listed), motetRemoteError (a listed rank died,
 * destroyed its end, or failed: named), motetTimeout (names the ranks that did not come, or came with another list or tag). */
MOTET_API motetResult_t motetCommSubset(motetComm_t comm, const int *ranks, int nranks, const char *tag, motetComm_t *newcomm,
                                        motetConfig_t *config);

/* Makes a unique id for CommGrow, in one of the existing ranks of `comm`, whose process must live until the growth is done. It is handed
 * to the new ranks by any means. As motetGetUniqueId otherwise: an id serves one growth. */
MOTET_API motetResult_t motetCommGetUniqueId(motetComm_t comm, motetUniqueId *uniqueId);

/* Makes a communicator of nRanks ranks: those of `comm`, with the ranks they have, and new ones with the ranks that follow. All of them
 * call. Existing ranks pass comm, rank -1, and uniqueId NULL, except the one that made the id, which passes it. New ranks pass
 * comm NULL, the id, and their rank, from the size of `comm` to nRanks - 1. Blocks until all have come, or the init timeout;
 * blocking = 0 as in CommSplit. For existing ranks it is one of the operations of `comm`, which must not have failed and stays as it
 * is; config NULL takes its options. New ranks must configure alike. On failure *newcomm is NULL. Errors: as init;
 * motetInvalidArgument (nRanks does not exceed the size), motetInvalidUsage (sizes differ; none or several ranks passed an id). */
MOTET_API motetResult_t motetCommGrow(motetComm_t comm, int nRanks, const motetUniqueId *uniqueId, int rank, motetComm_t *newcomm,
                                      motetConfig_t *config);

/* Ends this rank's operations on the communicator and, since the other ranks hear of it, theirs; the handle stays. Calls blocked in
 * other threads and operations on streams end with motetInvalidUsage or the error that came first; so do later calls, here and on
 * the other ranks, where the sentence names this rank. Returns once this rank's operations have ended (motetInProgress with
 * blocking = 0 while they have not: see CommGetAsyncError). What remains useful: CommSplit, CommShrink, CommDestroy, CommAbort.
 * revokeFlags is MOTET_REVOKE_DEFAULT. Any thread. CommGetAsyncError is motetSuccess for whoever revoked, if nothing else is wrong.
 * motetTimeout when a call of another thread has not returned within 10 s (a process that is being debugged, say). */
MOTET_API motetResult_t motetCommRevoke(motetComm_t comm, int revokeFlags);

/* Completes all outstanding operations of this rank and says goodbye to the others, so that a rank that leaves is not taken for
 * one that died. No operation may follow. Blocks (motetInProgress with blocking = 0). Returns the communicator's error if it has
 * one, also a mismatch that a call returned too early to see. Optional: motetCommDestroy does it. */
MOTET_API motetResult_t motetCommFinalize(motetComm_t comm);

/* Finalizes if that was not done, then frees the communicator; the handle is dead afterwards. Waits for this rank's own operations
 * only, so one thread may destroy its ranks one after the other. NULL is motetSuccess. Windows, registrations and custom
 * operations of the communicator go with it. Not to be called after CommAbort. Waits for a finalize in the background; while a
 * communicator is being made from it in the background it is motetInvalidUsage. */
MOTET_API motetResult_t motetCommDestroy(motetComm_t comm);

/* Stops everything without the help of others and frees the communicator, in bounded time: calls blocked in other threads return
 * motetInvalidUsage, other ranks see motetRemoteError. Any thread; the handle is dead afterwards (memory goes when the last
 * blocked call has left). NULL is motetSuccess. A communicator that is still being made, in the background or by a call of another
 * thread, which has stored the handle already, can be aborted too: that call fails. If it waits in a collective of its parent
 * (split, grow), the parent fails with it. */
MOTET_API motetResult_t motetCommAbort(motetComm_t comm);

/* *asyncError = motetSuccess, motetInProgress (a non-blocking init, split, shrink, grow, revoke or finalize is not done), or the error
 * that the communicator has. Any thread, never blocks. The function's own result speaks of its arguments only. */
MOTET_API motetResult_t motetCommGetAsyncError(motetComm_t comm, motetResult_t *asyncError);

/* Number of ranks. Any thread, does not block. */
MOTET_API motetResult_t motetCommCount(const motetComm_t comm, int *count);

/* This end's rank. Any thread, does not block. */
MOTET_API motetResult_t motetCommUserRank(const motetComm_t comm, int *rank);

/* Position of this rank among the communicator's ranks on its host, from 0: what a port uses as device number. Does not block. */
MOTET_API motetResult_t motetCommCuDevice(const motetComm_t comm, int *device);

/* ---------------------------------------------------------------- collectives
 *
 * Common to all: every rank of the communicator calls with the same operation, counts where they are common, datatype, operation
 * and root, in the same order. A call that does not match is motetInvalidUsage on every rank, never a hang or a wrong value.
 * Stream NULL: complete on return; first waits for all earlier calls on this communicator. A stream: returns at once, errors come
 * from StreamSynchronize and GetAsyncError. Inside a group: returns at once, runs at the outermost GroupEnd.
 * Operations of a communicator start in the order of the calls, whatever the streams. Zero counts return at once and touch nothing;
 * null buffers are accepted where nothing would be read or written. Inputs are never written, except in place. In place means
 * exactly what each comment says; any other overlap is motetInvalidArgument. Ranks may differ in it.
 * Errors while running: motetRemoteError (a peer died), motetTimeout, motetInvalidUsage (mismatch), motetSystemError. */

/* Reduces count elements of all ranks; every rank gets the result. In place: sendbuff == recvbuff. */
MOTET_API motetResult_t motetAllReduce(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype,
                                       motetRedOp_t op, motetComm_t comm, motetStream_t stream);

/* Reduces count elements of all ranks to recvbuff of root. recvbuff of other ranks may be NULL and is never touched, in place
 * (sendbuff == recvbuff) too. */
MOTET_API motetResult_t motetReduce(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, motetRedOp_t op,
                                    int root, motetComm_t comm, motetStream_t stream);

/* Copies count elements from sendbuff of root to recvbuff of every rank, root too. sendbuff of other ranks is not read and may be
 * NULL. In place: sendbuff == recvbuff. */
MOTET_API motetResult_t motetBroadcast(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, int root,
                                       motetComm_t comm, motetStream_t stream);

/* In-place broadcast: buff of root to buff of every other rank. */
MOTET_API motetResult_t motetBcast(void *buff, size_t count, motetDataType_t datatype, int root, motetComm_t comm,
                                   motetStream_t stream);

/* Block r (sendcount elements) of recvbuff is sendbuff of rank r, on every rank. recvbuff: nranks * sendcount elements.
 * In place: sendbuff == recvbuff + rank * sendcount. */
MOTET_API motetResult_t motetAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, motetDataType_t datatype,
                                       motetComm_t comm, motetStream_t stream);

/* Reduces nranks blocks of recvcount elements; rank r gets block r. sendbuff: nranks * recvcount elements.
 * In place: recvbuff == sendbuff + rank * recvcount; the other blocks stay as they were. */
MOTET_API motetResult_t motetReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, motetDataType_t datatype,
                                           motetRedOp_t op, motetComm_t comm, motetStream_t stream);

/* Block p (count elements) of sendbuff goes to rank p, block p of recvbuff comes from rank p. Both: nranks * count elements.
 * No in place. */
MOTET_API motetResult_t motetAlltoAll(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype,
                                      motetComm_t comm, motetStream_t stream);

/* Block r (count elements) of root's recvbuff is sendbuff of rank r. recvbuff of other ranks may be NULL and is never touched.
 * In place at root: sendbuff == recvbuff + root * count. */
MOTET_API motetResult_t motetGather(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, int root,
                                    motetComm_t comm, motetStream_t stream);

/* Rank r gets block r (count elements) of root's sendbuff. sendbuff of other ranks is not read and may be NULL.
 * In place at root: recvbuff == sendbuff + root * count. */
MOTET_API motetResult_t motetScatter(const void *sendbuff, void *recvbuff, size_t count, motetDataType_t datatype, int root,
                                     motetComm_t comm, motetStream_t stream);

/* Completes on no rank before every rank has called. */
MOTET_API motetResult_t motetBarrier(motetComm_t comm, motetStream_t stream);

/* v-variants: counts differ by rank. Arrays have nranks entries, counts and displacements in elements, and are copied at the call.
 * A NULL displs means packed: block r starts where block r - 1 ends. Blocks that are written must not overlap. */

/* AllGather with recvcounts[r] elements from rank r, put at recvbuff + displs[r]. sendcount == recvcounts[rank]. recvcounts must be
 * the same on all ranks; displs may differ. In place: sendbuff == recvbuff + displs[rank]. */
MOTET_API motetResult_t motetAllGatherV(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts,
                                        const size_t *displs, motetDataType_t datatype, motetComm_t comm, motetStream_t stream);

/* ReduceScatter with recvcounts[r] elements for rank r, packed in sendbuff in rank order. recvcounts must be the same on all ranks.
 * In place: recvbuff == sendbuff + recvcounts[0] + ... + recvcounts[rank - 1]. */
MOTET_API motetResult_t motetReduceScatterV(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                            motetDataType_t datatype, motetRedOp_t op, motetComm_t comm, motetStream_t stream);

/* sendcounts[p] elements at sendbuff + senddispls[p] go to rank p; recvcounts[p] elements from rank p arrive at recvbuff +
 * recvdispls[p]. sendcounts[p] here must equal recvcounts[rank] at p: a difference is an error on both. No in place. */
MOTET_API motetResult_t motetAlltoAllV(const void *sendbuff, const size_t *sendcounts, const size_t *senddispls, void *recvbuff,
                                       const size_t *recvcounts, const size_t *recvdispls, motetDataType_t datatype,
                                       motetComm_t comm, motetStream_t stream);

/* Gather with recvcounts[r] elements from rank r, put at root's recvbuff + displs[r]. recvbuff, recvcounts and displs are read at
 * root only. sendcount of rank r must equal root's recvcounts[r]. In place at root: sendbuff == recvbuff + displs[root]. */
MOTET_API motetResult_t motetGatherV(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts,
                                     const size_t *displs, motetDataType_t datatype, int root, motetComm_t comm,
                                     motetStream_t stream);

/* Scatter with sendcounts[r] elements for rank r, taken from root's sendbuff + displs[r]. sendbuff, sendcounts and displs are read
 * at root only. recvcount of rank r must equal root's sendcounts[r]. In place at root: recvbuff == sendbuff + displs[root]. */
MOTET_API motetResult_t motetScatterV(const void *sendbuff, const size_t *sendcounts, const size_t *displs, void *recvbuff,
                                      size_t recvcount, motetDataType_t datatype, int root, motetComm_t comm, motetStream_t stream);

/* ---------------------------------------------------------------- point to point
 *
 * Messages of a pair arrive in the order of the calls. Only the two ranks take part: no other rank needs to call anything. Streams
 * and groups as for collectives; inside one group sends and receives run concurrently and never deadlock, at any size. A rank may
 * send to itself inside a group. A cycle of ranks that all wait in Send is motetInvalidUsage that names them. On streams, a message does
 * not wait for the messages that were called before it on other streams, so that a receive that lasts keeps no send back; such sends are
 * in no cycle, since what ends it may still be called. */

/* Sends count elements to peer. Complete when sendbuff may be reused: up to MOTET_EAGER bytes that does not wait for the receiver. */
MOTET_API motetResult_t motetSend(const void *sendbuff, size_t count, motetDataType_t datatype, int peer, motetComm_t comm,
                                  motetStream_t stream);

/* Receives the next message of peer, which must have this count and datatype. Blocks until it is there. */
MOTET_API motetResult_t motetRecv(void *recvbuff, size_t count, motetDataType_t datatype, int peer, motetComm_t comm,
                                  motetStream_t stream);

#define MOTET_ANY_SOURCE (-1)
#define MOTET_ANY_TAG    (-1)

/* What a tagged receive got; count in elements. */
typedef struct {
    int source;
    int tag;
    size_t count;
} motetStatus_t;

/* As motetSend, with a tag in [0, 2^31 - 1]. Tagged and untagged messages never match each other. Messages of one pair and tag stay
 * in order; a receive that names a tag passes over messages with others. */
MOTET_API motetResult_t motetSendTag(const void *sendbuff, size_t count, motetDataType_t datatype, int peer, int tag,
                                     motetComm_t comm, motetStream_t stream);

/* Receives a tagged message of at most count elements from peer or MOTET_ANY_SOURCE, with this tag or MOTET_ANY_TAG. *status
 * (may be NULL) is filled when the operation is complete and must live until then. A longer message or another datatype is
 * motetInvalidUsage. */
MOTET_API motetResult_t motetRecvTag(void *recvbuff, size_t count, motetDataType_t datatype, int peer, int tag,
                                     motetStatus_t *status, motetComm_t comm, motetStream_t stream);

/* ---------------------------------------------------------------- groups */

/* Opens a group in this thread; groups nest. Operations, inits and splits called inside return at once and start at the outermost
 * GroupEnd, together. Stream, event, finalize, abort and destroy calls are not grouped: they act at once. */
MOTET_API motetResult_t motetGroupStart(void);

/* Closes a group. The outermost one launches everything in call order and completes NULL-stream operations, inits and splits before
 * it returns, on all communicators, also when one thread drives several ranks of one. Grouping of collectives must be the same on
 * all ranks. Returns the first error of any call inside; an argument error starts nothing of the group. motetInvalidUsage
 * without a GroupStart. */
MOTET_API motetResult_t motetGroupEnd(void);

/* ---------------------------------------------------------------- custom operations */

/* *op = sum of scalar * x: each rank multiplies its own input by its own scalar, rounded to the datatype, before the sum. The
 * scalar is one element of `datatype`; see motetScalarResidence_t for how long it must live. *op works on this communicator and
 * datatype only. Does not block, not collective. */
MOTET_API motetResult_t motetRedOpCreatePreMulSum(motetRedOp_t *op, void *scalar, motetDataType_t datatype,
                                                  motetScalarResidence_t residence, motetComm_t comm);

/* Forgets *op; operations already called keep what they need. Built-in operations are motetInvalidArgument. */
MOTET_API motetResult_t motetRedOpDestroy(motetRedOp_t op, motetComm_t comm);

/* ---------------------------------------------------------------- streams and events
 *
 * Streams and events belong to the process and work with any communicator. Any thread may use them; one call at a time per handle.
 * The NULL stream is the caller: everything on it is complete when its call returns. */

/* Makes a stream. The first one of a process starts the progress thread that runs streams. */
MOTET_API motetResult_t motetStreamCreate(motetStream_t *stream);

/* Waits for everything on the stream, then frees it; the last one ends the progress thread. NULL is motetSuccess. */
MOTET_API motetResult_t motetStreamDestroy(motetStream_t stream);

/* motetSuccess when everything on the stream is complete, motetInProgress when not, or the first error that occurred on it since the
 * last StreamSynchronize. Does not block. */
MOTET_API motetResult_t motetStreamQuery(motetStream_t stream);

/* Blocks until everything on the stream is complete; returns the first error that occurred on it since the last call. */
MOTET_API motetResult_t motetStreamSynchronize(motetStream_t stream);

typedef void (*motetHostFn_t)(void *userData);

/* Calls fn(userData) on the progress thread when all earlier work of the stream is complete (stream NULL: at once, here). Later work
 * of the stream waits for it. fn must not call motet functions and should be short. It runs after errors too. */
MOTET_API motetResult_t motetLaunchHostFunc(motetStream_t stream, motetHostFn_t fn, void *userData);

/* Later work of the stream waits until the event is complete (stream NULL: the caller waits here). An event that was never recorded
 * counts as complete. Does not block otherwise. */
MOTET_API motetResult_t motetStreamWaitEvent(motetStream_t stream, motetEvent_t event);

/* Makes an event, complete until it is recorded. */
MOTET_API motetResult_t motetEventCreate(motetEvent_t *event);

/* Frees an event; streams that wait for it still see it complete. NULL is motetSuccess. */
MOTET_API motetResult_t motetEventDestroy(motetEvent_t event);

/* The event is complete when all work called on the stream so far is complete (stream NULL: at once). Recording again moves it. */
MOTET_API motetResult_t motetEventRecord(motetEvent_t event, motetStream_t stream);

/* motetSuccess or motetInProgress. Does not block. */
MOTET_API motetResult_t motetEventQuery(motetEvent_t event);

/* Blocks until the event is complete. */
MOTET_API motetResult_t motetEventSynchronize(motetEvent_t event);

/* Milliseconds from completion of start to completion of end, with a fraction. motetInProgress when one is not complete,
 * motetInvalidUsage when one was never recorded. */
MOTET_API motetResult_t motetEventElapsedTime(float *milliseconds, motetEvent_t start, motetEvent_t end);

/* ---------------------------------------------------------------- memory */

/* Allocates memory that ranks of this host map directly: the path without staging copies. Zeroed, page aligned. Any thread.
 * motetSystemError when memory is short. Size 0 gives NULL. */
MOTET_API motetResult_t motetMemAlloc(void **ptr, size_t size);

/* Frees it. The caller makes sure that no operation uses it. NULL is motetSuccess; other pointers are motetInvalidArgument. */
MOTET_API motetResult_t motetMemFree(void *ptr);

/* Says that a buffer will be used often with this communicator. A hint: results do not depend on it, ranks may differ in it, and on
 * memory that peers cannot map it changes nothing (an INFO line says so). *handle is for CommDeregister. Local, does not block. */
MOTET_API motetResult_t motetCommRegister(const motetComm_t comm, void *buff, size_t size, void **handle);

/* Takes it back. The buffer must not be in use. */
MOTET_API motetResult_t motetCommDeregister(const motetComm_t comm, void *handle);

#define MOTET_WIN_DEFAULT            0x00
#define MOTET_WIN_COLL_SYMMETRIC     0x01
#define MOTET_WIN_STRICT_ORDERING    0x02
#define MOTET_WIN_REQUIRED_ALIGNMENT 4096

/* Registers a buffer on all ranks together. Collective, counts as an operation of the communicator; blocks. With
 * MOTET_WIN_COLL_SYMMETRIC all sizes must be equal, and calls at equal offsets of the window take the direct path. Ranks may
 * pass memory that peers cannot map: the window works then as a hint. Unknown flags are motetInvalidArgument. */
MOTET_API motetResult_t motetCommWindowRegister(motetComm_t comm, void *buff, size_t size, motetWindow_t *win, int winFlags);

/* Frees a window. Local; no operation on it may be running. NULL is motetSuccess. */
MOTET_API motetResult_t motetCommWindowDeregister(motetComm_t comm, motetWindow_t win);

/* *outUserPtr = the buffer that this rank registered. Does not block. */
MOTET_API motetResult_t motetWinGetUserPtr(motetComm_t comm, motetWindow_t win, void **outUserPtr);

/* ---------------------------------------------------------------- settings */

/* One MOTET_ environment variable. Strings live as long as the process. */
typedef struct {
    const char *name;         /* "MOTET_BUFFSIZE" */
    const char *type;         /* "bool", "int", "size", "time", "string" */
    const char *defaultValue; /* as a user would write it; "" = unset or automatic */
    const char *unit;         /* "bytes", "time", "" */
    const char *range;        /* "65536..1073741824"; "" where any value is accepted */
    const char *sentence;     /* what it does */
    const char *value;        /* what is in force, as it was written */
    const char *source;       /* "default" or "environment" */
    const char *error;        /* NULL, or why the environment's value is refused: init will fail */
} motetParamInfo_t;

/* Number of settings. Any thread, does not block, needs no communicator. */
MOTET_API motetResult_t motetParamCount(int *count);

/* Describes setting `index` in [0, count), in the order of the documentation. Any thread, does not block. */
MOTET_API motetResult_t motetParamInfo(int index, motetParamInfo_t *info);

/* *value = what is in force for a setting, by name ("MOTET_ALGO"); "" when unset. Unknown names are motetInvalidArgument with the
 * nearest real one in the sentence. Any thread, does not block. */
MOTET_API motetResult_t motetParamGet(const char *name, const char **value);

#ifdef __cplusplus
}
#endif

#endif
