/* SPDX-License-Identifier: Apache-2.0
 * Part of motet.h: what a collective would do and cost, asked without running it. The rules at the top of motet.h hold here, too. Include
 * motet.h.
 *
 * Everything is read from the schedules that the library would run, so it is true of new algorithms without a line here. Ranks are
 * numbered host by host. Nothing here needs a communicator, moves data or starts a thread; any thread may call, with explanations of its
 * own. Bytes are doubles because parts of a vector need not be whole. */
#ifndef MOTET_EXPLAIN_H
#define MOTET_EXPLAIN_H

#include "motet/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What links and cores do. All speeds are one way, in 10^9 bytes per second. 0 is the library's own assumption, what it uses to choose
 * today; for rankGBs it is no such link. */
typedef struct {
    double latencyUs;      /* between hosts: from the last byte that the sender writes to the receiver that sees it */
    double hostGBs;        /* of one host's link to all others, which its ranks share */
    double rankGBs;        /* of one rank's own link to anybody */
    double localLatencyUs; /* inside a host */
    double coreGBs;        /* loads and stores of one core */
    double combineGBs;     /* operands that one core adds up, beside loading them */
    int ideal;             /* 1: cores cost nothing, nor does a local latency of 0: links alone decide, as in a textbook */
    int whole;             /* 1: a message is forwarded only when all of it has come: what textbooks call unpipelined */
} motetExplainNetwork_t;

/* What is asked. MOTET_EXPLAIN_QUERY_INITIALIZER, then the members that matter. */
typedef struct {
    size_t size;            /* sizeof(motetExplainQuery_t) */
    const char *collective; /* "AllReduce"; all_reduce, allreduce and all-reduce are the same */
    size_t bytes;           /* as motet perf counts: the larger of what a rank gives and gets */
    motetDataType_t datatype;
    motetRedOp_t op; /* built-in ones */
    int nranks;      /* 1 to 4096 */
    int nhosts;      /* 1 to nranks; ranks are spread evenly, the first hosts have one more */
    int root;
    int coresPerHost; /* 0: one for each rank */
    int threads;      /* 1: the ranks of a host are threads of one process */
    int scattered; /* 1: ranks are dealt to the hosts in turn and the schedules do not know it: what a library that follows the numbers
                         of ranks does. The library itself never does it. */
    size_t tileBytes; /* staging of a tile; 0: the default of MOTET_BUFFSIZE; SIZE_MAX: everything is one tile */
    const char *algo; /* instead of MOTET_ALGO; NULL: MOTET_ALGO */
    motetExplainNetwork_t network;
    int here; /* 1: hosts are machines like this one, as measured; members of `network` that are not 0 come on top */
} motetExplainQuery_t;
/* clang-format off */
#define MOTET_EXPLAIN_QUERY_INITIALIZER { sizeof(motetExplainQuery_t), "AllReduce", 1048576, motetFloat32, motetSum, 8, 1, 0, 0, 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0 }, 0 }
/* clang-format on */

/* An answer. */
typedef struct motetExplanation *motetExplanation_t;

/* What works longest, besides latency: a core, a rank's own link, a host's link. */
typedef enum { motetExplainCore = 0, motetExplainRankLink = 1, motetExplainHostLink = 2 } motetExplainResource_t;

/* One algorithm of the collective. */
typedef struct {
    const char *name;       /* as in MOTET_ALGO */
    const char *title;      /* what it does, with its source */
    const char *order;      /* in which order it adds, on one host: "canonical", "rotated"; "none" where nothing is added */
    const char *excludedBy; /* why it is not considered, a phrase; NULL: it is */
    int fits;               /* 0: it does not exist for these ranks and hosts; all numbers are 0 then */
    int chosen;             /* 1: the library would run it */
    int measured;           /* 1: timeNs comes from the table of MOTET_TUNER_FILE or of motet tune */
    double timeNs;          /* predicted, or measured, until the last rank is done */
    int timeIsContinued;    /* 1: continued from fewer ranks, since so many would take long to compute */
    double tileNs, tiles;   /* time of one tile alone; number of tiles, of which two are under way at a time */
    motetExplainResource_t busiest;
    int busiestWhere;              /* its rank or host */
    double busiestNs;              /* how long it works in each tile */
    double sentMost, receivedMost; /* by one rank, in messages */
    int sentMostRank, receivedMostRank;
    double total;    /* by all ranks */
    double hostMost; /* leaves one host, at most */
    int hostMostHost;
    int messagesMost;   /* sent by one rank; a message to two ranks counts twice */
    double messages;    /* of all ranks */
    double connections; /* pairs of ranks that exchange anything */
    int rounds;         /* the longest chain of messages of which each needs the one before; 0: not counted (over 128 ranks) */
    int phases;         /* barriers between steps of one rank, plus one */
    int parts;          /* into which each block is cut */
} motetExplainCandidate_t;

