/* SPDX-License-Identifier: Apache-2.0
 * The inside of a topology (include/motet/topo.h): nodes with attributes, in an array in which parents stand before their children. Attributes
 * are kept as text, exactly as they will be written; CPU masks also as sets, since every question about paths compares them. */
#ifndef MOTET_TOPO_TOPO_H
#define MOTET_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"
#include "topo/cpuset.h"

#define MOTET_TOPO_DEPTH_MAX      64
#define MOTET_TOPO_NODES_MAX      200000
#define MOTET_TOPO_ATTRIBUTES_MAX 64
#define MOTET_TOPO_VALUE_MAX      4096

struct motet_topo_attribute {
    char *name, *value;
};

struct motet_topo_node {
    motetTopoKind_t kind;
    char *element;
    int parent, depth;
    int first_child, last_child, next; /* -1: none */
    unsigned long line;                /* of the file; 0: not from a file */
    struct motet_topo_attribute *attributes;
    int nattributes;
    struct motet_cpuset *cpus; /* attribute affinity; NULL: has none */
};

struct motet_topo_finding {
    int node;
    char *sentence;
};

struct motetTopo {
    struct motet_topo_node *nodes;
    int n, capacity;
    char *name; /* of the file, for sentences */
    bool from_file;
    struct motet_topo_finding *findings;
    int nfindings;
    bool looked; /* findings are complete */
};

/* Failures are quiet: who asked says them. */

/* ---- tree.c ---- */

/* Without nodes. NULL: out of memory, which is a motet_fail_quiet. */
struct motetTopo *motet_topo_new(const char *name);
void motet_topo_free(struct motetTopo *topo);

/* Adds a node below `parent` (-1: the system, which must be the first). *index may be NULL. */
motetResult_t motet_topo_add(struct motetTopo *topo, int parent, const char *element, int *index);

/* Adds or replaces an attribute. NULL: takes it away. */
motetResult_t motet_topo_set(struct motetTopo *topo, int index, const char *name, const char *value);
motetResult_t motet_topo_setf(struct motetTopo *topo, int index, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "affinity", as mask and as set. */
motetResult_t motet_topo_set_cpus(struct motetTopo *topo, int index, const struct motet_cpuset *cpus);

/* NULL: it has none. */
const char *motet_topo_get(const struct motetTopo *topo, int index, const char *name);
/* The number at its beginning; `otherwise` where there is none. */
double motet_topo_number(const struct motetTopo *topo, int index, const char *name, double otherwise);

/* The nearest node of that kind from `index` upwards, itself included; -1. */
int motet_topo_above(const struct motetTopo *topo, int index, motetTopoKind_t kind);

/* Brings the nodes into the order in which they are written, so that indices are those that a reader of the file gets. Before there are
 * findings. */
motetResult_t motet_topo_arrange(struct motetTopo *topo);

/* Keeps a sentence for people. */
motetResult_t motet_topo_find(struct motetTopo *topo, int index, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- vocabulary.c ---- */

motetTopoKind_t motet_topo_kind(const char *element);

/* Judges a node whose attributes are complete: required ones are there, values have their form, it stands where it may. Unknown elements and
 * attributes become findings. The sentence of an error names file, line, element and attribute. */
motetResult_t motet_topo_check(struct motetTopo *topo, int index);

/* Judges all: identities that occur twice, no system. */
motetResult_t motet_topo_check_all(struct motetTopo *topo);

/* ---- read.c, write.c ---- */

motetResult_t motet_topo_parse(const char *name, const char *text, size_t len, struct motetTopo **topo);
motetResult_t motet_topo_read(const char *file, struct motetTopo **topo);
motetResult_t motet_topo_print(const struct motetTopo *topo, char **xml);
/* The file that MOTET_TOPO_FILE names, else this machine. */
motetResult_t motet_topo_obtain(struct motetTopo **topo);

/* ---- processors.c, devices.c: what a machine has; root "" is this one ---- */

motetResult_t motet_topo_detect(const char *root, bool bound, struct motetTopo **topo);
motetResult_t motet_topo_add_devices(struct motetTopo *topo, const char *root);

/* ---- ranks.c ---- */

motetResult_t motet_topo_add_rank(struct motetTopo *topo, int rank, const char *host, int pid, const char *cpus);

/* ---- path.c ---- */

motetTopoPath_t motet_topo_path(const struct motetTopo *topo, int a, int b);
/* Between two sets of CPUs of the host of `node`, a memory node. */
motetTopoPath_t motet_topo_cpu_path(const struct motetTopo *topo, int node, const struct motet_cpuset *cpus);

/* ---- finding.c ---- */

motetResult_t motet_topo_look(struct motetTopo *topo);

/* ---- measure.c ---- */

motetResult_t motet_topo_measure(struct motetTopo *topo, int timeout_ms, int *measured);

#endif
