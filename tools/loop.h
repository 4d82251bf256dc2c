/* SPDX-License-Identifier: Apache-2.0
 * A poll loop: file descriptors and what to do when they are ready. One thread. Callbacks may add, change and forget watches. */
#ifndef MOTET_TOOLS_LOOP_H
#define MOTET_TOOLS_LOOP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*loop_ready)(void *context, int fd, short events);

struct loop {
    struct pollfd *polls; /* fd -1: free or forgotten */
    struct {
        loop_ready ready;
        void *context;
    } * calls;
    int n, capacity;
};

/* Watches fd for `events` (POLLIN, POLLOUT; 0 pauses, hangups included). false: out of memory. */
bool loop_watch(struct loop *loop, int fd, short events, loop_ready ready, void *context);

/* Changes the events of a watched fd; an unknown fd is ignored. */
void loop_change(struct loop *loop, int fd, short events);

/* Forgets fd; must come before close(fd). */
void loop_forget(struct loop *loop, int fd);

/* Waits until something is ready or timeout_ms is over (-1: no limit), then makes the calls. */
void loop_wait(struct loop *loop, int timeout_ms);

void loop_free(struct loop *loop);

/* Monotonic milliseconds. */
int64_t loop_now_ms(void);

#endif
