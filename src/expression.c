/* SPDX-License-Identifier: Apache-2.0
 * Hash-consed expression trees with the set of their leaves as a bitset. Ids below first_node are leaves and take no memory. */
#include "expression.h"

#include <stdlib.h>
#include <string.h>

bool motet_expressions_begin(struct motet_expressions *all, int nranks, int nchunks)
{
    *all = (struct motet_expressions){.nranks = nranks, .nchunks = nchunks, .words = (nranks + 63) / 64, .nbuckets = 1024};
    all->first_node = 1 + (uint32_t)nranks * (uint32_t)nchunks;
    all->buckets = calloc(all->nbuckets, sizeof(*all->buckets));
    return all->buckets != NULL;
}

void motet_expressions_end(struct motet_expressions *all)
{
    free(all->nodes);
    free(all->sets);
    free(all->buckets);
    *all = (struct motet_expressions){0};
}

motet_expression motet_expression_leaf(const struct motet_expressions *all, int position, int chunk)
{
    return 1 + (uint32_t)position * (uint32_t)all->nchunks + (uint32_t)chunk;
}

bool motet_expression_is_leaf(const struct motet_expressions *all, motet_expression id, int *position, int *chunk)
{
    if (id == 0 || id >= all->first_node)
        return false;
    *position = (int)((id - 1) / (uint32_t)all->nchunks);
    *chunk = (int)((id - 1) % (uint32_t)all->nchunks);
    return true;
}

int motet_expression_chunk(const struct motet_expressions *all, motet_expression id)
{
    return id < all->first_node ? (int)((id - 1) % (uint32_t)all->nchunks) : all->nodes[id - all->first_node].chunk;
}

static uint64_t set_word(const struct motet_expressions *all, motet_expression id, int word)
{
    if (id >= all->first_node)
        return all->sets[(size_t)(id - all->first_node) * (size_t)all->words + (size_t)word];
    int position = (int)((id - 1) / (uint32_t)all->nchunks);
    return position / 64 == word ? UINT64_C(1) << position % 64 : 0;
}

bool motet_expression_contains(const struct motet_expressions *all, motet_expression id, int position)
{
    return set_word(all, id, position / 64) >> position % 64 & 1;
}

bool motet_expression_is_complete(const struct motet_expressions *all, motet_expression id)
{
    for (int w = 0; w < all->words; w++) {
        int bits = all->nranks - 64 * w;
        uint64_t full = bits >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
        if (set_word(all, id, w) != full)
            return false;
    }
    return true;
}

static uint32_t bucket_of(const struct motet_expressions *all, motet_expression left, motet_expression right)
{
    uint64_t mixed = (((uint64_t)left << 32) | right) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mixed >> 32) & (all->nbuckets - 1);
}

/* Twice the room and twice the buckets. */
static bool grow(struct motet_expressions *all)
{
    uint32_t capacity = all->capacity ? 2 * all->capacity : 1024;
    struct motet_expression_node *nodes = realloc(all->nodes, capacity * sizeof(*nodes));
    if (nodes)
        all->nodes = nodes;
    uint64_t *sets = realloc(all->sets, (size_t)capacity * (size_t)all->words * sizeof(*sets));
    if (sets)
        all->sets = sets;
    uint32_t *buckets = calloc(2 * (size_t)capacity, sizeof(*buckets));
    if (!nodes || !sets || !buckets) {
        free(buckets);
        all->out_of_memory = true;
        return false;
    }
    free(all->buckets);
    all->buckets = buckets;
    all->nbuckets = 2 * capacity;
    all->capacity = capacity;
    for (uint32_t n = 0; n < all->nnodes; n++) {
        uint32_t bucket = bucket_of(all, nodes[n].left, nodes[n].right);
        nodes[n].next = buckets[bucket];
        buckets[bucket] = all->first_node + n;
    }
    return true;
}

static motet_expression new_node(struct motet_expressions *all, motet_expression left, motet_expression right, int chunk)
{
    if (all->nnodes == all->capacity && !grow(all))
        return 0;
    uint32_t n = all->nnodes++, bucket = bucket_of(all, left, right);
    all->nodes[n] = (struct motet_expression_node){.left = left, .right = right, .chunk = chunk, .next = all->buckets[bucket]};
    all->buckets[bucket] = all->first_node + n;
    for (int w = 0; w < all->words; w++)
        all->sets[(size_t)n * (size_t)all->words + (size_t)w] = set_word(all, left, w) | set_word(all, right, w);
    return all->first_node + n;
}

motet_expression motet_expression_join(struct motet_expressions *all, motet_expression left, motet_expression right,
                                       const char **problem)
{
    for (uint32_t id = all->buckets[bucket_of(all, left, right)]; id; id = all->nodes[id - all->first_node].next) {
        const struct motet_expression_node *node = &all->nodes[id - all->first_node];
        if (node->left == left && node->right == right)
            return id;
    }
    int chunk = motet_expression_chunk(all, left);
    if (chunk != motet_expression_chunk(all, right)) {
        *problem = "combines two different chunks of the input";
        return 0;
    }
    for (int w = 0; w < all->words; w++) {
        if (set_word(all, left, w) & set_word(all, right, w)) {
            *problem = "adds the input of one rank twice";
            return 0;
        }
    }
    return new_node(all, left, right, chunk);
}

static bool is_canonical_from(const struct motet_expressions *all, motet_expression id, const int *position_of, int low, int high)
{
    if (high - low == 1) {
        int position, chunk;
        return motet_expression_is_leaf(all, id, &position, &chunk) && position == position_of[low];
    }
    if (id < all->first_node)
        return false;
    const struct motet_expression_node *node = &all->nodes[id - all->first_node];
    int half = 1;
    while (2 * half < high - low)
        half *= 2;
    bool in_order = motet_expression_contains(all, node->left, position_of[low]);
    return is_canonical_from(all, in_order ? node->left : node->right, position_of, low, low + half) &&
           is_canonical_from(all, in_order ? node->right : node->left, position_of, low + half, high);
}

bool motet_expression_is_canonical(const struct motet_expressions *all, motet_expression id, const int *rank_at)
{
    int *position_of = malloc((size_t)all->nranks * sizeof(*position_of));
    if (!position_of)
        return false;
    for (int p = 0; p < all->nranks; p++)
        position_of[rank_at ? rank_at[p] : p] = p;
    bool answer = is_canonical_from(all, id, position_of, 0, all->nranks);
    free(position_of);
    return answer;
}
