/* SPDX-License-Identifier: Apache-2.0
 * The cheap clock, see clock.h. The word is stopped after a second whether calls are made or not: so calls need not say that they are,
 * and an idle process sleeps. */
#include "clock.h"

#include "base/os.h"
#include "service.h"

#define RUN_NS 1000000000ull /* between two starts: one exact time and one wake-up of the service thread per second of calls */

struct motet_clock motet_clock;
static _Atomic(_Bool) open_, exact_;
static _Atomic uint64_t stop_ns; /* when the word stops; 0: it stands */

uint64_t motet_clock_ask(void)
{
    uint64_t now = motet_now_ns(), standing = 0;
    if (!atomic_load_explicit(&open_, memory_order_relaxed) || atomic_load_explicit(&exact_, memory_order_relaxed))
        return now;
    if (atomic_compare_exchange_strong(&stop_ns, &standing, now + RUN_NS)) {
        atomic_store_explicit(&motet_clock.now_ns, now, memory_order_relaxed);
        motet_service_wake();
    }
    return now;
}

/* A late store may set the word back by the time between two refreshes, and by no more: both are within the promised error. */
void motet_clock_refresh(uint64_t now_ns)
{
    if (atomic_load_explicit(&motet_clock.now_ns, memory_order_relaxed) != 0)
        atomic_store_explicit(&motet_clock.now_ns, now_ns, memory_order_relaxed);
}

void motet_clock_open(bool exact)
{
    atomic_store(&exact_, exact);
    atomic_store(&stop_ns, 0);
    atomic_store(&open_, true);
}

void motet_clock_close(void)
{
    atomic_store(&open_, false);
    atomic_store(&motet_clock.now_ns, 0);
}

uint64_t motet_clock_error_ns(void)
{
    return atomic_load(&exact_) ? 0 : MOTET_CLOCK_PERIOD_NS;
}

uint64_t motet_clock_tick(uint64_t now_ns)
{
    uint64_t stop = atomic_load(&stop_ns);
    if (stop == 0)
        return UINT64_MAX;
    if (now_ns >= stop) {
        /* The word first: whoever finds it 0 meanwhile takes the exact time and cannot start it yet. A refresh that comes between has
         * read the word before and writes a true time, which the next second's stop takes away. */
        atomic_store_explicit(&motet_clock.now_ns, 0, memory_order_relaxed);
        atomic_store(&stop_ns, 0);
        return UINT64_MAX;
    }
    atomic_store_explicit(&motet_clock.now_ns, now_ns, memory_order_relaxed);
    return now_ns + MOTET_CLOCK_PERIOD_NS;
}
