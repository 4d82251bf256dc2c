/* SPDX-License-Identifier: Apache-2.0
 * Meetings: sockets in their greeting, accepted or dialed. Anybody can open one, so each has a time limit, their number is limited, and
 * nothing in a stranger's bytes reaches further than its own end. */
#include "meeting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/net.h"
#include "base/os.h"

#define STRANGERS_MAX  256                /* meetings that have proved nothing; more, and the oldest goes */
#define STRANGER_NS    (10000 * MOTET_MS) /* to say hello and to prove */
#define HELD_NS        (60000 * MOTET_MS) /* to wait for this side to want the link */
#define ACCEPT_REST_NS (100 * MOTET_MS)   /* after running out of descriptors */

struct acceptor {
    struct motet_watch watch;
    const struct motet_transport *transport;
    uint64_t rest_ns; /* not 0: paused until then */
};

static const struct motet_process *me;
static struct motet_meeting *meetings;
static int nstrangers;
static struct acceptor *acceptors;
static int nacceptors;

static void meeting_ready(void *context, uint32_t events);

struct motet_meeting *motet_meeting_make(int fd, const struct motet_transport *transport, bool dials)
{
    struct motet_meeting *meeting = calloc(1, sizeof(*meeting));
    if (!meeting) {
        motet_descriptor_close(fd);
        return NULL;
    }
    motet_mailbox_open(&meeting->greeting.box, fd);
    meeting->watch = (struct motet_watch){.fd = fd, .ready = meeting_ready, .context = meeting};
    meeting->transport = transport;
    meeting->dials = meeting->connecting = dials;
    meeting->since_ns = motet_now_ns();
    meeting->next = meetings;
    meetings = meeting;
    nstrangers += !dials;
    return meeting;
}

void motet_meeting_end(struct motet_meeting *meeting)
{
    struct motet_meeting **at = &meetings;
    while (*at && *at != meeting)
        at = &(*at)->next;
    if (*at)
        *at = meeting->next;
    nstrangers -= !meeting->dials && !meeting->attempt;
    motet_service_unwatch(&meeting->watch);
    motet_mailbox_close(&meeting->greeting.box);
    free(meeting);
}

void motet_meeting_adopt(struct motet_meeting *meeting, struct motet_attempt *attempt)
{
    meeting->attempt = attempt;
    meeting->until_ns = UINT64_MAX;
    nstrangers--;
}

void motet_meeting_rewatch(struct motet_meeting *meeting)
{
    uint32_t out = meeting->connecting || motet_mailbox_pending(&meeting->greeting.box) ? EPOLLOUT : 0;
    uint32_t events = out | (meeting->connecting ? 0 : EPOLLIN);
    if (events != meeting->events)
        motet_service_rewatch(&meeting->watch, events);
    meeting->events = events;
}

motetResult_t motet_meeting_watch(struct motet_meeting *meeting)
{
    meeting->events = meeting->connecting ? EPOLLOUT : EPOLLIN;
    return motet_service_watch(&meeting->watch, meeting->events);
}

/* The connection is over: the attempt it belongs to failed, or a stranger is gone. */
static void meeting_failed(struct motet_meeting *meeting, int error, const char *why)
{
    if (meeting->attempt) {
        motet_attempt_failed(meeting->attempt, error, why);
        return;
    }
    INFO(MOTET_LOG_NET, "%s: a connection was closed before it proved who it is: %s", meeting->transport->name, why);
    motet_meeting_end(meeting);
}

static const char *error_text(const struct motet_meeting *meeting, int error)
{
    if (error == -ESHUTDOWN)
        return meeting->dials ? "it closed the connection" : "closed";
    if (error == -EPROTO || error == -EBADMSG)
        return "it does not speak this protocol, or another version of it";
    if (error == -EACCES)
        return "it does not know this job's secret: another job or program";
    return strerror(-error);
}

/* ---- greeting ---- */

