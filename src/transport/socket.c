/* SPDX-License-Identifier: Apache-2.0
 * NET/Socket: TCP between hosts, or between processes of one host that cannot share memory. One listener per chosen interface address;
 * per peer one control connection, which is always read and therefore tells of a silent host by TCP_USER_TIMEOUT, and MOTET_NSOCKS data
 * connections, on which silence means only that the peer is busy: a full receive window would count against the timeout there. */
#include <errno.h>
#include <linux/tcp.h> /* all of tcp_info */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/interface.h"
#include "base/net.h"
#include "base/settings.h"
#include "transport/rows.h"

#define NAME          "NET/Socket"
#define LISTENERS_MAX 8
#define ESTABLISHED   1 /* tcpi_state; the name is in a header that has an older tcp_info */

/* One address in a process's description; network byte order. */
struct socket_record {
    uint8_t family; /* 4 or 6 */
    uint8_t reserved;
    uint16_t port;
    uint8_t host[16];
};

struct motet_channel {
    int nlanes;
    int lanes[MOTET_LANES_MAX];
};

static int listeners[LISTENERS_MAX];
static int nlisteners;

static bool socket_reach(const struct motet_process *me, const struct motet_process *peer)
{
    size_t len;
    const char *net = motet_setting_string(MOTET_SET_NET);
    return (net[0] == '\0' || strcasecmp(net, "Socket") == 0) && motet_address_find(me, NAME, &len) &&
           motet_address_find(peer, NAME, &len);
}

/* ---- addresses ---- */

static void pack(const union motet_address *address, struct socket_record *record)
{
    bool four = address->any.sa_family == AF_INET;
    *record = (struct socket_record){.family = four ? 4 : 6, .port = four ? address->in.sin_port : address->in6.sin6_port};
    if (four)
        memcpy(record->host, &address->in.sin_addr, 4);
    else
        memcpy(record->host, &address->in6.sin6_addr, 16);
}

static void unpack(const struct socket_record *record, union motet_address *address)
{
    memset(address, 0, sizeof(*address));
    if (record->family == 4) {
        address->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = record->port};
        memcpy(&address->in.sin_addr, record->host, 4);
    } else {
        address->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = record->port};
        memcpy(&address->in6.sin6_addr, record->host, 16);
    }
}

/* Copies what the description says: how many addresses. */
static int read_records(const struct motet_process *process, struct socket_record records[LISTENERS_MAX])
{
    size_t len = 0;
    const void *bytes = motet_address_find(process, NAME, &len);
    int n = (int)(len / sizeof(*records));
    n = n < LISTENERS_MAX ? n : LISTENERS_MAX;
    if (bytes)
        memcpy(records, bytes, (size_t)n * sizeof(*records));
    return bytes ? n : 0;
}

/* How little an address promises: 0 = a route leads there; 1 = no route; 2 = this host has the same address, so it is a bridge that looks
 * alike everywhere (docker0), unless the peer lives here. */
static int doubt(const struct motet_process *me, const struct motet_process *peer, const struct socket_record *record)
{
    struct socket_record mine[LISTENERS_MAX];
    union motet_address address, local;
    int n = me->host_id == peer->host_id ? 0 : read_records(me, mine);
    for (int i = 0; i < n; i++)
        if (mine[i].family == record->family && memcmp(mine[i].host, record->host, sizeof(record->host)) == 0)
            return 2;
    unpack(record, &address);
    motet_interface_toward(&address, &local);
    return local.any.sa_family == AF_UNSPEC ? 1 : 0;
}

/* The index-th address of the peer, least doubtful first, in the peer's order where equal. */
static bool pick_address(const struct motet_process *me, const struct motet_process *peer, int index, union motet_address *address)
{
    struct socket_record records[LISTENERS_MAX];
    int n = read_records(peer, records), doubts[LISTENERS_MAX];
    for (int i = 0; i < n; i++)
        doubts[i] = n > 1 ? doubt(me, peer, &records[i]) : 0;
    for (int level = 0, seen = 0; level <= 2; level++)
        for (int i = 0; i < n; i++)
            if (doubts[i] == level && seen++ == index) {
                unpack(&records[i], address);
                return true;
            }
    return false;
}

