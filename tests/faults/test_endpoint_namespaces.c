/* SPDX-License-Identifier: Apache-2.0
 * Two processes of one host in different namespaces, as containers are: whether memory is shared is decided by the probe, not by names.
 * In private network namespaces, joined by a virtual cable: silent peers, cut cables, lost connections, busy peers. Needs root. */
/* test: serial */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "mounts.h"
#include "pair.h"

/* ---- the same host, other views of it ---- */

static void exchange(struct pair *pair, uint64_t from, uint64_t to)
{
    unsigned char bytes[1000];
    for (uint64_t i = from; i <= to; i++) {
        pair_fill(bytes, sizeof(bytes), (unsigned)(pair->side * 1000 + i));
        pair_publish(pair, 4096, bytes, sizeof(bytes), 8, i);
        CHECK(pair_await(pair, 8, i, 20000));
    }
}

static void link_and_exchange(struct pair *pair, const char *expected)
{
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_connect(pair);
    CHECK(strcmp(pair->endpoint->transport->name, expected) == 0);
    pair_share(pair);
    exchange(pair, 1, 50);
    pair_barrier(pair);
    pair_unshare(pair);
    motet_process_close();
}

static uint64_t wait_for_death(struct pair *pair, int timeout_ms)
{
    uint64_t start_ns = motet_now_ns(), deadline_ns = motet_deadline_ns(timeout_ms);
    while (!atomic_load(&pair->deaths) && motet_now_ns() < deadline_ns)
        usleep(1000);
    CHECK(pair->deaths == 1);
    return motet_now_ns() - start_ns;
}

static int inner_says; /* pipe to the outer process */
static int unshared;   /* flags of the namespaces that side 1 has of its own */

static void child_unshared(struct pair *pair)
{
    alarm(60);
    pair_choose("SHM");
    if (pair->side == 1) {
        if (unshared & CLONE_NEWNS)
            CHECK(mounts_unshare() && mounts_cover("/dev/shm", "64k"));
        else
            CHECK(unshare(unshared) == 0);
    }
    link_and_exchange(pair, "SHM");
}

static void test_endpoint_own_mounts_ipc_and_users_still_share_memory(void **state)
{
    static const int flags[] = {CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWUTS};
    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        unshared = flags[i];
        assert_int_equal(pair_run_children("SHM", child_unshared, NULL), 0);
    }
}

/* The own pid namespace begins with the next fork: the outer process kills the inner one when told. */
static void become_inner(void)
{
    int pipes[2], status;
    char byte;
    CHECK(pipe(pipes) == 0 && unshare(CLONE_NEWPID) == 0);
    pid_t inner = fork();
    if (inner == 0) {
        inner_says = pipes[1];
        CHECK(getpid() == 1);
        return;
    }
    CHECK(inner > 0 && read(pipes[0], &byte, 1) == 1);
    CHECK(kill(inner, SIGKILL) == 0 && waitpid(inner, &status, 0) == inner);
    exit(status != SIGKILL);
}

static void child_other_pids(struct pair *pair)
{
    alarm(60);
    pair_choose("SHM");
    if (pair->side == 1)
        become_inner();
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_connect(pair);
    CHECK(strcmp(pair->endpoint->transport->name, "SHM") == 0);
    pair_share(pair);
    exchange(pair, 1, 50);
    pair_barrier(pair);
    if (pair->side == 1) {
        CHECK(write(inner_says, "k", 1) == 1);
        pause();
    }
    CHECK(wait_for_death(pair, 5000) < 2000 * PAIR_MS);
    pair_unshare(pair);
    motet_process_close();
}

static void test_endpoint_own_pid_namespace_still_shares_memory_and_dies_visibly(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("SHM", child_other_pids, NULL), 0);
}

static void child_other_user(struct pair *pair)
{
    alarm(60);
    pair_choose("SHM");
    if (pair->side == 1)
        CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    link_and_exchange(pair, "SHM");
}

static void test_endpoint_another_user_still_shares_memory(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("SHM", child_other_user, NULL), 0);
}

/* ---- different hosts, as far as the network goes ---- */

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    int status = system(command);
    if (status != 0)
        fprintf(stderr, "%s: status 0x%x\n", command, (unsigned)status);
    CHECK(status == 0);
}

