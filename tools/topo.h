/* SPDX-License-Identifier: Apache-2.0
 * What motet topo shows of a topology: rows of the matrix with short names, and the facts about cards that text, JSON and picture share. */
#ifndef MOTET_TOOLS_TOPO_H
#define MOTET_TOOLS_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "binding.h"
#include "motet.h"

enum topo_rows {
    TOPO_RANKS = 1 << 0,
    TOPO_NODES = 1 << 1,
    TOPO_CACHES = 1 << 2,
    TOPO_CORES = 1 << 3,
    TOPO_BRIDGES = 1 << 4,
    TOPO_NICS = 1 << 5,
    TOPO_GPUS = 1 << 6,
};

struct topo_row {
    int node;
    enum topo_rows what;
    char name[32]; /* "R0", "NIC1" */
};

struct topo_view {
    motetTopo_t topo;
    struct topo_row *rows;
    int n;
    int ncpus, nnodes, nhosts;
};

/* "ranks,cores,nics", "all"; false: a word is unknown. */
bool topo_rows_parse(const char *text, unsigned *what);

/* Chooses the rows. what 0: ranks, or without ranks cores (memory nodes where there are many), and cards and GPUs. False: out of memory. */
bool topo_view_make(motetTopo_t topo, unsigned what, struct topo_view *view);
void topo_view_free(struct topo_view *view);

/* ---- What a node says (topo_fact.c) ---- */

/* An attribute, "" where there is none. */
const char *topo_text(motetTopo_t topo, int node, const char *name);
double topo_number(motetTopo_t topo, int node, const char *name);
motetTopoKind_t topo_kind(motetTopo_t topo, int node);
/* The nearest node of that kind from `node` upwards; -1. */
int topo_above(motetTopo_t topo, int node, motetTopoKind_t kind);
bool topo_is_bridge(motetTopo_t topo, int node);
/* CPUs as "0-3"; to be freed. */
char *topo_cpus(motetTopo_t topo, int node);
int topo_cpu_count(motetTopo_t topo, int node);
/* "host" of which a node is: a text that is equal for nodes of one host. */
const char *topo_host(motetTopo_t topo, int node);

/* "PCIe 4 x16", with prefix "", "current_" or "max_"; "" where it is not known. Returns text. */
const char *topo_link(motetTopo_t topo, int pci, const char *prefix, char text[48]);
/* 10^9 bytes per second one way: of the narrowest link from a device to its memory node; 0: unknown. */
double topo_slot_gbs(motetTopo_t topo, int device);
/* "100 Gb/s"; "" where it is not known. Returns text. */
const char *topo_speed(motetTopo_t topo, int net, char text[32]);

/* ---- Ranks (topo_ranks.c) ---- */

/* n ranks as motet run would start them on the hosts of the topology. False: a message is on stderr. */
bool topo_add_planned(motetTopo_t topo, int n, enum binding binding);
/* The ranks of a running job: a process (0: the only job of this user) or a communicator (NULL: the largest). */
bool topo_add_running(motetTopo_t topo, int pid, const char *word, int timeout_ms);

/* ---- Forms ---- */

void topo_print_text(const struct topo_view *view);
bool topo_print_json(const struct topo_view *view);
void topo_draw(const struct topo_view *view, FILE *out);

#endif
