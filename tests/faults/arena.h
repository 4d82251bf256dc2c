/* SPDX-License-Identifier: Apache-2.0
 * Jobs into which faults are injected. Ranks are threads of processes that the arena starts; a page that all share says when the fault
 * happened, what each rank heard and when, and what it left behind. Two network namespaces joined by a cable stand for two hosts, where the
 * test may make them. The test program itself never calls the library. */
#ifndef MOTET_TESTS_FAULTS_ARENA_H
#define MOTET_TESTS_FAULTS_ARENA_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "entries.h"
#include "namespace.h"
#include "work.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ARENA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define ARENA_SANITIZED 1
#endif
#endif
#ifndef ARENA_SANITIZED
#define ARENA_SANITIZED 0
#endif

enum arena_place {
    ARENA_SHM,     /* processes of one host */
    ARENA_TCP,     /* the same without shared memory */
    ARENA_THREADS, /* two processes of several ranks */
    ARENA_HOSTS,   /* two pretended hosts, over loopback */
    ARENA_NETNS,   /* two network namespaces */
    ARENA_NPLACES
};

static const char *const arena_places[ARENA_NPLACES] = {"shm", "tcp", "threads", "hosts", "namespaces"};

enum arena_stage { ARENA_STARTING, ARENA_IN_INIT, ARENA_AT_WORK, ARENA_ENDED };

/* What one rank tells. */
struct arena_rank {
    _Atomic int pid, stage;
    _Atomic int result; /* motetResult_t of the call that ended it; motetInProgress: none has */
    double heard_s;     /* when */
    int wrong, rounds, left_fds, left_threads;
    char operation[64], text[1024];
};

struct arena_page {
    _Atomic int ready; /* 1: the id is there, 2: it could not be made */
    motetUniqueId id;
    _Atomic int at_work;              /* ranks that began their first round */
    _Atomic(double) fault_s, woken_s; /* woken: whom the fault stopped for a while */
    struct arena_rank ranks[WORK_MAX_RANKS];
};

struct arena {
    enum arena_place place;
    int nranks, per_process;
    int rounds; /* 0: until an error */
    uint64_t seed;
    const char *environment[8]; /* "NAME=value" for all ranks */
    /* Runs in each process before its ranks start; in the victim's as well. NULL: nothing. */
    void (*prepare)(struct arena *arena, int first_rank);
    const void *argument;
    struct arena_page *page;
    pid_t processes[WORK_MAX_RANKS];
    int statuses[WORK_MAX_RANKS]; /* wait status; -1 runs, -2 was killed by the arena because it hung */
};

