/* SPDX-License-Identifier: Apache-2.0
 * Late is not dead: one line names who is missing, for how long, and what they completed last; the time limit is an error that names the same;
 * stopped ranks that go on are no error at all. */
/* test: idle timeout=200 */
#include "probe.h"

struct late {
    bool fails;        /* the time limit is over before they come */
    const char *log;   /* where rank 0's line goes */
    const char *named; /* words that the line must have */
};

/* Ranks 2 and 4 do not come for a while. */
static int wait_for_two(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct late *late = argument;
    int64_t value = rank, sum = -1;
    for (int i = 0; i < 10; i++)
        CHECK(probe(comm, i) == 0);
    if (rank == 2 || rank == 4)
        world_sleep_ms(late->fails ? 6000 : 2500);
    motetResult_t result = motetAllReduce(&value, &sum, 1, motetInt64, motetSum, comm, NULL);
    if (!late->fails) {
        CHECK(result == motetSuccess && sum == nranks * (nranks - 1) / 2);
        return 0;
    }
    CHECK(result != motetSuccess);
    const char *text = motetGetLastError(NULL);
    if (!strstr(text, "missing: rank 2 (pid ") || !strstr(text, ", rank 4 (pid ") || strstr(text, "rank 1 (pid"))
        return world_complain(__FILE__, __LINE__, "said: %s", text);
    CHECK(strstr(text, "AllReduce") && strstr(text, "MOTET_TIMEOUT") && strstr(text, "last completed call "));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_late_ranks_are_all_named_by_the_error_at_the_limit(void **state)
{
    static const struct world worlds[] = {{WORLD_PROCESSES, 6, {"MOTET_TIMEOUT=2s"}, 40, 0},
                                          {WORLD_THREADS, 6, {"MOTET_TIMEOUT=2s"}, 40, 0}};
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(world_run(&worlds[i], wait_for_two, &(struct late){.fails = true}), 0);
}

/* How many lines of a file have both words. */
static int count_lines(const char *path, const char *a, const char *b)
{
    char line[2048];
    int n = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        n += strstr(line, a) && strstr(line, b);
    if (file)
        fclose(file);
    return n;
}

static void test_late_ranks_are_named_by_one_line_and_forgiven(void **state)
{
    char path[64], setting[96];
    (void)state;
    snprintf(path, sizeof path, "/tmp/motet-late-%d", (int)getpid());
    snprintf(setting, sizeof setting, "MOTET_DEBUG_FILE=%s", path);
    struct world world = {WORLD_PROCESSES, 6, {"MOTET_WARN_AFTER=1500ms", setting}, 40, 0};
    assert_int_equal(world_run(&world, wait_for_two, &(struct late){.fails = false}), 0);
    assert_true(count_lines(path, "rank 0: late for", "missing: rank 2 (pid ") >= 1);
    assert_true(count_lines(path, "rank 0: late for", ", rank 4 (pid ") >= 1);
    assert_true(count_lines(path, "rank 0: late for", "last completed call 31") >= 1);
    unlink(path);
}

/* ---- A circle of receives ---- */

static int receive_in_a_circle(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t value = -1;
    char words[96];
    (void)argument;
    CHECK(probe(comm, 2) == 0);
    EXPECT(motetTimeout, motetRecv(&value, 1, motetInt64, (rank + 1) % nranks, comm, NULL));
    snprintf(words, sizeof words, "rank %d waits in Recv(1 x int64) from rank %d", rank, (rank + 1) % nranks);
    const char *text = motetGetLastError(NULL);
    if (!strstr(text, "they wait in a circle: rank ") || !strstr(text, words) || !strstr(text, "; nobody sends"))
        return world_complain(__FILE__, __LINE__, "rank %d: %s", rank, text);
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_late_circle_of_receives_is_named_by_the_error_and_the_line(void **state)
{
    char path[64], setting[96];
    (void)state;
    snprintf(path, sizeof path, "/tmp/motet-late-%d", (int)getpid());
    snprintf(setting, sizeof setting, "MOTET_DEBUG_FILE=%s", path);
    const struct world worlds[] = {{WORLD_PROCESSES, 2, {"MOTET_TIMEOUT=5s", "MOTET_WARN_AFTER=3s", setting}, 60, 0},
                                   {WORLD_THREADS, 3, {"MOTET_TIMEOUT=5s", "MOTET_WARN_AFTER=3s", setting}, 60, 0},
                                   {WORLD_PROCESSES, 3, {"MOTET_TIMEOUT=7s", "MOTET_WARN_AFTER=5s", setting}, 60, 1}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(world_run(&worlds[i], receive_in_a_circle, NULL), 0);
        assert_true(count_lines(path, ": late for", "they wait in a circle: rank ") >= 1);
        unlink(path);
    }
}

/* A circle that goes through a collective: rank 2 waits in it for the root alone, which waits for rank 1, which waits for rank 2. */
static int circle_with_a_collective(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t value = -1;
    (void)argument, (void)nranks;
    CHECK(probe(comm, 2) == 0);
    if (rank == 2)
        EXPECT(motetTimeout, motetBroadcast(&value, &value, 1, motetInt64, 0, comm, NULL));
    else
        EXPECT(motetTimeout, motetRecv(&value, 1, motetInt64, rank + 1, comm, NULL));
    const char *text = motetGetLastError(NULL);
    if (!strstr(text, "they wait in a circle: rank ") || !strstr(text, "rank 0 waits in Recv(1 x int64) from rank 1") ||
        !strstr(text, "rank 2 waits in Broadcast(1 x int64, root 0) for rank 0") || strstr(text, "nobody sends"))
        return world_complain(__FILE__, __LINE__, "rank %d: %s", rank, text);
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

/* No circle: rank 0 would serve rank 2 on another stream, when what it waits for there is through. */
static int circle_that_another_stream_breaks(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t value = -1, other = -1;
    motetStream_t streams[2];
    (void)argument;
    CHECK(probe(comm, 2) == 0);
    CALL(motetStreamCreate(&streams[0]));
    CALL(motetStreamCreate(&streams[1]));
    CALL(motetRecv(&value, 1, motetInt64, (rank + 1) % nranks, comm, streams[0]));
    if (rank == 0)
        CALL(motetRecvTag(&other, 1, motetInt64, MOTET_ANY_SOURCE, 4, NULL, comm, streams[1]));
    EXPECT(motetTimeout, motetStreamSynchronize(streams[0]));
    if (strstr(motetGetLastError(NULL), "circle"))
        return world_complain(__FILE__, __LINE__, "rank %d: %s", rank, motetGetLastError(NULL));
    CALL(motetCommAbort(comm));
    motetStreamDestroy(streams[0]);
    motetStreamDestroy(streams[1]);
    return WORLD_ABORTED;
}

static void test_late_circle_through_a_collective_is_named_and_one_of_streams_is_not(void **state)
{
    const struct world three = {WORLD_PROCESSES, 3, {"MOTET_TIMEOUT=3s", "MOTET_WARN_AFTER=60s"}, 60, 0};
    (void)state;
    assert_int_equal(world_run(&three, circle_with_a_collective, NULL), 0);
    assert_int_equal(world_run(&three, circle_that_another_stream_breaks, NULL), 0);
}

/* ---- The limit of a split ---- */

static int split_too_late(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t child = NULL;
    (void)nranks;
    CHECK(probe(comm, 2) == 0);
    config.initTimeoutMs = 1500;
    if (rank == 0) {
        EXPECT(motetTimeout, motetCommSplit(comm, 0, 0, &child, argument ? NULL : &config));
        CHECK(
            strstr(motetGetLastError(NULL), argument ? " s (MOTET_INIT_TIMEOUT): " : " s (initTimeoutMs of the configuration): "));
    } else {
        motetResult_t state = motetSuccess;
        while (state == motetSuccess) {
            world_sleep_ms(5);
            CALL(motetCommGetAsyncError(comm, &state));
        }
    }
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_late_split_names_where_its_limit_came_from(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {NULL}, 40, 0}, split_too_late, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {"MOTET_INIT_TIMEOUT=3s"}, 40, 0}, split_too_late, "setting"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_ranks_are_all_named_by_the_error_at_the_limit),
        cmocka_unit_test(test_late_ranks_are_named_by_one_line_and_forgiven),
        cmocka_unit_test(test_late_circle_of_receives_is_named_by_the_error_and_the_line),
        cmocka_unit_test(test_late_circle_through_a_collective_is_named_and_one_of_streams_is_not),
        cmocka_unit_test(test_late_split_names_where_its_limit_came_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
