/* SPDX-License-Identifier: Apache-2.0
 * Creating and freeing communicators. Creation is two all-gathers: who are you (and do our settings agree), then where is your
 * region and whom can you map. Both lead to the same picture on every rank: hosts are cliques of ranks that really map each other.
 * Communicators made from others are in membership.c. */
#include "comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "board.h"
#include "census.h"
#include "cost.h"
#include "dump_text.h"
#include "council.h"
#include "creation.h"
#include "engine.h"
#include "flat.h"
#include "footprint.h"
#include "ledger.h"
#include "mismatch.h"
#include "p2p.h"
#include "process.h"
#include "quarantine.h"
#include "segment.h"
#include "status.h"
#include "timing.h"
#include "topo_dump.h"
#include "tune.h"
#include "tuning.h"

#define PROTOCOL_VERSION 4 /* of everything ranks exchange; ranks of different versions refuse each other */

/* First exchange. The settings text follows. */
struct introduction {
    uint32_t protocol, settings_len;
    uint64_t id; /* rank 0's choice counts */
    int32_t nlanes;
    uint64_t lane_bytes, eager_bytes;
    char algorithms[128];
    struct motet_process process;
};

/* ---- Agreement ---- */

static motetResult_t make_introduction(const struct motet_options *options, const struct motet_process *process, void **blob,
                                       size_t *len)
{
    char *settings = motet_settings_wire_text();
    size_t settings_len = settings ? strlen(settings) : 0;
    struct introduction *introduction = settings ? calloc(1, sizeof *introduction + settings_len + 1) : NULL;
    if (!introduction) {
        free(settings);
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", options->name);
    }
    *introduction = (struct introduction){.protocol = PROTOCOL_VERSION,
                                          .settings_len = (uint32_t)settings_len,
                                          .nlanes = options->nlanes,
                                          .lane_bytes = options->lane_bytes,
                                          .eager_bytes = options->eager_bytes,
                                          .process = *process};
    memcpy(introduction->algorithms, options->algorithms, sizeof introduction->algorithms);
    memcpy(introduction + 1, settings, settings_len);
    free(settings);
    *blob = introduction;
    *len = sizeof *introduction + settings_len;
    return motet_random(&introduction->id, sizeof introduction->id);
}

/* First line in which two settings texts differ, as "NAME=value". */
static void differing_line(const char *a, const char *b, char *line_a, char *line_b, size_t len)
{
    while (*a && *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || memcmp(a, b, n) != 0) {
            snprintf(line_a, len, "%.*s", (int)n, a);
            snprintf(line_b, len, "%.*s", (int)m, b);
            return;
        }
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
}

static motetResult_t check_introductions(void *const *blobs, const size_t *lens, int nranks)
{
    const struct introduction *first = blobs[0];
    for (int r = 0; r < nranks; r++) {
        const struct introduction *other = blobs[r];
        if (lens[r] < sizeof *other || other->protocol != first->protocol)
            return motet_fail(motetInvalidUsage, "rank %d speaks protocol %u, rank 0 protocol %u: all ranks need the same motet", r,
                              lens[r] >= sizeof(uint32_t) ? other->protocol : 0, first->protocol);
        if (lens[r] != sizeof *other + other->settings_len)
            return motet_fail(motetRemoteError, "rank %d sent a malformed introduction of %zu bytes", r, lens[r]);
        if (other->settings_len != first->settings_len || memcmp(other + 1, first + 1, first->settings_len) != 0) {
            char mine[160] = "?", theirs[160] = "?";
            char *a = strndup((const char *)(first + 1), first->settings_len),
                 *b = strndup((const char *)(other + 1), other->settings_len);
            if (a && b)
                differing_line(a, b, mine, theirs, sizeof mine);
            free(a);
            free(b);
            return motet_fail(motetInvalidUsage, "settings differ: rank 0 has %s, rank %d has %s", mine, r, theirs);
        }
        if (other->nlanes != first->nlanes || other->lane_bytes != first->lane_bytes || other->eager_bytes != first->eager_bytes)
            return motet_fail(motetInvalidUsage,
                              "configurations differ: rank 0 has %d channels of %" PRIu64 " bytes, rank %d has %d of %" PRIu64,
                              first->nlanes, first->lane_bytes, r, other->nlanes, other->lane_bytes);
        if (memcmp(other->algorithms, first->algorithms, sizeof first->algorithms) != 0)
            return motet_fail(motetInvalidUsage, "configurations differ: rank 0 has algo \"%.127s\", rank %d has \"%.127s\"",
                              first->algorithms, r, other->algorithms);
    }
    return motetSuccess;
}

