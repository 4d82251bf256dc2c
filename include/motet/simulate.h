/* SPDX-License-Identifier: Apache-2.0
 * Part of motet.h: collectives on a simulated cluster, with up to a million ranks. The rules at the top of motet.h hold here, too. Include
 * motet.h.
 *
 * The schedules that the library would run are run message by message and tile by tile over a network of links with latency, bandwidth
 * and sharing; what a step costs a core is what motetExplain says. Nothing here needs a communicator, moves data or starts a thread; any
 * thread may call, with simulations of its own. The same query gives the same numbers on every machine. */
#ifndef MOTET_SIMULATE_H
#define MOTET_SIMULATE_H

#include "motet/explain.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MOTET_SIMULATE_RANKS 1048576
#define MOTET_SIMULATE_NODES 8192 /* of a network that is a list of links */
#define MOTET_SIMULATE_NAME  64   /* characters of a link's name, terminator included */

/* One direction of a link. Nodes 0 to nhosts - 1 are the hosts, the others switches. */
typedef struct {
    int from, to;
    double latencyUs, GBs;
    const char *name; /* NULL: "node 3 to 17" */
} motetSimulateLink_t;

/* One operation of all ranks. Those of one stream run in the order given, each rank beginning when its former one and its computing are
 * done; streams run side by side and share links and cores. */
typedef struct {
    const char *collective; /* NULL: as in call */
    size_t bytes;
    const char *algo;  /* NULL: as in call */
    double computedNs; /* a rank's data are there when it has computed so long, counted from the start */
    int stream;        /* 0 to 15 */
} motetSimulateOperation_t;

/* Something that is wrong. */
typedef enum {
    motetSimulateSlowLink = 0, /* links of this name carry 1 / factor */
    motetSimulateSlowRank = 1, /* cores of this rank take factor times as long, and its computing */
    motetSimulateLateRank = 2, /* it begins everything atNs later */
    motetSimulateDeadRank = 3, /* it dies at atNs */
    motetSimulateDeadHost = 4, /* the host of this rank loses power at atNs */
    motetSimulateDeadLink = 5  /* links of this name lose what would enter them from atNs on */
} motetSimulateFault_t;

typedef struct {
    motetSimulateFault_t kind;
    int rank;
    const char *link; /* a pattern with * and ?, for links by their names */
    double factor, atNs;
} motetSimulatePlant_t;

/* What is asked. MOTET_SIMULATE_QUERY_INITIALIZER, then the members that matter. Nothing of it is needed after the call. */
typedef struct {
    size_t size;              /* sizeof(motetSimulateQuery_t) */
    motetExplainQuery_t call; /* the collective, ranks and hosts, cores, latency and bandwidth of links; nranks is 1 to
                                 MOTET_SIMULATE_RANKS, nhosts 0 for a host for each rank; scattered must be 0 */
    const char
        *topology; /* "flat", "hosts:nics=2", "fat-tree:radix=32,over=2", "torus:dims=8x8x4", "dragonfly:routers=8"; NULL: flat */
    const motetSimulateLink_t *links; /* instead of topology; NULL: topology */
    int nlinks, nswitches;
    const motetSimulateOperation_t *operations; /* NULL: one, that of call */
    int noperations;
    const motetSimulatePlant_t *plants;
    int nplants;
    double
        jitter; /* latencies and the work of cores vary: times 1 + jitter x a number from an exponential distribution of mean 1 */
    unsigned long long seed;
    double mostMessages; /* where an operation would take more, later tiles are continued from the first ones, at least 4; 0: 1e7 */
    int everyRank;       /* 1: each rank is simulated also where ranks are known to do the same */
    int logged;          /* messages to remember, up to 2^24; 0: none */
    int bins;            /* intervals of time in which the use of links is counted, up to 1024; 0: none */
    int (*progress)(void *context, double share); /* called now and then; another result than 0 ends the simulation. May be NULL */
    void *context;
} motetSimulateQuery_t;
/* clang-format off */
#define MOTET_SIMULATE_QUERY_INITIALIZER { sizeof(motetSimulateQuery_t), MOTET_EXPLAIN_QUERY_INITIALIZER, NULL, NULL, 0, 0, NULL, 0, NULL, 0, 0, 1, 0, 0, 0, 0, NULL, NULL }
/* clang-format on */

