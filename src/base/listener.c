/* SPDX-License-Identifier: Apache-2.0
 * Listening sockets, confined to MOTET_PORT_RANGE, and who holds a port that is taken. */
#include "base/descriptor.h"
#include "base/net.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"
#include "base/settings.h"

#define BACKLOG          4096 /* the kernel caps it at net.core.somaxconn */
#define TCP_STATE_LISTEN 0x0a

/* One "first" or "last" of a range: digits only, 1-65535. */
static const char *parse_port(const char *text, uint16_t *port)
{
    char *end = NULL;
    unsigned long value = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
    *port = (uint16_t)value;
    return value >= 1 && value <= 65535 ? end : NULL;
}

motetResult_t motet_port_range_parse(const char *text, uint16_t *first, uint16_t *last)
{
    *first = *last = 0;
    if (text[0] == '\0')
        return motetSuccess;
    const char *end = parse_port(text, first);
    if (end && *end == '-')
        end = parse_port(end + 1, last);
    else
        *last = *first;
    if (!end || *end != '\0' || *first > *last)
        return motet_fail(motetInvalidArgument, "MOTET_PORT_RANGE=%.100s: expected first-last, ports in 1-65535", text);
    return motetSuccess;
}

/* Inode of the socket that listens on `address` or on the wildcard, from one of the kernel's tables; 0 when not found. */
static unsigned long find_inode(const char *table, const union motet_address *address)
{
    uint32_t words[4] = {0};
    char wanted[33] = "", line[512];
    int nwords = address->any.sa_family == AF_INET ? 1 : 4;
    memcpy(words, nwords == 1 ? (const void *)&address->in.sin_addr : &address->in6.sin6_addr, 4u * (unsigned)nwords);
    for (int i = 0; i < nwords; i++)
        snprintf(wanted + 8 * i, sizeof(wanted) - 8u * (unsigned)i, "%08X", words[i]);
    FILE *file = motet_descriptor_read(table);
    if (!file)
        return 0;
    unsigned long found = 0;
    while (found == 0 && fgets(line, sizeof(line), file)) {
        char host[33];
        unsigned port, state;
        unsigned long inode;
        if (sscanf(line, " %*d: %32[0-9A-F]:%x %*s %x %*s %*s %*s %*s %*s %lu", host, &port, &state, &inode) != 4)
            continue;
        bool matches = strcmp(host, wanted) == 0 || strspn(host, "0") == strlen(host);
        if (matches && port == motet_address_port(address) && state == TCP_STATE_LISTEN)
            found = inode;
    }
    fclose(file);
    return found;
}

static bool process_holds(const char *pid, const char *target)
{
    char path[300], link[64];
    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    DIR *descriptors = motet_descriptor_list(path);
    if (!descriptors)
        return false;
    bool holds = false;
    for (struct dirent *entry; !holds && (entry = readdir(descriptors));) {
        snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid, entry->d_name);
        ssize_t len = readlink(path, link, sizeof(link) - 1);
        holds = len > 0 && (size_t)len == strlen(target) && memcmp(link, target, (size_t)len) == 0;
    }
    closedir(descriptors);
    return holds;
}

static void read_process_name(const char *pid, char name[32])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
    FILE *file = motet_descriptor_read(path);
    if (file && fgets(name, 32, file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
}

/* In ticks since boot. Children inherit descriptors: of those that hold a socket the oldest is the one to name. */
static unsigned long long start_time(const char *pid)
{
    char path[64], text[1024];
    unsigned long long ticks = ULLONG_MAX;
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    FILE *file = motet_descriptor_read(path);
    char *name_end = file && fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
    if (name_end)
        sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &ticks);
    if (file)
        fclose(file);
    return ticks;
}

