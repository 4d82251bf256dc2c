/* SPDX-License-Identifier: Apache-2.0
 * Ranks of a bootstrap test: one process each, with a deadline; what each returned, and its error text, come back to the test. */
#ifndef MOTET_TESTS_UNIT_BOOT_RANKS_H
#define MOTET_TESTS_UNIT_BOOT_RANKS_H

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/root.h"
#include "entries.h"

#define RANKS_MAX      64
#define RANK_LIMIT_S   60
#define RANK_UNSTARTED (-1)

struct outcome {
    int result; /* a motetResult_t, or 100 + line of a check that failed, or 1000 + signal */
    int pid;
    uint64_t ended_ns;
    char text[MOTET_ERROR_TEXT_MAX];
};

/* A check inside a rank. */
#define RANK_CHECK(condition)                                                                        \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, motet_error_text()); \
            return 100 + __LINE__;                                                                   \
        }                                                                                            \
    } while (0)

typedef int rank_function(int rank, int nranks, void *argument);

static inline struct outcome *outcomes_new(int nranks)
{
    struct outcome *outcomes =
        mmap(NULL, (size_t)nranks * sizeof(*outcomes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(outcomes, MAP_FAILED);
    for (int rank = 0; rank < nranks; rank++)
        outcomes[rank].result = RANK_UNSTARTED;
    return outcomes;
}

/* Whether all roots of this process have ended within the time, their threads included: a fork while a thread exits may take a
 * sanitizer's locks along. */
static inline bool roots_end(int within_ms)
{
    uint64_t deadline = motet_deadline_ns(within_ms);
    while ((motet_root_count() > 0 || count_entries("/proc/self/task") > 3) && motet_now_ns() < deadline)
        usleep(1000);
    return motet_root_count() == 0;
}

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZED 1
#endif
#endif

#ifdef ADDRESS_SANITIZED
/* Whether every other thread of this process sleeps. */
static inline bool threads_sleep(void)
{
    bool all = true;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        char path[300], state = 'S';
        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", task->d_name);
        FILE *file = task->d_name[0] == '.' || atoi(task->d_name) == getpid() ? NULL : fopen(path, "re");
        if (file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1)
            all &= state == 'S';
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return all;
}

/* The sanitizer's allocator does not survive a fork during which another thread allocates, as a root's thread does when it starts. */
static inline void settle(void)
{
    for (uint64_t deadline = motet_deadline_ns(2000); !threads_sleep() && motet_now_ns() < deadline;)
        usleep(500);
}
#else
static inline void settle(void)
{
}
#endif

static inline void rank_start(struct outcome *outcome, rank_function *function, int rank, int nranks, void *argument)
{
    settle();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        outcome->pid = pid; /* by the parent only: the memory is shared */
        return;
    }
    alarm(RANK_LIMIT_S);
    outcome->result = 99; /* if it neither returns nor dies by a signal */
    int result = function(rank, nranks, argument);
    snprintf(outcome->text, sizeof(outcome->text), "%s", motet_error_text());
    outcome->ended_ns = motet_now_ns();
    outcome->result = result;
    roots_end(5000); /* as a process that goes on to use its communicator */
    _exit(0);
}

static inline void rank_wait(struct outcome *outcome)
{
    int status = 0;
    if (outcome->pid <= 0)
        return;
    while (waitpid(outcome->pid, &status, 0) < 0)
        ;
    if (WIFSIGNALED(status)) {
        outcome->result = 1000 + WTERMSIG(status);
        outcome->ended_ns = motet_now_ns();
    } else if (WEXITSTATUS(status) != 0) {
        outcome->result = 200 + WEXITSTATUS(status); /* a sanitizer's verdict */
    }
    outcome->pid = 0;
}

/* All ranks at once. */
static inline struct outcome *run_ranks(int nranks, rank_function *function, void *argument)
{
    struct outcome *outcomes = outcomes_new(nranks);
    for (int rank = 0; rank < nranks; rank++)
        rank_start(&outcomes[rank], function, rank, nranks, argument);
    for (int rank = 0; rank < nranks; rank++)
        rank_wait(&outcomes[rank]);
    return outcomes;
}

static inline void outcomes_free(struct outcome *outcomes, int nranks)
{
    munmap(outcomes, (size_t)nranks * sizeof(*outcomes));
}

static inline void assert_all(const struct outcome *outcomes, int nranks, int result)
{
    for (int rank = 0; rank < nranks; rank++) {
        if (outcomes[rank].result != result)
            print_error("rank %d of %d: %d, expected %d: %s\n", rank, nranks, outcomes[rank].result, result, outcomes[rank].text);
        assert_int_equal(outcomes[rank].result, result);
    }
}

static inline void assert_says(const struct outcome *outcome, const char *words)
{
    if (!strstr(outcome->text, words))
        print_error("\"%s\" is not in: %s\n", words, outcome->text);
    assert_non_null(strstr(outcome->text, words));
}

static inline int count_descriptors(void)
{
    return count_entries("/proc/self/fd");
}

/* Byte i of what rank gives in a round: differs by all three. */
static inline uint8_t pattern(int rank, unsigned round, size_t i)
{
    return (uint8_t)((unsigned)rank * 37u + round * 101u + (unsigned)(i * 2654435761u >> 13) + 1u);
}

/* An all-gather in which rank r gives lens(r) bytes; checks every byte of all blobs. 0, a result, or 100 + line. */
static inline int gather_and_check(struct motet_boot *boot, size_t (*lens)(int rank, unsigned round), unsigned round)
{
    size_t len = lens(boot->rank, round);
    uint8_t *mine = malloc(len + 1);
    void **all = (void **)(uintptr_t)1;
    size_t *all_lens = NULL;
    RANK_CHECK(mine);
    for (size_t i = 0; i < len; i++)
        mine[i] = pattern(boot->rank, round, i);
    motetResult_t result = motet_boot_allgather(boot, mine, len, &all, &all_lens);
    free(mine);
    if (result != motetSuccess)
        return (int)result;
    for (int rank = 0; rank < boot->nranks; rank++) {
        RANK_CHECK(all_lens[rank] == lens(rank, round));
        const uint8_t *theirs = all[rank];
        for (size_t i = 0; i < all_lens[rank]; i++)
            RANK_CHECK(theirs[i] == pattern(rank, round, i));
    }
    free(all);
    return 0;
}

#endif
