/* SPDX-License-Identifier: Apache-2.0
 * This process as the library sees it. motet_process_open and motet_process_close are in endpoint.h. */
#ifndef MOTET_PROCESS_H
#define MOTET_PROCESS_H

#include "endpoint.h"

/* The own description; valid while the process is open. */
const struct motet_process *motet_process_self(void);

/* Why this process would leave now, in words: its last communicator that failed. Peers that wait for it hear that with its goodbye. NULL:
 * a communicator was made since, it goes on. At most 300 characters are kept. Any thread. */
void motet_process_note_failure(const char *text);

/* Copies what was noted; "" if nothing is. */
void motet_process_failure(char text[300]);

struct motet_link;

/* What rides on the process and its service thread without this layer knowing what it is: the answers to questions (status.c). */
struct motet_guest {
    motetResult_t (*open)(void);       /* the service can watch, its thread does not run yet */
    uint64_t (*tick)(uint64_t now_ns); /* service thread, after each wake-up: when to run again at the latest */
    void (*message)(struct motet_link *link, uint32_t kind, const void *bytes, size_t len); /* service thread; must not block */
    void (*closing)(void); /* a user's thread, the service thread still runs: finishes what must be complete */
    void (*close)(void);   /* the service thread is gone */
    void (*forked)(void);  /* in a forked child: forgets everything */
};
extern const struct motet_guest motet_guest;

/* What a module above wants done on the service thread: runs after every wake-up while communicators exist, and says when it wants to run
 * again (UINT64_MAX: no need). One for the process; any thread. */
void motet_process_also(uint64_t (*tick)(uint64_t now_ns));

#endif
