/* SPDX-License-Identifier: Apache-2.0
 * How two processes become linked, as state machines on the service thread. A `meeting` is one socket in its greeting; an `attempt` is
 * what one link has so far: a control connection, data connections, the peer's offer. Everything here belongs to the service thread;
 * only the links' table is shared, under its lock. Strangers can make meetings, never attempts: those start with a proof. */
#include "connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/net.h"
#include "base/os.h"
#include "greeting.h"

#define MS             1000000ull
#define STRANGERS_MAX  256          /* meetings that have proved nothing; more, and the oldest goes */
#define STRANGER_NS    (10000 * MS) /* to say hello and to prove */
#define HELD_NS        (60000 * MS) /* to wait for this side to want the link */
#define DIAL_NS        (2000 * MS)  /* for one address to answer; doubled each round, up to 8 times that */
#define REFUSED_NS     (3000 * MS)  /* a listener that refuses for this long is gone */
#define SOFT_MAX       20           /* passing failures before the next transport gets its chance */
#define ACCEPT_REST_NS (100 * MS)   /* after running out of descriptors */

struct meeting {
    struct motet_greeting greeting;
    struct motet_watch watch;
    const struct motet_transport *transport;
    struct motet_attempt *attempt; /* dialing: from the start; accepting: from the proof on */
    bool dials, connecting;
    uint64_t since_ns, until_ns;
    struct meeting *next;
};

struct motet_attempt {
    struct motet_link *link;
    bool dials;
    const struct motet_transport *transport;
    uint8_t id[8];
    struct meeting *control, *lanes[MOTET_LANES_MAX];
    int nlanes; /* that have been counted in */
    struct motet_offer theirs;
    bool have_theirs;
    struct motet_channel *channel; /* joined */

    /* Dialing side: the way to go on after a failure. */
    int address, round, soft;
    bool round_is_hard;    /* every address so far refused for good */
    uint64_t dial_ns;      /* when to dial again; UINT64_MAX: under way */
    uint64_t refusing_ns;  /* since when nothing but refusals */
    char where[MOTET_WHERE_MAX];
};

struct acceptor {
    struct motet_watch watch;
    const struct motet_transport *transport;
    uint64_t rest_ns; /* not 0: paused until then */
};

pthread_cond_t motet_links_changed = PTHREAD_COND_INITIALIZER;
static const struct motet_process *me;
static struct meeting *meetings;
static int nstrangers;
static struct acceptor *acceptors;
static int nacceptors;
static _Atomic unsigned kicks;
static unsigned kicks_seen;

static void attempt_failed(struct motet_attempt *attempt, int error, const char *why);
static void meeting_ready(void *context, uint32_t events);

/* ---- meetings ---- */

static struct meeting *make_meeting(int fd, const struct motet_transport *transport, bool dials, uint64_t now_ns)
{
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    if (!meeting) {
        motet_descriptor_close(fd);
        return NULL;
    }
    motet_mailbox_open(&meeting->greeting.box, fd);
    meeting->watch = (struct motet_watch){.fd = fd, .ready = meeting_ready, .context = meeting};
    meeting->transport = transport;
    meeting->dials = meeting->connecting = dials;
    meeting->since_ns = now_ns;
    meeting->next = meetings;
    meetings = meeting;
    nstrangers += !dials;
    return meeting;
}

/* Leaves the list and frees; the socket too, unless it was taken out of the mailbox. */
static void end_meeting(struct meeting *meeting)
{
    struct meeting **at = &meetings;
    while (*at && *at != meeting)
        at = &(*at)->next;
    if (*at)
        *at = meeting->next;
    nstrangers -= !meeting->dials && !meeting->attempt;
    motet_service_unwatch(&meeting->watch);
    motet_mailbox_close(&meeting->greeting.box);
    free(meeting);
}

static bool is_control(const struct meeting *meeting)
{
    return meeting->greeting.hello.lane == 0;
}