/* ---- listening and dialing ---- */

static void socket_shutdown(void)
{
    while (nlisteners > 0)
        motet_descriptor_close(listeners[--nlisteners]);
}

static motetResult_t listen_on(const struct motet_interface *interface, struct socket_record *record)
{
    union motet_address address = interface->address;
    int fd;
    motet_address_set_port(&address, 0);
    TRY(motet_net_listen(&address, true, &fd));
    listeners[nlisteners++] = motet_descriptor_keep(fd);
    pack(&address, record);
    return motetSuccess;
}

static motetResult_t socket_open_process(struct motet_process *me, int doorbell)
{
    struct motet_interface *interfaces;
    struct socket_record records[LISTENERS_MAX];
    motetResult_t result = motetSuccess;
    int n;
    (void)doorbell;
    TRY(motet_interfaces_choose(NULL, &interfaces, &n));
    for (int i = 0; i < n && nlisteners < LISTENERS_MAX; i++) {
        result = listen_on(&interfaces[i], &records[nlisteners]);
        if (result != motetSuccess && result != motetSystemError)
            break;
    }
    free(interfaces);
    if (nlisteners == 0)
        return result != motetSuccess ? result : motet_fail_quiet(motetSystemError, "no interface has an address");
    if (!motet_address_record(me, NAME, records, (size_t)nlisteners * sizeof(*records)))
        return motet_fail_quiet(motetInternalError, "no room in the process's description");
    return motetSuccess;
}

static int socket_listener(int i)
{
    return i < nlisteners ? listeners[i] : -1;
}

static int socket_dial(const struct motet_process *me, const struct motet_process *peer, int index, char where[MOTET_WHERE_MAX])
{
    union motet_address address;
    if (!pick_address(me, peer, index, &address))
        return -ENOENT;
    motet_address_host_port(&address, where);
    int fd = motet_descriptor_lift(socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -errno;
    if (connect(fd, &address.any, motet_address_len(&address)) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

static void set_option(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

/* Keepalive probes start after idle seconds of silence and go on every so many. */
static void probes(int *idle_s, int *every_s)
{
    int64_t timeout_ms = motet_setting_int(MOTET_SET_LINK_TIMEOUT), idle = timeout_ms / 3000, every = timeout_ms / 6000;
    *idle_s = idle < 1 ? 1 : idle < 32767 ? (int)idle : 32767;
    *every_s = every < 1 ? 1 : every < 32767 ? (int)every : 32767;
}

static void socket_tune(int fd, int lane)
{
    int64_t timeout_ms = motet_setting_int(MOTET_SET_LINK_TIMEOUT);
    int idle, every;
    probes(&idle, &every);
    /* Probes count against the timeout; it is looked at once per probe, by timers that may be an eighth late, hence the margin of one and a
     * half. */
    int64_t user_ms = timeout_ms > 2000 * every ? timeout_ms - 1500 * every : timeout_ms / 2;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, every);
    if (lane == 0)
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, user_ms < INT32_MAX ? (int)user_ms : INT32_MAX);
}

/* Since when bytes have been waiting without one more being acknowledged. */
static int64_t stuck_ms(const struct tcp_info *info, uint64_t now_ns, struct motet_silence *silence)
{
    if (info->tcpi_unacked == 0 && info->tcpi_notsent_bytes == 0) {
        silence->since_ns = 0;
        return 0;
    }
    if (silence->since_ns == 0 || silence->acknowledged != info->tcpi_bytes_acked)
        *silence = (struct motet_silence){info->tcpi_bytes_acked, now_ns};
    return (int64_t)((now_ns - silence->since_ns) / 1000000);
}

/* The kernel's own timeout does not count what it could not even send: packets that a firewall or a full queue of this host drops. A
 * connection that stands is answered at least once per probe; only one whose peer has closed its window is asked ever more rarely. What a
 * peer says by itself proves that it is there, not that it hears: on the control connection, which is always read, answers count. */
static int64_t socket_silent_ms(int fd, int lane, uint64_t now_ns, struct motet_silence *silence)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 ||
        len < offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd)
        return -1;
    bool closed = info.tcpi_unacked == 0 && info.tcpi_notsent_bytes > 0 && info.tcpi_snd_wnd < info.tcpi_snd_mss;
    if (info.tcpi_state != ESTABLISHED || closed) {
        silence->since_ns = 0;
        return 0;
    }
    int64_t stuck = lane == 0 ? stuck_ms(&info, now_ns, silence) : 0;
    int64_t quiet = info.tcpi_last_ack_recv < info.tcpi_last_data_recv ? info.tcpi_last_ack_recv : info.tcpi_last_data_recv;
    return stuck > quiet ? stuck : quiet;
}

