/* SPDX-License-Identifier: Apache-2.0
 * Ranks of a simulation: operations, tiles in lanes, rounds, steps and cores, as the engine does them. A tile starts when its lane is free:
 * the tile before it in this lane is done, and whoever read from it has said so. A step starts when its round is open, its messages are
 * there (the first piece of them, where pieces are passed on) and the core has time for it; the core takes steps as they come. */
#include <stdlib.h>
#include <string.h>

#include "simulation_state.h"

#define EVENTS_BETWEEN_REPORTS (1u << 18)

/* ---- Records, events, chance ---- */

static bool grow(struct motetSimulation *simulation)
{
    uint32_t room = 2 * simulation->room;
    struct motet_simulation_record *more = NULL;
    if (room > UINT32_MAX / 4 || posix_memalign((void **)&more, 64, room * sizeof(*more)) != 0) {
        simulation->out_of_memory = true;
        return false;
    }
    memcpy(more, simulation->records, simulation->room * sizeof(*more));
    free(simulation->records);
    simulation->records = more;
    simulation->room = room;
    return true;
}

uint32_t motet_simulation_take_record(struct motetSimulation *simulation)
{
    uint32_t number = simulation->free_record;
    if (number)
        simulation->free_record = simulation->records[number].next;
    else if (simulation->nrecords < simulation->room || grow(simulation))
        number = simulation->nrecords++;
    else
        return 0;
    simulation->in_use++;
    memset(&simulation->records[number], 0, sizeof(simulation->records[number]));
    return number;
}

void motet_simulation_drop_record(struct motetSimulation *simulation, uint32_t record)
{
    simulation->records[record].next = simulation->free_record;
    simulation->free_record = record;
    simulation->in_use--;
}

void motet_simulation_plan(struct motetSimulation *simulation, uint64_t time, enum motet_simulation_event_kind kind, uint32_t what)
{
    motet_simulation_queue_add(
        &simulation->queue,
        (struct motet_simulation_event){.time = time > simulation->now ? time : simulation->now, .what = what, .kind = kind});
}

