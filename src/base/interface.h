/* SPDX-License-Identifier: Apache-2.0
 * Network interfaces and which of them motet uses. MOTET_SOCKET_IFNAME has NCCL's grammar: a comma list of prefixes, "=" for exact
 * names, "^" to exclude, "^=" for both. The choice never asks the host name. */
#ifndef MOTET_BASE_INTERFACE_H
#define MOTET_BASE_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>

#include "base/net.h"

/* One address of one interface; an interface without address appears once with family AF_UNSPEC. */
struct motet_interface {
    char name[IF_NAMESIZE];
    bool up, running, loopback; /* running: has a carrier */
    union motet_address address;
};

/* Everything that the kernel lists, in its order. Malloced; the caller frees. */
motetResult_t motet_interfaces_list(struct motet_interface **list, int *count);

/* Chooses among `all` (pure). ifname and family as the settings; `toward` is the local address that routes to the root, or NULL.
 * chosen has room for nall entries and is in order of preference. Link-local IPv6 addresses are never chosen.
 *  - ifname set: its matches in the order of the list; none with an address is motetInvalidArgument that prints the value and all
 *    interfaces with address and state.
 *  - else the interface of `toward` first, then the best class that is there: carrier and not docker, virbr or loopback; then those;
 *    then loopback. IPv4 before IPv6. */
motetResult_t motet_interfaces_filter(const struct motet_interface *all, int nall, const char *ifname, const char *family,
                                      const union motet_address *toward, struct motet_interface *chosen, int *nchosen);

/* The choice for this process by its settings. `peer` (may be NULL, any family) is an address that must be reached, usually the
 * root's. Malloced, at least one entry. Says at INFO which interface it took and why. */
motetResult_t motet_interfaces_choose(const union motet_address *peer, struct motet_interface **list, int *count);

/* Local address that the kernel would use toward `peer` (no packet is sent); AF_UNSPEC when there is no route. */
void motet_interface_toward(const union motet_address *peer, union motet_address *local);

#endif
