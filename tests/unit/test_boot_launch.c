/* SPDX-License-Identifier: Apache-2.0
 * Launchers' environments: what is read from them, and whether ranks that have nothing else meet. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "boot/launch.h"
#include "boot_ranks.h"

#define TIMEOUT_MS 20000

/* Variables of every launcher, removed before a case sets its own. */
static const char *const all_variables[] = {"MOTET_RANK",
                                            "MOTET_NRANKS",
                                            "MOTET_UNIQUE_ID",
                                            "MOTET_ROOT",
                                            "MOTET_SECRET",
                                            "MOTET_COMM_ID",
                                            "MOTET_PORT_RANGE",
                                            "RANK",
                                            "WORLD_SIZE",
                                            "MASTER_ADDR",
                                            "MASTER_PORT",
                                            "TORCHELASTIC_RUN_ID",
                                            "TORCHELASTIC_RESTART_COUNT",
                                            "TORCHELASTIC_USE_AGENT_STORE",
                                            "SLURM_PROCID",
                                            "SLURM_NTASKS",
                                            "SLURM_STEP_NUM_TASKS",
                                            "SLURM_JOB_ID",
                                            "SLURM_STEP_ID",
                                            "SLURM_STEP_NODELIST",
                                            "SLURM_JOB_NODELIST",
                                            "OMPI_COMM_WORLD_RANK",
                                            "OMPI_COMM_WORLD_SIZE",
                                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                                            "PMIX_NAMESPACE",
                                            "OMPI_MCA_orte_hnp_uri",
                                            "PMI_RANK",
                                            "PMI_SIZE",
                                            "MPI_LOCALNRANKS",
                                            "PMI_JOBID"};

/* A job: "NAME=value" for all ranks; the launcher's rank variable gets the rank. */
struct job {
    const char *rank_name, *size_name;
    const char *shared[8];
    const char *odd_name, *odd_value; /* differs on odd ranks */
    motetUniqueId id;
    int nrounds, special;
    int64_t timeout_ms;
};

static void set_environment(const struct job *job, int rank, int nranks)
{
    char text[32];
    for (size_t i = 0; i < sizeof(all_variables) / sizeof(all_variables[0]); i++)
        unsetenv(all_variables[i]);
    snprintf(text, sizeof(text), "%d", rank);
    if (job->rank_name)
        setenv(job->rank_name, text, 1);
    snprintf(text, sizeof(text), "%d", nranks);
    if (job->size_name)
        setenv(job->size_name, text, 1);
    for (int i = 0; i < 8 && job->shared[i]; i++) {
        char name[64];
        const char *equals = strchr(job->shared[i], '=');
        snprintf(name, sizeof(name), "%.*s", (int)(equals - job->shared[i]), job->shared[i]);
        setenv(name, equals + 1, 1);
    }
    if (job->odd_name && rank % 2)
        setenv(job->odd_name, job->odd_value, 1);
}

static size_t small_len(int rank, unsigned round)
{
    return 300 + 11 * (unsigned)rank + round;
}

static int meeting_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    set_environment(job, rank, nranks);
    for (int i = 0; i < job->nrounds; i++) { /* several communicators, one after the other */
        struct motet_boot boot;
        int said_rank = -1, said_size = -1;
        motetResult_t result = motet_boot_open_env(&boot, &said_size, &said_rank, motet_deadline_ns(job->timeout_ms), NULL);
        if (result != motetSuccess)
            return (int)result;
        RANK_CHECK(said_rank == rank && said_size == nranks);
        int gathered = gather_and_check(&boot, small_len, 0);
        if (gathered == 0)
            gathered = gather_and_check(&boot, small_len, 1);
        motet_boot_close(&boot);
        if (gathered != 0)
            return gathered;
    }
    return 0;
}

static void assert_meets(struct job *job, int nranks)
{
    job->nrounds = 3;
    job->timeout_ms = TIMEOUT_MS;
    struct outcome *outcomes = run_ranks(nranks, meeting_rank, job);
    assert_all(outcomes, nranks, 0);
    outcomes_free(outcomes, nranks);
}

