/* SPDX-License-Identifier: Apache-2.0
 * The bootstrap among strangers and storms: scanners, silent and talkative connections, signals, full accept queues, too few
 * descriptors. The job goes on, or fails with the reason; never a hang. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "boot/frame.h"
#include "boot/handshake.h"
#include "unit/boot_ranks.h"

#define TIMEOUT_MS 30000

struct job {
    motetUniqueId id;
    struct motet_root_place place;
    int late_ms; /* the last rank comes that late */
    int nrounds;
    int inherited; /* a descriptor that ranks must not keep, or 0 */
};

static size_t some_len(int rank, unsigned round)
{
    return 700 + 13 * (unsigned)rank + round;
}

static int joining_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    struct motet_boot boot;
    if (job->inherited > 0)
        close(job->inherited);
    if (rank == nranks - 1)
        usleep((useconds_t)job->late_ms * 1000);
    int result = (int)motet_boot_open_id(&boot, &job->id, nranks, rank, motet_deadline_ns(TIMEOUT_MS), NULL);
    for (unsigned round = 0; result == 0 && round < (unsigned)job->nrounds; round++)
        result = gather_and_check(&boot, some_len, round);
    motet_boot_close(&boot);
    return result;
}

static struct job start_job(int late_ms)
{
    struct job job = {.late_ms = late_ms, .nrounds = 2};
    assert_int_equal(motet_boot_root_start(&job.id), motetSuccess);
    assert_int_equal(motet_unique_id_decode(&job.id, &job.place), motetSuccess);
    return job;
}

static int reach(const struct job *job, int i)
{
    int fd = -1;
    const union motet_address *address = &job->place.addresses[i % job->place.naddresses];
    motetResult_t result = motetRemoteError;
    for (int tries = 0; tries < 50 && result != motetSuccess; tries++)
        result = motet_net_connect(address, motet_deadline_ns(2000), NULL, &fd);
    assert_int_equal(result, motetSuccess);
    return fd;
}

static void reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

static void say(int fd, const void *bytes, size_t len)
{
    /* The root may have turned us away already; that is its right. */
    motet_net_write(fd, bytes, len, motet_deadline_ns(2000), NULL);
}

/* ---- what strangers do; each takes and ends one connection */

static void close_at_once(const struct job *job, int i)
{
    close(reach(job, i));
}

static void reset_at_once(const struct job *job, int i)
{
    reset(reach(job, i));
}

static void speak_http(const struct job *job, int i)
{
    int fd = reach(job, i);
    say(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    close(fd);
}

static void send_part_of_an_opening(const struct job *job, int i)
{
    int fd = reach(job, i);
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN];
    struct motet_handshake_nonces nonces;
    assert_int_equal(motet_handshake_open(&nonces, opening), motetSuccess);
    say(fd, opening, 1 + (size_t)i % sizeof(opening));
    if (i % 2)
        reset(fd);
    else
        close(fd);
}

static void use_another_secret(const struct job *job, int i)
{
    int fd = reach(job, i);
    struct motet_secret other = job->place.secret;
    other.bytes[i % 32] ^= 1;
    assert_int_equal(motet_handshake(fd, &other, "boot", false, motet_deadline_ns(5000)), motetRemoteError);
    close(fd);
}

static void guess_the_proof(const struct job *job, int i)
{
    int fd = reach(job, i);
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], reply[MOTET_HANDSHAKE_REPLY_LEN];
    struct motet_handshake_nonces nonces;
    assert_int_equal(motet_handshake_open(&nonces, opening), motetSuccess);
    say(fd, opening, sizeof(opening));
    assert_int_equal(motet_net_read(fd, reply, sizeof(reply), motet_deadline_ns(5000), NULL), motetSuccess);
    say(fd, reply + MOTET_NONCE_LEN, 32); /* the root's own proof back */
    char byte;
    assert_int_equal(motet_net_read(fd, &byte, 1, motet_deadline_ns(5000), NULL), motetRemoteError);
    close(fd);
}

static void send_a_lot(const struct job *job, int i)
{
    int fd = reach(job, i);
    static uint8_t noise[200000];
    for (size_t k = 0; k < sizeof(noise); k++)
        noise[k] = (uint8_t)(k * 7 + (size_t)i);
    say(fd, noise, sizeof(noise));
    close(fd);
}

