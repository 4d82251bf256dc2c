/* SPDX-License-Identifier: Apache-2.0
 * The state of a simulation, shared by its files only: simulation.c makes it from a query, simulation_run.c runs ranks,
 * simulation_links.c moves messages, simulation_outcome.c says what came of it.
 *
 * A member is one rank in one stream; member = stream * nsimulated + rank. Where ranks are known to do the same at the same times (see
 * simulation.c), only the first `nsimulated` ranks are simulated and stand for the others: what one of them sends to rank q arrives at
 * member q mod nsimulated, who gets the same from the sender's counterpart at that moment.
 *
 * Times are whole picoseconds. Records hold messages under way, and steps that wait for a core; they come from one array and are linked by
 * their numbers, 0 is none. */
#ifndef MOTET_SIMULATION_STATE_H
#define MOTET_SIMULATION_STATE_H

#include "explanation.h"
#include "simulation_course.h"
#include "simulation_network.h"
#include "simulation_queue.h"

#define MOTET_SIMULATION_STREAMS 16
#define MOTET_SIMULATION_ROWS    256 /* of the use of links */
#define MOTET_SIMULATION_NEVER   UINT64_MAX
#define MOTET_SIMULATION_EARLY   4 /* lists of early messages of a lane, by round */

enum motet_simulation_event_kind {
    MOTET_SIMULATION_BEGIN, /* a member looks for something to start */
    MOTET_SIMULATION_HOP,   /* a record reaches a node */
    MOTET_SIMULATION_READY, /* a record has arrived */
    MOTET_SIMULATION_CORE,  /* the core of a rank is free */
    MOTET_SIMULATION_ROUND, /* the open round of a lane is over */
    MOTET_SIMULATION_MORE,  /* a record goes on with what it has begun */
};

/* What the last moments were spent on, along the chain of messages that led here; in picoseconds. */
struct motet_simulation_path {
    uint64_t start;                /* when its first member began: computing, before that */
    float queue, latency, core;    /* the rest is links */
    float link_ps, rank_ps;        /* what the worst link, the slowest rank took of it */
    uint32_t messages, link, rank; /* link, rank: + 1, 0 is none */
    uint32_t origin, reserved;
};

enum { MOTET_SIMULATION_STARTERS = -1, MOTET_SIMULATION_SENDING = -2 };

/* Two cache lines. */
struct motet_simulation_record {
    uint32_t next;       /* in a list */
    uint32_t sender, to; /* members; of steps that go on: to is their lane */
    int32_t dst_rank;    /* the receiver, as it is; of steps that go on: targets, or starters, served so far */
    int32_t entry, step; /* of the receiver's course; of steps that go on: of the own one */
    int32_t op, tile, round;
    int32_t at, dst; /* nodes; at may be STARTERS or SENDING */
    float bytes;
    uint64_t head, tail; /* of the data: the first piece, and everything, is there */
    uint64_t sent;       /* when it entered its first link */
    float piece;         /* on the slowest link so far */
    float back;          /* latency of the way so far */
    struct motet_simulation_path path;
};

_Static_assert(sizeof(struct motet_simulation_record) == 128, "two cache lines");

struct motet_simulation_link {
    uint64_t free, dead_at, latency_first, latency;
    double ps_per_byte, busy, bytes, reserved;
};

/* A step that waits for several messages. */
struct motet_simulation_gathering {
    uint64_t tail;
    uint32_t arrived;
};

struct motet_simulation_lane {
    int32_t op, tile, round; /* op -1: it is free */
    uint32_t member;
    int64_t left;                      /* steps of the open round that have not run */
    uint64_t closed;                   /* the last of the round so far */
    uint64_t last_read;                /* when the last reader of what it sent says so */
    int64_t unread;                    /* messages that nobody has taken yet */
    struct motet_simulation_path path; /* of what closed last */
    struct motet_simulation_gathering *gatherings;
    int32_t ngatherings;
    uint32_t early[MOTET_SIMULATION_EARLY], early_last[MOTET_SIMULATION_EARLY];
};

struct motet_simulation_member {
    int32_t op;        /* being run, or the next one; noperations: all done */
    bool begun;        /* op is */
    int32_t next_tile; /* to start */
    int32_t done_tiles;
    uint64_t begun_at, done_at; /* op; the last one that was done */
    uint64_t half_at;           /* half of the tiles that are simulated were done */
    uint64_t continued;         /* of done_at, what was not simulated */
    uint64_t wakes;             /* when it looks again; NEVER: not planned */
    struct motet_simulation_path path;
};

