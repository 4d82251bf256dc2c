/* SPDX-License-Identifier: Apache-2.0
 * How threads of this process sleep until something happens. One counter of rings for all; the first sleeper (the leader) waits in
 * epoll on the doorbell's eventfd and all data sockets, later ones on the counter as a futex. Whatever ends the leader's sleep ends
 * everybody's: they look again, and the first to sleep leads.
 *
 * Why no ring is lost. In this process: the ringer counts, then looks for sleepers; a sleeper enters `sleepers`, then looks at the
 * count. Both are sequentially consistent, so at least one sees the other. From another process: its write makes the eventfd readable,
 * and stays so until a leader has read it. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/os.h"
#include "link.h"

#define POLL_NS 200000ull /* how long to sleep at most where an endpoint has no descriptor */

static _Atomic uint32_t rings;
static _Atomic int sleepers;  /* threads in motet_doorbell_wait */
static _Atomic int leading;   /* 1 while one of them is in epoll */
static _Atomic int polled;    /* endpoints without descriptor */
static _Atomic int bell = -1; /* eventfd */
static _Atomic int epoll_fd = -1;

motetResult_t motet_doorbell_open(void)
{
    int events = motet_descriptor_keep(epoll_create1(EPOLL_CLOEXEC)),
        ring = motet_descriptor_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
    if (events < 0 || ring < 0 || epoll_ctl(events, EPOLL_CTL_ADD, ring, &event) != 0) {
        int error = errno;
        motet_descriptor_close(events);
        motet_descriptor_close(ring);
        return motet_fail(motetSystemError, "the doorbell could not be made (epoll, eventfd): %s", strerror(error));
    }
    epoll_fd = events;
    bell = ring;
    return motetSuccess;
}

void motet_doorbell_close(void)
{
    motet_descriptor_close(atomic_exchange(&epoll_fd, -1));
    motet_descriptor_close(atomic_exchange(&bell, -1));
}

int motet_doorbell_descriptor(void)
{
    return bell;
}

void motet_doorbell_forked(void)
{
    epoll_fd = bell = -1;
    rings = 0;
    sleepers = leading = polled = 0;
}

void motet_doorbell_poll(int more)
{
    atomic_fetch_add(&polled, more);
}

/* Serial and lane of a data socket in one word; 0 is the bell. */
void motet_doorbell_add(int fd, uint64_t serial, int lane)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = serial << 5 | (uint64_t)lane};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void motet_doorbell_remove(int fd)
{
    if (fd >= 0)
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

uint32_t motet_doorbell_ticket(void)
{
    return atomic_load_explicit(&rings, memory_order_seq_cst);
}

static void write_bell(int fd)
{
    int saved_errno = errno;
    uint64_t one = 1;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    errno = saved_errno;
}

static void futex_wake_all(void)
{
    int saved_errno = errno;
    syscall(SYS_futex, &rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved_errno;
}

void motet_doorbell_ring_self(void)
{
    atomic_fetch_add_explicit(&rings, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&sleepers, memory_order_seq_cst) == 0)
        return;
    int fd = bell;
    if (fd >= 0)
        write_bell(fd);
    futex_wake_all();
}

void motet_doorbell_ring(struct motet_endpoint *endpoint)
{
    struct motet_link *link = motet_link_of(endpoint);
    if (!link->channel)
        motet_doorbell_ring_self();
    else if (endpoint->transport->ring)
        endpoint->transport->ring(link->channel);
}

static int wait_events(struct epoll_event *events, int n, uint64_t deadline_ns)
{
    uint64_t now = motet_now_ns(), ns = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    long got = syscall(SYS_epoll_pwait2, epoll_fd, events, n, deadline_ns == UINT64_MAX ? NULL : &left, NULL, 0);
    if (got >= 0 || errno != ENOSYS)
        return (int)got;
    uint64_t ms = (ns + 999999) / 1000000; /* kernels before 5.11 */
    return epoll_wait(epoll_fd, events, n, deadline_ns == UINT64_MAX ? -1 : ms > INT_MAX ? INT_MAX : (int)ms);
}

/* Sleeps in epoll once and reads the sockets that woke it, so that they are quiet when somebody sleeps again. */
static void lead(uint64_t deadline_ns)
{
    struct epoll_event events[16];
    int n = wait_events(events, 16, deadline_ns);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 != 0) {
            motet_links_read(events[i].data.u64 >> 5, (int)(events[i].data.u64 & 31));
            continue;
        }
        uint64_t count;
        while (read(bell, &count, sizeof(count)) < 0 && errno == EINTR)
            continue;
    }
}

static void follow(uint32_t ticket, uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)};
    syscall(SYS_futex, &rings, FUTEX_WAIT_BITSET_PRIVATE, ticket, deadline_ns == UINT64_MAX ? NULL : &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

void motet_doorbell_wait(uint32_t ticket, uint64_t deadline_ns)
{
    uint64_t poll_ns = atomic_load(&polled) > 0 ? motet_now_ns() + POLL_NS : UINT64_MAX;
    if (deadline_ns > poll_ns)
        deadline_ns = poll_ns;
    atomic_fetch_add_explicit(&sleepers, 1, memory_order_seq_cst);
    int nobody = 0;
    if (atomic_load_explicit(&rings, memory_order_seq_cst) != ticket) {
        /* it rang already */
    } else if (epoll_fd >= 0 && atomic_compare_exchange_strong(&leading, &nobody, 1)) {
        lead(deadline_ns);
        atomic_store(&leading, 0);
        /* The others have no leader now; and what was read may be what they wait for. */
        atomic_fetch_add_explicit(&rings, 1, memory_order_seq_cst);
        if (atomic_load(&sleepers) > 1)
            futex_wake_all();
    } else {
        follow(ticket, deadline_ns);
    }
    atomic_fetch_sub_explicit(&sleepers, 1, memory_order_seq_cst);
}