static void test_env_torchrun_ranks_meet(void **state)
{
    (void)state;
    static struct job job = {"RANK",
                             "WORLD_SIZE",
                             {"MASTER_ADDR=localhost", "MASTER_PORT=23550", "TORCHELASTIC_RUN_ID=none",
                              "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_USE_AGENT_STORE=True"},
                             NULL,
                             NULL,
                             {{0}},
                             0,
                             0,
                             0};
    for (int nranks = 1; nranks <= 4; nranks++)
        assert_meets(&job, nranks);
}

/* The agent's store, and some other program on the next port that accepts everything and says nothing. */
static void test_env_torchrun_taken_ports_are_passed_over(void **state)
{
    (void)state;
    static struct job job = {"RANK", "WORLD_SIZE", {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=23560"}, NULL, NULL, {{0}}, 0, 0, 0};
    int fds[3];
    for (int i = 0; i < 3; i++) {
        union motet_address address = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
        motet_address_set_port(&address, (uint16_t)(23560 + i));
        assert_int_equal(motet_net_listen(&address, false, &fds[i]), motetSuccess);
    }
    uint64_t before = motet_now_ns();
    job.nrounds = 1;
    job.timeout_ms = TIMEOUT_MS;
    struct outcome *outcomes = run_ranks(3, meeting_rank, &job);
    assert_all(outcomes, 3, 0);
    outcomes_free(outcomes, 3);
    assert_true(motet_now_ns() - before < 15000000000u);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void test_env_other_run_or_secret_does_not_join(void **state)
{
    (void)state;
    static struct job jobs[] = {{"RANK",
                                 "WORLD_SIZE",
                                 {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=23570", "TORCHELASTIC_RESTART_COUNT=1"},
                                 "TORCHELASTIC_RESTART_COUNT",
                                 "0",
                                 {{0}},
                                 1,
                                 0,
                                 1500},
                                {"MOTET_RANK",
                                 "MOTET_NRANKS",
                                 {"MOTET_ROOT=127.0.0.1:23590", "MOTET_SECRET=00112233445566778899aabbccddeeff"},
                                 "MOTET_SECRET",
                                 "10112233445566778899aabbccddeeff",
                                 {{0}},
                                 1,
                                 0,
                                 1500}};
    for (int i = 0; i < 2; i++) {
        struct outcome *outcomes = run_ranks(2, meeting_rank, &jobs[i]);
        assert_all(outcomes, 2, motetTimeout);
        assert_says(&outcomes[0], "missing ranks: 1; 1 of 2 ranks came: 0");
        assert_says(&outcomes[1], "found no root at ");
        assert_says(&outcomes[1], "does not know this job's secret");
        outcomes_free(outcomes, 2);
    }
}

static void test_env_by_hand_ranks_meet_at_the_given_root(void **state)
{
    (void)state;
    static struct job job = {"MOTET_RANK",
                             "MOTET_NRANKS",
                             {"MOTET_ROOT=localhost:23600", "MOTET_SECRET=00112233445566778899aabbccddeeff"},
                             NULL,
                             NULL,
                             {{0}},
                             0,
                             0,
                             0};
    assert_meets(&job, 3);
}

static void test_env_srun_ranks_meet(void **state)
{
    (void)state;
    static struct job job = {"SLURM_PROCID",
                             "SLURM_NTASKS",
                             {"SLURM_JOB_ID=4711", "SLURM_STEP_ID=2", "SLURM_STEP_NODELIST=localhost"},
                             NULL,
                             NULL,
                             {{0}},
                             0,
                             0,
                             0};
    assert_meets(&job, 3);
}

static void test_env_mpirun_ranks_of_one_host_meet(void **state)
{
    (void)state;
    static struct job open_mpi = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE=12345678"}, NULL, NULL, {{0}}, 0, 0, 0};
    static struct job mpich = {"PMI_RANK", "PMI_SIZE", {NULL}, NULL, NULL, {{0}}, 0, 0, 0};
    assert_meets(&open_mpi, 4);
    assert_meets(&mpich, 4);
}

static void test_env_mpirun_over_hosts_asks_for_comm_id(void **state)
{
    (void)state;
    static struct job jobs[] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"OMPI_COMM_WORLD_LOCAL_SIZE=1"}, NULL, NULL, {{0}}, 1, 0, 1000},
        {"PMI_RANK", "PMI_SIZE", {"MPI_LOCALNRANKS=1"}, NULL, NULL, {{0}}, 1, 0, 1000}};
    for (int i = 0; i < 2; i++) {
        struct outcome *outcomes = run_ranks(2, meeting_rank, &jobs[i]);
        assert_all(outcomes, 2, motetInvalidUsage);
        assert_says(&outcomes[1], "MOTET_COMM_ID=host:port");
        outcomes_free(outcomes, 2);
    }
    static struct job told = {"OMPI_COMM_WORLD_RANK",
                              "OMPI_COMM_WORLD_SIZE",
                              {"OMPI_COMM_WORLD_LOCAL_SIZE=1", "MOTET_COMM_ID=127.0.0.1:23620"},
                              NULL,
                              NULL,
                              {{0}},
                              0,
                              0,
                              0};
    assert_meets(&told, 3);
}

static void test_env_without_launcher_is_one_rank(void **state)
{
    (void)state;
    static struct job job = {NULL, NULL, {NULL}, NULL, NULL, {{0}}, 0, 0, 0};
    assert_meets(&job, 1);
}

static void test_env_unique_id_of_motet_run_is_used(void **state)
{
    (void)state;
    static char text[64 + 2 * MOTET_UNIQUE_ID_BYTES];
    struct motet_root_place place = {.naddresses = 1, .listens = true};
    struct motet_root_options options = {.deadline_ns = motet_deadline_ns(TIMEOUT_MS)};
    static struct job job = {"MOTET_RANK", "MOTET_NRANKS", {text}, NULL, NULL, {{0}}, 1, 0, TIMEOUT_MS};
    place.addresses[0].in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(motet_root_start(&place, &options, NULL), motetSuccess);
    assert_int_equal(motet_unique_id_encode(&place, &job.id), motetSuccess);
    size_t at = (size_t)snprintf(text, sizeof(text), "MOTET_UNIQUE_ID=");
    for (int i = 0; i < MOTET_UNIQUE_ID_BYTES; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", (uint8_t)job.id.internal[i]);
    struct outcome *outcomes = run_ranks(3, meeting_rank, &job);
    assert_all(outcomes, 3, 0);
    outcomes_free(outcomes, 3);
    assert_true(roots_end(3000));
}

/* As a launcher's process would: the kept root is found again by every communicator. */
static int comm_id_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    motetUniqueId id;
    set_environment(job, rank, nranks);
    for (int i = 0; i < 3; i++) {
        struct motet_boot boot;
        RANK_CHECK(motet_boot_root_start(&id) == motetSuccess);
        RANK_CHECK(motet_root_count() <= 1); /* no thread yet: rank 0 serves inside open */
        motetResult_t result = motet_boot_open_id(&boot, &id, nranks, rank, motet_deadline_ns(job->timeout_ms), NULL);
        if (result != motetSuccess)
            return (int)result;
        RANK_CHECK(strcmp(boot.where, "127.0.0.1:23630") == 0);
        RANK_CHECK(gather_and_check(&boot, small_len, 0) == 0);
        motet_boot_close(&boot);
    }
    return 0;
}

static void test_comm_id_rank_0_listens_exactly_there(void **state)
{
    (void)state;
    static struct job job = {NULL, NULL, {"MOTET_COMM_ID=127.0.0.1:23630"}, NULL, NULL, {{0}}, 1, 0, TIMEOUT_MS};
    struct outcome *outcomes = run_ranks(4, comm_id_rank, &job);
    assert_all(outcomes, 4, 0);
    outcomes_free(outcomes, 4);
}

static void test_comm_id_taken_port_is_an_error_at_once(void **state)
{
    (void)state;
    static struct job job = {NULL, NULL, {"MOTET_COMM_ID=127.0.0.1:23640"}, NULL, NULL, {{0}}, 1, 0, 4000};
    union motet_address address = {.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    char holder[64];
    int fd;
    motet_address_set_port(&address, 23640);
    assert_int_equal(motet_net_listen(&address, false, &fd), motetSuccess);
    uint64_t before = motet_now_ns();
    struct outcome *outcomes = run_ranks(2, comm_id_rank, &job);
    assert_int_equal(outcomes[0].result, motetSystemError);
    assert_true(outcomes[0].ended_ns - before < 3500000000u); /* not the timeout */
    snprintf(holder, sizeof(holder), "127.0.0.1:23640: address in use by process %d ", (int)getpid());
    assert_says(&outcomes[0], holder);
    assert_int_equal(outcomes[1].result, motetTimeout);
    assert_says(&outcomes[1], "rank 1 of 2 found no root at 127.0.0.1:23640");
    outcomes_free(outcomes, 2);
    close(fd);
}

/* Every process has its own port in mind. */
static void test_comm_id_different_ports_time_out_with_both_stories(void **state)
{
    (void)state;
    static struct job job = {
        "MOTET_RANK", "MOTET_NRANKS", {"MOTET_COMM_ID=127.0.0.1:23650"}, "MOTET_COMM_ID", "127.0.0.1:23651", {{0}}, 1, 0, 1500};
    struct outcome *outcomes = run_ranks(2, meeting_rank, &job);
    assert_all(outcomes, 2, motetTimeout);
    assert_says(&outcomes[0], "1 of 2 ranks came: 0");
    assert_says(&outcomes[1], "rank 1 of 2 found no root at 127.0.0.1:23651");
    assert_says(&outcomes[1], strerror(ECONNREFUSED));
    outcomes_free(outcomes, 2);
}

/* Each rank has an /etc/hosts of its own; on rank 0's the job's name is 127.0.1.1, as Debian writes it, or missing. */
static int own_hosts_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    char path[64];
    snprintf(path, sizeof(path), "/tmp/motet-test-hosts.%d", (int)getpid());
    FILE *file = fopen(path, "w");
    RANK_CHECK(file);
    fprintf(file, "127.0.0.1 localhost\n");
    if (rank == 0 && job->special == 0)
        fprintf(file, "127.0.1.1 motet-test-node\n");
    if (rank != 0)
        fprintf(file, "127.0.0.5 motet-test-node\n"); /* reaches a wildcard listener of this host, not one on 127.0.1.1 */
    fclose(file);
    RANK_CHECK(unshare(CLONE_NEWNS) == 0);
    RANK_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    RANK_CHECK(mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0);
    int result = meeting_rank(rank, nranks, argument);
    umount("/etc/hosts");
    unlink(path);
    return result;
}

/* Whether a process may have mounts of its own: not every user, and not in a folder that is no mount point (chroot). */
static bool can_mount(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_env_host_name_that_is_loopback_on_rank_0_works(void **state)
{
    (void)state;
    static struct job job = {"RANK", "WORLD_SIZE", {"MASTER_ADDR=motet-test-node", "MASTER_PORT=23660"}, NULL, NULL, {{0}}, 1,
                             0,      TIMEOUT_MS};
    if (!can_mount())
        skip();
    for (job.special = 0; job.special < 2; job.special++) {
        struct outcome *outcomes = run_ranks(2, own_hosts_rank, &job);
        assert_all(outcomes, 2, 0);
        outcomes_free(outcomes, 2);
    }
}

/* ---- reading */

static motetResult_t read_in_child(struct motet_launch *shared, const struct job *job, int rank, int nranks, char text[300])
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        set_environment(job, rank, nranks);
        motetResult_t result = motet_launch_read(shared);
        snprintf(text, 300, "%s", motet_error_text());
        _exit((int)result);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (motetResult_t)WEXITSTATUS(status);
}

static void test_launch_nonsense_is_named(void **state)
{
    (void)state;
    static const struct {
        struct job job;
        const char *words;
    } cases[] = {
        {{NULL, NULL, {"RANK=4", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"}, NULL, NULL, {{0}}, 0, 0, 0}, "RANK=4"},
        {{NULL, NULL, {"RANK=x", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"}, NULL, NULL, {{0}}, 0, 0, 0}, "RANK=x"},
        {{NULL, NULL, {"RANK=0", "WORLD_SIZE=0", "MASTER_ADDR=a", "MASTER_PORT=1"}, NULL, NULL, {{0}}, 0, 0, 0}, "WORLD_SIZE=0"},
        {{NULL, NULL, {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=70000"}, NULL, NULL, {{0}}, 0, 0, 0},
         "MASTER_PORT=70000"},
        {{NULL, NULL, {"MOTET_RANK=0", "MOTET_NRANKS=2"}, NULL, NULL, {{0}}, 0, 0, 0}, "MOTET_ROOT"},
        {{NULL, NULL, {"MOTET_RANK=0", "MOTET_NRANKS=2", "MOTET_ROOT=nowhere"}, NULL, NULL, {{0}}, 0, 0, 0}, "MOTET_ROOT=nowhere"},
        {{NULL, NULL, {"MOTET_RANK=0", "MOTET_NRANKS=2", "MOTET_UNIQUE_ID=abc"}, NULL, NULL, {{0}}, 0, 0, 0}, "MOTET_UNIQUE_ID"},
        {{NULL, NULL, {"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=1", "SLURM_STEP_ID=0"}, NULL, NULL, {{0}}, 0, 0, 0},
         "SLURM_STEP_NODELIST"},
    };
    struct motet_launch *launch = mmap(NULL, sizeof(*launch) + 300, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *text = (char *)(launch + 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        motetResult_t result = read_in_child(launch, &cases[i].job, 0, 0, text);
        assert_true(result == motetInvalidArgument || result == motetInvalidUsage);
        if (!strstr(text, cases[i].words))
            print_error("case %zu: %s\n", i, text);
        assert_non_null(strstr(text, cases[i].words));
    }
    munmap(launch, sizeof(*launch) + 300);
}

static void test_launch_ports_follow_master_port_and_range(void **state)
{
    (void)state;
    static const struct job plain = {"RANK", "WORLD_SIZE", {"MASTER_ADDR=h", "MASTER_PORT=29500"}, NULL, NULL, {{0}}, 0, 0, 0};
    static const struct job wrapped = {"RANK", "WORLD_SIZE", {"MASTER_ADDR=h", "MASTER_PORT=65533"}, NULL, NULL, {{0}}, 0, 0, 0};
    static const struct job ranged = {
        "RANK", "WORLD_SIZE", {"MASTER_ADDR=h", "MASTER_PORT=29500", "MOTET_PORT_RANGE=40000-40004"}, NULL, NULL, {{0}}, 0, 0, 0};
    struct motet_launch *launch = mmap(NULL, 2 * sizeof(*launch) + 300, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *text = (char *)(launch + 2);
    assert_int_equal(read_in_child(launch, &plain, 1, 2, text), motetSuccess);
    assert_int_equal(launch->name.nports, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(launch->name.ports[i], 29501 + i);
    assert_int_equal(read_in_child(launch, &wrapped, 1, 2, text), motetSuccess);
    assert_int_equal(launch->name.ports[1], 65535);
    assert_int_equal(launch->name.ports[2], 1);
    assert_int_equal(read_in_child(launch, &ranged, 1, 2, text), motetSuccess);
    assert_int_equal(launch->name.nports, 5);
    for (int i = 0; i < 5; i++)
        assert_in_range(launch->name.ports[i], 40000, 40004);
    assert_int_equal(read_in_child(launch + 1, &ranged, 0, 2, text), motetSuccess);
    assert_memory_equal(launch[0].name.ports, launch[1].name.ports, sizeof(launch->name.ports)); /* all ranks compute alike */
    munmap(launch, 2 * sizeof(*launch) + 300);
}

static void test_launch_precedence_is_motet_torchrun_open_mpi_srun_pmi(void **state)
{
    (void)state;
    static const struct {
        const char *launcher;
        struct job job;
    } cases[] = {
        {"motet run",
         {"MOTET_RANK",
          "MOTET_NRANKS",
          {"MOTET_ROOT=h:1", "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=a", "MASTER_PORT=1"},
          NULL,
          NULL,
          {{0}},
          0,
          0,
          0}},
        {"torchrun",
         {"RANK",
          "WORLD_SIZE",
          {"MASTER_ADDR=a", "MASTER_PORT=1", "SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_ID=0", "SLURM_JOB_ID=1",
           "SLURM_STEP_NODELIST=a"},
          NULL,
          NULL,
          {{0}},
          0,
          0,
          0}},
        {"mpirun (Open MPI)",
         {"OMPI_COMM_WORLD_RANK",
          "OMPI_COMM_WORLD_SIZE",
          {"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_ID=0", "SLURM_JOB_ID=1", "SLURM_STEP_NODELIST=a"},
          NULL,
          NULL,
          {{0}},
          0,
          0,
          0}},
        {"srun",
         {"SLURM_PROCID",
          "SLURM_NTASKS",
          {"SLURM_STEP_ID=0", "SLURM_JOB_ID=1", "SLURM_STEP_NODELIST=a", "PMI_RANK=2", "PMI_SIZE=3"},
          NULL,
          NULL,
          {{0}},
          0,
          0,
          0}},
        {"mpirun (MPICH, Intel MPI)",
         {"PMI_RANK",
          "PMI_SIZE",
          {"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_STEP_ID=0", "SLURM_JOB_ID=1", "SLURM_STEP_NODELIST=a"},
          NULL,
          NULL,
          {{0}},
          0,
          0,
          0}},
        {"no launcher", {"SLURM_PROCID", "SLURM_NTASKS", {"SLURM_JOB_ID=1"}, NULL, NULL, {{0}}, 0, 0, 0}}, /* a batch script */
    };
    struct motet_launch *launch = mmap(NULL, sizeof(*launch) + 300, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *text = (char *)(launch + 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_in_child(launch, &cases[i].job, 2, 3, text), motetSuccess);
        assert_string_equal(launch->launcher, cases[i].launcher);
        bool alone = strcmp(cases[i].launcher, "no launcher") == 0;
        assert_int_equal(launch->rank, alone ? 0 : 2);
        assert_int_equal(launch->nranks, alone ? 1 : 3);
    }
    munmap(launch, sizeof(*launch) + 300);
}

static void test_first_host_expands_slurm_lists(void **state)
{
    (void)state;
    static const struct {
        const char *list, *host; /* NULL: refused */
    } cases[] = {{"node1", "node1"},
                 {"node1,node2", "node1"},
                 {"n[01-04,7]", "n01"},
                 {"n[7]", "n7"},
                 {"n[3,1-2]-ib,m", "n3-ib"},
                 {"r[1-2]n[3-4]", "r1n3"},
                 {"n[01-04],m3", "n01"},
                 {"", NULL},
                 {",a", NULL},
                 {"n[", NULL},
                 {"n[]", NULL},
                 {"n[1-2", NULL},
                 {"n]", NULL},
                 {"n[-1]", NULL},
                 {"a b", NULL},
                 {"n[1]]", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char host[32];
        assert_int_equal(motet_launch_first_host(cases[i].list, host, sizeof(host)), cases[i].host != NULL);
        if (cases[i].host)
            assert_string_equal(host, cases[i].host);
    }
    char host[6];
    assert_true(motet_launch_first_host("abcde", host, sizeof(host)));
    assert_false(motet_launch_first_host("abcdef", host, sizeof(host)));
    assert_true(motet_launch_first_host("abc[45]", host, sizeof(host)));
    assert_false(motet_launch_first_host("abc[456]", host, sizeof(host)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launch_nonsense_is_named),
        cmocka_unit_test(test_launch_ports_follow_master_port_and_range),
        cmocka_unit_test(test_launch_precedence_is_motet_torchrun_open_mpi_srun_pmi),
        cmocka_unit_test(test_first_host_expands_slurm_lists),
        cmocka_unit_test(test_env_without_launcher_is_one_rank),
        cmocka_unit_test(test_env_torchrun_ranks_meet),
        cmocka_unit_test(test_env_torchrun_taken_ports_are_passed_over),
        cmocka_unit_test(test_env_other_run_or_secret_does_not_join),
        cmocka_unit_test(test_env_by_hand_ranks_meet_at_the_given_root),
        cmocka_unit_test(test_env_srun_ranks_meet),
        cmocka_unit_test(test_env_mpirun_ranks_of_one_host_meet),
        cmocka_unit_test(test_env_mpirun_over_hosts_asks_for_comm_id),
        cmocka_unit_test(test_comm_id_rank_0_listens_exactly_there),
        cmocka_unit_test(test_comm_id_taken_port_is_an_error_at_once),
        cmocka_unit_test(test_comm_id_different_ports_time_out_with_both_stories),
        cmocka_unit_test(test_env_host_name_that_is_loopback_on_rank_0_works),
        /* Last: here this process itself reads the environment, once for all its later children. */
        cmocka_unit_test(test_env_unique_id_of_motet_run_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
