/* SPDX-License-Identifier: Apache-2.0
 * Time of all schedules against each other: see cost.h.
 *
 * Steps run in the order in which they can start. A position's core does one thing at a time; a host's link to other hosts carries
 * one byte at a time each way. A step can forward its first piece long before its last one has come, so each step has two times: `head`,
 * when its first piece leaves, and `tail`, when it is complete. Only + - * / and comparisons are used: all ranks get the same bits. */
#include "cost_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph.h"

/* Shapes with more positions are extrapolated. Fewer where many ranks compute this on few cores: 64 of them on 2 cores would spend 0.2 s. */
#define EXACT_RANKS_ONE_HOST   32
#define EXACT_RANKS_CROWDED    16
#define EXACT_RANKS_MANY_HOSTS 64

/* The line after a slot, that of staged data, comes sooner than the slot: so much of its time. */
#define NEXT_LINE 0.6

/* Ranks that share a core: one publishes, another looks, and each of them looks again. */
#define SWITCHES_PER_HOP 1.15

/* ---- Time ---- */

/* Events by time, at equal times by number: step g may start; number nsteps + c: core c is free. */
struct timing {
    const struct motet_cost_model *model;
    const struct motet_graph *graph;
    double crowd;               /* ranks that share one core, at least 1 */
    double *first, *all;        /* per step: when its first piece, and everything, has come from its round and its senders */
    int32_t *pending;           /* per step: messages not there yet, + 1 while its round is closed */
    double *free_at, *work;     /* per core: it is free; its work so far */
    double *round_done;         /* per position: last step of the open round */
    int32_t *core, *core_first; /* core of a position; first position of a core. Neighbours share */
    int32_t *left;              /* per position: steps of the open round that have not run */
    int32_t *host;              /* of a position */
    double *out_free, *in_free, *carried;                /* per host: its link is free, each way; time it was busy outwards */
    double *rank_out_free, *rank_in_free, *rank_carried; /* the same for a position's own link */
    const struct motet_cost_timeline *timeline;          /* NULL: nobody asked */
    int32_t *events, nevents;                            /* a heap */
    int32_t *waiting, *nwaiting; /* per core, from its first step on: a heap of steps that wait for it, the first listed on top */
    int32_t *busy;               /* per core: it runs a step; the event of its end is to come */
    int32_t *crosses;            /* of a step: in its round its position sends what waits for nothing, and receives */
    double done;                 /* the last step so far */
    int nhosts;
};

/* Ranks that share a core, at least 1. */
static double crowd_of(const struct motet_cost_world *world)
{
    return world->ncpus > 0 && world->local_ranks > world->ncpus ? (double)world->local_ranks / world->ncpus : 1;
}

static double event_time(const struct timing *timing, int event)
{
    int nsteps = timing->graph->nsteps;
    return event < nsteps ? timing->first[event] : timing->free_at[event - nsteps];
}

static bool event_is_before(const struct timing *timing, int a, int b)
{
    double time_a = event_time(timing, a), time_b = event_time(timing, b);
    return time_a < time_b || (time_a <= time_b && a < b);
}

static bool step_is_before(const struct timing *timing, int a, int b)
{
    (void)timing;
    return a < b;
}

typedef bool is_before(const struct timing *timing, int a, int b);

