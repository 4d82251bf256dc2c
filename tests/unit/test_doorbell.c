/* SPDX-License-Identifier: Apache-2.0
 * Sleeping and waking: no ring is lost, whoever rings and however many sleep, and deadlines hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "pair.h"

#define SLEEPERS 6

static int open_process(void **state)
{
    static struct motet_process me;
    (void)state;
    pair_choose("SHM");
    return motet_process_open(&me) != motetSuccess;
}

static int close_process(void **state)
{
    (void)state;
    motet_process_close();
    return 0;
}

static void test_doorbell_wait_without_ring_ends_at_the_deadline(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t start_ns = motet_now_ns();
        uint32_t ticket = motet_doorbell_ticket();
        while (motet_doorbell_ticket() == ticket && motet_now_ns() < start_ns + 50 * PAIR_MS)
            motet_doorbell_wait(ticket, start_ns + 50 * PAIR_MS);
        assert_in_range(motet_now_ns() - start_ns, 49 * PAIR_MS, 2000 * PAIR_MS);
    }
    uint64_t start_ns = motet_now_ns();
    motet_doorbell_wait(motet_doorbell_ticket(), 0); /* a deadline in the past */
    assert_true(motet_now_ns() - start_ns < 1000 * PAIR_MS);
}

static void test_doorbell_ring_after_the_ticket_ends_the_wait_at_once(void **state)
{
    (void)state;
    uint32_t ticket = motet_doorbell_ticket();
    motet_doorbell_ring_self();
    motet_doorbell_wait(ticket, UINT64_MAX);
}

/* ---- several threads ---- */

static _Atomic uint64_t published, answered[SLEEPERS];
static _Atomic int stop;

/* The protocol of the layers above: ticket, look, sleep. */
static void *follow_the_counter(void *context)
{
    _Atomic uint64_t *mine = context;
    uint64_t seen = 0;
    for (;;) {
        uint32_t ticket = motet_doorbell_ticket();
        uint64_t now = atomic_load(&published);
        if (atomic_load(&stop))
            return NULL;
        if (now != seen) {
            seen = now;
            atomic_store(mine, now);
            motet_doorbell_ring_self();
            continue;
        }
        motet_doorbell_wait(ticket, UINT64_MAX); /* a lost ring is a hang, which the alarm ends */
    }
}

static bool all_answered(uint64_t value)
{
    for (int i = 0; i < SLEEPERS; i++)
        if (atomic_load(&answered[i]) != value)
            return false;
    return true;
}

static void test_doorbell_ring_wakes_every_sleeping_thread(void **state)
{
    pthread_t threads[SLEEPERS];
    (void)state;
    atomic_store(&published, 0);
    atomic_store(&stop, 0);
    for (int i = 0; i < SLEEPERS; i++) {
        atomic_store(&answered[i], 0);
        assert_int_equal(pthread_create(&threads[i], NULL, follow_the_counter, &answered[i]), 0);
    }
    for (uint64_t value = 1; value <= 500; value++) {
        atomic_store(&published, value);
        motet_doorbell_ring_self();
        while (!all_answered(value)) {
            uint32_t ticket = motet_doorbell_ticket();
            if (!all_answered(value))
                motet_doorbell_wait(ticket, UINT64_MAX);
        }
    }
    atomic_store(&stop, 1);
    motet_doorbell_ring_self();
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void test_doorbell_sleepers_use_no_time(void **state)
{
    struct rusage before, after;
    (void)state;
    getrusage(RUSAGE_SELF, &before);
    uint64_t end_ns = motet_now_ns() + 500 * PAIR_MS;
    while (motet_now_ns() < end_ns)
        motet_doorbell_wait(motet_doorbell_ticket(), end_ns);
    getrusage(RUSAGE_SELF, &after);
    long used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
                   after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec;
    assert_in_range(used_us, 0, 25000); /* 5 % */
}

/* ---- two processes ---- */

static void body_ping_pong(struct pair *pair)
{
    for (uint64_t i = 1; i <= 2000; i++) {
        if (pair->side == 0)
            pair_publish(pair, 4096, &i, sizeof(i), 8, i);
        CHECK(pair_await(pair, 8, i, 20000));
        if (pair->side == 1)
            pair_publish(pair, 4096, &i, sizeof(i), 8, i);
    }
    pair_barrier(pair);
}

static void test_doorbell_rings_between_processes_are_not_lost(void **state)
{
    (void)state;
    assert_int_equal(pair_run("SHM", body_ping_pong), 0);
    assert_int_equal(pair_run("NET/Socket", body_ping_pong), 0);
}

/* Data for a communicator whose threads compute must not keep another's sleeper awake. */
static void body_foreign_data(struct pair *pair)
{
    struct rusage before, after;
    if (pair->side == 1) {
        static unsigned char bytes[10000];
        for (int i = 0; i < 20; i++) {
            pair_publish(pair, 4096, bytes, sizeof(bytes), 16, (uint64_t)i + 1);
            usleep(20000);
        }
        pair_barrier(pair);
        return;
    }
    getrusage(RUSAGE_SELF, &before);
    uint64_t end_ns = motet_now_ns() + 400 * PAIR_MS;
    while (motet_now_ns() < end_ns) /* never calls progress by itself */
        motet_doorbell_wait(motet_doorbell_ticket(), end_ns);
    getrusage(RUSAGE_SELF, &after);
    CHECK(pair_word(pair->view + 16) > 5);
    CHECK((after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 +
              after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec <
          60000);
    pair_barrier(pair);
}

static void test_doorbell_sleeper_reads_what_wakes_it(void **state)
{
    (void)state;
    assert_int_equal(pair_run("NET/Socket", body_foreign_data), 0);
}

int main(void)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(test_doorbell_wait_without_ring_ends_at_the_deadline),
        cmocka_unit_test(test_doorbell_ring_after_the_ticket_ends_the_wait_at_once),
        cmocka_unit_test(test_doorbell_ring_wakes_every_sleeping_thread),
        cmocka_unit_test(test_doorbell_sleepers_use_no_time),
    };
    const struct CMUnitTest together[] = {
        cmocka_unit_test(test_doorbell_rings_between_processes_are_not_lost),
        cmocka_unit_test(test_doorbell_sleeper_reads_what_wakes_it),
    };
    alarm(120);
    /* Processes first: settings are read once, and children inherit them. */
    int failures = cmocka_run_group_tests(together, NULL, NULL);
    /* Without an open process there is no epoll: sleepers have only the futex. */
    failures += cmocka_run_group_tests(alone, NULL, NULL);
    return failures + cmocka_run_group_tests(alone, open_process, close_process);
}
