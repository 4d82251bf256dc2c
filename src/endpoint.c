/* SPDX-License-Identifier: Apache-2.0
 * Endpoints: the table of links to peer processes, remote writes, control messages, and how a link dies. How links come about is in
 * connect.c; what runs on the service thread is there too. Data that arrives goes to windows (window.h) whichever thread reads it. */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/log.h"
#include "link.h"
#include "segment.h"
#include "transport/rows.h"
#include "transport/sim.h"
#include "window.h"

pthread_mutex_t motet_links_lock = PTHREAD_MUTEX_INITIALIZER;
struct motet_link *motet_links;

/* ---- life ---- */

struct motet_link *motet_link_make(const struct motet_process *peer)
{
    static _Atomic uint64_t next_serial = 1;
    struct motet_link *link = calloc(1, sizeof(*link));
    if (!link)
        return NULL;
    link->endpoint.process = *peer;
    link->endpoint.state = link;
    link->serial = atomic_fetch_add(&next_serial, 1);
    link->control.fd = link->control_watch.fd = link->life_watch.fd = -1;
    atomic_store(&link->refs, 1);
    pthread_mutex_init(&link->control_lock, NULL);
    return link;
}

static void free_link(struct motet_link *link)
{
    if (link->is_simulated) {
        motet_doorbell_poll(-1);
        pthread_mutex_lock(&motet_links_lock);
        if (link->twin)
            link->twin->twin = NULL;
        pthread_mutex_unlock(&motet_links_lock);
    }
    for (int i = 0; i < link->nlanes; i++)
        motet_lane_close(&link->lanes[i]);
    if (link->channel)
        link->endpoint.transport->close(link->channel);
    motet_mailbox_close(&link->control);
    pthread_mutex_destroy(&link->control_lock);
    free(link->lanes);
    free(link->lane_watches);
    free(link);
}

void motet_link_unref(struct motet_link *link)
{
    /* Release: what this thread did with the link happens before the free; acquire: the freeing thread sees what all others did. */
    if (atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) == 1)
        free_link(link);
}

void motet_endpoint_retain(struct motet_endpoint *endpoint)
{
    atomic_fetch_add_explicit(&motet_link_of(endpoint)->refs, 1, memory_order_relaxed);
}

void motet_endpoint_release(struct motet_endpoint *endpoint)
{
    if (endpoint)
        motet_link_unref(motet_link_of(endpoint));
}

static uint64_t socket_buffer(int fd, int option)
{
    int bytes = 0;
    socklen_t len = sizeof(bytes);
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, option, &bytes, &len) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

uint64_t motet_endpoint_buffers(struct motet_endpoint *endpoint)
{
    struct motet_link *link = motet_link_of(endpoint);
    uint64_t sum = 0;
    for (int i = 0; i < link->nlanes; i++) {
        int fd = link->is_simulated ? -1 : endpoint->transport->descriptor(link->channel, i);
        sum += MOTET_LANE_OUTPUT + MOTET_LANE_INPUT + socket_buffer(fd, SO_SNDBUF) + socket_buffer(fd, SO_RCVBUF);
    }
    return sum;
}

uint64_t motet_endpoint_busy_ns(struct motet_endpoint *endpoint)
{
    struct motet_link *link = motet_link_of(endpoint);
    uint64_t most_ns = 0;
    for (int i = 0; i < link->nlanes && !link->is_simulated && endpoint->transport->busy_ns; i++) {
        uint64_t ns = endpoint->transport->busy_ns(link->channel, i);
        most_ns = ns > most_ns ? ns : most_ns;
    }
    return most_ns;
}

static motetResult_t open_lanes(struct motet_link *link, const struct motet_transport *transport, int nlanes)
{
    link->lanes = calloc((size_t)nlanes, sizeof(*link->lanes));
    link->lane_watches = calloc((size_t)nlanes, sizeof(*link->lane_watches));
    if (!link->lanes || !link->lane_watches)
        return motet_fail(motetSystemError, "out of memory for a connection");
    for (int i = 0; i < nlanes; i++) {
        TRY(motet_lane_open(&link->lanes[i], transport, link->channel, i));
        link->lane_watches[i].watch.fd = -1;
        link->nlanes++;
    }
    return motetSuccess;
}

motetResult_t motet_link_attach(struct motet_link *link, const struct motet_transport *transport, struct motet_channel *channel,
                                struct motet_mailbox *control)
{
    size_t len;
    link->endpoint.transport = transport;
    link->channel = channel;
    if (control) {
        link->control = *control;
        motet_mailbox_open(control, -1);
    }
    if (!transport->mapped)
        return open_lanes(link, transport, transport->lanes ? transport->lanes() : 1);
    link->endpoint.segment = channel ? transport->map(channel, &len) : motet_segment_base();
    return motetSuccess;
}

/* ---- the table ---- */

void motet_links_add(struct motet_link *link)
{
    motet_endpoint_retain(&link->endpoint);
    link->next = motet_links;
    motet_links = link;
}