static void heap_push(const struct timing *timing, int32_t *heap, int n, int item, is_before *before)
{
    int at = n;
    for (; at > 0 && before(timing, item, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

/* Takes the top of n items. */
static int heap_pop(const struct timing *timing, int32_t *heap, int n, is_before *before)
{
    int top = heap[0], last = heap[n - 1], at = 0;
    for (int child; (child = 2 * at + 1) < n - 1; at = child) {
        if (child + 1 < n - 1 && before(timing, heap[child + 1], heap[child]))
            child++;
        if (!before(timing, heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

static void add_event(struct timing *timing, int event)
{
    heap_push(timing, timing->events, timing->nevents++, event, event_is_before);
}

static void later(double *time, double than)
{
    if (*time < than)
        *time = than;
}

static void one_less(struct timing *timing, int g)
{
    if (--timing->pending[g] == 0)
        add_event(timing, g);
}

static void open_round(struct timing *timing, int p, int first, double at)
{
    const struct motet_graph *graph = timing->graph;
    if (first == graph->first_step[p + 1])
        return;
    timing->left[p] = graph->round_end[first] - first;
    timing->round_done[p] = at;
    for (int g = first; g < graph->round_end[first]; g++) {
        later(&timing->first[g], at);
        later(&timing->all[g], at);
        one_less(timing, g);
    }
}

/* A message takes a link as soon as it is free. Returns when; *tail: its last byte is over. */
static double cross(double *link_free, double begin, double on_wire, double *tail)
{
    later(link_free, begin);
    begin = *link_free;
    *link_free += on_wire;
    later(tail, *link_free);
    return begin;
}

static double piece_of(const struct motet_cost_machine *machine, double on_wire, double bytes)
{
    return bytes > machine->piece_bytes ? on_wire * machine->piece_bytes / bytes : on_wire;
}

static bool is_whole(const struct timing *timing)
{
    return timing->model->machine->whole || timing->model->is_short;
}

/* Whether messages of steps a and b cross: both positions send and then look for what the other sends. */
static bool is_crossing(const struct timing *timing, int a, int b)
{
    return timing->crosses[a] && timing->crosses[b];
}

/* Marks the steps of a round. */
static void mark_round(const struct timing *timing, int first, int end)
{
    const struct motet_graph *graph = timing->graph;
    bool sends = false, receives = false;
    for (int g = first; g < end; g++) {
        bool in = graph->in_first[g + 1] > graph->in_first[g];
        sends |= !in && graph->out_first[g + 1] > graph->out_first[g];
        receives |= in;
    }
    for (int g = first; g < end; g++)
        timing->crosses[g] = sends && receives;
}

/* Message m of `bytes` from step s of position p with these times. */
static void deliver(struct timing *timing, int p, int s, int m, double head, double tail, double bytes)
{
    const struct motet_cost_machine *machine = timing->model->machine;
    int g = timing->graph->out[m], to = timing->graph->position[g], from_host = timing->host[p], to_host = timing->host[to];
    enum motet_link_class class = motet_cost_link_class(timing->model, from_host, to_host);
    double latency = machine->link[class].latency_ns, rank_speed = machine->link[class].rank_bytes_per_ns;
    double on_rank_wire = rank_speed > 0 ? bytes / rank_speed : 0, begin = head;
    if (timing->crowd > 1)
        latency += machine->switch_ns * timing->crowd * SWITCHES_PER_HOP;
    else if (class != MOTET_LINK_NET && !timing->model->is_short && is_crossing(timing, s, g))
        latency += machine->exchange_ns;
    if (class == MOTET_LINK_NET && bytes > MOTET_COST_SLOT_BYTES)
        latency += machine->net_second_ns;
    if (rank_speed > 0) {
        begin = cross(&timing->rank_out_free[p], head, on_rank_wire, &tail);
        timing->rank_carried[p] += on_rank_wire;
        head = begin + piece_of(machine, on_rank_wire, bytes);
    }
    if (class == MOTET_LINK_NET) {
        double on_wire = bytes / machine->link[class].bytes_per_ns;
        begin = cross(&timing->out_free[from_host], begin, on_wire, &tail);
        timing->carried[from_host] += on_wire;
        later(&head, begin + piece_of(machine, on_wire, bytes));
        cross(&timing->in_free[to_host], begin, on_wire, &tail);
    }
    if (rank_speed > 0) {
        begin = cross(&timing->rank_in_free[to], begin, on_rank_wire, &tail);
        later(&head, begin + piece_of(machine, on_rank_wire, bytes));
    }
    if (is_whole(timing))
        later(&head, tail);
    if (timing->timeline)
        timing->timeline->arrived[m] = tail + latency;
    later(&timing->first[g], head + latency);
    later(&timing->all[g], tail + latency);
    one_less(timing, g);
}

/* Work of the core per message, and for the kernel's copies of what other hosts are sent or send. */
static double message_ns(const struct timing *timing, int g, const struct motet_cost_work *work)
{
    const struct motet_graph *graph = timing->graph;
    const struct motet_cost_machine *machine = timing->model->machine;
    int host = timing->host[graph->position[g]];
    double ns = 0, byte_ns = machine->net_byte_ns + 2 / machine->core_bytes_per_ns;
    for (int m = graph->out_first[g]; m < graph->out_first[g + 1]; m++) {
        enum motet_link_class class = motet_cost_link_class(timing->model, host, timing->host[graph->position[graph->out[m]]]);
        bool first_local = class != MOTET_LINK_NET && m == graph->out_first[g];
        ns += class == MOTET_LINK_NET ? machine->link[class].message_ns + work->out * byte_ns
              : first_local           ? machine->link[class].message_ns /* one line, however many read it */
                                      : 0;
    }
    for (int k = graph->in_first[g]; k < graph->in_first[g + 1]; k++) {
        enum motet_link_class class = motet_cost_link_class(timing->model, host, timing->host[graph->position[graph->in[k]]]);
        ns += machine->link[class].message_ns + (class == MOTET_LINK_NET ? work->in * byte_ns : 0);
    }
    return ns;
}

/* What loading a message costs that is in another core's cache. It is staged unless it fits into its slot; to look there is to wait for another
 * line. Long ones may go past the cache, which is slower to begin with. */
static double fetch_message_ns(const struct timing *timing, double bytes, bool crosses)
{
    const struct motet_cost_machine *machine = timing->model->machine;
    double start_ns = crosses ? machine->exchange_start_ns : machine->fetch_start_ns;
    if (bytes <= MOTET_COST_SLOT_BYTES)
        start_ns = 0;
    else if (bytes < MOTET_COST_PAST_CACHE_BYTES && start_ns > NEXT_LINE * machine->link[MOTET_LINK_SHARED].latency_ns)
        start_ns = NEXT_LINE * machine->link[MOTET_LINK_SHARED].latency_ns;
    return start_ns + bytes / (crosses ? machine->exchange_bytes_per_ns : machine->fetch_bytes_per_ns);
}

/* All messages of a step. With more ranks than cores, a rank that passes on what it receives gives its core away for each piece that has not
 * come yet. */
static double fetch_ns(const struct timing *timing, int g, const struct motet_cost_work *work)
{
    const struct motet_graph *graph = timing->graph;
    const struct motet_cost_machine *machine = timing->model->machine;
    int host = timing->host[graph->position[g]], local = 0;
    double ns = 0;
    for (int k = graph->in_first[g]; k < graph->in_first[g + 1]; k++) {
        if (timing->host[graph->position[graph->in[k]]] != host)
            continue;
        local++;
        ns += fetch_message_ns(timing, work->in, is_crossing(timing, g, graph->in[k]));
    }
    if (local > 0 && timing->crowd > 1 && work->sends > 0 && work->in > machine->piece_bytes)
        ns += machine->switch_ns * work->in / machine->piece_bytes;
    return ns;
}

static void run_step(struct timing *timing, int g)
{
    const struct motet_graph *graph = timing->graph;
    const struct motet_cost_machine *machine = timing->model->machine;
    int p = graph->position[g], core = timing->core[p];
    const struct motet_step *step = motet_graph_step(graph, g);
    struct motet_cost_work work = motet_cost_work_of(timing->model, step, p);
    double fixed = (timing->model->is_short ? 0 : machine->step_ns) + message_ns(timing, g, &work);
    double moving = work.core / timing->model->core_bytes_per_ns + fetch_ns(timing, g, &work) +
                    work.combined / machine->combine_bytes_per_ns + (work.combined > 0 ? machine->combine_start_ns : 0);
    double bytes = work.out > work.in ? work.out : work.in;
    double first_piece = bytes > machine->piece_bytes ? moving * machine->piece_bytes / bytes : moving;
    later(&timing->free_at[core], timing->first[g]);
    double head = timing->free_at[core] + fixed + first_piece;
    timing->free_at[core] += fixed + moving;
    timing->work[core] += fixed + moving;
    double tail = timing->all[g] + first_piece;
    later(&tail, timing->free_at[core]);
    if (is_whole(timing))
        head = tail;
    if (timing->timeline) {
        timing->timeline->begun[g] = timing->free_at[core] - fixed - moving;
        timing->timeline->ended[g] = tail;
    }
    later(&timing->round_done[p], tail);
    later(&timing->done, tail);
    for (int m = graph->out_first[g]; m < graph->out_first[g + 1]; m++)
        deliver(timing, p, g, m, head, tail, work.out);
    if (--timing->left[p] == 0)
        open_round(timing, p, graph->round_end[g], timing->round_done[p]);
}

/* A step that may start runs at once if the core is free; else it waits, and the first listed of those that wait runs next. */
static void handle(struct timing *timing, int event)
{
    const struct motet_graph *graph = timing->graph;
    bool core_is_free = event >= graph->nsteps;
    int core = core_is_free ? event - graph->nsteps : timing->core[graph->position[event]];
    int32_t *waiting = timing->waiting + graph->first_step[timing->core_first[core]], *nwaiting = &timing->nwaiting[core];
    if (!core_is_free)
        heap_push(timing, waiting, (*nwaiting)++, event, step_is_before);
    timing->busy[core] &= !core_is_free;
    if (*nwaiting == 0 || timing->busy[core])
        return;
    timing->busy[core] = true;
    run_step(timing, heap_pop(timing, waiting, (*nwaiting)--, step_is_before));
    add_event(timing, graph->nsteps + core);
}

/* Neighbours on a host share a core, `crowd` of them. */
static void deal_out_cores(struct timing *timing)
{
    const struct motet_graph *graph = timing->graph;
    int ncores = 0, on_host = 0;
    double used = 0;
    for (int p = 0; p < graph->nranks; p++) {
        timing->host[p] = motet_cost_host_of(timing->model->world, timing->model->shape, p);
        on_host = p > 0 && timing->host[p] == timing->host[p - 1] ? on_host + 1 : 0;
        if (on_host == 0 || on_host >= used + timing->crowd) {
            used = on_host == 0 ? 0 : used + timing->crowd;
            timing->core_first[ncores++] = p;
        }
        timing->core[p] = ncores - 1;
    }
}

static void run_all(struct timing *timing)
{
    const struct motet_graph *graph = timing->graph;
    deal_out_cores(timing);
    for (int g = 0; g < graph->nsteps; g++)
        timing->pending[g] = 1 + graph->in_first[g + 1] - graph->in_first[g];
    for (int g = 0; g < graph->nsteps; g = graph->round_end[g])
        mark_round(timing, g, graph->round_end[g]);
    for (int p = 0; p < graph->nranks; p++)
        open_round(timing, p, graph->first_step[p], 0);
    while (timing->nevents > 0)
        handle(timing, heap_pop(timing, timing->events, timing->nevents--, event_is_before));
}

/* The busiest core or link: the least time between two tiles. */
static void find_busiest(const struct timing *timing, struct motet_cost_time *time)
{
    const double *loads[] = {
        [MOTET_COST_CORE] = timing->work, [MOTET_COST_RANK_LINK] = timing->rank_carried, [MOTET_COST_HOST_LINK] = timing->carried};
    for (int resource = MOTET_COST_CORE; resource <= MOTET_COST_HOST_LINK; resource++) {
        int n = resource == MOTET_COST_HOST_LINK ? timing->nhosts : timing->graph->nranks;
        for (int k = 0; k < n; k++) {
            if (loads[resource][k] <= time->busiest_ns)
                continue;
            time->busiest_ns = loads[resource][k];
            time->busiest = (enum motet_cost_resource)resource;
            time->where = resource == MOTET_COST_CORE ? timing->core_first[k] : k;
        }
    }
}

/* Time of one tile, and its busiest resource. */
static bool time_tile(const struct motet_cost_model *model, const struct motet_graph *graph,
                      const struct motet_cost_timeline *timeline, struct motet_cost_time *time)
{
    size_t nsteps = (size_t)graph->nsteps + 1, nranks = (size_t)graph->nranks, nhosts = (size_t)model->shape->nhosts;
    for (int p = 0; model->world->host && p < graph->nranks; p++)
        nhosts = (size_t)model->world->host[p] >= nhosts ? (size_t)model->world->host[p] + 1 : nhosts;
    double *times = calloc(2 * nsteps + 6 * nranks + 3 * nhosts, sizeof(*times));
    int32_t *numbers = calloc(4 * nsteps + 7 * nranks, sizeof(*numbers));
    bool ok = times && numbers;
    if (ok) {
        struct timing timing = {.model = model,
                                .graph = graph,
                                .crowd = crowd_of(model->world),
                                .first = times,
                                .pending = numbers,
                                .timeline = timeline,
                                .nhosts = (int)nhosts};
        timing.all = times + nsteps;
        timing.free_at = timing.all + nsteps;
        timing.work = timing.free_at + nranks;
        timing.round_done = timing.work + nranks;
        timing.rank_out_free = timing.round_done + nranks;
        timing.rank_in_free = timing.rank_out_free + nranks;
        timing.rank_carried = timing.rank_in_free + nranks;
        timing.out_free = timing.rank_carried + nranks;
        timing.in_free = timing.out_free + nhosts;
        timing.carried = timing.in_free + nhosts;
        timing.events = numbers + nsteps;
        timing.waiting = timing.events + nsteps + nranks;
        timing.nwaiting = timing.waiting + nsteps;
        timing.left = timing.nwaiting + nranks;
        timing.host = timing.left + nranks;
        timing.busy = timing.host + nranks;
        timing.core = timing.busy + nranks;
        timing.core_first = timing.core + nranks;
        timing.crosses = timing.core_first + nranks;
        run_all(&timing);
        *time = (struct motet_cost_time){.tile_ns = timing.done, .ntiles = 1, .is_exact = true};
        find_busiest(&timing, time);
    }
    free(times);
    free(numbers);
    return ok;
}

/* Tiles into which the load is cut, at most world->lane_bytes each. */
static double tiles_of(const struct motet_graph *graph, const struct motet_cost_world *world, const struct motet_cost_load *load)
{
    const struct motet_schedule *schedule = &graph->schedules[0];
    if (world->lane_bytes <= 0 || schedule->stage_chunks <= 0)
        return 1;
    double most = world->lane_bytes / schedule->stage_chunks * motet_schedule_nchunks(schedule);
    if (load->wide_size > load->size)
        most *= load->size / load->wide_size;
    return load->bytes > most ? (double)(int64_t)(load->bytes / most) + 1 : 1;
}

/* All peers share memory, the schedules of all positions are such, and no message is long. */
static bool is_short(const struct motet_graph *graph, const struct motet_shape *shape, const struct motet_cost_world *world,
                     const struct motet_cost_load *tile)
{
    if (shape->nhosts > 1 || world->host || tile->bytes / motet_schedule_nchunks(&graph->schedules[0]) > MOTET_COST_SHORT_BYTES)
        return false;
    for (int p = 0; p < graph->nranks; p++)
        if (!motet_cost_is_short(&graph->schedules[p]))
            return false;
    return true;
}

/* What a call costs beside its steps. */
static double call_ns(const struct motet_cost_model *model, double crowd)
{
    return (model->is_short ? model->machine->short_call_ns : model->machine->call_ns) * crowd;
}

/* Times the load tile by tile; two tiles are in flight. */
static bool time_graph(const struct motet_graph *graph, const struct motet_shape *shape, const struct motet_cost_world *world,
                       const struct motet_cost_load *load, struct motet_cost_time *time)
{
    struct motet_cost_load tile = *load;
    double ntiles = tiles_of(graph, world, load);
    tile.bytes = load->bytes / ntiles;
    struct motet_cost_model model = motet_cost_model_make(shape, world, &tile, motet_schedule_nchunks(&graph->schedules[0]));
    model.core_bytes_per_ns = motet_cost_core_speed(world, shape, load->bytes);
    model.is_short = ntiles <= 1 && is_short(graph, shape, world, &tile);
    if (!time_tile(&model, graph, NULL, time))
        return false;
    double between = time->busiest_ns;
    later(&between, time->tile_ns / 2);
    time->ntiles = ntiles;
    time->ns = call_ns(&model, crowd_of(world)) + time->tile_ns + (ntiles - 1) * between;
    return true;
}

bool motet_cost_trace(const struct motet_graph *graph, const struct motet_shape *shape, const struct motet_cost_world *world,
                      const struct motet_cost_load *load, struct motet_cost_timeline *timeline)
{
    struct motet_cost_load tile = *load;
    struct motet_cost_time time;
    tile.bytes = timeline->tile_bytes = load->bytes / tiles_of(graph, world, load);
    struct motet_cost_model model = motet_cost_model_make(shape, world, &tile, motet_schedule_nchunks(&graph->schedules[0]));
    return time_tile(&model, graph, timeline, &time);
}

/* Times for a shape of few positions: everything is built. */
static motetResult_t predict_exactly(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                     const struct motet_cost_world *world, const struct motet_cost_load *load, const double *bytes,
                                     int nsizes, struct motet_cost_time *times)
{
    struct motet_schedule *schedules = calloc((size_t)shape->nranks, sizeof(*schedules));
    struct motet_graph graph = {0};
    bool ok = schedules;
    for (int p = 0; ok && p < shape->nranks; p++) {
        struct motet_shape own = *shape;
        own.position = p;
        algorithm->build(&schedules[p], &own);
        motet_schedule_expand(&schedules[p]);
        ok = !schedules[p].out_of_memory;
    }
    ok = ok && motet_graph_build(&graph, schedules, shape->nranks);
    for (int k = 0; ok && k < nsizes; k++) {
        struct motet_cost_load sized = *load;
        sized.bytes = bytes[k];
        ok = time_graph(&graph, shape, world, &sized, &times[k]);
    }
    motet_graph_free(&graph);
    for (int p = 0; schedules && p < shape->nranks; p++)
        motet_schedule_free(&schedules[p]);
    free(schedules);
    return ok ? motetSuccess
              : motet_fail(motetSystemError, "out of memory while predicting the time of %s %s on %d ranks",
                           motet_collective_name(algorithm->collective), algorithm->name, shape->nranks);
}

/* The same world with n positions, a power of two: as many ranks per host as far as at least two hosts remain. */
static motetResult_t predict_smaller(const struct motet_algorithm *algorithm, const struct motet_shape *shape, int n,
                                     const struct motet_cost_world *world, const struct motet_cost_load *load, const double *bytes,
                                     int nsizes, struct motet_cost_time *times)
{
    int host_first[EXACT_RANKS_MANY_HOSTS + 1], nhosts = 1;
    while (shape->nhosts > 1 && nhosts < n && (nhosts < 2 || (int64_t)2 * nhosts * shape->nranks <= (int64_t)shape->nhosts * n))
        nhosts *= 2;
    for (int h = 0; h <= nhosts; h++)
        host_first[h] = h * (n / nhosts);
    struct motet_shape smaller = {.nranks = n, .nhosts = nhosts, .host_first = host_first};
    return predict_exactly(algorithm, &smaller, world, load, bytes, nsizes, times);
}

/* What a quantity is at nranks if it is q, h and f at n / 4, n / 2 and n. Each doubling adds growth times what the last one added: 1 for
 * logarithms, 2 for chains, 1/2 for what approaches a limit. */
static double extrapolate(double q, double h, double f, int n, int nranks)
{
    double added = f - h, before = h - q, growth = before > 0 ? added / before : 1;
    if (added <= 0)
        return f;
    growth = growth < 0.5 ? 0.5 : growth > 2.2 ? 2.2 : growth;
    for (added *= growth; nranks >= 2 * n; n *= 2, added *= growth)
        f += added;
    return f + added * (nranks - n) / n;
}

/* Sizes that are continued at once; the last one is 0 bytes: latency and the rest grow differently. */
#define CONTINUED_SIZES 32

static motetResult_t predict_by_continuing(const struct motet_algorithm *algorithm, const struct motet_shape *shape, int n,
                                           const struct motet_cost_world *world, const struct motet_cost_load *load,
                                           const double *bytes, int nsizes, struct motet_cost_time *times)
{
    struct motet_cost_time at[3][CONTINUED_SIZES + 1];
    double sizes[CONTINUED_SIZES + 1] = {0};
    memcpy(sizes, bytes, (size_t)nsizes * sizeof(*sizes));
    for (int k = 0; k < 3; k++)
        TRY(predict_smaller(algorithm, shape, n >> (2 - k), world, load, sizes, nsizes + 1, at[k]));
    double latency[3] = {at[0][nsizes].ns, at[1][nsizes].ns, at[2][nsizes].ns};
    for (int s = 0; s < nsizes; s++) {
        times[s] = at[2][s];
        times[s].is_exact = false;
        times[s].ns = extrapolate(latency[0], latency[1], latency[2], n, shape->nranks) +
                      extrapolate(at[0][s].ns - latency[0], at[1][s].ns - latency[1], at[2][s].ns - latency[2], n, shape->nranks);
    }
    return motetSuccess;
}

motetResult_t motet_cost_predict_sizes(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                       const struct motet_cost_world *world, const struct motet_cost_load *load,
                                       const double *bytes, int nsizes, struct motet_cost_time *times)
{
    bool crowded = world->ncpus > 0 && world->local_ranks > world->ncpus;
    int n = crowded ? EXACT_RANKS_CROWDED : shape->nhosts > 1 || world->host ? EXACT_RANKS_MANY_HOSTS : EXACT_RANKS_ONE_HOST;
    if (shape->nranks <= n)
        return predict_exactly(algorithm, shape, world, load, bytes, nsizes, times);
    for (int done = 0; done < nsizes; done += CONTINUED_SIZES) {
        int some = nsizes - done < CONTINUED_SIZES ? nsizes - done : CONTINUED_SIZES;
        TRY(predict_by_continuing(algorithm, shape, n, world, load, bytes + done, some, times + done));
    }
    return motetSuccess;
}

motetResult_t motet_cost_predict(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                                 const struct motet_cost_world *world, const struct motet_cost_load *load, double *time_ns)
{
    struct motet_cost_time time = {0};
    TRY(motet_cost_predict_sizes(algorithm, shape, world, load, &load->bytes, 1, &time));
    *time_ns = time.ns;
    return motetSuccess;
}
