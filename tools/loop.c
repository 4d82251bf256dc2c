/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"

#include <stdlib.h>
#include <time.h>

/* A paused watch keeps its descriptor as -fd - 2: poll ignores negative ones, and hangups of paused descriptors with them. */
static int paused(int fd)
{
    return -fd - 2;
}

static int find(const struct loop *loop, int fd)
{
    for (int i = 0; i < loop->n; i++)
        if (loop->polls[i].fd == fd || loop->polls[i].fd == paused(fd))
            return i;
    return -1;
}

bool loop_watch(struct loop *loop, int fd, short events, loop_ready ready, void *context)
{
    int at = 0;
    while (at < loop->n && loop->polls[at].fd != -1)
        at++;
    if (at == loop->capacity) {
        int capacity = loop->capacity ? 2 * loop->capacity : 16;
        void *polls = realloc(loop->polls, (size_t)capacity * sizeof *loop->polls);
        if (polls)
            loop->polls = polls;
        void *calls = realloc(loop->calls, (size_t)capacity * sizeof *loop->calls);
        if (calls)
            loop->calls = calls;
        if (!polls || !calls)
            return false;
        loop->capacity = capacity;
    }
    if (at == loop->n)
        loop->n++;
    loop->polls[at] = (struct pollfd){.fd = events ? fd : paused(fd), .events = events};
    loop->calls[at].ready = ready;
    loop->calls[at].context = context;
    return true;
}

void loop_change(struct loop *loop, int fd, short events)
{
    int at = find(loop, fd);
    if (at < 0)
        return;
    loop->polls[at].fd = events ? fd : paused(fd);
    loop->polls[at].events = events;
}

void loop_forget(struct loop *loop, int fd)
{
    int at = find(loop, fd);
    if (at >= 0)
        loop->polls[at] = (struct pollfd){.fd = -1};
}

void loop_wait(struct loop *loop, int timeout_ms)
{
    int ready = poll(loop->polls, (nfds_t)loop->n, timeout_ms);
    for (int i = 0; ready > 0 && i < loop->n; i++) {
        struct pollfd now = loop->polls[i];
        if (now.fd < 0 || !now.revents)
            continue;
        loop->polls[i].revents = 0;
        ready--;
        loop->calls[i].ready(loop->calls[i].context, now.fd, now.revents);
    }
}

void loop_free(struct loop *loop)
{
    free(loop->polls);
    free(loop->calls);
    *loop = (struct loop){0};
}

int64_t loop_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
