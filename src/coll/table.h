/* SPDX-License-Identifier: Apache-2.0
 * The rows of the table: one line here adds an algorithm. Each has its build function motet_<collective>_<name> in the file of that
 * name and is declared by this line too.
 *
 *   ROW(collective, name, order, counts, fits, title)      see struct motet_algorithm in coll.h */
#ifndef MOTET_COLL_TABLE_H
#define MOTET_COLL_TABLE_H

#include "coll/coll.h"

/* clang-format off */
#define MOTET_ALGORITHM_ROWS(ROW) \
    ROW(allreduce, ring,               ROTATED,   EQUAL, NULL, "reduce-scatter and all-gather round a ring (Patarasu, Yuan 2009)") \
    ROW(allreduce, double_binary_tree, ROTATED,   EQUAL, NULL, "halves up and down two trees (Sanders, Speck, Traeff 2009)") \
    ROW(allreduce, binary_tree,        ROTATED,   EQUAL, NULL, "up and down one binary tree") \
    ROW(allreduce, recursive_doubling, CANONICAL, EQUAL, NULL, "sums of ever larger subtrees are exchanged") \
    ROW(allreduce, rabenseifner,       CANONICAL, EQUAL, NULL, "recursive halving, then doubling (Rabenseifner)") \
    ROW(allreduce, circulant,          ROTATED,   EQUAL, NULL, "as rabenseifner, but on circulant graphs (Traeff 2024)") \
    ROW(allreduce, one_shot,           CANONICAL, EQUAL, NULL, "everybody combines the inputs of everybody") \
    ROW(allreduce, two_shot,           CANONICAL, EQUAL, NULL, "direct reduce-scatter, then direct all-gather") \
    ROW(allreduce, central,            CANONICAL, EQUAL, NULL, "everything to one rank and back") \
    ROW(allreduce, chain,              ROTATED,   EQUAL, NULL, "along a line to its head and back, pipelined") \
    ROW(allreduce, torus2d,            ROTATED,   EQUAL, NULL, "rings along the rows and columns of a grid (Mikami et al. 2018)") \
    ROW(allreduce, hierarchical,       CANONICAL, EQUAL, NULL, "inside hosts, one exchange per part between hosts, inside hosts") \
    ROW(reduce, binomial,     CANONICAL, EQUAL, NULL, "up the canonical tree, any root") \
    ROW(reduce, chain,        ROTATED,   EQUAL, NULL, "along a line to the root, pipelined") \
    ROW(reduce, direct,       CANONICAL, EQUAL, NULL, "everything to the root") \
    ROW(reduce, two_shot,     CANONICAL, EQUAL, NULL, "direct reduce-scatter, then the parts to the root") \
    ROW(reduce, rabenseifner, CANONICAL, EQUAL, NULL, "recursive halving, then the parts to the root (Rabenseifner)") \
    ROW(reduce, hierarchical, CANONICAL, EQUAL, NULL, "inside hosts, chains from host to host, the parts to the root") \
    ROW(broadcast, binomial,           NONE, EQUAL, NULL, "who has the data serves half of the remaining ranks") \
    ROW(broadcast, chain,              NONE, EQUAL, NULL, "along a line from the root, pipelined") \
    ROW(broadcast, direct,             NONE, EQUAL, NULL, "the root to everybody") \
    ROW(broadcast, scatter_allgather,  NONE, EQUAL, nranks_are_not_two, "a part to each, who shows it to all (Barnett, van de Geijn 1994)") \
    ROW(broadcast, double_binary_tree, NONE, EQUAL, nranks_are_not_two, "halves down two trees (Sanders, Speck, Traeff 2009)") \
    ROW(broadcast, hierarchical,       NONE, EQUAL, NULL, "a chain from host to host, shown to each host as it arrives") \
    ROW(allgather, ring,               NONE, ALL_KNOW, NULL, "blocks travel round a ring") \
    ROW(allgather, neighbor,           NONE, ALL_KNOW, NULL, "blocks travel round a ring both ways, half way each") \
    ROW(allgather, bruck,              NONE, ALL_KNOW, NULL, "what everybody has doubles each round (Bruck et al. 1997)") \
    ROW(allgather, recursive_doubling, NONE, ALL_KNOW, nranks_is_power_of_two, "partners one bit apart exchange all they have") \
    ROW(allgather, direct,             NONE, ALL_KNOW, NULL, "everybody shows its block to everybody") \
    ROW(allgather, torus2d,            NONE, ALL_KNOW, NULL, "rings along the columns and rows of a grid") \
    ROW(allgather, hierarchical,       NONE, ALL_KNOW, NULL, "to one member per host, which shows it to the others") \
    ROW(reducescatter, ring,              ROTATED,   ALL_KNOW, NULL, "sums travel round a ring (Patarasu, Yuan 2009)") \
    ROW(reducescatter, direct,            CANONICAL, ALL_KNOW, NULL, "every block straight to its owner") \
    ROW(reducescatter, recursive_halving, CANONICAL, ALL_KNOW, NULL, "partners one bit apart exchange halves") \
    ROW(reducescatter, circulant,         ROTATED,   ALL_KNOW, NULL, "as recursive_halving, on circulant graphs (Traeff 2024)") \
    ROW(reducescatter, pairwise,          ROTATED,   ALL_KNOW, NULL, "one block ahead and one from behind per round") \
    ROW(reducescatter, torus2d,           ROTATED,   ALL_KNOW, NULL, "rings along the rows and columns of a grid") \
    ROW(reducescatter, hierarchical,      CANONICAL, ALL_KNOW, NULL, "inside hosts, then one sum per host to the owner") \
    ROW(alltoall, direct,       NONE, PAIR_KNOWS, NULL, "all blocks at once") \
    ROW(alltoall, pairwise,     NONE, PAIR_KNOWS, NULL, "one block ahead and one from behind per round") \
    ROW(alltoall, bruck,        NONE, EQUAL, NULL, "blocks jump by the bits of their distance (Bruck et al. 1997)") \
    ROW(alltoall, hierarchical, NONE, EQUAL, motet_hosts_are_even, "inside hosts, then one message per pair of hosts and place") \
    ROW(gather, direct,   NONE, PAIR_KNOWS, NULL, "every block straight to the root") \
    ROW(gather, binomial, NONE, ALL_KNOW, NULL, "up a binomial tree") \
    ROW(scatter, direct,   NONE, PAIR_KNOWS, NULL, "every block straight from the root") \
    ROW(scatter, binomial, NONE, ALL_KNOW, NULL, "down a binomial tree") \
    ROW(barrier, dissemination, NONE, EQUAL, NULL, "signals 1, 2, 4, ... ranks ahead (Hensgen, Finkel, Manber 1988)") \
    ROW(barrier, central,       NONE, EQUAL, NULL, "signals to one rank and back") \
    ROW(barrier, tree,          NONE, EQUAL, NULL, "signals up and down a binary tree") \
    ROW(barrier, one_shot,      NONE, EQUAL, NULL, "everybody signals everybody") \
    ROW(barrier, hierarchical,  NONE, EQUAL, NULL, "inside hosts, dissemination between hosts, inside hosts")
/* clang-format on */

#define MOTET_ALGORITHM_DECLARATION(collective, name, order, counts, fits, title) \
    void motet_##collective##_##name(struct motet_schedule *schedule, const struct motet_shape *shape);
MOTET_ALGORITHM_ROWS(MOTET_ALGORITHM_DECLARATION)
#undef MOTET_ALGORITHM_DECLARATION

#endif
