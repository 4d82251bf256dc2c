/* SPDX-License-Identifier: Apache-2.0
 * Equal times share a bucket at any moment, and moving keeps the order of a bucket: so they leave as they came. */
#include "simulation_queue.h"

#include <stdlib.h>

static inline unsigned bucket_of(uint64_t time, uint64_t now)
{
    return time == now ? 0 : 64 - (unsigned)__builtin_clzll(time ^ now);
}

static bool grow(struct motet_simulation_queue *queue, struct motet_simulation_bucket *bucket)
{
    uint32_t room = bucket->room ? 2 * bucket->room : 64;
    struct motet_simulation_event *events = realloc(bucket->events, room * sizeof(*events));
    if (!events) {
        queue->out_of_memory = true;
        return false;
    }
    bucket->events = events;
    bucket->room = room;
    return true;
}

static inline void put(struct motet_simulation_queue *queue, struct motet_simulation_event event)
{
    unsigned b = bucket_of(event.time, queue->now);
    struct motet_simulation_bucket *bucket = &queue->buckets[b];
    if (bucket->n == bucket->room && !grow(queue, bucket))
        return;
    bucket->events[bucket->n++] = event;
    if (b > 0)
        queue->full |= UINT64_C(1) << (b - 1);
}

void motet_simulation_queue_free(struct motet_simulation_queue *queue)
{
    for (int b = 0; b < 65; b++)
        free(queue->buckets[b].events);
    *queue = (struct motet_simulation_queue){0};
}

void motet_simulation_queue_add(struct motet_simulation_queue *queue, struct motet_simulation_event event)
{
    put(queue, event);
    queue->n++;
}

/* The lowest bucket with events is dealt out anew, around its earliest time. */
static void advance(struct motet_simulation_queue *queue)
{
    unsigned b = 1 + (unsigned)__builtin_ctzll(queue->full);
    struct motet_simulation_bucket *bucket = &queue->buckets[b];
    uint64_t earliest = UINT64_MAX;
    for (uint32_t i = 0; i < bucket->n; i++)
        earliest = bucket->events[i].time < earliest ? bucket->events[i].time : earliest;
    queue->now = earliest;
    queue->full &= queue->full - 1;
    queue->first = 0;
    queue->buckets[0].n = 0;
    for (uint32_t i = 0; i < bucket->n; i++)
        put(queue, bucket->events[i]);
    bucket->n = 0;
}

bool motet_simulation_queue_take(struct motet_simulation_queue *queue, struct motet_simulation_event *event)
{
    if (queue->n == 0 || queue->out_of_memory)
        return false;
    if (queue->first == queue->buckets[0].n)
        advance(queue);
    if (queue->out_of_memory)
        return false;
    *event = queue->buckets[0].events[queue->first++];
    queue->n--;
    return true;
}
