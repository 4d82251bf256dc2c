/* SPDX-License-Identifier: Apache-2.0
 * Lists interfaces and chooses among them. A hostname is never asked: on many hosts it resolves to loopback. */
#include "base/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

/* Interfaces that usually have the same private address on every host. */
static const char *const bridge_prefixes[] = {"docker", "virbr", "cni", "podman", "lxcbr", "lxdbr"};

static int compare_family(const union motet_address *a, const union motet_address *b)
{
    return (a->any.sa_family == AF_INET6) - (b->any.sa_family == AF_INET6);
}

static void fill(struct motet_interface *one, const struct ifaddrs *from)
{
    memset(one, 0, sizeof(*one));
    snprintf(one->name, sizeof(one->name), "%s", from->ifa_name);
    one->up = from->ifa_flags & IFF_UP;
    one->running = from->ifa_flags & IFF_RUNNING;
    one->loopback = from->ifa_flags & IFF_LOOPBACK;
    if (!from->ifa_addr)
        return;
    if (from->ifa_addr->sa_family == AF_INET)
        memcpy(&one->address.in, from->ifa_addr, sizeof(one->address.in));
    else if (from->ifa_addr->sa_family == AF_INET6)
        memcpy(&one->address.in6, from->ifa_addr, sizeof(one->address.in6));
}

static bool has_address(const struct motet_interface *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0 && list[i].address.any.sa_family != AF_UNSPEC)
            return true;
    return false;
}

/* Drops the bare entry of every interface that also has an address. */
static int drop_bare(struct motet_interface *list, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        bool bare = list[i].address.any.sa_family == AF_UNSPEC;
        if (!bare || (!has_address(list, kept, list[i].name) && !has_address(list + i, count - i, list[i].name)))
            list[kept++] = list[i];
    }
    return kept;
}

motetResult_t motet_interfaces_list(struct motet_interface **list, int *count)
{
    struct ifaddrs *found = NULL;
    int total = 0;
    *list = NULL;
    *count = 0;
    if (getifaddrs(&found) < 0)
        return motet_fail(motetSystemError, "cannot list network interfaces: %s", strerror(errno));
    for (const struct ifaddrs *one = found; one; one = one->ifa_next)
        total++;
    *list = calloc((size_t)total + 1, sizeof(**list));
    for (const struct ifaddrs *one = found; *list && one; one = one->ifa_next)
        fill(&(*list)[(*count)++], one);
    freeifaddrs(found);
    if (!*list)
        return motet_fail(motetSystemError, "out of memory for %d interfaces", total);
    *count = drop_bare(*list, *count);
    return motetSuccess;
}

static bool is_usable(const struct motet_interface *one, int family)
{
    int has = one->address.any.sa_family;
    if (!one->up || has == AF_UNSPEC || (family != AF_UNSPEC && has != family))
        return false;
    return has != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&one->address.in6.sin6_addr);
}

/* 0: ordinary, 1: a bridge or without carrier, 2: loopback. */
static int class_of(const struct motet_interface *one)
{
    if (one->loopback)
        return 2;
    for (size_t i = 0; i < sizeof(bridge_prefixes) / sizeof(bridge_prefixes[0]); i++)
        if (strncmp(one->name, bridge_prefixes[i], strlen(bridge_prefixes[i])) == 0)
            return 1;
    return one->running ? 0 : 1;
}

static bool entry_matches(const char *entry, size_t len, bool exact, const char *name)
{
    size_t name_len = strlen(name);
    return len > 0 && (exact ? name_len == len : name_len >= len) && memcmp(entry, name, len) == 0;
}

/* Calls `entry` by entry: returns the next entry of a comma list in *len, NULL at the end. */
static const char *next_entry(const char **rest, size_t *len)
{
    const char *entry = *rest;
    if (*entry == '\0')
        return NULL;
    *len = strcspn(entry, ",");
    *rest = entry + *len + (entry[*len] == ',');
    return entry;
}

