/* SPDX-License-Identifier: Apache-2.0
 * Programs that run without descriptors 0, 1 and 2, as daemons do: none of the library's own may take those numbers, for what the program
 * prints or closes next would hit it. */
#include "../multi/probe.h"

#include <fcntl.h>

#include "entries.h"

enum { FIRST_SPARE = 40 };

struct meeting {
    _Atomic(int) ready;
    motetUniqueId id;
    int closed; /* a bit each for 0, 1 and 2 */
    char log[64], report[64], dump[64];
};

/* What another thread opens this moment may have any number, until it is lifted. */
enum { MOMENTS = 200 };

static bool is_as(int fd, bool open)
{
    for (int i = 0; i < MOMENTS; i++) {
        if ((fcntl(fd, F_GETFD) >= 0) == open)
            return true;
        world_sleep_ms(5);
    }
    return false;
}

/* Whether exactly the wanted ones of 0, 1 and 2 are closed. */
static int as_left(const struct meeting *meeting, const char *when)
{
    for (int fd = 0; fd < 3; fd++)
        if (!is_as(fd, !(meeting->closed >> fd & 1)))
            return world_complain(__FILE__, __LINE__, "closed 0x%x, %s: descriptor %d is %s", meeting->closed, when, fd,
                                  meeting->closed >> fd & 1 ? "somebody's" : "gone");
    return 0;
}

static int join(struct meeting *meeting, int rank, int nranks, motetComm_t *comm)
{
    if (rank == 0) {
        CALL(motetGetUniqueId(&meeting->id));
        meeting->ready = 1;
    }
    while (!meeting->ready)
        world_sleep_ms(1);
    CALL(motetCommInitRank(comm, nranks, meeting->id, rank));
    return 0;
}

/* Everything that opens something. */
static int work(struct meeting *meeting, motetComm_t comm, int rank)
{
    int *pids, npids;
    char *json;
    motetComm_t child;
    motetStream_t stream;
    int64_t *data, sum = -1, mine = rank + 1;
    CHECK(probe(comm, 1) == 0);
    CALL(motetCommSplit(comm, 0, rank, &child, NULL));
    CALL(motetMemAlloc((void **)&data, 400000 * sizeof *data));
    CALL(motetStreamCreate(&stream));
    CALL(motetAllReduce(&mine, &sum, 1, motetInt64, motetSum, child, stream));
    CALL(motetStreamSynchronize(stream));
    CHECK(sum == 6);
    probe_fill(data, 200000, rank, 5);
    CALL(motetAllReduce(data, data + 200000, 200000, motetInt64, motetSum, child, NULL));
    CHECK(probe_is_sum(data + 200000, 200000, 3, 5));
    CHECK(as_left(meeting, "at work") == 0);
    CALL(motetStatusProcesses(&pids, &npids));
    CHECK(npids >= 1);
    CALL(motetStatusDump(getpid(), 20000, &json));
    CALL(motetMemFree(data));
    CALL(motetStreamDestroy(stream));
    CALL(motetCommDestroy(child));
    free(json);
    free(pids);
    return 0;
}

/* As daemon(3): whatever is at 0 to 2 is replaced. */
static int turn_into_daemon(struct meeting *meeting)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (int fd = 0, got, moment = 0; fd < 3; fd += got == fd) {
        got = open("/dev/null", O_RDWR);
        CHECK(got >= 0 && moment++ < MOMENTS);
        if (got != fd) {
            close(got);
            world_sleep_ms(5);
        }
    }
    meeting->closed = 0;
    return 0;
}

static int without_standard_streams(motetComm_t unused, int rank, int nranks, const void *argument)
{
    struct meeting *meeting = (void *)(uintptr_t)argument, mine = *meeting;
    motetComm_t comm;
    int error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, FIRST_SPARE);
    (void)unused;
    stderr = fdopen(error, "w"); /* where complaints go; the library knows numbers only */
    CHECK(stderr && setvbuf(stderr, NULL, _IONBF, 0) == 0);
    for (int fd = 0; fd < 3; fd++)
        if (meeting->closed >> fd & 1)
            close(fd);
    setenv("MOTET_DEBUG", "INFO", 1);
    setenv("MOTET_DEBUG_FILE", meeting->log, 1);
    setenv("MOTET_REPORT", meeting->report, 1);
    setenv("MOTET_DUMP_FILE", meeting->dump, 1);
    CHECK(join(meeting, rank, nranks, &comm) == 0);
    CHECK(as_left(&mine, "after init") == 0);
    CHECK(work(&mine, comm, rank) == 0);
    CHECK(as_left(&mine, "after work") == 0);
    CALL(motetBarrier(comm, NULL)); /* every rank has made the others write, and has seen it done */
    CHECK(turn_into_daemon(&mine) == 0);
    CHECK(probe(comm, 9) == 0);
    CALL(motetCommDestroy(comm));
    return as_left(&mine, "after destroy");
}

static void test_descriptors_closed_0_to_2_stay_closed_and_results_are_right(void **state)
{
    static const struct world worlds[] = {
        {WORLD_BARE, 3, {NULL}, 60, 0}, {WORLD_BARE, 3, {"MOTET_SHM_DISABLE=1"}, 60, 0}, {WORLD_BARE, 3, {NULL}, 60, 1}};
    (void)state;
    char folder[] = "/tmp/motet-descriptors-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++)
        for (int closed = 1; closed < 8; closed++) {
            struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            assert_true(meeting != MAP_FAILED);
            meeting->closed = closed;
            snprintf(meeting->log, sizeof meeting->log, "%s/log", folder);
            snprintf(meeting->report, sizeof meeting->report, "%s/report", folder);
            snprintf(meeting->dump, sizeof meeting->dump, "%s/dump", folder);
            assert_int_equal(world_run(&worlds[i], without_standard_streams, meeting), 0);
            munmap(meeting, sizeof *meeting);
        }
    assert_int_equal(count_entries(folder), 5); /* log, report and dump, "." and ".." */
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descriptors_closed_0_to_2_stay_closed_and_results_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
