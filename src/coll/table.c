/* SPDX-License-Identifier: Apache-2.0
 * All algorithms, and what is common to all of a collective. */
#include "coll/table.h"

#include <strings.h>

#include "coll/hosts.h"

static bool nranks_is_power_of_two(const struct motet_shape *shape)
{
    return (shape->nranks & (shape->nranks - 1)) == 0;
}

/* Between two ranks the parts take the same way: it is a direct broadcast in two messages. */
static bool nranks_are_not_two(const struct motet_shape *shape)
{
    return shape->nranks != 2;
}

/* How rows and files call the collectives. */
enum {
    allreduce = MOTET_ALLREDUCE,
    reduce = MOTET_REDUCE,
    broadcast = MOTET_BROADCAST,
    allgather = MOTET_ALLGATHER,
    reducescatter = MOTET_REDUCESCATTER,
    alltoall = MOTET_ALLTOALL,
    gather = MOTET_GATHER,
    scatter = MOTET_SCATTER,
    barrier = MOTET_BARRIER,
};

#define MOTET_ALGORITHM_ROW(COLLECTIVE, NAME, ORDER, COUNTS, FITS, TITLE) \
    {                                                                     \
        .name = #NAME,                                                    \
        .title = TITLE,                                                   \
        .collective = (enum motet_collective)COLLECTIVE,                  \
        .order = MOTET_ORDER_##ORDER,                                     \
        .counts = MOTET_COUNTS_##COUNTS,                                  \
        .fits = FITS,                                                     \
        .build = motet_##COLLECTIVE##_##NAME,                             \
    },

const struct motet_algorithm motet_algorithms[] = {MOTET_ALGORITHM_ROWS(MOTET_ALGORITHM_ROW)};

const int motet_nalgorithms = sizeof(motet_algorithms) / sizeof(motet_algorithms[0]);

static const struct {
    const char *name;
    bool has_root, reduces, has_blocks;
} collectives[MOTET_NCOLLECTIVES] = {
    [MOTET_ALLREDUCE] = {.name = "AllReduce", .reduces = true},
    [MOTET_REDUCE] = {.name = "Reduce", .has_root = true, .reduces = true},
    [MOTET_BROADCAST] = {.name = "Broadcast", .has_root = true},
    [MOTET_ALLGATHER] = {.name = "AllGather", .has_blocks = true},
    [MOTET_REDUCESCATTER] = {.name = "ReduceScatter", .reduces = true, .has_blocks = true},
    [MOTET_ALLTOALL] = {.name = "AlltoAll", .has_blocks = true},
    [MOTET_GATHER] = {.name = "Gather", .has_root = true, .has_blocks = true},
    [MOTET_SCATTER] = {.name = "Scatter", .has_root = true, .has_blocks = true},
    [MOTET_BARRIER] = {.name = "Barrier"},
};

static const struct motet_algorithm *find(enum motet_collective collective, const char *name)
{
    for (int i = 0; i < motet_nalgorithms; i++) {
        const struct motet_algorithm *algorithm = &motet_algorithms[i];
        if (algorithm->collective == collective && strcasecmp(algorithm->name, name) == 0)
            return algorithm;
    }
    return NULL;
}

const struct motet_algorithm *motet_algorithm_find(enum motet_collective collective, const char *name)
{
    const struct motet_algorithm *algorithm = find(collective, name);
    if (!algorithm && strcasecmp(name, "tree") == 0)
        algorithm = find(collective, "double_binary_tree"); /* NCCL's name for it */
    return algorithm;
}

const char *motet_collective_name(enum motet_collective collective)
{
    return collectives[collective].name;
}

bool motet_collective_has_root(enum motet_collective collective)
{
    return collectives[collective].has_root;
}

bool motet_collective_reduces(enum motet_collective collective)
{
    return collectives[collective].reduces;
}

int motet_collective_nblocks(enum motet_collective collective, int nranks)
{
    return collectives[collective].has_blocks ? nranks : 1;
}
