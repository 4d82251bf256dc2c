/* SPDX-License-Identifier: Apache-2.0
 * The TCP bootstrap as its callers use it: blobs of all sizes arrive, and whatever goes wrong is an error on every rank that names who. */
#include <stdatomic.h>

#include "boot/frame.h"
#include "boot/meeting.h"
#include "boot/tcp.h"
#include "boot_ranks.h"

#define TIMEOUT_MS 20000

/* 100-140 ms on 2 idle cores; a limit that holds on a loaded machine, and with each process instrumented. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAST_MS 30000
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FAST_MS 30000
#endif
#endif
#ifndef FAST_MS
#define FAST_MS 4000
#endif

struct job {
    motetUniqueId id;
    int64_t timeout_ms;
    int special; /* the rank that misbehaves */
    int nrounds;
};

static size_t swept_len(int rank, unsigned round)
{
    static const size_t lens[] = {0, 1, 7, 1024, 65527, 65528, 65529, 65535, 65536, 65537, 131064, 200001};
    return lens[((unsigned)rank + round) % (sizeof(lens) / sizeof(lens[0]))];
}

static size_t small_len(int rank, unsigned round)
{
    return 100 + (unsigned)rank + round;
}

static struct job start_job(int64_t timeout_ms)
{
    struct job job = {.timeout_ms = timeout_ms, .special = -1, .nrounds = 2};
    assert_int_equal(motet_boot_root_start(&job.id), motetSuccess);
    return job;
}

static motetResult_t open_job(struct motet_boot *boot, const struct job *job, int nranks, int rank)
{
    return motet_boot_open_id(boot, &job->id, nranks, rank, motet_deadline_ns(job->timeout_ms), NULL);
}

static int gather_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    int result = (int)open_job(&boot, job, nranks, rank);
    for (unsigned round = 0; result == 0 && round < (unsigned)job->nrounds; round++)
        result = gather_and_check(&boot, job->nrounds > 2 ? swept_len : small_len, round);
    if (result == 0)
        RANK_CHECK(boot.root.any.sa_family == AF_INET || boot.root.any.sa_family == AF_INET6);
    motet_boot_close(&boot);
    return result;
}

static void test_allgather_blobs_of_all_sizes_arrive_at_all_ranks(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8, 13};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct job job = start_job(TIMEOUT_MS);
        job.nrounds = 12;
        struct outcome *outcomes = run_ranks(sizes[i], gather_rank, &job);
        assert_all(outcomes, sizes[i], motetSuccess);
        outcomes_free(outcomes, sizes[i]);
        assert_true(roots_end(2000));
    }
}

static size_t kilobyte(int rank, unsigned round)
{
    (void)rank;
    (void)round;
    return 1024;
}

static int kilobyte_rank(int rank, int nranks, void *argument)
{
    struct motet_boot boot;
    int result = (int)open_job(&boot, argument, nranks, rank);
    for (unsigned round = 0; result == 0 && round < 2; round++)
        result = gather_and_check(&boot, kilobyte, round);
    motet_boot_close(&boot);
    return result;
}

static void test_allgather_64_ranks_is_fast(void **state)
{
    (void)state;
    struct job job = start_job(TIMEOUT_MS);
    uint64_t before = motet_now_ns();
    struct outcome *outcomes = run_ranks(64, kilobyte_rank, &job);
    double ms = (double)(motet_now_ns() - before) / 1e6;
    assert_all(outcomes, 64, motetSuccess);
    outcomes_free(outcomes, 64);
    print_message("64 ranks connected and gathered twice in %.0f ms, fork and libcrypto's start included\n", ms);
    assert_true(ms < FAST_MS);
    assert_true(roots_end(2000));
}

static void test_root_ends_with_its_job_and_leaves_no_descriptor(void **state)
{
    (void)state;
    int before = count_descriptors();
    for (int i = 0; i < 20; i++) {
        struct job job = start_job(TIMEOUT_MS);
        struct outcome *outcomes = run_ranks(2, gather_rank, &job);
        assert_all(outcomes, 2, motetSuccess);
        outcomes_free(outcomes, 2);
        assert_true(roots_end(2000));
    }
    assert_int_equal(count_descriptors(), before);
}

