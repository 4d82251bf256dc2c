/* SPDX-License-Identifier: Apache-2.0
 * Quarantine: see quarantine.h. An entry names its region by number only, since the segment frees it as soon as the last holder has let go. It
 * listens for deaths as a window without memory. */
#include "quarantine.h"

#include <stdlib.h>

#include "segment.h"

struct entry {
    struct entry *next;
    uint64_t number, first_key;
    int n;
    struct holder {
        struct motet_endpoint *endpoint; /* NULL: of this process, or behind a stream. To be compared only: links may be gone */
        int rank;
    } holders[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;

/* Runs in the service thread, or in the thread that adds the entry. */
static void control(void *context, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len)
{
    const struct entry *entry = context;
    (void)bytes, (void)len;
    for (int i = 0; kind == MOTET_CONTROL_DEATH && i < entry->n; i++)
        if (entry->holders[i].endpoint == from)
            motet_segment_let_go(entry->number, entry->holders[i].rank);
}

static motetResult_t watch(struct entry *entry)
{
    void *const no_memory[] = {NULL};
    struct motet_endpoint **endpoints = calloc((size_t)entry->n + 1, sizeof *endpoints);
    if (!endpoints)
        return motetSystemError;
    for (int i = 0; i < entry->n; i++)
        endpoints[i] = entry->holders[i].endpoint;
    motetResult_t result = motet_windows_open(1, no_memory, 0, endpoints, entry->n, control, entry, &entry->first_key);
    free(endpoints);
    return result;
}

void motet_quarantine_add(uint64_t number, const struct motet_peer *peers, int n)
{
    struct entry *entry = malloc(sizeof *entry + (size_t)n * sizeof *entry->holders);
    motet_quarantine_sweep(false);
    if (!entry)
        return;
    *entry = (struct entry){.number = number};
    for (int p = 0; p < n; p++)
        if (peers[p].mapped && !peers[p].same_process)
            entry->holders[entry->n++] = (struct holder){peers[p].endpoint, peers[p].rank};
    if (entry->n == 0 || watch(entry) != motetSuccess) { /* threads do not die alone */
        free(entry);
        return;
    }
    pthread_mutex_lock(&lock);
    entry->next = entries;
    entries = entry;
    pthread_mutex_unlock(&lock);
}

void motet_quarantine_sweep(bool all)
{
    struct entry *over = NULL, **at = &entries;
    pthread_mutex_lock(&lock);
    while (*at) {
        struct entry *entry = *at;
        if (!all && motet_segment_lingers(entry->number)) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry->next = over;
        over = entry;
    }
    pthread_mutex_unlock(&lock);
    while (over) { /* without the lock: waits for handlers */
        struct entry *next = over->next;
        motet_windows_close(over->first_key);
        free(over);
        over = next;
    }
}
