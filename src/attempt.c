/* SPDX-License-Identifier: Apache-2.0
 * Attempts: how one link is made. The process with the smaller token dials, address by address and transport by transport, until both
 * sides have joined; the other accepts, and when nobody comes it knocks: a dead peer must not cost the whole time limit. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "connect.h"
#include "meeting.h"

#define DIAL_NS    (2000 * MOTET_MS) /* for one address to answer; doubled each round, up to 8 times that */
#define REFUSED_NS (3000 * MOTET_MS) /* a listener that refuses for this long is gone */
#define KNOCK_NS   (3000 * MOTET_MS) /* how often the accepting side asks */
#define RETRY_NS   (100 * MOTET_MS)  /* when memory is short */
#define SOFT_MAX   20                /* passing failures before the next transport gets its chance */

static const struct motet_process *me;

void motet_attempts_open(const struct motet_process *process)
{
    me = process;
}

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
        motet_meeting_end(attempt->control);
    attempt->control = NULL;
    for (int i = 0; i < MOTET_LANES_MAX; i++) {
        if (attempt->lanes[i])
            motet_meeting_end(attempt->lanes[i]);
        attempt->lanes[i] = NULL;
    }
    attempt->nlanes = 0;
    drop_offer(attempt);
}

void motet_attempt_end(struct motet_attempt *attempt)
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
        motet_attempt_end(link->attempt);
    pthread_cond_broadcast(&motet_links_changed);
    motet_links_remove(link);
}

/* Whether a failure is an answer rather than an accident: asking the same address again will not help soon. */
static bool is_hard(int error)
{
    return error == -ECONNREFUSED || error == -ENOENT || error == -ENETUNREACH || error == -EHOSTUNREACH || error == -EACCES ||
           error == -EPERM || error == -EADDRNOTAVAIL || error == -EOPNOTSUPP;
}

/* Starts over with a transport. */
static void go_by(struct motet_attempt *attempt, const struct motet_transport *transport, uint64_t dial_ns)
{
    attempt->transport = transport;
    attempt->address = attempt->round = attempt->soft = 0;
    attempt->round_is_hard = true;
    attempt->where[0] = '\0';
    attempt->dial_ns = dial_ns;
}

/* Visible, but once: sixty-three peers would say the same. */
static void fall_back(struct motet_attempt *attempt, const struct motet_transport *next, const char *why)
{
    static const struct motet_transport *warned;
    const struct motet_process *peer = &attempt->link->endpoint.process;
    enum motet_log_level level = warned == attempt->transport ? MOTET_LOG_INFO : MOTET_LOG_WARN;
    motet_log(level, MOTET_LOG_INIT, "%s to pid %d on %s does not work (%s): %s is used", attempt->transport->name, peer->pid,
              peer->host_name, why, next->name);
    warned = attempt->transport;
    attempt->refusing_ns = 0;
    go_by(attempt, next, 0);
}

/* Nothing but refusals for so long that nobody can be there any more; then the link is given up. */
static bool refused_too_long(struct motet_attempt *attempt, bool hard, uint64_t now_ns)
{
    if (!hard)
        attempt->refusing_ns = 0;
    else if (attempt->refusing_ns == 0)
        attempt->refusing_ns = now_ns;
    if (!hard || now_ns - attempt->refusing_ns <= REFUSED_NS)
        return false;
    give_up(attempt->link, motetRemoteError);
    return true;
}

