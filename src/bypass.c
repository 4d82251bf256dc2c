/* SPDX-License-Identifier: Apache-2.0
 * See bypass.h. Prices are in picoseconds per byte. */
#include "bypass.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "plan.h"

#define PROBE_BYTES     4096 /* at most so much of a message is timed: 64 lines, longer than the clock is coarse */
#define PROBE_EVERY     16   /* calls from one probe to the next */
#define RETRY_EVERY     61 /* calls past the cache until one goes through it again; a prime: patterns of calls do not fall in step */
#define PRICE_MAX       2000 /* a probe that was interrupted says nothing more than this */
#define TIMES_THE_STORE 3    /* what passes memory is stored, written back and read again, and two ranks do it at once */
#define MEASURE_BYTES   (128 * 1024)
#define MEASURE_TURNS   8

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t past_cache_price; /* of a streaming store; UINT32_MAX: there are none */

static uint32_t price(uint64_t ns, size_t bytes)
{
    uint64_t ps = ns * 1000 / bytes;
    return ps < PRICE_MAX ? (uint32_t)ps : PRICE_MAX;
}

/* What storing past the cache costs, from a source in the cache. About 50 us, once in a process. */
static void measure(void)
{
    past_cache_price = UINT32_MAX;
    char *memory = motet_copy_can_pass_cache() ? aligned_alloc(MOTET_LINE, 2 * (size_t)MEASURE_BYTES) : NULL;
    for (int i = 0; memory && i <= MEASURE_TURNS; i++) {
        uint64_t begin_ns = motet_now_ns();
        motet_copy_past_cache(memory + MEASURE_BYTES, memory, MEASURE_BYTES);
        uint32_t one = price(motet_now_ns() - begin_ns, MEASURE_BYTES);
        if (i > 0 && one < past_cache_price) /* the first one takes page faults */
            past_cache_price = one;
    }
    free(memory);
    if (past_cache_price != UINT32_MAX)
        INFO(MOTET_LOG_TUNING, "streaming stores take %u ps per byte", past_cache_price);
}

/* What a peer pays for lines in this rank's cache. 0: it has not measured. */
static uint32_t price_of(motetComm_t comm, int position)
{
    const struct motet_peer *peer = &comm->peers[position];
    return peer->mapped ? atomic_load_explicit(&motet_region_control(peer->region)->read_price, memory_order_relaxed) : 0;
}

/* The reader that pays most. */
static uint32_t dearest_reader(motetComm_t comm, const struct motet_plan *plan)
{
    uint32_t most = 0;
    for (int i = 0; i < plan->nreaders; i++) {
        uint32_t one = price_of(comm, plan->readers[i]);
        most = one > most ? one : most;
    }
    return most;
}

/* Whether to go past the cache when reading from it has that price. */
static bool passes(struct motet_bypass *bypass, uint32_t reading)
{
    int64_t wanted = motet_setting_int(MOTET_SET_CACHE_BYPASS);
    if (wanted >= 0 || reading == 0)
        return wanted > 0;
    pthread_once(&once, measure);
    if (reading / TIMES_THE_STORE <= past_cache_price)
        return false;
    if (++bypass->since_retry < RETRY_EVERY)
        return true;
    bypass->since_retry = 0;
    return false;
}

bool motet_bypass_message_passes(motetComm_t comm, int position)
{
    return passes(&comm->bypass, price_of(comm, position));
}

void motet_bypass_choose(motetComm_t comm, const struct motet_plan *plan, uint64_t seq)
{
    struct motet_bypass *bypass = &comm->bypass;
    if (bypass->seq == seq) { /* the call goes on in the engine */
        bypass->on = bypass->chosen;
        return;
    }
    bypass->on = passes(bypass, dearest_reader(comm, plan));
    bypass->seq = seq;
    bypass->chosen = bypass->on;
    if (!bypass->on)
        atomic_store_explicit(&comm->control->progress.cached, seq, memory_order_relaxed);
}

static uint32_t median(const uint32_t v[3])
{
    uint32_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];
    return v[2] < low ? low : v[2] > high ? high : v[2];
}

void motet_bypass_probe(motetComm_t comm, const char *staged, size_t len)
{
    struct motet_bypass *bypass = &comm->bypass;
    size_t bytes = len < PROBE_BYTES ? len : PROBE_BYTES;
    /* Page faults are taken before the clock is read; staging and pieces are aligned so that two touches reach all pages. */
    uint64_t sum =
        __atomic_load_n((const uint64_t *)(const void *)staged, __ATOMIC_RELAXED) +
        __atomic_load_n((const uint64_t *)(const void *)(staged + (bytes - 1) / MOTET_LINE * MOTET_LINE), __ATOMIC_RELAXED);
    uint64_t begin_ns = motet_now_ns();
    for (size_t at = 0; at + MOTET_LINE <= bytes; at += MOTET_LINE)
        sum += __atomic_load_n((const uint64_t *)(const void *)(staged + at), __ATOMIC_RELAXED);
    __asm__ volatile("" : : "r"(sum)); /* the loads happen before the clock is read again */
    bypass->prices[bypass->nprobes++ % 3] = price(motet_now_ns() - begin_ns, bytes);
    uint64_t turn = bypass->nprobes < 3 ? 1 : PROBE_EVERY;
    bypass->next_probe = comm->seq + turn;
    bypass->next_message = comm->messages + turn;
    if (bypass->nprobes >= 3)
        atomic_store_explicit(&comm->control->read_price, median(bypass->prices), memory_order_relaxed);
}
