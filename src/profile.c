/* SPDX-License-Identifier: Apache-2.0
 * What a profiler is told: see profile.h. An operation's description is made once, when it begins, and lives until it ends. */
#include "profile.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/os.h"
#include "call_text.h"
#include "timing.h"

MOTET_PROBE_SEMAPHORE(step_begin);
MOTET_PROBE_SEMAPHORE(step_end);

struct motet_profile {
    const motetProfiler_t *profiler; /* of the communicator */
    motetProfilerCall_t call;
    void *handle;
    void *steps[]; /* handles, by lane and step */
};

static struct {
    pthread_mutex_t lock;
    motetProfiler_t profiler;
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Thread_local bool motet_profile_calls;

void motet_profile_register(const motetProfiler_t *profiler)
{
    pthread_mutex_lock(&registered.lock);
    registered.profiler = profiler ? *profiler : (motetProfiler_t){.size = 0};
    pthread_mutex_unlock(&registered.lock);
}

motetProfiler_t motet_profile_registered(void)
{
    pthread_mutex_lock(&registered.lock);
    motetProfiler_t profiler = registered.profiler;
    pthread_mutex_unlock(&registered.lock);
    return profiler;
}

/* ---- Calls ---- */

static struct motet_profile *make(motetComm_t comm, size_t nsteps)
{
    struct motet_profile *profile = comm->options.profiler.size ? calloc(1, sizeof *profile + nsteps * sizeof(void *)) : NULL;
    if (!profile)
        return NULL;
    profile->profiler = &comm->options.profiler;
    profile->call = (motetProfilerCall_t){.commId = comm->id,
                                          .commName = comm->options.name,
                                          .rank = comm->rank,
                                          .nRanks = comm->nranks,
                                          .redOp = -1,
                                          .peer = -1,
                                          .onStream = motet_timing_is_on_stream()};
    return profile;
}

static void start(struct motet_profile *profile)
{
    profile->call.timeNs = motet_now_ns();
    motet_profile_calls = true;
    if (profile->profiler->startCall)
        profile->profiler->startCall(profile->profiler->context, &profile->call, &profile->handle);
    motet_profile_calls = false;
}

struct motet_profile *motet_profile_start_run(const struct motet_run *run)
{
    const struct motet_call *call = run->call;
    size_t nsteps = run->plan ? (size_t)run->plan->nsteps * run->comm->layout.nlanes : 0;
    struct motet_profile *profile = make(run->comm, nsteps);
    if (!profile)
        return NULL;
    motetProfilerCall_t *told = &profile->call;
    told->seqNumber = run->seq;
    told->name = call->name;
    told->operation = (motetStatsOperation_t)call->collective;
    told->count = call->counts == MOTET_COUNTS_EQUAL ? call->count : 0;
    told->datatype = call->dtype;
    told->redOp = motet_collective_reduces(call->collective) && call->collective != MOTET_BARRIER ? (int)call->op : -1;
    told->peer = motet_collective_has_root(call->collective) ? call->root : -1;
    told->bytes = run->payload;
    told->algorithm = run->plan ? run->plan->algorithm->name : NULL;
    told->protocol = run->plan ? motet_call_protocol(run->record) : NULL;
    told->sendbuff = call->send;
    told->recvbuff = call->recv;
    start(profile);
    return profile;
}

struct motet_profile *motet_profile_make_message(motetComm_t comm, const struct motet_transfer *message)
{
    struct motet_profile *profile = make(comm, 0);
    if (!profile)
        return NULL;
    motetProfilerCall_t *told = &profile->call;
    told->seqNumber = message->number;
    told->name = message->name;
    told->operation = message->is_send ? motetStatsSend : motetStatsRecv;
    told->count = message->bytes / motet_dtype_row(message->dtype)->size;
    told->datatype = message->dtype;
    told->peer = message->peer >= 0 ? comm->peers[message->peer].rank : -1;
    told->bytes = message->bytes;
    told->sendbuff = message->is_send ? message->buf : NULL;
    told->recvbuff = message->is_send ? NULL : message->buf;
    start(profile);
    return profile;
}

void motet_profile_stop(struct motet_profile *profile, motetResult_t result)
{
    if (!profile)
        return;
    profile->call.timeNs = motet_now_ns();
    motet_profile_calls = true;
    if (profile->profiler->stopCall)
        profile->profiler->stopCall(profile->profiler->context, &profile->call, profile->handle, result);
    motet_profile_calls = false;
    free(profile);
}

void motet_profile_end_message(struct motet_transfer *message, motetResult_t result)
{
    struct motet_profile *profile = message->profile;
    if (!message->is_send && result == motetSuccess) {
        profile->call.peer = message->source;
        profile->call.bytes = message->received;
        profile->call.count = message->received / motet_dtype_row(message->dtype)->size;
    }
    message->profile = NULL;
    motet_profile_stop(profile, result);
}

/* ---- Steps ---- */

static void describe(const struct motet_run *run, const struct motet_lane *lane, int index, motetProfilerStep_t *out)
{
    const struct motet_plan *plan = run->plan;
    const struct motet_plan_step *step = &plan->steps[index];
    int peer = step->nsources > 0   ? plan->sources[step->first_source].peer
               : step->ntargets > 0 ? plan->targets[step->first_target]
                                    : -1;
    out->round = step->round;
    out->step = index;
    out->tile = lane->tile;
    out->peer = peer >= 0 ? run->comm->rank_at[peer] : -1;
    out->nPeers = step->nsources > step->ntargets ? step->nsources : step->ntargets;
}

static void **handle_of(const struct motet_run *run, const struct motet_lane *lane, int index)
{
    return &run->profile->steps[(size_t)(lane - run->lanes) * (size_t)run->plan->nsteps + (size_t)index];
}

void motet_profile_start_step(const struct motet_run *run, const struct motet_lane *lane, int index, uint64_t now_ns)
{
    motetProfilerStep_t step = {.timeNs = now_ns};
    struct motet_profile *profile = run->profile;
    describe(run, lane, index, &step);
    if (MOTET_PROBE_WANTED(motet_semaphore_step_begin))
        MOTET_PROBE8(step_begin, "motet_semaphore_step_begin", run->comm->id, run->comm->rank, run->seq, step.round, step.step,
                     step.tile, step.peer, step.bytes);
    if (!profile)
        return;
    *handle_of(run, lane, index) = NULL;
    motet_profile_calls = true;
    if (profile->profiler->startStep)
        profile->profiler->startStep(profile->profiler->context, &profile->call, profile->handle, &step,
                                     handle_of(run, lane, index));
    motet_profile_calls = false;
}

void motet_profile_stop_step(const struct motet_run *run, const struct motet_lane *lane, int index, size_t bytes, uint64_t now_ns)
{
    motetProfilerStep_t step = {.timeNs = now_ns, .bytes = bytes};
    struct motet_profile *profile = run->profile;
    describe(run, lane, index, &step);
    if (MOTET_PROBE_WANTED(motet_semaphore_step_end))
        MOTET_PROBE8(step_end, "motet_semaphore_step_end", run->comm->id, run->comm->rank, run->seq, step.round, step.step,
                     step.tile, step.peer, step.bytes);
    motet_profile_calls = true;
    if (profile && profile->profiler->stopStep)
        profile->profiler->stopStep(profile->profiler->context, &profile->call, profile->handle, &step,
                                    *handle_of(run, lane, index));
    motet_profile_calls = false;
}
