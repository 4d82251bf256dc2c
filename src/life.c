/* SPDX-License-Identifier: Apache-2.0
 * Links that stand, seen from the service thread: control messages, signs of death, output that callers left behind, and farewells.
 * A broken link is buried in steps: whoever notices stores the cause; then what the peer sent before still arrives, for a short time;
 * then the handlers are told. The end of one stream alone is no news: other streams of the same peer may still carry data. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "link.h"
#include "process.h"
#include "window.h"

#define MS           1000000ull
#define STATUS_NS    (500 * MS) /* how long the exit status of a dead peer may take to become known: its parent may be slow to ask */
#define TOLD_NS      (300 * MS) /* how long others may take to tell of a death that cannot be seen from here */
#define PART_NS      (200 * MS) /* how long what a dead peer sent may still arrive */
#define LISTEN_LOOKS 10         /* in the time after which a silent host is dead */
#define DOUBT_NS \
    (400 * MS) /* a silence must have been seen for so long: after a pause of this host the first answers are on their way */
#define LEAVE_NS (1000 * MS) /* the same for a peer that said goodbye, whose streams end by themselves */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- why a process ended ---- */

/* Whether somebody may still tell why another host's process ended: a process beside it, or the launcher. */
static bool may_be_told(const struct motet_link *gone)
{
    for (const struct motet_link *link = motet_links; link; link = link->next)
        if (link != gone && link->endpoint.process.host_id == gone->endpoint.process.host_id && !atomic_load(&link->broken))
            return true;
    return motet_obituary_has_launcher();
}

/* Tells the processes of other hosts what only this host can see. */
static void tell_others(const struct motet_link *gone)
{
    struct motet_obituary_message message = {.orderly = gone->obituary.orderly};
    memcpy(message.token, gone->endpoint.process.token, sizeof(message.token));
    snprintf(message.text, sizeof(message.text), "%.*s", (int)sizeof(message.text) - 1, gone->obituary.text);
    for (struct motet_link *link = motet_links; link; link = link->next)
        if (link != gone && link->state == MOTET_LINK_READY && link->nlanes > 0 && !atomic_load(&link->broken))
            motet_link_say(link, MOTET_MESSAGE_OBITUARY, 0, &message, sizeof(message));
}

/* The peer's process or a connection to it has ended: says why, as soon as that is known. Returns when to look again, 0: it is said. */
static uint64_t find_cause(struct motet_link *link, uint64_t now_ns)
{
    bool is_local = link->life_watch.fd >= 0;
    int error = atomic_load(&link->lost);
    if (link->told || motet_obituary_find(&link->endpoint.process, link->life_watch.fd, &link->obituary)) {
        link->endpoint.orderly = link->obituary.orderly;
        motet_link_settle(link, "%s", link->obituary.text);
        if (!link->told)
            tell_others(link);
        return 0;
    }
    uint64_t patience_ns = is_local && link->process_gone ? STATUS_NS : error != 0 || may_be_told(link) ? TOLD_NS : 0;
    if (now_ns < link->gone_ns + patience_ns)
        return now_ns + 2 * MS;
    if (error != 0 && !link->process_gone)
        motet_link_settle(link, "connection lost: %s", strerror(-error));
    else if (is_local)
        motet_link_settle(link, "status unknown%s", motet_obituary_has_launcher() ? "" : ": no launcher");
    else
        motet_link_settle(link, "it closed its connections without farewell (status unknown%s)",
                          motet_obituary_has_launcher() ? "" : ": no launcher");
    return 0;
}

/* ---- events ---- */

static void note_gone(struct motet_link *link)
{
    link->process_gone = true;
    if (link->gone_ns == 0)
        link->gone_ns = motet_now_ns();
}

/* A process of the dead one's host says why it died: known before, or instead of, what the own connections show. */
static void take_obituary(const struct motet_obituary_message *message)
{
    pthread_mutex_lock(&motet_links_lock);
    struct motet_link *link = motet_links_find(message->token);
    if (link && link->state == MOTET_LINK_READY && link->nlanes > 0 && !link->told) {
        link->obituary.orderly = message->orderly;
        snprintf(link->obituary.text, sizeof(link->obituary.text), "%.*s", (int)sizeof(message->text), message->text);
        link->told = true;
        note_gone(link);
    }
    pthread_mutex_unlock(&motet_links_lock);
}