/* The rank that hosts the root is a rank like others: both in one process. */
static int hosting_rank(int rank, int nranks, void *argument)
{
    struct job *jobs = argument;
    int before = count_descriptors();
    RANK_CHECK(motet_root_count() == 0); /* the parent's root is not this process's */
    for (int i = 0; i < 5; i++) {
        struct motet_boot boot;
        if (rank == 0)
            RANK_CHECK(motet_boot_root_start(&jobs[i].id) == motetSuccess);
        if (rank == 0)
            atomic_store((_Atomic int *)&jobs[i].special, 1);
        while (atomic_load((_Atomic int *)&jobs[i].special) != 1)
            usleep(1000);
        RANK_CHECK(motet_boot_open_id(&boot, &jobs[i].id, nranks, rank, motet_deadline_ns(TIMEOUT_MS), NULL) == motetSuccess);
        RANK_CHECK(gather_and_check(&boot, small_len, 0) == 0);
        motet_boot_close(&boot);
    }
    RANK_CHECK(roots_end(2000));
    RANK_CHECK(count_descriptors() == before);
    return 0;
}

static void test_root_inside_rank_0_serves_job_after_job(void **state)
{
    (void)state;
    struct job *jobs = mmap(NULL, 5 * sizeof(*jobs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct outcome *outcomes = run_ranks(3, hosting_rank, jobs);
    assert_all(outcomes, 3, 0);
    outcomes_free(outcomes, 3);
    munmap(jobs, 5 * sizeof(*jobs));
}

/* Rank 0 hosts the root and exits as soon as it has its blobs; rank 1 comes for them later. */
static int early_rank(int rank, int nranks, void *argument)
{
    struct job *job = argument;
    struct motet_boot boot;
    if (rank == 0)
        RANK_CHECK(motet_boot_root_start(&job->id) == motetSuccess);
    if (rank == 0)
        atomic_store((_Atomic int *)&job->special, 1);
    while (atomic_load((_Atomic int *)&job->special) != 1)
        usleep(1000);
    RANK_CHECK(open_job(&boot, job, nranks, rank) == motetSuccess);
    const char *key = "late";
    void *value = NULL;
    size_t len = 0;
    RANK_CHECK(rank != 0 || boot.kind->put(&boot, key, "value", 5, boot.deadline_ns) == motetSuccess);
    RANK_CHECK(gather_and_check(&boot, small_len, 0) == 0);
    if (rank == 1) {
        usleep(300000);
        RANK_CHECK(boot.kind->get(&boot, key, &value, &len, boot.deadline_ns) == motetSuccess && len == 5);
        free(value);
    }
    motet_boot_close(&boot);
    return 0;
}

static void test_root_process_that_exits_waits_for_readers(void **state)
{
    (void)state;
    struct job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *job = (struct job){.timeout_ms = TIMEOUT_MS};
    struct outcome *outcomes = outcomes_new(2);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* exit, not _exit: handlers run */
        alarm(RANK_LIMIT_S);
        fclose(stdout);
        outcomes[0].result = early_rank(0, 2, job);
        exit(0);
    }
    outcomes[0].pid = pid;
    rank_start(&outcomes[1], early_rank, 1, 2, job);
    rank_wait(&outcomes[0]);
    rank_wait(&outcomes[1]);
    assert_all(outcomes, 2, 0);
    outcomes_free(outcomes, 2);
    munmap(job, sizeof(*job));
}

/* ---- disagreement */

static int differing_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    if (rank == job->special)
        usleep(100000);
    int result = (int)open_job(&boot, job, rank == job->special ? nranks + 1 : nranks, rank);
    if (result == 0)
        result = gather_and_check(&boot, small_len, 0);
    motet_boot_close(&boot);
    return result;
}

static void test_open_other_size_is_an_error_on_all_that_names_both(void **state)
{
    (void)state;
    struct job job = start_job(TIMEOUT_MS);
    job.special = 2;
    struct outcome *outcomes = run_ranks(4, differing_rank, &job);
    assert_all(outcomes, 4, motetInvalidUsage);
    for (int rank = 0; rank < 4; rank++) {
        assert_says(&outcomes[rank], "rank 2 (pid ");
        assert_says(&outcomes[rank], "says that there are 5 ranks");
        assert_says(&outcomes[rank], "says 4");
    }
    outcomes_free(outcomes, 4);
    assert_true(roots_end(3000));
}

static int duplicate_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    int claimed = rank == job->special ? 1 : rank;
    int result = (int)open_job(&boot, job, nranks, claimed);
    if (result == 0)
        result = gather_and_check(&boot, small_len, 0);
    motet_boot_close(&boot);
    return result;
}

