/* SPDX-License-Identifier: Apache-2.0
 * The public ways to make a communicator: argument checks, and a description of what is to be made. How it is made is in creation.c. */
#include <stdlib.h>
#include <string.h>

#include "api/check.h"
#include "api/creation.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/settings.h"
#include "group.h"

static motetResult_t check_size(motetComm_t *comm, int nranks, int rank)
{
    if (comm)
        *comm = NULL;
    if (nranks < 1)
        return motet_fail(motetInvalidArgument, "a communicator of %d ranks", nranks);
    if (rank < 0 || rank >= nranks)
        return motet_fail(motetInvalidArgument, "rank %d is outside a communicator of %d ranks", rank, nranks);
    return motetSuccess;
}

motetResult_t motetGetUniqueId(motetUniqueId *uniqueId)
{
    if (!uniqueId)
        return motet_fail(motetInvalidArgument, "GetUniqueId: uniqueId is NULL");
    TRY(motet_settings_load());
    return motet_boot_root_start(uniqueId);
}

motetResult_t motetCommInitRank(motetComm_t *comm, int nranks, motetUniqueId commId, int rank)
{
    return motetCommInitRankConfig(comm, nranks, commId, rank, NULL);
}

motetResult_t motetCommInitRankConfig(motetComm_t *comm, int nranks, motetUniqueId commId, int rank, motetConfig_t *config)
{
    motetResult_t result = check_size(comm, nranks, rank);
    if (result != motetSuccess)
        return motet_group_failed(result);
    return motet_creation_begin(&(struct motet_creation){.source = MOTET_FROM_ID, .nranks = nranks, .rank = rank, .id = commId},
                                comm, config);
}

motetResult_t motetCommInitAll(motetComm_t *comm, int ndev, const int *devlist)
{
    motetUniqueId id;
    (void)devlist;
    if (!comm || ndev < 1)
        return motet_group_failed(
            motet_fail(motetInvalidArgument, "CommInitAll: %s", comm ? "ndev must be at least 1" : "comm is NULL"));
    motetResult_t result = motetGetUniqueId(&id);
    if (result != motetSuccess)
        return motet_group_failed(result);
    motet_group_start();
    for (int i = 0; i < ndev; i++)
        (void)motetCommInitRank(&comm[i], ndev, id, i); /* errors are kept by the group */
    result = motet_group_end();
    for (int i = 0; result != motetSuccess && i < ndev; i++) {
        if (comm[i])
            motetCommAbort(comm[i]);
        comm[i] = NULL;
    }
    return result;
}

motetResult_t motetCommInitEnv(motetComm_t *comm, motetConfig_t *config)
{
    return motet_creation_begin(&(struct motet_creation){.source = MOTET_FROM_ENVIRONMENT}, comm, config);
}

motetResult_t motetCommInitStore(motetComm_t *comm, int nranks, const motetStore_t *store, int rank, motetConfig_t *config)
{
    motetResult_t result = check_size(comm, nranks, rank);
    if (result == motetSuccess && (!store || !store->set || !store->get))
        result = motet_fail(motetInvalidArgument, "CommInitStore: the store or one of its callbacks is NULL");
    if (result != motetSuccess)
        return motet_group_failed(result);
    return motet_creation_begin(
        &(struct motet_creation){.source = MOTET_FROM_STORE, .nranks = nranks, .rank = rank, .store = *store}, comm, config);
}

motetResult_t motetCommInitFile(motetComm_t *comm, int nranks, const char *directory, int rank, motetConfig_t *config)
{
    motetResult_t result = check_size(comm, nranks, rank);
    char *copy = directory && directory[0] ? strdup(directory) : NULL;
    if (result == motetSuccess && !copy)
        result = motet_fail(motetInvalidArgument, "CommInitFile: the directory is NULL or empty");
    if (result != motetSuccess) {
        free(copy);
        return motet_group_failed(result);
    }
    return motet_creation_begin(
        &(struct motet_creation){.source = MOTET_FROM_FILE, .nranks = nranks, .rank = rank, .directory = copy}, comm, config);
}