/* Waits for what this meeting needs next. */
static void rewatch(struct meeting *meeting)
{
    uint32_t out = meeting->connecting || motet_mailbox_pending(&meeting->greeting.box) ? EPOLLOUT : 0;
    motet_service_rewatch(&meeting->watch, out | (meeting->connecting ? 0 : EPOLLIN));
}

/* The connection is over: the attempt it belongs to failed, or a stranger is gone. */
static void meeting_failed(struct meeting *meeting, int error, const char *why)
{
    if (meeting->attempt) {
        attempt_failed(meeting->attempt, error, why);
        return;
    }
    INFO(MOTET_LOG_NET, "%s: a connection was closed before it proved who it is: %s", meeting->transport->name, why);
    end_meeting(meeting);
}

static const char *error_text(const struct meeting *meeting, int error)
{
    if (error == -ESHUTDOWN)
        return meeting->dials ? "it closed the connection" : "closed";
    if (error == -EPROTO || error == -EBADMSG)
        return "it does not speak this protocol, or another version of it";
    if (error == -EACCES)
        return "it does not know this job's secret: another job or program";
    return strerror(-error);
}

/* ---- attempts ---- */

static void drop_offer(struct motet_attempt *attempt)
{
    for (int i = 0; i < attempt->theirs.nfiles; i++)
        motet_descriptor_close(attempt->theirs.files[i]);
    attempt->theirs.nfiles = 0;
    attempt->have_theirs = false;
}

/* Back to nothing connected. */
static void reset_attempt(struct motet_attempt *attempt)
{
    if (attempt->channel)
        attempt->transport->close(attempt->channel);
    attempt->channel = NULL;
    if (attempt->control)
        end_meeting(attempt->control);
    attempt->control = NULL;
    for (int i = 0; i < MOTET_LANES_MAX; i++) {
        if (attempt->lanes[i])
            end_meeting(attempt->lanes[i]);
        attempt->lanes[i] = NULL;
    }
    attempt->nlanes = 0;
    drop_offer(attempt);
}

static void end_attempt(struct motet_attempt *attempt)
{
    reset_attempt(attempt);
    attempt->link->attempt = NULL;
    free(attempt);
}

/* First transport at or after `from` that reaches the peer. */
static const struct motet_transport *next_transport(const struct motet_link *link, const struct motet_transport *after)
{
    bool started = after == NULL;
    for (int i = 0; motet_transports[i]; i++) {
        if (started && motet_transports[i]->dial && motet_transports[i]->reach(me, &link->endpoint.process))
            return motet_transports[i];
        started = started || motet_transports[i] == after;
    }
    return NULL;
}

static void set_failure(struct motet_link *link, const struct motet_attempt *attempt, const char *why)
{
    snprintf(link->failure, sizeof(link->failure), "%s%s%s: %s", attempt->transport->name, attempt->where[0] ? " at " : "",
             attempt->where, why);
}

/* Under the lock: nobody will get this link. */
static void give_up(struct motet_link *link, motetResult_t code)
{
    link->state = MOTET_LINK_FAILED;
    link->code = code;
    if (link->attempt)
        end_attempt(link->attempt);
    pthread_cond_broadcast(&motet_links_changed);
    motet_links_remove(link);
}

/* Whether a failure is an answer rather than an accident: asking the same address again will not help soon. */
static bool is_hard(int error)
{
    return error == -ECONNREFUSED || error == -ENOENT || error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EACCES ||
           error == -EPERM || error == -EADDRNOTAVAIL || error == -EOPNOTSUPP;
}

static void fall_back(struct motet_attempt *attempt, const struct motet_transport *next, const char *why)
{
    const struct motet_process *peer = &attempt->link->endpoint.process;
    WARN(MOTET_LOG_INIT, "%s to pid %d on %s does not work (%s): %s is used", attempt->transport->name, peer->pid, peer->host_name, why,
         next->name);
    attempt->transport = next;
    attempt->address = attempt->round = attempt->soft = 0;
    attempt->round_is_hard = true;
    attempt->refusing_ns = 0;
    attempt->where[0] = '\0';
    attempt->dial_ns = 0;
}