static void test_open_duplicate_rank_is_an_error_on_all_that_names_both(void **state)
{
    (void)state;
    struct job job = start_job(TIMEOUT_MS);
    char pids[2][32];
    job.special = 3; /* says that it is rank 1 too; nobody is rank 3, so the others wait */
    struct outcome *outcomes = outcomes_new(4);
    for (int rank = 0; rank < 4; rank++)
        rank_start(&outcomes[rank], duplicate_rank, rank, 4, &job);
    snprintf(pids[0], sizeof(pids[0]), "pid %d", outcomes[1].pid);
    snprintf(pids[1], sizeof(pids[1]), "pid %d", outcomes[3].pid);
    for (int rank = 0; rank < 4; rank++)
        rank_wait(&outcomes[rank]);
    assert_all(outcomes, 4, motetInvalidUsage);
    for (int rank = 0; rank < 4; rank++) {
        assert_says(&outcomes[rank], "rank 1 came twice");
        assert_says(&outcomes[rank], pids[0]);
        assert_says(&outcomes[rank], pids[1]);
    }
    outcomes_free(outcomes, 4);
    assert_true(roots_end(3000));
}

/* A rank of a build whose protocol is one further: knows the secret, says another number. */
static int later_protocol_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    if (rank != job->special)
        return gather_rank(rank, nranks, argument);
    struct motet_root_place place;
    int fd;
    uint8_t message[MOTET_FRAME_HEAD_LEN + MOTET_HELLO_LEN], head[MOTET_FRAME_HEAD_LEN], value[1024];
    struct motet_frame frame;
    struct motet_hello hello = {
        .protocol = MOTET_BOOT_PROTOCOL + 1, .rank = (uint32_t)rank, .nranks = (uint32_t)nranks, .host = "other"};
    RANK_CHECK(motet_unique_id_decode(&job->id, &place) == motetSuccess);
    RANK_CHECK(motet_net_connect(&place.addresses[0], motet_deadline_ns(5000), NULL, &fd) == motetSuccess);
    RANK_CHECK(motet_handshake(fd, &place.secret, "boot", false, motet_deadline_ns(5000)) == motetSuccess);
    motet_frame_head(message, MOTET_FRAME_HELLO, 0, MOTET_HELLO_LEN);
    motet_hello_encode(&hello, message + MOTET_FRAME_HEAD_LEN);
    RANK_CHECK(motet_net_write(fd, message, sizeof(message), motet_deadline_ns(5000), NULL) == motetSuccess);
    RANK_CHECK(motet_net_read(fd, head, sizeof(head), motet_deadline_ns(5000), NULL) == motetSuccess);
    RANK_CHECK(motet_frame_parse_head(head, &frame) && frame.type == MOTET_FRAME_FAIL && frame.value_len <= sizeof(value));
    RANK_CHECK(motet_net_read(fd, value, frame.value_len, motet_deadline_ns(5000), NULL) == motetSuccess);
    char text[900];
    motetResult_t result = motet_failure_parse(value, frame.value_len, text, sizeof(text));
    return (int)motet_fail_quiet(result, "%s", text);
}

static void test_open_other_protocol_is_an_error_on_all_that_names_both(void **state)
{
    (void)state;
    struct job job = start_job(TIMEOUT_MS);
    job.special = 1;
    struct outcome *outcomes = run_ranks(3, later_protocol_rank, &job);
    assert_all(outcomes, 3, motetInvalidUsage);
    for (int rank = 0; rank < 3; rank++) {
        assert_says(&outcomes[rank], "rank 1 (pid 0 on other) speaks bootstrap protocol 2");
        assert_says(&outcomes[rank], "speaks protocol 1");
    }
    outcomes_free(outcomes, 3);
    assert_true(roots_end(3000));
}

/* ---- ranks that do not come, die or give up */

static int absent_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    return rank == job->special ? 0 : gather_rank(rank, nranks, argument);
}

static void test_allgather_missing_rank_times_out_and_is_named_on_all(void **state)
{
    (void)state;
    for (int missing = 0; missing < 4; missing += 2) {
        struct job job = start_job(1000);
        uint64_t before = motet_now_ns();
        job.special = missing;
        struct outcome *outcomes = run_ranks(4, absent_rank, &job);
        for (int rank = 0; rank < 4; rank++) {
            if (rank == missing)
                continue;
            assert_int_equal(outcomes[rank].result, motetTimeout);
            assert_says(&outcomes[rank], missing == 0 ? "missing ranks: 0;" : "missing ranks: 2;");
            assert_says(&outcomes[rank], missing == 0 ? "3 of 4 ranks came: 1-3" : "3 of 4 ranks came: 0-1, 3");
            assert_true(outcomes[rank].ended_ns - before < 4000000000u);
        }
        outcomes_free(outcomes, 4);
        assert_true(roots_end(4000));
    }
}

