/* SPDX-License-Identifier: Apache-2.0
 * See measurement.h. Each number is the best of several batches: what disturbs makes everything slower, nothing makes it faster. One thread
 * leads, the other does what the word between them says. */
#include "measurement.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/os.h"
#include "reduce/reduce.h"

#define LINE          64
#define TRIPS         100 /* of a batch */
#define BATCHES       8
#define COPY_BYTES    (64 * 1024)        /* in the cache of a core, with its copy */
#define MEMORY_BYTES  (16 * 1024 * 1024) /* four of them do not fit into most caches */
#define SOCKET_BYTES  (2 * 1024 * 1024)
#define SPINS_A_CLOCK 256 /* looks between two looks at the clock */

#define MIDDLE_NS 85 /* round trips: below, the CPUs share a core's cache or a near one; from FAR_NS on they share none */
#define FAR_NS    200

/* What the second thread does next. */
enum task { IDLE, ECHO, COPY, YIELD, SOCKET_ECHO, SOCKET_READ, END };

struct pair {
    _Alignas(LINE) _Atomic uint32_t ping;
    _Alignas(LINE) _Atomic uint32_t pong;
    _Alignas(LINE) _Atomic int task; /* the leader sets it, the other takes it back to IDLE */
    _Atomic(_Bool) too_late;         /* the deadline has passed: both end */
    _Alignas(LINE) uint64_t deadline_ns;
    size_t cpus[2];
    int sockets[2];
    char *memory;                /* COPY_BYTES x 2; NULL: only the probe */
    char *large[2];              /* MEMORY_BYTES x 2 for each thread */
    struct motet_speeds *speeds; /* NULL: only the probe */
    double round_trip_ns;
    bool done;
};

static double better(double best, double ns)
{
    return best <= 0 || ns < best ? ns : best;
}

/* Waits until the word shows the value. False: the deadline has passed. */
static bool await(struct pair *pair, _Atomic uint32_t *word, uint32_t value)
{
    for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; spins++) {
        if (spins % SPINS_A_CLOCK == 0 && motet_now_ns() > pair->deadline_ns)
            atomic_store(&pair->too_late, true);
        if (atomic_load_explicit(&pair->too_late, memory_order_relaxed))
            return false;
    }
    return true;
}

/* This thread. A CPU that is not to be had ends the measurement. */
static void bind_to(struct pair *pair, size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        atomic_store(&pair->too_late, true);
}

/* ---- The second thread ---- */

static void echo(struct pair *pair, bool yields)
{
    for (uint32_t i = 1; i <= TRIPS; i++) {
        while (yields && atomic_load_explicit(&pair->ping, memory_order_acquire) != i && !atomic_load(&pair->too_late))
            sched_yield();
        if (!await(pair, &pair->ping, i))
            return;
        atomic_store_explicit(&pair->pong, i, memory_order_release);
    }
}

static void socket_echo(struct pair *pair)
{
    char byte;
    for (int i = 0; i < TRIPS && recv(pair->sockets[1], &byte, 1, 0) == 1; i++)
        if (send(pair->sockets[1], &byte, 1, MSG_NOSIGNAL) != 1)
            return;
}

static void socket_read(struct pair *pair)
{
    size_t got = 0;
    ssize_t n = 1;
    while (got < SOCKET_BYTES && n > 0) {
        n = recv(pair->sockets[1], pair->memory, COPY_BYTES, 0);
        got += n > 0 ? (size_t)n : 0;
    }
    n = send(pair->sockets[1], pair->memory, 1, MSG_NOSIGNAL); /* the end is told; a failure ends the other's read as well */
    (void)n;
}

static void do_task(struct pair *pair, int task)
{
    switch (task) {
    case ECHO:
        echo(pair, false);
        break;
    case YIELD:
        bind_to(pair, pair->cpus[0]);
        echo(pair, true);
        bind_to(pair, pair->cpus[1]);
        break;
    case COPY:
        motet_copy_private(pair->large[1] + MEMORY_BYTES, pair->large[1], MEMORY_BYTES);
        break;
    case SOCKET_ECHO:
        socket_echo(pair);
        break;
    case SOCKET_READ:
        socket_read(pair);
        break;
    default:
        break;
    }
}

