/* SPDX-License-Identifier: Apache-2.0
 * What paths between CPUs do: a pair of CPUs stands for each kind of path. Two threads of this file, bound to them, pass a cache line back and
 * forth, then one copies what the other has just written. The caller's threads are not touched. Of several turns the best counts: others are
 * those in which something else ran. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "topo/topo.h"

#define LINE       64
#define TRIPS      500           /* of one turn: about 100 us */
#define COPY_BYTES (1024 * 1024) /* what fits into the caches of all machines in question, and is long for a clock */
#define SPINS      2000          /* before the CPU is offered to others */
#define PATHS_MOST 8

struct pair {
    motetTopoPath_t path;
    int cpus[2];
};

/* Each word has a line of its own. Words hold numbers that only grow, so that no turn can be taken for another. */
struct arena {
    _Alignas(LINE) _Atomic uint64_t ping;
    _Alignas(LINE) _Atomic uint64_t pong;
    _Alignas(LINE) _Atomic int ready; /* threads that are bound; negative: one could not be */
    struct pair pair;
    uint64_t deadline_ns;
    char *buffers[2]; /* what is written, where it is copied to */
    double latency_ns, gbs;
};

/* Until *word is at least `value`; false at the deadline. Acquire: what was written before is seen. */
static bool await(_Atomic uint64_t *word, uint64_t value, uint64_t deadline_ns)
{
    for (int spins = 0; atomic_load_explicit(word, memory_order_acquire) < value;)
        if (++spins >= SPINS) {
            spins = 0;
            sched_yield();
            if (motet_now_ns() > deadline_ns)
                return false;
        }
    return true;
}

static bool bind_to(int cpu)
{
    cpu_set_t *set = CPU_ALLOC(MOTET_CPUSET_MAX);
    size_t size = CPU_ALLOC_SIZE(MOTET_CPUSET_MAX);
    if (!set)
        return false;
    CPU_ZERO_S(size, set);
    CPU_SET_S((size_t)cpu, size, set);
    bool bound = sched_setaffinity(0, size, set) == 0; /* of the calling thread alone */
    CPU_FREE(set);
    return bound;
}

/* Both threads begin together, or neither. */
static bool begin(struct arena *arena, int cpu)
{
    if (!bind_to(cpu)) {
        atomic_store(&arena->ready, -1);
        return false;
    }
    int before = atomic_load(&arena->ready);
    while (before >= 0 && !atomic_compare_exchange_weak(&arena->ready, &before, before + 1))
        ;
    while ((before = atomic_load(&arena->ready)) >= 0 && before < 2) {
        sched_yield();
        if (motet_now_ns() > arena->deadline_ns)
            return false;
    }
    return before >= 2;
}

/* Turns until two thirds of the time are over: half of it for latency. The other side follows the numbers. */
static void lead(struct arena *arena)
{
    uint64_t number = 0, begin_ns = motet_now_ns(), span = (arena->deadline_ns - begin_ns) / 3;
    for (int turn = 0; turn < 2 || motet_now_ns() < begin_ns + span; turn++) {
        uint64_t turn_ns = motet_now_ns();
        for (int i = 0; i < TRIPS; i++) {
            atomic_store_explicit(&arena->ping, ++number, memory_order_release);
            if (!await(&arena->pong, number, arena->deadline_ns))
                return;
        }
        double one_way = (double)(motet_now_ns() - turn_ns) / (2.0 * TRIPS);
        if (turn > 0 && (arena->latency_ns == 0 || one_way < arena->latency_ns))
            arena->latency_ns = one_way;
    }
    number |= 1ull << 40; /* from here on the other side writes the buffer in each turn */
    for (int turn = 0; turn < 2 || motet_now_ns() < begin_ns + 2 * span; turn++) {
        atomic_store_explicit(&arena->ping, ++number, memory_order_release);
        if (!await(&arena->pong, number, arena->deadline_ns))
            return;
        uint64_t turn_ns = motet_now_ns();
        memcpy(arena->buffers[1], arena->buffers[0], COPY_BYTES);
        __asm__ volatile("" : : "r"(arena->buffers[1]) : "memory"); /* the copy happens before the clock is read */
        uint64_t ns = motet_now_ns() - turn_ns;
        double gbs = ns > 0 ? (double)COPY_BYTES / (double)ns : 0;
        arena->gbs = turn > 0 && gbs > arena->gbs ? gbs : arena->gbs;
    }
    atomic_store_explicit(&arena->ping, UINT64_MAX, memory_order_release);
}

static void *run_leader(void *context)
{
    struct arena *arena = context;
    if (begin(arena, arena->pair.cpus[0]))
        lead(arena);
    atomic_store_explicit(&arena->ping, UINT64_MAX, memory_order_release);
    return NULL;
}

static void *run_follower(void *context)
{
    struct arena *arena = context;
    if (!begin(arena, arena->pair.cpus[1]))
        return NULL;
    for (uint64_t number = 1; await(&arena->ping, number, arena->deadline_ns);) {
        uint64_t seen = atomic_load_explicit(&arena->ping, memory_order_acquire);
        if (seen == UINT64_MAX)
            break;
        if (seen >> 40)
            memset(arena->buffers[0], (int)(seen & 0xff), COPY_BYTES);
        atomic_store_explicit(&arena->pong, seen, memory_order_release);
        number = seen + 1;
    }
    return NULL;
}