static uint64_t next_random(struct motetSimulation *simulation)
{
    uint64_t z = simulation->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Exponentially distributed with mean 1, by comparisons alone (von Neumann 1951): the same on every machine. */
static double next_exponential(struct motetSimulation *simulation)
{
    for (int whole = 0;; whole++) {
        uint64_t first = next_random(simulation), before = first, next;
        int n = 1;
        while ((next = next_random(simulation)) < before) {
            before = next;
            n++;
        }
        if (n % 2)
            return whole + (double)(first >> 11) * 0x1p-53;
    }
}

uint64_t motet_simulation_vary(struct motetSimulation *simulation, uint64_t ps)
{
    if (simulation->jitter <= 0 || ps == 0)
        return ps;
    return (uint64_t)((double)ps * (1 + simulation->jitter * next_exponential(simulation)));
}

/* ---- Finding things ---- */

static const struct motet_course *course_at(const struct motet_simulation_operation *operation, int32_t rank)
{
    const struct motet_courses *courses = operation->courses;
    return &courses->courses[courses->of[rank < courses->period ? rank : rank % courses->period]];
}

static uint32_t lane_at(const struct motetSimulation *simulation, uint32_t member, int32_t op, int32_t tile)
{
    int32_t lane = (simulation->operations[op].first_lane + tile) % simulation->nlanes;
    return member * (uint32_t)simulation->nlanes + (uint32_t)lane;
}

static int32_t rank_at(const struct motetSimulation *simulation, uint32_t member)
{
    return (int32_t)(member % (uint32_t)simulation->nsimulated);
}

static void wake(struct motetSimulation *simulation, uint32_t number, uint64_t time)
{
    struct motet_simulation_member *member = &simulation->members[number];
    time = time > simulation->now ? time : simulation->now;
    if (member->wakes <= time)
        return;
    member->wakes = time;
    motet_simulation_plan(simulation, time, MOTET_SIMULATION_BEGIN, number);
}

/* ---- Messages of a step ---- */

/* Where message k of an entry arrives. */
static bool find_receive(const struct motet_simulation_operation *operation, const struct motet_course *own,
                         const struct motet_course_entry *entry, int32_t k, int32_t to, int32_t distance, int32_t nranks,
                         struct motet_course_hit *hit)
{
    const struct motet_courses *courses = operation->courses;
    int32_t other = courses->of[to < courses->period ? to : to % courses->period];
    struct motet_course_hit *before = own->hits ? &own->hits[entry->first_message + k] : NULL;
    if (before && before->course == other) {
        *hit = *before;
        return true;
    }
    int32_t ordinal = entry->ordinals < 0 ? entry->ordinal : own->ordinals[entry->ordinals + k];
    const struct motet_course_receive *receive = motet_course_match(&courses->courses[other], distance, ordinal, nranks);
    if (!receive)
        return false;
    *hit = (struct motet_course_hit){other, receive->entry, receive->step, courses->courses[other].entries[receive->entry].round};
    if (before)
        *before = *hit;
    return true;
}

/* Target k of step `step` of an entry. */
static bool emit(struct motetSimulation *simulation, const struct motet_simulation_lane *lane,
                 const struct motet_course_entry *entry, int32_t k, uint64_t head, uint64_t tail,
                 const struct motet_simulation_path *path)
{
    const struct motet_simulation_operation *operation = &simulation->operations[lane->op];
    int32_t from = rank_at(simulation, lane->member), n = simulation->nranks;
    const struct motet_course *own = course_at(operation, from);
    int32_t to = motet_course_peer(&entry->to, k, from, n), distance = to > from ? to - from : to - from + n;
    struct motet_course_hit hit;
    uint32_t number = find_receive(operation, own, entry, k, to, distance, n, &hit) ? motet_simulation_take_record(simulation) : 0;
    if (!number) {
        simulation->no_way |= !simulation->out_of_memory;
        return false;
    }
    struct motet_simulation_record *record = &simulation->records[number];
    record->sender = lane->member;
    record->to = lane->member - (uint32_t)from + (uint32_t)(to < simulation->nsimulated ? to : to % simulation->nsimulated);
    record->dst_rank = to;
    record->entry = hit.entry;
    record->step = hit.step;
    record->op = lane->op;
    record->tile = lane->tile;
    record->round = hit.round;
    record->bytes = (float)((double)entry->out * operation->chunk_bytes);
    record->head = head;
    record->tail = tail;
    record->path = *path;
    simulation->nmessages++;
    simulation->weighted_messages += operation->weight;
    simulation->weighted_bytes += operation->weight * (double)record->bytes;
    motet_simulation_send(simulation, number);
    return true;
}

/* Where too much is under way, a sender waits until its link is free: it would have to wait there anyway. */
static bool must_wait(const struct motetSimulation *simulation, int32_t rank, uint64_t *until)
{
    if (simulation->in_use <= simulation->most_records)
        return false;
    *until = motet_simulation_out_free(simulation, rank);
    return *until > simulation->now;
}

/* All targets of a step from number `done` on. */
static void emit_all(struct motetSimulation *simulation, uint32_t lane_number, int32_t entry_number, int32_t step, int32_t done,
                     uint64_t head, uint64_t tail, const struct motet_simulation_path *path)
{
    struct motet_simulation_lane *lane = &simulation->lanes[lane_number];
    int32_t rank = rank_at(simulation, lane->member);
    const struct motet_course_entry *entry = &course_at(&simulation->operations[lane->op], rank)->entries[entry_number];
    bool is_row = entry->count > 1;
    int32_t n = is_row ? 1 : motet_course_npeers(&entry->to);
    if (entry->to.n == 0)
        return;
    for (uint64_t until; done < n; done++) {
        if (done > 0 && must_wait(simulation, rank, &until)) {
            uint32_t number = motet_simulation_take_record(simulation);
            if (!number)
                return;
            struct motet_simulation_record *record = &simulation->records[number];
            record->to = lane_number;
            record->entry = entry_number;
            record->dst_rank = done;
            record->head = head;
            record->tail = tail;
            record->path = *path;
            record->at = MOTET_SIMULATION_SENDING;
            motet_simulation_plan(simulation, until, MOTET_SIMULATION_MORE, number);
            return;
        }
        if (!emit(simulation, lane, entry, is_row ? step : done, head, tail, path))
            return;
    }
}

/* ---- Steps ---- */

struct work {
    uint64_t fixed, moving, first_piece;
};

/* What a core has to do for a message to or from a peer, as the cost model says. */
static double message_ns(const struct motetSimulation *simulation, int32_t rank, int32_t peer, double bytes, bool is_repeated)
{
    const struct motet_cost_machine *machine = &simulation->scene.machine;
    if (motet_simulation_host(simulation, rank) != motet_simulation_host(simulation, peer))
        return machine->link[MOTET_LINK_NET].message_ns + 2 * bytes / machine->core_bytes_per_ns;
    enum motet_link_class class = simulation->scene.world.same_process ? MOTET_LINK_THREADS : MOTET_LINK_SHARED;
    return is_repeated ? 0 : machine->link[class].message_ns;
}

static struct work work_of(struct motetSimulation *simulation, int32_t rank, const struct motet_simulation_operation *operation,
                           const struct motet_course_entry *entry, int32_t step)
{
    const struct motet_cost_machine *machine = &simulation->scene.machine;
    bool is_row = entry->count > 1;
    double out = (double)entry->out * operation->chunk_bytes, in = (double)entry->in * operation->chunk_bytes;
    double bytes = out > in ? out : in, fixed = machine->step_ns, slowness = (double)simulation->ranks[rank].slowness;
    double moving = (double)entry->core * operation->chunk_bytes / operation->core_bytes_per_ns +
                    (double)entry->combined * operation->chunk_bytes / machine->combine_bytes_per_ns;
    int32_t nlocal = 0, n = simulation->nranks, nto = motet_course_npeers(&entry->to), nfrom = motet_course_npeers(&entry->from);
    for (int32_t k = is_row ? step : 0; k < (is_row && nto ? step + 1 : nto); k++)
        fixed += message_ns(simulation, rank, motet_course_peer(&entry->to, k, rank, n), out, k > 0 && !is_row);
    for (int32_t k = is_row ? step : 0; k < (is_row && nfrom ? step + 1 : nfrom); k++)
        fixed += message_ns(simulation, rank, motet_course_peer(&entry->from, k, rank, n), in, false);
    for (int32_t k = is_row ? step : 0; k < (is_row && nfrom ? step + 1 : nfrom); k++)
        nlocal += motet_simulation_host(simulation, rank) ==
                  motet_simulation_host(simulation, motet_course_peer(&entry->from, k, rank, n));
    moving += nlocal * in / machine->fetch_bytes_per_ns;
    const struct motet_cost_world *world = &simulation->scene.world;
    if (world->ncpus > 0 && world->local_ranks > world->ncpus)
        slowness *= (double)world->local_ranks / world->ncpus;
    if (simulation->jitter > 0)
        slowness *= (double)motet_simulation_vary(simulation, UINT64_C(1) << 32) * 0x1p-32;
    double first = bytes > machine->piece_bytes ? moving * machine->piece_bytes / bytes : moving, ps = 1e3 * slowness;
    return (struct work){(uint64_t)(fixed * ps), (uint64_t)(moving * ps), (uint64_t)(first * ps)};
}

/* A step has run: its data go out, and its round knows. */
static void run_step(struct motetSimulation *simulation, uint32_t lane_number, int32_t entry_number, int32_t step, uint64_t ready,
                     uint64_t all, struct motet_simulation_path path, uint64_t *used)
{
    struct motet_simulation_lane *lane = &simulation->lanes[lane_number];
    const struct motet_simulation_operation *operation = &simulation->operations[lane->op];
    int32_t rank = rank_at(simulation, lane->member);
    const struct motet_course_entry *entry = &course_at(operation, rank)->entries[entry_number];
    uint64_t head = simulation->now, tail = all > head ? all : head;
    if (!simulation->cores_are_free) {
        struct motet_simulation_rank *core = &simulation->ranks[rank];
        struct work work = work_of(simulation, rank, operation, entry, step);
        head = simulation->now + work.fixed + work.first_piece;
        core->core_free = simulation->now + work.fixed + work.moving;
        tail = all + work.first_piece > core->core_free ? all + work.first_piece : core->core_free;
        float held = (float)(head - ready);
        path.core += held;
        if (path.rank == (uint32_t)rank + 1)
            path.rank_ps += held;
        else if (held > path.rank_ps) {
            path.rank = (uint32_t)rank + 1;
            path.rank_ps = held;
        }
    }
    if (simulation->scene.machine.whole)
        head = tail;
    *used = tail;
    if (entry->to.n > 0) {
        lane->unread += entry->count > 1 ? 1 : motet_course_npeers(&entry->to);
        emit_all(simulation, lane_number, entry_number, step, 0, head, tail, &path);
    }
    if (tail >= lane->closed) {
        lane->closed = tail;
        lane->path = path;
    }
    if (--lane->left == 0)
        motet_simulation_plan(simulation, lane->closed, MOTET_SIMULATION_ROUND, lane_number);
}

/* Who sent it may use its lane again when all is read. */
static void note_read(struct motetSimulation *simulation, const struct motet_simulation_record *record)
{
    struct motet_simulation_lane *lane = &simulation->lanes[lane_at(simulation, record->sender, record->op, record->tile)];
    uint64_t known = simulation->now + (uint64_t)record->back;
    lane->last_read = known > lane->last_read ? known : lane->last_read;
    if (--lane->unread == 0 && lane->op < 0)
        wake(simulation, lane->member, lane->last_read);
}

static void log_message(struct motetSimulation *simulation, const struct motet_simulation_record *record, uint64_t used)
{
    if (simulation->nlog == simulation->log_room)
        return;
    simulation->log[simulation->nlog++] = (motetSimulateMessage_t){
        .from = rank_at(simulation, record->sender),
        .to = record->dst_rank,
        .operation = record->op,
        .tile = record->tile,
        .bytes = (double)record->bytes,
        .sentNs = (double)record->sent * 1e-3,
        .arrivedNs = (double)record->tail * 1e-3,
        .usedNs = (double)used * 1e-3,
    };
}

/* ---- Cores ---- */

static void wait_for_core(struct motetSimulation *simulation, struct motet_simulation_rank *rank, uint32_t number)
{
    simulation->records[number].next = 0;
    if (rank->waiting)
        simulation->records[rank->waiting_last].next = number;
    else
        rank->waiting = number;
    rank->waiting_last = number;
    if (!rank->core_event) {
        rank->core_event = true;
        motet_simulation_plan(simulation, rank->core_free, MOTET_SIMULATION_CORE, (uint32_t)(rank - simulation->ranks));
    }
}

/* The step for which a message came last; the core is free. */
static void run_message(struct motetSimulation *simulation, uint32_t number)
{
    struct motet_simulation_record record = simulation->records[number];
    uint64_t used;
    motet_simulation_drop_record(simulation, number);
    run_step(simulation, lane_at(simulation, record.to, record.op, record.tile), record.entry, record.step, record.head,
             record.tail, record.path, &used);
    note_read(simulation, &record);
    log_message(simulation, &record, used);
}

/* Steps that wait for nothing, one after the other. to: the lane; entry: number of the starter, step: in its row. */
static void run_starters(struct motetSimulation *simulation, uint32_t number)
{
    for (;;) {
        struct motet_simulation_record record = simulation->records[number];
        struct motet_simulation_lane *lane = &simulation->lanes[record.to];
        int32_t rank = rank_at(simulation, lane->member);
        const struct motet_course *course = course_at(&simulation->operations[lane->op], rank);
        int32_t entry = course->starters[record.entry], last = course->starter_first[record.round + 1];
        uint64_t until, used;
        if (record.dst_rank > 0 && must_wait(simulation, rank, &until)) {
            motet_simulation_plan(simulation, until, MOTET_SIMULATION_MORE, number);
            return;
        }
        if (++simulation->records[number].step >= course->entries[entry].count) {
            simulation->records[number].step = 0;
            simulation->records[number].entry++;
        }
        simulation->records[number].dst_rank = 1;
        bool is_last = simulation->records[number].entry == last;
        run_step(simulation, record.to, entry, record.step, simulation->now, record.tail, record.path, &used);
        if (is_last) {
            motet_simulation_drop_record(simulation, number);
            return;
        }
        if (simulation->out_of_memory || simulation->no_way)
            return;
        if (!simulation->cores_are_free) {
            wait_for_core(simulation, &simulation->ranks[rank], number);
            return;
        }
    }
}

static void give_to_core(struct motetSimulation *simulation, uint32_t number, uint32_t member)
{
    struct motet_simulation_rank *rank = motet_simulation_rank_of(simulation, member);
    if (!simulation->cores_are_free && (rank->waiting || rank->core_free > simulation->now))
        wait_for_core(simulation, rank, number);
    else if (simulation->records[number].at == MOTET_SIMULATION_STARTERS)
        run_starters(simulation, number);
    else
        run_message(simulation, number);
}

static void handle_core(struct motetSimulation *simulation, struct motet_simulation_rank *rank)
{
    uint32_t number = rank->waiting;
    rank->core_event = false;
    if (!number)
        return;
    rank->waiting = simulation->records[number].next;
    if (simulation->records[number].at == MOTET_SIMULATION_STARTERS)
        run_starters(simulation, number);
    else
        run_message(simulation, number);
    if (rank->waiting && !rank->core_event) {
        rank->core_event = true;
        motet_simulation_plan(simulation, rank->core_free, MOTET_SIMULATION_CORE, (uint32_t)(rank - simulation->ranks));
    }
}

/* ---- Arrivals ---- */

/* A message whose round is open. */
static void arrive(struct motetSimulation *simulation, struct motet_simulation_lane *lane, uint32_t number)
{
    struct motet_simulation_record *record = &simulation->records[number];
    const struct motet_course *course = course_at(&simulation->operations[lane->op], rank_at(simulation, lane->member));
    const struct motet_course_entry *entry = &course->entries[record->entry];
    if (entry->multi >= 0) {
        struct motet_simulation_gathering *gathering = &lane->gatherings[entry->multi];
        gathering->tail = record->tail > gathering->tail ? record->tail : gathering->tail;
        if (++gathering->arrived < (uint32_t)entry->nsources) {
            struct motet_simulation_record read = *record;
            motet_simulation_drop_record(simulation, number);
            note_read(simulation, &read);
            log_message(simulation, &read, read.tail);
            return;
        }
        record->tail = gathering->tail;
        *gathering = (struct motet_simulation_gathering){0};
    }
    give_to_core(simulation, number, lane->member);
}

static bool is_of_open_round(const struct motet_simulation_lane *lane, const struct motet_simulation_record *record)
{
    return lane->op == record->op && lane->tile == record->tile && lane->round == record->round;
}

/* Puts a message aside until its round is open. */
static void keep_early(struct motetSimulation *simulation, struct motet_simulation_lane *lane, int list, uint32_t number)
{
    simulation->records[number].next = 0;
    if (lane->early[list])
        simulation->records[lane->early_last[list]].next = number;
    else
        lane->early[list] = number;
    lane->early_last[list] = number;
}

static void handle_ready(struct motetSimulation *simulation, uint32_t number)
{
    struct motet_simulation_record *record = &simulation->records[number];
    struct motet_simulation_lane *lane = &simulation->lanes[lane_at(simulation, record->to, record->op, record->tile)];
    if (is_of_open_round(lane, record))
        arrive(simulation, lane, number);
    else
        keep_early(simulation, lane, record->round % MOTET_SIMULATION_EARLY, number);
}

/* What came too early for the round that is open now. */
static void take_early(struct motetSimulation *simulation, struct motet_simulation_lane *lane, struct motet_simulation_path path)
{
    int list = lane->round % MOTET_SIMULATION_EARLY;
    uint32_t number = lane->early[list];
    lane->early[list] = lane->early_last[list] = 0;
    for (uint32_t next; number; number = next) {
        struct motet_simulation_record *record = &simulation->records[number];
        next = record->next;
        if (!is_of_open_round(lane, record)) {
            keep_early(simulation, lane, list, number);
            continue;
        }
        uint32_t messages = record->path.messages;
        record->path = path;
        record->path.messages = path.messages > messages ? path.messages : messages;
        record->head = simulation->now;
        record->tail = record->tail > simulation->now ? record->tail : simulation->now;
        arrive(simulation, lane, number);
    }
}

/* ---- Rounds, tiles, operations ---- */

static void end_operation(struct motetSimulation *simulation, struct motet_simulation_member *member)
{
    struct motet_simulation_operation *operation = &simulation->operations[member->op];
    int32_t more = operation->ntiles - operation->ntiles_simulated, half = operation->ntiles_simulated / 2;
    uint64_t done = simulation->now;
    if (more > 0)
        done += (uint64_t)((double)(done - member->half_at) / (operation->ntiles_simulated - half) * more);
    member->continued = done - simulation->now;
    member->done_at = done;
    operation->last_end = done > operation->last_end ? done : operation->last_end;
    operation->ranks_done++;
    member->op = operation->next < 0 ? simulation->noperations : operation->next;
    member->begun = false;
    if (operation->next >= 0)
        wake(simulation, (uint32_t)(member - simulation->members), done);
}

static void end_tile(struct motetSimulation *simulation, struct motet_simulation_lane *lane)
{
    struct motet_simulation_member *member = &simulation->members[lane->member];
    const struct motet_simulation_operation *operation = &simulation->operations[lane->op];
    member->done_tiles++;
    if (member->done_tiles == operation->ntiles_simulated / 2)
        member->half_at = simulation->now;
    lane->op = -1;
    member->path = lane->path;
    if (member->done_tiles == operation->ntiles_simulated)
        end_operation(simulation, member);
    else if (lane->unread == 0)
        wake(simulation, lane->member, lane->last_read);
}

static void open_round(struct motetSimulation *simulation, uint32_t lane_number)
{
    struct motet_simulation_lane *lane = &simulation->lanes[lane_number];
    const struct motet_course *course = course_at(&simulation->operations[lane->op], rank_at(simulation, lane->member));
    if (++lane->round == course->nrounds) {
        end_tile(simulation, lane);
        return;
    }
    struct motet_simulation_path path = lane->path;
    lane->left = course->round_steps[lane->round];
    lane->closed = simulation->now;
    if (course->starter_first[lane->round] < course->starter_first[lane->round + 1]) {
        uint32_t number = motet_simulation_take_record(simulation);
        if (!number)
            return;
        struct motet_simulation_record *record = &simulation->records[number];
        record->to = lane_number;
        record->entry = course->starter_first[lane->round];
        record->round = lane->round;
        record->tail = simulation->now;
        record->path = path;
        record->at = MOTET_SIMULATION_STARTERS;
        give_to_core(simulation, number, lane->member);
    }
    if (lane->early[lane->round % MOTET_SIMULATION_EARLY])
        take_early(simulation, lane, path);
}

static void open_tile(struct motetSimulation *simulation, struct motet_simulation_member *member, uint32_t lane_number)
{
    struct motet_simulation_lane *lane = &simulation->lanes[lane_number];
    const struct motet_course *course = course_at(&simulation->operations[member->op], rank_at(simulation, lane->member));
    if (course->nmulti > lane->ngatherings) {
        free(lane->gatherings);
        lane->gatherings = calloc((size_t)course->nmulti, sizeof(*lane->gatherings));
        lane->ngatherings = lane->gatherings ? course->nmulti : 0;
        if (!lane->gatherings) {
            simulation->out_of_memory = true;
            return;
        }
    }
    if (member->next_tile < simulation->nlanes)
        lane->path = member->path;
    lane->op = member->op;
    lane->tile = member->next_tile++;
    lane->round = -1;
    open_round(simulation, lane_number);
}

static bool begin_operation(struct motetSimulation *simulation, uint32_t number)
{
    struct motet_simulation_member *member = &simulation->members[number];
    struct motet_simulation_operation *operation = &simulation->operations[member->op];
    const struct motet_simulation_rank *rank = motet_simulation_rank_of(simulation, number);
    uint64_t ready = (uint64_t)((double)operation->computed * (double)rank->slowness) + rank->late_by;
    if (ready < member->done_at)
        ready = member->done_at;
    if (ready > simulation->now) {
        wake(simulation, number, ready);
        return false;
    }
    if (member->done_at == 0 || simulation->now > member->done_at)
        member->path = (struct motet_simulation_path){.start = simulation->now, .origin = (uint32_t)rank_at(simulation, number)};
    if (!simulation->cores_are_free) {
        struct motet_simulation_rank *core = motet_simulation_rank_of(simulation, number);
        uint64_t free = core->core_free > simulation->now ? core->core_free : simulation->now;
        core->core_free = free + (uint64_t)(simulation->scene.machine.call_ns * 1e3 * (double)core->slowness);
    }
    member->begun = true;
    member->next_tile = member->done_tiles = 0;
    member->begun_at = simulation->now;
    operation->first_begin = simulation->now < operation->first_begin ? simulation->now : operation->first_begin;
    return true;
}

/* Starts what can start. */
static void handle_begin(struct motetSimulation *simulation, uint32_t number)
{
    struct motet_simulation_member *member = &simulation->members[number];
    member->wakes = MOTET_SIMULATION_NEVER;
    if (member->op >= simulation->noperations || (!member->begun && !begin_operation(simulation, number)))
        return;
    while (member->op < simulation->noperations && member->next_tile < simulation->operations[member->op].ntiles_simulated) {
        uint32_t lane_number = lane_at(simulation, number, member->op, member->next_tile);
        const struct motet_simulation_lane *lane = &simulation->lanes[lane_number];
        if (lane->op >= 0 || lane->unread > 0)
            return;
        if (lane->last_read > simulation->now) {
            wake(simulation, number, lane->last_read);
            return;
        }
        int32_t op = member->op;
        open_tile(simulation, member, lane_number);
        if (simulation->out_of_memory || simulation->no_way || member->op != op)
            return;
    }
}

/* ---- The loop ---- */

/* Dead, or has heard that others are and given up. */
static bool has_stopped(const struct motetSimulation *simulation, uint32_t member)
{
    const struct motet_simulation_rank *rank = &simulation->ranks[member % (uint32_t)simulation->nsimulated];
    return rank->dead_at <= simulation->now || rank->news_at <= simulation->now ||
           (simulation->network_lost_at < simulation->now &&
            simulation->network_lost_at + simulation->link_timeout_ps <= simulation->now);
}

static bool is_dead(const struct motetSimulation *simulation, uint32_t member)
{
    return simulation->any_dead && has_stopped(simulation, member);
}

static void handle(struct motetSimulation *simulation, const struct motet_simulation_event *event)
{
    struct motet_simulation_record *record =
        event->kind == MOTET_SIMULATION_READY || event->kind == MOTET_SIMULATION_MORE ? &simulation->records[event->what] : NULL;
    switch ((enum motet_simulation_event_kind)event->kind) {
    case MOTET_SIMULATION_BEGIN:
        if (!is_dead(simulation, event->what))
            handle_begin(simulation, event->what);
        break;
    case MOTET_SIMULATION_HOP:
        motet_simulation_hop(simulation, event->what);
        break;
    case MOTET_SIMULATION_READY:
        if (is_dead(simulation, record->to))
            motet_simulation_drop_record(simulation, event->what);
        else
            handle_ready(simulation, event->what);
        break;
    case MOTET_SIMULATION_CORE:
        if (!is_dead(simulation, event->what))
            handle_core(simulation, &simulation->ranks[event->what]);
        break;
    case MOTET_SIMULATION_ROUND:
        if (!is_dead(simulation, simulation->lanes[event->what].member))
            open_round(simulation, event->what);
        break;
    case MOTET_SIMULATION_MORE:
        if (is_dead(simulation, simulation->lanes[record->to].member)) {
            motet_simulation_drop_record(simulation, event->what);
        } else if (record->at == MOTET_SIMULATION_STARTERS) {
            run_starters(simulation, event->what);
        } else {
            struct motet_simulation_record sending = *record;
            motet_simulation_drop_record(simulation, event->what);
            emit_all(simulation, sending.to, sending.entry, 0, sending.dst_rank, sending.head, sending.tail, &sending.path);
        }
        break;
    }
}

bool motet_simulation_run(struct motetSimulation *simulation, int (*progress)(void *, double), void *context, bool *stopped)
{
    struct motet_simulation_event event;
    *stopped = false;
    for (uint32_t m = 0; m < (uint32_t)simulation->nmembers; m++)
        wake(simulation, m, 0);
    for (uint64_t n = 1; motet_simulation_queue_take(&simulation->queue, &event); n++) {
        simulation->now = event.time;
        handle(simulation, &event);
        if (simulation->out_of_memory || simulation->no_way)
            return false;
        if (progress && n % EVENTS_BETWEEN_REPORTS == 0 &&
            progress(context, simulation->expected > 0 ? simulation->nmessages / simulation->expected : 0)) {
            *stopped = true;
            return false;
        }
    }
    simulation->out_of_memory |= simulation->queue.out_of_memory;
    return !simulation->out_of_memory;
}
