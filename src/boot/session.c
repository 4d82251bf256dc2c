/* SPDX-License-Identifier: Apache-2.0
 * The state machine of one connection: opening, proof, hello, then frames. Nothing here waits; what a stranger can make it allocate is
 * one session. */
#include "boot/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"

#define READ_BUDGET (1 << 20) /* bytes per event, so that one busy rank does not starve the others */

struct motet_session *motet_session_new(struct motet_job *job, const struct motet_secret *secret, int epoll, int fd,
                                        const union motet_address *peer)
{
    struct motet_session *session = calloc(1, sizeof(*session));
    if (!session) {
        close(fd);
        return NULL;
    }
    session->job = job;
    session->secret = secret;
    session->epoll = epoll;
    session->fd = fd;
    session->peer = *peer;
    session->since_ns = motet_now_ns();
    session->in = session->small;
    session->in_capacity = sizeof(session->small);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = session};
    if (epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        motet_session_end(session, "epoll: %s", strerror(errno));
    return session;
}

void motet_session_end(struct motet_session *session, const char *format, ...)
{
    if (session->dead)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(session->reason, sizeof(session->reason), format, args);
    va_end(args);
    session->dead = true;
    session->job->dying = true;
}

void motet_session_free(struct motet_session *session)
{
    motet_job_cancel(session->job, session);
    if (session->state == MOTET_SESSION_RANK)
        motet_job_leave(session->job, session->rank, session->said_goodbye, session->reason);
    if (session->epoll >= 0)
        epoll_ctl(session->epoll, EPOLL_CTL_DEL, session->fd, NULL); /* a forked child's copy would keep it reporting */
    close(session->fd);
    if (session->in != session->small)
        free(session->in);
    free(session);
}

static void arm(struct motet_session *session, bool wanted)
{
    if (session->armed == wanted || session->epoll < 0)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0u), .data.ptr = session};
    epoll_ctl(session->epoll, EPOLL_CTL_MOD, session->fd, &event);
    session->armed = wanted;
}

static bool is_sending(const struct motet_session *session)
{
    return session->sent < session->head_len + session->body_len;
}

/* Next part of the current message. False: no room now, or dead. */
static bool send_some(struct motet_session *session)
{
    size_t head_sent = session->sent < session->head_len ? session->sent : session->head_len;
    struct iovec parts[2] = {{session->head + head_sent, session->head_len - head_sent}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 1};
    if (session->body_len > 0) {
        size_t body_sent = session->sent - head_sent;
        parts[1] = (struct iovec){(void *)(uintptr_t)(session->body + body_sent), session->body_len - body_sent};
        message.msg_iovlen = 2;
    }
    ssize_t put = sendmsg(session->fd, &message, MSG_NOSIGNAL);
    if (put >= 0)
        session->sent += (size_t)put;
    else if (errno != EAGAIN && errno != EINTR)
        motet_session_end(session, "%s", strerror(errno));
    return put >= 0 || errno == EINTR;
}

static void load(struct motet_session *session, enum motet_frame_type type, const uint8_t *body, size_t len)
{
    motet_frame_head(session->head, type, 0, len);
    session->head_len = MOTET_FRAME_HEAD_LEN;
    session->body = body;
    session->body_len = len;
    session->sent = 0;
}

void motet_session_flush(struct motet_session *session)
{
    while (!session->dead) {
        if (!is_sending(session) && session->failure_due) {
            load(session, MOTET_FRAME_FAIL, session->job->failure_value, session->job->failure_len);
            session->failure_due = false;
        }
        if (!is_sending(session) || !send_some(session))
            break;
    }
    arm(session, is_sending(session));
    if (session->close_when_sent && !is_sending(session))
        motet_session_end(session, "it was turned away");
}

void motet_session_send(struct motet_session *session, enum motet_frame_type type, const uint8_t *body, size_t len)
{
    if (session->dead)
        return;
    if (is_sending(session)) {
        motet_session_end(session, "it asked again before it had taken the last answer");
        return;
    }
    load(session, type, body, len);
    motet_session_flush(session);
}

void motet_session_tell_failure(struct motet_session *session)
{
    session->failure_due = true;
    motet_session_flush(session);
}

/* The functions that take input return the bytes consumed, 0 when more are needed. */

static size_t take_opening(struct motet_session *session)
{
    motetResult_t result = motetRemoteError;
    if (session->in_len < MOTET_HANDSHAKE_OPENING_LEN && motet_handshake_may_open(session->in, session->in_len))
        return 0;
    if (session->in_len >= MOTET_HANDSHAKE_OPENING_LEN)
        result = motet_handshake_reply(&session->nonces, session->secret, "boot", session->in, session->head);
    if (result != motetSuccess) {
        motet_session_end(session, "its first bytes are not motet's");
        return 0;
    }
    session->head_len = MOTET_HANDSHAKE_REPLY_LEN;
    session->body_len = session->sent = 0;
    session->state = MOTET_SESSION_PROOF;
    motet_session_flush(session);
    return MOTET_HANDSHAKE_OPENING_LEN;
}

static size_t take_proof(struct motet_session *session)
{
    if (session->in_len < MOTET_HANDSHAKE_PROOF_LEN)
        return 0;
    if (motet_handshake_check(&session->nonces, session->secret, "boot", session->in) != motetSuccess) {
        motet_session_end(session, "it does not know this job's secret");
        return 0;
    }
    session->state = MOTET_SESSION_HELLO;
    return MOTET_HANDSHAKE_PROOF_LEN;
}

