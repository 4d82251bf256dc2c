/* SPDX-License-Identifier: Apache-2.0
 * Many processes, all linked with all: descriptor limits, a member that is killed, and what a killed job leaves behind (nothing). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "pair.h"

#define RANKS_MAX 64

struct clique {
    int n;
    const char *transport;
    _Atomic int opened, connected, finished;
    struct motet_process processes[RANKS_MAX];
    pid_t pids[RANKS_MAX];
};

/* Waits until all n ranks have come here. */
static void arrive(_Atomic int *count, int n)
{
    if (atomic_fetch_add(count, 1) + 1 == n)
        syscall(SYS_futex, count, FUTEX_WAKE, RANKS_MAX, NULL, NULL, 0);
    for (int now; (now = atomic_load(count)) < n;)
        syscall(SYS_futex, count, FUTEX_WAIT, now, NULL, NULL, 0);
}

typedef void rank_body(struct clique *clique, int rank);

/* Starts n ranks; the caller reaps them. */
static struct clique *start(int n, const char *transport, rank_body *body)
{
    struct clique *clique = mmap(NULL, sizeof(*clique), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(clique != MAP_FAILED);
    clique->n = n;
    clique->transport = transport;
    for (int rank = 0; rank < n; rank++) {
        pid_t pid = fork(); /* the structure is shared: only the parent may store it */
        if (pid == 0) {
            alarm(100);
            pair_choose(transport);
            body(clique, rank);
            _exit(0);
        }
        assert_true(pid > 0);
        clique->pids[rank] = pid;
    }
    return clique;
}

static int reap(struct clique *clique)
{
    int failures = 0;
    for (int rank = 0; rank < clique->n; rank++) {
        int status;
        while (waitpid(clique->pids[rank], &status, 0) < 0 && errno == EINTR)
            continue;
        failures += status != 0;
    }
    munmap(clique, sizeof(*clique));
    return failures;
}

static motetResult_t connect_all(struct clique *clique, int rank, struct motet_endpoint *endpoints[])
{
    const struct motet_process *peers[RANKS_MAX];
    struct motet_secret secret;
    memset(&secret, 'c', sizeof(secret));
    CHECK(motet_process_open(&clique->processes[rank]) == motetSuccess);
    arrive(&clique->opened, clique->n);
    for (int i = 0; i < clique->n; i++)
        peers[i] = &clique->processes[i];
    return motet_endpoint_connect(peers, clique->n, &secret, motet_deadline_ns(60000), NULL, endpoints);
}

static void disconnect_all(struct clique *clique, struct motet_endpoint *endpoints[])
{
    for (int i = 0; i < clique->n; i++)
        motet_endpoint_release(endpoints[i]);
    motet_process_close();
}

static int open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int n = 0;
    CHECK(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* ---- descriptors ---- */

static void rank_short_of_descriptors(struct clique *clique, int rank)
{
    struct rlimit limit = {40, 40};
    struct motet_endpoint *endpoints[RANKS_MAX];
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int before = open_files();
    uint64_t start_ns = motet_now_ns();
    CHECK(connect_all(clique, rank, endpoints) == motetSystemError);
    CHECK(motet_now_ns() - start_ns < 30000 * PAIR_MS); /* not the time limit */
    CHECK(strstr(motet_error_text(), "descriptors") && strstr(motet_error_text(), "limit is 40"));
    motet_process_close();
    CHECK(open_files() == before);
}

static void rank_with_room_to_raise(struct clique *clique, int rank)
{
    struct rlimit limit;
    struct motet_endpoint *endpoints[RANKS_MAX];
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 40;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(connect_all(clique, rank, endpoints) == motetSuccess);
    arrive(&clique->connected, clique->n);
    disconnect_all(clique, endpoints);
}

static void test_endpoint_too_few_descriptors_is_an_error_at_once_that_says_so(void **state)
{
    (void)state;
    assert_int_equal(reap(start(16, "NET/Socket", rank_short_of_descriptors)), 0);
    assert_int_equal(reap(start(16, "SHM", rank_short_of_descriptors)), 0);
}

static void test_endpoint_soft_descriptor_limit_is_raised(void **state)
{
    (void)state;
    assert_int_equal(reap(start(16, "NET/Socket", rank_with_room_to_raise)), 0);
}

/* A process needs few descriptors per peer: 64 peers fit in 256. */
static void rank_of_many(struct clique *clique, int rank)
{
    struct motet_endpoint *endpoints[RANKS_MAX];
    CHECK(connect_all(clique, rank, endpoints) == motetSuccess);
    arrive(&clique->connected, clique->n);
    CHECK(open_files() < 256);
    for (int i = 0; i < clique->n; i++) {
        CHECK(endpoints[i]->process.pid == clique->processes[i].pid && !endpoints[i]->dead);
        CHECK(strcmp(endpoints[i]->transport->name, i == rank ? "P2P/direct" : clique->transport) == 0);
    }
    arrive(&clique->finished, clique->n);
    disconnect_all(clique, endpoints);
}

static void test_endpoint_sixty_four_processes_link_with_few_descriptors(void **state)
{
    (void)state;
    assert_int_equal(reap(start(RANKS_MAX, "SHM", rank_of_many)), 0);
    assert_int_equal(reap(start(RANKS_MAX, "NET/Socket", rank_of_many)), 0);
}

/* ---- death ---- */

static void rank_beside_a_victim(struct clique *clique, int rank)
{
    struct motet_endpoint *endpoints[RANKS_MAX];
    struct pair watcher = {.side = rank};
    void *none = NULL;
    CHECK(connect_all(clique, rank, endpoints) == motetSuccess);
    CHECK(motet_windows_open(1, &none, 0, endpoints, clique->n, pair_on_control, &watcher, &watcher.key) == motetSuccess);
    arrive(&clique->connected, clique->n);
    if (rank == 2)
        kill(getpid(), SIGKILL);
    uint64_t start_ns = motet_now_ns(), deadline_ns = motet_deadline_ns(5000);
    while (!atomic_load(&watcher.deaths) && motet_now_ns() < deadline_ns)
        usleep(1000);
    CHECK(watcher.deaths == 1 && motet_now_ns() - start_ns < 2000 * PAIR_MS);
    for (int i = 0; i < clique->n; i++)
        CHECK(endpoints[i]->dead == (i == 2));
    CHECK(endpoints[2]->cause[0] != '\0');
    arrive(&clique->finished, clique->n - 1);
    motet_windows_close(watcher.key);
    disconnect_all(clique, endpoints);
}

static void test_endpoint_killed_member_is_noticed_by_all_others(void **state)
{
    (void)state;
    assert_int_equal(reap(start(6, "SHM", rank_beside_a_victim)), 1);
    assert_int_equal(reap(start(6, "NET/Socket", rank_beside_a_victim)), 1);
}

/* ---- leftovers ---- */

static void rank_to_be_killed(struct clique *clique, int rank)
{
    struct motet_endpoint *endpoints[RANKS_MAX];
    if (connect_all(clique, rank, endpoints) == motetSuccess)
        pause();
}

static int count_named_files(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        n += strstr(entry->d_name, "motet") != NULL;
    if (folder)
        closedir(folder);
    return n;
}

/* Unix sockets whose name is made of this token. */
static int count_sockets(const uint8_t token[16])
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512], name[40] = "";
    int n = 0;
    assert_non_null(file);
    for (int i = 0; i < 16; i++)
        sprintf(name + 2 * i, "%02x", token[i]);
    while (fgets(line, sizeof(line), file))
        n += strstr(line, name) != NULL;
    fclose(file);
    return n;
}

