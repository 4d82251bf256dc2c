/* SPDX-License-Identifier: Apache-2.0
 * The service thread: one per process, always asleep in epoll. It runs what must go on while callers compute: accepting connections,
 * watching peers' lives, reading control messages, sending what callers left behind. It blocks all signals and knows nothing of what
 * its watches mean. */
#ifndef MOTET_SERVICE_H
#define MOTET_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "motet.h"

/* Something the thread waits for. Lives in its owner; may be freed once it is unwatched. */
struct motet_watch {
    int fd;
    void (*ready)(void *context, uint32_t events); /* epoll events; runs on the service thread, must not block */
    void *context;
};

/* Makes what watches need; the thread comes with the start, so that nothing runs before everything is set up. */
motetResult_t motet_service_open(void);
void motet_service_close(void);

/* Starts the thread. `tick` runs after every wake-up; it returns when it wants to run again at the latest (UINT64_MAX: no need), or 0 to
 * end the thread. */
motetResult_t motet_service_start(uint64_t (*tick)(uint64_t now_ns));

/* Waits for the thread to end by its tick. */
void motet_service_join(void);

/* Whether the caller is the service thread. */
bool motet_service_is_self(void);

/* Makes the tick run soon. Any thread, async-signal-safe. */
void motet_service_wake(void);

/* Watches for epoll events, or changes them; any thread. Registration failures are a lack of memory or of epoll watches. */
motetResult_t motet_service_watch(struct motet_watch *watch, uint32_t events);
void motet_service_rewatch(struct motet_watch *watch, uint32_t events);

/* Stops watching; harmless when it was not watched. On the service thread, or when it is not running. */
void motet_service_unwatch(struct motet_watch *watch);

/* In a forked child, where the thread does not exist and all descriptors are closed. */
void motet_service_forked(void);

#endif