static void take_hello(struct motet_session *session, const struct motet_frame *frame)
{
    struct motet_hello hello;
    if (frame->type != MOTET_FRAME_HELLO || !motet_hello_parse(frame->value, frame->value_len, &hello)) {
        motet_session_end(session, "it did not say who it is");
        return;
    }
    enum motet_job_answer answer = motet_job_join(session->job, session, &hello);
    if (answer == MOTET_JOB_WELCOME) {
        session->state = MOTET_SESSION_RANK;
        session->rank = (int)hello.rank;
        motet_session_send(session, MOTET_FRAME_WELCOME, NULL, 0);
        return;
    }
    session->close_when_sent = true;
    if (answer == MOTET_JOB_AGAIN)
        motet_session_send(session, MOTET_FRAME_AGAIN, NULL, 0);
    else
        motet_session_tell_failure(session);
}

static void take_failure(struct motet_session *session, const struct motet_frame *frame)
{
    char text[800], who[128];
    motetResult_t code = motet_failure_parse(frame->value, frame->value_len, text, sizeof(text));
    motet_job_fail(session->job, code, "%s gave up: %s", motet_job_rank_text(session->job, session->rank, who), text);
}

static void take_request(struct motet_session *session, const struct motet_frame *frame)
{
    bool keyed = frame->type == MOTET_FRAME_PUT || frame->type == MOTET_FRAME_GET;
    if (keyed && frame->key_len == 0) {
        motet_session_end(session, "it sent a request without key");
        return;
    }
    switch (frame->type) {
    case MOTET_FRAME_PUT:
        if (session->job->failure == motetSuccess)
            motet_job_put(session->job, session->rank, frame);
        break;
    case MOTET_FRAME_GET:
        if (session->waits_for)
            motet_session_end(session, "it asked for two keys at once");
        else if (session->job->failure == motetSuccess)
            motet_job_get(session->job, session, frame);
        break;
    case MOTET_FRAME_CANCEL:
        if (motet_job_cancel(session->job, session))
            motet_session_send(session, MOTET_FRAME_NONE, NULL, 0);
        break;
    case MOTET_FRAME_FAIL:
        take_failure(session, frame);
        break;
    case MOTET_FRAME_BYE:
        session->said_goodbye = true;
        motet_session_end(session, "goodbye");
        motet_job_leave(session->job, session->rank, true, session->reason);
        break;
    default:
        motet_session_end(session, "it sent a message that ranks do not send");
    }
}

/* Makes room for a frame whose head is known. */
static bool reserve(struct motet_session *session, size_t needed)
{
    if (needed <= session->in_capacity)
        return true;
    uint8_t *larger = malloc(needed);
    if (!larger) {
        motet_session_end(session, "the root is out of memory");
        return false;
    }
    memcpy(larger, session->in, session->in_len);
    if (session->in != session->small)
        free(session->in);
    session->in = larger;
    session->in_capacity = needed;
    return true;
}

static size_t take_frame(struct motet_session *session)
{
    struct motet_frame frame;
    int complete = motet_frame_parse(session->in, session->in_len, &frame);
    bool greeting = session->state == MOTET_SESSION_HELLO;
    if (complete == 0 && session->in_len >= MOTET_FRAME_HEAD_LEN &&
        (!greeting || motet_frame_len(&frame) <= sizeof(session->small))) {
        reserve(session, motet_frame_len(&frame));
        return 0;
    }
    if (complete == 0 && session->in_len < MOTET_FRAME_HEAD_LEN)
        return 0;
    if (complete != 1) {
        motet_session_end(session, "it sent a malformed message");
        return 0;
    }
    if (greeting)
        take_hello(session, &frame);
    else
        take_request(session, &frame);
    return motet_frame_len(&frame);
}

static void consume(struct motet_session *session)
{
    while (!session->dead && !session->close_when_sent) {
        size_t used = session->state == MOTET_SESSION_OPENING ? take_opening(session)
                      : session->state == MOTET_SESSION_PROOF ? take_proof(session)
                                                              : take_frame(session);
        if (used == 0)
            break;
        session->in_len -= used;
        memmove(session->in, session->in + used, session->in_len);
    }
    if (session->in != session->small && session->in_len <= sizeof(session->small)) {
        struct motet_frame frame;
        bool long_frame = session->in_len >= MOTET_FRAME_HEAD_LEN && motet_frame_parse_head(session->in, &frame) &&
                          motet_frame_len(&frame) > sizeof(session->small);
        if (!long_frame) {
            memcpy(session->small, session->in, session->in_len);
            free(session->in);
            session->in = session->small;
            session->in_capacity = sizeof(session->small);
        }
    }
}

void motet_session_read(struct motet_session *session)
{
    for (size_t budget = READ_BUDGET; !session->dead && !session->close_when_sent && budget > 0;) {
        ssize_t got = recv(session->fd, session->in + session->in_len, session->in_capacity - session->in_len, 0);
        if (got > 0) {
            session->in_len += (size_t)got;
            budget -= (size_t)got < budget ? (size_t)got : budget;
            consume(session);
        } else if (got == 0) {
            motet_session_end(session, session->in_len ? "it closed in the middle of a message" : "it closed the connection");
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            motet_session_end(session, "%s", strerror(errno));
        }
    }
}
