/* SPDX-License-Identifier: Apache-2.0
 * Walks the canonical tree. Knows nothing of who holds which value. */
#include "coll/canonical.h"

int motet_largest_power_of_two(int most)
{
    int power = 1;
    while (power <= most / 2)
        power *= 2;
    return power;
}

int motet_canonical_path(int n, int position, struct motet_canonical_node path[MOTET_CANONICAL_DEPTH])
{
    int depth = 0;
    for (int low = 0, high = n; high - low > 1;) {
        int middle = low + motet_largest_power_of_two(high - low - 1);
        path[depth++] = (struct motet_canonical_node){low, middle, high};
        if (position < middle)
            high = middle;
        else
            low = middle;
    }
    for (int i = 0; i < depth / 2; i++) {
        struct motet_canonical_node node = path[i];
        path[i] = path[depth - 1 - i];
        path[depth - 1 - i] = node;
    }
    return depth;
}