static void (*const strangers[])(const struct job *job, int i) = {
    close_at_once, reset_at_once, speak_http, send_part_of_an_opening, use_another_secret, guess_the_proof, send_a_lot};

static int lines_with(const char *path, const char *words)
{
    char line[2048];
    int count = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        count += strstr(line, words) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* Keeps what this process writes to stderr in a file, while body runs. */
static void with_log(char path[64], void (*body)(void))
{
    snprintf(path, 64, "/tmp/motet-test-log-XXXXXX");
    int file = mkstemp(path), saved = dup(STDERR_FILENO);
    assert_true(file >= 0 && saved >= 0);
    dup2(file, STDERR_FILENO);
    body();
    dup2(saved, STDERR_FILENO);
    close(file);
    close(saved);
}

static void visit_while_waiting(void)
{
    struct job job = start_job(1500);
    int before = count_descriptors();
    struct outcome *outcomes = outcomes_new(4);
    for (int rank = 0; rank < 4; rank++)
        rank_start(&outcomes[rank], joining_rank, rank, 4, &job);
    for (int i = 0; i < 210; i++)
        strangers[i % 7](&job, i / 7);
    usleep(300000);
    assert_true(count_descriptors() <= before + 4); /* the ranks' connections, no stranger's */
    for (int rank = 0; rank < 4; rank++)
        rank_wait(&outcomes[rank]);
    assert_all(outcomes, 4, motetSuccess);
    outcomes_free(outcomes, 4);
    assert_true(roots_end(3000));
}

static void test_strangers_of_all_kinds_do_not_disturb_and_are_named_once(void **state)
{
    (void)state;
    char path[64];
    int before = count_descriptors();
    setenv("MOTET_DEBUG", "WARN", 1);
    with_log(path, visit_while_waiting);
    int warnings = lines_with(path, "not of this job");
    print_message("%d line(s) about 210 strangers\n", warnings);
    assert_in_range(warnings, 1, 2); /* at most one in 30 s, and a very slow machine */
    assert_int_equal(lines_with(path, "ignored a connection from "), 1);
    unlink(path);
    assert_int_equal(count_descriptors(), before);
}

/* More silent connections than the root keeps, all held open, before and while the ranks come. */
static void test_strangers_that_hold_on_do_not_keep_ranks_out(void **state)
{
    (void)state;
    enum { HELD = 700 };
    static int fds[HELD];
    struct job job = start_job(300);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 2 * HELD && limit.rlim_max >= 2 * HELD) {
        limit.rlim_cur = 2 * HELD;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    if (limit.rlim_cur < 2 * HELD)
        skip();
    for (int i = 0; i < HELD / 2; i++)
        fds[i] = reach(&job, i);
    struct outcome *outcomes = outcomes_new(4);
    for (int rank = 0; rank < 4; rank++)
        rank_start(&outcomes[rank], joining_rank, rank, 4, &job);
    for (int i = HELD / 2; i < HELD; i++)
        fds[i] = reach(&job, i);
    for (int rank = 0; rank < 4; rank++)
        rank_wait(&outcomes[rank]);
    assert_all(outcomes, 4, motetSuccess);
    outcomes_free(outcomes, 4);
    for (int i = 0; i < HELD; i++)
        close(fds[i]);
    assert_true(roots_end(3000));
}

/* A rank's own bytes in single pieces, and a rank that sends nonsense after it has proved itself. */
static int trickling_rank(int rank, int nranks, void *argument)
{
    const struct job *job = argument;
    if (rank != nranks - 1)
        return joining_rank(rank, nranks, argument);
    uint8_t message[MOTET_FRAME_HEAD_LEN + MOTET_HELLO_LEN + 40];
    struct motet_hello hello = {.protocol = MOTET_BOOT_PROTOCOL,
                                .rank = (uint32_t)rank,
                                .nranks = (uint32_t)nranks,
                                .pid = (uint32_t)getpid(),
                                .host = "here"};
    int fd = -1;
    RANK_CHECK(motet_net_connect(&job->place.addresses[0], motet_deadline_ns(5000), NULL, &fd) == motetSuccess);
    RANK_CHECK(motet_handshake(fd, &job->place.secret, "boot", false, motet_deadline_ns(5000)) == motetSuccess);
    motet_frame_head(message, MOTET_FRAME_HELLO, 0, MOTET_HELLO_LEN);
    motet_hello_encode(&hello, message + MOTET_FRAME_HEAD_LEN);
    for (size_t i = 0; i < MOTET_FRAME_HEAD_LEN + MOTET_HELLO_LEN; i++) {
        RANK_CHECK(motet_net_write(fd, message + i, 1, motet_deadline_ns(5000), NULL) == motetSuccess);
        usleep(300);
    }
    struct motet_frame frame;
    RANK_CHECK(motet_net_read(fd, message, MOTET_FRAME_HEAD_LEN, motet_deadline_ns(5000), NULL) == motetSuccess);
    RANK_CHECK(motet_frame_parse_head(message, &frame) && frame.type == MOTET_FRAME_WELCOME);
    memset(message, 0xee, sizeof(message));
    RANK_CHECK(motet_net_write(fd, message, sizeof(message), motet_deadline_ns(5000), NULL) == motetSuccess);
    char byte; /* the root ends the connection, and the job with it */
    RANK_CHECK(motet_net_read(fd, &byte, 1, motet_deadline_ns(5000), NULL) == motetRemoteError);
    close(fd);
    return motetRemoteError;
}

static void test_rank_that_sends_nonsense_fails_the_job_by_name(void **state)
{
    (void)state;
    struct job job = start_job(0);
    struct outcome *outcomes = run_ranks(3, trickling_rank, &job);
    assert_all(outcomes, 3, motetRemoteError);
    assert_says(&outcomes[0], "rank 2 (pid ");
    assert_says(&outcomes[1], "it sent a malformed message");
    outcomes_free(outcomes, 3);
    assert_true(roots_end(3000));
}

/* ---- signals */

static void count_signal(int number)
{
    (void)number;
}

/* Signals every millisecond in the rank and, sent by kill, in its process's other threads too; no SA_RESTART. */
static int stormy_rank(int rank, int nranks, void *argument)
{
    struct sigaction action = {.sa_handler = count_signal};
    struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    RANK_CHECK(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGVTALRM, &action, NULL) == 0);
    RANK_CHECK(setitimer(ITIMER_PROF, &every_ms, NULL) == 0);
    pid_t self = getpid(), sender = fork();
    if (sender == 0) {
        alarm(RANK_LIMIT_S);
        while (getppid() == self) {
            kill(self, SIGVTALRM);
            usleep(700);
        }
        _exit(0);
    }
    int result = joining_rank(rank, nranks, argument);
    kill(sender, SIGKILL);
    while (waitpid(sender, NULL, 0) < 0 && errno == EINTR)
        ;
    setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    return result;
}

