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
        double latency_ns;        /* from the store of the sender to the load of the receiver that sees it */
        double message_ns;        /* work of either end per message, whatever its size */
        double bytes_per_ns;      /* of one host's link to all others; core bytes bound the classes inside a host */
        double rank_bytes_per_ns; /* of one position's own link, each way; 0: no such link */
    } link[MOTET_NLINK_CLASSES];
    double net_second_ns;                   /* over the network: what does not fit in a slot follows it, by so much later */
    double net_byte_ns;                     /* work of either end for a byte over the network, beside copying it */
    double call_ns, step_ns;                /* the engine: beginning and ending a call; interpreting a step */
    double short_call_ns;                   /* the same of a call on the short way (flat.h), its steps included */
    double core_bytes_per_ns;               /* loads + stores of one core, while a rank's data stay in its own cache */
    double shared_bytes_per_ns;             /* the same beyond that, in a cache that cores share */
    double memory_bytes_per_ns;             /* and beyond that, all cores at work */
    double cache_bytes, shared_cache_bytes; /* of one core; of a host */
    double fetch_bytes_per_ns;              /* of messages, loads of what another core stored, beside loading it */
    double fetch_start_ns;                  /* and once for each message that is not in its slot */
    double exchange_bytes_per_ns, exchange_start_ns; /* the same where messages cross: both cores fetch at once */
    double exchange_ns;                              /* and what messages that cross are noticed later by the engine */
    double combine_bytes_per_ns;                     /* operands added up; beside loading them */
    double combine_start_ns;                         /* and once for each step that adds */
    double switch_ns;                                /* giving the core to another rank, when ranks outnumber cores */
    double piece_bytes;                              /* what is forwarded before the rest has come */
    bool whole; /* nothing is forwarded before all of a message has come, whatever piece_bytes says */
};

/* Messages of at most so many bytes can take the short way (flat.c). */
#define MOTET_COST_SHORT_BYTES 16383

/* Messages of at most so many bytes are in their slot; from so many on they may be staged past the cache. */
#define MOTET_COST_SLOT_BYTES       40
#define MOTET_COST_PAST_CACHE_BYTES 2048

extern const struct motet_cost_machine motet_cost_default;

/* The default with what was measured instead, where it was. */
struct motet_speeds;
void motet_cost_machine_measured(const struct motet_speeds *speeds, struct motet_cost_machine *machine);

/* One speed for all that cores do with memory. */
void motet_cost_machine_core(struct motet_cost_machine *machine, double bytes_per_ns);

/* Where the ranks run. */
struct motet_cost_world {
    const struct motet_cost_machine *machine; /* NULL: motet_cost_default */
    int ncpus, local_ranks;                   /* of the host with the fewest CPUs per rank; 0: one CPU for each rank */
    bool same_process; /* all ranks of a host are threads of one process: readers find most data where it lies */
    double lane_bytes; /* staging of a lane; 0: everything is one tile */
    const int *host;   /* of a position, as links see it, for schedules that do not know the hosts; NULL: those of the shape */
};

/* What is moved. */
struct motet_cost_load {
    double bytes;           /* of a plane: all blocks together */
    double size, wide_size; /* of an element, of its accumulator; only the ratio counts */
};

/* What a predicted time is made of. The busiest resource works busiest_ns in each tile; the rest is latency, and waiting for it. */
enum motet_cost_resource { MOTET_COST_CORE, MOTET_COST_RANK_LINK, MOTET_COST_HOST_LINK };
struct motet_cost_time {
    double ns;
    double tile_ns, ntiles; /* of one tile alone; ns = tile_ns + (ntiles - 1) * what the next tile adds */
    double busiest_ns;
    enum motet_cost_resource busiest;
    int where;     /* its position or host; among equals the first */
    bool is_exact; /* false: continued from shapes of fewer positions, and `where` is of one of these */
};

/* When things happen in one tile: of steps and messages as the graph numbers them. */
struct motet_cost_timeline {
    double *begun, *ended; /* of a step: its core takes it up; all of it is done */
    double *arrived;       /* of a message: its last byte */
    double tile_bytes;     /* filled in: of a plane */
};

/* What one step (each == 0) moves and computes. */
struct motet_cost_work {
    double out, in;  /* bytes of one message */
    double core;     /* loads + stores without what the network costs */
    double fetched;  /* of these, what others stored, if they are on this host */
    double combined; /* operand bytes that are added up */
    int sends, receives;
};

struct motet_cost_work motet_cost_step_work(const struct motet_step *step, int position, const struct motet_shape *shape,
                                            const struct motet_cost_world *world, const struct motet_cost_load *load, int nchunks);

/* Bytes per ns of loads and stores of a core, where a rank moves so many bytes: which caches they stay in. */
double motet_cost_core_speed(const struct motet_cost_world *world, const struct motet_shape *shape, double bytes);

/* Bytes of one position. Messages count once per receiver, as everywhere. */
struct motet_cost_volume {
    double sent, received;         /* in messages, accumulators at their own width */
    double sent_net, received_net; /* of these, to and from other hosts */
    double core;                   /* loads + stores: operands, results, staging (once, however many read it) */
    int messages_sent, messages_received, rounds;
};

/* Whether the schedule is such that its calls take the short way where their messages are small and all peers share memory: one round in
 * which a position sends from its input, then only receives into its output. flat.c says the same of plans. */
bool motet_cost_is_short(const struct motet_schedule *schedule);

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

/* The same for several sizes, which share the schedules: times[k] is for bytes[k]; load->bytes is ignored. */
motetResult_t motet_cost_predict_sizes(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                       const struct motet_cost_world *world, const struct motet_cost_load *load,
                                       const double *bytes, int nsizes, struct motet_cost_time *times);

struct motet_graph;

/* Times the first tile of a graph, step by step. False: out of memory. */
bool motet_cost_trace(const struct motet_graph *graph, const struct motet_shape *shape, const struct motet_cost_world *world,
                      const struct motet_cost_load *load, struct motet_cost_timeline *timeline);

#endif
