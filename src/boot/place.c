/* SPDX-License-Identifier: Apache-2.0
 * Meeting points by name. On rank 0's own host the name often resolves to 127.0.1.1 or not at all; others resolve it well. So rank 0
 * listens on all interfaces unless the name is an address of this host. */
#include "boot/place.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "boot/root.h"

#define HOST_ADDRESSES_MAX 4

motetResult_t motet_place_parse(const char *what, const char *text, struct motet_place_name *name)
{
    memset(name, 0, sizeof(*name));
    TRY(motet_host_port_split(what, text, name->host, &name->ports[0]));
    name->nports = 1;
    return motetSuccess;
}

const char *motet_place_text(const struct motet_place_name *name, char text[320])
{
    bool v6 = strchr(name->host, ':');
    size_t at = (size_t)snprintf(text, 320, v6 ? "[%s]" : "%s", name->host);
    for (int i = 0; i < name->nports && at < 310; i++)
        at += (size_t)snprintf(text + at, 320 - at, "%c%u", i ? ',' : ':', name->ports[i]);
    return text;
}

static void add(struct motet_root_place *place, const union motet_address *address, uint16_t port)
{
    if (place->naddresses == MOTET_ROOT_ADDRESSES_MAX)
        return;
    place->addresses[place->naddresses] = *address;
    motet_address_set_port(&place->addresses[place->naddresses++], port);
}

static void add_unix(struct motet_root_place *place, const char *host)
{
    union motet_address address = {.un = {.sun_family = AF_UNIX}};
    memcpy(address.un.sun_path + 1, host + 1, strnlen(host + 1, sizeof(address.un.sun_path) - 2));
    add(place, &address, 0);
}

motetResult_t motet_place_resolve(const struct motet_place_name *name, struct motet_root_place *place)
{
    union motet_address hosts[HOST_ADDRESSES_MAX];
    int nhosts;
    place->naddresses = 0;
    if (name->host[0] == '@') {
        add_unix(place, name->host);
        return motetSuccess;
    }
    TRY(motet_address_resolve(name->host, 0, hosts, HOST_ADDRESSES_MAX, &nhosts));
    for (int port = 0; port < name->nports; port++)
        for (int i = 0; i < nhosts; i++)
            add(place, &hosts[i], name->ports[port]);
    return motetSuccess;
}

/* Whether this host owns the address: only then a socket can be bound to it. */
static bool is_local(const union motet_address *address)
{
    union motet_address any_port = *address;
    motet_address_set_port(&any_port, 0);
    int fd = motet_descriptor_lift(socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    bool local = fd >= 0 && bind(fd, &any_port.any, motet_address_len(&any_port)) == 0;
    if (fd >= 0)
        close(fd);
    return local;
}

/* Names that mean loopback by intention. */
static bool means_loopback(const char *host)
{
    struct in6_addr ignored;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "lo") == 0 || inet_pton(AF_INET, host, &ignored) == 1 ||
           inet_pton(AF_INET6, host, &ignored) == 1;
}

/* The address that rank 0 listens on: one of the name's that is this host's, else false. */
static bool choose_local(const struct motet_place_name *name, union motet_address *chosen)
{
    union motet_address hosts[HOST_ADDRESSES_MAX];
    int nhosts;
    if (motet_address_resolve(name->host, 0, hosts, HOST_ADDRESSES_MAX, &nhosts) != motetSuccess)
        return false;
    for (int i = 0; i < nhosts; i++) {
        bool trap = motet_address_is_loopback(&hosts[i]) && !means_loopback(name->host);
        if (trap || !is_local(&hosts[i]))
            continue;
        *chosen = hosts[i];
        return true;
    }
    /* An exact address that is not here shall fail with the kernel's reason, not listen elsewhere. */
    *chosen = hosts[0];
    return name->exact && !(motet_address_is_loopback(&hosts[0]) && !means_loopback(name->host));
}

/* Everywhere this host can be reached; the v6 wildcard takes v4 connections too, unless v6 is off. */
static void add_wildcards(struct motet_root_place *place, uint16_t port)
{
    union motet_address v6 = {.in6 = {.sin6_family = AF_INET6}}, v4 = {.in = {.sin_family = AF_INET}};
    add(place, &v6, port);
    add(place, &v4, port);
}

/* How this process itself reaches a listener on a wildcard. */
static void replace_wildcard(union motet_address *address)
{
    if (!motet_address_is_wildcard(address))
        return;
    if (address->any.sa_family == AF_INET)
        address->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        address->in6.sin6_addr = in6addr_loopback;
}

motetResult_t motet_place_serve(const struct motet_place_name *name, struct motet_root_place *place, uint64_t deadline_ns,
                                const _Atomic(_Bool) *abort)
{
    union motet_address chosen;
    place->naddresses = 0;
    if (name->host[0] == '@') {
        add_unix(place, name->host);
    } else {
        bool local = choose_local(name, &chosen);
        for (int i = 0; i < name->nports; i++) {
            if (local)
                add(place, &chosen, name->ports[i]);
            else
                add_wildcards(place, name->ports[i]);
        }
    }
    struct motet_root_options options = {.listen = MOTET_ROOT_FIRST, .deadline_ns = deadline_ns};
    TRY(motet_root_start(place, &options, abort));
    replace_wildcard(&place->addresses[0]);
    return motetSuccess;
}
