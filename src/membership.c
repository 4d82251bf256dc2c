/* SPDX-License-Identifier: Apache-2.0
 * Split, shrink, subset, grow: see membership.h. Ranks exchange claims (who goes where), then cards (where my new region is). A healthy parent carries
 * both as collectives of its own, so that a rank that calls something else is found out like in any call; one that failed cannot,
 * and the ranks meet in a council. Every rank of the child sees the same cards, so all come to the same picture. */
#include "membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os.h"
#include "council.h"
#include "creation.h"
#include "engine.h"
#include "ledger.h"
#include "segment.h"

struct claim {
    int32_t color, key, rank; /* rank in the parent */
};

struct card {
    struct motet_whereabouts where; /* region UINT64_MAX: this rank failed */
    uint64_t id;                    /* for the child; that of its rank 0 counts */
    uint64_t lane_bytes, eager_bytes;
    int32_t nlanes, reserved;
    char algorithms[128];
};

/* One derivation: how its ranks talk, and what they said. */
struct derivation {
    motetComm_t parent, child;
    const char *name;
    struct motet_council *council; /* NULL: by collectives of the parent */
    bool unanimous;                /* the council ends when all know that all succeeded */
    struct claim *claims;          /* by rank of the parent, then those of the child's members in the child's order */
    struct card *cards;            /* by rank of the parent */
    int nmembers, rank;            /* of the child; nmembers 0: this rank is no member */
};

static motetResult_t no_memory(motetComm_t parent, const char *name)
{
    return motet_fail(motetSystemError, "out of memory: %s on communicator %s", name, parent->options.name);
}

/* An all-gather on the parent, on the caller's thread, under the limit of creations instead of the parent's own. */
static motetResult_t run_allgather(motetComm_t parent, const char *name, const struct motet_options *limits, const void *mine,
                                   void *all, size_t len)
{
    int64_t usual_ms = parent->options.timeout_ms;
    const char *usual_from = parent->options.timeout_from;
    const struct motet_call call = {
        .collective = MOTET_ALLGATHER, .name = name, .send = mine, .recv = all, .count = len, .dtype = motetUint8};
    parent->options.timeout_ms = limits->init_timeout_ms;
    parent->options.timeout_from = limits->init_timeout_from;
    motetResult_t result = motet_engine_run(parent, &call);
    parent->options.timeout_ms = usual_ms;
    parent->options.timeout_from = usual_from;
    return result;
}

static motetResult_t gather(const struct derivation *d, const void *mine, void *all, size_t len)
{
    if (d->council)
        return motet_council_gather(d->council, mine, all, len);
    return run_allgather(d->parent, d->name, &d->child->options, mine, all, len);
}

/* ---- The child ---- */

