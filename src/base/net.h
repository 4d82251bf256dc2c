/* SPDX-License-Identifier: Apache-2.0
 * Stream sockets and their addresses, for everything that listens or connects. All descriptors made here are non-blocking and
 * close-on-exec; waiting is done with a deadline; EINTR never shows; writing to a closed peer raises no signal. Knows nothing of
 * ranks or protocols: callers add who the peer is. Functions marked quiet use motet_fail_quiet: the caller may retry. */
#ifndef MOTET_BASE_NET_H
#define MOTET_BASE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "motet.h"

/* An IPv4, IPv6 or Unix address; family AF_UNSPEC (all bytes zero) is none. */
union motet_address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

#define MOTET_ADDRESS_TEXT_MAX 128

/* ---- addresses (address.c) */

socklen_t motet_address_len(const union motet_address *address);
uint16_t motet_address_port(const union motet_address *address);
void motet_address_set_port(union motet_address *address, uint16_t port);
bool motet_address_is_loopback(const union motet_address *address);
bool motet_address_is_wildcard(const union motet_address *address);

/* Same host part; ports are not compared. */
bool motet_address_same_host(const union motet_address *a, const union motet_address *b);

/* "10.0.0.1<4711>", "fd00::2<4711>", "fe80::1%eth0<4711>", "@name" (abstract Unix socket): the form of log lines. Returns text. */
const char *motet_address_text(const union motet_address *address, char text[MOTET_ADDRESS_TEXT_MAX]);

/* "10.0.0.1:4711", "[fd00::2]:4711", "@name": the form that users write and error texts show. Returns text. */
const char *motet_address_host_port(const union motet_address *address, char text[MOTET_ADDRESS_TEXT_MAX]);

/* Only the host part. Returns text. */
const char *motet_address_host(const union motet_address *address, char text[MOTET_ADDRESS_TEXT_MAX]);

/* Splits "host:port" or "[v6]:port". `what` names the value in the error ("MOTET_COMM_ID"). */
motetResult_t motet_host_port_split(const char *what, const char *text, char host[256], uint16_t *port);

/* All stream addresses of a numeric address, an interface name or a host name (may ask DNS, which ignores deadlines), IPv4 first,
 * at most `capacity`. Quiet motetSystemError when there is none. */
motetResult_t motet_address_resolve(const char *host, uint16_t port, union motet_address *list, int capacity, int *count);

/* ---- listening (listener.c) */

/* Listens on *address and completes its port. Port 0: any free port, inside MOTET_PORT_RANGE when that is set. A port that is taken
 * is an error that names address:port and, when /proc shows it, the process that holds it. Quiet when `quiet`. */
motetResult_t motet_net_listen(union motet_address *address, bool quiet, int *fd);

/* Parses "first-last" or "port"; "" gives 0-0. */
motetResult_t motet_port_range_parse(const char *text, uint16_t *first, uint16_t *last);

/* Process that listens on that address: its pid, 0 when /proc does not tell; name gets its command name or "". */
int motet_net_holder(const union motet_address *address, char name[32]);

/* ---- connected sockets (net.c) */

/* Takes one waiting connection: *fd = -1 when there is none. Errors that concern only that connection count as none; a lack of
 * descriptors or memory is a quiet motetSystemError with errno set. */
motetResult_t motet_net_accept(int listener, int *fd, union motet_address *peer);

/* Starts to connect: *fd is valid and *pending says whether it is still under way (writable = done, then ask motet_net_connected).
 * Quiet. */
motetResult_t motet_net_connect_start(const union motet_address *address, int *fd, bool *pending);

/* Outcome of a connection that was started. Quiet. */
motetResult_t motet_net_connected(int fd);

/* Connects by the deadline. Quiet: motetTimeout, or motetRemoteError with the reason. */
motetResult_t motet_net_connect(const union motet_address *address, uint64_t deadline_ns, const _Atomic(_Bool) *abort, int *fd);

/* Waits for poll events. Quiet: motetTimeout at the deadline, motetInvalidUsage when *abort (which may be NULL) is true. */
motetResult_t motet_net_wait(int fd, short events, uint64_t deadline_ns, const _Atomic(_Bool) *abort);

/* Reads or writes exactly len bytes. Quiet: as motet_net_wait, and motetRemoteError "connection closed", "Connection reset". */
motetResult_t motet_net_read(int fd, void *buf, size_t len, uint64_t deadline_ns, const _Atomic(_Bool) *abort);
motetResult_t motet_net_write(int fd, const void *buf, size_t len, uint64_t deadline_ns, const _Atomic(_Bool) *abort);

/* Sleeps until wake_ns; motetInvalidUsage (quiet) as soon as *abort is true. */
motetResult_t motet_net_sleep(uint64_t wake_ns, const _Atomic(_Bool) *abort);

/* Wraps an inherited or foreign descriptor: non-blocking, close-on-exec. */
motetResult_t motet_net_adopt(int fd);

/* TCP_NODELAY and keepalive where the family has them; failure is of no consequence. */
void motet_net_tune(int fd);

/* Local and remote address of a socket. */
motetResult_t motet_net_local(int fd, union motet_address *address);
motetResult_t motet_net_peer(int fd, union motet_address *address);

#endif
