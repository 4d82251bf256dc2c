/* SPDX-License-Identifier: Apache-2.0
 * The line from the root through all hosts. Positions behind the root's host follow in cyclic order as they are; only inside that
 * host are they turned so that the root leads. */
#include "coll/walk.h"

#include "coll/hosts.h"

int motet_walk_place(const struct motet_shape *shape, int position)
{
    struct motet_host host = motet_host_of(shape, shape->root);
    bool inside = position >= host.first && position < host.first + host.size;
    return inside ? motet_mod(position - shape->root, host.size) : motet_mod(position - host.first, shape->nranks);
}

int motet_walk_position(const struct motet_shape *shape, int place)
{
    struct motet_host host = motet_host_of(shape, shape->root);
    if (place < host.size)
        return host.first + (shape->root - host.first + place) % host.size;
    return (host.first + place) % shape->nranks;
}