static int compare_claims(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The members of this rank's color in the child's order. */
static void select_members(struct derivation *d)
{
    int32_t color = d->claims[d->parent->rank].color;
    d->nmembers = 0;
    for (int r = 0; r < d->parent->nranks; r++)
        if (color >= 0 && d->claims[r].color == color)
            d->claims[d->nmembers++] = d->claims[r];
    qsort(d->claims, (size_t)d->nmembers, sizeof *d->claims, compare_claims);
    for (int r = 0; r < d->nmembers; r++)
        if (d->claims[r].rank == d->parent->rank)
            d->rank = r;
}

static bool members_map(const void *context, int a, int b)
{
    const struct derivation *d = context;
    motetComm_t parent = d->parent;
    int x = parent->position_of[d->claims[a].rank], y = parent->position_of[d->claims[b].rank], h = 0;
    while (parent->host_first[h + 1] <= x)
        h++;
    return y >= parent->host_first[h] && y < parent->host_first[h + 1];
}

/* The local part: endpoints are the parent's, the region and its mirrors are new. */
static motetResult_t make_child(const struct derivation *d)
{
    motetComm_t parent = d->parent, child = d->child;
    struct motet_process process;
    TRY(motet_process_open(&process)); /* the child's own hold */
    child->holds_process = true;
    child->secret = parent->secret;
    TRY(motet_comm_allocate(child, d->nmembers, d->rank));
    struct motet_endpoint **endpoints = calloc((size_t)d->nmembers, sizeof *endpoints);
    if (!endpoints)
        return no_memory(parent, d->name);
    for (int r = 0; r < d->nmembers; r++) {
        endpoints[r] = parent->peers[parent->position_of[d->claims[r].rank]].endpoint;
        motet_endpoint_retain(endpoints[r]);
        child->peers[r].endpoint = endpoints[r];
    }
    motetResult_t result = motet_comm_open_windows(child, endpoints);
    free(endpoints);
    return result;
}

static motetResult_t fill_card(const struct derivation *d, struct card *card)
{
    const struct motet_options *options = &d->child->options;
    *card = (struct card){.where.region = UINT64_MAX};
    if (d->nmembers == 0)
        return motetSuccess;
    TRY(make_child(d));
    TRY(motet_random(&card->id, sizeof card->id));
    card->where = (struct motet_whereabouts){(uint64_t)(d->child->region - (char *)motet_segment_base()), d->child->first_key};
    card->nlanes = options->nlanes;
    card->lane_bytes = options->lane_bytes;
    card->eager_bytes = options->eager_bytes;
    memcpy(card->algorithms, options->algorithms, sizeof card->algorithms);
    return motetSuccess;
}

static motetResult_t check_cards(const struct derivation *d)
{
    const struct card *first = &d->cards[d->claims[0].rank];
    for (int r = 0; r < d->nmembers; r++)
        if (d->cards[d->claims[r].rank].where.region == UINT64_MAX)
            return motet_fail(motetRemoteError, "%s: rank %d of communicator %s could not take part", d->name, d->claims[r].rank,
                              d->parent->options.name);
    for (int r = 1; r < d->nmembers; r++) {
        const struct card *card = &d->cards[d->claims[r].rank];
        if (card->nlanes != first->nlanes || card->lane_bytes != first->lane_bytes || card->eager_bytes != first->eager_bytes)
            return motet_fail(motetInvalidUsage,
                              "%s: configurations differ: rank %d of communicator %s has %d channels of %" PRIu64
                              " bytes, rank %d has %d of %" PRIu64,
                              d->name, d->claims[0].rank, d->parent->options.name, first->nlanes, first->lane_bytes,
                              d->claims[r].rank, card->nlanes, card->lane_bytes);
        if (memcmp(card->algorithms, first->algorithms, sizeof first->algorithms) != 0)
            return motet_fail(motetInvalidUsage,
                              "%s: configurations differ: rank %d of communicator %s has algo \"%.127s\", rank %d has \"%.127s\"",
                              d->name, d->claims[0].rank, d->parent->options.name, first->algorithms, d->claims[r].rank,
                              card->algorithms);
    }
    return motetSuccess;
}

static motetResult_t place_child(const struct derivation *d)
{
    const struct motet_whereabouts **where = calloc((size_t)d->nmembers, sizeof *where);
    if (!where)
        return no_memory(d->parent, d->name);
    for (int r = 0; r < d->nmembers; r++)
        where[r] = &d->cards[d->claims[r].rank].where;
    d->child->id = d->cards[d->claims[0].rank].id;
    motetResult_t result = motet_comm_place(d->child, members_map, d);
    if (result == motetSuccess)
        result = motet_comm_place_peers(d->child, where);
    free(where);
    if (result == motetSuccess)
        result = motet_comm_complete(d->child);
    if (result == motetSuccess)
        motet_ledger_open(d->child, d->parent, &d->claims->rank, sizeof *d->claims / sizeof d->claims->rank);
    return result;
}

/* The others have this rank's card, and go on: the child is as good as made for them. */
static void tell_members(const struct derivation *d, motetResult_t result)
{
    for (int r = 0; r < d->nmembers; r++)
        d->child->peers[r].key = d->cards[d->claims[r].rank].where.first_key + (uint64_t)d->rank;
    motet_comm_fault_unplaced(d->child, result);
}

/* From claims to the child. In a unanimous council all members learn whether all succeeded; others, and a parent's collective, cannot say
 * that of what comes after them, but a child of which one rank failed says so in its first call. */
static motetResult_t derive(struct derivation *d)
{
    struct card mine;
    uint8_t ready = 1;
    select_members(d);
    motetResult_t result = fill_card(d, &mine), gathered = motetSuccess;
    if (!d->council || result == motetSuccess)
        gathered = gather(d, &mine, d->cards, sizeof mine); /* also after an own failure: the others wait */
    if (result == motetSuccess)
        result = gathered;
    if (result == motetSuccess && d->nmembers > 0)
        result = check_cards(d);
    if (result == motetSuccess && d->nmembers > 0 && (result = place_child(d)) != motetSuccess && !d->child->placed)
        tell_members(d, result);
    if (d->council && d->unanimous && result == motetSuccess) {
        uint8_t *all = calloc((size_t)d->parent->nranks, 1);
        result = all ? gather(d, &ready, all, sizeof ready) : no_memory(d->parent, d->name);
        free(all);
    }
    if (d->council && result != motetSuccess)
        motet_council_give_up(d->council, result);
    if (result != motetSuccess && d->child->placed)
        motet_comm_fault(d->child, result); /* for those who believe that it lives */
    if (result == motetSuccess && d->nmembers > 0)
        d->child->magic = MOTET_COMM_MAGIC;
    return result;
}

typedef motetResult_t claim_function(struct derivation *d, const void *context);

static motetResult_t derive_by(struct derivation *d, claim_function *claim, const void *context)
{
    size_t n = (size_t)d->parent->nranks;
    d->claims = calloc(n, sizeof *d->claims);
    d->cards = calloc(n, sizeof *d->cards);
    bool ready = d->claims && d->cards;
    motetResult_t result = ready ? claim(d, context) : no_memory(d->parent, d->name);
    if (!ready && !d->council)
        motet_comm_fault(d->parent, result); /* its other ranks would wait for this one */
    if (result == motetSuccess)
        result = derive(d);
    else if (d->council)
        motet_council_give_up(d->council, result);
    free(d->claims);
    free(d->cards);
    return result;
}

/* The same in a council. subject 0: of all ranks but those in `ranks`, unanimous; else of those in `ranks`. */
static motetResult_t derive_in_council(struct derivation *d, const int *ranks, int nranks, uint64_t subject, claim_function *claim,
                                       const void *context)
{
    size_t n = (size_t)d->parent->nranks;
    bool *member = malloc(n * sizeof *member);
    if (!member)
        return no_memory(d->parent, d->name);
    memset(member, subject == 0, n * sizeof *member);
    for (int i = 0; i < nranks; i++)
        member[ranks[i]] = subject != 0;
    d->unanimous = subject == 0;
    struct motet_council council = {.comm = d->parent,
                                    .what = d->name,
                                    .member = member,
                                    .subject = subject,
                                    .deadline_ns = motet_deadline_ns(d->child->options.init_timeout_ms),
                                    .limit_from = d->child->options.init_timeout_from,
                                    .abort = &d->child->abort};
    d->council = &council;
    motet_council_open(&council);
    motetResult_t result = derive_by(d, claim, context);
    d->council = NULL;
    free(member);
    return result;
}

/* ---- Split ---- */

static motetResult_t claim_color(struct derivation *d, const void *context)
{
    const struct claim *mine = context;
    return gather(d, mine, d->claims, sizeof *mine);
}

motetResult_t motet_comm_split(motetComm_t parent, int color, int key, motetComm_t child)
{
    struct claim mine = {color, key, parent->rank};
    struct derivation d = {.parent = parent, .child = child, .name = "CommSplit"};
    if (!motet_comm_was_revoked(parent))
        return derive_by(&d, claim_color, &mine);
    return derive_in_council(&d, NULL, 0, 0, claim_color, &mine);
}

/* ---- Shrink ---- */

#define LISTED 12 /* excluded ranks that a sentence can name */

struct exclusion {
    uint64_t hash;
    int32_t count, first[LISTED];
};

static void list_excluded(const struct exclusion *list, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < list->count && i < LISTED && at + 16 < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? ", " : "", list->first[i]);
    if (list->count > LISTED || list->count == 0)
        snprintf(text + at, size - at, list->count ? ", ... (%d)" : "nobody", list->count);
}

