/* SPDX-License-Identifier: Apache-2.0
 * Framing of remote writes, over simulated connections that cut, stall and break: what arrives, in which order, and what bad bytes do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "endpoint.h"
#include "lane.h"
#include "link.h"
#include "transport/sim.h"
#include "window.h"

#define WINDOW (256 * 1024)
#define POISON 0xa5

struct fixture {
    struct motet_endpoint *a, *b;
    char *memory;
    uint64_t key;
    int deaths, controls;
    char cause[160];
};

static void on_control(void *context, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len)
{
    struct fixture *fixture = context;
    (void)from;
    if (kind == MOTET_CONTROL_DEATH) {
        fixture->deaths++;
        snprintf(fixture->cause, sizeof(fixture->cause), "%.*s", (int)len, (const char *)bytes);
    } else {
        fixture->controls++;
    }
}

static void open_fixture(struct fixture *fixture, uint64_t seed, const struct motet_sim_options *options)
{
    memset(fixture, 0, sizeof(*fixture));
    assert_int_equal(motet_sim_endpoint_pair(seed, options, &fixture->a, &fixture->b), motetSuccess);
    fixture->memory = aligned_alloc(64, WINDOW);
    memset(fixture->memory, POISON, WINDOW);
    struct motet_endpoint *ends[2] = {fixture->a, fixture->b};
    void *base = fixture->memory;
    assert_int_equal(motet_windows_open(1, &base, WINDOW, ends, 2, on_control, fixture, &fixture->key), motetSuccess);
}

static void close_fixture(struct fixture *fixture)
{
    motet_windows_close(fixture->key);
    motet_endpoint_release(fixture->a);
    motet_endpoint_release(fixture->b);
    free(fixture->memory);
}

static uint64_t word_at(const struct fixture *fixture, size_t offset)
{
    return __atomic_load_n((uint64_t *)(fixture->memory + offset), __ATOMIC_ACQUIRE);
}

static void fill(unsigned char *bytes, size_t len, unsigned salt)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + salt * 31 + 1);
}

/* Puts one block and polls until its word is there; the bytes must be there too, and nothing beside them. */
static void put_and_check(struct fixture *fixture, size_t len, uint64_t word)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    fill(bytes, len, (unsigned)word);
    memset(fixture->memory, POISON, WINDOW);
    while (!motet_endpoint_put(fixture->a, fixture->key, 128 + word % 7, bytes, len, 8, word))
        motet_endpoint_progress(fixture->b);
    while (word_at(fixture, 8) != word) {
        motet_endpoint_progress(fixture->a);
        motet_endpoint_progress(fixture->b);
    }
    assert_memory_equal(fixture->memory + 128 + word % 7, bytes, len);
    assert_int_equal((unsigned char)fixture->memory[127 + word % 7], POISON);
    assert_int_equal((unsigned char)fixture->memory[128 + word % 7 + len], POISON);
    assert_int_equal((unsigned char)fixture->memory[7], POISON);
    assert_int_equal((unsigned char)fixture->memory[16], POISON);
}

static void test_lane_put_of_every_size_arrives_before_its_word(void **state)
{
    static const size_t sizes[] = {0,    1,    7,    8,    39,    40,    41,    63,    64,    65,
                                   1000, 4095, 4096, 4097, 16343, 16344, 16345, 16384, 65535, MOTET_PUT_MAX};
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct motet_sim_options options = {
            .capacity = 1024 << seed % 5 * 2, .longest = seed % 2 ? 0 : 1000 * seed * seed, .stall_percent = (unsigned)(seed * 10)};
        struct fixture fixture;
        open_fixture(&fixture, seed, &options);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
            put_and_check(&fixture, sizes[i], seed * 100 + i + 1);
        close_fixture(&fixture);
    }
}