void motet_links_remove(struct motet_link *link)
{
    for (struct motet_link **at = &motet_links; *at; at = &(*at)->next)
        if (*at == link) {
            *at = link->next;
            link->next = NULL;
            motet_link_unref(link);
            return;
        }
}

struct motet_link *motet_links_find(const uint8_t token[16])
{
    struct motet_link *link = motet_links;
    while (link && memcmp(link->endpoint.process.token, token, 16) != 0)
        link = link->next;
    return link;
}

void motet_links_read(uint64_t serial, int lane)
{
    pthread_mutex_lock(&motet_links_lock);
    struct motet_link *link = motet_links;
    while (link && link->serial != serial)
        link = link->next;
    if (link)
        motet_endpoint_retain(&link->endpoint);
    pthread_mutex_unlock(&motet_links_lock);
    if (!link)
        return;
    if (lane < link->nlanes)
        motet_link_read_lane(link, lane);
    motet_link_unref(link);
}

/* ---- death ---- */

void motet_link_lose(struct motet_link *link, int error)
{
    if (atomic_exchange(&link->broken, true))
        return;
    atomic_store(&link->lost, error);
    motet_service_wake();
}

static void write_cause(struct motet_link *link, const char *format, va_list arguments)
{
    vsnprintf(link->endpoint.cause, sizeof(link->endpoint.cause), format, arguments);
    /* Release: whoever sees `caused` sees the text. */
    atomic_store_explicit(&link->caused, true, memory_order_release);
    motet_service_wake();
}

void motet_link_break(struct motet_link *link, const char *format, ...)
{
    if (atomic_exchange(&link->broken, true))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_cause(link, format, arguments);
    va_end(arguments);
}

void motet_link_settle(struct motet_link *link, const char *format, ...)
{
    /* Whoever broke it writes the cause, unless a stream was lost: then it is left to this thread. */
    if (atomic_exchange(&link->broken, true) && (atomic_load(&link->lost) == 0 || atomic_load(&link->caused)))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_cause(link, format, arguments);
    va_end(arguments);
}

void motet_link_announce(struct motet_link *link)
{
    if (atomic_exchange(&link->announced, true))
        return;
    /* `dead` before the handlers are called: windows opened from now on see it themselves. Release: the cause is there. */
    atomic_store_explicit(&link->endpoint.dead, true, memory_order_release);
    motet_windows_announce_death(&link->endpoint);
    motet_doorbell_ring_self();
}

/* What a failed read or write means, in words. */
static void break_by_error(struct motet_link *link, int error)
{
    if (error == -EBADMSG)
        motet_link_break(link, "sent bytes that make no sense (corrupted connection)");
    else if (error == -ESHUTDOWN)
        motet_link_break(link, "closed the connection");
    else if (error == -ETIMEDOUT)
        motet_link_break(link, "does not answer (connection timed out)");
    else if (!link->is_simulated)
        motet_link_lose(link, error);
    else
        motet_link_break(link, "connection lost: %s", strerror(-error));
}

/* ---- remote writes ---- */

void motet_link_arm_output(struct motet_link *link, int lane)
{
    struct motet_watch *watch = &link->lane_watches[lane].watch;
    bool ended = atomic_load(&link->ended) & 1u << lane;
    if (watch->fd >= 0 && !atomic_exchange(&link->lanes[lane].armed, true))
        motet_service_rewatch(watch, EPOLLOUT | EPOLLONESHOT | (ended ? 0 : EPOLLRDHUP));
}

bool motet_endpoint_put(struct motet_endpoint *endpoint, uint64_t key, uint64_t offset, const void *bytes, size_t len,
                        uint64_t word_offset, uint64_t word)
{
    struct motet_link *link = motet_link_of(endpoint);
    assert(link->nlanes > 0 && len <= MOTET_PUT_MAX);
    if (atomic_load_explicit(&link->broken, memory_order_relaxed))
        return true;
    /* One window always takes the same lane, so its puts stay in order. */
    int index = (int)(key % (uint64_t)link->nlanes);
    struct motet_lane *lane = &link->lanes[index];
    struct motet_put frame = {.len = (uint32_t)len, .key = key, .offset = offset, .word_offset = word_offset, .word = word};
    int result = motet_lane_put(lane, &frame, bytes);
    if (result < 0) {
        break_by_error(link, result);
        return true;
    }
    if (atomic_load_explicit(&lane->pending, memory_order_relaxed))
        motet_link_arm_output(link, index);
    if (link->is_simulated)
        motet_doorbell_ring_self();
    return result > 0;
}

bool motet_link_flush_lane(struct motet_link *link, int index)
{
    struct motet_lane *lane = &link->lanes[index];
    int result = motet_lane_flush(lane);
    if (result < 0 && !atomic_load(&link->broken))
        break_by_error(link, result);
    if (result > 0 && atomic_exchange(&lane->room_wanted, false))
        motet_doorbell_ring_self();
    return result > 0;
}

