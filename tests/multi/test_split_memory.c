/* SPDX-License-Identifier: Apache-2.0
 * One rank runs out of memory in the middle of a split, at each allocation in turn, and lives on. No other rank may wait for it: each gets an
 * error, in the split or in the first call of what it made, before any limit of time. Allocations are counted by functions of this program
 * that stand before those of libc. */
#include "probe.h"

#if WORLD_SANITIZED
int main(void)
{
    return 77; /* the sanitizer has these functions */
}
#else

static __thread int fail_in; /* the allocation that fails, counted down; 0: none does */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);

static bool fails(void)
{
    return fail_in > 0 && --fail_in == 0;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

struct page {
    int which;
    _Atomic int ready, failed, heard;
};

/* The rank that fails stays until all others have heard. */
static int split(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct page *page = (void *)(uintptr_t)argument;
    motetComm_t child = NULL;
    int64_t mine = rank, sum = -1;
    CHECK(probe(comm, 2) == 0);
    for (page->ready++; page->ready < nranks;) /* nobody is in a call of the parent any more */
        world_sleep_ms(1);
    if (rank == 1)
        fail_in = page->which;
    motetResult_t result = motetCommSplit(comm, 0, rank, &child, NULL);
    bool unspent = fail_in != 0;
    fail_in = 0;
    if (rank == 1 && result != motetSuccess) {
        page->failed++;
        while (page->heard < nranks - 1)
            world_sleep_ms(1);
        CALL(motetCommAbort(comm));
        return WORLD_ABORTED;
    }
    if (rank == 1 && unspent)
        page->which = 0; /* that was all */
    if (result == motetSuccess)
        result = motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, child, NULL);
    for (int i = 0; result != motetSuccess && page->failed == 0 && i < 10000; i++)
        world_sleep_ms(1);
    if (result == motetTimeout || (result == motetSuccess) != (page->failed == 0))
        return world_complain(__FILE__, __LINE__, "rank %d, allocation %d: %s (%s)", rank, page->which, motetGetErrorString(result),
                              motetGetLastError(NULL));
    CHECK(result != motetSuccess || sum == nranks * (nranks - 1) / 2);
    if (rank != 1)
        page->heard++;
    if (result == motetSuccess) {
        CALL(motetCommDestroy(child));
        return 0;
    }
    if (child)
        CALL(motetCommAbort(child));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

/* The first allocations each, then every seventh: most are alike. EVERY=1 tries all. */
static void try_all(const struct world *world)
{
    int stride = getenv("EVERY") ? 1 : 7;
    struct page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int which = 1, nfailed = 0;
    assert_true(page != MAP_FAILED);
    for (bool more = true; more; which += which < 12 ? 1 : stride) {
        *page = (struct page){.which = which};
        assert_int_equal(world_run(world, split, page), 0);
        more = page->which != 0;
        nfailed += page->failed;
    }
    fprintf(stderr, "%d allocations made the split fail\n", nfailed);
    assert_true(nfailed > 5);
    munmap(page, sizeof *page);
}

static void test_split_without_memory_on_one_rank_is_heard_by_all(void **state)
{
    (void)state;
    try_all(&(struct world){WORLD_PROCESSES, 3, {"MOTET_INIT_TIMEOUT=20s", "MOTET_TIMEOUT=20s", "MOTET_DEBUG=NONE"}, 50, 0});
}

static void test_split_without_memory_on_one_rank_is_heard_over_tcp(void **state)
{
    (void)state;
    try_all(&(struct world){
        WORLD_PROCESSES, 3, {"MOTET_INIT_TIMEOUT=20s", "MOTET_TIMEOUT=20s", "MOTET_DEBUG=NONE", "MOTET_SHM_DISABLE=1"}, 50, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_without_memory_on_one_rank_is_heard_by_all),
        cmocka_unit_test(test_split_without_memory_on_one_rank_is_heard_over_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