static bool start(pthread_t *thread, void *(*run)(void *), struct arena *arena)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, arena);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0;
}

/* False: no thread. What could not be measured is 0. */
static bool measure(const struct pair *pair, uint64_t deadline_ns, char *const buffers[2], double *latency_ns, double *gbs)
{
    struct arena arena = {.pair = *pair, .deadline_ns = deadline_ns, .buffers = {buffers[0], buffers[1]}};
    pthread_t leader, follower;
    if (!start(&leader, run_leader, &arena))
        return false;
    bool two = start(&follower, run_follower, &arena);
    if (two)
        pthread_join(follower, NULL);
    else
        atomic_store(&arena.ready, -1);
    pthread_join(leader, NULL);
    *latency_ns = arena.latency_ns;
    *gbs = arena.gbs;
    return two;
}

/* ---- Which pairs ---- */

/* The first CPU of each core that may be used, against those of the first core; and two CPUs of one core. */
static int choose_pairs(const struct motetTopo *topo, const struct motet_cpuset *allowed, struct pair pairs[PATHS_MOST])
{
    int n = 0, first = -1;
    uint32_t have = 0;
    for (int i = 0; i < topo->n && n < PATHS_MOST; i++) {
        if (topo->nodes[i].kind != motetTopoCore)
            continue;
        struct motet_cpuset cpus = *topo->nodes[i].cpus;
        motet_cpuset_intersect(&cpus, allowed);
        int cpu = motet_cpuset_next(&cpus, 0), sibling = cpu < 0 ? -1 : motet_cpuset_next(&cpus, cpu + 1);
        int from = first < 0 ? cpu : first, to = first < 0 ? sibling : cpu;
        first = first < 0 ? cpu : first;
        if (from < 0 || to < 0)
            continue;
        struct motet_cpuset both = {{0}};
        motet_cpuset_add(&both, from);
        motet_cpuset_add(&both, to);
        motetTopoPath_t path = motet_topo_cpu_path(topo, motet_topo_above(topo, i, motetTopoNumaNode), &both);
        if (have >> path & 1)
            continue;
        have |= 1u << path;
        pairs[n++] = (struct pair){path, {from, to}};
    }
    return n;
}

/* One link of each class: a later measurement replaces an earlier one. */
static motetResult_t keep(struct motetTopo *topo, const struct pair *pair, double latency_ns, double gbs)
{
    int index = -1;
    const char *class = motetTopoPathName(pair->path);
    for (int i = topo->nodes[0].first_child; i >= 0; i = topo->nodes[i].next)
        if (topo->nodes[i].kind == motetTopoLink && strcmp(motet_topo_get(topo, i, "class"), class) == 0)
            index = i;
    if (index < 0)
        TRY(motet_topo_add(topo, 0, "link", &index));
    TRY(motet_topo_set(topo, index, "class", class));
    TRY(motet_topo_setf(topo, index, "latency_ns", "%.1f", latency_ns));
    TRY(motet_topo_setf(topo, index, "bandwidth_gbs", "%.2f", gbs));
    return motet_topo_setf(topo, index, "cpus", "%d,%d", pair->cpus[0] < pair->cpus[1] ? pair->cpus[0] : pair->cpus[1],
                           pair->cpus[0] < pair->cpus[1] ? pair->cpus[1] : pair->cpus[0]);
}

motetResult_t motet_topo_measure(struct motetTopo *topo, int timeout_ms, int *measured)
{
    struct pair pairs[PATHS_MOST];
    struct motet_cpuset allowed = motet_cpuset_allowed();
    int n = choose_pairs(topo, &allowed, pairs);
    char *buffers[2] = {aligned_alloc(LINE, COPY_BYTES), aligned_alloc(LINE, COPY_BYTES)};
    motetResult_t result =
        buffers[0] && buffers[1] ? motetSuccess : motet_fail_quiet(motetSystemError, "TopoMeasure: out of memory");
    *measured = 0;
    for (int i = 0; i < 2 && result == motetSuccess; i++)
        memset(buffers[i], 0, COPY_BYTES);
    for (int i = 0; i < n && result == motetSuccess; i++) {
        double latency_ns = 0, gbs = 0;
        uint64_t span_ns = (uint64_t)timeout_ms * 1000000u / (uint64_t)n;
        if (!measure(&pairs[i], motet_now_ns() + span_ns, buffers, &latency_ns, &gbs))
            result = motet_fail_quiet(motetSystemError, "TopoMeasure: a thread cannot be started: %s", strerror(errno));
        else if (latency_ns > 0 && gbs > 0)
            result = keep(topo, &pairs[i], latency_ns, gbs);
        else
            INFO(MOTET_LOG_GRAPH, "CPUs %d and %d were not measured: a thread could not be bound, or the time was too short",
                 pairs[i].cpus[0], pairs[i].cpus[1]);
        *measured += result == motetSuccess && latency_ns > 0 && gbs > 0;
    }
    free(buffers[0]);
    free(buffers[1]);
    return result;
}
