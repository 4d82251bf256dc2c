/* SPDX-License-Identifier: Apache-2.0
 * What every transport of the table must do, checked through endpoints between two processes (P2P/direct: between two ranks of one).
 * A new row is tested here without an edit. */
/* test: timeout=600 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <sys/time.h>
#include <cmocka.h>

#include "pair.h"
#include "transport/transport.h"

#define CYCLES 300

/* Runs the body over every transport that links two processes. */
static void over_all(pair_body *body)
{
    int walked = 0;
    for (int i = 0; motet_transports[i]; i++) {
        if (!motet_transports[i]->dial)
            continue;
        walked++;
        assert_int_equal(pair_run(motet_transports[i]->name, body), 0);
    }
    assert_true(walked >= 2);
}

/* ---- data ---- */

static const size_t sizes[] = {0, 1, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 16383, 16384, 16385, 65535, MOTET_PUT_MAX};
#define NSIZES (sizeof(sizes) / sizeof(*sizes))

static void check_poison(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        CHECK((unsigned char)at[i] == PAIR_POISON);
}

/* Both sides publish one block of each size at the same time and check what the other wrote, and that nothing else was touched. */
static void body_sizes(struct pair *pair)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    for (uint64_t i = 0; i < NSIZES; i++) {
        size_t at = 4096 + i * 3;
        pair_fill(bytes, sizes[i], (unsigned)(pair->side * 100 + i));
        pair_publish(pair, at, bytes, sizes[i], 8, i + 1);
        CHECK(pair_await(pair, 8, i + 1, 10000));
        pair_barrier(pair);
        pair_fill(bytes, sizes[i], (unsigned)((1 - pair->side) * 100 + i));
        CHECK(memcmp(pair->view + at, bytes, sizes[i]) == 0);
        check_poison(pair->view + PAIR_WORDS, at - PAIR_WORDS);
        check_poison(pair->view + at + sizes[i], 4096);
        pair_barrier(pair);
        /* Poison again what was written, through the same way: the owner's copy and the mirror. */
        memset(pair->region + PAIR_WORDS, PAIR_POISON, PAIR_REGION - PAIR_WORDS);
        if (!pair->endpoint->transport->mapped)
            memset(pair->view + PAIR_WORDS, PAIR_POISON, PAIR_REGION - PAIR_WORDS);
        pair_barrier(pair);
    }
}

static void test_transport_block_of_every_size_arrives_whole_and_alone(void **state)
{
    (void)state;
    over_all(body_sizes);
}

/* A stream of counters: whoever sees word i finds bytes that are at least as new. */
static void body_order(struct pair *pair)
{
    const uint64_t last = 20000;
    uint64_t seen = 0, sent = 0;
    memset(pair->region + 64, 0, 64);
    if (!pair->endpoint->transport->mapped)
        memset(pair->view + 64, 0, 64);
    pair_barrier(pair);
    uint64_t deadline_ns = motet_deadline_ns(60000);
    while (seen < last || sent < last) {
        uint32_t ticket = motet_doorbell_ticket();
        uint64_t next = sent + 1, word;
        bool moved = sent < last && pair_try_publish(pair, 64, &next, sizeof(next), 8, next);
        sent += moved;
        motet_endpoint_progress(pair->endpoint);
        word = pair_word(pair->view + 8);
        CHECK(word >= seen && word <= last && motet_now_ns() < deadline_ns);
        CHECK(pair_word(pair->view + 64) >= word);
        moved = moved || word > seen;
        seen = word;
        if (!moved)
            motet_doorbell_wait(ticket, motet_now_ns() + 10 * PAIR_MS);
    }
    pair_barrier(pair);
}

static void test_transport_bytes_are_there_before_their_word(void **state)
{
    (void)state;
    over_all(body_order);
}