/* ---- From other communicators ---- */

motetResult_t motetCommSplit(motetComm_t comm, int color, int key, motetComm_t *newcomm, motetConfig_t *config)
{
    motetResult_t result = motet_check_comm(comm, "CommSplit");
    if (result == motetSuccess && color < 0 && color != MOTET_SPLIT_NOCOLOR)
        result = motet_fail(motetInvalidArgument, "CommSplit: color %d is negative and not MOTET_SPLIT_NOCOLOR", color);
    if (result != motetSuccess)
        return motet_group_failed(result);
    return motet_creation_begin(&(struct motet_creation){.source = MOTET_FROM_SPLIT, .color = color, .key = key, .parent = comm},
                                newcomm, config);
}

static int compare_ranks(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* A copy of the list in ascending order, each rank once. */
static motetResult_t sort_excluded(motetComm_t comm, const int *ranks, int count, int **sorted, int *nsorted)
{
    *nsorted = 0;
    if (count < 0 || (count > 0 && !ranks))
        return motet_fail(motetInvalidArgument, "CommShrink: a list of %d ranks at %p", count, (const void *)ranks);
    for (int i = 0; i < count; i++) {
        TRY(motet_check_rank(comm, ranks[i], "excluded rank", "CommShrink"));
        if (ranks[i] == comm->rank)
            return motet_fail(motetInvalidArgument, "CommShrink: rank %d excludes itself: only the ranks that stay call",
                              comm->rank);
    }
    *sorted = malloc(((size_t)count + 1) * sizeof **sorted);
    if (!*sorted)
        return motet_fail(motetSystemError, "CommShrink: out of memory for a list of %d ranks", count);
    memcpy(*sorted, ranks ? ranks : *sorted, (size_t)count * sizeof **sorted);
    qsort(*sorted, (size_t)count, sizeof **sorted, compare_ranks);
    for (int i = 0; i < count; i++)
        if (i == 0 || (*sorted)[i] != (*sorted)[i - 1])
            (*sorted)[(*nsorted)++] = (*sorted)[i];
    return motetSuccess;
}

motetResult_t motetCommShrink(motetComm_t comm, int *excludeRanksList, int excludeRanksCount, motetComm_t *newcomm,
                              motetConfig_t *config, int shrinkFlags)
{
    struct motet_creation shrink = {.source = MOTET_FROM_SHRINK, .parent = comm, .abort_parent = shrinkFlags == MOTET_SHRINK_ABORT};
    motetResult_t result = motet_check_comm(comm, "CommShrink");
    if (result == motetSuccess && shrinkFlags != MOTET_SHRINK_DEFAULT && shrinkFlags != MOTET_SHRINK_ABORT)
        result = motet_fail(motetInvalidArgument, "CommShrink: %#x are not flags of CommShrink", (unsigned)shrinkFlags);
    if (result == motetSuccess)
        result = sort_excluded(comm, excludeRanksList, excludeRanksCount, &shrink.excluded, &shrink.nexcluded);
    if (result != motetSuccess)
        return motet_group_failed(result);
    return motet_creation_begin(&shrink, newcomm, config);
}

/* The number under which the members meet: FNV-1a of the tag and the list. */
static uint64_t subject_of(const char *tag, const int *ranks, int nranks)
{
    uint64_t hash = motet_hash_bytes(MOTET_HASH_SEED, tag, strlen(tag));
    for (int i = 0; i < nranks; i++)
        hash = motet_hash_add(hash, (uint64_t)ranks[i] + 256); /* what no byte of the tag is */
    return hash ? hash : 1;
}

static motetResult_t check_listed(motetComm_t comm, const int *ranks, int nranks)
{
    bool included = false;
    if (!ranks || nranks < 1 || nranks > comm->nranks)
        return motet_fail(motetInvalidArgument, "CommSubset: a list of %d ranks at %p, of a communicator of %d", nranks,
                          (const void *)ranks, comm->nranks);
    for (int i = 0; i < nranks; i++) {
        TRY(motet_check_rank(comm, ranks[i], "listed rank", "CommSubset"));
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return motet_fail(motetInvalidArgument, "CommSubset: rank %d is listed twice", ranks[i]);
        included |= ranks[i] == comm->rank;
    }
    if (!included)
        return motet_fail(motetInvalidArgument, "CommSubset: rank %d is not in its own list: only listed ranks call", comm->rank);
    return motetSuccess;
}

motetResult_t motetCommSubset(motetComm_t comm, const int *ranks, int nranks, const char *tag, motetComm_t *newcomm,
                              motetConfig_t *config)
{
    motetResult_t result = motet_check_comm(comm, "CommSubset");
    if (result == motetSuccess)
        result = check_listed(comm, ranks, nranks);
    struct motet_creation subset = {.source = MOTET_FROM_SUBSET, .parent = comm, .nlisted = nranks};
    if (result == motetSuccess && !(subset.listed = malloc((size_t)nranks * sizeof *subset.listed)))
        result = motet_fail(motetSystemError, "CommSubset: out of memory for a list of %d ranks", nranks);
    if (result != motetSuccess)
        return motet_group_failed(result);
    memcpy(subset.listed, ranks, (size_t)nranks * sizeof *subset.listed);
    subset.subject = subject_of(tag ? tag : "", ranks, nranks);
    return motet_creation_begin(&subset, newcomm, config);
}

motetResult_t motetCommGetUniqueId(motetComm_t comm, motetUniqueId *uniqueId)
{
    TRY(motet_check_comm(comm, "CommGetUniqueId"));
    if (!uniqueId)
        return motet_fail(motetInvalidArgument, "CommGetUniqueId: uniqueId is NULL");
    return motet_boot_root_start(uniqueId);
}

/* A rank that is new: it knows its rank and the id, and nothing of those that exist. */
static motetResult_t join_growth(int nranks, const motetUniqueId *id, int rank, motetComm_t *newcomm, motetConfig_t *config)
{
    motetResult_t result = id ? check_size(newcomm, nranks, rank)
                              : motet_fail(motetInvalidArgument, "CommGrow: a new rank (comm NULL) needs the unique id");
    if (result != motetSuccess)
        return motet_group_failed(result);
    return motet_creation_begin(&(struct motet_creation){.source = MOTET_FROM_ID, .nranks = nranks, .rank = rank, .id = *id},
                                newcomm, config);
}

motetResult_t motetCommGrow(motetComm_t comm, int nRanks, const motetUniqueId *uniqueId, int rank, motetComm_t *newcomm,
                            motetConfig_t *config)
{
    struct motet_creation growth = {.source = MOTET_FROM_GROWTH, .parent = comm, .nranks = nRanks, .has_id = uniqueId != NULL};
    if (!comm)
        return join_growth(nRanks, uniqueId, rank, newcomm, config);
    motetResult_t result = motet_check_comm(comm, "CommGrow");
    if (result == motetSuccess && rank != -1)
        result = motet_fail(motetInvalidArgument, "CommGrow: a rank that exists keeps its rank and passes -1, not %d", rank);
    if (result == motetSuccess && nRanks <= comm->nranks)
        result = motet_fail(motetInvalidArgument, "CommGrow: communicator %s has %d ranks, and cannot grow to %d",
                            comm->options.name, comm->nranks, nRanks);
    if (result != motetSuccess)
        return motet_group_failed(result);
    if (uniqueId)
        growth.id = *uniqueId;
    growth.rank = comm->rank;
    return motet_creation_begin(&growth, newcomm, config);
}