static void *follow(void *context)
{
    struct pair *pair = context;
    bind_to(pair, pair->cpus[1]);
    for (int task = IDLE; task != END;) {
        task = atomic_load_explicit(&pair->task, memory_order_acquire);
        if (task == IDLE || task == END) {
            if (atomic_load_explicit(&pair->too_late, memory_order_relaxed))
                sched_yield();
            continue;
        }
        do_task(pair, task);
        /* release: what the task stored is seen by who sees it done. */
        atomic_store_explicit(&pair->task, IDLE, memory_order_release);
    }
    return NULL;
}

/* ---- The leader ---- */

static void begin(struct pair *pair, enum task task)
{
    atomic_store_explicit(&pair->ping, 0, memory_order_relaxed);
    atomic_store_explicit(&pair->pong, 0, memory_order_relaxed);
    atomic_store_explicit(&pair->task, task, memory_order_release);
}

/* Waits for the other's task. Tasks end by themselves, also when it is too late. */
static bool finish(struct pair *pair)
{
    for (unsigned spins = 1; atomic_load_explicit(&pair->task, memory_order_acquire) != IDLE; spins++) {
        if (spins % SPINS_A_CLOCK == 0 && motet_now_ns() > pair->deadline_ns)
            atomic_store(&pair->too_late, true);
        if (atomic_load_explicit(&pair->too_late, memory_order_relaxed))
            sched_yield();
    }
    if (motet_now_ns() > pair->deadline_ns) /* brief tasks end before anybody has looked at the clock */
        atomic_store(&pair->too_late, true);
    return !atomic_load(&pair->too_late);
}

static bool measure_line(struct pair *pair)
{
    for (int batch = 0; batch < BATCHES; batch++) {
        begin(pair, ECHO);
        uint64_t start_ns = 0;
        for (uint32_t i = 1; i <= TRIPS; i++) {
            if (i == 2) /* the first trip waits for the other to look */
                start_ns = motet_now_ns();
            atomic_store_explicit(&pair->ping, i, memory_order_release);
            if (!await(pair, &pair->pong, i))
                break;
        }
        double ns = (double)(motet_now_ns() - start_ns) / (TRIPS - 1);
        if (!finish(pair))
            return false;
        pair->round_trip_ns = better(pair->round_trip_ns, ns);
    }
    return true;
}

static bool measure_switch(struct pair *pair)
{
    double best = 0;
    for (int batch = 0; batch < BATCHES / 2; batch++) {
        begin(pair, YIELD);
        uint64_t start_ns = 0;
        for (uint32_t i = 1; i <= TRIPS && !atomic_load(&pair->too_late); i++) {
            start_ns = i == 2 ? motet_now_ns() : start_ns;
            atomic_store_explicit(&pair->ping, i, memory_order_release);
            while (atomic_load_explicit(&pair->pong, memory_order_acquire) != i && !atomic_load(&pair->too_late)) {
                sched_yield();
                if (i % 16 == 0 && motet_now_ns() > pair->deadline_ns)
                    atomic_store(&pair->too_late, true);
            }
        }
        double ns = (double)(motet_now_ns() - start_ns) / (2 * (TRIPS - 1));
        if (!finish(pair))
            return false;
        best = better(best, ns);
    }
    pair->speeds->switch_ns = best;
    return true;
}