/* Side 0 sends until the output is full while side 1 does not look; nothing may be lost. */
static void body_full(struct pair *pair)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    if (pair->endpoint->transport->mapped) /* nothing is sent */
        return;
    uint64_t sent = 0;
    if (pair->side == 0) {
        while (sent < 4000) {
            pair_fill(bytes, sizeof(bytes), (unsigned)sent + 1);
            if (!pair_try_publish(pair, 4096 + (sent % 4) * MOTET_PUT_MAX, bytes, sizeof(bytes), 8, sent + 1))
                break;
            sent++;
        }
        CHECK(sent >= 4 && sent < 4000);
        pair_write(pair, &sent, sizeof(sent));
        /* Room is announced: no polling here, only the doorbell. */
        uint64_t deadline_ns = motet_deadline_ns(20000);
        for (uint64_t more = sent + 1; more <= sent + 50; more++) {
            pair_fill(bytes, sizeof(bytes), (unsigned)more);
            for (;;) {
                uint32_t ticket = motet_doorbell_ticket();
                if (pair_try_publish(pair, 4096 + ((more - 1) % 4) * MOTET_PUT_MAX, bytes, sizeof(bytes), 8, more))
                    break;
                CHECK(motet_now_ns() < deadline_ns);
                motet_doorbell_wait(ticket, deadline_ns);
            }
        }
    } else {
        pair_read(pair, &sent, sizeof(sent));
        usleep(50000);
        CHECK(pair_await(pair, 8, sent + 50, 20000));
        for (uint64_t i = sent + 47; i <= sent + 50; i++) {
            pair_fill(bytes, sizeof(bytes), (unsigned)i);
            CHECK(memcmp(pair->view + 4096 + ((i - 1) % 4) * MOTET_PUT_MAX, bytes, sizeof(bytes)) == 0);
        }
    }
    pair_barrier(pair);
}

static void test_transport_full_output_refuses_then_takes_and_loses_nothing(void **state)
{
    (void)state;
    over_all(body_full);
}

/* ---- control ---- */

static void body_control(struct pair *pair)
{
    char text[4096];
    memset(text, 'x', sizeof(text));
    motet_endpoint_control(pair->endpoint, pair->peer_key + 1000, MOTET_CONTROL_AUDIT, "nobody", 6); /* dropped */
    for (int i = 0; i < 200; i++)
        motet_endpoint_control(pair->endpoint, pair->peer_key, MOTET_CONTROL_FAULT, text, sizeof(text));
    motet_endpoint_control(pair->endpoint, pair->peer_key, MOTET_CONTROL_ANSWER, pair->side ? "one" : "zero", pair->side ? 3 : 4);
    uint64_t deadline_ns = motet_deadline_ns(10000);
    while (atomic_load(&pair->controls) < 201 && motet_now_ns() < deadline_ns)
        usleep(1000);
    CHECK(pair->controls == 201);
    CHECK(strcmp(pair->control_text, pair->side ? "zero" : "one") == 0);
    pair_barrier(pair);
}

static void test_transport_control_messages_arrive_in_order(void **state)
{
    (void)state;
    over_all(body_control);
}

/* ---- death ---- */

static bool await_death(struct pair *pair, int timeout_ms)
{
    uint64_t deadline_ns = motet_deadline_ns(timeout_ms);
    while (!atomic_load(&pair->deaths)) {
        uint32_t ticket = motet_doorbell_ticket();
        motet_endpoint_progress(pair->endpoint);
        if (atomic_load(&pair->deaths) || motet_now_ns() >= deadline_ns)
            break;
        motet_doorbell_wait(ticket, deadline_ns);
    }
    return pair->deaths == 1 && atomic_load(&pair->endpoint->dead);
}

static void end_by_kill(void)
{
    kill(getpid(), SIGKILL);
}

static void end_by_exit(void)
{
    _exit(0);
}

static void (*end_of_side_1)(void);

static void body_death(struct pair *pair)
{
    if (pair->side == 1) {
        char byte;
        pair_read(pair, &byte, 1);
        end_of_side_1();
    }
    uint64_t start_ns = motet_now_ns();
    pair_write(pair, "k", 1);
    CHECK(await_death(pair, 5000));
    CHECK(pair->death_ns - start_ns < 2000 * PAIR_MS);
    CHECK(strstr(pair->cause, "killed by SIG") || strstr(pair->cause, "exited") || strstr(pair->cause, "status unknown"));
    CHECK(strcmp(pair->cause, pair->endpoint->cause) == 0);
    if (!pair->endpoint->transport->mapped) /* the dead swallow everything */
        for (int i = 0; i < 100; i++)
            CHECK(pair_try_publish(pair, 4096, "abc", 3, 8, 1));
    motet_endpoint_control(pair->endpoint, pair->peer_key, MOTET_CONTROL_AUDIT, "x", 1);
    motet_doorbell_ring(pair->endpoint);
}

/* Side 1 ends as told, so exactly that one is expected not to end well when it is killed. */
static void test_transport_death_is_noticed_within_two_seconds_with_a_cause(void **state)
{
    (void)state;
    for (int i = 0; motet_transports[i]; i++) {
        if (!motet_transports[i]->dial)
            continue;
        end_of_side_1 = end_by_exit;
        assert_int_equal(pair_run(motet_transports[i]->name, body_death), 0);
        end_of_side_1 = end_by_kill;
        assert_int_equal(pair_run(motet_transports[i]->name, body_death), 1);
    }
}

