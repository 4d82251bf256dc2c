/* SPDX-License-Identifier: Apache-2.0
 * Tree 0: nodes are places of the walk. Node 0 is the root and has one child; nodes 1 .. n-1 form an in-order tree in which the
 * lowest set bit tells the level: odd nodes are leaves, and the subtree of a node is an interval around it, hence mostly one host.
 *
 *        4            Tree 1 is tree 0 with nodes 1 .. n-1 mirrored (odd n) or turned by one (even n): leaves become
 *      /   \          inner nodes and inner nodes leaves.
 *     2     6
 *    / \   / \        In an in-order tree all children of a node are leaves, or none is, with one exception: for n = 6, 10, 14 ...
 *   1   3 5   7       the last node is a leaf beside an inner one. There it is put above its parent instead of below.
 */
#include "coll/tree.h"

#include "coll/walk.h"

static int lowest_bit(int v)
{
    return v & -v;
}

static bool last_is_lifted(int n)
{
    return n % 4 == 2 && n >= 6;
}

/* In the plain in-order tree, whatever n. v > 0. */
static int plain_parent(int v, int n)
{
    int bit = lowest_bit(v), up = (v ^ bit) | (bit << 1);
    return up < n ? up : v ^ bit;
}

static int parent_of(int v, int n)
{
    if (last_is_lifted(n) && v == n - 1)
        return plain_parent(n - 2, n);
    if (last_is_lifted(n) && v == n - 2)
        return n - 1;
    return plain_parent(v, n);
}

/* Children of node v in ascending order; returns how many. */
static int children_of(int v, int n, int child[2])
{
    int count = 0, bit = v > 0 ? lowest_bit(v) : 0;
    if (last_is_lifted(n) && v == n - 1) {
        child[0] = n - 2;
        return 1;
    }
    if (v == 0) {
        for (bit = 1; bit * 2 < n; bit *= 2)
            continue;
        if (n > 1)
            child[count++] = bit;
    } else if (bit > 1) {
        child[count++] = v - bit / 2;
        for (bit /= 2; bit > 0 && v + bit >= n; bit /= 2)
            continue;
        if (bit > 0)
            child[count++] = v + bit;
    }
    for (int i = 0; i < count; i++) {
        if (parent_of(child[i], n) != v) /* lifted: n - 1 left, or stands between */
            child[i] = n - 1;
    }
    if (last_is_lifted(n) && v == n - 2)
        count = 1;
    return count;
}

/* Node of tree 1 or 0 at a place of the walk, and back. */
static int node_at(int place, int n, int tree)
{
    if (tree == 0 || place == 0)
        return place;
    return n % 2 ? n - place : motet_mod(place - 2, n - 1) + 1;
}

static int place_of(int node, int n, int tree)
{
    if (tree == 0 || node == 0)
        return node;
    return n % 2 ? n - node : node % (n - 1) + 1;
}

struct motet_tree motet_tree_at(const struct motet_shape *shape, int tree)
{
    int n = shape->nranks, v = node_at(motet_walk_place(shape, shape->position), n, tree), child[2], below[2];
    int count = children_of(v, n, child);
    struct motet_tree place = {.parent = motet_nobody, .children = motet_nobody};
    if (v > 0)
        place.parent = motet_peer(motet_walk_position(shape, place_of(parent_of(v, n), n, tree)));
    if (count > 0) {
        place.grandchildren = children_of(child[0], n, below) > 0;
        place.children = motet_peer(motet_walk_position(shape, place_of(child[0], n, tree)));
    }
    if (count > 1) {
        int second = motet_walk_position(shape, place_of(child[1], n, tree));
        place.children.n = 2;
        place.children.stride = motet_mod(second - place.children.first, n);
    }
    return place;
}

void motet_tree_allreduce(struct motet_schedule *schedule, const struct motet_shape *shape, int tree, int chunk)
{
    struct motet_tree at = motet_tree_at(shape, tree);
    bool is_root = at.parent.n == 0;
    motet_step_append(schedule, (struct motet_step){
                                    .from = at.children,
                                    .src = MOTET_INPUT,
                                    .dst = is_root ? MOTET_OUTPUT : MOTET_NONE,
                                    .to = is_root ? at.children : at.parent,
                                    .dst_at = motet_range(chunk),
                                    .n = 1,
                                    .flags = at.grandchildren ? MOTET_WIDE : 0,
                                });
    if (!is_root)
        motet_tree_broadcast(schedule, shape, tree, chunk);
}

void motet_tree_broadcast(struct motet_schedule *schedule, const struct motet_shape *shape, int tree, int chunk)
{
    struct motet_tree at = motet_tree_at(shape, tree);
    motet_step_append(schedule, (struct motet_step){
                                    .from = at.parent,
                                    .src = at.parent.n == 0 ? MOTET_INPUT : MOTET_NONE,
                                    .dst = MOTET_OUTPUT,
                                    .to = at.children,
                                    .dst_at = motet_range(chunk),
                                    .n = 1,
                                });
}