struct motet_simulation_operation {
    struct motet_courses *courses; /* shared by operations of one algorithm */
    int32_t stream, next;          /* next of the stream; -1 */
    int32_t first_lane;            /* tile t runs in lane (first_lane + t) mod nlanes */
    uint64_t computed;
    double bytes, tile_bytes, chunk_bytes, core_bytes_per_ns;
    int32_t ntiles, ntiles_simulated;
    double weight; /* of each tile that is simulated: ntiles / ntiles_simulated */
    uint64_t first_begin, last_end;
    int64_t ranks_done;
    const struct motet_algorithm *algorithm;
    enum motet_collective collective;
};

struct motet_simulation_rank {
    uint64_t core_free;
    uint64_t dead_at, news_at, told_at, late_by; /* news_at: hears of a death, and gives up */
    uint32_t waiting, waiting_last;              /* records that wait for the core */
    bool core_event;
    float slowness; /* 1: as all */
    uint64_t reserved;
};

struct motetSimulation {
    struct motet_explanation_scene scene;
    struct motet_network network;
    int32_t nranks, nsimulated, nstreams, nlanes, nmembers;
    int32_t *host; /* of a rank; NULL: each rank is a host */
    struct motet_simulation_link *links;
    struct motet_simulation_rank *ranks;
    struct motet_simulation_member *members;
    struct motet_simulation_lane *lanes;
    struct motet_simulation_operation *operations;
    int32_t noperations, first_of_stream[MOTET_SIMULATION_STREAMS];
    struct motet_courses **courses;
    int32_t ncourses;
    struct motet_simulation_queue queue;
    struct motet_simulation_record *records;
    uint32_t nrecords, room, free_record, in_use,
        most_records; /* in_use above most_records: senders wait until their link is free */
    uint64_t now;
    bool cores_are_free; /* work takes no time */
    bool any_dead;
    double jitter;
    uint64_t random;
    double nmessages, weighted_messages, weighted_bytes, expected;
    /* What was asked to be remembered. */
    motetSimulateMessage_t *log;
    int32_t nlog, log_room;
    float *use; /* nrows x nbins: picoseconds of links */
    int32_t nrows, nbins;
    uint64_t bin_ps;
    int32_t last_rank, failed_ranks;
    double memory;
    bool out_of_memory, no_way;
    uint64_t link_timeout_ps;
    uint64_t network_lost_at; /* a message was lost first; NEVER */
    int32_t lost_from, lost_to;
    int32_t dead_rank; /* that died first; -1 */
    bool dead_is_silent;
};

/* ---- simulation_run.c ---- */

/* Runs until nothing happens any more. False: memory ran out, or `progress` said so (*stopped). */
bool motet_simulation_run(struct motetSimulation *simulation, int (*progress)(void *, double), void *context, bool *stopped);

/* Number of a new record, zeroed; 0: no memory. Pointers to records are good until the next one is taken. */
uint32_t motet_simulation_take_record(struct motetSimulation *simulation);
void motet_simulation_drop_record(struct motetSimulation *simulation, uint32_t record);

/* Plans an event; one that lies in the past happens now. */
void motet_simulation_plan(struct motetSimulation *simulation, uint64_t time, enum motet_simulation_event_kind kind, uint32_t what);

/* ps, times 1 + jitter x an exponentially distributed number. */
uint64_t motet_simulation_vary(struct motetSimulation *simulation, uint64_t ps);

/* ---- simulation_links.c ---- */

/* A record whose sender, from, dst_rank, bytes, head, tail and path are set leaves. False: it was lost, and is no more. */
void motet_simulation_send(struct motetSimulation *simulation, uint32_t record);

/* A record has reached its node `at`: it takes the next link. */
void motet_simulation_hop(struct motetSimulation *simulation, uint32_t record);

/* When the first link of what `rank` sends to another host is free. */
uint64_t motet_simulation_out_free(const struct motetSimulation *simulation, int32_t rank);

/* ---- simulation_outcome.c ---- */

/* When the news that what `rank` does cannot be done reaches it; NEVER: all is well so far. */
uint64_t motet_simulation_news(const struct motetSimulation *simulation, int32_t rank);

/* Who hears of what, and when; the last rank. */
void motet_simulation_judge(struct motetSimulation *simulation);

/* ---- All ---- */

static inline int32_t motet_simulation_host(const struct motetSimulation *simulation, int32_t rank)
{
    return simulation->host ? simulation->host[rank] : rank;
}

static inline struct motet_simulation_rank *motet_simulation_rank_of(struct motetSimulation *simulation, uint32_t member)
{
    return &simulation->ranks[member % (uint32_t)simulation->nsimulated];
}

#endif
