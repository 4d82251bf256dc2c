/* SPDX-License-Identifier: Apache-2.0
 * Ranks that are always late are named, with the kind of cause, by the report of a real job: one that has a little more to do, one that
 * gets no CPU beside a program of higher priority, one behind a slow link. Equal ranks name nobody. */
/* test: serial timeout=240 */
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <sys/resource.h>

#include "multi/world.h"
#include "namespace.h"

#define HOSTS 3

struct trial {
    const char *id; /* slow link: a file that tells where to meet */
    int calls;
    size_t count;
    double work_s; /* of the CPU, before each call */
    double late_s; /* before each call of rank 1 */
    bool starved;  /* rank 1 runs at the lowest priority, on a CPU where another program is busy */
};

static void spend(double seconds)
{
    for (double end_s = world_now() + seconds; world_now() < end_s;)
        continue;
}

/* So much time of the CPU, however long that takes. */
static void compute(double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double end_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds;
    while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < end_s)
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

/* Each rank has a CPU; rank 1 shares its own with a child that never rests. */
static bool starve(int rank)
{
    cpu_set_t all, one;
    int cpu = -1;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return false;
    for (int i = 0, n = 0; i < CPU_SETSIZE && cpu < 0; i++)
        cpu = CPU_ISSET(i, &all) && n++ == rank ? i : -1;
    if (cpu < 0)
        return false;
    CPU_ZERO(&one);
    CPU_SET((unsigned)cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 && (rank != 1 || setpriority(PRIO_PROCESS, 0, 19) == 0);
}

static int work(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct trial *trial = argument;
    float *buf = malloc(trial->count * sizeof *buf);
    (void)nranks;
    CHECK(buf);
    for (size_t i = 0; i < trial->count; i++)
        buf[i] = (float)(rank + 1) * (float)(i % 7);
    CHECK(!trial->starved || starve(rank));
    for (int i = 0; i < trial->calls; i++) {
        compute(trial->work_s);
        spend(rank == 1 ? trial->late_s : 0);
        CALL(motetAllReduce(buf, buf, trial->count, motetFloat32, motetMax, comm, NULL));
    }
    free(buf);
    return 0;
}

static json_t *run(struct world *world, world_function function, const struct trial *trial)
{
    static char setting[128];
    char path[] = "/tmp/motet-straggler-XXXXXX.json";
    json_error_t error;
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    snprintf(setting, sizeof setting, "MOTET_REPORT=%s", path);
    world->environment[0] = setting;
    world->timeout_s = 100;
    assert_int_equal(world_run(world, function, trial), 0);
    json_t *report = json_load_file(path, 0, &error);
    unlink(path);
    assert_non_null(report);
    return report;
}

/* One of the causes, or (NULL) nobody. */
static void expect(json_t *report, int rank, const char *cause, const char *or_cause)
{
    const json_t *straggler = json_object_get(report, "straggler");
    char *text = json_dumps(straggler, JSON_ENCODE_ANY);
    fprintf(stderr, "%s\n", text);
    free(text);
    if (!cause) {
        assert_true(json_is_null(straggler));
    } else {
        const char *found = json_string_value(json_object_get(straggler, "cause"));
        assert_int_equal(json_integer_value(json_object_get(straggler, "rank")), rank);
        assert_true(found && (!strcmp(found, cause) || (or_cause && !strcmp(found, or_cause))));
    }
    json_decref(report);
}

static void test_stragglers_rank_50_us_late_each_call_is_computing(void **state)
{
    const struct trial trial = {.calls = 12000, .count = 2, .late_s = 50e-6};
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    (void)state;
    /* where others are at work it may be that it did not run for longer than it did */
    expect(run(&world, work, &trial), 1, "computing", "not running");
}

static void test_stragglers_equal_ranks_name_nobody(void **state)
{
    const struct trial trial = {.calls = 3000, .count = 2};
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 8};
    (void)state;
    expect(run(&world, work, &trial), -1, NULL, NULL);
}