int motet_net_holder(const union motet_address *address, char name[32])
{
    name[0] = '\0';
    unsigned long inode = 0;
    if (address->any.sa_family == AF_INET)
        inode = find_inode("/proc/net/tcp", address);
    if (inode == 0) /* a v6 wildcard listener holds v4 ports too */
        inode = find_inode("/proc/net/tcp6", address);
    if (inode == 0)
        return 0;
    char target[64];
    snprintf(target, sizeof(target), "socket:[%lu]", inode);
    DIR *processes = motet_descriptor_list("/proc");
    if (!processes)
        return 0;
    int pid = 0;
    unsigned long long oldest = ULLONG_MAX;
    for (struct dirent *entry; (entry = readdir(processes));) {
        if (!isdigit((unsigned char)entry->d_name[0]) || !process_holds(entry->d_name, target))
            continue;
        unsigned long long started = start_time(entry->d_name);
        if (started > oldest || (started == oldest && pid != 0 && atoi(entry->d_name) > pid))
            continue;
        oldest = started;
        pid = atoi(entry->d_name);
        read_process_name(entry->d_name, name);
    }
    closedir(processes);
    return pid;
}

/* One attempt; *fd = -1 and the errno as result when it does not work. */
static int try_listen(const union motet_address *address, int *fd)
{
    int on = 1;
    *fd = motet_descriptor_lift(socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd < 0)
        return errno;
    /* A fixed port must not wait for old connections' TIME_WAIT; two listeners still exclude each other on Linux. */
    if (motet_address_port(address) != 0)
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* The v6 wildcard takes v4 connections too, whatever the system's default. */
    int v6only = !motet_address_is_wildcard(address);
    if (address->any.sa_family == AF_INET6)
        setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
    if (bind(*fd, &address->any, motet_address_len(address)) == 0 && listen(*fd, BACKLOG) == 0)
        return 0;
    int cause = errno;
    close(*fd);
    *fd = -1;
    return cause;
}

/* Tries the ports of a range once around, from an arbitrary start so that jobs rarely meet. */
static int try_range(union motet_address *address, uint16_t first, uint16_t last, int *fd)
{
    unsigned count = (unsigned)last - first + 1u, start = 0;
    if (motet_random(&start, sizeof(start)) != motetSuccess)
        start = 0;
    int cause = EADDRINUSE;
    for (unsigned i = 0; i < count && cause == EADDRINUSE; i++) {
        motet_address_set_port(address, (uint16_t)(first + (start + i) % count));
        cause = try_listen(address, fd);
    }
    return cause;
}

#define REFUSE(...) (quiet ? motet_fail_quiet(motetSystemError, __VA_ARGS__) : motet_fail(motetSystemError, __VA_ARGS__))

static motetResult_t explain(const union motet_address *address, int cause, uint16_t first, uint16_t last, bool quiet)
{
    char text[MOTET_ADDRESS_TEXT_MAX], name[32];
    if (first != 0 && cause == EADDRINUSE)
        return REFUSE("cannot listen on %s: every port of MOTET_PORT_RANGE=%u-%u is in use", motet_address_host(address, text),
                      first, last);
    motet_address_host_port(address, text);
    if (cause != EADDRINUSE)
        return REFUSE("cannot listen on %s: %s", text, strerror(cause));
    int pid = address->any.sa_family == AF_UNIX ? 0 : motet_net_holder(address, name);
    if (pid != 0)
        return REFUSE("cannot listen on %s: address in use by process %d (%s)", text, pid, name);
    return REFUSE("cannot listen on %s: address in use", text);
}

motetResult_t motet_net_listen(union motet_address *address, bool quiet, int *fd)
{
    uint16_t first = 0, last = 0;
    int cause;
    *fd = -1;
    if (address->any.sa_family != AF_UNIX && motet_address_port(address) == 0) {
        TRY(motet_settings_load());
        TRY(motet_port_range_parse(motet_setting_string(MOTET_SET_PORT_RANGE), &first, &last));
    }
    cause = first != 0 ? try_range(address, first, last, fd) : try_listen(address, fd);
    if (cause != 0)
        return explain(address, cause, first, last, quiet);
    if (address->any.sa_family != AF_UNIX) {
        motetResult_t result = motet_net_local(*fd, address);
        if (result != motetSuccess) {
            close(*fd);
            *fd = -1;
        }
        return result;
    }
    return motetSuccess;
}
