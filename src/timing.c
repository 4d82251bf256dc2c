/* SPDX-License-Identifier: Apache-2.0
 * The slow side of timing.h: what happens in timed calls and in long waits. */
#include "timing.h"

#include <stdlib.h>

#include "base/os.h"

#define SPLIT_SHIFT 20 /* bits of the draw that choose one of eight for timing reductions */

static _Thread_local bool on_stream;

void motet_timing_on_stream(void)
{
    on_stream = true;
}

bool motet_timing_is_on_stream(void)
{
    return on_stream;
}

static struct motet_tally_times *times_of(motetComm_t comm)
{
    return &motet_timing_tally(comm)->times[on_stream ? MOTET_TALLY_STREAM : MOTET_TALLY_CALLER];
}

uint64_t motet_timing_now(void)
{
    return motet_now_ns();
}

/* ---- A timed call ---- */

void motet_timing_start(struct motet_timing *timing, motetComm_t comm, uint64_t draw, size_t bytes)
{
    *timing = (struct motet_timing){
        .weight = bytes >= MOTET_TIMED_ALWAYS  ? 1
                  : bytes >= MOTET_TIMED_OFTEN ? 16
                                               : 64,
        .split = (draw >> SPLIT_SHIFT & 7) == 0,
        .missing = -1,
    };
    atomic_store_explicit(&motet_timing_tally(comm)->thread, motet_thread_id(), memory_order_relaxed);
    timing->begin_ns = motet_now_ns();
    timing->away_ns = comm->left_seq + 1 == comm->seq && comm->left_ns ? timing->begin_ns - comm->left_ns : UINT64_MAX;
}

void motet_timing_note_left(motetComm_t comm)
{
    comm->left_seq = comm->seq;
    comm->left_ns = motet_now_ns();
}

void motet_timing_note_look(struct motet_timing *timing, int missing)
{
    if (timing->stalled_ns == 0)
        return;
    timing->look_ns = motet_now_ns();
    if (missing >= 0)
        timing->missing = missing;
}

/* The stall lasted until `until_ns`. The part that wait.c counts is told apart: it began when the wait left the spin phase. */
static void end_stall(struct motet_timing *timing, motetComm_t comm, uint64_t until_ns)
{
    uint64_t since = motet_tally_read(&comm->long_since_ns), lasted = until_ns - timing->stalled_ns;
    uint64_t counted = motet_tally_read(&comm->long_total_ns) - timing->long_before_ns;
    counted += since != 0 && since < until_ns ? until_ns - since : 0;
    counted = counted < lasted ? counted : lasted;
    timing->wait_ns += lasted;
    timing->long_ns += counted;
    if (timing->missing >= 0)
        motet_tally_add(&motet_tally_late(motet_timing_tally(comm))[timing->missing].wait_ns,
                        motet_tally_weigh(timing->weight, lasted - counted));
    timing->stalled_ns = 0;
    timing->missing = -1;
}

void motet_timing_note_seen(struct motet_timing *timing, motetComm_t comm, bool moved)
{
    if (moved && timing->stalled_ns != 0)
        end_stall(timing, comm, timing->look_ns);
    else if (!moved && timing->stalled_ns == 0) {
        timing->stalled_ns = motet_now_ns();
        timing->long_before_ns = motet_tally_read(&comm->long_total_ns);
    }
}