/* ---- Placement ---- */

motetResult_t motet_comm_place(motetComm_t comm, bool (*maps)(const void *context, int a, int b), const void *context)
{
    bool identity = motet_setting_int(MOTET_SET_DETERMINISTIC) != 0;
    int n = comm->nranks, *host_of = calloc((size_t)n, sizeof *host_of);
    comm->rank_at = calloc((size_t)n, sizeof(int));
    comm->position_of = calloc((size_t)n, sizeof(int));
    comm->host_first = calloc((size_t)n + 1, sizeof(int));
    if (!host_of || !comm->rank_at || !comm->position_of || !comm->host_first) {
        free(host_of);
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", comm->options.name);
    }
    int nhosts = 0;
    for (int r = 0; r < n; r++) {
        host_of[r] = -1;
        for (int h = 0; h < nhosts && host_of[r] < 0; h++) {
            bool all = true;
            for (int other = 0; other < r && all; other++)
                all = host_of[other] != h || (maps(context, r, other) && maps(context, other, r));
            if (all)
                host_of[r] = h;
        }
        if (host_of[r] < 0)
            host_of[r] = nhosts++;
    }
    for (int r = 1; identity && r < n; r++)
        if (host_of[r] < host_of[r - 1]) { /* not contiguous */
            for (int i = 0; i < n; i++)
                host_of[i] = i;
            nhosts = n;
            break;
        }
    int position = 0;
    for (int h = 0; h < nhosts; h++) {
        comm->host_first[h] = position;
        for (int r = 0; r < n; r++)
            if (host_of[r] == h) {
                comm->rank_at[position] = r;
                comm->position_of[r] = position++;
            }
    }
    comm->host_first[nhosts] = n;
    comm->nhosts = nhosts;
    comm->position = comm->position_of[comm->rank];
    free(host_of);
    return motetSuccess;
}

/* ---- Handles. Their memory is given back late: so a call with a destroyed handle is an error, not a crash. ---- */

#define SHELF 64 /* dead handles kept */

static struct {
    pthread_mutex_t lock;
    motetComm_t dead[SHELF];
    size_t first, count;
} shelf = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void shelve(motetComm_t comm)
{
    motetComm_t oldest = NULL;
    pthread_mutex_destroy(&comm->queue_lock);
    pthread_mutex_destroy(&comm->peers_lock);
    memset((char *)comm + sizeof comm->magic, 0, sizeof *comm - sizeof comm->magic); /* magic is 0, and may be being read */
    pthread_mutex_lock(&shelf.lock);
    if (shelf.count == SHELF) {
        oldest = shelf.dead[shelf.first];
        shelf.first = (shelf.first + 1) % SHELF;
        shelf.count--;
    }
    shelf.dead[(shelf.first + shelf.count++) % SHELF] = comm;
    pthread_mutex_unlock(&shelf.lock);
    free(oldest); /* a call with a handle destroyed that long ago is beyond help */
}

motetComm_t motet_comm_new(const struct motet_options *options)
{
    motetComm_t comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    comm->magic = MOTET_COMM_INIT_MAGIC;
    comm->options = *options;
    pthread_mutex_init(&comm->queue_lock, NULL);
    pthread_mutexattr_t recursive; /* telling others of a fault may come back to this handler (simulated connections) */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&comm->peers_lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    atomic_init(&comm->init_state, motetInProgress);
    return comm;
}

/* ---- Parts of a communicator ---- */

motetResult_t motet_comm_allocate(motetComm_t comm, int nranks, int rank)
{
    const struct motet_options *options = &comm->options;
    comm->nranks = nranks;
    comm->rank = rank;
    comm->layout = motet_layout_make(nranks, options->nlanes, options->lane_bytes, options->eager_bytes,
                                     (size_t)motet_setting_int(MOTET_SET_RECORDS));
    size_t planes = (size_t)options->nlanes * MOTET_NPLANES;
    comm->peers = calloc((size_t)nranks, sizeof *comm->peers);
    comm->lane_uses = calloc((size_t)options->nlanes, sizeof *comm->lane_uses);
    comm->done_seen = calloc((size_t)nranks, sizeof *comm->done_seen);
    comm->scratch = calloc(planes, sizeof *comm->scratch);
    comm->scratch_bytes = calloc(planes, sizeof *comm->scratch_bytes);
    if (!comm->peers || !comm->lane_uses || !comm->done_seen || !comm->scratch || !comm->scratch_bytes)
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", options->name);
    void *region;
    motetResult_t result = motet_segment_alloc(comm->layout.total, &region);
    if (result != motetSuccess) {
        motet_footprint_warn(comm);
        return result;
    }
    comm->region = region;
    comm->control = motet_region_control(comm->region);
    return motetSuccess;
}

