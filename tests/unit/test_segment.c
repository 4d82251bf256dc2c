/* SPDX-License-Identifier: Apache-2.0
 * The shared segment's heap: zeroed, aligned, coalescing, sparse, and gone when nobody holds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "pair.h"

#define PAGE 4096u

static bool is_zero(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != 0)
            return false;
    return true;
}

/* Memory that the segment takes now, in bytes. */
static size_t resident(void)
{
    struct stat status;
    assert_int_equal(fstat(motet_segment_fd(), &status), 0);
    return (size_t)status.st_blocks * 512;
}

static int hold(void **state)
{
    (void)state;
    return motet_settings_load() != motetSuccess || motet_segment_hold() != motetSuccess;
}

static int drop(void **state)
{
    (void)state;
    motet_segment_drop();
    return motet_segment_base() != NULL;
}

static void test_segment_memory_is_aligned_zeroed_and_apart(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 100000, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, 10u << 20};
    void *at[10];
    (void)state;
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(motet_segment_alloc(sizes[i], &at[i]), motetSuccess);
        assert_int_equal((uintptr_t)at[i] % PAGE, 0);
        assert_true(is_zero(at[i], sizes[i]));
        memset(at[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < 10; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(((char *)at[i])[k], (char)(i + 1));
    for (size_t i = 0; i < 10; i++)
        motet_segment_free(at[(i * 7) % 10]);
}

static void test_segment_freed_memory_returns_to_the_kernel_and_is_zero_again(void **state)
{
    void *first, *second;
    (void)state;
    size_t before = resident();
    assert_int_equal(motet_segment_alloc(8u << 20, &first), motetSuccess);
    assert_int_equal(resident(), before); /* sparse */
    memset(first, 0x5a, 8u << 20);
    assert_true(resident() >= before + (8u << 20));
    motet_segment_free(first);
    assert_int_equal(resident(), before);
    assert_int_equal(motet_segment_alloc(8u << 20, &second), motetSuccess);
    assert_ptr_equal(first, second);
    assert_true(is_zero(second, 8u << 20));
    motet_segment_free(second);
}

static void test_segment_neighbours_coalesce(void **state)
{
    void *at[3], *large;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(motet_segment_alloc(PAGE, &at[i]), motetSuccess);
    motet_segment_free(at[0]);
    motet_segment_free(at[2]);
    motet_segment_free(at[1]);
    assert_int_equal(motet_segment_alloc(3 * PAGE, &large), motetSuccess);
    assert_ptr_equal(large, at[0]);
    motet_segment_free(large);
}

/* Random allocations and frees; each block is full of its own number until it is freed. */
static void test_segment_random_use_never_overlaps(void **state)
{
    enum { BLOCKS = 64, STEPS = 3000 };
    struct {
        unsigned char *at;
        size_t len;
    } blocks[BLOCKS] = {{0}};
    unsigned random = 12345;
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = (random >> 8) % BLOCKS;
        if (blocks[i].at) {
            for (size_t k = 0; k < blocks[i].len; k += 509)
                assert_int_equal(blocks[i].at[k], (unsigned char)(i + 1));
            motet_segment_free(blocks[i].at);
            blocks[i].at = NULL;
            continue;
        }
        void *at;
        blocks[i].len = 1 + (random >> 14) % (random % 7 ? 20000 : 3000000);
        assert_int_equal(motet_segment_alloc(blocks[i].len, &at), motetSuccess);
        blocks[i].at = at;
        assert_true(blocks[i].at[0] == 0 && blocks[i].at[blocks[i].len - 1] == 0);
        memset(at, (int)i + 1, blocks[i].len);
    }
    for (int i = 0; i < BLOCKS; i++)
        motet_segment_free(blocks[i].at);
}

static void test_segment_offsets_are_checked(void **state)
{
    void *at;
    uint64_t offset;
    int stack = 0;
    (void)state;
    assert_int_equal(motet_segment_alloc(PAGE, &at), motetSuccess);
    assert_true(motet_segment_offset(at, PAGE, &offset));
    assert_ptr_equal((char *)motet_segment_base() + offset, at);
    char *end = (char *)motet_segment_base() + motet_segment_len();
    assert_true(motet_segment_offset(end - 1, 1, &offset));
    assert_true(motet_segment_offset(end, 0, &offset));
    assert_false(motet_segment_offset(end - 1, 2, &offset));
    assert_false(motet_segment_offset(end + 1, 0, &offset));
    assert_false(motet_segment_offset(at, SIZE_MAX, &offset));
    assert_false(motet_segment_offset((char *)motet_segment_base() - 1, 1, &offset));
    assert_false(motet_segment_offset(&stack, sizeof(stack), &offset));
    assert_true(motet_segment_owns(at));
    assert_false(motet_segment_owns((char *)at + 1) || motet_segment_owns(&stack) || motet_segment_owns(NULL));
    assert_false(motet_segment_owns(motet_segment_base())); /* the token's page */
    motet_segment_free((char *)at + 1);                     /* ignored */
    motet_segment_free(&stack);
    motet_segment_free(NULL);
    assert_true(motet_segment_owns(at));
    motet_segment_free(at);
    motet_segment_free(at);
    assert_false(motet_segment_owns(at));
}

static void test_segment_too_much_is_refused_with_what_is_used(void **state)
{
    void *at = (void *)1;
    (void)state;
    assert_int_equal(motet_segment_alloc(SIZE_MAX, &at), motetSystemError);
    assert_null(at);
    assert_non_null(strstr(motet_error_text(), "in use"));
    assert_int_equal(motet_segment_alloc(motet_segment_len(), &at), motetSystemError);
    assert_non_null(strstr(motet_error_text(), "MOTET_BUFFSIZE"));
}

