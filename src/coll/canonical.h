/* SPDX-License-Identifier: Apache-2.0
 * The canonical tree: [0, n) split at the largest power of two below n, and so on in both halves. An algorithm that combines along
 * it gives the same bits as every other one that does, whatever the size. */
#ifndef MOTET_COLL_CANONICAL_H
#define MOTET_COLL_CANONICAL_H

#include <stdbool.h>

struct motet_canonical_node {
    int low, middle,
        high; /* [low, middle) and [middle, high) are its halves; the first is the larger, or equal, and a power of two */
};

#define MOTET_CANONICAL_DEPTH 64

/* The nodes above the leaf `position`, the nearest first; returns how many (0 when n == 1). */
int motet_canonical_path(int n, int position, struct motet_canonical_node path[MOTET_CANONICAL_DEPTH]);

int motet_largest_power_of_two(int most); /* <= most, which is at least 1 */

#endif
