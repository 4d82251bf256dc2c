/* SPDX-License-Identifier: Apache-2.0
 * One connection at the root: a stranger until it has proved the secret, a rank after its hello. Never blocks; any bytes in any
 * portions are survived. Dead sessions stay allocated until the root frees them after the current batch of events. */
#ifndef MOTET_BOOT_SESSION_H
#define MOTET_BOOT_SESSION_H

#include "boot/handshake.h"
#include "boot/job.h"

enum motet_session_state { MOTET_SESSION_OPENING, MOTET_SESSION_PROOF, MOTET_SESSION_HELLO, MOTET_SESSION_RANK };

struct motet_session {
    struct motet_session *next, *previous; /* the root's list, oldest first */
    struct motet_job *job;
    const struct motet_secret *secret;
    int fd, epoll;
    union motet_address peer;
    uint64_t since_ns; /* accepted at */
    enum motet_session_state state;
    int rank; /* valid in state RANK */
    bool dead, said_goodbye;
    char reason[96]; /* why it is dead */
    struct motet_handshake_nonces nonces;
    /* What was read and not yet understood: in `small`, or in a larger block while a long frame arrives. */
    uint8_t small[256], *in;
    size_t in_len, in_capacity;
    /* What is being sent: a head, then a body that belongs to the job. One message at a time is all that the protocol needs. */
    uint8_t head[96];
    size_t head_len, body_len, sent;
    const uint8_t *body;
    bool armed; /* epoll tells when there is room to send */
    bool failure_due, close_when_sent;
    struct motet_job_value *waits_for;
    struct motet_session *next_waiter;
};

/* Takes over fd (non-blocking). NULL when memory is out; fd is then closed. epoll may be -1 (tests). */
struct motet_session *motet_session_new(struct motet_job *job, const struct motet_secret *secret, int epoll, int fd,
                                        const union motet_address *peer);

/* Reads and handles what has arrived. */
void motet_session_read(struct motet_session *session);

/* Sends what is due, as far as there is room. */
void motet_session_flush(struct motet_session *session);

/* Queues one frame; body must stay until it is sent. */
void motet_session_send(struct motet_session *session, enum motet_frame_type type, const uint8_t *body, size_t len);

/* The job's failure is sent after whatever is being sent. */
void motet_session_tell_failure(struct motet_session *session);

/* Marks it dead; the first reason stays. */
void motet_session_end(struct motet_session *session, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Closes and frees; a rank that left without goodbye fails the job. */
void motet_session_free(struct motet_session *session);

#endif