static void test_segment_mapping_shows_the_same_memory(void **state)
{
    void *at, *other;
    uint64_t offset;
    (void)state;
    assert_int_equal(motet_segment_alloc(PAGE, &at), motetSuccess);
    assert_true(motet_segment_offset(at, PAGE, &offset));
    assert_int_equal(motet_segment_map(motet_segment_fd(), motet_segment_len(), &other), motetSuccess);
    assert_memory_equal(other, motet_segment_token(), MOTET_SEGMENT_TOKEN_BYTES);
    memset(at, 0x77, PAGE);
    assert_memory_equal((char *)other + offset, at, PAGE);
    motet_segment_free(at);
    assert_true(is_zero((char *)other + offset, PAGE)); /* also for those who have it mapped */
    assert_int_equal(munmap(other, motet_segment_len()), 0);
}

/* Memory of the user may outlive the communicators; then the segment does too. */
static void test_segment_lives_as_long_as_its_last_allocation(void **state)
{
    void *at;
    (void)state;
    assert_int_equal(motet_segment_alloc(PAGE, &at), motetSuccess);
    motet_segment_drop();
    assert_non_null(motet_segment_base());
    memset(at, 1, PAGE);
    motet_segment_free(at);
    assert_null(motet_segment_base());
    assert_int_equal(motet_segment_fd(), -1);
    assert_int_equal(motet_segment_alloc(PAGE, &at), motetSuccess); /* opens by itself */
    motet_segment_free(at);
    assert_null(motet_segment_base());
}

static int in_child(int (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        _exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int use_inherited(void)
{
    void *at;
    if (motet_segment_open() != motetInvalidUsage || !strstr(motet_error_text(), "forked"))
        return 1;
    return motet_segment_alloc(PAGE, &at) != motetInvalidUsage || at != NULL;
}

static void test_segment_of_the_parent_is_refused_in_a_forked_child(void **state)
{
    (void)state;
    assert_int_equal(in_child(use_inherited), 0);
}

static int use_with_limits(void)
{
    void *at;
    struct rlimit address_space = {4ul << 30, 4ul << 30}, file_size = {1ul << 30, 1ul << 30};
    if (setrlimit(RLIMIT_AS, &address_space) != 0 || setrlimit(RLIMIT_FSIZE, &file_size) != 0)
        return 1;
    if (motet_settings_load() != motetSuccess || motet_segment_hold() != motetSuccess)
        return 2;
    if (motet_segment_len() > address_space.rlim_cur / 8 || motet_segment_alloc(1 << 20, &at) != motetSuccess)
        return 3;
    memset(at, 1, 1 << 20);
    return 0;
}

/* Limits on address space and file size give a smaller segment, not a signal. */
static void test_segment_is_smaller_under_limits(void **state)
{
    (void)state;
    motet_segment_drop();
    if (!PAIR_SANITIZED) /* sanitizers need the whole address space themselves */
        assert_int_equal(in_child(use_with_limits), 0);
}

/* Freed memory that peers may still touch stays as it is until the last of them has let go, or has died. */
static void test_segment_freed_memory_stays_while_it_is_held(void **state)
{
    enum { HOLDERS = 3 };
    char *at, *next, *again;
    (void)state;
    assert_int_equal(motet_segment_alloc(5 * PAGE, (void **)&at), motetSuccess);
    _Atomic uint8_t *holders = (_Atomic uint8_t *)(at + PAGE + 7);
    memset(at, 0x5A, 5 * PAGE);
    holders[0] = 0;
    holders[1] = holders[2] = 1;
    size_t before = resident();
    uint64_t number = motet_segment_free_when_unused(at, holders, HOLDERS);
    assert_true(number != 0 && motet_segment_lingers(number));
    assert_int_equal(motet_segment_free_when_unused(at, holders, HOLDERS), 0); /* once is enough */
    assert_int_equal(motet_segment_alloc(PAGE, (void **)&next), motetSuccess);
    assert_true(next < at || next >= at + 5 * PAGE);
    assert_true(at[0] == 0x5A && at[5 * PAGE - 1] == 0x5A);
    motet_segment_let_go(number, 1);
    motet_segment_let_go(number + 1, 2); /* another's number */
    motet_segment_let_go(number, HOLDERS);
    assert_true(motet_segment_lingers(number));
    holders[2] = 0; /* by the peer itself: seen when something is allocated or freed */
    motet_segment_free(next);
    assert_false(motet_segment_lingers(number));
    assert_true(resident() < before);
    assert_int_equal(motet_segment_alloc(5 * PAGE, (void **)&again), motetSuccess);
    assert_ptr_equal(again, at);
    assert_true(is_zero(again, 5 * PAGE));
    memset(again, 1, 5 * PAGE);
    motet_segment_let_go(number, 2); /* late: the memory is somebody else's by now */
    assert_int_equal(holders[2], 1);
    holders[0] = holders[1] = holders[2] = 0;
    assert_int_equal(motet_segment_free_when_unused(again, holders, HOLDERS), 0); /* nobody holds it: gone at once */
    assert_false(motet_segment_owns(again));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_segment_memory_is_aligned_zeroed_and_apart, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_freed_memory_returns_to_the_kernel_and_is_zero_again, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_neighbours_coalesce, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_random_use_never_overlaps, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_offsets_are_checked, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_too_much_is_refused_with_what_is_used, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_mapping_shows_the_same_memory, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_lives_as_long_as_its_last_allocation, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_of_the_parent_is_refused_in_a_forked_child, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_is_smaller_under_limits, hold, drop),
        cmocka_unit_test_setup_teardown(test_segment_freed_memory_stays_while_it_is_held, hold, drop),
    };
    alarm(120);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
