/* SPDX-License-Identifier: Apache-2.0
 * Dumps of several processes, merged: what trace_load.c reads, trace_align.c puts on one clock, trace_analysis.c judges and
 * trace_chrome.c draws; files of PyTorch's profiler beside them are trace_profile.c's. Times are nanoseconds of the wall clock of the first file's host once they are aligned. */
#ifndef MOTET_TOOLS_TRACE_H
#define MOTET_TOOLS_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct trace_file {
    const char *name, *host, *host_id, *reason;
    int pid;
    int64_t error_ns;   /* how exact its times are */
    int64_t offset_ns;  /* taken off its times by the alignment */
    int64_t steps_lost; /* of its trace */
};

/* One rank of a communicator in one file. */
struct trace_member {
    const char *comm, *id, *error; /* error: NULL when it did not fail */
    const char *late;              /* what it says of the rank that keeps the others waiting; NULL: nobody does */
    int64_t scheduled;             /* calls and messages that it had queued and not begun */
    int rank, nranks;
    size_t file;
};

/* A call or message; strings are the file's. */
struct trace_entry {
    size_t member;
    int64_t number; /* of the collective or message */
    bool is_message, complete, failed;
    const char *what, *name, *algorithm, *protocol, *transport;
    int64_t history, begin_ns, end_ns; /* end 0: it did not end */
    int peer;
};

struct trace_step {
    size_t member;
    int64_t seq, bytes, begin_ns, end_ns;
    int round, step, tile, peer, npeers;
};

/* A file of PyTorch's profiler: what one process computed. */
struct trace_profile {
    json_t *document;
    const char *name, *host;
    int64_t base_ns;   /* that its times are counted from */
    int64_t offset_ns; /* taken off its times: its host's */
    int pid;           /* -1: it has no events */
};

struct trace {
    struct trace_profile *profiles;
    size_t nprofiles;
    json_t **documents;
    struct trace_file *files;
    struct trace_member *members; /* sorted by communicator and rank once all files are there */
    struct trace_entry *entries;  /* sorted by member, kind, number */
    struct trace_step *steps;     /* sorted by member, begin */
    size_t nfiles, nmembers, nentries, nsteps;
};

/* Adds a dump, or a file of PyTorch's profiler. False: *why says what is wrong with it, and the trace is as before. `name` must stay. */
bool trace_add(struct trace *trace, const char *name, const char *text, size_t len, char *why, size_t why_len);

/* After the last file: sorts, and drops what is there twice. */
void trace_sort(struct trace *trace);

void trace_free(struct trace *trace);

/* Number of members of the communicator that begins at members[first]. */
size_t trace_comm(const struct trace *trace, size_t first);

/* The entry of a member by number; NULL when it is not there. */
const struct trace_entry *trace_find(const struct trace *trace, size_t member, bool is_message, int64_t number);

/* Lowest and highest number of collectives that a member has; false when it has none. */
bool trace_range(const struct trace *trace, size_t member, int64_t *lowest, int64_t *highest);

/* Whether no rank can leave the call before all have come. */
bool trace_synchronizes(const struct trace_entry *entry);

/* Finds the offsets of the hosts' clocks from calls that no rank can leave before all have come, and applies them. Returns the number of
 * hosts whose clocks could not be compared with the first one's. */
size_t trace_align(struct trace *trace);

/* Appends {communicator, id, nranks, missing, findings: [sentences], late: {...}} per communicator to an array. */
void trace_analyse(const struct trace *trace, json_t *comms);

bool trace_profile_is(const json_t *document);

/* Takes the document over. False: out of memory. */
bool trace_profile_add(struct trace *trace, const char *name, json_t *document);

/* After the hosts' offsets are known. */
void trace_profile_align(struct trace *trace);

/* When an event was; an event without a duration ends where it begins. False: it has no time. */
bool trace_profile_time(const struct trace_profile *profile, const json_t *event, int64_t *begin_ns, int64_t *end_ns);

/* Appends {profile, pid, calls: [{call, calls, ns, hidden_ns}]} per profile to an array: the collectives that its process completed
 * meanwhile, and for how long of that it computed. */
void trace_profile_analyse(const struct trace *trace, json_t *profiles);

void trace_profile_free(struct trace *trace);

/* Writes Chrome's trace format: one row per rank, steps inside calls; below them what profiles hold. False: the file could not be written. */
bool trace_chrome(const struct trace *trace, FILE *out);

#endif
