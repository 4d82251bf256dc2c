/* SPDX-License-Identifier: Apache-2.0
 * Two processes (or two threads) linked by one transport, for tests of endpoints: each end has a region that the other can read, mapped
 * or mirrored, as the layers above use it. Children report by their exit status; CHECK prints and ends the child. */
#ifndef MOTET_TESTS_PAIR_H
#define MOTET_TESTS_PAIR_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"
#include "base/settings.h"
#include "endpoint.h"
#include "segment.h"

#define PAIR_REGION (1u << 20)
#define PAIR_WORDS  64 /* bytes at the start of a region that hold words, zero at first; the rest is poison */
#define PAIR_POISON 0xa5
#define PAIR_MS     1000000ull

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAIR_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PAIR_SANITIZED 1
#endif
#endif
#ifndef PAIR_SANITIZED
#define PAIR_SANITIZED 0
#endif

#define CHECK(condition)                                                                                                          \
    do {                                                                                                                          \
        if (!(condition)) {                                                                                                       \
            fprintf(stderr, "%s:%d: pid %d: failed: %s (errno %d, motet: %s)\n", __FILE__, __LINE__, getpid(), #condition, errno, \
                    motet_error_text());                                                                                          \
            _exit(1);                                                                                                             \
        }                                                                                                                         \
    } while (0)

struct pair {
    int side; /* 0 or 1 */
    int wire; /* socket to the other side's test code */
    const char *transport;
    void (*body)(struct pair *);
    struct motet_process me, peer;
    struct motet_secret secret;
    struct motet_endpoint *endpoint;
    char *region;           /* what I publish; the peer sees a view of it */
    char *view;             /* what I see of the peer's region */
    uint64_t key, peer_key; /* the window where I mirror the peer's region; the peer's window that mirrors mine */
    _Atomic int deaths, controls;
    char cause[160];
    char control_text[64];
    uint64_t death_ns;
};

static inline void pair_write(struct pair *pair, const void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = send(pair->wire, (const char *)bytes + done, len - done, MSG_NOSIGNAL);
        CHECK(n > 0 || errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
}

static inline void pair_read(struct pair *pair, void *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = recv(pair->wire, (char *)bytes + done, len - done, 0);
        CHECK(n > 0 || (n < 0 && errno == EINTR));
        done += n > 0 ? (size_t)n : 0;
    }
}

static inline void pair_barrier(struct pair *pair)
{
    char byte = 'b';
    pair_write(pair, &byte, 1);
    pair_read(pair, &byte, 1);
}

static inline void pair_on_control(void *context, struct motet_endpoint *from, enum motet_control kind, const void *bytes,
                                   size_t len)
{
    struct pair *pair = context;
    (void)from;
    if (kind == MOTET_CONTROL_DEATH) {
        snprintf(pair->cause, sizeof(pair->cause), "%.*s", (int)len, (const char *)bytes);
        pair->death_ns = motet_now_ns();
        atomic_fetch_add(&pair->deaths, 1);
    } else {
        if (len < sizeof(pair->control_text)) {
            memcpy(pair->control_text, bytes, len);
            pair->control_text[len] = '\0';
        }
        atomic_fetch_add(&pair->controls, 1);
    }
    motet_doorbell_ring_self();
}

/* Exchanges descriptions and connects; the process is open. */
static inline void pair_connect(struct pair *pair)
{
    struct {
        struct motet_process process;
        struct motet_secret secret;
    } mine, theirs;
    memset(&mine, 0, sizeof(mine));
    mine.process = pair->me;
    if (pair->side == 0)
        CHECK(motet_random(&mine.secret, sizeof(mine.secret)) == motetSuccess);
    pair_write(pair, &mine, sizeof(mine));
    pair_read(pair, &theirs, sizeof(theirs));
    pair->peer = theirs.process;
    pair->secret = pair->side == 0 ? mine.secret : theirs.secret;
    const struct motet_process *peers[1] = {&pair->peer};
    CHECK(motet_endpoint_connect(peers, 1, &pair->secret, motet_deadline_ns(20000), NULL, &pair->endpoint) == motetSuccess);
}

