/* SPDX-License-Identifier: Apache-2.0
 * See measurement.h. Each number is the best of several batches: what disturbs makes everything slower, nothing makes it faster. One thread
 * leads, the other does what the word between them says. */
#include "measurement.h"

#include <errno.h>
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
#include "base/machine.h"
#include "base/os.h"
#include "reduce/reduce.h"

#define LINE           64
#define TRIPS          100 /* of a batch */
#define BATCHES        8
#define COPY_BYTES     (64 * 1024)        /* in the cache of a core, with its copy */
#define MEMORY_BYTES   (16 * 1024 * 1024) /* four of them do not fit into most caches */
#define MEMORY_PART    (1024 * 1024)      /* is timed */
#define USUAL_BEYOND   (2 * 1024 * 1024)  /* where nobody says how large the cache of a core is */
#define MEMORY_PIECE   (16 * 1024)        /* is copied at once */
#define SOCKET_BYTES   (1024 * 1024)
#define COPY_TURNS     16
#define SOCKET_TRIPS   40
#define SOCKET_BATCHES 3
#define SPINS_A_CLOCK  256 /* looks between two looks at the clock */

/* Messages through staging: one that is short, but long enough to be staged past the cache where that is done at all; and a long one. */
#define STAGED_SHORT   2048
#define STAGED_LONG    (64 * 1024)
#define STAGED_PIECE   (16 * 1024) /* is published at once */
#define EXCHANGES      12          /* of a batch */
#define STAGED_BATCHES 4

#define MIDDLE_NS 85 /* round trips: below, the CPUs share a core's cache or a near one; from FAR_NS on they share none */
#define FAR_NS    200

/* What the second thread does next. */
enum task { IDLE, ECHO, COPY, COPY_CACHED, YIELD, PASS, EXCHANGE, SOCKET_ECHO, SOCKET_READ, END };

struct pair {
    _Alignas(LINE) _Atomic uint32_t ping;
    _Alignas(LINE) _Atomic uint32_t pong;
    _Alignas(LINE) _Atomic int task; /* the leader sets it, the other takes it back to IDLE */
    _Atomic(_Bool) too_late;         /* the deadline has passed: both end */
    _Alignas(LINE) uint64_t deadline_ns;
    size_t cpus[2];
    int sockets[2];
    char *memory;        /* COPY_BYTES x 2; NULL: only the probe */
    char *large[2];      /* MEMORY_BYTES x 2 for each thread */
    char *staging;       /* STAGED_LONG x 2 for each thread */
    size_t staged_bytes; /* of a message */
    bool past_cache;     /* how they are staged */
    size_t copied_bytes; /* of a turn */
    int turns;
    struct motet_speeds *speeds; /* NULL: only the probe */
    double round_trip_ns;
    bool done;
};

static double better(double best, double ns)
{
    return best <= 0 || ns < best ? ns : best;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 2];
}

/* Whether the deadline has passed, for this thread or the other; looks at the clock now and then. */
static bool is_too_late(struct pair *pair, unsigned spins)
{
    if (spins % SPINS_A_CLOCK == 0 && motet_now_ns() > pair->deadline_ns)
        atomic_store(&pair->too_late, true);
    return atomic_load_explicit(&pair->too_late, memory_order_relaxed);
}

