/* SPDX-License-Identifier: Apache-2.0
 * Part of motet.h: what a machine is made of and who reaches whom by what: sockets, memory nodes, caches, cores, PCIe bridges, network cards,
 * GPUs, ranks. The rules at the top of motet.h hold here, too. Include motet.h.
 *
 * A topology is a tree of nodes with attributes, which is written as XML in NCCL's schema, with caches, cores, ranks and measured links added:
 * docs/topo.md lists elements and attributes. Files of NCCL and of cloud vendors are read. Nothing here needs a communicator or starts a
 * thread (motetTopoMeasure: two for a moment); any thread may call, one at a time for each topology. libhwloc and libexpat are loaded at
 * the first call that needs them, and not before: a program that does not call these functions does not need them. */
#ifndef MOTET_TOPO_H
#define MOTET_TOPO_H

#include "motet/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct motetTopo *motetTopo_t;

/* What a node is. Other: an element that is not known here; it is kept, written again, and has no meaning. */
typedef enum {
    motetTopoSystem = 0,
    motetTopoNumaNode = 1, /* <cpu> */
    motetTopoCache = 2,
    motetTopoCore = 3,
    motetTopoPci = 4, /* a bridge or a device */
    motetTopoNic = 5,
    motetTopoNet = 6, /* an interface or a port of a card */
    motetTopoGpu = 7,
    motetTopoNvlink = 8,
    motetTopoRank = 9,
    motetTopoLink = 10, /* what was measured */
    motetTopoOther = 11
} motetTopoKind_t;

/* By what two nodes reach each other, nearest first. The words are those of motetTopoPathName; PIX, PXB, PHB, NODE and SYS mean what they mean
 * in nvidia-smi topo -m. Where a rank may run on several CPUs it is what holds wherever the two run. */
typedef enum {
    motetTopoSelf = 0,        /* X */
    motetTopoSameProcess = 1, /* PROC */
    motetTopoSameCpu = 2,     /* CPU */
    motetTopoSameCore = 3,    /* CORE */
    motetTopoSharedL2 = 4,    /* L2 */
    motetTopoSharedL3 = 5,    /* L3 */
    motetTopoNvlinked = 6,    /* NVL */
    motetTopoOneBridge = 7,   /* PIX */
    motetTopoBridges = 8,     /* PXB */
    motetTopoHostBridge = 9,  /* PHB */
    motetTopoInNode = 10,     /* NODE */
    motetTopoInSocket = 11,   /* SOCK */
    motetTopoAcross = 12,     /* SYS */
    motetTopoInHost = 13,     /* HOST */
    motetTopoByNetwork = 14   /* NET */
} motetTopoPath_t;
#define MOTET_TOPO_PATHS 15

/* A node. Strings live as long as the topology. */
typedef struct {
    motetTopoKind_t kind;
    const char *element; /* "cpu" */
    int parent;          /* index; -1: the first node, the system */
    int depth;           /* 0: the system */
    int nAttributes;
} motetTopoNode_t;

/* Looks at this machine. With bound, only the CPUs that the calling thread may use are in it; else all that its control group allows. The
 * others are named in the system's attribute left_out. root: folder with a copy of another machine's /sys and /proc, NULL: this one. With a
 * root HWLOC_FSROOT is changed in the environment during the call, so that no other thread may use the environment meanwhile.
 * motetInvalidArgument: there is no such copy. motetSystemError: libhwloc is not there, or cannot make sense of the machine. Takes some milliseconds. *topo is for motetTopoFree. */
MOTET_API motetResult_t motetTopoDetect(const char *root, int bound, motetTopo_t *topo);

/* Reads a file (NULL: the one that MOTET_TOPO_FILE names). motetInvalidArgument: there is none, it is no regular file, larger than 16 MB, or
 * something in it is wrong; the sentence names file, line and element. Nothing of this machine is added. */
MOTET_API motetResult_t motetTopoRead(const char *file, motetTopo_t *topo);

/* The same from memory; name stands for the file in sentences. */
MOTET_API motetResult_t motetTopoParse(const char *name, const char *text, size_t len, motetTopo_t *topo);

MOTET_API motetResult_t motetTopoFree(motetTopo_t topo);

/* The topology as XML, malloced for the caller to free(). Reading it gives the same topology. */
MOTET_API motetResult_t motetTopoPrint(motetTopo_t topo, char **xml);

/* Nodes 0 to *count - 1, parents before their children. */
MOTET_API motetResult_t motetTopoCount(motetTopo_t topo, int *count);
MOTET_API motetResult_t motetTopoNode(motetTopo_t topo, int index, motetTopoNode_t *node);

/* *value: of that attribute of a node; NULL: it has none. By number, 0 to nAttributes - 1: name and value. */
MOTET_API motetResult_t motetTopoAttribute(motetTopo_t topo, int index, const char *name, const char **value);
MOTET_API motetResult_t motetTopoAttributeAt(motetTopo_t topo, int index, int number, const char **name, const char **value);

/* *list: the CPUs of a memory node, cache, core or rank as "0-3,8"; "" is none. Malloced for the caller to free(). */
MOTET_API motetResult_t motetTopoCpus(motetTopo_t topo, int index, char **list);

/* Adds a rank. host: its name, NULL: that of the topology. pid: 0 is none. cpus: where it may run, "0-3,8"; NULL: where process pid may run
 * now, if host is this machine, else unknown. motetInvalidArgument: cpus is no such list, or the rank is there already. */
MOTET_API motetResult_t motetTopoAddRank(motetTopo_t topo, int rank, const char *host, int pid, const char *cpus);

/* By what nodes a and b reach each other. Defined for memory nodes, caches, cores, ranks, PCI devices and bridges, NICs, nets and GPUs; for
 * the others motetTopoInHost or motetTopoByNetwork. */
MOTET_API motetResult_t motetTopoPath(motetTopo_t topo, int a, int b, motetTopoPath_t *path);

/* "L3", and its meaning in half a sentence; "?" and "" for other values. Never NULL. */
MOTET_API const char *motetTopoPathName(motetTopoPath_t path);
MOTET_API const char *motetTopoPathMeaning(motetTopoPath_t path);

/* What each direction of a PCIe link carries at most, in 10^9 bytes per second: speed in 10^9 transfers per second ("16.0 GT/s PCIe" is 16)
 * times lanes, less the encoding. 0: unknown. */
MOTET_API double motetTopoPciGBs(double speed, int lanes);

/* What a person should look at: a NIC that its slot cannot feed, a link below its maximum, interrupts on another memory node, elements and
 * attributes that are not known. Sentences live as long as the topology; *index is the node. */
MOTET_API motetResult_t motetTopoFindingCount(motetTopo_t topo, int *count);
MOTET_API motetResult_t motetTopoFinding(motetTopo_t topo, int number, int *index, const char **sentence);

/* Measures latency (a cache line that goes back and forth, one way) and bandwidth (copying what the other CPU has just written) for each kind of
 * path between two CPUs of the topology, on two threads that are bound to one pair of CPUs after the other, and adds a <link> for each.
 * Kinds whose CPUs the process may not use are left out; so are paths over a network: motet perf measures those. Takes at most timeoutMs (10
 * to 60000) in all. *measured: links that were added. motetSystemError: threads cannot be started. */
MOTET_API motetResult_t motetTopoMeasure(motetTopo_t topo, int timeoutMs, int *measured);

#ifdef __cplusplus
}
#endif

#endif
