/* SPDX-License-Identifier: Apache-2.0
 * Counts beyond 2^31 elements: int8, 2 ranks, in place so that memory suffices. Skipped when memory is short. */
/* test: slow serial timeout=900 */
#include "world.h"

#define COUNT ((size_t)INT32_MAX + 12345)

static uint64_t available_bytes(void)
{
    char line[128];
    unsigned long kb = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "MemAvailable: %lu kB", &kb);
    if (file)
        fclose(file);
    return (uint64_t)kb * 1024;
}

/* One value per element that differs by rank and repeats with a period that is no power of two. */
static uint64_t element(int rank, size_t i)
{
    return (i % 1000003) * 0x9e3779b9u + (uint64_t)rank * 77;
}

static int8_t byte(int rank, size_t i)
{
    return (int8_t)(element(rank, i) >> 13);
}

static int compare(const int8_t *data, size_t n, size_t from, int rank, bool sum)
{
    for (size_t i = 0; i < n; i++) {
        int8_t expected = sum ? (int8_t)(byte(0, from + i) + byte(1, from + i)) : byte(rank, from + i);
        if (data[i] != expected)
            return world_complain(__FILE__, __LINE__, "element %zu is %d, must be %d", from + i, data[i], expected);
    }
    return 0;
}

static int large(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int8_t *data = mmap(NULL, COUNT + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t half = COUNT / 2;
    (void)nranks, (void)argument;
    CHECK(data != MAP_FAILED);
    memset(data + COUNT, 0x5C, 4096);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = byte(rank, i);
    CALL(motetAllReduce(data, data, COUNT, motetInt8, motetSum, comm, NULL));
    CHECK(compare(data, COUNT, 0, rank, true) == 0);
    if (rank == 1) /* broadcast over the sum */
        for (size_t i = 0; i < COUNT; i++)
            data[i] = byte(1, i);
    CALL(motetBroadcast(data, data, COUNT, motetInt8, 1, comm, NULL));
    CHECK(compare(data, COUNT, 0, 1, false) == 0);
    for (size_t i = 0; i < half; i++) /* own half, the other one arrives */
        data[(size_t)rank * half + i] = byte(rank, i);
    CALL(motetAllGather(data + (size_t)rank * half, data, half, motetInt8, comm, NULL));
    CHECK(compare(data, half, 0, 0, false) == 0 && compare(data + half, half, 0, 1, false) == 0);
    for (size_t i = 0; rank == 0 && i < COUNT; i++)
        data[i] = byte(3, i);
    if (rank == 0)
        CALL(motetSend(data, COUNT, motetInt8, 1, comm, NULL));
    else
        CALL(motetRecv(data, COUNT, motetInt8, 0, comm, NULL));
    CHECK(compare(data, COUNT, 0, 3, false) == 0);
    for (size_t i = 0; i < 4096; i++)
        CHECK(data[COUNT + i] == 0x5C);
    munmap(data, COUNT + 4096);
    return 0;
}

static void run(struct world world)
{
    uint64_t need = 5ull << 30, there = available_bytes();
    world.timeout_s = 400;
    world.nranks = 2;
    if (there < need) {
        printf("skipped: needs %llu MB of memory, %llu MB are there\n", (unsigned long long)need >> 20,
               (unsigned long long)there >> 20);
        skip();
    }
    assert_int_equal(world_run(&world, large, NULL), 0);
}

static void test_large_counts_between_processes_are_right(void **state)
{
    (void)state;
    run((struct world){.kind = WORLD_PROCESSES});
}

static void test_large_counts_over_tcp_are_right(void **state)
{
    (void)state;
    run((struct world){.kind = WORLD_PROCESSES, .environment = {"MOTET_SHM_DISABLE=1"}});
}

static void test_large_counts_between_threads_are_right(void **state)
{
    (void)state;
    run((struct world){.kind = WORLD_THREADS});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_counts_between_processes_are_right),
        cmocka_unit_test(test_large_counts_over_tcp_are_right),
        cmocka_unit_test(test_large_counts_between_threads_are_right),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