static motetResult_t check_exclusions(const struct derivation *d, const struct exclusion *all)
{
    const struct exclusion *mine = &all[d->parent->rank];
    for (int r = 0; r < d->parent->nranks; r++) {
        char one[160], other[160];
        int a = r < d->parent->rank ? r : d->parent->rank, b = r < d->parent->rank ? d->parent->rank : r;
        if (!d->council->member[r] || memcmp(&all[r], mine, sizeof *mine) == 0)
            continue;
        list_excluded(&all[a], one, sizeof one);
        list_excluded(&all[b], other, sizeof other);
        return motet_fail(motetInvalidUsage, "%s on comm \"%s\" (%d ranks): lists differ: rank %d excludes %s, rank %d excludes %s",
                          d->name, d->parent->options.name, d->parent->nranks, a, one, b, other);
    }
    return motetSuccess;
}

static motetResult_t claim_survival(struct derivation *d, const void *context)
{
    size_t n = (size_t)d->parent->nranks;
    struct exclusion *all = calloc(n, sizeof *all);
    motetResult_t result = all ? gather(d, context, all, sizeof *all) : no_memory(d->parent, d->name);
    if (result == motetSuccess)
        result = check_exclusions(d, all);
    free(all);
    for (int r = 0; r < d->parent->nranks; r++)
        d->claims[r] = (struct claim){.color = d->council->member[r] ? 0 : -1, .rank = r};
    return result;
}

