/* SPDX-License-Identifier: Apache-2.0
 * Two in-process byte streams per lane behind one lock. Every length and every stall comes from one generator per connection, so that a
 * single-threaded test repeats exactly from its seed. */
#include "transport/sim.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct stream {
    char *bytes; /* ring of `capacity` */
    uint64_t read, written;
    bool finished;
};

struct connection {
    pthread_mutex_t lock;
    struct motet_sim_options options;
    uint64_t random, moved;
    int users;
    bool broken;
    struct stream streams[2][MOTET_LANES_MAX]; /* [i]: written by end i */
};

struct motet_channel {
    struct connection *connection;
    int end;
};

/* xorshift64*: enough for drawing lengths. */
static uint64_t draw(struct connection *connection)
{
    uint64_t x = connection->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    connection->random = x;
    return (x * 0x2545f4914f6cdd1dull) >> 16;
}

/* How much of len moves this time. */
static size_t allowed(struct connection *connection, size_t len)
{
    const struct motet_sim_options *options = &connection->options;
    if (options->stall_percent > 0 && draw(connection) % 100 < options->stall_percent)
        return 0;
    if (options->longest > 0) {
        size_t limit = 1 + draw(connection) % options->longest;
        len = len < limit ? len : limit;
    }
    return len;
}

static size_t total(const struct iovec *parts, int nparts)
{
    size_t len = 0;
    for (int i = 0; i < nparts; i++)
        len += parts[i].iov_len;
    return len;
}

/* Copies n bytes between the parts and the ring. */
static void move(struct connection *connection, struct stream *stream, const struct iovec *parts, size_t n, bool sending)
{
    const size_t capacity = connection->options.capacity;
    for (int i = 0; n > 0; i++) {
        size_t len = parts[i].iov_len < n ? parts[i].iov_len : n;
        char *bytes = parts[i].iov_base;
        for (size_t done = 0, step; done < len; done += step) {
            size_t at = (sending ? stream->written : stream->read) % capacity;
            step = capacity - at < len - done ? capacity - at : len - done;
            if (sending) {
                memcpy(stream->bytes + at, bytes + done, step);
                stream->written += step;
            } else {
                memcpy(bytes + done, stream->bytes + at, step);
                stream->read += step;
            }
        }
        n -= len;
    }
}

static ssize_t transfer(struct motet_channel *channel, int lane, const struct iovec *parts, int nparts, bool sending)
{
    struct connection *connection = channel->connection;
    struct stream *stream = &connection->streams[sending ? channel->end : 1 - channel->end][lane];
    ssize_t result;
    pthread_mutex_lock(&connection->lock);
    size_t inside = (size_t)(stream->written - stream->read), len = total(parts, nparts);
    size_t most = sending ? connection->options.capacity - inside : inside;
    if (connection->broken) {
        result = -ECONNRESET;
    } else if (stream->finished && (sending || inside == 0)) {
        result = sending ? -EPIPE : -ESHUTDOWN;
    } else {
        size_t n = allowed(connection, len < most ? len : most);
        move(connection, stream, parts, n, sending);
        connection->moved += n;
        if (connection->options.break_after > 0 && connection->moved >= connection->options.break_after)
            connection->broken = true;
        result = (ssize_t)n;
    }
    pthread_mutex_unlock(&connection->lock);
    return result;
}

static ssize_t sim_send(struct motet_channel *channel, int lane, const struct iovec *parts, int nparts)
{
    return transfer(channel, lane, parts, nparts, true);
}

static ssize_t sim_recv(struct motet_channel *channel, int lane, const struct iovec *parts, int nparts)
{
    return transfer(channel, lane, parts, nparts, false);
}

static int sim_descriptor(struct motet_channel *channel, int lane)
{
    (void)channel;
    (void)lane;
    return -1;
}

static void finish_lanes(struct motet_channel *channel)
{
    for (int lane = 0; lane < channel->connection->options.nlanes; lane++)
        channel->connection->streams[channel->end][lane].finished = true;
}

static void sim_finish(struct motet_channel *channel)
{
    pthread_mutex_lock(&channel->connection->lock);
    finish_lanes(channel);
    pthread_mutex_unlock(&channel->connection->lock);
}

static void free_connection(struct connection *connection)
{
    for (int end = 0; end < 2; end++)
        for (int lane = 0; lane < MOTET_LANES_MAX; lane++)
            free(connection->streams[end][lane].bytes);
    pthread_mutex_destroy(&connection->lock);
    free(connection);
}

static void sim_close(struct motet_channel *channel)
{
    if (!channel)
        return;
    struct connection *connection = channel->connection;
    pthread_mutex_lock(&connection->lock);
    finish_lanes(channel);
    int users = --connection->users;
    pthread_mutex_unlock(&connection->lock);
    if (users == 0)
        free_connection(connection);
    free(channel);
}

static bool sim_reach(const struct motet_process *me, const struct motet_process *peer)
{
    (void)me;
    (void)peer;
    return false;
}

void motet_sim_break(struct motet_channel *channel)
{
    pthread_mutex_lock(&channel->connection->lock);
    channel->connection->broken = true;
    pthread_mutex_unlock(&channel->connection->lock);
}

uint64_t motet_sim_moved(const struct motet_channel *channel)
{
    pthread_mutex_lock(&channel->connection->lock);
    uint64_t moved = channel->connection->moved;
    pthread_mutex_unlock(&channel->connection->lock);
    return moved;
}

static bool make_streams(struct connection *connection)
{
    for (int end = 0; end < 2; end++)
        for (int lane = 0; lane < connection->options.nlanes; lane++)
            if (!(connection->streams[end][lane].bytes = malloc(connection->options.capacity)))
                return false;
    return true;
}

motetResult_t motet_sim_channel_pair(uint64_t seed, const struct motet_sim_options *options, struct motet_channel **a,
                                     struct motet_channel **b)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    struct motet_channel *ends[2] = {malloc(sizeof(**a)), malloc(sizeof(**a))};
    bool made = connection && ends[0] && ends[1];
    if (made) {
        pthread_mutex_init(&connection->lock, NULL);
        connection->options = options ? *options : (struct motet_sim_options){0};
        connection->options.capacity = connection->options.capacity ? connection->options.capacity : 64 * 1024;
        connection->options.nlanes = connection->options.nlanes ? connection->options.nlanes : 1;
        connection->random = seed * 0x9e3779b97f4a7c15ull + 0x6a09e667f3bcc909ull;
        connection->random += connection->random == 0;
        connection->users = 2;
        made = connection->options.nlanes <= MOTET_LANES_MAX && make_streams(connection);
        if (!made) {
            free_connection(connection);
            connection = NULL;
        }
    }
    if (!made) {
        free(connection);
        free(ends[0]);
        free(ends[1]);
        return motet_fail(motetSystemError, "out of memory for a simulated connection");
    }
    for (int end = 0; end < 2; end++)
        *ends[end] = (struct motet_channel){.connection = connection, .end = end};
    *a = ends[0];
    *b = ends[1];
    return motetSuccess;
}

const struct motet_transport motet_sim_transport = {
    .name = "sim",
    .mapped = false,
    .reach = sim_reach,
    .send = sim_send,
    .recv = sim_recv,
    .descriptor = sim_descriptor,
    .finish = sim_finish,
    .close = sim_close,
};