/* Both sides in network namespaces of their own, 10.77.0.1 and 10.77.0.2 at the ends of a cable. */
static void lay_cable(struct pair *pair)
{
    pid_t pid = getpid();
    CHECK(unshare(CLONE_NEWNET) == 0);
    shell("ip link set lo up");
    if (pair->side == 1) {
        pair_write(pair, &pid, sizeof(pid));
    } else {
        pair_read(pair, &pid, sizeof(pid));
        shell("ip link add cable type veth peer name cable netns %d", pid);
    }
    pair_barrier(pair);
    shell("ip addr add 10.77.0.%d/24 dev cable && ip link set cable up", pair->side + 1);
    setenv("MOTET_LINK_TIMEOUT", "2s", 1);
    unsetenv("MOTET_SOCKET_IFNAME");
    setenv("MOTET_SHM_DISABLE", "0", 1);
    alarm(60);
    pair_barrier(pair);
}

static void child_fallback(struct pair *pair)
{
    char path[64], line[512];
    bool warned = false;
    lay_cable(pair);
    snprintf(path, sizeof(path), "/tmp/motet-fallback-%d.log", getpid());
    setenv("MOTET_DEBUG_FILE", path, 1);
    link_and_exchange(pair, "NET/Socket");
    FILE *log = fopen(path, "r");
    while (log && fgets(line, sizeof(line), log))
        warned = warned || (strstr(line, "SHM to pid") && strstr(line, "NET/Socket is used"));
    if (log)
        fclose(log);
    unlink(path);
    CHECK(warned == (memcmp(pair->me.token, pair->peer.token, 16) < 0)); /* the dialing side decides and says so */
}

static void test_endpoint_other_network_namespace_falls_back_to_tcp_and_says_so(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("NET/Socket", child_fallback, NULL), 0);
}

/* A bridge with the same address on both hosts must not be taken for a way between them. */
static void child_bridge(struct pair *pair)
{
    lay_cable(pair);
    setenv("MOTET_HOSTID", pair->side ? "one" : "zero", 1);
    shell("ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up");
    link_and_exchange(pair, "NET/Socket");
}

static void test_endpoint_bridge_that_looks_alike_everywhere_is_not_used(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("NET/Socket", child_bridge, NULL), 0);
}

static void open_linked(struct pair *pair)
{
    lay_cable(pair);
    setenv("MOTET_HOSTID", pair->side ? "one" : "zero", 1);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_connect(pair);
    pair_share(pair);
    exchange(pair, 1, 20);
    pair_barrier(pair);
}

static void close_linked(struct pair *pair)
{
    pair_unshare(pair);
    motet_process_close();
}

/* The cable is cut while nothing is being sent. */
static void child_cut_idle(struct pair *pair)
{
    open_linked(pair);
    if (pair->side == 1)
        shell("ip link set cable down");
    pair_barrier(pair);
    CHECK(wait_for_death(pair, 10000) < 4000 * PAIR_MS);
    CHECK(strstr(pair->cause, "silent"));
    close_linked(pair);
}

/* ... and while the other side sends as fast as it can. */
static void child_cut_busy(struct pair *pair)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    open_linked(pair);
    if (pair->side == 1)
        shell("(sleep 0.3; ip link set cable down) &");
    uint64_t deadline_ns = motet_deadline_ns(10000), start_ns = motet_now_ns();
    while (!atomic_load(&pair->deaths) && motet_now_ns() < deadline_ns) {
        if (!pair_try_publish(pair, 4096, bytes, sizeof(bytes), 16, 1))
            usleep(1000);
        motet_endpoint_progress(pair->endpoint);
    }
    CHECK(pair->deaths == 1 && motet_now_ns() - start_ns < 5000 * PAIR_MS);
    close_linked(pair);
}

static void test_endpoint_cut_cable_is_a_death_within_the_link_timeout(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("NET/Socket", child_cut_idle, NULL), 0);
    assert_int_equal(pair_run_children("NET/Socket", child_cut_busy, NULL), 0);
}

/* The good twin: a peer that neither reads nor answers for much longer than the timeout is late, not dead, even when it is stopped and
 * its receive window is full. */
static void child_busy_peer(struct pair *pair)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    open_linked(pair);
    pid_t stopped = getpid();
    if (pair->side == 1) {
        pair_write(pair, &stopped, sizeof(stopped));
        CHECK(pair_await(pair, 16, 1, 30000));
    } else {
        uint64_t sent = 0;
        pair_read(pair, &stopped, sizeof(stopped));
        CHECK(kill(stopped, SIGSTOP) == 0);
        while (sent < 1000 && pair_try_publish(pair, 4096, bytes, sizeof(bytes), UINT64_MAX, 0))
            sent++;
        CHECK(sent > 4 && sent < 1000);
        for (int i = 0; i < 70; i++) {
            usleep(100000);
            pair_try_publish(pair, 4096, bytes, sizeof(bytes), UINT64_MAX, 0);
            motet_endpoint_progress(pair->endpoint);
            CHECK(!pair->deaths && !pair->endpoint->dead);
        }
        CHECK(kill(stopped, SIGCONT) == 0);
        pair_publish(pair, 4096, bytes, 100, 16, 1);
    }
    CHECK(pair->deaths == 0);
    pair_barrier(pair);
    close_linked(pair);
}

