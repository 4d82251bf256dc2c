/* SPDX-License-Identifier: Apache-2.0
 * Programs that end without destroying their communicators, in every way that a program can end, and children of fork: the process does
 * end, the other ranks hear who left, and nothing stays behind. */
/* test: timeout=300 */
#include <stdatomic.h>

#include "../multi/probe.h"

#include "entries.h"

/* Programs that do not destroy leave what only they know. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum { VICTIM = 1, HANGS_S = 40 };

enum way {
    EXIT_BESIDE_A_CALL,      /* exit() in main, another thread is in a call */
    EXIT_OF_ANOTHER_THREAD,  /* the other way round */
    UNDERSCORE_EXIT,         /* no handlers */
    RETURN_WITH_BUSY_STREAM, /* work is pending on a stream */
    EXIT_IN_A_HOST_FUNCTION, /* exit() on the library's own progress thread */
    HANDLER_DESTROYS,        /* the program's atexit handler destroys the communicator, after the library's own handlers ran */
    HANDLER_CALLS,     /* it calls a collective that nobody joins: an error, since the others have gone, or none of its business */
    ABORTS_THEN_EXITS, /* the orderly way */
    NWAYS
};

static _Atomic int *ready; /* shared: ranks that have completed the probe; who leaves earlier is heard in it */
static motetComm_t mine;
static _Atomic int inside;

static void *call_until_it_fails(void *unused)
{
    (void)unused;
    int64_t one = 1, sum = 0;
    inside = 1;
    while (motetAllReduce(&one, &sum, 1, motetInt64, motetSum, mine, NULL) == motetSuccess)
        continue;
    for (;;)
        pause();
    return NULL;
}

static void *exit_soon(void *unused)
{
    (void)unused;
    while (!inside)
        world_sleep_ms(1);
    world_sleep_ms(50);
    exit(0);
}

static void exit_now(void *unused)
{
    (void)unused;
    exit(0);
}

static void destroy_at_exit(void)
{
    (void)motetCommDestroy(mine);
}

static void abort_at_exit(void)
{
    int64_t one = 1, sum = 0;
    (void)motetReduce(&one, &sum, 1, motetInt64, motetMax, 0, mine, NULL); /* the others call something else */
    (void)motetCommAbort(mine);
}

static void start(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0)
        _exit(3);
}

/* Does not come back. */
static int leave(enum way way)
{
    static int64_t data[50000];
    motetStream_t stream;
    switch (way) {
    case EXIT_BESIDE_A_CALL:
        start(call_until_it_fails);
        exit_soon(NULL);
        break;
    case EXIT_OF_ANOTHER_THREAD:
        start(exit_soon);
        call_until_it_fails(NULL);
        break;
    case UNDERSCORE_EXIT:
        _exit(0);
    case RETURN_WITH_BUSY_STREAM:
        CALL(motetStreamCreate(&stream));
        for (int i = 0; i < 3; i++) /* 50000 elements: nobody joins */
            CALL(motetAllReduce(data, data, 50000, motetInt64, motetSum, mine, stream));
        break;
    case EXIT_IN_A_HOST_FUNCTION:
        CALL(motetStreamCreate(&stream));
        CALL(motetLaunchHostFunc(stream, exit_now, NULL));
        for (;;)
            pause();
    case ABORTS_THEN_EXITS:
        CALL(motetCommAbort(mine));
        break;
    default:
        break; /* a handler does it */
    }
    exit(0);
}