static void life_ready(void *context, uint32_t events)
{
    struct motet_link *link = context;
    (void)events;
    motet_service_unwatch(&link->life_watch);
    note_gone(link);
}

/* With the error that made it leave, if one did. */
static void take_farewell(struct motet_link *link, const char *failure, size_t len)
{
    if (!atomic_load(&link->caused)) {
        link->endpoint.left = true;
        link->endpoint.orderly = len == 0;
    }
    if (len == 0)
        motet_link_settle(link, "left: it destroyed its last communicator");
    else
        motet_link_settle(link, "left after an error: %.*s", (int)len, failure);
}

static void say_farewell(struct motet_link *link)
{
    char failure[300];
    motet_process_failure(failure);
    motet_link_say(link, MOTET_MESSAGE_BYE, 0, failure, strlen(failure));
}

/* Nothing can still be on its way from there. */
static void settle_silent(struct motet_link *link, const char *how, uint64_t now_ns)
{
    motet_link_settle(link, "silent for too long: host or network down (%s)", how);
    if (link->gone_ns == 0)
        link->gone_ns = now_ns;
}

static void read_control(struct motet_link *link)
{
    int result;
    while ((result = motet_mailbox_read(&link->control, false)) == 1) {
        const struct motet_message *message = &link->control.message;
        if (message->kind == MOTET_MESSAGE_BYE)
            take_farewell(link, (const char *)link->control.body, message->len);
        else if (message->kind == MOTET_MESSAGE_OBITUARY && message->len == sizeof(struct motet_obituary_message))
            take_obituary((const struct motet_obituary_message *)link->control.body);
        else if (message->kind == MOTET_MESSAGE_ASK || message->kind == MOTET_MESSAGE_TELL)
            motet_guest.message(link, message->kind, link->control.body, message->len);
        else if (message->kind > MOTET_CONTROL_DEATH && message->kind < MOTET_CONTROL_KINDS)
            motet_window_deliver(message->key, &link->endpoint, (enum motet_control)message->kind, link->control.body,
                                 message->len);
    }
    if (result == 0)
        return;
    motet_service_unwatch(&link->control_watch);
    if (result == -ETIMEDOUT || result == -EHOSTUNREACH || result == -ENETUNREACH)
        settle_silent(link, strerror(-result), motet_now_ns());
    else if (result == -EBADMSG)
        motet_link_settle(link, "sent bytes that make no sense (corrupted connection)");
    else
        note_gone(link);
}

static void control_ready(void *context, uint32_t events)
{
    struct motet_link *link = context;
    if (events & EPOLLOUT) {
        pthread_mutex_lock(&link->control_lock);
        int error = motet_mailbox_flush(&link->control);
        if (error < 0 || !motet_mailbox_pending(&link->control))
            motet_service_rewatch(&link->control_watch, EPOLLIN | EPOLLRDHUP);
        pthread_mutex_unlock(&link->control_lock);
    }
    if (events & ~(uint32_t)EPOLLOUT)
        read_control(link);
}

/* Once per arming: the stream takes more, or it has ended. */
static void lane_ready(void *context, uint32_t events)
{
    struct motet_lane_watch *watch = context;
    struct motet_link *link = watch->link;
    struct motet_lane *lane = &link->lanes[watch->lane];
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        for (int reads = 0; reads < 16 && motet_link_read_lane(link, watch->lane); reads++)
            continue;
    /* Armed for the end again, then for output: whoever puts between the two finds `armed` set and leaves its rest to the flush below. */
    if (!(atomic_load(&link->ended) & 1u << watch->lane))
        motet_service_rewatch(&watch->watch, EPOLLRDHUP | EPOLLONESHOT);
    atomic_store(&lane->armed, false);
    if (atomic_load(&link->broken))
        return;
    motet_link_flush_lane(link, watch->lane);
    if (atomic_load(&lane->pending))
        motet_link_arm_output(link, watch->lane);
}

/* ---- watching ---- */