/* Every address was tried, or the peer's offer could not be used: the next transport, or the same again a little later. */
static void next_round(struct motet_attempt *attempt, bool hard, const char *why)
{
    const struct motet_transport *next = next_transport(attempt->link, attempt->transport);
    uint64_t now_ns = motet_now_ns();
    attempt->soft += !hard;
    if (next && attempt->knocks && hard) {
        go_by(attempt, next, 0);
    } else if (next && !attempt->knocks && (hard || attempt->soft >= SOFT_MAX)) {
        fall_back(attempt, next, why);
    } else if (refused_too_long(attempt, hard, now_ns)) {
        /* the attempt is gone */
    } else if (attempt->knocks) {
        go_by(attempt, next_transport(attempt->link, NULL), now_ns + KNOCK_NS / 4);
    } else {
        /* Processes of one host must not come back in step. */
        uint64_t wait_ns = (2 * MOTET_MS) << (attempt->round < 6 ? attempt->round : 6);
        attempt->dial_ns = now_ns + wait_ns + (uint64_t)(me->pid % 16) * wait_ns / 16;
        attempt->address = 0;
        attempt->round_is_hard = true;
        attempt->round++;
    }
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
        motet_attempt_end(attempt); /* the peer dials again */
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

void motet_attempt_failed(struct motet_attempt *attempt, int error, const char *why)
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
    char where[MOTET_WHERE_MAX] = "";
    int fd = motet_descriptor_keep(attempt->transport->dial(me, &attempt->link->endpoint.process, address, where));
    if (fd == -ENOENT && lane == 0)
        return fd;
    memcpy(attempt->where, where, sizeof(where));
    if (fd < 0)
        return fd;
    struct motet_meeting *meeting = motet_meeting_make(fd, attempt->transport, true);
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
    return motet_meeting_watch(meeting) == motetSuccess ? 0 : -ENOMEM;
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

void motet_attempt_redial(struct motet_attempt *attempt)
{
    reset_attempt(attempt);
    attempt->dial_ns = 0;
}

int motet_attempt_connected(struct motet_meeting *meeting)
{
    struct motet_attempt *attempt = meeting->attempt;
    if (attempt->knocks) { /* somebody listens: the peer is late, not dead */
        reset_attempt(attempt);
        attempt->refusing_ns = 0;
        go_by(attempt, next_transport(attempt->link, NULL), motet_now_ns() + KNOCK_NS);
        return 1;
    }
    if (meeting->transport->tune)
        meeting->transport->tune(meeting->watch.fd, (int)meeting->greeting.hello.lane);
    return motet_greeting_begin(&meeting->greeting);
}

/* ---- joining ---- */

static int send_offer(struct motet_meeting *meeting)
{
    struct motet_offer mine = {.nfiles = 0};
    if (meeting->transport->offer && meeting->transport->offer(&mine) != motetSuccess)
        return -ENOTSUP;
    return motet_mailbox_send(&meeting->greeting.box, MOTET_GREETING_OFFER, 0, mine.bytes, sizeof(mine.bytes), mine.files,
                              mine.nfiles);
}

static int send_verdict(struct motet_meeting *meeting, const char *why)
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
        struct motet_meeting *meeting = attempt->lanes[i];
        motet_service_unwatch(&meeting->watch);
        lanes[i] = meeting->greeting.box.fd;
        meeting->greeting.box.fd = meeting->watch.fd = -1;
        attempt->lanes[i] = NULL;
        motet_meeting_end(meeting);
    }
    struct motet_offer theirs = attempt->theirs;
    attempt->theirs.nfiles = 0;
    motetResult_t result =
        attempt->transport->join(&attempt->link->endpoint.process, &theirs, lanes, attempt->nlanes, &attempt->channel);
    attempt->nlanes = 0;
    return result == motetSuccess ? NULL : motet_error_text();
}

static bool any_connecting(void)
{
    struct motet_link *link = motet_links;
    while (link && link->state != MOTET_LINK_CONNECTING)
        link = link->next;
    return link != NULL;
}

/* Both sides have joined: the link is made. */
static void establish(struct motet_attempt *attempt)
{
    struct motet_link *link = attempt->link;
    struct motet_meeting *control = attempt->control;
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
        motet_attempt_end(attempt);
        link->state = MOTET_LINK_READY;
        if (!any_connecting()) /* waking callers for each of many links would cost more than the links */
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
        motet_meeting_rewatch(attempt->control);
        return true;
    }
    motet_attempt_failed(attempt, why ? -ENOTSUP : error, why ? text : strerror(-error));
    return false;
}

static int take_offer(struct motet_meeting *meeting)
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
static int take_verdict(struct motet_meeting *meeting)
{
    struct motet_attempt *attempt = meeting->attempt;
    struct motet_verdict_message verdict;
    if (!attempt->have_theirs || meeting->greeting.box.message.len != sizeof(verdict))
        return -EPROTO;
    memcpy(&verdict, meeting->greeting.box.body, sizeof(verdict));
    verdict.why[sizeof(verdict.why) - 1] = '\0';
    if (!verdict.joined) {
        motet_attempt_failed(attempt, -ENOTSUP, verdict.why);
        return 1;
    }
    if (!attempt->dials) {
        const char *why = attempt->nlanes == wanted_lanes(attempt) ? join(attempt) : "MOTET_NSOCKS is different here";
        int error = send_verdict(meeting, why);
        if (error < 0)
            return error;
        if (why) {
            motet_attempt_failed(attempt, -ENOTSUP, why);
            return 1;
        }
    } else if (!attempt->channel) {
        return -EPROTO;
    }
    establish(attempt);
    return 1;
}

/* A data connection is complete on the dialing side; the last one's meeting ends here with all the others. */
static int take_lane(struct motet_meeting *meeting)
{
    struct motet_attempt *attempt = meeting->attempt;
    if (!attempt->dials || motet_meeting_is_control(meeting))
        return -EPROTO;
    if (++attempt->nlanes < wanted_lanes(attempt))
        return 0;
    join_and_tell(attempt);
    return 1;
}