static inline double arena_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void arena_sleep(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* ---- two hosts ---- */

static pid_t arena_hosts[2]; /* processes that keep the namespaces alive; 0: there are none */

/* Two network namespaces with 10.78.0.1 and 10.78.0.2 at the ends of a cable. False: not allowed here. */
static inline bool arena_hosts_open(void)
{
    if (geteuid() != 0 || namespace_shell("ip -V >/dev/null 2>&1 && ss -V >/dev/null 2>&1 && nsenter -V >/dev/null 2>&1") != 0)
        return false;
    for (int i = 0; i < 2; i++)
        if ((arena_hosts[i] = namespace_hold()) < 0)
            return false;
    return namespace_shell(
               "nsenter -t %d -n sh -c 'ip link set lo up; ip link add cable type veth peer name cable netns %d; ip addr add "
               "10.78.0.1/24 dev cable; ip link set cable up' && nsenter -t %d -n sh -c 'ip link set lo up; ip addr add "
               "10.78.0.2/24 dev cable; ip link set cable up'",
               (int)arena_hosts[0], (int)arena_hosts[1], (int)arena_hosts[1]) == 0;
}

static inline void arena_hosts_close(void)
{
    for (int i = 0; i < 2; i++)
        namespace_release(arena_hosts[i]);
}

static inline int arena_host_of(const struct arena *arena, int rank)
{
    return rank * 2 / arena->nranks;
}

/* ---- a rank ---- */

struct arena_seat {
    struct arena *arena;
    int rank;
    pthread_t thread;
    motetComm_t comm;
    motetStream_t stream;
    struct work work;
};

/* The communicator of each rank of this process, for faults that the process brings on itself; valid while the rank is at work. */
static _Atomic(motetComm_t) arena_comms[WORK_MAX_RANKS];
static _Atomic int arena_aborted[WORK_MAX_RANKS]; /* another thread has aborted it: it is gone */

static inline void arena_note(struct arena_seat *seat, motetResult_t result, const char *operation, const char *text)
{
    struct arena_rank *rank = &seat->arena->page->ranks[seat->rank];
    rank->heard_s = arena_now();
    snprintf(rank->operation, sizeof rank->operation, "%s", operation);
    snprintf(rank->text, sizeof rank->text, "%s", text);
    rank->result = (int)result;
}

static inline motetResult_t arena_join(struct arena_seat *seat)
{
    struct arena_page *page = seat->arena->page;
    if (seat->rank == 0) {
        bool made = motetGetUniqueId(&page->id) == motetSuccess;
        page->ready = made ? 1 : 2;
    }
    double give_up_s = arena_now() + 5; /* rank 0 may have died before there was anything to meet at */
    while (!page->ready && arena_now() < give_up_s)
        arena_sleep(0.001);
    if (page->ready != 1)
        return motetSystemError;
    return motetCommInitRank(&seat->comm, seat->arena->nranks, page->id, seat->rank);
}

/* Rounds until an error, or the last one. */
static inline void arena_work(struct arena_seat *seat)
{
    struct arena_page *page = seat->arena->page;
    struct work *work = &seat->work;
    *work = (struct work){.comm = seat->comm,
                          .stream = seat->stream,
                          .rank = seat->rank,
                          .nranks = seat->arena->nranks,
                          .random = seat->arena->seed * 2654435761u + 1};
    motetResult_t result = work_open(work) ? motetSuccess : motetSystemError;
    page->ranks[seat->rank].stage = ARENA_AT_WORK;
    page->at_work++;
    while (result == motetSuccess && (seat->arena->rounds == 0 || work->round < seat->arena->rounds))
        result = work_round(work);
    if (result != motetSuccess)
        arena_note(seat, result, work->operation ? work->operation : "nothing", work->text);
    page->ranks[seat->rank].wrong = work->wrong;
    page->ranks[seat->rank].rounds = work->round;
    work_close(work);
}

static inline void *arena_rank_main(void *context)
{
    struct arena_seat *seat = context;
    struct arena_rank *told = &seat->arena->page->ranks[seat->rank];
    told->pid = getpid();
    told->stage = ARENA_IN_INIT;
    motetResult_t result = arena_join(seat);
    if (result != motetSuccess) {
        arena_note(seat, result, "init", motetGetLastError(NULL));
        told->stage = ARENA_ENDED;
        return NULL;
    }
    atomic_store(&arena_comms[seat->rank], seat->comm);
    result = motetStreamCreate(&seat->stream);
    if (result != motetSuccess)
        arena_note(seat, result, "StreamCreate", motetGetLastError(NULL));
    else
        arena_work(seat);
    if (told->result != motetInProgress && !atomic_exchange(&arena_aborted[seat->rank], 1))
        motetCommAbort(seat->comm);
    else if (told->result == motetInProgress) {
        result = motetCommDestroy(seat->comm);
        if (result != motetSuccess)
            arena_note(seat, result, "CommDestroy", motetGetLastError(NULL));
    }
    if (seat->stream)
        motetStreamDestroy(seat->stream);
    told->stage = ARENA_ENDED;
    return NULL;
}

/* Waits until the process looks as before, for threads that are leaving; says what is left when they do not. */
static inline void arena_measure(struct arena *arena, int first, int n, int fds, int threads)
{
    int left_fds = 0, left_threads = 0;
    for (int i = 0; i < 600; i++) {
        left_fds = count_entries("/proc/self/fd") - fds;
        left_threads = ARENA_SANITIZED ? 0 : count_entries("/proc/self/task") - threads;
        if (left_fds <= 0 && left_threads <= 0)
            break;
        arena_sleep(0.005);
    }
    for (int r = first; r < first + n; r++) {
        arena->page->ranks[r].left_fds = left_fds > 0 ? left_fds : 0;
        arena->page->ranks[r].left_threads = left_threads > 0 ? left_threads : 0;
    }
}

/* One process with its ranks, to their end. */
static inline void arena_process(struct arena *arena, int first)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static struct arena_seat seats[WORK_MAX_RANKS];
    int n = arena->nranks - first < arena->per_process ? arena->nranks - first : arena->per_process;
    char host[32];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0); /* no core files of planned crashes */
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        signal(deadly[i], SIG_DFL);
    for (int i = 0; i < 8 && arena->environment[i]; i++)
        putenv((char *)(uintptr_t)arena->environment[i]);
    if (arena->place == ARENA_TCP)
        setenv("MOTET_SHM_DISABLE", "1", 1);
    if (arena->place == ARENA_HOSTS || arena->place == ARENA_NETNS) {
        snprintf(host, sizeof host, "pretended-%d", arena_host_of(arena, first));
        setenv("MOTET_HOSTID", host, 1);
    }
    if (arena->place == ARENA_NETNS && !namespace_enter(arena_hosts[arena_host_of(arena, first)]))
        _exit(99);
    int fds = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    if (arena->prepare)
        arena->prepare(arena, first);
    for (int i = 0; i < n; i++) {
        seats[i] = (struct arena_seat){.arena = arena, .rank = first + i};
        if (i > 0 && pthread_create(&seats[i].thread, NULL, arena_rank_main, &seats[i]) != 0)
            _exit(98);
    }
    arena_rank_main(&seats[0]);
    for (int i = 1; i < n; i++)
        pthread_join(seats[i].thread, NULL);
    arena_measure(arena, first, n, fds, threads);
    _exit(0);
}

