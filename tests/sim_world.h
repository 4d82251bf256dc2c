/* SPDX-License-Identifier: Apache-2.0
 * Communicators of N ranks in one process and one thread, without a bootstrap: hosts of ranks that map each other's regions, joined by
 * simulated streams that cut and stall. Whoever tests drives the ranks in an order of their own choice, so that every interleaving repeats
 * from its seed. The choice of algorithms is replaced: the test names the row of each call. */
#ifndef MOTET_TESTS_SIM_WORLD_H
#define MOTET_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "comm.h"
#include "engine.h"
#include "link.h"
#include "segment.h"
#include "transport/rows.h"
#include "transport/sim.h"
#include "tune.h"

#define SIM_MAX_RANKS 33

enum sim_placement { SIM_ONE_HOST, SIM_TWO_ALIGNED, SIM_UNEVEN, SIM_ROUND_ROBIN, SIM_ONE_RANK_EACH, SIM_NPLACEMENTS };
static const char *const sim_placement_names[] = {"one host", "two aligned hosts", "hosts of 3, 5, 1, ...",
                                                  "round robin over hosts", "one rank per host"};

struct sim_options {
    int nranks;
    enum sim_placement placement;
    bool apart;  /* ranks of a host behave as processes: they read each other's shared segment, not plain addresses */
    bool staged; /* nobody reads the buffers of others */
    int nlanes;
    size_t lane_bytes, eager_bytes;
    uint64_t first_seq; /* calls that seem to have been made before */
    uint64_t seed;
    struct motet_sim_options stream;
};

struct sim_world {
    struct sim_options options;
    motetComm_t comms[SIM_MAX_RANKS];                             /* by rank */
    int host_of[SIM_MAX_RANKS];                                   /* by rank */
    struct motet_endpoint *streams[SIM_MAX_RANKS][SIM_MAX_RANKS]; /* [a][b]: a's end of the connection to b, where they have one */
    uint64_t random;
};

/* ---- The row of the next call, instead of the tuner's choice (the linker takes these definitions, not the library's) ---- */

struct motet_tuner {
    const struct motet_algorithm *row;
};

motetResult_t motet_tuner_create(const struct motet_tune_world *world, struct motet_tuner **tuner)
{
    (void)world;
    *tuner = calloc(1, sizeof **tuner);
    return *tuner ? motetSuccess : motetSystemError;
}

void motet_tuner_free(struct motet_tuner *tuner)
{
    free(tuner);
}

motetResult_t motet_tune_choose(struct motet_tuner *tuner, const struct motet_tune_request *request,
                                const struct motet_algorithm **algorithm)
{
    (void)request;
    *algorithm = tuner->row;
    return motetSuccess;
}

unsigned motet_tune_protocols(const struct motet_tuner *tuner, enum motet_collective collective)
{
    (void)tuner, (void)collective;
    return MOTET_PROTO_LL | MOTET_PROTO_SIMPLE | MOTET_PROTO_DIRECT;
}

static inline void sim_choose(motetComm_t comm, const struct motet_algorithm *row)
{
    comm->tuner->row = row;
}

/* ---- Chance ---- */

static inline uint64_t sim_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static inline uint64_t sim_random(struct sim_world *world, uint64_t limit)
{
    world->random = sim_mix(world->random);
    return world->random % limit;
}

/* ---- Making ---- */