/* Which algorithm runs up to which size. */
typedef struct {
    double fromBytes; /* including */
    int candidate;
} motetExplainRange_t;

/* One message of a schedule. */
typedef struct {
    int from, to;
    int round;                /* from 1 on: how many messages come one after another before and with it */
    int chunk, chunks;        /* the first one (block * parts + part), and how many */
    double bytes;             /* in the first tile */
    int sum;                  /* 1: an accumulator or a sum, 0: an input or a result as it is */
    double sentNs, arrivedNs; /* predicted, in the first tile */
} motetExplainMessage_t;

/* What a rank has of one chunk after a round. */
typedef struct {
    uint64_t ranks; /* whose inputs are in it, one bit each; 0: nothing */
    int chunk;      /* of which chunk of theirs (differs from the chunk asked for in AlltoAll only) */
    int isResult;   /* 1: it stands in the receive buffer */
    int isNew;      /* 1: since this round */
} motetExplainHolding_t;

/* Answers *query. Freed by motetExplainFree. Blocks for milliseconds, for hundreds of ranks or hosts up to seconds. */
MOTET_API motetResult_t motetExplain(const motetExplainQuery_t *query, motetExplanation_t *explanation);

/* The same for an existing communicator: its ranks, hosts, CPUs and tiles, what was measured of its machines, and its algorithms count
 * instead of the query's. Any thread; the communicator must live during the call only. Ranks of the query are positions: ranks sorted by
 * host. motetInvalidUsage while it is being made. */
MOTET_API motetResult_t motetCommExplain(motetComm_t comm, const motetExplainQuery_t *query, motetExplanation_t *explanation);

/* NULL is motetSuccess. */
MOTET_API motetResult_t motetExplainFree(motetExplanation_t explanation);

/* Candidates, in the order of the documentation; strings live as long as the process. */
MOTET_API motetResult_t motetExplainCount(motetExplanation_t explanation, int *candidates);
MOTET_API motetResult_t motetExplainCandidate(motetExplanation_t explanation, int index, motetExplainCandidate_t *candidate);

/* What the library would choose at sizes from 1 byte to 1 GiB: at most `room` ranges are written, *n is how many there are. The library
 * chooses once for all sizes of a class, two classes for each factor of two, so that ranges begin at their edges. Sizes are looked at in
 * steps of four, and in smaller ones where the choice changes. */
MOTET_API motetResult_t motetExplainRanges(motetExplanation_t explanation, motetExplainRange_t *ranges, int room, int *n);

/* The schedule of one rank for people, one line for each step; malloced for the caller to free(). */
MOTET_API motetResult_t motetExplainSteps(motetExplanation_t explanation, int index, int rank, char **text);

/* Messages, in order of rounds, then senders. Up to 64 ranks. */
MOTET_API motetResult_t motetExplainMessageCount(motetExplanation_t explanation, int index, int *messages);
MOTET_API motetResult_t motetExplainMessage(motetExplanation_t explanation, int index, int message,
                                            motetExplainMessage_t *description);

/* What `rank` has of `chunk` after `round`; round 0 is before anything was sent. Of several copies the one that is nearest to the result.
 * Up to 64 ranks. */
MOTET_API motetResult_t motetExplainHolding(motetExplanation_t explanation, int index, int round, int rank, int chunk,
                                            motetExplainHolding_t *holding);

/* For which communicators measured times count: those of the same shape. The same on all ranks. */
typedef struct motetTuneShape {
    size_t size;      /* sizeof(motetTuneShape_t) */
    uint64_t machine; /* identity of the kinds of machines: processors, caches, kernels; not which hosts they are */
    int nranks, nhosts;
    int cpus;    /* of the host whose ranks outnumber its CPUs most; 0: each rank has one */
    int threads; /* 1: all ranks are threads of one process */
} motetTuneShape_t;

/* Shape of a communicator. Any thread, does not block. */
MOTET_API motetResult_t motetCommShape(motetComm_t comm, motetTuneShape_t *shape);

/* Predicted times of one algorithm, by name, for several sizes: timesNs[k] is for bytes[k]. The query's own bytes and algo are ignored.
 * MOTET_ALGO's rules do not matter; an algorithm that does not exist for these ranks is motetInvalidArgument. */
MOTET_API motetResult_t motetExplainTimes(const motetExplainQuery_t *query, const char *algorithm, const double *bytes, int sizes,
                                          double *timesNs);

#ifdef __cplusplus
}
#endif

#endif