static void test_signals_in_every_rank_do_no_harm(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = count_signal}, before;
    struct itimerval every_ms = {{0, 1000}, {0, 1000}};
    assert_int_equal(sigaction(SIGPROF, &action, &before), 0);
    for (int i = 0; i < 20; i++) {
        struct job job = start_job(20);
        job.nrounds = 10;
        setitimer(ITIMER_PROF, &every_ms, NULL); /* the process of the root's thread has them too */
        struct outcome *outcomes = run_ranks(4, stormy_rank, &job);
        setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
        assert_all(outcomes, 4, motetSuccess);
        outcomes_free(outcomes, 4);
        assert_true(roots_end(3000));
    }
    sigaction(SIGPROF, &before, NULL);
}

/* ---- limits */

static bool raise_loopback(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return up;
}

/* 77: the system does not let us try. */
static int crowd(void)
{
    if (unshare(CLONE_NEWNET) != 0 || !raise_loopback())
        return 77;
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "w");
    if (!file || fprintf(file, "2") != 1 || fclose(file) != 0)
        return 77;
    struct job job = {.nrounds = 2};
    struct motet_root_options options = {.deadline_ns = motet_deadline_ns(TIMEOUT_MS)};
    struct motet_root_place place = {.naddresses = 1, .listens = false};
    place.addresses[0].in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* The address first, the root a second after the ranks: a listener whose thread is late looks like a full queue. */
    int holder;
    RANK_CHECK(motet_net_listen(&place.addresses[0], false, &holder) == motetSuccess);
    job.inherited = holder;
    for (int i = 0; i < 32; i++)
        place.secret.bytes[i] = (uint8_t)(i * 5);
    place.listens = true;
    RANK_CHECK(motet_unique_id_encode(&place, &job.id) == motetSuccess);
    struct outcome *outcomes = outcomes_new(32);
    for (int rank = 0; rank < 32; rank++)
        rank_start(&outcomes[rank], joining_rank, rank, 32, &job);
    usleep(1000000); /* nobody accepts: the queue of 2 is full, the rest is dropped */
    close(holder);   /* those in the queue are reset */
    RANK_CHECK(motet_root_start(&place, &options, NULL) == motetSuccess);
    int failures = 0;
    for (int rank = 0; rank < 32; rank++) {
        rank_wait(&outcomes[rank]);
        if (outcomes[rank].result != 0)
            fprintf(stderr, "rank %d: %d %s\n", rank, outcomes[rank].result, outcomes[rank].text);
        failures += outcomes[rank].result != 0;
    }
    return failures != 0;
}