/* Copies and sums of one core, in its cache. */
static void measure_core(struct pair *pair)
{
    struct motet_reduction reduction;
    double copy = 0, combine = 0;
    for (int batch = 0; batch < 2 * BATCHES; batch++) {
        uint64_t start_ns = motet_now_ns();
        motet_copy_private(pair->memory + COPY_BYTES, pair->memory, COPY_BYTES);
        copy = better(copy, (double)(motet_now_ns() - start_ns));
    }
    pair->speeds->copy_bytes_per_ns = 2 * COPY_BYTES / (copy > 1 ? copy : 1);
    if (motet_reduction_init(&reduction, motetFloat32, motetSum, 2) != motetSuccess)
        return;
    for (int batch = 0; batch < 2 * BATCHES; batch++) {
        struct motet_operand operands[2] = {{.at = pair->memory}, {.at = pair->memory + COPY_BYTES / 2}};
        uint64_t start_ns = motet_now_ns();
        motet_reduce(&reduction, pair->memory + COPY_BYTES, false, operands, 2, COPY_BYTES / 2 / sizeof(float));
        combine = better(combine, (double)(motet_now_ns() - start_ns));
    }
    double beside = combine - 1.5 * COPY_BYTES / pair->speeds->copy_bytes_per_ns;
    pair->speeds->combine_bytes_per_ns = COPY_BYTES / (beside > COPY_BYTES / 1000. ? beside : COPY_BYTES / 1000.);
}

static bool measure_memory(struct pair *pair)
{
    double best = 0;
    for (int batch = 0; batch < 2; batch++) { /* the first one takes page faults */
        begin(pair, COPY);
        uint64_t start_ns = motet_now_ns();
        motet_copy_private(pair->large[0] + MEMORY_BYTES, pair->large[0], MEMORY_BYTES);
        if (!finish(pair))
            return false;
        best = better(best, (double)(motet_now_ns() - start_ns));
    }
    pair->speeds->memory_bytes_per_ns = 2 * MEMORY_BYTES / best;
    return true;
}

/* Failures leave what was assumed: a host without loopback still has speeds. */
static bool measure_socket(struct pair *pair)
{
    char byte = 0;
    if (pair->sockets[0] < 0)
        return true;
    begin(pair, SOCKET_ECHO);
    uint64_t start_ns = motet_now_ns();
    for (int i = 0; i < TRIPS; i++)
        if (send(pair->sockets[0], &byte, 1, MSG_NOSIGNAL) != 1 || recv(pair->sockets[0], &byte, 1, 0) != 1)
            break;
    double trip = (double)(motet_now_ns() - start_ns) / TRIPS;
    if (!finish(pair))
        return false;
    begin(pair, SOCKET_READ);
    start_ns = motet_now_ns();
    for (size_t sent = 0; sent < SOCKET_BYTES;) {
        ssize_t n = send(pair->sockets[0], pair->memory + COPY_BYTES, COPY_BYTES, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    ssize_t n = recv(pair->sockets[0], &byte, 1, 0);
    double whole = (double)(motet_now_ns() - start_ns);
    pair->speeds->socket_latency_ns = trip / 2;
    if (n == 1)
        pair->speeds->socket_bytes_per_ns = SOCKET_BYTES / whole;
    return finish(pair);
}

static void *lead(void *context)
{
    struct pair *pair = context;
    bind_to(pair, pair->cpus[0]);
    bool ok = measure_line(pair);
    if (ok && pair->speeds) {
        measure_core(pair);
        ok = measure_switch(pair) && measure_memory(pair) && measure_socket(pair);
    }
    pair->done = ok;
    atomic_store_explicit(&pair->task, END, memory_order_release);
    return NULL;
}

/* ---- Setting up ---- */

/* The first and the last CPU on which this process may run; a process that is bound to one CPU asks for those of the host. */
static bool find_cpus(size_t cpus[2])
{
    cpu_set_t set;
    int n = 0;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return false;
    if (CPU_COUNT(&set) < 2) {
        long all = sysconf(_SC_NPROCESSORS_ONLN);
        cpus[0] = 0;
        cpus[1] = (size_t)all - 1;
        return all > 1 && all <= CPU_SETSIZE;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set))
            continue;
        cpus[n > 0] = cpu;
        n++;
    }
    return true;
}

