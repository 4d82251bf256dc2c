/* SPDX-License-Identifier: Apache-2.0
 * What the launcher and its agent on another host say to each other over the ssh connection: frames of a type, a number (a rank or
 * a signal) and bytes. Both ends are the same program; the greeting checks the version. */
#ifndef MOTET_TOOLS_FRAMES_H
#define MOTET_TOOLS_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "crew.h"
#include "relay.h"

#define FRAME_GREETING "motet-agent-2\n" /* first line of an agent; what a login shell prints before it is passed over */
#define FRAME_DATA_MAX (16 << 20)

enum frame_type {
    /* launcher to agent */
    FRAME_JOB = 'J',    /* JSON of job_to_text: start these ranks */
    FRAME_SIGNAL = 'S', /* number: signal for all ranks */
    FRAME_INPUT = 'I',  /* bytes for rank 0's stdin */
    FRAME_INPUT_END = 'Q',
    FRAME_DEATH = 'X', /* JSON of death_to_text: a rank of any host has ended */
    /* agent to launcher */
    FRAME_HELLO = 'H', /* JSON: host, cpus, two free ports */
    FRAME_STDOUT = 'O',
    FRAME_STDERR = 'R',
    FRAME_ENDED = 'E',   /* JSON of death_to_text */
    FRAME_REFUSED = 'F', /* number: exit code; bytes: why the ranks cannot be started */
    FRAME_DONE = 'D',    /* all ranks have ended and nothing of them is left */
};

struct frame {
    enum frame_type type;
    int number;
    const char *data; /* inside the reader, valid until the next frame_feed */
    size_t len;
};

struct frame_reader {
    char *data;
    size_t len, capacity, used;
};

void frame_write(struct sink *sink, enum frame_type type, int number, const void *data, size_t len);

/* Adds received bytes; false when memory is short. */
bool frame_feed(struct frame_reader *reader, const void *data, size_t len);

/* Takes the next complete frame. 1: one, 0: more bytes are needed, -1: this is no frame. */
int frame_next(struct frame_reader *reader, struct frame *frame);

/* Passes over everything up to the greeting; false while it has not come. */
bool frame_skip_greeting(struct frame_reader *reader);

void frame_reader_free(struct frame_reader *reader);

/* The share of a job that one agent starts. */
struct job_share {
    struct job job;
    int node, first_rank, n;
    bool wants_stdin;
    int grace_ms;
    void *owner; /* parsed text that the strings point into */
};

/* Malloced JSON. */
char *job_to_text(const struct job_share *share);
bool job_from_text(const char *text, size_t len, struct job_share *share);
void job_share_free(struct job_share *share);

char *death_to_text(const struct death *death);
bool death_from_text(const char *text, size_t len, struct death *death);

#endif