/* Every address was tried, or the peer's offer could not be used: the next transport, or the same again a little later. */
static void next_round(struct motet_attempt *attempt, bool hard, const char *why)
{
    const struct motet_transport *next = next_transport(attempt->link, attempt->transport);
    uint64_t now_ns = motet_now_ns();
    attempt->soft += !hard;
    if (next && (hard || attempt->soft >= SOFT_MAX)) {
        fall_back(attempt, next, why);
        return;
    }
    if (!hard)
        attempt->refusing_ns = 0;
    else if (attempt->refusing_ns == 0)
        attempt->refusing_ns = now_ns;
    else if (now_ns - attempt->refusing_ns > REFUSED_NS) {
        give_up(attempt->link, motetRemoteError);
        return;
    }
    attempt->address = 0;
    attempt->round_is_hard = true;
    /* Processes of one host must not come back in step. */
    uint64_t wait_ns = (2 * MS) << (attempt->round < 6 ? attempt->round : 6);
    attempt->dial_ns = now_ns + wait_ns + (uint64_t)(me->pid % 16) * wait_ns / 16;
    attempt->round++;
}

/* The lock is held for the table's sake; the service thread calls with it. */
static void attempt_failed_locked(struct motet_attempt *attempt, int error, const char *why)
{
    bool joined = attempt->have_theirs;
    reset_attempt(attempt);
    set_failure(attempt->link, attempt, why);
    INFO(MOTET_LOG_NET, "pid %d on %s by %s", attempt->link->endpoint.process.pid, attempt->link->endpoint.process.host_name,
         attempt->link->failure);
    if (!attempt->dials) {
        end_attempt(attempt); /* the peer dials again */
        return;
    }
    if (joined) { /* the way was right, what lies at its end is not usable */
        next_round(attempt, error == -ENOTSUP, why);
        return;
    }
    attempt->round_is_hard = attempt->round_is_hard && is_hard(error);
    attempt->address++;
    attempt->dial_ns = 0;
}

static void attempt_failed(struct motet_attempt *attempt, int error, const char *why)
{
    char text[256];
    snprintf(text, sizeof(text), "%s", why); /* it may lie in what is freed */
    pthread_mutex_lock(&motet_links_lock);
    attempt_failed_locked(attempt, error, text);
    pthread_mutex_unlock(&motet_links_lock);
}

/* ---- dialing ---- */

/* Starts one socket of the attempt. */
static int dial(struct motet_attempt *attempt, int lane, int address)
{
    char where[MOTET_WHERE_MAX];
    int fd = motet_descriptor_keep(attempt->transport->dial(me, &attempt->link->endpoint.process, address, where));
    if (fd == -ENOENT && lane == 0)
        return fd;
    memcpy(attempt->where, where, sizeof(where));
    if (fd < 0)
        return fd;
    struct meeting *meeting = make_meeting(fd, attempt->transport, true, motet_now_ns());
    if (!meeting)
        return -ENOMEM;
    struct motet_hello_message *hello = &meeting->greeting.hello;
    memcpy(hello->from, me->token, sizeof(hello->from));
    memcpy(hello->to, attempt->link->endpoint.process.token, sizeof(hello->to));
    memcpy(hello->attempt, attempt->id, sizeof(hello->attempt));
    snprintf(hello->transport, sizeof(hello->transport), "%s", attempt->transport->name);
    hello->lane = (uint32_t)lane;
    meeting->attempt = attempt;
    meeting->until_ns = meeting->since_ns + (DIAL_NS << (attempt->round < 3 ? attempt->round : 3));
    if (lane == 0)
        attempt->control = meeting;
    else
        attempt->lanes[lane - 1] = meeting;
    return motet_service_watch(&meeting->watch, EPOLLOUT) == motetSuccess ? 0 : -ENOMEM;
}

