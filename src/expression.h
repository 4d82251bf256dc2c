/* SPDX-License-Identifier: Apache-2.0
 * Symbolic values: which inputs were combined, in which order. Equal trees have equal ids, so two results are compared by one
 * integer. Leaves are (position, chunk) pairs; a tree combines leaves of one chunk, each at most once.
 * Trees are ordered: a + b and b + a differ, since the bits of a NaN may follow the order of operands. */
#ifndef MOTET_EXPRESSION_H
#define MOTET_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t motet_expression; /* 0: nothing was ever written */

struct motet_expression_node {
    motet_expression left, right;
    int32_t chunk;
    motet_expression next; /* in its hash bucket */
};

struct motet_expressions {
    int nranks, nchunks;
    uint32_t first_node; /* ids below are leaves */
    uint32_t nnodes, capacity;
    struct motet_expression_node *nodes; /* id - first_node */
    uint64_t *sets;                      /* per node `words` words: the positions it contains */
    int words;
    uint32_t *buckets, nbuckets; /* a power of two */
    bool out_of_memory;
};

bool motet_expressions_begin(struct motet_expressions *all, int nranks, int nchunks);
void motet_expressions_end(struct motet_expressions *all);

/* The input of a position at a chunk. */
motet_expression motet_expression_leaf(const struct motet_expressions *all, int position, int chunk);
bool motet_expression_is_leaf(const struct motet_expressions *all, motet_expression id, int *position, int *chunk);
int motet_expression_chunk(const struct motet_expressions *all, motet_expression id);

/* Combines two values in this order. 0 with *problem set (a phrase) if their chunks differ or they share an input. 0 without a problem:
 * out of memory. */
motet_expression motet_expression_join(struct motet_expressions *all, motet_expression left, motet_expression right,
                                       const char **problem);

/* Whether it contains the input of `position`, and of all of them. */
bool motet_expression_contains(const struct motet_expressions *all, motet_expression id, int position);
bool motet_expression_is_complete(const struct motet_expressions *all, motet_expression id);

/* Whether it is the balanced tree over ranks [0, nranks), split at the largest power of two, up to swapped operands.
 * rank_at: rank by position; NULL: equal. */
bool motet_expression_is_canonical(const struct motet_expressions *all, motet_expression id, const int *rank_at);

#endif