static void write_sample(struct motet_tally *tally, uint64_t seq, const struct motet_timing *timing, uint64_t end_ns)
{
    uint64_t index = motet_tally_read(&tally->samples_written);
    struct motet_sample *sample = &tally->samples[index & (MOTET_SAMPLES - 1)];
    atomic_store_explicit(&sample->seq, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* a reader that sees new times sees seq 0 or the new seq */
    atomic_store_explicit(&sample->begin_ns, timing->begin_ns, memory_order_relaxed);
    atomic_store_explicit(&sample->end_ns, end_ns, memory_order_relaxed);
    atomic_store_explicit(&sample->wait_ns, timing->wait_ns, memory_order_relaxed);
    atomic_store_explicit(&sample->away_ns, timing->away_ns, memory_order_relaxed);
    atomic_store_explicit(&sample->weight, timing->weight, memory_order_relaxed);
    atomic_store_explicit(&sample->seq, seq + 1, memory_order_release);
    atomic_store_explicit(&tally->samples_written, index + 1, memory_order_release);
}

void motet_timing_note_end(struct motet_timing *timing, motetComm_t comm, uint64_t seq)
{
    struct motet_tally_times *times = times_of(comm);
    uint64_t now = motet_now_ns();
    if (timing->stalled_ns != 0)
        end_stall(timing, comm, now);
    uint64_t brief = now - timing->begin_ns - timing->long_ns, wait = timing->wait_ns - timing->long_ns;
    motet_tally_add(&times->brief_ns, motet_tally_weigh(timing->weight, wait) + motet_tally_weigh(timing->weight, brief - wait));
    motet_tally_add(&times->brief_wait_ns, motet_tally_weigh(timing->weight, wait));
    if (timing->split)
        motet_tally_add(&times->reduce_ns, timing->reduce_ns * timing->weight * 8);
    if (seq != 0) {
        comm->left_seq = seq;
        comm->left_ns = now;
    }
    if (seq != 0)
        write_sample(motet_timing_tally(comm), seq, timing, now);
    timing->begin_ns = 0;
    timing->split = false;
}

/* ---- Long waits ---- */

void motet_timing_long_begin(motetComm_t comm, uint64_t now_ns)
{
    atomic_store_explicit(&comm->long_since_ns, now_ns, memory_order_relaxed);
}

void motet_timing_long_end(motetComm_t comm, uint64_t now_ns, int rank)
{
    uint64_t since = motet_tally_read(&comm->long_since_ns), lasted = now_ns - since;
    if (since == 0)
        return;
    atomic_store_explicit(&comm->long_since_ns, 0, memory_order_relaxed);
    motet_tally_add(&comm->long_total_ns, lasted);
    motet_tally_add(&times_of(comm)->long_wait_ns, lasted);
    motet_tally_add(&times_of(comm)->long_waits, 1);
    if (rank >= 0 && rank < comm->nranks)
        motet_tally_add(&motet_tally_late(motet_timing_tally(comm))[comm->position_of[rank]].wait_ns, lasted);
}

/* ---- Bytes by transport ---- */

static void add_message(motetComm_t comm, double (*share)[2], int peer, bool wide, double chunks)
{
    if (peer != comm->position)
        share[motet_timing_transport(&comm->peers[peer])][wide] += chunks;
}

struct motet_moved *motet_timing_plan(motetComm_t comm, const struct motet_plan *plan)
{
    struct motet_moved *moved = calloc(1, sizeof *moved);
    int nblocks = motet_collective_nblocks(plan->algorithm->collective, comm->nranks);
    if (!moved)
        return NULL;
    for (int i = 0; i < plan->nsteps; i++) {
        const struct motet_plan_step *step = &plan->steps[i];
        double chunks = (double)step->n / plan->parts / nblocks;
        for (int t = 0; t < step->ntargets; t++)
            add_message(comm, moved->sent, plan->targets[step->first_target + t], step->sends_wide, chunks);
        for (int s = 0; s < step->nsources; s++)
            add_message(comm, moved->received, plan->sources[step->first_source + s].peer, step->arrives_wide, chunks);
    }
    /* release: the thread that works them out sees the shares. Entries stay until the communicator goes. */
    moved->next = atomic_load_explicit(&comm->moved, memory_order_relaxed);
    atomic_store_explicit(&comm->moved, moved, memory_order_release);
    return moved;
}

void motet_timing_count_message(motetComm_t comm, bool is_send, int peer, uint64_t bytes)
{
    struct motet_tally *tally = motet_timing_tally(comm);
    motet_tally_count(tally, is_send ? MOTET_TALLY_SEND : MOTET_TALLY_RECV, bytes);
    int transport = motet_timing_transport(&comm->peers[peer]);
    motet_tally_add(is_send ? &comm->message_bytes_sent[transport] : &comm->message_bytes_received[transport], bytes);
}

void motet_timing_work_out(motetComm_t comm)
{
    struct motet_tally *tally = motet_timing_tally(comm);
    double sent[MOTET_STATS_TRANSPORTS] = {0}, received[MOTET_STATS_TRANSPORTS] = {0};
    for (struct motet_moved *moved = atomic_load_explicit(&comm->moved, memory_order_acquire); moved; moved = moved->next)
        for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++) {
            double payload = (double)motet_tally_read(&moved->payload), wide = (double)motet_tally_read(&moved->wide_payload);
            sent[t] += payload * moved->sent[t][0] + wide * moved->sent[t][1];
            received[t] += payload * moved->received[t][0] + wide * moved->received[t][1];
        }
    for (int t = 0; t < MOTET_STATS_TRANSPORTS; t++) {
        uint64_t from_messages = motet_tally_read(&comm->message_bytes_sent[t]),
                 to_messages = motet_tally_read(&comm->message_bytes_received[t]);
        atomic_store_explicit(&tally->sent[t], (uint64_t)(sent[t] + 0.5) + from_messages, memory_order_relaxed);
        atomic_store_explicit(&tally->received[t], (uint64_t)(received[t] + 0.5) + to_messages, memory_order_relaxed);
    }
}

void motet_timing_free(motetComm_t comm)
{
    for (struct motet_moved *moved = atomic_load(&comm->moved), *next; moved; moved = next) {
        next = moved->next;
        free(moved);
    }
    atomic_store(&comm->moved, NULL);
}