/* What arrived before the death counts, even what nobody had read yet. */
static void body_last_words(struct pair *pair)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    pair_fill(bytes, sizeof(bytes), 77);
    if (pair->side == 1) {
        pair_publish(pair, 4096, bytes, sizeof(bytes), 8, 4711);
        pair_write(pair, "d", 1);
        _exit(0);
    }
    char byte;
    pair_read(pair, &byte, 1);
    CHECK(await_death(pair, 5000));
    CHECK(pair_word(pair->view + 8) == 4711);
    CHECK(memcmp(pair->view + 4096, bytes, sizeof(bytes)) == 0);
}

static void test_transport_data_sent_before_death_arrives(void **state)
{
    (void)state;
    over_all(body_last_words);
}

/* A side that closes in an orderly way sends everything first, though the other is late and its buffers are full. */
static void body_farewell(struct pair *pair)
{
    static unsigned char bytes[MOTET_PUT_MAX];
    const uint64_t blocks = 8;
    if (pair->side == 0) {
        for (uint64_t i = 1; i <= blocks; i++) {
            pair_fill(bytes, sizeof(bytes), (unsigned)i);
            pair_publish(pair, 4096 + (i - 1) * MOTET_PUT_MAX, bytes, sizeof(bytes), 8, i);
        }
        if (pair->endpoint->transport->mapped)
            pair_barrier(pair); /* unmapped memory is the owner's affair: the layer above agrees before it frees */
        return;
    }
    if (pair->endpoint->transport->mapped) {
        CHECK(pair_await(pair, 8, blocks, 5000));
        pair_barrier(pair);
        CHECK(await_death(pair, 5000));
    } else {
        CHECK(await_death(pair, 5000));
        CHECK(pair_word(pair->view + 8) == blocks);
        for (uint64_t i = 1; i <= blocks; i++) {
            pair_fill(bytes, sizeof(bytes), (unsigned)i);
            CHECK(memcmp(pair->view + 4096 + (i - 1) * MOTET_PUT_MAX, bytes, sizeof(bytes)) == 0);
        }
    }
    CHECK(strstr(pair->cause, "left"));
}

static void test_transport_orderly_end_delivers_everything_and_is_called_so(void **state)
{
    (void)state;
    over_all(body_farewell);
}

/* ---- sharing ---- */

struct connector {
    struct pair *pair;
    struct motet_secret secret;
    struct motet_endpoint *endpoint;
    motetResult_t result;
};

static void *connect_in_thread(void *context)
{
    struct connector *connector = context;
    const struct motet_process *peers[2] = {&connector->pair->peer, &connector->pair->me};
    struct motet_endpoint *endpoints[2];
    connector->result = motet_endpoint_connect(peers, 2, &connector->secret, motet_deadline_ns(10000), NULL, endpoints);
    connector->endpoint = endpoints[0];
    if (connector->result == motetSuccess)
        motet_endpoint_release(endpoints[1]);
    return NULL;
}

