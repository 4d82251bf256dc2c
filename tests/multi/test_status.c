/* SPDX-License-Identifier: Apache-2.0
 * A running job is asked: every rank's row is there over every transport, the verdict names the rank that is missing, stopped processes
 * are told of by neighbours or by their memory, and nobody else may ask. */
#include <fcntl.h>
#include <sys/types.h>

#include "status_job.h"
#include "world.h"

#define PATIENCE_S 30

/* What a question is repeated for. */
typedef bool (*wish)(const struct status_job *job, size_t first, size_t n, const char *verdict, const void *argument);

/* Asks `pid` until the communicator of nranks is as wished. */
static bool ask_until(int pid, int nranks, wish wished, const void *argument)
{
    char why[256], verdict[4096] = "";
    for (double end = world_now() + PATIENCE_S; world_now() < end; world_sleep_ms(20)) {
        struct status_job job = {0};
        char *text = NULL;
        bool granted = false, stuck;
        if (motetStatus(pid, 2000, &text) != motetSuccess || !status_job_add(&job, text, why, sizeof why)) {
            free(text);
            continue;
        }
        for (size_t first = 0, n; first < job.n; first += n) {
            n = status_job_comm(&job, first);
            status_verdict(&job, first, n, verdict, sizeof verdict, &stuck);
            granted |= job.rows[first].nranks == nranks && wished(&job, first, n, verdict, argument);
        }
        status_job_free(&job);
        free(text);
        if (granted)
            return true;
    }
    fprintf(stderr, "the last verdict was: %s\n", verdict);
    return false;
}

static bool all_but_one_wait(const struct status_job *job, size_t first, size_t n, const char *verdict, const void *argument)
{
    const int *missing = argument;
    char blamed[64];
    size_t waiting = 0;
    snprintf(blamed, sizeof blamed, "rank %d (pid ", *missing);
    for (size_t i = first; i < first + n; i++)
        waiting += job->rows[i].has_current && job->rows[i].waits && strcmp(job->rows[i].current.name, "AllReduce") == 0 &&
                   job->rows[i].current.number == job->rows[i].calls && job->rows[i].rank == (int)(i - first);
    return n == (size_t)job->rows[first].nranks && waiting == n - 1 && strncmp(verdict, blamed, strlen(blamed)) == 0 &&
           strstr(verdict, "has not called AllReduce #") && strstr(verdict, "it is in user code for");
}

/* The last rank stays away and asks; the others are in an all-reduce. */
static int absent(motetComm_t comm, int rank, int nranks, const void *argument)
{
    float mine = (float)rank, sum = -1;
    int missing = nranks - 1;
    (void)argument;
    CALL(motetBarrier(comm, NULL));
    if (rank == missing)
        CHECK(ask_until(getpid(), nranks, all_but_one_wait, &missing));
    CALL(motetAllReduce(&mine, &sum, 1, motetFloat32, motetSum, comm, NULL));
    CHECK(sum == (float)(nranks * (nranks - 1) / 2));
    return 0;
}

static void test_status_of_a_missing_rank_names_it_on_every_transport(void **state)
{
    (void)state;
    const struct world worlds[] = {
        {.kind = WORLD_PROCESSES, .nranks = 3},
        {.kind = WORLD_PROCESSES, .nranks = 3, .environment = {"MOTET_SHM_DISABLE=1"}},
        {.kind = WORLD_PROCESSES, .nranks = 4, .per_host = 2},
        {.kind = WORLD_PROCESSES, .nranks = 5, .per_host = -2},
        {.kind = WORLD_THREADS, .nranks = 3},
    };
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        if (world_run(&worlds[i], absent, NULL))
            fail_msg("world %zu", i);
}

/* ---- Messages ---- */

static bool waits_in_recv(const struct status_job *job, size_t first, size_t n, const char *verdict, const void *argument)
{
    const struct status_row *row = &job->rows[first];
    (void)argument;
    return n == 2 && row->has_current && row->waits && row->waits_for == 1 &&
           strcmp(row->current.what, "Recv(3 x float32) from rank 1") == 0 && row->messages == 2 &&
           strstr(verdict, "is waited for by rank 0 in Recv(3 x float32) from rank 1");
}

static int receiving(motetComm_t comm, int rank, int nranks, const void *argument)
{
    float three[3] = {(float)rank + 1, 2, 3};
    (void)nranks, (void)argument;
    if (rank == 0) {
        CALL(motetSend(three, 2, motetFloat32, 1, comm, NULL));
        CALL(motetRecv(three, 3, motetFloat32, 1, comm, NULL));
        CHECK(three[0] == 2);
        return 0;
    }
    CHECK(ask_until(getpid(), 2, waits_in_recv, NULL));
    CALL(motetSend(three, 3, motetFloat32, 0, comm, NULL));
    CALL(motetRecv(three, 2, motetFloat32, 0, comm, NULL));
    CHECK(three[0] == 1);
    return 0;
}

