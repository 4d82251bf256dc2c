/* SPDX-License-Identifier: Apache-2.0
 * Windows by key. One reader-writer lock guards the table and everything done through it: readers of connections hold it shared while
 * they write into a window or run a handler, closing takes it exclusively, so that nothing is in use any more when it returns.
 * Keys only grow and groups are appended, so the table is sorted without sorting. */
#include "window.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct group {
    uint64_t first_key;
    int n, nendpoints;
    size_t len;
    char **bases;
    struct motet_endpoint **endpoints;
    motet_control_handler *handler;
    void *context;
};

/* Prefers readers (the default of glibc): a handler may send a control message to its own process, which takes the lock again. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct group **groups;
static int ngroups, capacity;
static uint64_t next_key = 1;

static struct group *find(uint64_t key)
{
    int low = 0, high = ngroups;
    while (low < high) {
        int middle = (low + high) / 2;
        if (groups[middle]->first_key <= key)
            low = middle + 1;
        else
            high = middle;
    }
    struct group *group = low > 0 ? groups[low - 1] : NULL;
    return group && key - group->first_key < (uint64_t)group->n ? group : NULL;
}

static void free_group(struct group *group)
{
    if (!group)
        return;
    free(group->bases);
    free(group->endpoints);
    free(group);
}

static struct group *make_group(int n, void *const bases[], size_t len, struct motet_endpoint *const endpoints[], int nendpoints)
{
    struct group *group = calloc(1, sizeof(*group));
    if (!group)
        return NULL;
    *group = (struct group){.n = n, .nendpoints = nendpoints, .len = len};
    group->bases = calloc((size_t)n + 1, sizeof(*group->bases));
    group->endpoints = calloc((size_t)nendpoints + 1, sizeof(*group->endpoints));
    if (!group->bases || !group->endpoints) {
        free_group(group);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        group->bases[i] = bases[i];
    for (int i = 0; i < nendpoints; i++)
        group->endpoints[i] = endpoints[i];
    return group;
}

static bool append(struct group *group)
{
    if (ngroups == capacity) {
        int larger = capacity ? 2 * capacity : 16;
        struct group **moved = realloc(groups, (size_t)larger * sizeof(*groups));
        if (!moved)
            return false;
        groups = moved;
        capacity = larger;
    }
    groups[ngroups++] = group;
    return true;
}

/* An endpoint that died before it was listed has been announced already: the handler hears it here. */
static void announce_early_deaths(const struct group *group)
{
    for (int i = 0; i < group->nendpoints; i++) {
        struct motet_endpoint *endpoint = group->endpoints[i];
        if (endpoint && atomic_load_explicit(&endpoint->dead, memory_order_acquire))
            group->handler(group->context, endpoint, MOTET_CONTROL_DEATH, endpoint->cause, strlen(endpoint->cause));
    }
}

motetResult_t motet_windows_open(int n, void *const bases[], size_t len, struct motet_endpoint *const endpoints[], int nendpoints,
                                 motet_control_handler *handler, void *context, uint64_t *first_key)
{
    struct group *group = make_group(n, bases, len, endpoints, nendpoints);
    if (!group)
        return motet_fail(motetSystemError, "out of memory for %d windows", n);
    group->handler = handler;
    group->context = context;
    pthread_rwlock_wrlock(&lock);
    group->first_key = next_key;
    bool added = append(group);
    if (added)
        next_key += n > 0 ? (uint64_t)n : 1;
    pthread_rwlock_unlock(&lock);
    if (!added) {
        free_group(group);
        return motet_fail(motetSystemError, "out of memory for %d windows", n);
    }
    *first_key = group->first_key;
    if (handler)
        announce_early_deaths(group);
    return motetSuccess;
}

void motet_windows_close(uint64_t first_key)
{
    pthread_rwlock_wrlock(&lock);
    struct group *group = find(first_key);
    int at = 0;
    while (at < ngroups && groups[at] != group)
        at++;
    if (at < ngroups) {
        ngroups--;
        memmove(groups + at, groups + at + 1, (size_t)(ngroups - at) * sizeof(*groups));
    }
    if (ngroups == 0) {
        free(groups);
        groups = NULL;
        capacity = 0;
    }
    pthread_rwlock_unlock(&lock);
    free_group(group);
}

char *motet_window_hold(uint64_t key, size_t *len)
{
    pthread_rwlock_rdlock(&lock);
    struct group *group = find(key);
    char *base = group ? group->bases[key - group->first_key] : NULL;
    if (base)
        *len = group->len;
    else
        pthread_rwlock_unlock(&lock);
    return base;
}

void motet_window_drop(void)
{
    pthread_rwlock_unlock(&lock);
}

void motet_window_deliver(uint64_t key, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len)
{
    pthread_rwlock_rdlock(&lock);
    struct group *group = find(key);
    if (group && group->handler)
        group->handler(group->context, from, kind, bytes, len);
    pthread_rwlock_unlock(&lock);
}

void motet_windows_announce_death(struct motet_endpoint *endpoint)
{
    pthread_rwlock_rdlock(&lock);
    for (int i = 0; i < ngroups; i++)
        for (int k = 0; k < groups[i]->nendpoints; k++)
            if (groups[i]->endpoints[k] == endpoint && groups[i]->handler) {
                groups[i]->handler(groups[i]->context, endpoint, MOTET_CONTROL_DEATH, endpoint->cause, strlen(endpoint->cause));
                break;
            }
    pthread_rwlock_unlock(&lock);
}
