/* SPDX-License-Identifier: Apache-2.0
 * Addresses as text and text as addresses. */
#include "base/net.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/interface.h"

socklen_t motet_address_len(const union motet_address *address)
{
    switch (address->any.sa_family) {
    case AF_INET:
        return sizeof(address->in);
    case AF_INET6:
        return sizeof(address->in6);
    case AF_UNIX:
        if (address->un.sun_path[0] == '\0') /* abstract: the name is as long as the address says, without terminator */
            return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                               strnlen(address->un.sun_path + 1, sizeof(address->un.sun_path) - 1));
        return sizeof(address->un);
    default:
        return 0;
    }
}

uint16_t motet_address_port(const union motet_address *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohs(address->in.sin_port);
    return address->any.sa_family == AF_INET6 ? ntohs(address->in6.sin6_port) : 0;
}

void motet_address_set_port(union motet_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET)
        address->in.sin_port = htons(port);
    else if (address->any.sa_family == AF_INET6)
        address->in6.sin6_port = htons(port);
}

bool motet_address_is_loopback(const union motet_address *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohl(address->in.sin_addr.s_addr) >> 24 == 127;
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}

bool motet_address_is_wildcard(const union motet_address *address)
{
    if (address->any.sa_family == AF_INET)
        return address->in.sin_addr.s_addr == htonl(INADDR_ANY);
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address->in6.sin6_addr);
}

bool motet_address_same_host(const union motet_address *a, const union motet_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET)
        return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
    if (a->any.sa_family == AF_INET6)
        return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
    return motet_address_len(a) == motet_address_len(b) && memcmp(a, b, motet_address_len(a)) == 0;
}

const char *motet_address_host(const union motet_address *address, char text[MOTET_ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "", scope[IF_NAMESIZE + 1] = "";
    switch (address->any.sa_family) {
    case AF_INET:
        inet_ntop(AF_INET, &address->in.sin_addr, host, sizeof(host));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &address->in6.sin6_addr, host, sizeof(host));
        if (address->in6.sin6_scope_id) {
            scope[0] = '%';
            if (!if_indextoname(address->in6.sin6_scope_id, scope + 1))
                scope[0] = '\0';
        }
        break;
    case AF_UNIX:
        if (address->un.sun_path[0] == '\0')
            snprintf(text, MOTET_ADDRESS_TEXT_MAX, "@%.107s", address->un.sun_path + 1);
        else
            snprintf(text, MOTET_ADDRESS_TEXT_MAX, "%.108s", address->un.sun_path);
        return text;
    default:
        snprintf(text, MOTET_ADDRESS_TEXT_MAX, "no address");
        return text;
    }
    snprintf(text, MOTET_ADDRESS_TEXT_MAX, "%s%s", host, scope);
    return text;
}

static bool has_port(const union motet_address *address)
{
    return address->any.sa_family == AF_INET || address->any.sa_family == AF_INET6;
}

const char *motet_address_text(const union motet_address *address, char text[MOTET_ADDRESS_TEXT_MAX])
{
    motet_address_host(address, text);
    size_t len = strlen(text);
    if (has_port(address))
        snprintf(text + len, MOTET_ADDRESS_TEXT_MAX - len, "<%u>", motet_address_port(address));
    return text;
}

const char *motet_address_host_port(const union motet_address *address, char text[MOTET_ADDRESS_TEXT_MAX])
{
    char host[MOTET_ADDRESS_TEXT_MAX];
    motet_address_host(address, host);
    if (!has_port(address))
        snprintf(text, MOTET_ADDRESS_TEXT_MAX, "%s", host);
    else
        snprintf(text, MOTET_ADDRESS_TEXT_MAX, address->any.sa_family == AF_INET6 ? "[%.100s]:%u" : "%.100s:%u", host,
                 motet_address_port(address));
    return text;
}

motetResult_t motet_host_port_split(const char *what, const char *text, char host[256], uint16_t *port)
{
    const char *colon = strrchr(text, ':'), *start = text, *end = colon;
    if (colon && text[0] == '[' && colon > text + 1 && colon[-1] == ']') {
        start = text + 1;
        end = colon - 1;
    } else if (colon && memchr(text, ':', (size_t)(colon - text))) {
        return motet_fail(motetInvalidArgument, "%s=%.200s: an IPv6 address is written in brackets, [address]:port", what, text);
    }
    char *rest = NULL;
    bool digits = colon && colon[1] >= '0' && colon[1] <= '9';
    unsigned long number = digits ? strtoul(colon + 1, &rest, 10) : 0;
    if (!digits || *rest != '\0' || number < 1 || number > 65535 || end == start || end - start > 255)
        return motet_fail(motetInvalidArgument, "%s=%.200s: expected host:port with a port in 1-65535", what, text);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    *port = (uint16_t)number;
    return motetSuccess;
}

/* Appends the addresses of the interface of that exact name. */
static motetResult_t addresses_of_interface(const char *name, uint16_t port, union motet_address *list, int capacity, int *count)
{
    struct motet_interface *all = NULL;
    int nall = 0;
    TRY(motet_interfaces_list(&all, &nall));
    for (int family = AF_INET;; family = AF_INET6) {
        for (int i = 0; i < nall && *count < capacity; i++) {
            if (strcmp(all[i].name, name) != 0 || all[i].address.any.sa_family != family)
                continue;
            if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&all[i].address.in6.sin6_addr))
                continue;
            list[*count] = all[i].address;
            motet_address_set_port(&list[(*count)++], port);
        }
        if (family == AF_INET6)
            break;
    }
    free(all);
    return motetSuccess;
}

static bool contains(const union motet_address *list, int count, const union motet_address *address)
{
    for (int i = 0; i < count; i++)
        if (motet_address_same_host(&list[i], address))
            return true;
    return false;
}

motetResult_t motet_address_resolve(const char *host, uint16_t port, union motet_address *list, int capacity, int *count)
{
    *count = 0;
    if (if_nametoindex(host) != 0) {
        TRY(addresses_of_interface(host, port, list, capacity, count));
        if (*count > 0)
            return motetSuccess;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int status = getaddrinfo(host, NULL, &hints, &found);
    if (status != 0)
        return motet_fail_quiet(motetSystemError, "the host name %s does not resolve: %s", host, gai_strerror(status));
    for (int family = AF_INET;; family = AF_INET6) {
        for (const struct addrinfo *one = found; one && *count < capacity; one = one->ai_next) {
            union motet_address address = {0};
            if (one->ai_family != family || one->ai_addrlen > sizeof(address))
                continue;
            memcpy(&address, one->ai_addr, one->ai_addrlen);
            motet_address_set_port(&address, port);
            if (!contains(list, *count, &address))
                list[(*count)++] = address;
        }
        if (family == AF_INET6)
            break;
    }
    freeaddrinfo(found);
    if (*count == 0)
        return motet_fail_quiet(motetSystemError, "the host name %s has no IPv4 or IPv6 address", host);
    return motetSuccess;
}