/* ---- a job ---- */

static inline bool arena_start(struct arena *arena)
{
    arena->page = mmap(NULL, sizeof *arena->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena->page == MAP_FAILED)
        return false;
    for (int r = 0; r < arena->nranks; r++)
        arena->page->ranks[r].result = motetInProgress;
    fflush(NULL);
    for (int r = 0; r < arena->nranks; r += arena->per_process) {
        arena->statuses[r] = -1;
        arena->processes[r] = fork();
        if (arena->processes[r] == 0)
            arena_process(arena, r);
        if (arena->processes[r] < 0)
            return false;
    }
    return true;
}

/* The process that holds a rank. */
static inline int arena_process_of(const struct arena *arena, int rank)
{
    return rank / arena->per_process * arena->per_process;
}

/* Waits for all processes until the deadline and kills what is left. Returns how many hung. */
static inline int arena_wait(struct arena *arena, double deadline_s)
{
    int hung = 0;
    for (bool running = true; running;) {
        bool late = arena_now() > deadline_s;
        running = false;
        for (int r = 0; r < arena->nranks; r += arena->per_process) {
            if (arena->processes[r] <= 0)
                continue;
            if (late)
                kill(arena->processes[r], SIGKILL);
            pid_t got = waitpid(arena->processes[r], &arena->statuses[r], late ? 0 : WNOHANG);
            if (got != arena->processes[r]) {
                running = true;
                continue;
            }
            arena->processes[r] = 0;
            if (late) {
                arena->statuses[r] = -2;
                hung++;
            }
        }
        if (running)
            arena_sleep(0.0005);
    }
    return hung;
}

static inline void arena_end(struct arena *arena)
{
    munmap(arena->page, sizeof *arena->page);
}

#endif