static int dying_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    int result = (int)open_job(&boot, job, nranks, rank);
    if (result == 0)
        result = gather_and_check(&boot, small_len, 0);
    if (rank == job->special) {
        usleep(200000);
        kill(getpid(), SIGKILL);
    }
    if (result == 0)
        result = gather_and_check(&boot, small_len, 1);
    motet_boot_close(&boot);
    return result;
}

static void test_allgather_killed_rank_is_named_on_all_at_once(void **state)
{
    (void)state;
    for (int victim = 0; victim < 4; victim += 3) {
        struct job job = start_job(TIMEOUT_MS);
        char who[32], pid[32];
        job.special = victim;
        struct outcome *outcomes = outcomes_new(4);
        for (int rank = 0; rank < 4; rank++)
            rank_start(&outcomes[rank], dying_rank, rank, 4, &job);
        snprintf(who, sizeof(who), "rank %d (pid %d ", victim, outcomes[victim].pid);
        snprintf(pid, sizeof(pid), "left during init");
        for (int rank = 0; rank < 4; rank++)
            rank_wait(&outcomes[rank]);
        for (int rank = 0; rank < 4; rank++) {
            if (rank == victim)
                continue;
            assert_int_equal(outcomes[rank].result, motetRemoteError);
            assert_says(&outcomes[rank], who);
            assert_says(&outcomes[rank], pid);
            assert_true(outcomes[rank].ended_ns < outcomes[victim].ended_ns + 1000000000u);
        }
        outcomes_free(outcomes, 4);
        assert_true(roots_end(3000));
    }
}

static int giving_up_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    int result = (int)open_job(&boot, job, nranks, rank);
    if (result == 0)
        result = gather_and_check(&boot, small_len, 0);
    if (result == 0 && rank == job->special) {
        motet_boot_give_up(&boot, motetRemoteError, "no memory for 12345 bytes");
        motet_boot_give_up(&boot, motetRemoteError, "a second reason that nobody hears");
    } else if (result == 0) {
        result = gather_and_check(&boot, small_len, 1);
    }
    motet_boot_close(&boot);
    return result;
}

static void test_give_up_is_heard_by_all_with_name_and_reason(void **state)
{
    (void)state;
    for (int quitter = 0; quitter < 3; quitter++) {
        struct job job = start_job(TIMEOUT_MS);
        uint64_t before = motet_now_ns();
        char who[32];
        job.special = quitter;
        snprintf(who, sizeof(who), "rank %d (pid ", quitter);
        struct outcome *outcomes = run_ranks(3, giving_up_rank, &job);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(outcomes[rank].result, rank == quitter ? motetSuccess : motetRemoteError);
            if (rank == quitter)
                continue;
            assert_says(&outcomes[rank], who);
            assert_says(&outcomes[rank], "gave up: no memory for 12345 bytes");
            assert_true(outcomes[rank].ended_ns - before < 3000000000u);
        }
        outcomes_free(outcomes, 3);
        assert_true(roots_end(3000));
    }
}

/* A rank that is busy elsewhere can ask. */
static int checking_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    RANK_CHECK(open_job(&boot, job, nranks, rank) == motetSuccess);
    RANK_CHECK(gather_and_check(&boot, small_len, 0) == 0);
    RANK_CHECK(motet_boot_check(&boot) == motetSuccess);
    int result = 0;
    if (rank == job->special) {
        usleep(500000); /* the others have their blobs and are busy elsewhere */
        motet_boot_give_up(&boot, motetRemoteError, "a reason");
    }
    for (int i = 0; rank != job->special && result == 0 && i < 5000; i++) {
        result = (int)motet_boot_check(&boot);
        usleep(1000);
    }
    motet_boot_close(&boot);
    return result;
}

static void test_check_hears_of_a_failure_between_exchanges(void **state)
{
    (void)state;
    struct job job = start_job(TIMEOUT_MS);
    job.special = 1;
    struct outcome *outcomes = run_ranks(3, checking_rank, &job);
    assert_int_equal(outcomes[0].result, motetRemoteError);
    assert_int_equal(outcomes[2].result, motetRemoteError);
    assert_says(&outcomes[0], "gave up: a reason");
    outcomes_free(outcomes, 3);
    assert_true(roots_end(3000));
}

