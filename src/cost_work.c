/* SPDX-License-Identifier: Apache-2.0
 * Work of steps and volume of schedules: bytes, not time. See cost.h. */
#include "base/error.h"
#include "cost_model.h"

/* Loads and stores of a core: the part of the data that does not stay in a cache moves at the speed of the next one. */
static double core_speed(const struct motet_cost_machine *machine, const struct motet_cost_world *world,
                         const struct motet_shape *shape, double bytes)
{
    int local_ranks = world->local_ranks > 0 ? world->local_ranks : (shape->nranks + shape->nhosts - 1) / shape->nhosts;
    double own = bytes + (world->lane_bytes > 0 && world->lane_bytes < bytes ? world->lane_bytes : bytes);
    double all = 2 * own * local_ranks;
    double beyond = own > machine->cache_bytes ? 1 - machine->cache_bytes / own : 0;
    if (world->ncpus > 0 && local_ranks > world->ncpus)
        beyond = 1; /* whoever gets the core finds another's data in its cache */
    double outside = all > machine->shared_cache_bytes ? 1 - machine->shared_cache_bytes / all : 0;
    double shared_ns = (1 - outside) / machine->shared_bytes_per_ns + outside / machine->memory_bytes_per_ns;
    return 1 / ((1 - beyond) / machine->core_bytes_per_ns + beyond * shared_ns);
}

struct motet_cost_model motet_cost_model_make(const struct motet_shape *shape, const struct motet_cost_world *world,
                                              const struct motet_cost_load *load, int nchunks)
{
    const struct motet_cost_machine *machine = world->machine ? world->machine : &motet_cost_default;
    return (struct motet_cost_model){
        .shape = shape,
        .world = world,
        .machine = machine,
        .core_bytes_per_ns = core_speed(machine, world, shape, load->bytes),
        .load = load,
        .chunk_bytes = load->bytes / nchunks,
        .wide_ratio = load->wide_size > load->size ? load->wide_size / load->size : 1,
    };
}

