/* SPDX-License-Identifier: Apache-2.0
 * What the machine of a process does, in numbers: what ranks tell each other so that all of them predict alike. */
#ifndef MOTET_BASE_SPEEDS_H
#define MOTET_BASE_SPEEDS_H

#include <stdint.h>

/* How far two CPUs of the host are apart, by the round trip of a line between them. Virtual machines change it while they run. */
enum motet_distance { MOTET_DISTANCE_NEAR, MOTET_DISTANCE_MIDDLE, MOTET_DISTANCE_FAR, MOTET_NDISTANCES };

struct motet_speeds {
    uint64_t machine;                       /* its fingerprint (base/machine.h) */
    uint64_t tuning;                        /* digest of the table of measured times that this process read; 0: none */
    uint32_t is_measured;                   /* 0: nothing below was measured */
    uint32_t distance;                      /* enum motet_distance */
    double line_ns;                         /* a line, from the store on one CPU to the load on another that sees it */
    double copy_bytes_per_ns;               /* bytes loaded + stored by one CPU, in its own cache, all CPUs at work */
    double shared_bytes_per_ns;             /* the same in the cache behind that one */
    double cache_bytes, shared_cache_bytes; /* of the two caches; 0: unknown */
    double memory_bytes_per_ns;             /* bytes loaded + stored when the data are larger than all caches */
    double pass_bytes_per_ns; /* of a message through staging from one CPU to another, beside copying it into it and out of it */
    double pass_start_ns;     /* what any such message takes, beside two lines */
    double exchange_bytes_per_ns, exchange_start_ns; /* the same where both send at once, each its own way; beside one line */
    double combine_bytes_per_ns;                     /* operands of sums of float32, beside loading them */
    double switch_ns;                                /* sched_yield to another thread on the same CPU */
    double socket_latency_ns;   /* a small message over TCP inside the host, one way; 0: there is no loopback */
    double socket_bytes_per_ns; /* of a large one; 0 likewise */
};

#endif