static void test_lane_puts_to_one_window_keep_their_order(void **state)
{
    (void)state;
    struct motet_sim_options options = {.capacity = 3000, .longest = 700, .stall_percent = 20, .nlanes = 4};
    struct fixture fixture;
    open_fixture(&fixture, 42, &options);
    uint64_t sent = 0, seen = 0;
    const uint64_t last = 5000;
    fixture.memory[8] = 0;
    memset(fixture.memory, 0, 64);
    while (seen < last) {
        uint64_t next = sent + 1;
        if (sent < last && motet_endpoint_put(fixture.a, fixture.key, 16, &next, sizeof(next), 8, next))
            sent = next;
        if (sent % 3 == 0 || sent == last) {
            motet_endpoint_progress(fixture.b);
            motet_endpoint_progress(fixture.a);
        }
        uint64_t word = word_at(&fixture, 8);
        assert_true(word >= seen && word <= sent);
        assert_true(word_at(&fixture, 16) >= word); /* the bytes of a put are never older than its word */
        seen = word;
    }
    close_fixture(&fixture);
}

static void test_lane_full_output_refuses_and_takes_again(void **state)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    (void)state;
    struct motet_sim_options options = {.capacity = 10000};
    struct fixture fixture;
    open_fixture(&fixture, 3, &options);
    uint64_t accepted = 0;
    for (uint64_t i = 1; i < 100; i++) {
        fill(bytes, sizeof(bytes), (unsigned)i);
        if (!motet_endpoint_put(fixture.a, fixture.key, 128, bytes, sizeof(bytes), 8, i))
            break;
        accepted = i;
    }
    assert_in_range(accepted, 4, 20); /* at least 256 KB wait, and not without bound */
    while (word_at(&fixture, 8) != accepted) {
        motet_endpoint_progress(fixture.a);
        motet_endpoint_progress(fixture.b);
    }
    fill(bytes, sizeof(bytes), (unsigned)accepted);
    assert_memory_equal(fixture.memory + 128, bytes, sizeof(bytes));
    put_and_check(&fixture, 100, 7777);
    close_fixture(&fixture);
}

static void test_lane_write_outside_or_to_closed_key_is_dropped(void **state)
{
    unsigned char bytes[1000];
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 5, NULL);
    fill(bytes, sizeof(bytes), 1);
    const uint64_t key = fixture.key;
    struct {
        uint64_t key, offset, word_offset;
    } misses[] = {
        {key, WINDOW, 8},           {key, WINDOW - 999, 8}, {key, UINT64_MAX, 8}, {key, UINT64_MAX - 500, 8}, {key, 128, WINDOW},
        {key, 128, UINT64_MAX - 7}, {key + 1, 128, 8},      {0, 128, 8},          {UINT64_MAX, 128, 8},
    };
    for (size_t i = 0; i < sizeof(misses) / sizeof(*misses); i++)
        assert_true(motet_endpoint_put(fixture.a, misses[i].key, misses[i].offset, bytes, sizeof(bytes), misses[i].word_offset, 1));
    while (motet_endpoint_progress(fixture.b))
        continue;
    for (size_t i = 0; i < WINDOW; i++)
        assert_int_equal((unsigned char)fixture.memory[i], POISON);
    assert_false(fixture.b->dead);
    put_and_check(&fixture, 1000, 2); /* the connection lives on */
    close_fixture(&fixture);
}

static void test_lane_corrupted_header_ends_the_connection_with_a_cause(void **state)
{
    (void)state;
    struct motet_put frames[] = {
        {.magic = 1, .len = 8, .word_offset = 8},
        {.magic = MOTET_PUT_MAGIC, .len = MOTET_PUT_MAX + 1, .word_offset = 8},
        {.magic = MOTET_PUT_MAGIC, .len = 8, .word_offset = 9},
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(*frames); i++) {
        struct fixture fixture;
        open_fixture(&fixture, i, NULL);
        struct iovec part = {&frames[i], sizeof(frames[i])};
        assert_int_equal(motet_sim_transport.send(motet_link_of(fixture.a)->channel, 0, &part, 1), sizeof(frames[i]));
        motet_endpoint_progress(fixture.b);
        assert_true(fixture.b->dead);
        assert_int_equal(fixture.deaths, 1);
        assert_non_null(strstr(fixture.cause, "corrupted"));
        close_fixture(&fixture);
    }
}