motetResult_t motet_link_watch(struct motet_link *link)
{
    const struct motet_transport *transport = link->endpoint.transport;
    link->control_watch = (struct motet_watch){.fd = link->control.fd, .ready = control_ready, .context = link};
    TRY(motet_service_watch(&link->control_watch, EPOLLIN | EPOLLRDHUP));
    link->life_watch =
        (struct motet_watch){.fd = transport->watch ? transport->watch(link->channel) : -1, .ready = life_ready, .context = link};
    if (link->life_watch.fd >= 0)
        TRY(motet_service_watch(&link->life_watch, EPOLLIN));
    for (int i = 0; i < link->nlanes; i++) {
        struct motet_lane_watch *watch = &link->lane_watches[i];
        *watch = (struct motet_lane_watch){.link = link, .lane = i};
        watch->watch = (struct motet_watch){.fd = transport->descriptor(link->channel, i), .ready = lane_ready, .context = watch};
        TRY(motet_service_watch(&watch->watch, EPOLLRDHUP | EPOLLONESHOT));
        motet_doorbell_add(watch->watch.fd, link->serial, i);
    }
    return motetSuccess;
}

void motet_link_unwatch(struct motet_link *link)
{
    motet_service_unwatch(&link->control_watch);
    motet_service_unwatch(&link->life_watch);
    for (int i = 0; i < link->nlanes; i++) {
        motet_service_unwatch(&link->lane_watches[i].watch);
        motet_doorbell_remove(link->lane_watches[i].watch.fd);
    }
}

/* ---- silence ---- */

/* How long the link has waited for an answer: on its control connection, or on a lane for as much beyond the limit. A lane with bytes under way
 * sends them again after ever longer times: after a pause that the control connection has outlived it may be silent for twice as long. */
static int64_t silent_ms(struct motet_link *link, uint64_t now_ns, int64_t limit_ms)
{
    const struct motet_transport *transport = link->endpoint.transport;
    int64_t most_ms = transport->silent_ms(link->control.fd, 0, now_ns, &link->silences[0]);
    for (int i = 0; i < link->nlanes; i++) {
        int fd = atomic_load(&link->ended) & 1u << i ? -1 : transport->descriptor(link->channel, i);
        int64_t lane_ms = fd < 0 ? -1 : transport->silent_ms(fd, 1 + i, now_ns, &link->silences[1 + i]) - limit_ms;
        most_ms = lane_ms > most_ms ? lane_ms : most_ms;
    }
    return most_ms;
}

/* Whether the peer's host still answers: now and then, and when its time is up. Returns when to look again. */
static uint64_t listen_to(struct motet_link *link, uint64_t now_ns)
{
    const struct motet_transport *transport = link->endpoint.transport;
    if (!transport->silent_ms || link->nlanes == 0 || link->finished)
        return UINT64_MAX;
    if (now_ns < link->listen_ns)
        return link->listen_ns;
    int64_t limit_ms = transport->silence_limit_ms(), left_ms = limit_ms - silent_ms(link, now_ns, limit_ms);
    link->listen_ns = now_ns + (uint64_t)limit_ms * MS / LISTEN_LOOKS;
    if (left_ms > limit_ms / 4) {
        link->doubt_ns = 0;
        return link->listen_ns;
    }
    if (link->doubt_ns == 0)
        link->doubt_ns = now_ns;
    uint64_t due_ns = earlier(left_ms > 0 ? now_ns + (uint64_t)left_ms * MS : now_ns, link->listen_ns);
    if (due_ns < link->doubt_ns + DOUBT_NS)
        due_ns = link->doubt_ns + DOUBT_NS;
    if (due_ns > now_ns)
        return link->listen_ns = due_ns;
    motet_service_unwatch(&link->control_watch);
    settle_silent(link, "no answer", now_ns);
    return now_ns;
}

/* ---- burial ---- */

static bool all_ended(struct motet_link *link)
{
    return atomic_load(&link->ended) == (1u << link->nlanes) - 1;
}

/* Reads once more what has arrived on all lanes. */
static void read_rest(struct motet_link *link)
{
    for (int i = 0; i < link->nlanes; i++)
        while (motet_link_read_lane(link, i))
            continue;
}