/* Dials the next address of the attempt; the lock is held. */
static void dial_next(struct motet_attempt *attempt)
{
    attempt->dial_ns = UINT64_MAX;
    if (motet_random(attempt->id, sizeof(attempt->id)) != motetSuccess) {
        attempt_failed_locked(attempt, -EIO, "no random numbers");
        return;
    }
    int error = dial(attempt, 0, attempt->address);
    if (error == -ENOENT && attempt->address == 0) {
        set_failure(attempt->link, attempt, "it has no address");
        next_round(attempt, true, "it has no address");
    } else if (error == -ENOENT) {
        const char *why = strstr(attempt->link->failure, ": ");
        next_round(attempt, attempt->round_is_hard, why ? why + 2 : attempt->link->failure);
    } else if (error < 0) {
        attempt_failed_locked(attempt, error, strerror(-error));
    }
}

/* The connection stands, or it was refused. */
static int finish_connecting(struct meeting *meeting)
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
    if (meeting->transport->tune)
        meeting->transport->tune(meeting->watch.fd, (int)meeting->greeting.hello.lane);
    return motet_greeting_begin(&meeting->greeting);
}

/* ---- joining ---- */

static int send_offer(struct meeting *meeting)
{
    struct motet_offer mine = {.nfiles = 0};
    if (meeting->transport->offer && meeting->transport->offer(&mine) != motetSuccess)
        return -ENOTSUP;
    return motet_mailbox_send(&meeting->greeting.box, MOTET_GREETING_OFFER, 0, mine.bytes, sizeof(mine.bytes), mine.files, mine.nfiles);
}

static int send_verdict(struct meeting *meeting, const char *why)
{
    struct motet_verdict_message verdict = {.joined = why == NULL};
    snprintf(verdict.why, sizeof(verdict.why), "%s", why ? why : "");
    return motet_mailbox_send(&meeting->greeting.box, MOTET_GREETING_VERDICT, 0, &verdict, sizeof(verdict), NULL, 0);
}

/* Makes the channel of all that has come together: NULL, or why not. */
static const char *join(struct motet_attempt *attempt)
{
    int lanes[MOTET_LANES_MAX];
    for (int i = 0; i < attempt->nlanes; i++) {
        struct meeting *meeting = attempt->lanes[i];
        motet_service_unwatch(&meeting->watch);
        lanes[i] = meeting->greeting.box.fd;
        meeting->greeting.box.fd = meeting->watch.fd = -1;
        attempt->lanes[i] = NULL;
        end_meeting(meeting);
    }
    struct motet_offer theirs = attempt->theirs;
    attempt->theirs.nfiles = 0;
    motetResult_t result = attempt->transport->join(&attempt->link->endpoint.process, &theirs, lanes, attempt->nlanes, &attempt->channel);
    attempt->nlanes = 0;
    return result == motetSuccess ? NULL : motet_error_text();
}

/* Both sides have joined: the link is made. */
static void establish(struct motet_attempt *attempt)
{
    struct motet_link *link = attempt->link;
    struct meeting *control = attempt->control;
    struct motet_channel *channel = attempt->channel;
    motet_service_unwatch(&control->watch);
    control->watch.fd = -1;
    attempt->channel = NULL;
    motetResult_t result = motet_link_attach(link, attempt->transport, channel, &control->greeting.box);
    pthread_mutex_lock(&motet_links_lock);
    if (result == motetSuccess)
        result = motet_link_watch(link);
    if (result == motetSuccess) {
        INFO(MOTET_LOG_NET, "connected to pid %d on %s by %s", link->endpoint.process.pid, link->endpoint.process.host_name,
             attempt->transport->name);
        end_attempt(attempt);
        link->state = MOTET_LINK_READY;
        pthread_cond_broadcast(&motet_links_changed);
    } else {
        snprintf(link->failure, sizeof(link->failure), "%s", motet_error_text());
        motet_link_unwatch(link);
        give_up(link, result);
    }
    pthread_mutex_unlock(&motet_links_lock);
}

static int wanted_lanes(const struct motet_attempt *attempt)
{
    return attempt->transport->lanes ? attempt->transport->lanes() : 0;
}

/* Dialing side, when all data connections are counted in: joins and says so. The meetings of data connections are gone afterwards, and
 * when false is returned the attempt's others too. */
