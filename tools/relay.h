/* SPDX-License-Identifier: Apache-2.0
 * Puts the output of many ranks on one stdout and one stderr: whole lines with a prefix, in order within a rank, nothing lost,
 * nothing held back for long. A reader that is slow delays the ranks; one that is gone does not end the job.
 * Invariant: text that was taken from a rank is in its line buffer or in a sink's queue, never dropped while the sink is open. */
#ifndef MOTET_TOOLS_RELAY_H
#define MOTET_TOOLS_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

enum { RELAY_STDOUT, RELAY_STDERR };

/* A descriptor that bytes are queued for; also used for the frames of an agent. */
struct sink {
    struct loop *loop;
    int fd;
    bool closed; /* the reader is gone: bytes are thrown away */
    bool colours;
    char *queue;
    size_t len, capacity;
    const void *open_line; /* whose unfinished line the sink ends with; NULL: at the beginning of a line */
};

/* Queues bytes and writes what can be written without blocking. */
void sink_write(struct sink *sink, const void *data, size_t len);
bool sink_is_full(const struct sink *sink);

/* Writes the rest of the queue, waiting at most timeout_ms. */
void sink_drain(struct sink *sink, int timeout_ms);

bool sink_open(struct sink *sink, struct loop *loop, int fd);
void sink_close(struct sink *sink);

struct relay_line; /* the unfinished line of one rank's stream */

struct relay {
    struct loop *loop;
    struct sink sinks[2];
    struct sink *out[2]; /* both point to sinks[0] when stdout and stderr are the same file */
    bool prefixes;
    bool was_full; /* at the last relay_flush_old */
    int nranks;
    struct relay_line *lines; /* [2 * rank + stream] */
};

/* prefixes[rank] is what stands in brackets; NULL array: no prefixes. The strings must outlive the relay. false: out of memory. */
bool relay_open(struct relay *relay, struct loop *loop, int nranks, char **prefixes);

/* Text from a rank. */
void relay_text(struct relay *relay, int rank, int stream, const char *data, size_t len);

/* Ends the unfinished lines of a rank (it has ended). */
void relay_end_rank(struct relay *relay, int rank);

/* Whether ranks should not be read from, because their reader is behind. */
bool relay_is_full(const struct relay *relay);

/* Puts out unfinished lines that have waited long enough; returns the milliseconds until the next one is due, -1: none. */
int relay_flush_old(struct relay *relay);

/* A line of the launcher's own on stderr, printf style, without newline. */
void relay_say(struct relay *relay, const char *format, ...) __attribute__((format(printf, 2, 3)));

void relay_close(struct relay *relay, int timeout_ms);

#endif
