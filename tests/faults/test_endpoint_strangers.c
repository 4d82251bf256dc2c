/* SPDX-License-Identifier: Apache-2.0
 * Connections from programs that have no business here: closed at once, reset, silent, talking nonsense, or knowing the protocol but
 * not the secret. The job's own connection must be made all the same, and nothing may be left of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "greeting.h"
#include "pair.h"

#define SILENT 300 /* more than are kept */

static const struct motet_transport *transport_named(const char *name)
{
    int i = 0;
    while (strcmp(motet_transports[i]->name, name) != 0)
        i++;
    return motet_transports[i];
}

static int knock(struct pair *pair)
{
    char where[MOTET_WHERE_MAX];
    for (int tries = 0; tries < 200; tries++) {
        int fd = transport_named(pair->transport)->dial(&pair->me, &pair->peer, 0, where);
        if (fd >= 0)
            return fd;
        usleep(1000);
    }
    CHECK(!"the listener answers");
    return -1;
}

static void say(int fd, const void *bytes, size_t len)
{
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    CHECK(poll(&wanted, 1, 5000) == 1);
    CHECK(send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len);
}

/* The other end closes by itself. */
static void await_close(int fd)
{
    char byte;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    for (;;) {
        CHECK(poll(&wanted, 1, 5000) == 1);
        ssize_t n = recv(fd, &byte, 1, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            break;
        CHECK(n > 0 || errno == EINTR);
    }
    close(fd);
}

static void send_message(int fd, uint32_t kind, uint32_t len, const void *body, size_t body_len)
{
    char bytes[sizeof(struct motet_message) + 1024];
    struct motet_message head = {.magic = MOTET_MESSAGE_MAGIC, .kind = kind, .len = len};
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), body, body_len);
    say(fd, bytes, sizeof(head) + body_len);
}

static struct motet_hello_message hello_of(struct pair *pair)
{
    struct motet_hello_message hello = {.order = MOTET_GREETING_ORDER, .version = MOTET_WIRE_VERSION, .secrets = {1, 2, 3}};
    memcpy(hello.from, pair->me.token, sizeof(hello.from));
    memcpy(hello.to, pair->peer.token, sizeof(hello.to));
    snprintf(hello.transport, sizeof(hello.transport), "%s", pair->transport);
    return hello;
}

static void talk_nonsense(struct pair *pair)
{
    char noise[200];
    struct motet_hello_message hello = hello_of(pair);
    int fd = knock(pair);
    CHECK(motet_random(noise, sizeof(noise)) == motetSuccess);
    say(fd, noise, sizeof(noise));
    await_close(fd);
    send_message(fd = knock(pair), MOTET_GREETING_HELLO, UINT32_MAX, noise, 100); /* no such length */
    await_close(fd);
    send_message(fd = knock(pair), MOTET_GREETING_HELLO, 100, noise, 100); /* wrong length */
    await_close(fd);
    send_message(fd = knock(pair), MOTET_GREETING_OFFER, 0, "", 0); /* out of turn */
    await_close(fd);
    send_message(fd = knock(pair), MOTET_GREETING_VERDICT, 0, "", 0);
    await_close(fd);
    hello.version++;
    send_message(fd = knock(pair), MOTET_GREETING_HELLO, sizeof(hello), &hello, sizeof(hello));
    await_close(fd);
    hello = hello_of(pair);
    hello.lane = UINT32_MAX;
    send_message(fd = knock(pair), MOTET_GREETING_HELLO, sizeof(hello), &hello, sizeof(hello));
    await_close(fd);
    hello = hello_of(pair);
    memset(hello.to, 0x55, sizeof(hello.to)); /* somebody else's process */
    send_message(fd = knock(pair), MOTET_GREETING_HELLO, sizeof(hello), &hello, sizeof(hello));
    await_close(fd);
    /* Everything right but the secret, which this side does not know: held, then a second hello is nonsense. */
    hello = hello_of(pair);
    send_message(fd = knock(pair), MOTET_GREETING_HELLO, sizeof(hello), &hello, sizeof(hello));
    send_message(fd, MOTET_GREETING_HELLO, sizeof(hello), &hello, sizeof(hello));
    await_close(fd);
}