static bool join_and_tell(struct motet_attempt *attempt)
{
    char text[256];
    const char *why = join(attempt);
    snprintf(text, sizeof(text), "%s", why ? why : "");
    int error = send_verdict(attempt->control, why ? text : NULL);
    if (!why && error == 0) {
        rewatch(attempt->control);
        return true;
    }
    attempt_failed(attempt, why ? -ENOTSUP : error, why ? text : strerror(-error));
    return false;
}

static int take_offer(struct meeting *meeting)
{
    struct motet_attempt *attempt = meeting->attempt;
    struct motet_mailbox *box = &meeting->greeting.box;
    if (attempt->have_theirs || box->message.len != sizeof(attempt->theirs.bytes))
        return -EPROTO;
    memcpy(attempt->theirs.bytes, box->body, sizeof(attempt->theirs.bytes));
    memcpy(attempt->theirs.files, box->files, sizeof(box->files));
    attempt->theirs.nfiles = box->nfiles;
    box->nfiles = 0;
    attempt->have_theirs = true;
    if (!attempt->dials)
        return send_offer(meeting);
    for (int lane = 1; lane <= wanted_lanes(attempt); lane++) {
        int error = dial(attempt, lane, attempt->address);
        if (error < 0)
            return error;
    }
    return wanted_lanes(attempt) > 0 || join_and_tell(attempt) ? 0 : 1;
}

/* 1: the meeting is gone. */
static int take_verdict(struct meeting *meeting)
{
    struct motet_attempt *attempt = meeting->attempt;
    struct motet_verdict_message verdict;
    if (!attempt->have_theirs || meeting->greeting.box.message.len != sizeof(verdict))
        return -EPROTO;
    memcpy(&verdict, meeting->greeting.box.body, sizeof(verdict));
    verdict.why[sizeof(verdict.why) - 1] = '\0';
    if (!verdict.joined) {
        attempt_failed(attempt, -ENOTSUP, verdict.why);
        return 1;
    }
    if (!attempt->dials) {
        const char *why = attempt->nlanes == wanted_lanes(attempt) ? join(attempt) : "MOTET_NSOCKS is different here";
        int error = send_verdict(meeting, why);
        if (error < 0)
            return error;
        if (why) {
            attempt_failed(attempt, -ENOTSUP, why);
            return 1;
        }
    } else if (!attempt->channel) {
        return -EPROTO;
    }
    establish(attempt);
    return 1;
}

/* A data connection is complete on the dialing side; the last one's meeting ends here with all the others. */
static int take_lane(struct meeting *meeting)
{
    struct motet_attempt *attempt = meeting->attempt;
    if (!attempt->dials || is_control(meeting))
        return -EPROTO;
    if (++attempt->nlanes < wanted_lanes(attempt))
        return 0;
    join_and_tell(attempt);
    return 1;
}

/* ---- accepting ---- */

/* Under the lock: the attempt of an accepted control connection; an older one of the same peer is obsolete. */
static int begin_attempt(struct meeting *meeting, struct motet_link *link)
{
    if (link->attempt)
        end_attempt(link->attempt);
    struct motet_attempt *attempt = calloc(1, sizeof(*attempt));
    if (!attempt)
        return -ENOMEM;
    *attempt = (struct motet_attempt){.link = link, .transport = meeting->transport, .control = meeting, .dial_ns = UINT64_MAX};
    memcpy(attempt->id, meeting->greeting.hello.attempt, sizeof(attempt->id));
    link->attempt = attempt;
    meeting->attempt = attempt;
    nstrangers--;
    return 0;
}

/* Under the lock: counts a data connection in. */
static int add_lane(struct meeting *meeting, struct motet_link *link)
{
    struct motet_attempt *attempt = link->attempt;
    uint32_t lane = meeting->greeting.hello.lane;
    if (!attempt || attempt->dials || attempt->transport != meeting->transport ||
        memcmp(attempt->id, meeting->greeting.hello.attempt, sizeof(attempt->id)) != 0 || attempt->lanes[lane - 1])
        return -EPROTO;
    attempt->lanes[lane - 1] = meeting;
    attempt->nlanes++;
    meeting->attempt = attempt;
    nstrangers--;
    return motet_mailbox_send(&meeting->greeting.box, MOTET_GREETING_LANE, 0, NULL, 0, NULL, 0);
}