/* Opens the region and the view of the peer's. */
static inline void pair_share(struct pair *pair)
{
    void *at, *mirror = NULL;
    CHECK(motet_segment_alloc(PAIR_REGION, &at) == motetSuccess);
    pair->region = at;
    memset(pair->region, PAIR_POISON, PAIR_REGION);
    memset(pair->region, 0, PAIR_WORDS);
    if (!pair->endpoint->transport->mapped) {
        CHECK(posix_memalign(&mirror, 64, PAIR_REGION) == 0);
        memset(mirror, PAIR_POISON, PAIR_REGION);
        memset(mirror, 0, PAIR_WORDS);
    }
    CHECK(motet_windows_open(1, &mirror, PAIR_REGION, &pair->endpoint, 1, pair_on_control, pair, &pair->key) == motetSuccess);
    uint64_t mine[2] = {pair->key, 0}, theirs[2];
    CHECK(motet_segment_offset(pair->region, PAIR_REGION, &mine[1]));
    pair_write(pair, mine, sizeof(mine));
    pair_read(pair, theirs, sizeof(theirs));
    pair->peer_key = theirs[0];
    pair->view = mirror ? mirror : pair->endpoint->segment + theirs[1];
}

static inline void pair_unshare(struct pair *pair)
{
    motet_windows_close(pair->key);
    if (!pair->endpoint->transport->mapped)
        free(pair->view);
    motet_segment_free(pair->region);
    motet_endpoint_release(pair->endpoint);
}

static inline uint64_t pair_word(const char *at)
{
    return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}

/* Publishes bytes at `offset` of the own region, then the word at `word_offset`. False: no room now. */
static inline bool pair_try_publish(struct pair *pair, size_t offset, const void *bytes, size_t len, size_t word_offset,
                                    uint64_t word)
{
    if (pair->endpoint->transport->mapped) {
        memcpy(pair->region + offset, bytes, len);
        __atomic_store_n((uint64_t *)(pair->region + word_offset), word, __ATOMIC_RELEASE);
        motet_doorbell_ring(pair->endpoint);
        return true;
    }
    return motet_endpoint_put(pair->endpoint, pair->peer_key, offset, bytes, len, word_offset, word);
}

static inline void pair_publish(struct pair *pair, size_t offset, const void *bytes, size_t len, size_t word_offset, uint64_t word)
{
    for (;;) {
        uint32_t ticket = motet_doorbell_ticket();
        if (pair_try_publish(pair, offset, bytes, len, word_offset, word))
            return;
        motet_endpoint_progress(pair->endpoint);
        motet_doorbell_wait(ticket, motet_now_ns() + 100 * PAIR_MS);
    }
}

/* Sleeps until the peer's word at `offset` is `word` or more, or the deadline. */
static inline bool pair_await(struct pair *pair, size_t offset, uint64_t word, int timeout_ms)
{
    uint64_t deadline_ns = motet_deadline_ns(timeout_ms);
    for (;;) {
        uint32_t ticket = motet_doorbell_ticket();
        while (motet_endpoint_progress(pair->endpoint))
            continue;
        if (pair_word(pair->view + offset) >= word)
            return true;
        if (motet_now_ns() >= deadline_ns)
            return false;
        motet_doorbell_wait(ticket, deadline_ns);
    }
}

static inline void pair_fill(unsigned char *bytes, size_t len, unsigned salt)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + salt * 31 + 1);
}

/* The environment that makes a transport the first choice. */
static inline void pair_choose(const char *transport)
{
    setenv("MOTET_SOCKET_IFNAME", "lo", 0);
    setenv("MOTET_SHM_DISABLE", strcmp(transport, "NET/Socket") == 0 ? "1" : "0", 1);
}

typedef void pair_body(struct pair *pair);

/* Runs `child` in two processes that have only a wire: number of those that did not end with status 0. */
static inline int pair_run_children(const char *transport, pair_body *child, pair_body *body)
{
    int wires[2], failures = 0;
    pid_t pids[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wires) != 0)
        return 2;
    for (int side = 0; side < 2; side++) {
        pids[side] = fork();
        if (pids[side] == 0) {
            close(wires[1 - side]);
            struct pair *pair = calloc(1, sizeof(*pair));
            *pair = (struct pair){.side = side, .wire = wires[side], .transport = transport, .body = body};
            child(pair);
            exit(0);
        }
    }
    close(wires[0]);
    close(wires[1]);
    for (int side = 0; side < 2; side++) {
        int status;
        while (waitpid(pids[side], &status, 0) < 0 && errno == EINTR)
            continue;
        failures += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failures;
}

/* Opens, links, shares, runs the body, and takes everything down again. */
static inline void pair_linked_child(struct pair *pair)
{
    alarm(100);
    pair_choose(pair->transport);
    CHECK(motet_process_open(&pair->me) == motetSuccess);
    pair_connect(pair);
    CHECK(strcmp(pair->endpoint->transport->name, pair->transport) == 0);
    pair_share(pair);
    pair->body(pair);
    pair_unshare(pair);
    motet_process_close();
}

/* Runs `body` in two processes linked by `transport`: number of those that did not end with status 0. */
static inline int pair_run(const char *transport, pair_body *body)
{
    return pair_run_children(transport, pair_linked_child, body);
}

#endif
