/* SPDX-License-Identifier: Apache-2.0
 * Two binary trees over all positions, both rooted at shape->root. Almost every position has children in one of them at most, so
 * that halves of the data, one per tree, load everybody evenly (Sanders, Speck, Traeff 2009: "Two-tree algorithms"). */
#ifndef MOTET_COLL_TREE_H
#define MOTET_COLL_TREE_H

#include "coll/step.h"

struct motet_tree {
    struct motet_peers parent;   /* nobody at the root */
    struct motet_peers children; /* at most two */
    bool grandchildren;          /* the children have children (then all of them do), so what they send up is a combination */
};

/* The neighbours of shape->position in tree 0 or 1. */
struct motet_tree motet_tree_at(const struct motet_shape *shape, int tree);

/* Appends the two steps of an all-reduce of one chunk over one tree, and the one step of a broadcast. */
void motet_tree_allreduce(struct motet_schedule *schedule, const struct motet_shape *shape, int tree, int chunk);
void motet_tree_broadcast(struct motet_schedule *schedule, const struct motet_shape *shape, int tree, int chunk);

#endif
