/* SPDX-License-Identifier: Apache-2.0
 * How a thread waits: spins while the peer is likely to answer within the time of a context switch, yields when it may need this CPU,
 * sleeps otherwise. Every wait ends: by progress, abort, a fault, a death, or the deadline.
 *
 * Sleeping without a fence on the fast path. A publisher stores its slot, then loads the sleepers word; a sleeper sets its bit, then looks
 * at the slots again. Both orders store-load need a fence; the sleeper pays for both by membarrier(GLOBAL_EXPEDITED), which makes every
 * running thread of registered processes pass a full barrier: so either the publisher's load sees the bit, or the sleeper's second look sees
 * the slot. */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "circle.h"
#include "clock.h"
#include "comm.h"
#include "late.h"
#include "mismatch.h"
#include "timing.h"
#include "unmatched.h"

#define PAUSES_BEFORE_CPU_CHECK 16
#define PAUSES_BEFORE_YIELD     2000 /* about 50 us: waking an idle CPU costs 26-100 us */
#define YIELDS_BEFORE_SLEEP     8
#define YIELDS_ON_A_SHARED_CPU  64
#define PAUSES_IN_HASTE         150 /* about 4 us: ranks that call together meet in less, and handing over costs more */
#define YIELDS_IN_HASTE         1   /* may take as long as whoever gets the CPU likes */
#define SLEEP_NS                (100 * 1000 * 1000ull) /* a sleeper looks around at least this often: aborts, deadlines, audits */
#define AUDIT_AFTER_NS          (100 * 1000 * 1000ull)

static inline void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

void motet_wait_begin(struct motet_wait *wait, const motetComm_t *comms, int ncomms)
{
    *wait = (struct motet_wait){.comms = comms, .ncomms = ncomms};
    for (int i = 0; i < ncomms; i++)
        wait->shares_cpu |= comms[i]->nlocal > comms[i]->ncpus;
}

void motet_wait_begin_hasty(struct motet_wait *wait, const motetComm_t *comms, int ncomms)
{
    motet_wait_begin(wait, comms, ncomms);
    wait->pauses = PAUSES_BEFORE_YIELD - PAUSES_IN_HASTE;
    wait->yields = YIELDS_ON_A_SHARED_CPU - YIELDS_IN_HASTE;
}

/* Whether spinning is pointless: the peers need CPUs that are not there, or one of them needs this very CPU. */
static bool must_share_cpu(motetComm_t comm)
{
    if (comm->nlocal > comm->ncpus)
        return true;
    int cpu = sched_getcpu();
    for (int p = 0; p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        if (p != comm->position && peer->mapped &&
            atomic_load_explicit(&motet_region_control(peer->region)->cpu, memory_order_relaxed) == cpu)
            return true;
    }
    return false;
}

void motet_wait_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0)
        atomic_thread_fence(memory_order_seq_cst); /* old kernels: the 100 ms look-around of sleepers covers what is left */
}

static void announce_sleep(struct motet_wait *wait)
{
    wait->ticket = motet_doorbell_ticket();
    for (int i = 0; i < wait->ncomms; i++)
        atomic_fetch_or(&wait->comms[i]->leader->sleepers, wait->comms[i]->local_mask);
    motet_wait_barrier();
    wait->asleep_announced = true;
}

/* Bits of the sleepers word that are this rank's alone. With more local ranks than bits others share it: then they are woken in vain rather
 * than forgotten. */
static uint64_t own_bits(const struct motetComm *comm)
{
    return comm->nlocal > 64 ? 0 : comm->local_mask;
}

static void take_back(struct motet_wait *wait)
{
    for (int i = 0; wait->asleep_announced && i < wait->ncomms; i++)
        atomic_fetch_and(&wait->comms[i]->leader->sleepers, ~own_bits(wait->comms[i]));
    wait->asleep_announced = false;
}

static void hide_in(const struct motet_wait *wait, int i, uint64_t now)
{
    atomic_store_explicit(&wait->comms[i]->control->progress.wait_ns, 0, memory_order_relaxed);
    if (wait->counted)
        motet_timing_long_end(wait->comms[i], now, i == 0 ? wait->missing : -1);
}

/* For those who ask from outside: what was shown is taken back. */
static void hide(struct motet_wait *wait)
{
    uint64_t now = motet_now_ns();
    motet_clock_refresh(now);
    for (int i = 0; i < wait->ncomms; i++)
        if (wait->comms[i]->control) /* NULL: aborted, and freed when its last operation left */
            hide_in(wait, i, now);
    wait->since_ns = 0;
    wait->counted = false;
}