static void test_accept_queue_overflow_is_survived(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(2 * RANK_LIMIT_S);
        _exit(crowd());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status == 77 << 8)
        skip();
    assert_int_equal(status, 0);
}

/* The root's process may open 40 descriptors; 64 ranks come. */
static int narrow(int rank, int nranks, void *argument)
{
    struct rlimit limit = {.rlim_cur = 40, .rlim_max = rank ? 4096 : 40};
    int ntold = 0;
    (void)nranks;
    (void)argument;
    RANK_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct job job = {.nrounds = 1};
    RANK_CHECK(motet_boot_root_start(&job.id) == motetSuccess);
    RANK_CHECK(motet_unique_id_decode(&job.id, &job.place) == motetSuccess);
    struct outcome *outcomes = run_ranks(64, joining_rank, &job);
    for (int i = 0; i < 64; i++) {
        bool told = outcomes[i].result == motetSystemError && strstr(outcomes[i].text, "limit 40");
        bool refused = outcomes[i].result == motetRemoteError && strstr(outcomes[i].text, "no root at ");
        RANK_CHECK(rank ? outcomes[i].result == motetSuccess : told || refused);
        ntold += told;
    }
    RANK_CHECK(rank || ntold >= 10); /* those that were in */
    return 0;
}

static void test_too_few_descriptors_raises_the_soft_limit_or_says_so(void **state)
{
    (void)state;
    struct outcome *outcomes = outcomes_new(2);
    for (int hard = 0; hard < 2; hard++) {
        rank_start(&outcomes[hard], narrow, hard, 2, NULL);
        rank_wait(&outcomes[hard]);
        assert_int_equal(outcomes[hard].result, 0);
    }
    outcomes_free(outcomes, 2);
}

/* After each kind of failure the same process starts again and succeeds, with nothing left. */
static void test_init_after_failed_inits_works_and_leaks_nothing(void **state)
{
    (void)state;
    int before = count_descriptors();
    for (int i = 0; i < 5; i++) {
        struct job job = start_job(0);
        struct outcome *outcomes = run_ranks(3, trickling_rank, &job);
        assert_all(outcomes, 3, motetRemoteError);
        outcomes_free(outcomes, 3);
        job = start_job(0);
        outcomes = run_ranks(3, joining_rank, &job);
        assert_all(outcomes, 3, motetSuccess);
        outcomes_free(outcomes, 3);
        assert_true(roots_end(3000));
    }
    assert_int_equal(count_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept_queue_overflow_is_survived),
        cmocka_unit_test(test_strangers_of_all_kinds_do_not_disturb_and_are_named_once),
        cmocka_unit_test(test_strangers_that_hold_on_do_not_keep_ranks_out),
        cmocka_unit_test(test_rank_that_sends_nonsense_fails_the_job_by_name),
        cmocka_unit_test(test_signals_in_every_rank_do_no_harm),
        cmocka_unit_test(test_too_few_descriptors_raises_the_soft_limit_or_says_so),
        cmocka_unit_test(test_init_after_failed_inits_works_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