static void test_status_of_a_receive_names_message_and_sender(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.kind = WORLD_PROCESSES, .nranks = 2}, receiving, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0}, receiving, NULL), 0);
}

/* ---- Stopped processes ---- */

static bool one_is_stopped(const struct status_job *job, size_t first, size_t n, const char *verdict, const void *argument)
{
    const int *rank = argument;
    (void)verdict;
    for (size_t i = first; i < first + n; i++)
        if (job->rows[i].rank == *rank && job->rows[i].process == 'T')
            return n == (size_t)job->rows[first].nranks;
    return false;
}

/* The last rank stops itself. Rank 0 hears of it from itself or from the neighbours, and from the stopped process's memory. */
static int stopped(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int mine = (int)getpid(), pids[8], victim = nranks - 1;
    char *text = NULL;
    (void)argument;
    CALL(motetAllGather(&mine, pids, 1, motetInt32, comm, NULL));
    if (rank == victim)
        raise(SIGSTOP);
    if (rank == 0) {
        CHECK(ask_until(mine, nranks, one_is_stopped, &victim));
        motetResult_t asked = motetStatus(pids[victim], 500, &text);
        kill(pids[victim], SIGCONT);
        CHECK(asked == motetSuccess && strstr(text, "\"direct\":true") && strstr(text, "\"process\":\"T\""));
        free(text);
    }
    CALL(motetBarrier(comm, NULL));
    return 0;
}

static void test_status_of_a_stopped_process_is_told_by_neighbours_and_its_memory(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.kind = WORLD_PROCESSES, .nranks = 3}, stopped, NULL), 0);
    assert_int_equal(world_run(&(struct world){.kind = WORLD_PROCESSES, .nranks = 4, .per_host = 2}, stopped, NULL), 0);
}

/* A host of one process that is stopped: nobody can tell, and it is named. */
static int silent(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int mine = (int)getpid(), pids[8];
    char *text = NULL, named[64];
    (void)nranks, (void)argument;
    CALL(motetAllGather(&mine, pids, 1, motetInt32, comm, NULL));
    if (rank == 1)
        raise(SIGSTOP);
    snprintf(named, sizeof named, "\"silent\":[{\"pid\":%d,", pids[1]);
    bool found = false;
    for (double end = world_now() + PATIENCE_S; rank == 0 && !found && world_now() < end;) {
        CALL(motetStatus(mine, 1000, &text));
        found = strstr(text, named) != NULL;
        free(text);
    }
    if (rank == 0)
        kill(pids[1], SIGCONT);
    CHECK(rank != 0 || found);
    CALL(motetBarrier(comm, NULL));
    return 0;
}

static void test_status_names_processes_that_do_not_answer(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0}, silent, NULL), 0);
}

/* ---- Who may ask, and whom ---- */

static int refused(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int mine = (int)getpid(), status, *pids = NULL, n = 0;
    char *text = NULL;
    (void)nranks, (void)argument;
    if (rank == 0) {
        CALL(motetStatusProcesses(&pids, &n));
        bool listed = false;
        for (int i = 0; i < n; i++)
            listed |= pids[i] == mine;
        free(pids);
        CHECK(listed);
        EXPECT(motetInvalidArgument, motetStatus(0, 1000, &text));
        EXPECT(motetInvalidArgument, motetStatus(mine, 0, &text));
        EXPECT(motetInvalidArgument, motetStatus(mine, 1000, NULL));
        EXPECT(motetInvalidArgument, motetStatus(1 << 22, 1000, &text)); /* beyond any pid */
        pid_t stranger = geteuid() == 0 ? fork() : -1;
        if (stranger == 0)
            _exit(setuid(65534) != 0 || motetStatus(mine, 1000, &text) == motetSystemError ? 0 : 1);
        CHECK(stranger < 0 || (waitpid(stranger, &status, 0) == stranger && status == 0));
    }
    CALL(motetBarrier(comm, NULL));
    return 0;
}

static void test_status_of_nobody_or_by_strangers_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.kind = WORLD_PROCESSES, .nranks = 2}, refused, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_of_a_missing_rank_names_it_on_every_transport),
        cmocka_unit_test(test_status_of_a_receive_names_message_and_sender),
        cmocka_unit_test(test_status_of_a_stopped_process_is_told_by_neighbours_and_its_memory),
        cmocka_unit_test(test_status_names_processes_that_do_not_answer),
        cmocka_unit_test(test_status_of_nobody_or_by_strangers_is_an_error),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