static void test_endpoint_killed_jobs_leave_nothing_behind(void **state)
{
    (void)state;
    int opened = 0;
    for (int round = 0; round < 20; round++) {
        struct motet_process processes[4];
        struct clique *clique = start(4, "SHM", rank_to_be_killed);
        usleep((useconds_t)(round * 1500));
        for (int rank = 0; rank < 4; rank++)
            kill(clique->pids[rank], SIGKILL);
        memcpy(processes, clique->processes, sizeof(processes));
        opened += clique->opened;
        assert_int_equal(reap(clique), 4);
        for (int rank = 0; rank < 4; rank++)
            assert_int_equal(processes[rank].pid ? count_sockets(processes[rank].token) : 0, 0);
    }
    assert_true(opened > 4); /* some were killed late enough to have left something */
    assert_int_equal(count_named_files("/dev/shm"), 0);
    assert_int_equal(reap(start(4, "SHM", rank_of_many)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoint_too_few_descriptors_is_an_error_at_once_that_says_so),
        cmocka_unit_test(test_endpoint_soft_descriptor_limit_is_raised),
        cmocka_unit_test(test_endpoint_sixty_four_processes_link_with_few_descriptors),
        cmocka_unit_test(test_endpoint_killed_member_is_noticed_by_all_others),
        cmocka_unit_test(test_endpoint_killed_jobs_leave_nothing_behind),
    };
    close_range(3, ~0u, 0); /* what the caller left open would count */
    alarm(250);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