/* The wait left the spin phase, or looks around: shows since when it waits, and for whom. */
static void show(const struct motet_wait *wait, const struct motet_waiting *waiting, void *context)
{
    for (int i = 0; i < wait->ncomms; i++) {
        struct motet_progress *progress = &wait->comms[i]->control->progress;
        int rank = waiting->whom ? waiting->whom(context, wait->comms[i]) : -1;
        atomic_store_explicit(&progress->waits_for, rank + 1, memory_order_relaxed);
        atomic_store_explicit(&progress->wait_ns, wait->since_ns, memory_order_relaxed);
    }
}

void motet_wait_end(struct motet_wait *wait)
{
    if (wait->since_ns != 0)
        hide(wait);
    take_back(wait);
}

void motet_wait_progressed(struct motet_wait *wait)
{
    wait->pauses = wait->yields = 0;
    wait->saw_death = false;
    wait->saw_unmatched = 0;
    motet_wait_end(wait);
}

void motet_comm_wake(motetComm_t comm)
{
    uint64_t own = own_bits(comm), sleepers = atomic_load_explicit(&comm->leader->sleepers, memory_order_relaxed);
    if (__builtin_expect((sleepers & ~own) == 0, 1))
        return;
    sleepers = atomic_exchange(&comm->leader->sleepers, sleepers & own) & ~own;
    for (int p = 0; p < comm->nranks; p++) {
        const struct motet_peer *peer = &comm->peers[p];
        if (peer->local_index >= 0 && p != comm->position && (sleepers >> (peer->local_index % 64) & 1))
            motet_doorbell_ring(peer->endpoint);
    }
}

void motet_comm_poll(motetComm_t comm, bool *moved)
{
    if (comm->nmapped == comm->nranks)
        return;
    for (int p = 0; p < comm->nranks; p++)
        if (!comm->peers[p].mapped && motet_endpoint_progress(comm->peers[p].endpoint))
            *moved = true;
}

/* ---- The slow part: taken once the spin is over, so that clocks and checks cost nothing before ---- */

static void take_times(struct motet_wait *wait)
{
    const struct motet_options *options = &wait->comms[0]->options;
    wait->since_ns = motet_now_ns();
    motet_clock_refresh(wait->since_ns);
    wait->deadline_ns = options->timeout_ms > 0 ? wait->since_ns + (uint64_t)options->timeout_ms * 1000000 : UINT64_MAX;
    wait->warn_ns = options->warn_after_ms > 0 ? wait->since_ns + (uint64_t)options->warn_after_ms * 1000000 : UINT64_MAX;
    wait->audit_ns = wait->since_ns + AUDIT_AFTER_NS;
}

static motetResult_t check_all(const struct motet_wait *wait)
{
    for (int i = 0; i < wait->ncomms; i++)
        TRY(motet_comm_check(wait->comms[i]));
    return motetSuccess;
}

static bool has_gone(motetComm_t comm, int position)
{
    return atomic_load_explicit(&comm->peers[position].dead, memory_order_acquire) || motet_comm_has_finished(comm, position);
}

static motetResult_t say_gone(motetComm_t comm, int position, const struct motet_waiting *waiting, void *context)
{
    const struct motet_peer *peer = &comm->peers[position];
    bool message = waiting->message && waiting->message(context, comm, position);
    if (motet_comm_has_finished(comm, position) || (message && peer->endpoint->orderly))
        return motet_comm_finished(comm, position, waiting, context);
    return motet_comm_dead(comm, position);
}

/* Messages that wait for a rank that waits in a collective for this one. */
static motetResult_t check_unmatched(struct motet_wait *wait, const struct motet_waiting *waiting, void *context)
{
    for (int i = 0; i < wait->ncomms; i++) {
        struct motet_unmatched found = motet_comm_find_unmatched(wait->comms[i], waiting, context);
        if (found.call == 0)
            continue;
        if (wait->saw_unmatched == found.call)
            return motet_comm_unmatched(wait->comms[i], &found, waiting, context);
        wait->saw_unmatched = found.call;
        wait->audit_ns = motet_now_ns() + AUDIT_AFTER_NS; /* once more, soon */
        return motetSuccess;
    }
    wait->saw_unmatched = 0;
    return motetSuccess;
}

/* A rank that left or died matters only to operations that still need it: what it did before counts. */
static motetResult_t check_deaths(struct motet_wait *wait, const struct motet_waiting *waiting, void *context)
{
    for (int i = 0; i < wait->ncomms; i++)
        for (int p = 0; p < wait->comms[i]->nranks; p++)
            if (has_gone(wait->comms[i], p) && waiting->needs && waiting->needs(context, wait->comms[i], p)) {
                if (wait->saw_death)
                    return say_gone(wait->comms[i], p, waiting, context);
                wait->saw_death = true; /* what it did last may have come after the caller's last look */
                return motetSuccess;
            }
    return motetSuccess;
}

