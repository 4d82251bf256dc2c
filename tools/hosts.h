/* SPDX-License-Identifier: Apache-2.0
 * Which hosts a job runs on and how many ranks each gets: --hosts and --hostfile. Pure text and arithmetic. */
#ifndef MOTET_TOOLS_HOSTS_H
#define MOTET_TOOLS_HOSTS_H

#include <stdbool.h>

struct host {
    char *name;
    int slots; /* as written; 0: not written */
    int ranks; /* given by hosts_deal */
    int first_rank;
};

struct hosts {
    struct host *items;
    int n;
};

/* Adds the hosts of "a,b:2,[fe80::1]:4". On failure false and a sentence in error. */
bool hosts_parse_list(struct hosts *hosts, const char *text, char *error, int error_len);

/* Adds the hosts of a file: "name", "name:2", "name slots=2" or "name 2" per line, # begins a comment. */
bool hosts_parse_file(struct hosts *hosts, const char *path, char *error, int error_len);

/* Deals nranks ranks (0: as many as there are slots), blocks of neighbours on each host. Without any written slots the hosts
 * share evenly; otherwise slots are limits, 1 where none is written. Returns the number of ranks, -1 with a sentence in error. */
int hosts_deal(struct hosts *hosts, int nranks, char *error, int error_len);

void hosts_free(struct hosts *hosts);

#endif