/* The connection stands, or it was refused. */
static int finish_connecting(struct motet_meeting *meeting)
{
    int error = 0;
    socklen_t len = sizeof(error);
    union motet_address peer;
    if (getsockopt(meeting->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    if (error)
        return -error;
    if (motet_net_peer(meeting->watch.fd, &peer) != motetSuccess)
        return -ECONNRESET;
    meeting->connecting = false;
    /* From here on only the peer's death or the waiting caller's deadline ends it: a peer may be late. */
    meeting->until_ns = UINT64_MAX;
    return motet_attempt_connected(meeting);
}

/* A hello has arrived: answers it when this side wants the link too, and holds it until then. */
static int answer_hello(struct motet_meeting *meeting)
{
    const struct motet_hello_message *hello = &meeting->greeting.hello;
    if (memcmp(hello->to, me->token, sizeof(hello->to)) != 0 || strcmp(hello->transport, meeting->transport->name) != 0)
        return -EPROTO;
    pthread_mutex_lock(&motet_links_lock);
    struct motet_link *link = motet_links_find(hello->from);
    bool wanted = link && link->state == MOTET_LINK_CONNECTING;
    bool stands = link && link->state == MOTET_LINK_READY;
    pthread_mutex_unlock(&motet_links_lock);
    meeting->until_ns = wanted ? motet_now_ns() + STRANGER_NS : meeting->since_ns + HELD_NS;
    int error = wanted ? motet_greeting_answer(&meeting->greeting) : -EAGAIN;
    if (error == -EAGAIN && stands)
        INFO(MOTET_LOG_NET, "%s: a peer that is connected dials again; it is held", meeting->transport->name);
    return error == -EAGAIN ? 0 : error;
}

/* One complete message: 0 = go on, 1 = the meeting is gone, negative = it failed. */
static int take_message(struct motet_meeting *meeting)
{
    if (meeting->greeting.stage == MOTET_KNOWN)
        return motet_attempt_take(meeting);
    int result = motet_greeting_step(&meeting->greeting);
    if (result == 0 && meeting->greeting.stage == MOTET_HELD)
        return answer_hello(meeting);
    return result == 1 ? motet_attempt_greeted(meeting) : result;
}

static void meeting_ready(void *context, uint32_t events)
{
    struct motet_meeting *meeting = context;
    int result = 0;
    if (meeting->connecting)
        result = finish_connecting(meeting);
    else if (events & EPOLLOUT)
        result = motet_mailbox_flush(&meeting->greeting.box);
    if (result == 1)
        return;
    while (result == 0) {
        bool files = meeting->greeting.stage == MOTET_KNOWN && motet_meeting_is_control(meeting) && !meeting->attempt->have_theirs;
        result = motet_mailbox_read(&meeting->greeting.box, files);
        if (result != 1)
            break;
        result = take_message(meeting);
        if (result == 1)
            return;
    }
    if (result < 0)
        meeting_failed(meeting, result, error_text(meeting, result));
    else
        motet_meeting_rewatch(meeting);
}

/* ---- accepting ---- */

/* The stranger that has waited longest makes room. */
static void limit_strangers(void)
{
    struct motet_meeting *oldest = NULL;
    if (nstrangers < STRANGERS_MAX)
        return;
    for (struct motet_meeting *meeting = meetings; meeting; meeting = meeting->next)
        if (!meeting->dials && !meeting->attempt && (!oldest || meeting->since_ns < oldest->since_ns))
            oldest = meeting;
    if (oldest)
        motet_meeting_end(oldest);
}

static void accept_ready(void *context, uint32_t events)
{
    struct acceptor *acceptor = context;
    (void)events;
    int fd = motet_descriptor_keep(accept4(acceptor->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd < 0) {
        /* The listener stays readable: asking again at once would spin. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            acceptor->rest_ns = motet_now_ns() + ACCEPT_REST_NS;
            motet_service_unwatch(&acceptor->watch);
        }
        return;
    }
    limit_strangers();
    struct motet_meeting *meeting = motet_meeting_make(fd, acceptor->transport, false);
    if (!meeting)
        return;
    meeting->until_ns = meeting->since_ns + STRANGER_NS;
    if (motet_meeting_watch(meeting) != motetSuccess)
        motet_meeting_end(meeting);
}

/* ---- time ---- */

/* Ends the first meeting that is overdue, or whose greeting cannot lead anywhere any more: true when there was one, since the list has changed then. */
static bool end_one_meeting(uint64_t now_ns, bool kicked)
{
    for (struct motet_meeting *meeting = meetings; meeting; meeting = meeting->next) {
        if (meeting->until_ns <= now_ns) {
            meeting_failed(meeting, -ETIMEDOUT,
                           meeting->connecting ? "no answer (firewall? see MOTET_PORT_RANGE)" : "no greeting in time");
            return true;
        }
        if (kicked && meeting->greeting.stage == MOTET_AWAITS_REPLY && motet_greeting_is_stale(&meeting->greeting)) {
            motet_attempt_redial(meeting->attempt);
            return true;
        }
        if (!kicked || meeting->greeting.stage != MOTET_HELD)
            continue;
        int error = answer_hello(meeting);
        if (error < 0) {
            meeting_failed(meeting, error, error_text(meeting, error));
            return true;
        }
        motet_meeting_rewatch(meeting);
    }
    return false;
}

static void wake_acceptors(uint64_t now_ns)
{
    for (int i = 0; i < nacceptors; i++)
        if (acceptors[i].rest_ns != 0 && acceptors[i].rest_ns <= now_ns)
            acceptors[i].rest_ns = motet_service_watch(&acceptors[i].watch, EPOLLIN) == motetSuccess ? 0 : now_ns + ACCEPT_REST_NS;
}

void motet_meetings_tick(uint64_t now_ns, bool kicked)
{
    while (end_one_meeting(now_ns, kicked))
        continue;
    wake_acceptors(now_ns);
}

uint64_t motet_meetings_wake_ns(void)
{
    uint64_t wake_ns = UINT64_MAX;
    for (struct motet_meeting *meeting = meetings; meeting; meeting = meeting->next)
        wake_ns = motet_earlier(wake_ns, meeting->until_ns);
    for (int i = 0; i < nacceptors; i++)
        if (acceptors[i].rest_ns != 0)
            wake_ns = motet_earlier(wake_ns, acceptors[i].rest_ns);
    return wake_ns;
}

/* ---- start and end ---- */

static int count_listeners(void)
{
    int n = 0;
    for (int i = 0; motet_transports[i]; i++)
        for (int k = 0; motet_transports[i]->listener && motet_transports[i]->listener(k) >= 0; k++)
            n++;
    return n;
}

motetResult_t motet_meetings_open(const struct motet_process *process)
{
    me = process;
    int n = count_listeners();
    acceptors = calloc((size_t)n + 1, sizeof(*acceptors));
    if (!acceptors)
        return motet_fail(motetSystemError, "out of memory");
    for (int i = 0; motet_transports[i]; i++)
        for (int k = 0; motet_transports[i]->listener && motet_transports[i]->listener(k) >= 0; k++) {
            struct acceptor *acceptor = &acceptors[nacceptors++];
            acceptor->transport = motet_transports[i];
            acceptor->watch =
                (struct motet_watch){.fd = motet_transports[i]->listener(k), .ready = accept_ready, .context = acceptor};
            TRY(motet_service_watch(&acceptor->watch, EPOLLIN));
        }
    return motetSuccess;
}

void motet_meetings_close(void)
{
    while (meetings)
        motet_meeting_end(meetings);
    for (int i = 0; i < nacceptors; i++)
        motet_service_unwatch(&acceptors[i].watch);
    free(acceptors);
    acceptors = NULL;
    nacceptors = 0;
}
