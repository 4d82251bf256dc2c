/* SPDX-License-Identifier: Apache-2.0
 * Connected stream sockets: accept, connect, exact reads and writes, all with a deadline. A wait looks at the abort flag at least
 * every 20 ms, since nobody can ring a thread that sleeps on a foreign socket. */
#include "base/net.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/os.h"

#define ABORT_SLICE_NS  (20 * 1000000ull)
#define NEVER_SLICE_NS  (1000 * 1000000ull)
#define KEEPALIVE_IDLE  30 /* seconds */
#define KEEPALIVE_EVERY 10
#define KEEPALIVE_TRIES 3

static bool aborted(const _Atomic(_Bool) *abort)
{
    return abort && atomic_load_explicit(abort, memory_order_relaxed);
}

static struct timespec duration(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/* Time to sleep now: to the deadline, at most one slice. */
static uint64_t slice_ns(uint64_t now_ns, uint64_t deadline_ns, const _Atomic(_Bool) *abort)
{
    uint64_t left = deadline_ns > now_ns ? deadline_ns - now_ns : 0, most = abort ? ABORT_SLICE_NS : NEVER_SLICE_NS;
    return left < most ? left : most;
}

motetResult_t motet_net_wait(int fd, short events, uint64_t deadline_ns, const _Atomic(_Bool) *abort)
{
    for (;;) {
        if (aborted(abort))
            return motet_fail_quiet(motetInvalidUsage, "aborted while waiting for the network");
        uint64_t now = motet_now_ns();
        struct timespec left = duration(slice_ns(now, deadline_ns, abort));
        struct pollfd wanted = {.fd = fd, .events = events};
        int ready = ppoll(&wanted, 1, &left, NULL);
        if (ready > 0)
            return motetSuccess;
        if (ready < 0 && errno != EINTR)
            return motet_fail_quiet(motetSystemError, "poll: %s", strerror(errno));
        if (ready == 0 && now >= deadline_ns)
            return motet_fail_quiet(motetTimeout, "no answer in time");
    }
}

motetResult_t motet_net_sleep(uint64_t wake_ns, const _Atomic(_Bool) *abort)
{
    for (uint64_t now = motet_now_ns(); now < wake_ns; now = motet_now_ns()) {
        if (aborted(abort))
            return motet_fail_quiet(motetInvalidUsage, "aborted while waiting");
        struct timespec left = duration(slice_ns(now, wake_ns, abort));
        nanosleep(&left, NULL);
    }
    return motetSuccess;
}

motetResult_t motet_net_adopt(int fd)
{
    int status = fcntl(fd, F_GETFL);
    if (status < 0 || fcntl(fd, F_SETFL, status | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return motet_fail(motetSystemError, "descriptor %d: %s", fd, strerror(errno));
    return motetSuccess;
}

void motet_net_tune(int fd)
{
    int on = 1, idle = KEEPALIVE_IDLE, every = KEEPALIVE_EVERY, tries = KEEPALIVE_TRIES;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
}

/* Linux hands a new connection's pending network error to accept; such errors concern that connection only. */
static bool is_connection_error(int error)
{
    switch (error) {
    case EAGAIN:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ECONNRESET:
    case ETIMEDOUT:
    case EPERM: /* refused by a firewall rule */
        return true;
    default:
        return false;
    }
}

/* An IPv4 peer of a v6 wildcard listener: shown and compared as IPv4. */
static void unmap(union motet_address *address)
{
    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->in6.sin6_addr))
        return;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = address->in6.sin6_port};
    memcpy(&in.sin_addr, &address->in6.sin6_addr.s6_addr[12], sizeof(in.sin_addr));
    memset(address, 0, sizeof(*address));
    address->in = in;
}