static uint64_t socket_busy_ns(struct motet_channel *channel, int lane)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(channel->lanes[lane], IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || info.tcpi_busy_time < info.tcpi_rwnd_limited)
        return 0;
    return (info.tcpi_busy_time - info.tcpi_rwnd_limited) * 1000; /* a kernel that does not tell leaves zeros */
}

static int64_t socket_silence_limit_ms(void)
{
    int64_t timeout_ms = motet_setting_int(MOTET_SET_LINK_TIMEOUT);
    int idle, every;
    probes(&idle, &every);
    int64_t least_ms = 1000 * (int64_t)idle + 1500 * (int64_t)every; /* with the first probe lost */
    return timeout_ms > least_ms ? timeout_ms : least_ms;
}

static int socket_lanes(void)
{
    return (int)motet_setting_int(MOTET_SET_NSOCKS);
}

/* ---- channels ---- */

static motetResult_t socket_join(const struct motet_process *peer, struct motet_offer *theirs, const int *lanes, int nlanes,
                                 struct motet_channel **joined)
{
    (void)peer;
    struct motet_channel *channel = calloc(1, sizeof(*channel));
    for (int i = 0; i < theirs->nfiles; i++)
        motet_descriptor_close(theirs->files[i]);
    for (int i = 0; i < nlanes; i++) {
        if (channel)
            channel->lanes[channel->nlanes++] = lanes[i];
        else
            motet_descriptor_close(lanes[i]);
    }
    *joined = channel;
    return channel ? motetSuccess : motet_fail(motetSystemError, "out of memory");
}

static ssize_t socket_send(struct motet_channel *channel, int lane, const struct iovec *parts, int nparts)
{
    struct msghdr header = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)nparts};
    ssize_t sent;
    do
        sent = sendmsg(channel->lanes[lane], &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    return sent;
}

static ssize_t socket_recv(struct motet_channel *channel, int lane, const struct iovec *parts, int nparts)
{
    struct msghdr header = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)nparts};
    ssize_t got;
    do
        got = recvmsg(channel->lanes[lane], &header, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    return got > 0 ? got : -ESHUTDOWN;
}

static int socket_descriptor(struct motet_channel *channel, int lane)
{
    return channel->lanes[lane];
}

static void socket_finish(struct motet_channel *channel)
{
    for (int i = 0; i < channel->nlanes; i++)
        shutdown(channel->lanes[i], SHUT_WR);
}

static void socket_close(struct motet_channel *channel)
{
    for (int i = 0; i < channel->nlanes; i++)
        motet_descriptor_close(channel->lanes[i]);
    free(channel);
}

const struct motet_transport motet_socket_transport = {
    .name = NAME,
    .mapped = false,
    .reach = socket_reach,
    .open = socket_open_process,
    .shutdown = socket_shutdown,
    .listener = socket_listener,
    .dial = socket_dial,
    .tune = socket_tune,
    .lanes = socket_lanes,
    .join = socket_join,
    .send = socket_send,
    .recv = socket_recv,
    .descriptor = socket_descriptor,
    .silent_ms = socket_silent_ms,
    .silence_limit_ms = socket_silence_limit_ms,
    .busy_ns = socket_busy_ns,
    .finish = socket_finish,
    .close = socket_close,
};