motetResult_t motet_comm_open_windows(motetComm_t comm, struct motet_endpoint *const endpoints[])
{
    int n = comm->nranks;
    _Atomic uint8_t *holders = motet_region_holders(&comm->layout, comm->region);
    void **bases = calloc((size_t)n, sizeof *bases);
    if (!bases)
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", comm->options.name);
    motetResult_t result = motetSuccess;
    for (int r = 0; r < n && result == motetSuccess; r++) {
        struct motet_peer *peer = &comm->peers[r]; /* by rank until place_peers */
        *peer = (struct motet_peer){.rank = r,
                                    .endpoint = endpoints[r],
                                    .mapped = endpoints[r]->segment != NULL,
                                    .same_process = endpoints[r]->segment == motet_segment_base(),
                                    .local_index = -1};
        atomic_store(&holders[r], peer->mapped);
        if (peer->mapped)
            continue;
        bases[r] = mmap(NULL, comm->layout.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bases[r] == MAP_FAILED) {
            bases[r] = NULL;
            char what[64];
            snprintf(what, sizeof what, "the mirror of rank %d", r);
            result = motet_footprint_fail(comm, comm->layout.total, what);
        }
        peer->region = bases[r];
    }
    if (result == motetSuccess)
        result = motet_windows_open(n, bases, comm->layout.total, endpoints, n, motet_comm_control, comm, &comm->first_key);
    comm->has_windows = result == motetSuccess;
    free(bases);
    return result;
}

/* Brings peers from rank order into position order, and finds the ranks that share memory with this one. */
static motetResult_t place_peers_locked(motetComm_t comm, const struct motet_whereabouts *const *where)
{
    struct motet_peer *by_rank = comm->peers;
    int host = 0;
    while (comm->host_first[host + 1] <= comm->position)
        host++;
    comm->peers = calloc((size_t)comm->nranks, sizeof *comm->peers);
    if (!comm->peers) {
        comm->peers = by_rank;
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", comm->options.name);
    }
    for (int p = 0; p < comm->nranks; p++) {
        struct motet_peer *peer = &comm->peers[p];
        int r = comm->rank_at[p];
        *peer = by_rank[r];
        peer->key = where[r]->first_key + (uint64_t)comm->rank;
        if (peer->mapped)
            peer->region = peer->endpoint->segment + where[r]->region;
        comm->nmapped += peer->mapped;
        if (p >= comm->host_first[host] && p < comm->host_first[host + 1])
            peer->local_index = comm->nlocal++;
    }
    comm->leader = motet_region_control(comm->peers[comm->host_first[host]].region);
    comm->local_mask = 1ull << (comm->peers[comm->position].local_index % 64);
    free(by_rank);
    return motetSuccess;
}

motetResult_t motet_comm_place_peers(motetComm_t comm, const struct motet_whereabouts *const *where)
{
    pthread_mutex_lock(&comm->peers_lock);
    motetResult_t result = place_peers_locked(comm, where);
    comm->placed = result == motetSuccess;
    pthread_mutex_unlock(&comm->peers_lock);
    return result;
}

static void log_channels(motetComm_t comm)
{
    for (int c = 0; motet_log_on(MOTET_LOG_INFO, MOTET_LOG_INIT) && c < comm->options.nlanes; c++) {
        const struct motet_peer *next = &comm->peers[(comm->position + 1) % comm->nranks];
        INFO(MOTET_LOG_INIT, "Channel %02d : %d[%d] -> %d[%d] via %s", c, comm->rank, comm->position, next->rank,
             (comm->position + 1) % comm->nranks, next->endpoint->transport->name);
    }
    INFO(MOTET_LOG_INIT, "comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d", (void *)comm, comm->rank, comm->nranks,
         comm->nhosts, comm->nlocal, comm->peers[comm->position].local_index);
}