/* The other side has proved who it is. */
static int greeting_done(struct meeting *meeting)
{
    if (meeting->dials)
        return is_control(meeting) ? send_offer(meeting) : 0;
    pthread_mutex_lock(&motet_links_lock);
    struct motet_link *link = motet_links_find(meeting->greeting.hello.from);
    int error = -ESHUTDOWN;
    if (link && link->state == MOTET_LINK_CONNECTING)
        error = is_control(meeting) ? begin_attempt(meeting, link) : add_lane(meeting, link);
    pthread_mutex_unlock(&motet_links_lock);
    meeting->until_ns = UINT64_MAX;
    if (meeting->transport->tune)
        meeting->transport->tune(meeting->watch.fd, (int)meeting->greeting.hello.lane);
    return error;
}

/* A hello has arrived: answers it when this side wants the link too, and holds it until then. */
static int answer_hello(struct meeting *meeting)
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

/* ---- events ---- */

/* One complete message: 0 = go on, 1 = the meeting is gone, negative = it failed. */
static int take_message(struct meeting *meeting)
{
    if (meeting->greeting.stage != MOTET_KNOWN) {
        int result = motet_greeting_step(&meeting->greeting);
        if (result == 0 && meeting->greeting.stage == MOTET_HELD)
            return answer_hello(meeting);
        return result == 1 ? greeting_done(meeting) : result;
    }
    switch (meeting->greeting.box.message.kind) {
    case MOTET_GREETING_OFFER:
        return is_control(meeting) ? take_offer(meeting) : -EPROTO;
    case MOTET_GREETING_LANE:
        return take_lane(meeting);
    case MOTET_GREETING_VERDICT:
        return is_control(meeting) ? take_verdict(meeting) : -EPROTO;
    default:
        return -EPROTO;
    }
}