/* Names the right secret without knowing it: the proof fails. `from` is expected, since this side is about to connect. */
static void guess_the_proof(struct pair *pair, uint64_t secret_id)
{
    struct motet_hello_message hello = hello_of(pair);
    uint8_t proof[MOTET_HANDSHAKE_PROOF_LEN];
    struct motet_handshake_nonces nonces;
    int fd = knock(pair);
    hello.secrets[0] = secret_id;
    CHECK(motet_handshake_open(&nonces, hello.opening) == motetSuccess);
    send_message(fd, MOTET_GREETING_HELLO, sizeof(hello), &hello, sizeof(hello));
    CHECK(motet_random(proof, sizeof(proof)) == motetSuccess);
    char reply[sizeof(struct motet_message) + sizeof(struct motet_reply_message)];
    for (size_t got = 0; got < sizeof(reply);) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        CHECK(poll(&wanted, 1, 5000) == 1);
        ssize_t n = recv(fd, reply + got, sizeof(reply) - got, 0);
        CHECK(n > 0);
        got += (size_t)n;
    }
    send_message(fd, MOTET_GREETING_PROOF, sizeof(proof), proof, sizeof(proof));
    await_close(fd);
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

/* The id of a secret as the wire shows it: the hello of somebody who knows it. */
static uint64_t overhear_secret_id(struct pair *pair)
{
    int wires[2];
    struct motet_greeting greeting = {.hello = {.lane = 0}};
    struct motet_message head;
    struct motet_hello_message hello;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, wires) == 0);
    CHECK(motet_secret_add(&pair->secret) == motetSuccess);
    motet_mailbox_open(&greeting.box, wires[0]);
    CHECK(motet_greeting_begin(&greeting) == 0);
    CHECK(recv(wires[1], &head, sizeof(head), MSG_WAITALL) == sizeof(head));
    CHECK(recv(wires[1], &hello, sizeof(hello), MSG_WAITALL) == sizeof(hello));
    motet_secret_remove(&pair->secret);
    greeting.box.fd = -1;
    motet_mailbox_close(&greeting.box);
    close(wires[0]);
    close(wires[1]);
    return hello.secrets[0];
}

static void child(struct pair *pair)
{
    static int silent[SILENT];
    struct motet_endpoint *endpoint;
    alarm(100);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_write(pair, &pair->me, sizeof(pair->me));
    pair_read(pair, &pair->peer, sizeof(pair->peer));
    memset(&pair->secret, 's', sizeof(pair->secret));
    const struct motet_process *peers[1] = {&pair->peer};
    int before = open_files();
    pair_barrier(pair);
    if (pair->side == 1) { /* side 0 is connecting all the while */
        usleep(100000);
        for (int i = 0; i < 100; i++) {
            struct linger reset = {.l_onoff = 1, .l_linger = 0};
            int fd = knock(pair);
            if (i % 2)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
            close(fd);
        }
        talk_nonsense(pair);
        if (memcmp(pair->me.token, pair->peer.token, 16) < 0)
            guess_the_proof(pair, overhear_secret_id(pair));
        for (int i = 0; i < SILENT; i++)
            silent[i] = knock(pair);
    }
    CHECK(motet_endpoint_connect(peers, 1, &pair->secret, motet_deadline_ns(30000), NULL, &endpoint) == motetSuccess);
    CHECK(strcmp(endpoint->transport->name, pair->transport) == 0);
    pair_barrier(pair);
    if (pair->side == 1)
        for (int i = 0; i < SILENT; i++)
            close(silent[i]);
    uint64_t deadline_ns = motet_deadline_ns(10000);
    while (open_files() > before + 4 && motet_now_ns() < deadline_ns)
        usleep(10000);
    CHECK(open_files() <= before + 4); /* the link's own */
    CHECK(!endpoint->dead);
    pair_barrier(pair);
    motet_endpoint_release(endpoint);
    motet_process_close();
}

static void test_endpoint_strangers_neither_stall_nor_leak(void **state)
{
    (void)state;
    for (int i = 0; motet_transports[i]; i++)
        if (motet_transports[i]->dial)
            for (int round = 0; round < 2; round++)
                assert_int_equal(pair_run_children(motet_transports[i]->name, child, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_endpoint_strangers_neither_stall_nor_leak)};
    alarm(200);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