bool motet_link_read_lane(struct motet_link *link, int index)
{
    uint32_t bit = 1u << index;
    if (atomic_load_explicit(&link->ended, memory_order_relaxed) & bit)
        return false;
    int result = motet_lane_read(&link->lanes[index]);
    if (result > 0) /* what arrived may be what another thread is about to sleep for, and the socket no longer tells it */
        motet_doorbell_ring_self();
    if (result >= 0)
        return result > 0;
    atomic_fetch_or(&link->ended, bit);
    motet_doorbell_remove(link->lane_watches[index].watch.fd);
    /* The end of a stream is no news by itself: the control connection says whether the peer left, died, or lost a socket. */
    if (result != -ESHUTDOWN || link->is_simulated)
        break_by_error(link, result);
    motet_service_wake();
    return false;
}

bool motet_endpoint_progress(struct motet_endpoint *endpoint)
{
    struct motet_link *link = motet_link_of(endpoint);
    bool moved = false;
    for (int i = 0; i < link->nlanes; i++) {
        if (atomic_load_explicit(&link->lanes[i].pending, memory_order_relaxed) && !atomic_load(&link->broken))
            motet_link_flush_lane(link, i);
        moved |= motet_link_read_lane(link, i);
    }
    /* Links of the table are buried by the service thread, simulated ones here. */
    if (link->is_simulated && atomic_load_explicit(&link->caused, memory_order_acquire))
        motet_link_announce(link);
    return moved;
}

/* ---- control messages ---- */

static void deliver_to_twin(struct motet_link *link, uint64_t key, enum motet_control kind, const void *bytes, size_t len)
{
    pthread_mutex_lock(&motet_links_lock);
    struct motet_link *twin = link->twin;
    if (twin)
        motet_endpoint_retain(&twin->endpoint);
    pthread_mutex_unlock(&motet_links_lock);
    if (!twin)
        return;
    motet_window_deliver(key, &twin->endpoint, kind, bytes, len);
    motet_link_unref(twin);
}

motetResult_t motet_link_say(struct motet_link *link, uint32_t kind, uint64_t key, const void *bytes, size_t len)
{
    pthread_mutex_lock(&link->control_lock);
    int error = link->control.fd < 0 ? -ENOTCONN : motet_mailbox_send(&link->control, kind, key, bytes, len, NULL, 0);
    if (error == 0 && motet_mailbox_pending(&link->control))
        motet_service_rewatch(&link->control_watch, EPOLLIN | EPOLLRDHUP | EPOLLOUT);
    pthread_mutex_unlock(&link->control_lock);
    if (error == -ENOBUFS)
        motet_link_break(link, "does not read its control messages");
    else if (error < 0)
        break_by_error(link, error);
    return error < 0 ? motetRemoteError : motetSuccess;
}

void motet_endpoint_control(struct motet_endpoint *endpoint, uint64_t key, enum motet_control kind, const void *bytes, size_t len)
{
    struct motet_link *link = motet_link_of(endpoint);
    assert(len <= MOTET_MESSAGE_BODY_MAX);
    if (atomic_load_explicit(&link->broken, memory_order_relaxed))
        return;
    if (link->endpoint.transport == &motet_direct_transport)
        motet_window_deliver(key, endpoint, kind, bytes, len);
    else if (link->is_simulated)
        deliver_to_twin(link, key, kind, bytes, len);
    else
        motet_link_say(link, kind, key, bytes, len);
}

/* ---- simulated pairs ---- */

static motetResult_t make_simulated(const char *name, struct motet_channel *channel, int nlanes, struct motet_link **made)
{
    struct motet_process process = {.pid = -1};
    snprintf(process.host_name, sizeof(process.host_name), "%s", name);
    struct motet_link *link = motet_link_make(&process);
    if (!link)
        return motet_fail(motetSystemError, "out of memory for an endpoint");
    *made = link;
    link->is_simulated = true;
    motet_doorbell_poll(1);
    link->state = MOTET_LINK_READY;
    link->endpoint.transport = &motet_sim_transport;
    link->channel = channel;
    return open_lanes(link, &motet_sim_transport, nlanes);
}

motetResult_t motet_sim_endpoint_pair(uint64_t seed, const struct motet_sim_options *options, struct motet_endpoint **a,
                                      struct motet_endpoint **b)
{
    struct motet_channel *channels[2];
    struct motet_link *links[2] = {NULL, NULL};
    int nlanes = options && options->nlanes > 0 ? options->nlanes : 1;
    TRY(motet_sim_channel_pair(seed, options, &channels[0], &channels[1]));
    motetResult_t result = make_simulated("sim-a", channels[0], nlanes, &links[0]);
    if (result == motetSuccess)
        result = make_simulated("sim-b", channels[1], nlanes, &links[1]);
    if (result != motetSuccess) {
        for (int i = 0; i < 2; i++) {
            if (links[i])
                motet_link_unref(links[i]);
            else
                motet_sim_transport.close(channels[i]);
        }
        return result;
    }
    links[0]->twin = links[1];
    links[1]->twin = links[0];
    *a = &links[0]->endpoint;
    *b = &links[1]->endpoint;
    return motetSuccess;
}

void motet_sim_endpoint_break(struct motet_endpoint *endpoint)
{
    motet_sim_break(motet_link_of(endpoint)->channel);
}
