/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROUND_TRIPS 200
#define YIELD_AFTER 2000

struct line {
    _Alignas(64) _Atomic uint64_t word;
};

struct arena {
    struct line arrived[ARENA_RANKS], ping, pong;
    struct {
        _Alignas(64) double value;
    } numbers[ARENA_RANKS];
};

static struct arena *arena;
static int me, all;
static uint64_t turn, trips;

double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* acquire: what was stored before the word is seen, too. */
static void await(_Atomic uint64_t *word, uint64_t value)
{
    for (int spins = 0; atomic_load_explicit(word, memory_order_acquire) < value; spins++) {
        if (spins < YIELD_AFTER)
            relax();
        else
            sched_yield();
    }
}

void arena_open(const char *path, int rank, int nranks)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *arena) != 0 || nranks > ARENA_RANKS) {
        fprintf(stderr, "%s: cannot be shared by %d ranks\n", path, nranks);
        exit(1);
    }
    arena = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (arena == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    me = rank;
    all = nranks;
}

void arena_barrier(void)
{
    turn++;
    atomic_store_explicit(&arena->arrived[me].word, turn, memory_order_release);
    for (int r = 0; r < all; r++)
        await(&arena->arrived[r].word, turn);
}

double arena_line_ns(void)
{
    arena_barrier();
    double begin = now_ns();
    for (int i = 0; all > 1 && me < 2 && i < ROUND_TRIPS; i++) {
        trips++;
        if (me == 0)
            atomic_store_explicit(&arena->ping.word, trips, memory_order_release);
        await(me == 0 ? &arena->pong.word : &arena->ping.word, trips);
        if (me == 1)
            atomic_store_explicit(&arena->pong.word, trips, memory_order_release);
    }
    double ns = (now_ns() - begin) / ROUND_TRIPS;
    return arena_of_root(all > 1 ? ns : 0);
}

double arena_max(double value)
{
    arena->numbers[me].value = value;
    arena_barrier();
    for (int r = 0; r < all; r++)
        value = arena->numbers[r].value > value ? arena->numbers[r].value : value;
    arena_barrier();
    return value;
}

double arena_of_root(double value)
{
    arena->numbers[me].value = value;
    arena_barrier();
    value = arena->numbers[0].value;
    arena_barrier();
    return value;
}
