/* SPDX-License-Identifier: Apache-2.0
 * Faults as people met them, each under its number: README.md in this folder says what every number is, and which tests elsewhere cover the
 * cases that are not here. */
/* test: serial timeout=300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/time.h>
#include <sys/stat.h>

#include "arena.h"
#include "mounts.h"

#define SLACK 3 /* a loaded machine gets three times the limit */

static struct arena job(enum arena_place place, int nranks, int rounds)
{
    return (struct arena){.place = place,
                          .nranks = nranks,
                          .per_process = place == ARENA_THREADS ? (nranks + 1) / 2 : 1,
                          .rounds = rounds,
                          .seed = 4711,
                          .environment = {"MOTET_INIT_TIMEOUT=20s", "MOTET_TIMEOUT=60s", "MOTET_DEBUG=NONE"}};
}

static void await_work(const struct arena *arena)
{
    for (double end_s = arena_now() + 60; arena->page->at_work < arena->nranks && arena_now() < end_s;)
        arena_sleep(0.001);
    assert_int_equal(arena->page->at_work, arena->nranks);
}

/* Every rank but those of the victim's process (-1: none) heard, in time, in a sentence that has all words. */
static void expect_heard(struct arena *arena, int victim, double limit_s, const char *const words[], int nwords)
{
    for (int r = 0; r < arena->nranks; r++) {
        const struct arena_rank *rank = &arena->page->ranks[r];
        if (victim >= 0 && arena_process_of(arena, r) == arena_process_of(arena, victim))
            continue;
        bool good = rank->result != motetInProgress && rank->heard_s - arena->page->fault_s < limit_s * SLACK && !rank->wrong &&
                    arena->statuses[arena_process_of(arena, r)] == 0 && !rank->left_fds && !rank->left_threads;
        for (int i = 0; i < nwords; i++)
            good = good && strstr(rank->text, words[i]);
        if (!good)
            fprintf(stderr, "%s, rank %d: result %d after %.3f s, status 0x%x, left %d and %d: %s\n", arena_places[arena->place], r,
                    rank->result, rank->heard_s - arena->page->fault_s, arena->statuses[arena_process_of(arena, r)], rank->left_fds,
                    rank->left_threads, rank->text);
        assert_true(good);
    }
}

static void expect_success(struct arena *arena)
{
    assert_int_equal(arena_wait(arena, arena_now() + 100), 0);
    for (int r = 0; r < arena->nranks; r++) {
        const struct arena_rank *rank = &arena->page->ranks[r];
        if (rank->result != motetInProgress || rank->wrong)
            fprintf(stderr, "%s, rank %d: %s\n", arena_places[arena->place], r, rank->text);
        assert_int_equal(rank->result, motetInProgress);
        assert_int_equal(rank->wrong, 0);
        assert_int_equal(arena->statuses[arena_process_of(arena, r)], 0);
    }
}

static bool hosts;

/* ---- 005: a rank dies during init, or the root does */

static void test_case_005_rank_killed_during_init_is_named_to_all_others(void **state)
{
    (void)state;
    for (int victim = 0; victim < 2; victim++) {
        struct arena arena = job(ARENA_SHM, 4, 0);
        assert_true(arena_start(&arena));
        /* Rank 3 stands still, so that init cannot end. */
        while (!arena.page->ranks[3].pid)
            arena_sleep(0.0001);
        kill(arena.processes[3], SIGSTOP);
        while (arena.page->ranks[victim * 2].stage != ARENA_IN_INIT || arena.page->ready != 1)
            arena_sleep(0.001);
        arena_sleep(0.3);
        arena.page->fault_s = arena_now();
        kill(arena.processes[victim * 2], SIGKILL);
        arena_sleep(0.1);
        kill(arena.processes[3], SIGCONT);
        assert_int_equal(arena_wait(&arena, arena_now() + 40), 0);
        const char *words[] = {victim ? "rank 2" : "root"};
        expect_heard(&arena, victim * 2, 5, words, 1);
        arena_end(&arena);
    }
}

/* ---- 013: a tiny /dev/shm */

static void shrink_shm(struct arena *arena, int first)
{
    (void)arena, (void)first;
    if (!mounts_unshare() || !mounts_cover("/dev/shm", "64k"))
        _exit(97);
}

static void test_case_013_tiny_dev_shm_changes_nothing(void **state)
{
    (void)state;
    if (!mounts_allowed())
        skip();
    struct arena arena = job(ARENA_SHM, 6, 30);
    arena.prepare = shrink_shm;
    assert_true(arena_start(&arena));
    expect_success(&arena);
    arena_end(&arena);
}

/* ---- 024: one connection of four ranks breaks */

static void test_case_024_broken_connection_is_heard_by_all_ranks(void **state)
{
    (void)state;
    if (!hosts)
        skip();
    for (int which = 0; which < 2; which++) {
        struct arena arena = job(ARENA_NETNS, 4, 0);
        assert_true(arena_start(&arena));
        await_work(&arena);
        arena.page->fault_s = arena_now();
        assert_int_equal(
            namespace_shell("nsenter -t %d -n sh -c 'set -- $(ss -Htn state established dst 10.78.0.0/24 | sort -k3 | %s -n 1 | tr "
                            "-s \" \"); test -n \"$4\" && ss -K -t src $3 dst $4 >/dev/null'",
                            (int)arena_hosts[0], which ? "head" : "tail"),
            0);
        assert_int_equal(arena_wait(&arena, arena_now() + 60), 0);
        const char *words[] = {"rank ", "(pid ", "is gone: "};
        expect_heard(&arena, -1, 5, words, 3);
        arena_end(&arena);
    }
}

/* ---- 025: a host disappears without a FIN; a long pause alone is no fault */