static void test_lane_broken_connection_kills_both_ends_and_swallows(void **state)
{
    (void)state;
    struct motet_sim_options options = {.break_after = 100000, .longest = 5000};
    struct fixture fixture;
    static unsigned char bytes[3000];
    open_fixture(&fixture, 9, &options);
    uint64_t sent = 0, seen = 0;
    while (!fixture.a->dead || !fixture.b->dead) {
        fill(bytes, sizeof(bytes), (unsigned)sent + 1);
        if (motet_endpoint_put(fixture.a, fixture.key, 128, bytes, sizeof(bytes), 8, sent + 1))
            sent++;
        motet_endpoint_progress(fixture.a);
        motet_endpoint_progress(fixture.b);
        if (word_at(&fixture, 8) != 0xa5a5a5a5a5a5a5a5u)
            seen = word_at(&fixture, 8);
        assert_true(sent < 1000000);
    }
    assert_int_equal(fixture.deaths, 2);
    assert_in_range(seen, 1, 17);
    assert_non_null(strstr(fixture.cause, "connection lost"));
    assert_true(motet_endpoint_put(fixture.a, fixture.key, 128, bytes, sizeof(bytes), 8, 99)); /* swallowed */
    close_fixture(&fixture);
}

static void test_lane_windows_opened_on_a_dead_endpoint_hear_of_it(void **state)
{
    (void)state;
    struct fixture fixture, late = {0};
    open_fixture(&fixture, 9, NULL);
    motet_sim_endpoint_break(fixture.a);
    motet_endpoint_progress(fixture.b);
    assert_true(fixture.b->dead);
    void *base = NULL;
    assert_int_equal(motet_windows_open(1, &base, 0, &fixture.b, 1, on_control, &late, &late.key), motetSuccess);
    assert_int_equal(late.deaths, 1);
    motet_windows_close(late.key);
    close_fixture(&fixture);
}

static void test_lane_control_of_a_simulated_pair_is_delivered(void **state)
{
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 1, NULL);
    motet_endpoint_control(fixture.a, fixture.key, MOTET_CONTROL_AUDIT, "abc", 3);
    motet_endpoint_control(fixture.b, fixture.key, MOTET_CONTROL_FAULT, NULL, 0);
    motet_endpoint_control(fixture.b, fixture.key + 5, MOTET_CONTROL_FAULT, NULL, 0);
    assert_int_equal(fixture.controls, 2);
    close_fixture(&fixture);
}

static void test_window_keys_are_unique_and_consecutive(void **state)
{
    (void)state;
    uint64_t first, second, third;
    void *bases[3] = {NULL, NULL, NULL};
    assert_int_equal(motet_windows_open(3, bases, 0, NULL, 0, on_control, NULL, &first), motetSuccess);
    assert_int_equal(motet_windows_open(1, bases, 0, NULL, 0, on_control, NULL, &second), motetSuccess);
    motet_windows_close(first);
    motet_windows_close(second);
    motet_windows_close(second); /* closed twice: nothing */
    assert_int_equal(motet_windows_open(1, bases, 0, NULL, 0, on_control, NULL, &third), motetSuccess);
    assert_true(second >= first + 3 && third > second);
    motet_windows_close(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lane_put_of_every_size_arrives_before_its_word),
        cmocka_unit_test(test_lane_puts_to_one_window_keep_their_order),
        cmocka_unit_test(test_lane_full_output_refuses_and_takes_again),
        cmocka_unit_test(test_lane_write_outside_or_to_closed_key_is_dropped),
        cmocka_unit_test(test_lane_corrupted_header_ends_the_connection_with_a_cause),
        cmocka_unit_test(test_lane_broken_connection_kills_both_ends_and_swallows),
        cmocka_unit_test(test_lane_windows_opened_on_a_dead_endpoint_hear_of_it),
        cmocka_unit_test(test_lane_control_of_a_simulated_pair_is_delivered),
        cmocka_unit_test(test_window_keys_are_unique_and_consecutive),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
