/* SPDX-License-Identifier: Apache-2.0
 * Ranks for black-box tests: a function run by every rank of a fresh communicator, as processes or as threads, with a deadline.
 * The test program itself never calls the library: every world lives in children, so that nothing leaks from one to the next
 * and a hang or a crash is a failure of that world alone. Knows only motet.h. */
#ifndef MOTET_TESTS_MULTI_WORLD_H
#define MOTET_TESTS_MULTI_WORLD_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

/* Under a sanitizer everything takes several times as long, and the runtime has threads, mappings and memory of its own. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WORLD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define WORLD_SANITIZED 1
#endif
#endif
#ifndef WORLD_SANITIZED
#define WORLD_SANITIZED 0
#endif

#include "motet.h"

/* PROCESSES: one per rank. THREADS: one process, one thread per rank. BARE: one process per rank, but without a communicator
 * (comm NULL): the function makes its own. ALONE: the same in a single process, as rank 0. */
enum world_kind { WORLD_PROCESSES, WORLD_THREADS, WORLD_BARE, WORLD_ALONE };

struct world {
    enum world_kind kind;
    int nranks;
    const char *environment[6]; /* "NAME=value", NULL ends */
    int timeout_s;              /* 0 = 60 */
    int per_host; /* PROCESSES: n > 0: n ranks per pretended host; n < 0: dealt round robin over -n hosts; 0: one host */
};

/* What a rank does. Returns 0 when all is well, WORLD_ABORTED when it is and the function has aborted or destroyed the communicator
 * itself; CHECK and CALL return 1 with a message. */
#define WORLD_ABORTED (-1)
typedef int (*world_function)(motetComm_t comm, int rank, int nranks, const void *argument);

/* Fails the rank function with a message. */
#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition))                                                          \
            return world_complain(__FILE__, __LINE__, "not true: %s", #condition); \
    } while (0)

/* Calls the library and fails the rank function unless the result is as expected. */
#define EXPECT(result, call)                                                                                           \
    do {                                                                                                               \
        motetResult_t result_ = (call);                                                                                \
        if (result_ != (result))                                                                                       \
            return world_complain(__FILE__, __LINE__, "%s: %s, expected %s (%s)", #call, motetGetErrorString(result_), \
                                  motetGetErrorString(result), motetGetLastError(NULL));                               \
    } while (0)

#define CALL(call) EXPECT(motetSuccess, call)

static inline int world_complain(const char *file, int line, const char *format, ...)
{
    char text[1800];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    return 1;
}

static inline double world_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void world_sleep_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

/* The page that carries the unique id from rank 0 to the others. */
struct world_page {
    _Atomic(int) ready; /* 1: there, 2: rank 0 could not make one */
    motetUniqueId id;
};

static inline int world_process(struct world_page *page, const struct world *world, int rank, world_function function,
                                const void *argument)
{
    if (rank == 0) {
        bool made = motetGetUniqueId(&page->id) == motetSuccess;
        page->ready = made ? 1 : 2;
        CHECK(made);
    }
    while (!page->ready)
        world_sleep_ms(1);
    CHECK(page->ready == 1);
    motetComm_t comm = NULL;
    CALL(motetCommInitRank(&comm, world->nranks, page->id, rank));
    int failed = function(comm, rank, world->nranks, argument);
    if (failed == 1)
        motetCommAbort(comm); /* others may still wait for this rank */
    else if (failed == 0)
        CALL(motetCommDestroy(comm));
    return failed == 1;
}

struct world_thread {
    pthread_t thread;
    motetComm_t comm;
    int rank, nranks, failed;
    world_function function;
    const void *argument;
};

static inline void *world_thread_main(void *pointer)
{
    struct world_thread *self = pointer;
    self->failed = self->function(self->comm, self->rank, self->nranks, self->argument);
    if (self->failed == 1)
        _exit(1);
    return NULL;
}

static inline int world_threads(const struct world *world, world_function function, const void *argument)
{
    motetComm_t comms[128];
    struct world_thread threads[128];
    CHECK(world->nranks <= 128);
    CALL(motetCommInitAll(comms, world->nranks, NULL));
    for (int i = 0; i < world->nranks; i++) {
        threads[i] = (struct world_thread){.comm = comms[i], .rank = i, .nranks = world->nranks, .function = function};
        threads[i].argument = argument;
        CHECK(pthread_create(&threads[i].thread, NULL, world_thread_main, &threads[i]) == 0);
    }
    for (int i = 0; i < world->nranks; i++)
        pthread_join(threads[i].thread, NULL);
    for (int i = 0; i < world->nranks; i++)
        if (threads[i].failed == 0)
            CALL(motetCommDestroy(comms[i]));
    return 0;
}

static inline int world_child(struct world_page *page, const struct world *world, int rank, world_function function,
                              const void *argument)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        signal(deadly[i], SIG_DFL); /* cmocka's handlers would go on with the next test in here */
    for (int i = 0; i < 6 && world->environment[i]; i++)
        putenv((char *)(uintptr_t)world->environment[i]);
    if (world->per_host) {
        char host[32];
        snprintf(host, sizeof host, "pretended-%d", world->per_host > 0 ? rank / world->per_host : rank % -world->per_host);
        setenv("MOTET_HOSTID", host, 1);
    }
    if (world->kind == WORLD_PROCESSES)
        return world_process(page, world, rank, function, argument);
    if (world->kind == WORLD_THREADS)
        return world_threads(world, function, argument);
    return function(NULL, rank, world->nranks, argument);
}

/* Waits for the children until the deadline; kills what is left. Returns the number of ranks that did not end well. */
static inline int world_wait(pid_t *children, int n, double deadline, uint64_t may_die)
{
    int failed = 0, running = n;
    while (running > 0) {
        bool late = world_now() > deadline;
        for (int i = 0; i < n; i++) {
            int status;
            if (children[i] <= 0 || (late && kill(children[i], SIGKILL) != 0) ||
                waitpid(children[i], &status, late ? 0 : WNOHANG) != children[i])
                continue;
            running--;
            children[i] = 0;
            if (!late && i < 64 && may_die >> i & 1 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                continue;
            if (late)
                fprintf(stderr, "rank %d: still running at the deadline\n", i);
            else if (WIFSIGNALED(status))
                fprintf(stderr, "rank %d: killed by signal %d\n", i, WTERMSIG(status));
            failed += late || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
            if (failed && deadline > world_now() + 5) /* the others have no reason to stay */
                deadline = world_now() + 5;
        }
        if (running)
            world_sleep_ms(1);
    }
    return failed;
}

/* Runs one world to its end. Returns the number of processes that did not end well; to be killed by SIGKILL is well for the ranks in
 * `may_die` (a bit each). */
static inline int world_run_with_deaths(const struct world *world, world_function function, const void *argument, uint64_t may_die)
{
    int n = world->kind == WORLD_PROCESSES || world->kind == WORLD_BARE ? world->nranks : 1;
    pid_t children[128];
    struct world_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || n > 128)
        return 1;
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            int failed = world_child(page, world, i, function, argument);
            fflush(NULL);
            _exit(failed ? 1 : 0);
        }
        if (children[i] < 0)
            return 1;
    }
    int failed = world_wait(children, n, world_now() + (world->timeout_s ? world->timeout_s : 60), may_die);
    munmap(page, sizeof *page);
    return failed;
}

static inline int world_run(const struct world *world, world_function function, const void *argument)
{
    return world_run_with_deaths(world, function, argument, 0);
}

#endif