/* One READY link under the lock: when to look again, 0 when it must be buried now. */
static uint64_t tick_link(struct motet_link *link, uint64_t now_ns)
{
    bool broken = atomic_load_explicit(&link->caused, memory_order_acquire);
    if (!broken && link->gone_ns == 0 && atomic_load(&link->lost) != 0)
        link->gone_ns = now_ns;
    if (!broken && link->gone_ns != 0) {
        uint64_t again_ns = find_cause(link, now_ns);
        if (again_ns != 0)
            return again_ns;
        broken = true;
    }
    uint64_t listen_ns = broken ? 0 : listen_to(link, now_ns);
    broken = broken || atomic_load_explicit(&link->caused, memory_order_acquire);
    if (!broken && atomic_load(&link->ended) != 0) {
        if (link->ended_ns == 0)
            link->ended_ns = now_ns;
        if (now_ns < link->ended_ns + LEAVE_NS)
            return earlier(link->ended_ns + LEAVE_NS, listen_ns);
        motet_link_settle(link, "a data connection was closed");
        broken = true;
    }
    if (!broken)
        return listen_ns;
    if (link->part_ns == 0)
        link->part_ns = now_ns + (link->gone_ns ? PART_NS : LEAVE_NS);
    if (link->nlanes == 0 || all_ended(link) || now_ns >= link->part_ns)
        return 0;
    return link->part_ns;
}

/* Out of the table, not watched, announced. */
static void bury(struct motet_link *link)
{
    motet_link_unwatch(link);
    read_rest(link);
    if (link->nlanes > 0) /* a peer that said goodbye waits for the end of these streams before it closes its own */
        link->endpoint.transport->finish(link->channel);
    INFO(MOTET_LOG_NET, "pid %d on %s: %s", link->endpoint.process.pid, link->endpoint.process.host_name, link->endpoint.cause);
    motet_link_announce(link);
    pthread_mutex_lock(&motet_links_lock);
    motet_links_remove(link);
    pthread_mutex_unlock(&motet_links_lock);
}

uint64_t motet_links_tick(uint64_t now_ns)
{
    for (;;) {
        uint64_t wake_ns = UINT64_MAX;
        struct motet_link *due = NULL;
        pthread_mutex_lock(&motet_links_lock);
        for (struct motet_link *link = motet_links; link && !due; link = link->next) {
            uint64_t again_ns = link->state == MOTET_LINK_READY && link->channel ? tick_link(link, now_ns) : UINT64_MAX;
            if (again_ns == 0)
                due = link;
            wake_ns = earlier(wake_ns, again_ns);
        }
        pthread_mutex_unlock(&motet_links_lock);
        if (!due)
            return wake_ns;
        bury(due); /* outside the lock: handlers run */
    }
}

/* ---- farewell ---- */

static bool output_waits(struct motet_link *link)
{
    bool waits = false;
    for (int i = 0; i < link->nlanes; i++)
        waits = waits || atomic_load(&link->lanes[i].pending);
    return waits;
}

/* One link of a process that closes: true when nothing more is due. */
static bool finish_link(struct motet_link *link, uint64_t now_ns, uint64_t deadline_ns)
{
    if (!link->channel || link->state != MOTET_LINK_READY || atomic_load(&link->broken) || now_ns >= deadline_ns)
        return true;
    if (!link->finished && output_waits(link))
        return false; /* the lanes' watches send it */
    if (!link->finished) {
        link->finished = true;
        if (link->nlanes > 0)
            link->endpoint.transport->finish(link->channel);
        say_farewell(link);
    }
    /* Closing a socket with unread input would throw away what the peer has not read yet: so the peer's streams must end first. */
    return link->nlanes == 0 ? !motet_mailbox_pending(&link->control) : all_ended(link);
}

bool motet_links_finish(uint64_t now_ns, uint64_t deadline_ns)
{
    bool done = true;
    pthread_mutex_lock(&motet_links_lock);
    for (struct motet_link *link = motet_links; link; link = link->next)
        done = finish_link(link, now_ns, deadline_ns) && done;
    pthread_mutex_unlock(&motet_links_lock);
    return done;
}
