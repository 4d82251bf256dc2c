/* SPDX-License-Identifier: Apache-2.0
 * A rank is stopped at a random moment of a call, while the others give up, destroy the communicator and use their memory for something else;
 * then it wakes. It may fail, it may have completed before; but it never takes bytes for data that were written later, and what the
 * others do since is not disturbed. MOTET_TEST_ROUNDS sets how often. */
/* test: slow serial timeout=900 */
#include <stdatomic.h>
#include <sys/stat.h>

#include "survivors.h"

#include "usage.h"

enum { WORDS = 6 << 20 }; /* 48 MB: the copy takes long enough to be stopped in */

struct scene {
    bool message; /* Send and Recv instead of Broadcast */
    bool shared;  /* the owner's buffer is from motetMemAlloc: read where it lies */
    unsigned seed;
    pid_t reader;
    _Atomic(int) entered, woken, outcome; /* outcome: result + 1 of the reader's call */
    _Atomic(int) torn;                    /* it succeeded with bytes that are not the data */
};

static int64_t *get_words(bool shared)
{
    void *words = NULL;
    if (!shared)
        words = malloc(WORDS * sizeof(int64_t));
    else if (motetMemAlloc(&words, WORDS * sizeof(int64_t)) != motetSuccess)
        words = NULL;
    if (words)
        memset(words, 0x11, WORDS * sizeof(int64_t)); /* pages are there: the copy is only a copy */
    return words;
}

/* Rank 0: gives up after half a second, then writes over its buffer and goes on with other work. */
static int own(struct scene *scene, motetComm_t comm, int64_t *words)
{
    probe_fill(words, WORDS, 0, 3);
    while (!scene->entered)
        world_sleep_ms(1);
    motetResult_t result = scene->message ? motetSend(words, WORDS, motetInt64, 1, comm, NULL)
                                          : motetBroadcast(words, words, WORDS, motetInt64, 0, comm, NULL);
    CHECK(result == motetSuccess || result == motetTimeout || result == motetRemoteError);
    (void)motetCommDestroy(comm);
    memset(words, 0xEE, WORDS * sizeof(int64_t));
    motetComm_t other;
    CALL(motetCommInitAll(&other, 1, NULL)); /* where the old region was, if it was given back too early */
    CHECK(probe(other, 4) == 0);
    kill(scene->reader, SIGCONT);
    scene->woken = 1;
    while (!scene->outcome) {
        CHECK(probe(other, 5) == 0);
        world_sleep_ms(1);
    }
    CALL(motetCommDestroy(other));
    for (size_t i = 0; i < WORDS; i++)
        CHECK(words[i] == (int64_t)0xEEEEEEEEEEEEEEEEull); /* nobody has written here */
    return 0;
}

static int read_words(struct scene *scene, motetComm_t comm, int64_t *words)
{
    memset(words, 0x77, WORDS * sizeof(int64_t));
    scene->entered = 1;
    motetResult_t result = scene->message ? motetRecv(words, WORDS, motetInt64, 0, comm, NULL)
                                          : motetBroadcast(words, words, WORDS, motetInt64, 0, comm, NULL);
    scene->torn = result == motetSuccess && !probe_is(words, WORDS, 0, 3);
    scene->outcome = (int)result + 1;
    (void)motetCommAbort(comm);
    return 0;
}

static int play(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct scene *scene = (void *)(uintptr_t)argument;
    (void)nranks;
    int64_t *words = get_words(scene->shared);
    CHECK(words);
    if (rank == 1)
        scene->reader = getpid();
    int failed = rank == 0 ? own(scene, comm, words) : read_words(scene, comm, words);
    if (scene->shared)
        CALL(motetMemFree(words));
    else
        free(words);
    return failed ? failed : WORLD_ABORTED;
}

/* Stops the reader somewhere in the first 40 ms of the call: a process beside the world. */
static void stop_it(struct scene *scene)
{
    unsigned random = scene->seed * 2654435761u;
    struct timespec time = {0, (long)(random % 40000) * 1000};
    while (!scene->entered)
        world_sleep_ms(0);
    nanosleep(&time, NULL);
    if (!scene->outcome && !scene->woken)
        kill(scene->reader, SIGSTOP);
    for (int i = 0; i < 3000 && !scene->outcome; i++) { /* the owner may have woken it before it was stopped */
        if (scene->woken)
            kill(scene->reader, SIGCONT);
        world_sleep_ms(10);
    }
}