static bool list_matches(const char *list, bool exact, const char *name)
{
    size_t len;
    for (const char *rest = list, *entry; (entry = next_entry(&rest, &len));)
        if (entry_matches(entry, len, exact, name))
            return true;
    return false;
}

static bool already_chosen(const struct motet_interface *chosen, int count, const struct motet_interface *one)
{
    for (int i = 0; i < count; i++)
        if (strcmp(chosen[i].name, one->name) == 0 && motet_address_same_host(&chosen[i].address, &one->address))
            return true;
    return false;
}

/* "name address (state)" of each interface, for the error. */
static void describe(const struct motet_interface *all, int nall, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < nall && at + 1 < size; i++) {
        char address[MOTET_ADDRESS_TEXT_MAX];
        motet_address_host(&all[i].address, address);
        int put = snprintf(text + at, size - at, "%s%s %s (%s)", i ? ", " : "", all[i].name, address,
                           !all[i].up       ? "down"
                           : all[i].running ? "up"
                                            : "up, no carrier");
        at += put > 0 ? (size_t)put : 0;
    }
}

static motetResult_t parse_family(const char *text, int *family)
{
    *family = AF_UNSPEC;
    if (strcmp(text, "AF_INET") == 0)
        *family = AF_INET;
    else if (strcmp(text, "AF_INET6") == 0)
        *family = AF_INET6;
    else if (text[0] != '\0')
        return motet_fail(motetInvalidArgument, "MOTET_SOCKET_FAMILY=%.100s: expected AF_INET or AF_INET6", text);
    return motetSuccess;
}

/* Named interfaces, in the order of the list's entries, IPv4 before IPv6 within one. */
static void choose_named(const struct motet_interface *all, int nall, const char *list, bool exact, int family,
                         struct motet_interface *chosen, int *nchosen)
{
    size_t len;
    for (const char *rest = list, *entry; (entry = next_entry(&rest, &len));)
        for (int v6 = 0; v6 < 2; v6++)
            for (int i = 0; i < nall; i++) {
                bool wanted = is_usable(&all[i], family) && entry_matches(entry, len, exact, all[i].name);
                if (wanted && (all[i].address.any.sa_family == AF_INET6) == v6 && !already_chosen(chosen, *nchosen, &all[i]))
                    chosen[(*nchosen)++] = all[i];
            }
}

/* The best class that has usable members outside the excluded names. */
static void choose_by_class(const struct motet_interface *all, int nall, const char *excluded, bool exact, int family,
                            struct motet_interface *chosen, int *nchosen)
{
    for (int wanted_class = 0; wanted_class <= 2 && *nchosen == 0; wanted_class++)
        for (int i = 0; i < nall; i++)
            if (is_usable(&all[i], family) && class_of(&all[i]) == wanted_class && !list_matches(excluded, exact, all[i].name))
                chosen[(*nchosen)++] = all[i];
    /* Stable: the kernel's order within a family. */
    for (int i = 1; i < *nchosen; i++)
        for (int k = i; k > 0 && compare_family(&chosen[k - 1].address, &chosen[k].address) > 0; k--) {
            struct motet_interface swap = chosen[k];
            chosen[k] = chosen[k - 1];
            chosen[k - 1] = swap;
        }
}

/* Puts the interface that routes to the root in front; it was perhaps not in the best class. */
static void prefer(const struct motet_interface *all, int nall, const union motet_address *toward, const char *excluded, bool exact,
                   int family, struct motet_interface *chosen, int *nchosen)
{
    for (int i = 0; i < nall; i++) {
        if (!is_usable(&all[i], family) || !motet_address_same_host(&all[i].address, toward) ||
            list_matches(excluded, exact, all[i].name))
            continue;
        int at = 0;
        while (at < *nchosen && !already_chosen(&chosen[at], 1, &all[i]))
            at++;
        if (at == *nchosen)
            (*nchosen)++;
        memmove(chosen + 1, chosen, (size_t)at * sizeof(*chosen));
        chosen[0] = all[i];
        return;
    }
}

