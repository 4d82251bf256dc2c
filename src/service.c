/* SPDX-License-Identifier: Apache-2.0
 * The service thread's loop. It takes one event per epoll_wait, so that a watch that was removed while another was handled can never
 * show up afterwards; nothing here is on a hot path. */
#include "service.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/os.h"

static int epoll_fd = -1;
static _Atomic int wake_fd = -1;
static pthread_t thread;
static uint64_t (*tick)(uint64_t now_ns);
static _Thread_local bool is_self;

static int timeout_ms(uint64_t wake_ns)
{
    uint64_t now = motet_now_ns();
    if (wake_ns == UINT64_MAX)
        return -1;
    if (wake_ns <= now)
        return 0;
    uint64_t ms = (wake_ns - now + 999999) / 1000000;
    return ms > 60000 ? 60000 : (int)ms;
}

static void drain_wake(void)
{
    uint64_t count;
    while (read(wake_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}

static void *run(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "motet-service");
    is_self = true;
    uint64_t wake_ns = 0;
    do {
        struct epoll_event event;
        int n = epoll_wait(epoll_fd, &event, 1, timeout_ms(wake_ns));
        if (n == 1 && event.data.ptr == NULL) {
            drain_wake();
        } else if (n == 1) {
            struct motet_watch *watch = event.data.ptr;
            watch->ready(watch->context, event.events);
        }
        wake_ns = tick(motet_now_ns());
    } while (wake_ns != 0);
    return NULL;
}

/* The thread inherits a full signal mask, so that no signal of the program ever runs there. */
static int start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void motet_service_close(void)
{
    motet_descriptor_close(atomic_exchange(&wake_fd, -1));
    motet_descriptor_close(epoll_fd);
    epoll_fd = -1;
}

motetResult_t motet_service_open(void)
{
    epoll_fd = motet_descriptor_keep(epoll_create1(EPOLL_CLOEXEC));
    wake_fd = motet_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll_fd >= 0 && wake_fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) == 0)
        return motetSuccess;
    int error = errno;
    motet_service_close();
    return motet_fail(motetSystemError, "the service thread's epoll could not be made: %s", strerror(error));
}

motetResult_t motet_service_start(uint64_t (*every_tick)(uint64_t now_ns))
{
    tick = every_tick;
    int error = start_thread();
    return error == 0 ? motetSuccess : motet_fail(motetSystemError, "the service thread could not be started: %s", strerror(error));
}

void motet_service_join(void)
{
    pthread_join(thread, NULL);
}

bool motet_service_is_self(void)
{
    return is_self;
}

void motet_service_wake(void)
{
    int saved_errno = errno, fd = wake_fd;
    uint64_t one = 1;
    if (fd >= 0)
        while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
            continue;
    errno = saved_errno;
}

motetResult_t motet_service_watch(struct motet_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) == 0 ||
        (errno == EEXIST && epoll_ctl(epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) == 0))
        return motetSuccess;
    return motet_fail(motetSystemError, "a connection could not be watched (epoll_ctl): %s", strerror(errno));
}

void motet_service_rewatch(struct motet_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void motet_service_unwatch(struct motet_watch *watch)
{
    if (watch->fd >= 0 && epoll_fd >= 0)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

void motet_service_forked(void)
{
    epoll_fd = -1;
    wake_fd = -1;
}