static int rounds(int by_default)
{
    const char *text = getenv("MOTET_TEST_ROUNDS");
    return text ? atoi(text) : by_default;
}

static void play_all(bool message, const char *setting)
{
    static const char *const names[] = {"success", "failure"};
    int seen[2] = {0, 0};
    for (int round = 0; round < rounds(6); round++) {
        struct scene *scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(scene != MAP_FAILED);
        scene->message = message;
        scene->shared = round % 3 != 2;
        scene->seed = (unsigned)round * 7 + (message ? 3 : 1);
        pid_t stopper = fork();
        if (stopper == 0) {
            stop_it(scene);
            _exit(0);
        }
        assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {"MOTET_TIMEOUT=500ms", setting}, 60, 0}, play, scene), 0);
        assert_int_equal(waitpid(stopper, NULL, 0), stopper);
        assert_int_equal(scene->torn, 0);
        seen[scene->outcome != motetSuccess + 1]++;
        munmap(scene, sizeof *scene);
    }
    print_message("%s: %d, %s: %d\n", names[0], seen[0], names[1], seen[1]);
}

static void test_quarantine_late_reader_of_a_collective_takes_no_garbage(void **state)
{
    (void)state;
    play_all(false, NULL);
}

static void test_quarantine_late_reader_of_a_message_takes_no_garbage(void **state)
{
    (void)state;
    play_all(true, NULL);
}

static void test_quarantine_late_rank_behind_a_stream_takes_no_garbage(void **state)
{
    (void)state;
    play_all(false, "MOTET_SHM_DISABLE=1");
    play_all(true, "MOTET_SHM_DISABLE=1");
}

/* ---- Memory of what is gone ---- */

/* Bytes of shared memory that this process's segment holds; -1 without a segment. */
static long segment_bytes(void)
{
    long bytes = -1;
    DIR *open = opendir("/proc/self/fd");
    for (struct dirent *entry; open && (entry = readdir(open));) {
        char path[300], target[300] = "";
        struct stat status;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "memfd:motet-segment") && stat(path, &status) == 0)
            bytes = (long)status.st_blocks * 512;
    }
    if (open)
        closedir(open);
    return bytes;
}

/* Rank 1 is stopped while the communicator goes, and killed later: only then does the region of rank 0 go. */
static int kept_until_death(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct scene *scene = (void *)(uintptr_t)argument;
    motetComm_t alone;
    (void)nranks;
    CHECK(survivors_judge(comm) == 0);
    if (rank == 1) {
        scene->reader = getpid();
        CHECK(survivors_call(comm, rank, 0) == motetSuccess);
        scene->entered = 1;
        while (true)
            pause();
    }
    CHECK(survivors_call(comm, rank, 0) == motetSuccess);
    CALL(motetCommInitAll(&alone, 1, NULL));
    CHECK(probe(alone, 1) == 0);
    while (!scene->entered)
        world_sleep_ms(1);
    kill(scene->reader, SIGSTOP);
    long before = segment_bytes();
    CALL(motetCommAbort(comm));
    CHECK(before > 0 && segment_bytes() == before); /* nothing was given back */
    CHECK(probe(alone, 2) == 0);
    kill(scene->reader, SIGKILL);
    for (int wait = 0; wait < 3000 && segment_bytes() >= before; wait++)
        world_sleep_ms(5);
    CHECK(segment_bytes() < before);
    CHECK(probe(alone, 3) == 0);
    CALL(motetCommDestroy(alone));
    return WORLD_ABORTED;
}

static void test_quarantine_ends_with_the_death_of_a_stopped_peer(void **state)
{
    (void)state;
    struct scene *scene = mmap(NULL, sizeof *scene, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene != MAP_FAILED);
    assert_int_equal(world_run_with_deaths(&(struct world){WORLD_PROCESSES, 2, {NULL}, 60, 0}, kept_until_death, scene, 2), 0);
    munmap(scene, sizeof *scene);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quarantine_late_reader_of_a_collective_takes_no_garbage),
        cmocka_unit_test(test_quarantine_late_reader_of_a_message_takes_no_garbage),
        cmocka_unit_test(test_quarantine_late_rank_behind_a_stream_takes_no_garbage),
        cmocka_unit_test(test_quarantine_ends_with_the_death_of_a_stopped_peer),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