int motet_attempt_take(struct motet_meeting *meeting)
{
    switch (meeting->greeting.box.message.kind) {
    case MOTET_GREETING_OFFER:
        return motet_meeting_is_control(meeting) ? take_offer(meeting) : -EPROTO;
    case MOTET_GREETING_LANE:
        return take_lane(meeting);
    case MOTET_GREETING_VERDICT:
        return motet_meeting_is_control(meeting) ? take_verdict(meeting) : -EPROTO;
    default:
        return -EPROTO;
    }
}

/* ---- accepting ---- */

/* Under the lock: the attempt of an accepted control connection; an older one of the same peer is obsolete. */
static int begin_attempt(struct motet_meeting *meeting, struct motet_link *link)
{
    if (link->attempt)
        motet_attempt_end(link->attempt);
    struct motet_attempt *attempt = calloc(1, sizeof(*attempt));
    if (!attempt)
        return -ENOMEM;
    *attempt = (struct motet_attempt){.link = link, .transport = meeting->transport, .control = meeting, .dial_ns = UINT64_MAX};
    memcpy(attempt->id, meeting->greeting.hello.attempt, sizeof(attempt->id));
    link->attempt = attempt;
    motet_meeting_adopt(meeting, attempt);
    return 0;
}

/* Under the lock: counts a data connection in. */
static int add_lane(struct motet_meeting *meeting, struct motet_link *link)
{
    struct motet_attempt *attempt = link->attempt;
    uint32_t lane = meeting->greeting.hello.lane;
    if (!attempt || attempt->dials || attempt->transport != meeting->transport ||
        memcmp(attempt->id, meeting->greeting.hello.attempt, sizeof(attempt->id)) != 0 || attempt->lanes[lane - 1])
        return -EPROTO;
    attempt->lanes[lane - 1] = meeting;
    attempt->nlanes++;
    motet_meeting_adopt(meeting, attempt);
    return motet_mailbox_send(&meeting->greeting.box, MOTET_GREETING_LANE, 0, NULL, 0, NULL, 0);
}

int motet_attempt_greeted(struct motet_meeting *meeting)
{
    if (meeting->dials)
        return motet_meeting_is_control(meeting) ? send_offer(meeting) : 0;
    pthread_mutex_lock(&motet_links_lock);
    struct motet_link *link = motet_links_find(meeting->greeting.hello.from);
    int error = -ESHUTDOWN;
    if (link && link->state == MOTET_LINK_CONNECTING)
        error = motet_meeting_is_control(meeting) ? begin_attempt(meeting, link) : add_lane(meeting, link);
    pthread_mutex_unlock(&motet_links_lock);
    if (meeting->transport->tune)
        meeting->transport->tune(meeting->watch.fd, (int)meeting->greeting.hello.lane);
    return error;
}

/* ---- time ---- */

/* Under the lock: false when it cannot be tried, now or ever. */
static bool begin_dialing(struct motet_link *link, uint64_t now_ns)
{
    bool dials = memcmp(me->token, link->endpoint.process.token, sizeof(me->token)) < 0;
    const struct motet_transport *transport = next_transport(link, NULL);
    if (!transport) {
        snprintf(link->failure, sizeof(link->failure), "no transport reaches it (MOTET_SHM_DISABLE, MOTET_NET, interfaces?)");
        give_up(link, motetSystemError);
        return false;
    }
    link->attempt = calloc(1, sizeof(*link->attempt));
    if (!link->attempt)
        return false;
    *link->attempt = (struct motet_attempt){.link = link, .dials = true, .knocks = !dials};
    go_by(link->attempt, transport, dials ? 0 : now_ns + KNOCK_NS);
    return true;
}

/* Under the lock: what one link that is not made yet needs now. */
static uint64_t tick_link(struct motet_link *link, uint64_t now_ns)
{
    if (atomic_load(&link->refs) == 2) { /* the table and this function: nobody waits for it any more */
        if (link->attempt)
            motet_attempt_end(link->attempt);
        motet_links_remove(link);
        if (!any_connecting())
            pthread_cond_broadcast(&motet_links_changed);
        return UINT64_MAX;
    }
    if (!link->attempt && !begin_dialing(link, now_ns))
        return link->state == MOTET_LINK_FAILED ? UINT64_MAX : now_ns + RETRY_NS;
    while (link->attempt && link->attempt->dial_ns <= now_ns)
        dial_next(link->attempt);
    return link->attempt ? link->attempt->dial_ns : UINT64_MAX;
}

uint64_t motet_attempts_tick(uint64_t now_ns)
{
    uint64_t wake_ns = UINT64_MAX;
    pthread_mutex_lock(&motet_links_lock);
    for (struct motet_link *link = motet_links, *next; link; link = next) {
        next = link->next;
        if (link->state != MOTET_LINK_CONNECTING)
            continue;
        motet_endpoint_retain(&link->endpoint); /* giving up takes it out of the table */
        wake_ns = motet_earlier(wake_ns, tick_link(link, now_ns));
        motet_link_unref(link);
    }
    pthread_mutex_unlock(&motet_links_lock);
    return wake_ns;
}