int motet_cost_host_of(const struct motet_cost_world *world, const struct motet_shape *shape, int position)
{
    if (world->host)
        return world->host[position];
    int low = 0, high = shape->nhosts;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (shape->host_first[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

enum motet_link_class motet_cost_link_class(const struct motet_cost_model *model, int host, int other_host)
{
    if (host != other_host)
        return MOTET_LINK_NET;
    return model->world->same_process ? MOTET_LINK_THREADS : MOTET_LINK_SHARED;
}

/* ---- Work of one step ---- */

/* Whether readers of the same process find the message where it lies: a stored result of its width, or one local operand. */
static bool is_published(const struct motet_step *step, int operands, bool sends_wide)
{
    return step->dst != MOTET_NONE ? motet_plane_is_wide(step->dst) == sends_wide : step->src != MOTET_NONE && operands == 1;
}

struct motet_cost_work motet_cost_work_of(const struct motet_cost_model *model, const struct motet_step *step, int position)
{
    int nranks = model->shape->nranks, operands = motet_step_operands(step, position, nranks);
    bool sends_wide = motet_step_sends_wide(step, position, nranks);
    double narrow = model->chunk_bytes * step->n, wide = narrow * model->wide_ratio;
    struct motet_cost_work work = {
        .out = sends_wide ? wide : narrow,
        .in = step->flags & MOTET_WIDE ? wide : narrow,
        .sends = motet_peers_count(step->to, position, nranks),
        .receives = motet_peers_count(step->from, position, nranks),
    };
    double local = motet_plane_is_wide(step->src) ? wide : narrow;
    double loads = work.receives * work.in + (step->src == MOTET_NONE ? 0 : step->nsrc * local);
    bool found = work.sends > 0 && model->world->same_process && is_published(step, operands, sends_wide);
    work.combined = operands > 1 ? loads : 0;
    work.fetched = work.receives * work.in;
    if (step->dst != MOTET_NONE)
        work.core = loads + (motet_plane_is_wide(step->dst) ? wide : narrow);
    else if (!found)
        work.core = loads;
    if (work.sends > 0 && !found) /* staged once; a stored result is read again for it */
        work.core += step->dst != MOTET_NONE ? 2 * work.out : work.out;
    return work;
}

struct motet_cost_work motet_cost_step_work(const struct motet_step *step, int position, const struct motet_shape *shape,
                                            const struct motet_cost_world *world, const struct motet_cost_load *load, int nchunks)
{
    struct motet_cost_model model = motet_cost_model_make(shape, world, load, nchunks);
    return motet_cost_work_of(&model, step, position);
}

double motet_cost_core_speed(const struct motet_cost_world *world, const struct motet_shape *shape, double bytes)
{
    return core_speed(world->machine ? world->machine : &motet_cost_default, world, shape, bytes);
}

bool motet_cost_is_short(const struct motet_schedule *schedule)
{
    bool received = false;
    for (int s = 0; s < schedule->nsteps; s++) {
        const struct motet_step *step = &schedule->steps[s];
        int p = schedule->position, n = schedule->nranks;
        int sends = motet_peers_count(step->to, p, n), receives = motet_peers_count(step->from, p, n);
        bool one_local = step->nsrc == 0 || step->src == MOTET_NONE || (step->nsrc == 1 && step->src == MOTET_INPUT);
        if (((step->flags & MOTET_ENDS_ROUND) && s + 1 < schedule->nsteps) || step->dst > MOTET_OUTPUT ||
            (step->flags & MOTET_WIDE) || !one_local || step->n > 1)
            return false;
        if (sends > 0 && (received || receives > 0))
            return false;
        if (sends == 0 && step->n > 0 && step->dst != MOTET_OUTPUT)
            return false;
        received |= receives > 0;
    }
    return true;
}

/* ---- Volume ---- */

void motet_cost_volume(const struct motet_schedule *schedule, const struct motet_shape *shape, const struct motet_cost_world *world,
                       const struct motet_cost_load *load, struct motet_cost_volume *volume)
{
    struct motet_cost_model model = motet_cost_model_make(shape, world, load, motet_schedule_nchunks(schedule));
    int p = schedule->position, nranks = schedule->nranks, host = motet_cost_host_of(world, shape, p);
    *volume = (struct motet_cost_volume){0};
    for (int s = 0; s < schedule->nsteps; s++) {
        const struct motet_step *step = &schedule->steps[s];
        struct motet_cost_work work = motet_cost_work_of(&model, step, p);
        volume->rounds += (step->flags & MOTET_ENDS_ROUND) || s == schedule->nsteps - 1;
        volume->messages_sent += work.sends;
        volume->messages_received += work.receives;
        volume->sent += work.sends * work.out;
        volume->received += work.receives * work.in;
        volume->core += work.core;
        for (int i = 0; i < work.sends; i++)
            volume->sent_net += motet_cost_host_of(world, shape, motet_peers_at(step->to, i, p, nranks)) != host ? work.out : 0;
        for (int i = 0; i < work.receives; i++)
            volume->received_net +=
                motet_cost_host_of(world, shape, motet_peers_at(step->from, i, p, nranks)) != host ? work.in : 0;
    }
}

motetResult_t motet_cost_bytes(const struct motet_algorithm *algorithm, const struct motet_shape *shape,
                               const struct motet_cost_world *world, const struct motet_cost_load *load,
                               struct motet_cost_volume *volume)
{
    struct motet_schedule schedule = {0};
    algorithm->build(&schedule, shape);
    motet_schedule_expand(&schedule);
    bool ok = !schedule.out_of_memory;
    if (ok)
        motet_cost_volume(&schedule, shape, world, load, volume);
    motet_schedule_free(&schedule);
    return ok ? motetSuccess
              : motet_fail(motetSystemError, "out of memory for the schedule of %s on %d ranks", algorithm->name, shape->nranks);
}