static void test_stragglers_lowest_priority_beside_a_busy_program_is_not_running(void **state)
{
    const struct trial trial = {.calls = 26, .count = 65536, .work_s = 0.0025, .starved = true};
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    (void)state;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip();
    pid_t busy = fork();
    assert_true(busy >= 0);
    if (busy == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (starve(1), setpriority(PRIO_PROCESS, 0, 0);;)
            continue;
    }
    json_t *report = run(&world, work, &trial);
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    expect(report, 1, "not running", NULL);
}

/* ---- A slow link ---- */

static pid_t holders[HOSTS]; /* processes that keep the hosts' namespaces alive */

/* Three hosts with cables to a bridge, which lies in host 0; the cable of host 1 carries 10 Mbit/s in both directions. */
static bool lay_cables(void)
{
    if (geteuid() != 0 || namespace_shell("ip -V >/dev/null 2>&1 && tc -V >/dev/null 2>&1 && nsenter -V >/dev/null 2>&1") != 0)
        return false;
    for (int h = 0; h < HOSTS; h++)
        if ((holders[h] = namespace_hold()) < 0)
            return false;
    if (namespace_shell(
            "nsenter -t %d -n sh -c 'ip link set lo up; ip link add bridge type bridge && ip addr add 10.76.0.1/24 dev bridge && "
            "ip link set bridge up'",
            (int)holders[0]) != 0)
        return false;
    for (int h = 1; h < HOSTS; h++)
        if (namespace_shell(
                "nsenter -t %d -n sh -c 'ip link add to%d type veth peer name cable netns %d && ip link set to%d master bridge up' && "
                "nsenter -t %d -n sh -c 'ip link set lo up; ip addr add 10.76.0.%d/24 dev cable; ip link set cable up'",
                (int)holders[0], h, (int)holders[h], h, (int)holders[h], h + 1) != 0)
            return false;
    return namespace_shell("nsenter -t %d -n tc qdisc add dev to1 root tbf rate 10mbit burst 16kb limit 256kb && "
                           "nsenter -t %d -n tc qdisc add dev cable root tbf rate 10mbit burst 16kb limit 256kb",
                           (int)holders[0], (int)holders[1]) == 0;
}

static int work_on_hosts(motetComm_t none, int rank, int nranks, const void *argument)
{
    const struct trial *trial = argument;
    char number[16];
    motetComm_t comm;
    (void)none;
    CHECK(namespace_enter(holders[rank]));
    snprintf(number, sizeof number, "%d", rank);
    setenv("MOTET_RANK", number, 1);
    setenv("MOTET_HOSTID", number, 1);
    snprintf(number, sizeof number, "%d", nranks);
    setenv("MOTET_NRANKS", number, 1);
    setenv("MOTET_ROOT", "10.76.0.1:27182", 1);
    CALL(motetCommInitEnv(&comm, NULL));
    int failed = work(comm, rank, nranks, trial);
    CALL(motetCommDestroy(comm));
    return failed;
}

static void test_stragglers_rank_behind_a_slow_link_is_named_for_its_link(void **state)
{
    const struct trial trial = {.calls = 8, .count = 131072};
    struct world world = {.kind = WORLD_BARE, .nranks = HOSTS};
    (void)state;
    bool laid = lay_cables();
    json_t *report = laid ? run(&world, work_on_hosts, &trial) : NULL;
    for (int h = 0; h < HOSTS; h++)
        namespace_release(holders[h]);
    if (!laid)
        skip();
    expect(report, 1, "slow link", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stragglers_rank_50_us_late_each_call_is_computing),
        cmocka_unit_test(test_stragglers_equal_ranks_name_nobody),
        cmocka_unit_test(test_stragglers_lowest_priority_beside_a_busy_program_is_not_running),
        cmocka_unit_test(test_stragglers_rank_behind_a_slow_link_is_named_for_its_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
