/* SPDX-License-Identifier: Apache-2.0
 * fork() while linked: the parent goes on, children may come and go, a child that outlives the parent does not hide its death, and the
 * library refuses to be used in a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <cmocka.h>

#include "pair.h"
#include "transport/transport.h"

/* Children that exit find memory that only the parent's threads know. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static int files_at_start;

static int open_files(void)
{
    int n = 0;
    for (int fd = 3; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void over_all(pair_body *body, int failures)
{
    for (int i = 0; motet_transports[i]; i++)
        if (motet_transports[i]->dial)
            assert_int_equal(pair_run(motet_transports[i]->name, body), failures);
}

static void exchange(struct pair *pair, uint64_t from, uint64_t to)
{
    unsigned char bytes[1000];
    for (uint64_t i = from; i <= to; i++) {
        pair_fill(bytes, sizeof(bytes), (unsigned)(pair->side * 1000 + i));
        pair_publish(pair, 4096, bytes, sizeof(bytes), 8, i);
        CHECK(pair_await(pair, 8, i, 10000));
    }
}

static void child_that_uses_the_library(struct pair *pair)
{
    struct motet_process me;
    void *at;
    CHECK(motet_process_open(&me) == motetInvalidUsage);
    CHECK(strstr(motet_error_text(), "forked"));
    CHECK(motet_segment_alloc(100, &at) == motetInvalidUsage);
    CHECK(open_files() <= files_at_start + 1); /* the wire; what belongs to the library is closed */
    motet_process_close();
    motet_endpoint_release(pair->endpoint);
}

static void body_children(struct pair *pair)
{
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            alarm(20);
            if (i == 0)
                child_that_uses_the_library(pair);
            if (i == 1)
                _exit(0);
            exit(0); /* with atexit handlers */
        }
        exchange(pair, (uint64_t)i * 50 + 1, (uint64_t)i * 50 + 50);
    }
    for (int i = 0; i < 4; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
    exchange(pair, 201, 300);
    CHECK(!pair->endpoint->dead && pair->deaths == 0);
    pair_barrier(pair);
}

static void test_endpoint_children_of_fork_do_no_harm(void **state)
{
    (void)state;
    over_all(body_children, 0);
}

/* The child holds copies of whatever the parent had open. */
static void body_orphan(struct pair *pair)
{
    pid_t child = -1;
    if (pair->side == 1) {
        child = fork();
        if (child == 0) {
            close(pair->wire);
            sleep(20);
            _exit(0);
        }
        pair_write(pair, &child, sizeof(child));
        kill(getpid(), SIGKILL);
    }
    pair_read(pair, &child, sizeof(child));
    uint64_t start_ns = motet_now_ns(), deadline_ns = motet_deadline_ns(5000);
    while (!atomic_load(&pair->deaths) && motet_now_ns() < deadline_ns) {
        uint32_t ticket = motet_doorbell_ticket();
        if (!atomic_load(&pair->deaths))
            motet_doorbell_wait(ticket, deadline_ns);
    }
    CHECK(pair->deaths == 1 && motet_now_ns() - start_ns < 2000 * PAIR_MS);
    CHECK(kill(child, 0) == 0); /* it still lives */
    kill(child, SIGKILL);
}

static void test_endpoint_child_that_outlives_its_parent_does_not_hide_the_death(void **state)
{
    (void)state;
    over_all(body_orphan, 1);
}

/* A process that has closed the library, or never opened it, is an ordinary parent. */
static void body_after_close(struct pair *pair)
{
    (void)pair;
}

static void test_endpoint_fork_after_close_starts_anew(void **state)
{
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct motet_process me;
        alarm(60);
        pair_choose("SHM");
        CHECK(motet_process_open(&me) == motetSuccess);
        motet_process_close();
        exit(pair_run("SHM", body_after_close));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoint_children_of_fork_do_no_harm),
        cmocka_unit_test(test_endpoint_child_that_outlives_its_parent_does_not_hide_the_death),
        cmocka_unit_test(test_endpoint_fork_after_close_starts_anew),
    };
    alarm(120);
    files_at_start = open_files();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