/* Waits until the word shows the value, or a later one. False: the deadline has passed. */
static bool await(struct pair *pair, _Atomic uint32_t *word, uint32_t value)
{
    for (unsigned spins = 1; (int32_t)(atomic_load_explicit(word, memory_order_acquire) - value) < 0; spins++) {
        if (is_too_late(pair, spins))
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

static void stage(char *to, const char *from, size_t bytes, bool past_cache)
{
    for (size_t at = 0; at < bytes; at += STAGED_PIECE) {
        size_t piece = bytes - at < STAGED_PIECE ? bytes - at : STAGED_PIECE;
        if (past_cache)
            motet_copy_past_cache(to + at, from + at, piece);
        else
            motet_copy_shared(to + at, from + at, piece);
    }
}

/* Messages as the engine moves them: staged by one, copied from there by the other. Both ways at once, or from the leader to the other, who
 * answers with a word. Halves of the staging take turns: the word of the next message says that the last one was read. */
static void stage_messages(struct pair *pair, int side, bool both)
{
    _Atomic uint32_t *own = side == 0 ? &pair->ping : &pair->pong, *other = side == 0 ? &pair->pong : &pair->ping;
    for (uint32_t i = 1; i <= EXCHANGES; i++) {
        char *mine = pair->staging + (2 * (size_t)side + i % 2) * STAGED_LONG;
        char *theirs = pair->staging + (2 * (size_t)!side + i % 2) * STAGED_LONG;
        bool sends = both || side == 0, reads = both || side == 1;
        if (sends)
            stage(mine, pair->large[side], pair->staged_bytes, pair->past_cache);
        if (sends)
            atomic_store_explicit(own, i, memory_order_release);
        if (!await(pair, other, i))
            return;
        if (reads)
            motet_copy_private(pair->large[side] + STAGED_LONG, theirs, pair->staged_bytes);
        if (!sends)
            atomic_store_explicit(own, i, memory_order_release);
    }
}

/* A byte from the socket, without sleeping. False: it does not come. */
static bool await_byte(struct pair *pair, int fd)
{
    char byte;
    ssize_t n;
    for (unsigned spins = 1; (n = recv(fd, &byte, 1, MSG_DONTWAIT)) < 0 && (errno == EAGAIN || errno == EINTR); spins++) {
        if (is_too_late(pair, spins))
            return false;
    }
    return n == 1;
}

static void socket_echo(struct pair *pair)
{
    char byte = 0;
    for (int i = 0; i < SOCKET_TRIPS && await_byte(pair, pair->sockets[1]); i++)
        if (send(pair->sockets[1], &byte, 1, MSG_NOSIGNAL) != 1)
            return;
}

/* Sends or receives so much, without sleeping. False: it cannot. */
static bool stream(struct pair *pair, int fd, char *memory, bool sends)
{
    unsigned spins = 0;
    for (size_t done = 0; done < SOCKET_BYTES;) {
        ssize_t n = sends ? send(fd, memory, COPY_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, memory, COPY_BYTES, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
        if (++spins % 16 == 0 && motet_now_ns() > pair->deadline_ns) {
            atomic_store(&pair->too_late, true);
            return false;
        }
    }
    return true;
}

static void socket_read(struct pair *pair)
{
    if (!stream(pair, pair->sockets[1], pair->memory, false))
        return;
    ssize_t n = send(pair->sockets[1], pair->memory, 1, MSG_NOSIGNAL); /* a failure ends the other's read as well */
    (void)n;
}

/* In pieces, as the engine moves them. Returns the time. */
static double copy_pieces(struct pair *pair, int side, size_t from, size_t bytes)
{
    uint64_t start_ns = motet_now_ns();
    for (size_t at = from; at < from + bytes; at += MEMORY_PIECE)
        motet_copy_private(pair->large[side] + MEMORY_BYTES + at, pair->large[side] + at, MEMORY_PIECE);
    return (double)(motet_now_ns() - start_ns);
}

/* Larger than the caches. times: of each part; NULL: nobody asked. */
static void copy_memory(struct pair *pair, int side, double *times)
{
    for (size_t part = 0; part < MEMORY_BYTES / MEMORY_PART; part++) {
        double ns = copy_pieces(pair, side, part * MEMORY_PART, MEMORY_PART);
        if (times)
            times[part] = ns;
    }
}

/* Again and again. times: of each turn; NULL: nobody asked. */
static void copy_cached(struct pair *pair, int side, int turns, double *times)
{
    for (int turn = 0; turn < turns; turn++) {
        double ns = copy_pieces(pair, side, 0, pair->copied_bytes);
        if (times)
            times[turn] = ns;
    }
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
        copy_memory(pair, 1, NULL);
        break;
    case COPY_CACHED:
        copy_cached(pair, 1, pair->turns, NULL);
        break;
    case PASS:
        stage_messages(pair, 1, false);
        break;
    case EXCHANGE:
        stage_messages(pair, 1, true);
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
        if (is_too_late(pair, spins))
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

/* Copies while the other copies as well: the two may be threads of one core. Bytes loaded and stored. 0: too late. */
static double copy_speed(struct pair *pair, size_t bytes, int turns)
{
    double times[COPY_TURNS];
    pair->copied_bytes = bytes;
    pair->turns = turns + turns / 2; /* longer than the leader looks */
    begin(pair, COPY_CACHED);
    copy_cached(pair, 0, 1, times); /* into the cache */
    copy_cached(pair, 0, turns, times);
    return finish(pair) ? 2 * (double)bytes / median(times, (size_t)turns) : 0;
}

/* Sums of one core, beside loading operands. */
static void measure_sum(struct pair *pair)
{
    struct motet_reduction reduction;
    double combine = 0;
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

/* In the cache of a core, and in the next one. */
static bool measure_core(struct pair *pair)
{
    struct motet_speeds *speeds = pair->speeds;
    double own, shared;
    motet_machine_caches(&own, &shared);
    size_t beyond =
        (size_t)(own > 0 ? 2 * own : USUAL_BEYOND) / MEMORY_PIECE * MEMORY_PIECE; /* with the copy: four times what it holds */
    beyond = beyond < MEMORY_PIECE ? MEMORY_PIECE : beyond;
    beyond = beyond > MEMORY_BYTES / 2 ? MEMORY_BYTES / 2 : beyond;
    speeds->cache_bytes = own;
    speeds->shared_cache_bytes = shared;
    speeds->copy_bytes_per_ns = copy_speed(pair, COPY_BYTES, COPY_TURNS);
    if (speeds->copy_bytes_per_ns > 0)
        measure_sum(pair);
    speeds->shared_bytes_per_ns = copy_speed(pair, beyond, COPY_TURNS / 2);
    return speeds->copy_bytes_per_ns > 0 && speeds->shared_bytes_per_ns > 0;
}

/* One message. 0: too late. */
static double time_staged(struct pair *pair, enum task task, size_t bytes, bool past_cache)
{
    double best = 0;
    pair->staged_bytes = bytes;
    pair->past_cache = past_cache;
    for (int batch = 0; batch < STAGED_BATCHES; batch++) {
        begin(pair, task);
        uint64_t start_ns = motet_now_ns();
        stage_messages(pair, 0, task == EXCHANGE);
        double ns = (double)(motet_now_ns() - start_ns) / EXCHANGES;
        if (!finish(pair))
            return 0;
        best = better(best, ns);
    }
    return best;
}

/* A straight line through the times of a short and a long message: what a byte takes beside being copied twice, and what any takes beside
 * `lines` trips of a line. */
static bool measure_staged(struct pair *pair, enum task task, bool past_cache, int lines, double *bytes_per_ns, double *start_ns)
{
    double brief = time_staged(pair, task, STAGED_SHORT, past_cache), lasting = time_staged(pair, task, STAGED_LONG, past_cache);
    double byte_ns = (lasting - brief) / (STAGED_LONG - STAGED_SHORT);
    double beside_ns = byte_ns - 4 / pair->speeds->copy_bytes_per_ns;
    *bytes_per_ns = 1 / (beside_ns > 1e-3 ? beside_ns : 1e-3);
    *start_ns = brief - STAGED_SHORT * byte_ns - lines * pair->round_trip_ns / 2;
    *start_ns = *start_ns > 0 ? *start_ns : 0;
    return brief > 0 && lasting > 0;
}

/* Past the cache, if that is faster: the library finds out as well. */
static bool measure_messages(struct pair *pair)
{
    struct motet_speeds *speeds = pair->speeds;
    double cached = time_staged(pair, EXCHANGE, STAGED_LONG, false);
    double past = motet_copy_can_pass_cache() ? time_staged(pair, EXCHANGE, STAGED_LONG, true) : 0;
    bool past_cache = past > 0 && past < cached;
    return measure_staged(pair, PASS, past_cache, 2, &speeds->pass_bytes_per_ns, &speeds->pass_start_ns) &&
           measure_staged(pair, EXCHANGE, past_cache, 1, &speeds->exchange_bytes_per_ns, &speeds->exchange_start_ns);
}

/* Both at once. The leader takes the middle of many times: of a second of a busy neighbour nothing is left. */
static bool measure_memory(struct pair *pair)
{
    double times[MEMORY_BYTES / MEMORY_PART];
    for (int batch = 0; batch < 2; batch++) { /* the first one takes page faults */
        begin(pair, COPY);
        copy_memory(pair, 0, times);
        if (!finish(pair))
            return false;
    }
    pair->speeds->memory_bytes_per_ns = 2 * MEMORY_PART / median(times, MEMORY_BYTES / MEMORY_PART);
    return true;
}

/* Trips of a byte, sent and awaited without sleeping, as the library does. 0: there is no connection any more. */
static double time_socket_trips(struct pair *pair)
{
    int trips = 0;
    begin(pair, SOCKET_ECHO);
    uint64_t start_ns = motet_now_ns();
    for (char byte = 0; trips < SOCKET_TRIPS; trips++)
        if (send(pair->sockets[0], &byte, 1, MSG_NOSIGNAL) != 1 || !await_byte(pair, pair->sockets[0]))
            break;
    double ns = (double)(motet_now_ns() - start_ns) / SOCKET_TRIPS;
    return finish(pair) && trips == SOCKET_TRIPS ? ns : 0;
}

static double time_socket_stream(struct pair *pair)
{
    begin(pair, SOCKET_READ);
    uint64_t start_ns = motet_now_ns();
    bool told = stream(pair, pair->sockets[0], pair->memory + COPY_BYTES, true) && await_byte(pair, pair->sockets[0]);
    double ns = (double)(motet_now_ns() - start_ns);
    return finish(pair) && told ? ns : 0;
}

/* Failures leave what was assumed: a host without loopback still has speeds. */
static bool measure_socket(struct pair *pair)
{
    double trip = 0, stream = 0;
    for (int batch = 0; pair->sockets[0] >= 0 && batch < SOCKET_BATCHES; batch++) {
        double trip_ns = time_socket_trips(pair), stream_ns = trip_ns > 0 ? time_socket_stream(pair) : 0;
        if (stream_ns <= 0)
            break;
        trip = better(trip, trip_ns);
        stream = better(stream, stream_ns);
    }
    if (stream > 0) {
        pair->speeds->socket_latency_ns = trip / 2;
        pair->speeds->socket_bytes_per_ns = SOCKET_BYTES / stream;
    }
    return !atomic_load(&pair->too_late);
}

static void *lead(void *context)
{
    struct pair *pair = context;
    bind_to(pair, pair->cpus[0]);
    bool ok = measure_line(pair);
    if (ok && pair->speeds)
        ok = measure_core(pair) && measure_messages(pair) && measure_switch(pair) && measure_memory(pair) && measure_socket(pair);
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
    pair->staging = aligned_alloc(4096, 4 * STAGED_LONG);
    char *mapped = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok = pair->memory && pair->staging && mapped != MAP_FAILED && find_cpus(pair->cpus);
    if (ok) {
        madvise(mapped, large, MADV_HUGEPAGE);
        pair->large[0] = mapped;
        pair->large[1] = mapped + 2 * (size_t)MEMORY_BYTES;
        memset(pair->memory, 0, 2 * COPY_BYTES);
        memset(pair->staging, 0, 4 * STAGED_LONG);
        connect_loopback(pair->sockets);
        ok = run_threads(pair);
        for (int i = 0; i < 2 && pair->sockets[0] >= 0; i++)
            motet_descriptor_close(pair->sockets[i]);
    }
    if (mapped != MAP_FAILED)
        munmap(mapped, large);
    free(pair->memory);
    free(pair->staging);
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