/* ---- Creation over a boot ---- */

struct reach_table {
    void *const *blobs; /* struct motet_whereabouts, then the bitmap, by rank */
};

static bool table_maps(const void *context, int a, int b)
{
    const struct reach_table *table = context;
    const uint8_t *bitmap = (const uint8_t *)((const struct motet_whereabouts *)table->blobs[a] + 1);
    return bitmap[b / 8] >> (b % 8) & 1;
}

static motetResult_t make_whereabouts(motetComm_t comm, void **blob, size_t *len)
{
    size_t bitmap_len = ((size_t)comm->nranks + 7) / 8;
    struct motet_whereabouts *where = calloc(1, sizeof *where + bitmap_len);
    if (!where)
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", comm->options.name);
    where->region = (uint64_t)(comm->region - (char *)motet_segment_base());
    where->first_key = comm->first_key;
    uint8_t *bitmap = (uint8_t *)(where + 1);
    for (int r = 0; r < comm->nranks; r++)
        if (comm->peers[r].mapped)
            bitmap[r / 8] |= (uint8_t)(1 << (r % 8));
    *blob = where;
    *len = sizeof *where + bitmap_len;
    return motetSuccess;
}

static motetResult_t connect_all(motetComm_t comm, struct motet_boot *boot, void *const *introductions)
{
    int n = comm->nranks;
    const struct motet_process **processes = calloc((size_t)n, sizeof *processes);
    struct motet_endpoint **endpoints = calloc((size_t)n, sizeof *endpoints);
    motetResult_t result = motetSuccess;
    if (!processes || !endpoints)
        result = motet_fail(motetSystemError, "out of memory while creating communicator %s", comm->options.name);
    for (int r = 0; result == motetSuccess && r < n; r++)
        processes[r] = &((const struct introduction *)introductions[r])->process;
    if (result == motetSuccess)
        result = motet_endpoint_connect_in(boot, processes, n, endpoints);
    if (result == motetSuccess) {
        result = motet_comm_open_windows(comm, endpoints);
        for (int r = 0; r < n; r++)
            comm->peers[r].endpoint = endpoints[r]; /* owned from here, also when windows failed */
    }
    free(processes);
    free(endpoints);
    return result;
}

static motetResult_t create(motetComm_t comm, struct motet_boot *boot, const struct motet_process *process)
{
    void *mine = NULL, **introductions = NULL, **where = NULL;
    size_t len = 0, *lens = NULL, *where_lens = NULL;
    motetResult_t result = make_introduction(&comm->options, process, &mine, &len);
    if (result == motetSuccess)
        result = motet_boot_allgather(boot, mine, len, &introductions, &lens);
    if (result == motetSuccess)
        result = check_introductions(introductions, lens, boot->nranks);
    if (result == motetSuccess)
        result = motet_comm_allocate(comm, boot->nranks, boot->rank);
    if (result == motetSuccess) {
        comm->id = ((struct introduction *)introductions[0])->id;
        comm->secret = boot->secret;
        result = connect_all(comm, boot, introductions);
    }
    free(mine);
    mine = NULL;
    if (result == motetSuccess)
        result = make_whereabouts(comm, &mine, &len);
    if (result == motetSuccess)
        result = motet_boot_allgather(boot, mine, len, &where, &where_lens);
    for (int r = 0; result == motetSuccess && r < boot->nranks; r++)
        if (where_lens[r] != len)
            result = motet_fail(motetRemoteError, "rank %d sent a malformed address of %zu bytes", r, where_lens[r]);
    if (result == motetSuccess)
        result = motet_comm_place(comm, table_maps, &(struct reach_table){where});
    if (result == motetSuccess)
        result = motet_comm_place_peers(comm, (const struct motet_whereabouts *const *)where);
    free(mine);
    free(introductions);
    free(where);
    return result;
}

/* CPUs that the ranks of a host have together: the quotas of their cgroups may be one and the same. */
static int cpus_of_host(const struct motetComm *comm, int h)
{
    struct motet_cpus cpus = {{0}};
    int limit = 0;
    for (int p = comm->host_first[h]; p < comm->host_first[h + 1]; p++) {
        const struct motet_process *process = &comm->peers[p].endpoint->process;
        motet_cpus_unite(&cpus, &process->cpus);
        if (process->cpu_limit > 0 && (limit == 0 || process->cpu_limit < limit))
            limit = process->cpu_limit;
    }
    int count = motet_cpus_count(&cpus);
    return limit > 0 && limit < count ? limit : count;
}

