/* SPDX-License-Identifier: Apache-2.0
 * Events of a simulation by time, those of equal times in the order in which they came. A radix heap: times only grow, so an event lies
 * in a bucket by the highest bit in which its time differs from the present one, and moves to a lower bucket at most once per bit. All
 * work is on arrays in order; nothing is allocated per event.
 * Source: Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem" (1990). */
#ifndef MOTET_SIMULATION_QUEUE_H
#define MOTET_SIMULATION_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct motet_simulation_event {
    uint64_t time;
    uint32_t what, kind; /* the owner's */
};

struct motet_simulation_bucket {
    struct motet_simulation_event *events;
    uint32_t n, room;
};

struct motet_simulation_queue {
    uint64_t now;  /* of the event that was taken last */
    uint64_t full; /* bit b: bucket b + 1 has events */
    size_t first;  /* in bucket 0: taken so far */
    size_t n;
    bool out_of_memory;
    struct motet_simulation_bucket buckets[65];
};

void motet_simulation_queue_free(struct motet_simulation_queue *queue);

/* Time must not lie before queue->now. A failure is remembered in out_of_memory. */
void motet_simulation_queue_add(struct motet_simulation_queue *queue, struct motet_simulation_event event);

/* Takes the next event; false: there is none. */
bool motet_simulation_queue_take(struct motet_simulation_queue *queue, struct motet_simulation_event *event);

#endif