motetResult_t motet_interfaces_filter(const struct motet_interface *all, int nall, const char *ifname, const char *family,
                                      const union motet_address *toward, struct motet_interface *chosen, int *nchosen)
{
    int wanted_family;
    char listing[800];
    *nchosen = 0;
    TRY(parse_family(family, &wanted_family));
    const char *list = ifname;
    bool exclude = *list == '^';
    list += exclude;
    bool exact = *list == '=';
    list += exact;
    if (ifname[0] != '\0' && !exclude) {
        choose_named(all, nall, list, exact, wanted_family, chosen, nchosen);
    } else {
        choose_by_class(all, nall, list, exact, wanted_family, chosen, nchosen);
        if (toward && toward->any.sa_family != AF_UNSPEC)
            prefer(all, nall, toward, list, exact, wanted_family, chosen, nchosen);
    }
    if (*nchosen > 0)
        return motetSuccess;
    describe(all, nall, listing, sizeof(listing));
    if (ifname[0] != '\0')
        return motet_fail(motetInvalidArgument,
                          "MOTET_SOCKET_IFNAME=%.100s%s%.20s: no interface that is up and has an address matches; "
                          "there are: %s",
                          ifname, family[0] ? " with MOTET_SOCKET_FAMILY=" : "", family, listing);
    return motet_fail(motetSystemError, "no network interface is up and has %s address; there are: %s",
                      wanted_family == AF_INET    ? "an IPv4"
                      : wanted_family == AF_INET6 ? "an IPv6"
                                                  : "an",
                      listing);
}

void motet_interface_toward(const union motet_address *peer, union motet_address *local)
{
    memset(local, 0, sizeof(*local));
    if (peer->any.sa_family != AF_INET && peer->any.sa_family != AF_INET6)
        return;
    int fd = motet_descriptor_lift(socket(peer->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return;
    union motet_address target = *peer;
    if (motet_address_port(&target) == 0)
        motet_address_set_port(&target, 9); /* any port: nothing is sent */
    if (connect(fd, &target.any, motet_address_len(&target)) < 0 || motet_net_local(fd, local) != motetSuccess)
        memset(local, 0, sizeof(*local));
    close(fd);
    motet_address_set_port(local, 0);
}

motetResult_t motet_interfaces_choose(const union motet_address *peer, struct motet_interface **list, int *count)
{
    struct motet_interface *all = NULL;
    union motet_address toward = {0};
    int nall = 0;
    char text[MOTET_ADDRESS_TEXT_MAX];
    *list = NULL;
    *count = 0;
    TRY(motet_settings_load());
    const char *ifname = motet_setting_string(MOTET_SET_SOCKET_IFNAME), *family = motet_setting_string(MOTET_SET_SOCKET_FAMILY);
    TRY(motet_interfaces_list(&all, &nall));
    if (peer)
        motet_interface_toward(peer, &toward);
    motetResult_t result = motetSystemError;
    *list = calloc((size_t)nall + 1, sizeof(**list));
    if (*list)
        result = motet_interfaces_filter(all, nall, ifname, family, &toward, *list, count);
    else
        motet_fail(motetSystemError, "out of memory for %d interfaces", nall);
    free(all);
    if (result != motetSuccess) {
        free(*list);
        *list = NULL;
        return result;
    }
    bool routes = motet_address_same_host(&(*list)[0].address, &toward);
    INFO(MOTET_LOG_NET, "NET/Socket : using %s:%s (%s)", (*list)[0].name, motet_address_text(&(*list)[0].address, text),
         ifname[0] ? "MOTET_SOCKET_IFNAME"
         : routes  ? "routes to the root"
                   : "first interface of the best class");
    return motetSuccess;
}