/* ---- the root */

struct orphan {
    motetUniqueId id;
    _Atomic int ready;
};

static int root_process(int rank, int nranks, void *argument)
{
    struct orphan *orphan = argument;
    (void)rank;
    (void)nranks;
    RANK_CHECK(motet_boot_root_start(&orphan->id) == motetSuccess);
    atomic_store(&orphan->ready, 1);
    for (;;)
        pause();
}

static int orphan_rank(int rank, int nranks, void *argument)
{
    struct orphan *orphan = argument;
    struct motet_boot boot;
    int result = (int)motet_boot_open_id(&boot, &orphan->id, nranks, rank, motet_deadline_ns(TIMEOUT_MS), NULL);
    atomic_fetch_add(&orphan->ready, 1);
    if (result == 0)
        result = gather_and_check(&boot, small_len, 0);
    motet_boot_close(&boot);
    return result;
}

static void test_root_killed_is_an_error_on_all_that_names_its_address(void **state)
{
    (void)state;
    struct orphan *orphan = mmap(NULL, sizeof(*orphan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct outcome *outcomes = outcomes_new(3);
    rank_start(&outcomes[0], root_process, 0, 0, orphan);
    while (atomic_load(&orphan->ready) < 1)
        usleep(1000);
    for (int rank = 1; rank < 3; rank++)
        rank_start(&outcomes[rank], orphan_rank, rank, 4, orphan); /* two more never come */
    while (atomic_load(&orphan->ready) < 3)
        usleep(1000);
    uint64_t before = motet_now_ns();
    kill(outcomes[0].pid, SIGKILL);
    for (int rank = 0; rank < 3; rank++)
        rank_wait(&outcomes[rank]);
    for (int rank = 1; rank < 3; rank++) {
        assert_int_equal(outcomes[rank].result, motetRemoteError);
        assert_says(&outcomes[rank], "the root at ");
        assert_true(outcomes[rank].ended_ns - before < 1000000000u);
    }
    /* Ranks that come now find nobody: an error well before the timeout. */
    struct outcome *late = run_ranks(1, orphan_rank, orphan);
    assert_int_equal(late[0].result, motetRemoteError);
    assert_says(&late[0], "no root at ");
    assert_true(late[0].ended_ns - before < 15000000000u);
    outcomes_free(late, 1);
    outcomes_free(outcomes, 3);
    munmap(orphan, sizeof(*orphan));
}

static void test_root_kept_serves_job_after_job_with_one_id(void **state)
{
    (void)state;
    struct motet_root_place place = {.naddresses = 1, .listens = true};
    struct job job = {.timeout_ms = TIMEOUT_MS, .nrounds = 1};
    struct motet_root_options options = {.keep = true, .deadline_ns = UINT64_MAX};
    place.addresses[0].in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pid_t pid = fork(); /* a kept root ends only with its process */
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(RANK_LIMIT_S);
        int failures =
            motet_root_start(&place, &options, NULL) != motetSuccess || motet_unique_id_encode(&place, &job.id) != motetSuccess;
        for (int i = 0; i < 10 && !failures; i++) {
            struct outcome *outcomes = run_ranks(3, gather_rank, &job);
            for (int rank = 0; rank < 3; rank++)
                failures += outcomes[rank].result != 0;
            outcomes_free(outcomes, 3);
        }
        /* A job that fails does not spoil the next one. */
        job.special = 1;
        struct outcome *outcomes = run_ranks(3, dying_rank, &job);
        failures += outcomes[0].result != motetRemoteError;
        outcomes_free(outcomes, 3);
        outcomes = run_ranks(3, gather_rank, &job);
        failures += outcomes[0].result + outcomes[1].result + outcomes[2].result;
        _exit(failures != 0 || motet_root_count() != 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Ranks come back at once, before the others have said goodbye to the last job. */
static int returning_rank(int rank, int nranks, void *argument)
{
    for (int i = 0; i < 20; i++) {
        int result = gather_rank(rank, nranks, argument);
        if (result)
            return result;
        if ((rank + i) % 3 == 0)
            usleep(3000);
    }
    return 0;
}

static void test_root_kept_keeps_generations_apart(void **state)
{
    (void)state;
    struct motet_root_place place = {.naddresses = 1, .listens = true};
    struct job job = {.timeout_ms = TIMEOUT_MS, .nrounds = 2};
    struct motet_root_options options = {.keep = true, .deadline_ns = UINT64_MAX};
    place.addresses[0].in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(RANK_LIMIT_S);
        int failures =
            motet_root_start(&place, &options, NULL) != motetSuccess || motet_unique_id_encode(&place, &job.id) != motetSuccess;
        struct outcome *outcomes = run_ranks(4, returning_rank, &job);
        for (int rank = 0; rank < 4; rank++)
            failures += outcomes[rank].result != 0;
        _exit(failures);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- the caller */

static _Atomic(_Bool) abort_flag;

static void raise_abort(int signal_number)
{
    (void)signal_number;
    atomic_store(&abort_flag, true);
}

static int aborted_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    signal(SIGUSR1, raise_abort);
    RANK_CHECK(motet_boot_open_id(&boot, &job->id, nranks, rank, UINT64_MAX, &abort_flag) == motetSuccess);
    pid_t parent = getpid();
    if (fork() == 0) {
        usleep(200000);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    uint64_t before = motet_now_ns();
    int result = gather_and_check(&boot, small_len, 0);
    RANK_CHECK(motet_now_ns() - before < 30000000000u);
    motet_boot_close(&boot);
    return result;
}

static void test_allgather_abort_returns_at_once(void **state)
{
    (void)state;
    struct job job = start_job(TIMEOUT_MS);
    struct outcome *outcomes = outcomes_new(1);
    rank_start(&outcomes[0], aborted_rank, 0, 3, &job);
    rank_wait(&outcomes[0]);
    assert_int_equal(outcomes[0].result, motetInvalidUsage);
    outcomes_free(outcomes, 1);
    assert_true(roots_end(3000));
}

static void test_unpack_refuses_lengths_that_do_not_add_up(void **state)
{
    (void)state;
    uint8_t bytes[3 * 8 + 6];
    void **all;
    size_t *lens;
    motet_store_u64(bytes, 1);
    motet_store_u64(bytes + 8, 2);
    motet_store_u64(bytes + 16, 3);
    memcpy(bytes + 24, "abbccc", 6);
    assert_true(motet_boot_unpack(bytes, sizeof(bytes), 3, &all, &lens));
    assert_memory_equal(all[1], "bb", 2);
    assert_memory_equal(all[2], "ccc", 3);
    assert_int_equal((uintptr_t)all[2] % 16, 0);
    free(all);
    assert_false(motet_boot_unpack(bytes, sizeof(bytes) - 1, 3, &all, &lens));
    assert_false(motet_boot_unpack(bytes, 23, 3, &all, &lens));
    motet_store_u64(bytes + 8, 3);
    assert_false(motet_boot_unpack(bytes, sizeof(bytes), 3, &all, &lens));
    motet_store_u64(bytes + 8, UINT64_MAX);
    assert_false(motet_boot_unpack(bytes, sizeof(bytes), 3, &all, &lens));
    motet_store_u64(bytes + 8, 1);
    assert_false(motet_boot_unpack(bytes, sizeof(bytes), 3, &all, &lens));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allgather_blobs_of_all_sizes_arrive_at_all_ranks),
        cmocka_unit_test(test_allgather_64_ranks_is_fast),
        cmocka_unit_test(test_root_ends_with_its_job_and_leaves_no_descriptor),
        cmocka_unit_test(test_root_inside_rank_0_serves_job_after_job),
        cmocka_unit_test(test_root_process_that_exits_waits_for_readers),
        cmocka_unit_test(test_open_other_size_is_an_error_on_all_that_names_both),
        cmocka_unit_test(test_open_duplicate_rank_is_an_error_on_all_that_names_both),
        cmocka_unit_test(test_open_other_protocol_is_an_error_on_all_that_names_both),
        cmocka_unit_test(test_allgather_missing_rank_times_out_and_is_named_on_all),
        cmocka_unit_test(test_allgather_killed_rank_is_named_on_all_at_once),
        cmocka_unit_test(test_give_up_is_heard_by_all_with_name_and_reason),
        cmocka_unit_test(test_check_hears_of_a_failure_between_exchanges),
        cmocka_unit_test(test_root_killed_is_an_error_on_all_that_names_its_address),
        cmocka_unit_test(test_root_kept_serves_job_after_job_with_one_id),
        cmocka_unit_test(test_root_kept_keeps_generations_apart),
        cmocka_unit_test(test_allgather_abort_returns_at_once),
        cmocka_unit_test(test_unpack_refuses_lengths_that_do_not_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