/* The host whose ranks outnumber its CPUs most: all ranks find the same one. */
static void find_crowd(motetComm_t comm)
{
    comm->crowd_cpus = comm->crowd_ranks = 0;
    for (int h = 0; h < comm->nhosts; h++) {
        int ranks = comm->host_first[h + 1] - comm->host_first[h], cpus = cpus_of_host(comm, h);
        if (comm->position >= comm->host_first[h] && comm->position < comm->host_first[h + 1])
            comm->ncpus = cpus;
        if (comm->crowd_ranks == 0 || (int64_t)ranks * comm->crowd_cpus > (int64_t)comm->crowd_ranks * cpus) {
            comm->crowd_ranks = ranks;
            comm->crowd_cpus = cpus;
        }
    }
}

/* What the region says of its owner to those who find it on the board. */
static void fill_card(motetComm_t comm)
{
    struct motet_card *card = &comm->control->card;
    const struct motet_process *self = &comm->peers[comm->position].endpoint->process;
    char state;
    card->id = comm->id;
    card->nrecords = comm->layout.nrecords;
    card->records = comm->layout.records;
    card->messages = comm->layout.messages;
    card->created_ns = motet_now_ns();
    card->timeout_ms = comm->options.timeout_ms;
    card->nranks = comm->nranks;
    card->rank = comm->rank;
    card->nlocal = comm->nlocal;
    card->nhosts = comm->nhosts;
    card->pid = self->pid;
    if (!motet_status_process(self->pid, &card->start_ticks, &state))
        card->start_ticks = 0;
    for (int p = 0; p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        card->nthreads += p != comm->position && peer->same_process;
        card->nshm += peer->mapped && !peer->same_process;
        card->nnet += !peer->mapped;
    }
    snprintf(card->name, sizeof card->name, "%s", comm->options.name);
    snprintf(card->host, sizeof card->host, "%s", self->host_name);
}

/* What all ranks' machines do, and the table of measured times if all have read the same. */
static motetResult_t find_speeds(motetComm_t comm, struct motet_tune_world *world, struct motet_cost_machine *machine)
{
    struct motet_speeds speeds;
    const struct motet_speeds **of = calloc((size_t)comm->nranks, sizeof(const struct motet_speeds *));
    if (!of)
        return motet_fail(motetSystemError, "out of memory while creating communicator %s", comm->options.name);
    for (int p = 0; p < comm->nranks; p++)
        of[p] = &comm->peers[p].endpoint->process.speeds;
    motet_census(of, comm->nranks, &speeds);
    uint64_t own = of[comm->position]->tuning;
    free(of);
    motet_cost_machine_measured(&speeds, machine);
    world->machine = machine;
    world->machines = speeds.machine;
    TRY(motet_tuning_load(&world->tuning));
    if (speeds.tuning == 0)
        world->tuning = NULL;
    if (speeds.tuning == 0 && own != 0)
        INFO(MOTET_LOG_TUNING, "comm %s: no measured times are used: not all ranks have read the same table", comm->options.name);
    return motetSuccess;
}

motetResult_t motet_comm_complete(motetComm_t comm)
{
    struct motet_cost_machine machine;
    find_crowd(comm);
    struct motet_tune_world world = {.nranks = comm->nranks,
                                     .nhosts = comm->nhosts,
                                     .host_first = comm->host_first,
                                     .ncpus = comm->crowd_cpus,
                                     .local_ranks = comm->crowd_ranks,
                                     .lane_bytes = comm->layout.lane_bytes,
                                     .algorithms = comm->options.algorithms[0] ? comm->options.algorithms : NULL};
    world.same_process = true;
    for (int p = 0; p < comm->nranks; p++) {
        world.same_process &= comm->peers[p].same_process;
        world.rotated |= comm->rank_at[p] != p;
    }
    TRY(find_speeds(comm, &world, &machine));
    TRY(motet_tuner_create(&world, &comm->tuner));
    if (comm->nlocal > comm->ncpus)
        INFO(MOTET_LOG_INIT, "comm %s: the %d ranks of this host share %d CPU%s: a rank that waits gives way at once",
             comm->options.name, comm->nlocal, comm->ncpus, comm->ncpus == 1 ? "" : "s");
    fill_card(comm);
    motet_board_post(comm->region);
    log_channels(comm);
    motet_process_note_failure(NULL);
    return motetSuccess;
}