/* An answer. */
typedef struct motetSimulation *motetSimulation_t;

/* All of it. */
typedef struct {
    double timeNs;                /* until the last rank is done, or knows that it cannot be */
    double messages;              /* of all ranks and tiles */
    double simulated;             /* of these, one by one; the others are those of ranks that do the same, or of later tiles */
    double bytes;                 /* in messages, accumulators at their own width */
    double memory;                /* bytes that the simulation took */
    int operations, ranks, links; /* that can be asked for; links only of the ranks that were simulated */
    int ranksSimulated;           /* fewer than ranks: rank r does what rank r mod ranksSimulated does, at the same times */
    int ranksCompared;            /* whose schedules were looked at to know it */
    int lastRank;
    int failedRanks; /* that were not done with everything, the dead among them */
    int logged;      /* messages that can be asked for */
    int rows, bins;  /* of the use of links over time */
    double binNs;
} motetSimulateResult_t;

typedef struct {
    const char *collective, *algorithm;
    double bytes;
    double beginNs, endNs; /* of the first rank, of the last; endNs is -1 where no rank was done */
    double algGBs;         /* bytes over endNs - beginNs, as motet perf counts them */
    double tiles, tilesSimulated;
    double tileBytes;
} motetSimulateOperationResult_t;

typedef struct {
    double doneNs;    /* with everything; -1: it was not */
    int dead;         /* 1: it died */
    double toldNs;    /* when it heard that it cannot be done; -1: it was done, or is dead, or would wait for ever */
    int operation;    /* in which it was then */
    char report[256]; /* what the call would say; "" if nothing */
} motetSimulateRank_t;

typedef struct {
    char name[MOTET_SIMULATE_NAME];
    double GBs, bytes, busyNs;
} motetSimulateLinkUse_t;

/* The chain of messages that ended last, each needed by the next one. The parts add up to timeNs. */
typedef struct {
    double timeNs, wireNs, queueNs, latencyNs, coreNs,
        computeNs; /* on links; waiting for links; latency; cores; before the first */
    double messages;
    int firstRank, lastRank;
    char link[MOTET_SIMULATE_NAME]; /* that held it longest, waiting included; "" if none */
    double linkNs;
    int slowestRank; /* whose core held it longest; -1: none */
    double slowestNs;
} motetSimulatePath_t;

/* A message. */
typedef struct {
    int from, to, operation, tile;
    double bytes;
    double sentNs, arrivedNs; /* enters its first link; its last byte is there */
    double usedNs;            /* the step that takes it is done */
} motetSimulateMessage_t;

/* Answers *query. Freed by motetSimulateFree. Blocks until it is done: some 10^6 messages take a second. motetInvalidArgument names the
 * member; motetInvalidUsage: progress ended it. */
MOTET_API motetResult_t motetSimulate(const motetSimulateQuery_t *query, motetSimulation_t *simulation);

/* NULL is motetSuccess. */
MOTET_API motetResult_t motetSimulateFree(motetSimulation_t simulation);

/* Strings live as long as the simulation. Indexes are from 0 to the counts in motetSimulateResult_t. */
MOTET_API motetResult_t motetSimulateResult(motetSimulation_t simulation, motetSimulateResult_t *result);
MOTET_API motetResult_t motetSimulateOperation(motetSimulation_t simulation, int operation, motetSimulateOperationResult_t *result);
MOTET_API motetResult_t motetSimulateRank(motetSimulation_t simulation, int rank, motetSimulateRank_t *result);
MOTET_API motetResult_t motetSimulateLink(motetSimulation_t simulation, int link, motetSimulateLinkUse_t *use);
MOTET_API motetResult_t motetSimulatePath(motetSimulation_t simulation, motetSimulatePath_t *path);
MOTET_API motetResult_t motetSimulateMessage(motetSimulation_t simulation, int message, motetSimulateMessage_t *result);

/* Share of the time of interval `bin` in which the links of a row were busy, and the first of these links; they are `links` x row / rows. */
MOTET_API motetResult_t motetSimulateUse(motetSimulation_t simulation, int row, int bin, double *share, int *link);

#ifdef __cplusplus
}
#endif

#endif