/* A connection over loopback. {-1, -1}: there is none. */
static void connect_loopback(int sockets[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    struct timeval patience = {.tv_usec = 20000};
    int one = 1, listener = motet_descriptor_keep(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockets[0] = sockets[1] = -1;
    if (listener >= 0 && bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&address, &len) == 0) {
        sockets[0] = motet_descriptor_keep(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        if (sockets[0] >= 0 && connect(sockets[0], (struct sockaddr *)&address, len) == 0)
            sockets[1] = motet_descriptor_keep(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    }
    motet_descriptor_close(listener);
    if (sockets[1] < 0) {
        motet_descriptor_close(sockets[0]);
        sockets[0] = -1;
    }
    for (int i = 0; i < 2 && sockets[0] >= 0; i++) {
        setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        setsockopt(sockets[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(sockets[i], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    }
}

/* Both threads, with all signals blocked: handlers of the program do not run in them. */
static bool run_threads(struct pair *pair)
{
    sigset_t all, before;
    pthread_t leader, follower;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool follows = pthread_create(&follower, NULL, follow, pair) == 0;
    bool leads = follows && pthread_create(&leader, NULL, lead, pair) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (leads)
        pthread_join(leader, NULL);
    else
        atomic_store(&pair->task, END);
    if (follows)
        pthread_join(follower, NULL);
    return leads && pair->done;
}

double motet_measurement_probe(uint64_t deadline_ns)
{
    struct pair *pair = aligned_alloc(LINE, (sizeof(*pair) + LINE - 1) / LINE * LINE);
    double round_trip_ns = 0;
    if (!pair)
        return 0;
    memset(pair, 0, sizeof(*pair));
    pair->deadline_ns = deadline_ns;
    if (find_cpus(pair->cpus) && run_threads(pair))
        round_trip_ns = pair->round_trip_ns;
    free(pair);
    return round_trip_ns;
}

enum motet_distance motet_measurement_distance(double round_trip_ns)
{
    return round_trip_ns < MIDDLE_NS ? MOTET_DISTANCE_NEAR : round_trip_ns < FAR_NS ? MOTET_DISTANCE_MIDDLE : MOTET_DISTANCE_FAR;
}

static bool run_pair(struct pair *pair)
{
    size_t large = 4 * (size_t)MEMORY_BYTES;
    pair->memory = aligned_alloc(4096, 2 * COPY_BYTES);
    char *mapped = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok = pair->memory && mapped != MAP_FAILED && find_cpus(pair->cpus);
    if (ok) {
        madvise(mapped, large, MADV_HUGEPAGE);
        pair->large[0] = mapped;
        pair->large[1] = mapped + 2 * (size_t)MEMORY_BYTES;
        memset(pair->memory, 0, 2 * COPY_BYTES);
        connect_loopback(pair->sockets);
        ok = run_threads(pair);
        for (int i = 0; i < 2 && pair->sockets[0] >= 0; i++)
            motet_descriptor_close(pair->sockets[i]);
    }
    if (mapped != MAP_FAILED)
        munmap(mapped, large);
    free(pair->memory);
    return ok;
}

bool motet_measurement_run(uint64_t deadline_ns, struct motet_speeds *speeds)
{
    struct pair *pair = aligned_alloc(LINE, (sizeof(*pair) + LINE - 1) / LINE * LINE);
    struct motet_speeds found = {.is_measured = 1};
    if (!pair)
        return false;
    memset(pair, 0, sizeof(*pair));
    pair->deadline_ns = deadline_ns;
    pair->speeds = &found;
    bool ok = run_pair(pair);
    found.line_ns = pair->round_trip_ns / 2;
    found.distance = motet_measurement_distance(pair->round_trip_ns);
    if (ok) {
        found.machine = speeds->machine;
        found.tuning = speeds->tuning;
        *speeds = found;
    }
    free(pair);
    return ok;
}