#define SIM_REQUIRE(condition)                                                                                      \
    do {                                                                                                            \
        if (!(condition)) {                                                                                         \
            fprintf(stderr, "%s:%d: failed: %s (motet: %s)\n", __FILE__, __LINE__, #condition, motet_error_text()); \
            abort();                                                                                                \
        }                                                                                                           \
    } while (0)

static inline int sim_place(struct sim_world *world)
{
    int n = world->options.nranks, half = 1, nhosts = n < 3 ? n : 3;
    while (2 * half < n)
        half *= 2;
    static const int sizes[] = {3, 5, 1};
    for (int r = 0, host = 0, inside = 0; r < n; r++) {
        switch (world->options.placement) {
        case SIM_TWO_ALIGNED:
            world->host_of[r] = r / half;
            break;
        case SIM_UNEVEN:
            world->host_of[r] = host;
            if (++inside == sizes[host % 3])
                host++, inside = 0;
            break;
        case SIM_ROUND_ROBIN:
            world->host_of[r] = r % nhosts;
            break;
        case SIM_ONE_RANK_EACH:
            world->host_of[r] = r;
            break;
        default:
            world->host_of[r] = 0;
            break;
        }
    }
    int last = 0;
    for (int r = 0; r < n; r++)
        last = world->host_of[r] > last ? world->host_of[r] : last;
    return last + 1;
}

static inline bool sim_same_host(const struct sim_world *world, int a, int b)
{
    return world->host_of[a] == world->host_of[b];
}

static inline void sim_position_ranks(const struct sim_world *world, motetComm_t comm, int nhosts)
{
    int n = comm->nranks, position = 0;
    comm->nhosts = nhosts;
    for (int h = 0; h < nhosts; h++) {
        comm->host_first[h] = position;
        for (int r = 0; r < n; r++)
            if (world->host_of[r] == h) {
                comm->rank_at[position] = r;
                comm->position_of[r] = position++;
            }
    }
    comm->host_first[nhosts] = n;
    comm->position = comm->position_of[comm->rank];
}

static inline motetComm_t sim_allocate(const struct sim_world *world, int rank, int nhosts)
{
    const struct sim_options *o = &world->options;
    struct motet_options options = {.warn_after_ms = 0,
                                    .blocking = true,
                                    .direct = !o->staged,
                                    .nlanes = o->nlanes,
                                    .lane_bytes = o->lane_bytes,
                                    .eager_bytes = o->eager_bytes,
                                    .name = "sim"};
    motetComm_t comm = motet_comm_new(&options);
    size_t n = (size_t)o->nranks, planes = (size_t)o->nlanes * MOTET_NPLANES;
    void *region;
    SIM_REQUIRE(comm);
    comm->magic = MOTET_COMM_MAGIC;
    comm->nranks = o->nranks;
    comm->rank = rank;
    comm->ncpus = 1024;
    comm->layout = motet_layout_make(o->nranks, o->nlanes, o->lane_bytes, o->eager_bytes, 1024);
    comm->peers = calloc(n, sizeof *comm->peers);
    comm->rank_at = calloc(n, sizeof(int));
    comm->position_of = calloc(n, sizeof(int));
    comm->host_first = calloc(n + 1, sizeof(int));
    comm->lane_uses = calloc((size_t)o->nlanes, sizeof *comm->lane_uses);
    comm->done_seen = calloc(n, sizeof *comm->done_seen);
    comm->scratch = calloc(planes, sizeof *comm->scratch);
    comm->scratch_bytes = calloc(planes, sizeof *comm->scratch_bytes);
    SIM_REQUIRE(comm->peers && comm->rank_at && comm->position_of && comm->host_first && comm->lane_uses && comm->scratch);
    SIM_REQUIRE(motet_segment_alloc(comm->layout.total, &region) == motetSuccess);
    comm->region = region;
    comm->control = motet_region_control(comm->region);
    sim_position_ranks(world, comm, nhosts);
    SIM_REQUIRE(motet_tuner_create(NULL, &comm->tuner) == motetSuccess);
    return comm;
}

/* A region, or the mirror of one, as it is after first_seq calls. */
static inline void sim_age(const struct sim_world *world, const struct motet_layout *layout, char *region)
{
    uint64_t seq = world->options.first_seq;
    if (seq == 0)
        return;
    atomic_store(&motet_region_control(region)->done, motet_done_word(seq, MOTET_ALL_TILES));
    for (uint32_t lane = 0; lane < layout->nlanes; lane++)
        for (uint32_t s = 0; s < layout->nslots; s++) {
            struct motet_slot *slot = (struct motet_slot *)(region + motet_layout_slot(layout, (int)lane, (int)s));
            atomic_store(&slot->filled, seq << 32 | 1);
        }
}

static inline void sim_connect(struct sim_world *world, struct motet_endpoint *local)
{
    int n = world->options.nranks;
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (!sim_same_host(world, a, b))
                SIM_REQUIRE(motet_sim_endpoint_pair(sim_random(world, UINT64_MAX), &world->options.stream, &world->streams[a][b],
                                                    &world->streams[b][a]) == motetSuccess);
    for (int rank = 0; rank < n; rank++) {
        motetComm_t comm = world->comms[rank];
        struct motet_endpoint *endpoints[SIM_MAX_RANKS];
        void *mirrors[SIM_MAX_RANKS] = {NULL};
        for (int r = 0; r < n; r++) {
            struct motet_peer *peer = &comm->peers[comm->position_of[r]];
            endpoints[r] = world->streams[rank][r] ? world->streams[rank][r] : local;
            *peer = (struct motet_peer){.rank = r, .endpoint = endpoints[r], .mapped = !world->streams[rank][r], .local_index = -1};
            if (peer->mapped) {
                motet_endpoint_retain(local);
                peer->region = world->comms[r]->region;
                peer->same_process = !world->options.apart || r == rank;
                peer->local_index = comm->nlocal++;
                comm->nmapped++;
                continue;
            }
            mirrors[r] = mmap(NULL, comm->layout.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            SIM_REQUIRE(mirrors[r] != MAP_FAILED);
            peer->region = mirrors[r];
            sim_age(world, &comm->layout, peer->region);
        }
        for (int r = 0; r < n; r++)
            atomic_store(&motet_region_holders(&comm->layout, comm->region)[r], !world->streams[rank][r]);
        SIM_REQUIRE(motet_windows_open(n, mirrors, comm->layout.total, endpoints, n, motet_comm_control, comm, &comm->first_key) ==
                    motetSuccess);
        comm->has_windows = true;
    }
}

static inline void sim_world_open(struct sim_world *world, const struct sim_options *options)
{
    struct motet_process self = {.pid = getpid(), .host_name = "here"};
    memset(world, 0, sizeof *world);
    world->options = *options;
    world->random = options->seed;
    if (!world->options.nlanes)
        world->options.nlanes = 2;
    if (!world->options.lane_bytes)
        world->options.lane_bytes = 64 * 1024;
    if (!world->options.eager_bytes)
        world->options.eager_bytes = 16 * 1024;
    SIM_REQUIRE(options->nranks >= 1 && options->nranks <= SIM_MAX_RANKS);
    SIM_REQUIRE(motet_segment_hold() == motetSuccess);
    struct motet_link *local = motet_link_make(&self);
    SIM_REQUIRE(local && motet_link_attach(local, &motet_direct_transport, NULL, NULL) == motetSuccess);
    int n = options->nranks, nhosts = sim_place(world);
    for (int r = 0; r < n; r++) {
        world->comms[r] = sim_allocate(world, r, nhosts);
        world->comms[r]->seq = options->first_seq;
        for (int p = 0; p < n; p++)
            world->comms[r]->done_seen[p] = motet_done_word(options->first_seq, options->first_seq ? MOTET_ALL_TILES : 0);
        sim_age(world, &world->comms[r]->layout, world->comms[r]->region);
    }
    sim_connect(world, &local->endpoint);
    motet_link_unref(local);
    for (int r = 0; r < n; r++) {
        motetComm_t comm = world->comms[r];
        for (int p = 0; p < n; p++)
            comm->peers[p].key = world->comms[comm->peers[p].rank]->first_key + (uint64_t)r;
        int first = 0;
        while (!comm->peers[first].mapped)
            first++;
        comm->leader = motet_region_control(comm->peers[first].region);
        comm->placed = true;
        comm->local_mask = 1ull << comm->peers[comm->position].local_index % 64;
    }
}

static inline void sim_world_close(struct sim_world *world)
{
    for (int r = 0; r < world->options.nranks; r++)
        motet_comm_close(world->comms[r]);
    motet_segment_drop();
}

/* Bytes that ranks of different hosts have sent each other so far, frames and words included; nothing is under way. */
static inline uint64_t sim_bytes_between_hosts(const struct sim_world *world)
{
    uint64_t sum = 0;
    for (int a = 0; a < world->options.nranks; a++)
        for (int b = a + 1; b < world->options.nranks; b++)
            if (world->streams[a][b])
                sum += motet_sim_moved(motet_link_of(world->streams[a][b])->channel) / 2;
    return sum;
}

#endif