motetResult_t motet_net_accept(int listener, int *fd, union motet_address *peer)
{
    socklen_t len;
    do {
        len = sizeof(*peer);
        memset(peer, 0, sizeof(*peer));
        *fd = motet_descriptor_lift(accept4(listener, &peer->any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC));
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0 && !is_connection_error(errno))
        return motet_fail_quiet(motetSystemError, "cannot accept connections: %s", strerror(errno));
    if (*fd >= 0) {
        motet_net_tune(*fd);
        unmap(peer);
    }
    return motetSuccess;
}

motetResult_t motet_net_connect_start(const union motet_address *address, int *fd, bool *pending)
{
    *pending = false;
    *fd = motet_descriptor_lift(socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd < 0)
        return motet_fail_quiet(motetSystemError, "cannot make a socket: %s", strerror(errno));
    motet_net_tune(*fd);
    if (connect(*fd, &address->any, motet_address_len(address)) == 0)
        return motetSuccess;
    /* An interrupted connect goes on by itself. A full queue of a Unix socket says EAGAIN and does not. */
    *pending = errno == EINPROGRESS || errno == EINTR;
    if (*pending)
        return motetSuccess;
    int cause = errno;
    close(*fd);
    *fd = -1;
    return motet_fail_quiet(motetRemoteError, "%s", strerror(cause));
}

motetResult_t motet_net_connected(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error)
        return motet_fail_quiet(motetRemoteError, "%s", strerror(error));
    /* A socket may be reported writable without being connected; asking for the peer settles it. */
    union motet_address peer;
    return motet_net_peer(fd, &peer);
}

motetResult_t motet_net_connect(const union motet_address *address, uint64_t deadline_ns, const _Atomic(_Bool) *abort, int *fd)
{
    bool pending;
    TRY(motet_net_connect_start(address, fd, &pending));
    motetResult_t result = pending ? motet_net_wait(*fd, POLLOUT, deadline_ns, abort) : motetSuccess;
    if (result == motetTimeout)
        motet_fail_quiet(motetTimeout, "no answer to connect");
    if (result == motetSuccess)
        result = motet_net_connected(*fd);
    if (result != motetSuccess) {
        close(*fd);
        *fd = -1;
    }
    return result;
}

motetResult_t motet_net_read(int fd, void *buf, size_t len, uint64_t deadline_ns, const _Atomic(_Bool) *abort)
{
    for (char *at = buf; len > 0;) {
        ssize_t got = recv(fd, at, len, MSG_DONTWAIT);
        if (got > 0) {
            at += got;
            len -= (size_t)got;
        } else if (got == 0) {
            return motet_fail_quiet(motetRemoteError, "connection closed");
        } else if (errno == EAGAIN) {
            TRY(motet_net_wait(fd, POLLIN, deadline_ns, abort));
        } else if (errno != EINTR) {
            return motet_fail_quiet(motetRemoteError, "%s", strerror(errno));
        }
    }
    return motetSuccess;
}

motetResult_t motet_net_write(int fd, const void *buf, size_t len, uint64_t deadline_ns, const _Atomic(_Bool) *abort)
{
    for (const char *at = buf; len > 0;) {
        ssize_t put = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put >= 0) {
            at += put;
            len -= (size_t)put;
        } else if (errno == EAGAIN) {
            TRY(motet_net_wait(fd, POLLOUT, deadline_ns, abort));
        } else if (errno != EINTR) {
            return motet_fail_quiet(motetRemoteError, "%s", strerror(errno));
        }
    }
    return motetSuccess;
}

motetResult_t motet_net_local(int fd, union motet_address *address)
{
    socklen_t len = sizeof(*address);
    memset(address, 0, sizeof(*address));
    if (getsockname(fd, &address->any, &len) < 0)
        return motet_fail_quiet(motetSystemError, "getsockname: %s", strerror(errno));
    return motetSuccess;
}

motetResult_t motet_net_peer(int fd, union motet_address *address)
{
    socklen_t len = sizeof(*address);
    memset(address, 0, sizeof(*address));
    if (getpeername(fd, &address->any, &len) < 0)
        return motet_fail_quiet(motetRemoteError, "%s", strerror(errno));
    return motetSuccess;
}