static void test_endpoint_stopped_peer_with_a_full_window_is_late_not_dead(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("NET/Socket", child_busy_peer, NULL), 0);
}

static bool break_first;

/* One connection of the pair, control or data, is destroyed from outside. */
static void child_broken_connection(struct pair *pair)
{
    open_linked(pair);
    if (pair->side == 0)
        shell(
            "set -- $(ss -Htn state established | awk '{print $3, $4}' | sort | %s -1); test -n \"$2\" && ss -K -t src $1 dst $2 >/dev/null",
            break_first ? "head" : "tail");
    CHECK(wait_for_death(pair, 10000) < 4000 * PAIR_MS);
    CHECK(pair->cause[0] != '\0');
    close_linked(pair);
}

static void test_endpoint_broken_connection_is_heard_at_both_ends(void **state)
{
    (void)state;
    break_first = true;
    assert_int_equal(pair_run_children("NET/Socket", child_broken_connection, NULL), 0);
    break_first = false;
    assert_int_equal(pair_run_children("NET/Socket", child_broken_connection, NULL), 0);
}

/* Nobody answers at the peer's address: the sentence names address and remedy, and the time limit holds. */
static void child_firewall(struct pair *pair)
{
    lay_cable(pair);
    setenv("MOTET_HOSTID", pair->side ? "one" : "zero", 1);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    /* To an address that no card has: what is sent is lost without a trace. */
    shell("ip neigh replace 10.77.0.%d lladdr 02:00:00:00:00:01 dev cable", 2 - pair->side);
    pair_barrier(pair);
    const struct motet_process *peers[1] = {&pair->peer};
    uint64_t start_ns = motet_now_ns();
    CHECK(motet_endpoint_connect(peers, 1, &pair->secret, motet_deadline_ns(5000), NULL, &pair->endpoint) != motetSuccess);
    CHECK(motet_now_ns() - start_ns < 7000 * PAIR_MS);
    CHECK(strstr(motet_error_text(), "pid"));
    if (memcmp(pair->me.token, pair->peer.token, 16) < 0)
        CHECK(strstr(motet_error_text(), "no answer") && strstr(motet_error_text(), "MOTET_PORT_RANGE") &&
              strstr(motet_error_text(), "10.77.0."));
    motet_process_close();
}

static void test_endpoint_firewall_is_an_error_by_the_deadline(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("NET/Socket", child_firewall, NULL), 0);
}

/* Kernel queues that hold two connections: the rest is dropped or reset, and retried. */
static void child_small_queue(struct pair *pair)
{
    lay_cable(pair);
    shell("echo 1 > /proc/sys/net/core/somaxconn");
    setenv("MOTET_HOSTID", pair->side ? "one" : "zero", 1);
    setenv("MOTET_NSOCKS", "16", 1);
    link_and_exchange(pair, "NET/Socket");
}

static void test_endpoint_overflowing_accept_queue_is_retried(void **state)
{
    (void)state;
    assert_int_equal(pair_run_children("NET/Socket", child_small_queue, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoint_own_mounts_ipc_and_users_still_share_memory),
        cmocka_unit_test(test_endpoint_own_pid_namespace_still_shares_memory_and_dies_visibly),
        cmocka_unit_test(test_endpoint_another_user_still_shares_memory),
        cmocka_unit_test(test_endpoint_other_network_namespace_falls_back_to_tcp_and_says_so),
        cmocka_unit_test(test_endpoint_bridge_that_looks_alike_everywhere_is_not_used),
        cmocka_unit_test(test_endpoint_cut_cable_is_a_death_within_the_link_timeout),
        cmocka_unit_test(test_endpoint_stopped_peer_with_a_full_window_is_late_not_dead),
        cmocka_unit_test(test_endpoint_broken_connection_is_heard_at_both_ends),
        cmocka_unit_test(test_endpoint_firewall_is_an_error_by_the_deadline),
        cmocka_unit_test(test_endpoint_overflowing_accept_queue_is_retried),
    };
    if (getuid() != 0 || system("ip -V >/dev/null 2>&1 && ss -V >/dev/null 2>&1 && unshare -n -m true 2>/dev/null") != 0) {
        puts("skipped: needs root that may make namespaces, ip and ss");
        return 77;
    }
    alarm(280);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