/* Runs before anything is connected: two communicators are made by two threads at once, each with its own secret. */
static void shared_child(struct pair *pair)
{
    pthread_t threads[2];
    struct connector connectors[2];
    alarm(60);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    for (int i = 0; i < 2; i++) {
        connectors[i] = (struct connector){.pair = pair};
        memset(&connectors[i].secret, 'a' + i, sizeof(connectors[i].secret));
    }
    for (int i = 0; i < 2; i++) {
        int which = pair->side ? 1 - i : i; /* the two sides begin with different ones */
        CHECK(pthread_create(&threads[which], NULL, connect_in_thread, &connectors[which]) == 0);
        usleep(20000);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(connectors[0].result == motetSuccess && connectors[1].result == motetSuccess);
    CHECK(connectors[0].endpoint == connectors[1].endpoint);
    pair->endpoint = connectors[0].endpoint;
    motet_endpoint_retain(pair->endpoint);
    motet_endpoint_release(pair->endpoint);
    motet_endpoint_release(connectors[1].endpoint);
    pair_share(pair);
    body_sizes(pair);
    pair_unshare(pair);
    motet_process_close();
    exit(0);
}

static void over_all_children(void (*child)(struct pair *))
{
    for (int i = 0; motet_transports[i]; i++)
        if (motet_transports[i]->dial)
            assert_int_equal(pair_run_children(motet_transports[i]->name, child, NULL), 0);
}

static void test_transport_two_communicators_made_at_once_share_one_endpoint(void **state)
{
    (void)state;
    over_all_children(shared_child);
}

static void strangers_child(struct pair *pair)
{
    alarm(60);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    struct motet_secret secret;
    memset(&secret, 'a' + pair->side, sizeof(secret));
    const struct motet_process *peers[1] = {&pair->peer};
    uint64_t start_ns = motet_now_ns();
    CHECK(motet_endpoint_connect(peers, 1, &secret, motet_deadline_ns(300), NULL, &pair->endpoint) == motetTimeout);
    CHECK(motet_now_ns() - start_ns < 2000 * PAIR_MS && pair->endpoint == NULL);
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %d", pair->peer.pid);
    CHECK(strstr(motet_error_text(), pid));
    pair_barrier(pair);
    memset(&secret, 'z', sizeof(secret)); /* and with a common secret it works at once */
    CHECK(motet_endpoint_connect(peers, 1, &secret, motet_deadline_ns(10000), NULL, &pair->endpoint) == motetSuccess);
    pair_barrier(pair);
    motet_endpoint_release(pair->endpoint);
    motet_process_close();
}

static void test_transport_different_secrets_never_meet(void **state)
{
    (void)state;
    over_all_children(strangers_child);
}

/* The dialing side greets for one communicator while the other side makes another: it must greet again when it comes to that one. */
static void crossed_child(struct pair *pair)
{
    struct connector connectors[2] = {{.pair = pair}, {.pair = pair}};
    pthread_t thread;
    alarm(60);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    memset(&connectors[0].secret, 'a', sizeof(connectors[0].secret));
    memset(&connectors[1].secret, 'b', sizeof(connectors[1].secret));
    bool dials = memcmp(pair->me.token, pair->peer.token, sizeof(pair->me.token)) < 0;
    if (dials) {
        CHECK(pthread_create(&thread, NULL, connect_in_thread, &connectors[0]) == 0);
        usleep(200000);
    }
    uint64_t start_ns = motet_now_ns();
    connect_in_thread(&connectors[1]);
    CHECK(connectors[1].result == motetSuccess && motet_now_ns() - start_ns < 5000 * PAIR_MS);
    if (dials) {
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(connectors[0].result == motetSuccess && connectors[0].endpoint == connectors[1].endpoint);
        motet_endpoint_release(connectors[0].endpoint);
    }
    motet_endpoint_release(connectors[1].endpoint);
    pair_barrier(pair);
    motet_process_close();
}

static void test_transport_greeting_for_another_communicator_is_repeated(void **state)
{
    (void)state;
    over_all_children(crossed_child);
}

static void *set_after_a_while(void *flag)
{
    usleep(200000);
    atomic_store((_Atomic(_Bool) *)flag, true);
    return NULL;
}

static void abort_child(struct pair *pair)
{
    static _Atomic(_Bool) abort_flag;
    pthread_t thread;
    alarm(60);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    if (pair->side == 0) { /* side 1 never comes */
        const struct motet_process *peers[1] = {&pair->peer};
        uint64_t start_ns = motet_now_ns();
        CHECK(pthread_create(&thread, NULL, set_after_a_while, &abort_flag) == 0);
        CHECK(motet_endpoint_connect(peers, 1, &pair->secret, UINT64_MAX, &abort_flag, &pair->endpoint) != motetSuccess);
        CHECK(motet_now_ns() - start_ns < 1000 * PAIR_MS);
        pthread_join(thread, NULL);
    }
    pair_barrier(pair);
    motet_process_close();
}

static void test_transport_abort_ends_connecting(void **state)
{
    (void)state;
    over_all_children(abort_child);
}

/* A peer that died before it connected: whichever side dials, the other hears long before its deadline. */
static void absent_child(struct pair *pair)
{
    alarm(60);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    pair_barrier(pair);
    if (pair->side == 1)
        _exit(0);
    const struct motet_process *peers[1] = {&pair->peer};
    uint64_t start_ns = motet_now_ns();
    CHECK(motet_endpoint_connect(peers, 1, &pair->secret, motet_deadline_ns(30000), NULL, &pair->endpoint) == motetRemoteError);
    CHECK(motet_now_ns() - start_ns < 8000 * PAIR_MS);
    motet_process_close();
}

static void test_transport_peer_that_died_before_connecting_is_an_error_soon(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) /* tokens are random: both roles come up */
        over_all_children(absent_child);
}

/* ---- leaks and signals ---- */

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;
    CHECK(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int n = 0;
    CHECK(file);
    for (int c; (c = fgetc(file)) != EOF;)
        n += c == '\n';
    fclose(file);
    return n;
}

