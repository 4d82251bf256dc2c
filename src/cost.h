/* SPDX-License-Identifier: Apache-2.0
 * What a schedule costs: bytes per position, and a predicted time from latency, bandwidth and reduction speed. Reads schedules only, so a
 * new algorithm has its price without a line of code here. Every rank computes the same number from what all ranks know. */
#ifndef MOTET_COST_H
#define MOTET_COST_H

#include "coll/coll.h"
#include "motet.h"

/* How two positions reach each other. */
enum motet_link_class { MOTET_LINK_THREADS, MOTET_LINK_SHARED, MOTET_LINK_NET, MOTET_NLINK_CLASSES };

/* Speeds of the machines. The default is motet_cost_default; a measurement may replace it if all ranks use the same. */
struct motet_cost_machine {
    struct {
        double latency_ns;   /* from the store of the sender to the load of the receiver that sees it */
        double message_ns;   /* work of either end per message, whatever its size */
        double bytes_per_ns; /* of one host's link to all others; core bytes bound the classes inside a host */
    } link[MOTET_NLINK_CLASSES];
    double step_ns;              /* interpreting a step */
    double core_bytes_per_ns;    /* loads + stores of one core, all in the last-level cache */
    double combine_bytes_per_ns; /* operands added up; beside loading them */
    double switch_ns;            /* giving the core to another rank, when ranks outnumber cores */
    double piece_bytes;          /* what is forwarded before the rest has come */
};

extern const struct motet_cost_machine motet_cost_default;

/* Where the ranks run. */
struct motet_cost_world {
    const struct motet_cost_machine *machine; /* NULL: motet_cost_default */
    int ncpus, local_ranks;                   /* of the host with the fewest CPUs per rank; 0: one CPU for each rank */
    bool same_process; /* all ranks of a host are threads of one process: readers find most data where it lies */
    double lane_bytes; /* staging of a lane; 0: everything is one tile */
};

/* What is moved. */
struct motet_cost_load {
    double bytes;           /* of a plane: all blocks together */
    double size, wide_size; /* of an element, of its accumulator; only the ratio counts */
};

/* Bytes of one position. Messages count once per receiver, as everywhere. */
struct motet_cost_volume {
    double sent, received;         /* in messages, accumulators at their own width */
    double sent_net, received_net; /* of these, to and from other hosts */
    double core;                   /* loads + stores: operands, results, staging (once, however many read it) */
    int messages_sent, messages_received, rounds;
};

/* Volume of one expanded schedule. */
void motet_cost_volume(const struct motet_schedule *schedule, const struct motet_shape *shape, const struct motet_cost_world *world,
                       const struct motet_cost_load *load, struct motet_cost_volume *volume);

/* Builds the schedule of shape->position and adds up its volume. */
motetResult_t motet_cost_bytes(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                               const struct motet_cost_world *world, const struct motet_cost_load *load,
                               struct motet_cost_volume *volume);

/* Predicted time until the last position is done. Times the schedules of all positions against each other (a chain of N ranks looks like
 * one step from each of them, so no sample of positions shows its length). Larger shapes are extrapolated from three smaller ones. */
motetResult_t motet_cost_predict(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                 const struct motet_cost_world *world, const struct motet_cost_load *load, double *time_ns);

#endif