static void meeting_ready(void *context, uint32_t events)
{
    struct meeting *meeting = context;
    int result = 0;
    if (meeting->connecting)
        result = finish_connecting(meeting);
    else if (events & EPOLLOUT)
        result = motet_mailbox_flush(&meeting->greeting.box);
    while (result == 0) {
        bool files = meeting->greeting.stage == MOTET_KNOWN && is_control(meeting) && !meeting->attempt->have_theirs;
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
        rewatch(meeting);
}

/* The stranger that has waited longest makes room. */
static void limit_strangers(void)
{
    struct meeting *oldest = NULL;
    if (nstrangers < STRANGERS_MAX)
        return;
    for (struct meeting *meeting = meetings; meeting; meeting = meeting->next)
        if (!meeting->dials && !meeting->attempt && (!oldest || meeting->since_ns < oldest->since_ns))
            oldest = meeting;
    if (oldest)
        end_meeting(oldest);
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
    uint64_t now_ns = motet_now_ns();
    struct meeting *meeting = make_meeting(fd, acceptor->transport, false, now_ns);
    if (!meeting)
        return;
    meeting->until_ns = now_ns + STRANGER_NS;
    if (motet_service_watch(&meeting->watch, EPOLLIN) != motetSuccess)
        end_meeting(meeting);
}

/* ---- time ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Under the lock: what one link that is not made yet needs now. */
static uint64_t tick_link(struct motet_link *link, uint64_t now_ns)
{
    if (atomic_load(&link->refs) == 2) { /* the table and this function: nobody waits for it any more */
        if (link->attempt)
            end_attempt(link->attempt);
        motet_links_remove(link);
        return UINT64_MAX;
    }
    bool dials = memcmp(me->token, link->endpoint.process.token, sizeof(me->token)) < 0;
    if (dials && !link->attempt) {
        const struct motet_transport *transport = next_transport(link, NULL);
        if (!transport) {
            snprintf(link->failure, sizeof(link->failure), "no transport reaches it (MOTET_SHM_DISABLE, MOTET_NET, interfaces?)");
            give_up(link, motetSystemError);
            return UINT64_MAX;
        }
        link->attempt = calloc(1, sizeof(*link->attempt));
        if (!link->attempt)
            return now_ns + ACCEPT_REST_NS;
        *link->attempt = (struct motet_attempt){.link = link, .dials = true, .transport = transport, .round_is_hard = true};
    }
    while (link->attempt && link->attempt->dial_ns <= now_ns)
        dial_next(link->attempt);
    return link->attempt ? link->attempt->dial_ns : UINT64_MAX;
}

static uint64_t tick_links(uint64_t now_ns)
{
    uint64_t wake_ns = UINT64_MAX;
    pthread_mutex_lock(&motet_links_lock);
    for (struct motet_link *link = motet_links, *next; link; link = next) {
        next = link->next;
        if (link->state != MOTET_LINK_CONNECTING)
            continue;
        motet_endpoint_retain(&link->endpoint); /* giving up takes it out of the table */
        wake_ns = earlier(wake_ns, tick_link(link, now_ns));
        motet_link_unref(link);
    }
    pthread_mutex_unlock(&motet_links_lock);
    return wake_ns;
}

/* Ends the first meeting that is overdue, or lets the first held one go on: true when there was one, since the list has changed then. */
static bool tick_one_meeting(uint64_t now_ns, bool kicked, uint64_t *wake_ns)
{
    for (struct meeting *meeting = meetings; meeting; meeting = meeting->next) {
        if (meeting->until_ns <= now_ns) {
            meeting_failed(meeting, -ETIMEDOUT, meeting->connecting ? "no answer (firewall? see MOTET_PORT_RANGE)" : "no greeting in time");
            return true;
        }
        if (kicked && meeting->greeting.stage == MOTET_HELD && !meeting->dials) {
            int error = answer_hello(meeting);
            if (error < 0) {
                meeting_failed(meeting, error, error_text(meeting, error));
                return true;
            }
            rewatch(meeting);
        }
        *wake_ns = earlier(*wake_ns, meeting->until_ns);
    }
    return false;
}

static uint64_t tick_acceptors(uint64_t now_ns)
{
    uint64_t wake_ns = UINT64_MAX;
    for (int i = 0; i < nacceptors; i++) {
        if (acceptors[i].rest_ns == 0)
            continue;
        if (acceptors[i].rest_ns <= now_ns && motet_service_watch(&acceptors[i].watch, EPOLLIN) == motetSuccess)
            acceptors[i].rest_ns = 0;
        else
            wake_ns = earlier(wake_ns, now_ns + ACCEPT_REST_NS);
    }
    return wake_ns;
}

uint64_t motet_connect_tick(uint64_t now_ns)
{
    unsigned kicks_now = atomic_load(&kicks);
    uint64_t wake_ns = UINT64_MAX, again_ns;
    bool kicked = kicks_now != kicks_seen;
    kicks_seen = kicks_now;
    do
        wake_ns = UINT64_MAX;
    while (tick_one_meeting(now_ns, kicked, &wake_ns));
    again_ns = earlier(tick_links(now_ns), tick_acceptors(now_ns));
    return earlier(wake_ns, again_ns);
}

void motet_connect_kick(void)
{
    atomic_fetch_add(&kicks, 1);
    motet_service_wake();
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

motetResult_t motet_connect_open(const struct motet_process *process)
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
            acceptor->watch = (struct motet_watch){.fd = motet_transports[i]->listener(k), .ready = accept_ready, .context = acceptor};
            TRY(motet_service_watch(&acceptor->watch, EPOLLIN));
        }
    return motetSuccess;
}

void motet_connect_close(void)
{
    pthread_mutex_lock(&motet_links_lock);
    for (struct motet_link *link = motet_links; link; link = link->next)
        if (link->attempt)
            end_attempt(link->attempt);
    pthread_mutex_unlock(&motet_links_lock);
    while (meetings)
        end_meeting(meetings);
    for (int i = 0; i < nacceptors; i++)
        motet_service_unwatch(&acceptors[i].watch);
    free(acceptors);
    acceptors = NULL;
    nacceptors = 0;
}