/* Nobody leaves before everybody has read the last exchange: the meeting point may live in a rank that ends soon. */
static motetResult_t meet(motetComm_t comm)
{
    const struct motet_call call = {.collective = MOTET_BARRIER, .name = "CommInit", .dtype = motetUint8};
    return motet_engine_run(comm, &call);
}

motetResult_t motet_comm_create(motetComm_t comm, struct motet_boot *boot)
{
    struct motet_process process;
    motetResult_t result = motet_process_open(&process);
    comm->holds_process = result == motetSuccess;
    if (result == motetSuccess)
        result = create(comm, boot, &process);
    if (result == motetSuccess)
        result = motet_comm_complete(comm);
    if (result == motetSuccess)
        result = meet(comm);
    if (result == motetSuccess) {
        motet_ledger_open(comm, NULL, NULL, 0);
        motet_topo_dump(comm);
        comm->magic = MOTET_COMM_MAGIC;
    } else {
        motet_boot_give_up(boot, result, motet_error_text());
    }
    return result;
}

/* ---- End ---- */

/* Lets go of all regions: no word of this rank is written there any more. A peer that is dead lets go of the own one by this rank's hand. */
static void detach(motetComm_t comm)
{
    _Atomic uint8_t *own = motet_region_holders(&comm->layout, comm->region);
    for (int p = 0; p < comm->nranks; p++) {
        struct motet_peer *peer = &comm->peers[p];
        if (peer->mapped && peer->dead)
            atomic_store(&own[peer->rank], 0);
        if (peer->mapped)
            atomic_store(&motet_region_holders(&comm->layout, peer->region)[comm->rank], 0);
    }
}

/* Gives the own region back, now or when the last peer that may touch it has let go of it, or has died. */
static void give_region_back(motetComm_t comm)
{
    uint64_t number = motet_segment_free_when_unused(comm->region, motet_region_holders(&comm->layout, comm->region), comm->nranks);
    if (number)
        motet_quarantine_add(number, comm->peers, comm->nranks);
}

static void close_peers(motetComm_t comm)
{
    for (int p = 0; comm->peers && p < comm->nranks; p++) {
        if (!comm->peers[p].mapped && comm->peers[p].region)
            munmap(comm->peers[p].region, comm->layout.total);
        if (comm->peers[p].endpoint)
            motet_endpoint_release(comm->peers[p].endpoint);
    }
    free(comm->peers);
}

void motet_comm_close(motetComm_t comm)
{
    if (comm->control && comm->leader) /* posted, or nearly */
        motet_dump_keep(comm->region);
    motet_ledger_close(comm);
    if (comm->control && comm->leader)
        motet_board_remove(comm->region);
    comm->magic = 0;
    motet_council_leave(comm);
    if (comm->has_windows)
        motet_windows_close(comm->first_key);
    motet_council_free(comm);
    if (comm->control && comm->leader) { /* complete: peers know this region */
        uint64_t alive = MOTET_RANK_ALIVE;
        atomic_compare_exchange_strong(&comm->control->state, &alive, comm->abort ? MOTET_RANK_ABORTED : MOTET_RANK_FINALIZED);
        detach(comm);
    }
    if (comm->region && comm->leader)
        give_region_back(comm);
    else if (comm->region)
        motet_segment_free(comm->region);
    close_peers(comm);
    for (size_t i = 0; comm->scratch && i < (size_t)comm->options.nlanes * MOTET_NPLANES; i++)
        free(comm->scratch[i]);
    for (int i = 0; i < comm->nplans; i++)
        motet_plan_free(comm->plans[i]);
    motet_p2p_free(comm);
    free(comm->wait_answers);
    motet_comm_audit_free(comm);
    motet_timing_free(comm);
    motet_tuner_free(comm->tuner);
    for (struct motet_registration *entry = comm->registrations, *next; entry; entry = next) {
        next = entry->next;
        free(entry);
    }
    free(comm->premuls);
    free(comm->plans);
    free(comm->scratch);
    free(comm->scratch_bytes);
    free(comm->lane_uses);
    free(comm->done_seen);
    motet_flat_free(comm);
    free(comm->rank_at);
    free(comm->position_of);
    free(comm->host_first);
    bool last = comm->holds_process && motet_process_close();
    motet_quarantine_sweep(last);
    shelve(comm);
}