motetResult_t motet_comm_shrink(motetComm_t parent, const int *excluded, int nexcluded, motetComm_t child)
{
    struct derivation d = {.parent = parent, .child = child, .name = "CommShrink"};
    struct exclusion mine = {.hash = MOTET_HASH_SEED, .count = nexcluded};
    for (int i = 0; i < nexcluded; i++) {
        mine.hash = motet_hash_add(mine.hash, (uint64_t)excluded[i]);
        if (i < LISTED)
            mine.first[i] = excluded[i];
    }
    return derive_in_council(&d, excluded, nexcluded, 0, claim_survival, &mine);
}

/* ---- Subset ---- */

/* All members were given the same list: nothing has to be asked. */
static motetResult_t claim_place(struct derivation *d, const void *context)
{
    const int *ranks = context;
    for (int r = 0; r < d->parent->nranks; r++) {
        d->claims[r] = (struct claim){.color = d->council->member[r] ? 0 : -1, .rank = r};
        for (int i = 0; d->council->member[r] && ranks[i] != r; i++)
            d->claims[r].key = i + 1;
    }
    return motetSuccess;
}

motetResult_t motet_comm_subset(motetComm_t parent, const int *ranks, int nranks, uint64_t subject, motetComm_t child)
{
    struct derivation d = {.parent = parent, .child = child, .name = "CommSubset"};
    return derive_in_council(&d, ranks, nranks, subject, claim_place, ranks);
}

/* ---- Grow ---- */

struct growth {
    int32_t nranks, has_id;
    motetUniqueId id;
};

static motetResult_t choose_growth(motetComm_t parent, const struct growth *all, motetUniqueId *id)
{
    int holder = -1;
    for (int r = 0; r < parent->nranks; r++) {
        if (all[r].nranks != all[0].nranks)
            return motet_fail(motetInvalidUsage, "CommGrow on comm \"%s\" (%d ranks): rank 0 wants %d ranks, rank %d wants %d",
                              parent->options.name, parent->nranks, all[0].nranks, r, all[r].nranks);
        if (all[r].has_id && holder >= 0)
            return motet_fail(motetInvalidUsage,
                              "CommGrow on comm \"%s\" (%d ranks): ranks %d and %d both passed a unique id, one must",
                              parent->options.name, parent->nranks, holder, r);
        if (all[r].has_id)
            holder = r;
    }
    if (holder < 0)
        return motet_fail(motetInvalidUsage, "CommGrow on comm \"%s\" (%d ranks): no rank passed the unique id, one must",
                          parent->options.name, parent->nranks);
    *id = all[holder].id;
    return motetSuccess;
}

motetResult_t motet_comm_agree_growth(motetComm_t parent, int nranks, const motetUniqueId *mine, const struct motet_options *limits,
                                      motetUniqueId *id)
{
    struct growth growth = {.nranks = nranks, .has_id = mine != NULL}, *all = calloc((size_t)parent->nranks, sizeof *all);
    if (mine)
        growth.id = *mine;
    motetResult_t result =
        all ? run_allgather(parent, "CommGrow", limits, &growth, all, sizeof growth) : no_memory(parent, "CommGrow");
    if (result == motetSuccess)
        result = choose_growth(parent, all, id);
    free(all);
    return result;
}