static void test_case_025_silent_host_is_named_and_a_pause_is_not(void **state)
{
    (void)state;
    if (!hosts)
        skip();
    struct arena arena = job(ARENA_NETNS, 4, 0);
    arena.environment[3] = "MOTET_LINK_TIMEOUT=3s";
    assert_true(arena_start(&arena));
    await_work(&arena);
    for (int r = 0; r < 4; r++)
        kill(arena.processes[r], SIGSTOP); /* longer than the limit, with the links up */
    arena_sleep(5);
    for (int r = 0; r < 4; r++)
        kill(arena.processes[r], SIGCONT);
    arena_sleep(1);
    for (int r = 0; r < 4; r++)
        assert_int_equal(arena.page->ranks[r].result, motetInProgress);
    arena.page->fault_s = arena_now();
    assert_int_equal(namespace_shell("nsenter -t %d -n ip link set cable down", (int)arena_hosts[1]), 0);
    int hung = arena_wait(&arena, arena_now() + 60);
    namespace_shell("nsenter -t %d -n ip link set cable up; nsenter -t %d -n ip link set cable up", (int)arena_hosts[0],
                    (int)arena_hosts[1]);
    assert_int_equal(hung, 0);
    const char *words[] = {"rank ", "is gone: silent for too long: host or network down"};
    expect_heard(&arena, -1, 4, words, 2);
    arena_end(&arena);
}

/* A host's own firewall or queue drops all that it sends, which the kernel's timeouts do not count: nobody refuses, and it hears the others. */
static void test_case_025_packets_dropped_by_their_sender_are_silence_for_both(void **state)
{
    (void)state;
    if (!hosts || namespace_shell("tc -V >/dev/null 2>&1") != 0)
        skip();
    struct arena arena = job(ARENA_NETNS, 2, 0);
    assert_true(arena_start(&arena));
    await_work(&arena);
    arena.page->fault_s = arena_now();
    assert_int_equal(
        namespace_shell("nsenter -t %d -n tc qdisc add dev cable root tbf rate 8bit burst 1 limit 1", (int)arena_hosts[0]), 0);
    int hung = arena_wait(&arena, arena_now() + 60);
    namespace_shell("nsenter -t %d -n tc qdisc del dev cable root", (int)arena_hosts[0]);
    assert_int_equal(hung, 0);
    const char *words[] = {"rank ", "is gone: "};    /* the end that hears it first hangs up, which the other may see */
    expect_heard(&arena, -1, 7.5 / SLACK, words, 2); /* within 6 s; the kernel alone takes 8.2 */
    arena_end(&arena);
}

/* ---- 029: a rank is killed, exits, or just returns in the middle */

static void *leave_thread(void *context)
{
    struct arena *arena = context;
    while (arena->page->at_work < arena->nranks)
        arena_sleep(0.001);
    arena_sleep(0.02);
    arena->page->fault_s = arena_now();
    if (arena->argument)
        _exit(0);
    exit(0); /* as a return from main does: with the handlers of exit */
}

static void leave(struct arena *arena, int first)
{
    pthread_t thread;
    if (first <= 2 && first + arena->per_process > 2 && pthread_create(&thread, NULL, leave_thread, arena) == 0)
        pthread_detach(thread);
}

static void test_case_029_rank_that_goes_is_named_by_all_survivors(void **state)
{
    static const enum arena_place places[] = {ARENA_SHM, ARENA_TCP, ARENA_HOSTS};
    (void)state;
    for (int how = 0; how < 3; how++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            char pid[32];
            struct arena arena = job(places[i], 4, 0);
            arena.prepare = how > 0 ? leave : NULL;
            arena.argument = how == 1 ? "_exit" : NULL;
            assert_true(arena_start(&arena));
            await_work(&arena);
            if (how == 0) {
                arena_sleep(0.02);
                arena.page->fault_s = arena_now();
                kill(arena.processes[2], SIGKILL);
            }
            assert_int_equal(arena_wait(&arena, arena_now() + 60), 0);
            snprintf(pid, sizeof pid, "(pid %d on ", arena.page->ranks[2].pid);
            const char *words[] = {pid, how == 0 && places[i] != ARENA_TCP ? "killed by SIGKILL" : "rank "};
            expect_heard(&arena, 2, places[i] == ARENA_HOSTS ? 5 : 2, words, 2);
            arena_end(&arena);
        }
}

/* ---- 034: signals without SA_RESTART, to every thread */

static void on_profile(int number)
{
    (void)number;
}

static void profile(struct arena *arena, int first)
{
    struct sigaction action = {.sa_handler = on_profile};
    struct itimerval every = {{0, 1000}, {0, 1000}};
    (void)arena, (void)first;
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_PROF, &every, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static void test_case_034_profiling_signals_change_nothing(void **state)
{
    (void)state;
    for (enum arena_place place = ARENA_SHM; place <= ARENA_HOSTS; place++) {
        struct arena arena = job(place, 4, 60);
        arena.prepare = profile;
        assert_true(arena_start(&arena));
        expect_success(&arena);
        arena_end(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_005_rank_killed_during_init_is_named_to_all_others),
        cmocka_unit_test(test_case_013_tiny_dev_shm_changes_nothing),
        cmocka_unit_test(test_case_024_broken_connection_is_heard_by_all_ranks),
        cmocka_unit_test(test_case_025_silent_host_is_named_and_a_pause_is_not),
        cmocka_unit_test(test_case_025_packets_dropped_by_their_sender_are_silence_for_both),
        cmocka_unit_test(test_case_029_rank_that_goes_is_named_by_all_survivors),
        cmocka_unit_test(test_case_034_profiling_signals_change_nothing),
    };
    hosts = arena_hosts_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_hosts_close();
    return failed;
}