/* The wait has lasted `ns`: says so, or gives up. */
static motetResult_t complain(struct motet_wait *wait, uint64_t now, const struct motet_waiting *waiting, void *context)
{
    motetComm_t comm = wait->comms[0];
    char what[480] = "";
    double seconds = (double)(now - wait->since_ns) / 1e9;
    motet_comm_describe_late(comm, waiting, context, what, sizeof what);
    motet_comm_describe_circle(comm, what, sizeof what);
    if (now >= wait->deadline_ns) {
        motet_fail_quiet(motetTimeout, "comm \"%s\" (%d ranks), rank %d: no progress for %.1f s (%s): %s", comm->options.name,
                         comm->nranks, comm->rank, seconds,
                         comm->options.timeout_from ? comm->options.timeout_from : "MOTET_TIMEOUT", what);
        return motet_comm_fault(comm, motetTimeout);
    }
    wait->warn_ns = now + (uint64_t)comm->options.warn_after_ms * 1000000;
    WARN(MOTET_LOG_COLL, "comm \"%s\" (%d ranks), rank %d: late for %.1f s: %s", comm->options.name, comm->nranks, comm->rank,
         seconds, what);
    return motetSuccess;
}

static motetResult_t look_around(struct motet_wait *wait, const struct motet_waiting *waiting, void *context)
{
    uint64_t now = motet_now_ns();
    motet_clock_refresh(now);
    show(wait, waiting, context);
    TRY(check_all(wait));
    TRY(check_deaths(wait, waiting, context));
    for (int i = 0; i < wait->ncomms; i++)
        TRY(motet_comm_audit_end(wait->comms[i]));
    if (now >= wait->audit_ns) {
        wait->audit_ns = now + 10 * AUDIT_AFTER_NS;
        for (int i = 0; i < wait->ncomms; i++)
            TRY(motet_comm_audit(wait->comms[i]));
        TRY(check_unmatched(wait, waiting, context));
        for (int i = 0; i < wait->ncomms; i++)
            motet_comm_look_for_circle(wait->comms[i]);
    }
    if (now >= wait->warn_ns || now >= wait->deadline_ns)
        return complain(wait, now, waiting, context);
    return motetSuccess;
}

static bool shares_cpu(const struct motet_wait *wait)
{
    for (int i = 0; i < wait->ncomms; i++)
        if (must_share_cpu(wait->comms[i]))
            return true;
    return false;
}

/* One look's worth of spinning, if spinning is right. */
static bool spin(struct motet_wait *wait)
{
    if (wait->shares_cpu || wait->pauses >= PAUSES_BEFORE_YIELD)
        return false;
    if (++wait->pauses == PAUSES_BEFORE_CPU_CHECK)
        wait->shares_cpu = shares_cpu(wait);
    cpu_relax();
    return true;
}

bool motet_wait_brief(struct motet_wait *wait)
{
    if (wait->ncomms == 0)
        motet_wait_begin(wait, wait->comms, 1);
    if (spin(wait))
        return true;
    if (!wait->shares_cpu || wait->yields >= YIELDS_ON_A_SHARED_CPU)
        return false;
    wait->yields++;
    sched_yield();
    return true;
}

motetResult_t motet_wait_pause(struct motet_wait *wait, const struct motet_waiting *waiting, void *context)
{
    if (spin(wait))
        return (wait->pauses & 255) == 0 ? check_all(wait) : motetSuccess;
    if (wait->since_ns == 0) {
        take_times(wait);
        show(wait, waiting, context);
        wait->counted = waiting->whom != NULL; /* it is an operation that waits */
        for (int i = 0; wait->counted && i < wait->ncomms; i++)
            motet_timing_long_begin(wait->comms[i], wait->since_ns);
    }
    if (wait->counted)
        wait->missing = waiting->whom(context, wait->comms[0]);
    if (wait->yields++ < (wait->shares_cpu ? YIELDS_ON_A_SHARED_CPU : YIELDS_BEFORE_SLEEP)) {
        sched_yield();
        return check_all(wait);
    }
    TRY(look_around(wait, waiting, context));
    if (wait->saw_death)
        return motetSuccess;
    if (!wait->asleep_announced) {
        announce_sleep(wait);
        return motetSuccess; /* the caller looks once more */
    }
    motet_doorbell_wait(wait->ticket, motet_now_ns() + SLEEP_NS);
    take_back(wait);
    wait->yields = 0;
    wait->pauses = PAUSES_BEFORE_CPU_CHECK; /* awake: something probably came, spin a little before the next sleep */
    return motetSuccess;
}