static void cycle(struct pair *pair)
{
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_connect(pair);
    pair_share(pair);
    pair_publish(pair, 4096, "x", 1, 8, 1);
    CHECK(pair_await(pair, 8, 1, 5000));
    pair_barrier(pair);
    pair_unshare(pair);
    motet_process_close();
}

static void cycles_child(struct pair *pair)
{
    int files = 0, threads = 0, maps = 0;
    alarm(240);
    pair_choose(pair->transport);
    for (int i = 0; i < CYCLES; i++) {
        cycle(pair);
        if (i == 20) {
            files = count_entries("/proc/self/fd");
            threads = count_entries("/proc/self/task");
            maps = count_lines("/proc/self/maps");
        }
    }
    CHECK(count_entries("/proc/self/fd") == files);
    CHECK(count_entries("/proc/self/task") == threads);
    if (!PAIR_SANITIZED) {   /* sanitizers have a thread and maps of their own */
        CHECK(threads == 3); /* ".", ".." and the caller */
        CHECK(count_lines("/proc/self/maps") <= maps + 4);
    }
}

static void test_transport_cycles_leave_descriptors_threads_and_maps_flat(void **state)
{
    (void)state;
    over_all_children(cycles_child);
}

static void on_signal(int number)
{
    (void)number;
}

static void storm_child(struct pair *pair)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    struct itimerval every = {.it_interval = {.tv_usec = 1000}, .it_value = {.tv_usec = 1000}};
    alarm(100);
    pair_choose(pair->transport);
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGVTALRM, &action, NULL);
    CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0 && setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (int i = 0; i < 20; i++)
        cycle(pair);
}

static void test_transport_survives_a_storm_of_signals(void **state)
{
    (void)state;
    over_all_children(storm_child);
}

/* ---- P2P/direct ---- */

static void test_direct_own_process_maps_itself_and_gets_its_own_messages(void **state)
{
    (void)state;
    struct pair pair = {.side = 0};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        pair_choose("P2P/direct");
        CHECK(motet_process_open(&pair.me) == motetSuccess);
        const struct motet_process *peers[2] = {&pair.me, &pair.me};
        struct motet_endpoint *endpoints[2];
        CHECK(motet_endpoint_connect(peers, 2, &pair.secret, motet_deadline_ns(1000), NULL, endpoints) == motetSuccess);
        CHECK(endpoints[0] == endpoints[1] && strcmp(endpoints[0]->transport->name, "P2P/direct") == 0);
        CHECK(endpoints[0]->segment == motet_segment_base());
        void *none = NULL;
        CHECK(motet_windows_open(1, &none, 0, endpoints, 1, pair_on_control, &pair, &pair.key) == motetSuccess);
        motet_endpoint_control(endpoints[0], pair.key, MOTET_CONTROL_AUDIT, "self", 4);
        CHECK(pair.controls == 1 && strcmp(pair.control_text, "self") == 0);
        uint32_t ticket = motet_doorbell_ticket();
        motet_doorbell_ring(endpoints[0]);
        motet_doorbell_wait(ticket, UINT64_MAX);
        CHECK(!motet_endpoint_progress(endpoints[0]));
        motet_windows_close(pair.key);
        motet_endpoint_release(endpoints[0]);
        motet_endpoint_release(endpoints[1]);
        motet_process_close();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transport_block_of_every_size_arrives_whole_and_alone),
        cmocka_unit_test(test_transport_bytes_are_there_before_their_word),
        cmocka_unit_test(test_transport_full_output_refuses_then_takes_and_loses_nothing),
        cmocka_unit_test(test_transport_control_messages_arrive_in_order),
        cmocka_unit_test(test_transport_death_is_noticed_within_two_seconds_with_a_cause),
        cmocka_unit_test(test_transport_data_sent_before_death_arrives),
        cmocka_unit_test(test_transport_orderly_end_delivers_everything_and_is_called_so),
        cmocka_unit_test(test_transport_two_communicators_made_at_once_share_one_endpoint),
        cmocka_unit_test(test_transport_different_secrets_never_meet),
        cmocka_unit_test(test_transport_greeting_for_another_communicator_is_repeated),
        cmocka_unit_test(test_transport_abort_ends_connecting),
        cmocka_unit_test(test_transport_peer_that_died_before_connecting_is_an_error_soon),
        cmocka_unit_test(test_transport_cycles_leave_descriptors_threads_and_maps_flat),
        cmocka_unit_test(test_transport_survives_a_storm_of_signals),
        cmocka_unit_test(test_direct_own_process_maps_itself_and_gets_its_own_messages),
    };
    alarm(PAIR_SANITIZED ? 2000 : 580);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