static int live_on(motetComm_t comm, int nranks)
{
    int64_t one = 1, sum = 0;
    motetResult_t result;
    double end = world_now() + HANGS_S;
    char words[32];
    do {
        sum = 0;
        result = motetAllReduce(&one, &sum, 1, motetInt64, motetSum, comm, NULL);
        CHECK(result != motetSuccess || sum == nranks);
    } while (result == motetSuccess && world_now() < end);
    CHECK(result == motetRemoteError || result == motetInvalidUsage); /* gone, or in another call until then */
    snprintf(words, sizeof words, "rank %d", VICTIM);
    if (!strstr(motetGetLastError(NULL), words))
        return world_complain(__FILE__, __LINE__, "not rank %d: %s", VICTIM, motetGetLastError(NULL));
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static int ends(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum way way = *(const enum way *)argument;
    CHECK(probe(comm, 3) == 0);
    atomic_fetch_add(ready, 1);
    while (atomic_load(ready) < nranks)
        world_sleep_ms(1);
    if (rank != VICTIM)
        return live_on(comm, nranks);
    alarm(HANGS_S); /* SIGALRM ends it, and the test */
    mine = comm;
    if (way == HANDLER_DESTROYS)
        atexit(destroy_at_exit);
    if (way == HANDLER_CALLS)
        atexit(abort_at_exit);
    return leave(way);
}

/* The handler is older than all of the library's: it runs after them. */
static int handler_first(motetComm_t unused, int rank, int nranks, const void *argument)
{
    struct world_page *page = (void *)(uintptr_t)argument;
    static const enum way none = NWAYS;
    (void)unused;
    if (rank == VICTIM)
        atexit(destroy_at_exit);
    const struct world world = {WORLD_PROCESSES, nranks, {NULL}, 60, 0};
    return world_process(page, &world, rank, ends, &none);
}

static const struct world places[] = {
    {WORLD_PROCESSES, 3, {NULL}, 60, 0}, {WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 60, 0}, {WORLD_PROCESSES, 3, {NULL}, 60, 1}};

static void test_exit_without_destroy_ends_and_is_heard(void **state)
{
    int files = count_entries("/dev/shm");
    (void)state;
    for (int way = 0; way < NWAYS; way++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            print_message("way %d, placement %zu\n", way, i);
            atomic_store(ready, 0);
            assert_int_equal(world_run(&places[i], ends, &way), 0);
        }
    assert_int_equal(count_entries("/dev/shm"), files);
}

static void test_exit_handlers_older_than_the_library_may_destroy(void **state)
{
    (void)state;
    struct world_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    atomic_store(ready, 0);
    assert_int_equal(world_run(&(struct world){WORLD_BARE, 3, {NULL}, 60, 0}, handler_first, page), 0);
    munmap(page, sizeof *page);
}

/* ---- main leaves by pthread_exit, others go on ---- */

struct seat {
    motetComm_t comm;
    int nranks, failed;
    _Atomic int main_has_left;
};

static void *work_alone(void *context)
{
    struct seat *seat = context;
    world_sleep_ms(100); /* main has left by then, or will */
    int failed = 0;
    for (int i = 0; i < 20 && !failed; i++)
        failed = probe(seat->comm, i);
    if (motetCommDestroy(seat->comm) != motetSuccess)
        failed = 1;
    _exit(failed ? 1 : 0);
}

static int main_leaves(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static struct seat seat;
    (void)argument, (void)rank;
    alarm(HANGS_S);
    seat = (struct seat){.comm = comm, .nranks = nranks};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work_alone, &seat) == 0);
    pthread_exit(NULL);
}

static void test_exit_of_the_main_thread_leaves_the_others_working(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_int_equal(world_run(&places[i], main_leaves, NULL), 0);
}

/* ---- fork ---- */

static int use_in_child(motetComm_t comm)
{
    int64_t one = 1, sum = 0;
    motetComm_t other = NULL;
    motetUniqueId id;
    motetResult_t error;
    EXPECT(motetInvalidUsage, motetAllReduce(&one, &sum, 1, motetInt64, motetSum, comm, NULL));
    CHECK(strstr(motetGetLastError(NULL), "forked"));
    EXPECT(motetInvalidUsage, motetCommSplit(comm, 0, 0, &other, NULL));
    EXPECT(motetInvalidUsage, motetCommDestroy(comm));
    EXPECT(motetInvalidUsage, motetCommAbort(comm));
    EXPECT(motetInvalidUsage, motetCommGetAsyncError(comm, &error));
    if (motetGetUniqueId(&id) == motetSuccess)
        EXPECT(motetInvalidUsage, motetCommInitRank(&other, 1, id, 0));
    CHECK(strstr(motetGetLastError(NULL), "forked"));
    return 0;
}

static int forks(motetComm_t comm, int rank, int nranks, const void *argument)
{
    pid_t children[4];
    motetStream_t stream;
    int64_t *data = calloc(100000, sizeof *data);
    (void)rank, (void)nranks, (void)argument;
    CHECK(data);
    CALL(motetStreamCreate(&stream));
    for (int i = 0; i < 4; i++) {
        CALL(motetAllReduce(data, data, 100000, motetInt64, motetSum, comm, stream)); /* the library's threads are at work */
        children[i] = fork();
        if (children[i] == 0) {
            alarm(HANGS_S);
            if (i == 0)
                _exit(use_in_child(comm));
            if (i == 1)
                exit(0); /* with handlers */
            if (i == 2)
                execl("/bin/true", "true", (char *)NULL);
            _exit(0);
        }
        CHECK(children[i] > 0);
        CALL(motetStreamSynchronize(stream));
        CHECK(probe(comm, i) == 0);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        if (status != 0)
            return world_complain(__FILE__, __LINE__, "child %d ended with status 0x%x", i, (unsigned)status);
    }
    CALL(motetStreamDestroy(stream));
    free(data);
    return probe(comm, 9);
}

static void test_exit_of_forked_children_is_theirs_alone(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        assert_int_equal(world_run(&places[i], forks, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_without_destroy_ends_and_is_heard),
        cmocka_unit_test(test_exit_handlers_older_than_the_library_may_destroy),
        cmocka_unit_test(test_exit_of_the_main_thread_leaves_the_others_working),
        cmocka_unit_test(test_exit_of_forked_children_is_theirs_alone),
    };
    ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ready == MAP_FAILED)
        return 1;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
