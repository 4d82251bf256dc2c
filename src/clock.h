/* SPDX-License-Identifier: Apache-2.0
 * A cheap clock for records: a word that the service thread refreshes ten times a second while calls are made, and that threads which
 * leave the spin phase of a wait refresh as they go. Reading it costs one load of a line that hardly changes. While nobody has asked for
 * a second it stands still at 0, and the next one who asks takes the exact time and starts it again; so it is never older than about
 * MOTET_CLOCK_PERIOD_NS. While tracing is on it stays 0, and every time is exact. */
#ifndef MOTET_CLOCK_H
#define MOTET_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MOTET_CLOCK_PERIOD_NS 100000000ull

/* On a line of its own. relaxed everywhere: the word is a time and orders nothing. */
struct motet_clock {
    _Alignas(64) _Atomic uint64_t now_ns;
    char rest[56];
};
extern struct motet_clock motet_clock;

/* Exact; starts the word unless times must be exact. */
uint64_t motet_clock_ask(void);

static inline uint64_t motet_clock_now(void)
{
    uint64_t now = atomic_load_explicit(&motet_clock.now_ns, memory_order_relaxed);
    return __builtin_expect(now != 0, 1) ? now : motet_clock_ask();
}

/* Whoever has taken the exact time anyway passes it on. */
void motet_clock_refresh(uint64_t now_ns);

/* The service thread runs from now on (or no longer): without it the word stays 0. */
void motet_clock_open(bool exact);
void motet_clock_close(void);

/* How exact times are: 0 when they are exact. */
uint64_t motet_clock_error_ns(void);

/* On the service thread: refreshes the word or stops it. Returns when to call again; UINT64_MAX: no need. */
uint64_t motet_clock_tick(uint64_t now_ns);

#endif
