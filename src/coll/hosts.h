/* SPDX-License-Identifier: Apache-2.0
 * What the hierarchical algorithms share: who is on which host, and how N chunks, one per position, are reduced and gathered so
 * that each crosses between two hosts once. Hosts may have any sizes.
 *
 * Carriers. On every host one member stands for chunk b: its carrier, the member number (b - first) mod size. On the host of
 * position b that is b itself. With hosts of one size the carriers of a chunk have the same place on each: a rail. */
#ifndef MOTET_COLL_HOSTS_H
#define MOTET_COLL_HOSTS_H

#include "coll/step.h"

struct motet_host {
    int index, first, size;
    struct motet_peers members;
};

struct motet_host motet_host_at(const struct motet_shape *shape, int index);
struct motet_host motet_host_of(const struct motet_shape *shape, int position);

/* All hosts have the same size. */
bool motet_hosts_are_even(const struct motet_shape *shape);

/* Position of the member that stands for chunk b. */
int motet_host_carrier(struct motet_host host, int b);

/* One round inside the own host: chunks 0 .. n - 1 of INPUT are reduced; chunk b ends in `dst` of member (b - base) mod size. */
void motet_hosts_reduce_inside(struct motet_schedule *schedule, struct motet_host host, int base, int n, enum motet_plane dst);

/* Chunk b, reduced over everybody, ends in OUTPUT of position b. nchunks == nranks. Sends nranks - 1 chunks, nobody sends more. */
void motet_hosts_reduce_scatter(struct motet_schedule *schedule, const struct motet_shape *shape);

/* Chunk b, in `src` of position b, ends in everybody's OUTPUT. One round. */
void motet_hosts_all_gather(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane src);

/* No position sends more chunks than this in the all-gather. */
int motet_hosts_all_gather_sends(const struct motet_shape *shape);

#endif
