/* SPDX-License-Identifier: Apache-2.0
 * How two processes get to know each other on one fresh socket, without blocking: the dialing side says who it is and which jobs'
 * secrets it knows, the other picks one, both prove that they know it (boot/handshake.h). Then the socket is either the control
 * connection of a pair or one of its data connections. Strangers are expected: nothing they send does more than end their connection. */
#ifndef MOTET_GREETING_H
#define MOTET_GREETING_H

#include "boot/handshake.h"
#include "message.h"
#include "transport/transport.h"

#define MOTET_GREETING_SECRETS 8
#define MOTET_WIRE_VERSION     1u

enum motet_greeting_message {
    MOTET_GREETING_HELLO = 200,
    MOTET_GREETING_REPLY,
    MOTET_GREETING_PROOF,
    MOTET_GREETING_OFFER,   /* control connection: struct motet_offer's bytes, with its descriptors */
    MOTET_GREETING_LANE,    /* data connection: it is counted in */
    MOTET_GREETING_VERDICT, /* control connection: whether this side joined */
};

/* First message of the dialing side. */
struct motet_hello_message {
    uint64_t order; /* MOTET_GREETING_ORDER in the sender's byte order */
    uint32_t version, lane;
    uint8_t from[16], to[16]; /* tokens */
    uint8_t attempt[8];       /* all sockets of one attempt to connect have the same */
    char transport[16];
    uint64_t secrets[MOTET_GREETING_SECRETS]; /* ids; 0 = none */
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN];
};

#define MOTET_GREETING_ORDER 0x6d6f74657431ull

struct motet_reply_message {
    uint64_t secret; /* id of the chosen one */
    uint8_t reply[MOTET_HANDSHAKE_REPLY_LEN];
};

struct motet_verdict_message {
    uint32_t joined;
    char why[252];
};

enum motet_greeting_stage { MOTET_AWAITS_HELLO, MOTET_HELD, MOTET_AWAITS_REPLY, MOTET_AWAITS_PROOF, MOTET_KNOWN };

struct motet_greeting {
    struct motet_mailbox box;
    enum motet_greeting_stage stage;
    struct motet_hello_message hello; /* sent or received */
    struct motet_handshake_nonces nonces;
    struct motet_secret secret; /* accepting side, from the reply on */
};

/* ---- The secrets that connections may prove: those of communicators that are being made. Any thread. ---- */

motetResult_t motet_secret_add(const struct motet_secret *secret);
void motet_secret_remove(const struct motet_secret *secret);

/* ---- Steps; negative errno = this connection is over. ---- */

/* Dialing side, once the socket stands: sends the hello; hello's from, to, attempt, lane and transport are set by the caller. */
int motet_greeting_begin(struct motet_greeting *greeting);

/* Dialing side: whether a secret has become known here since the hello was sent. The other side may know only that one. */
bool motet_greeting_is_stale(const struct motet_greeting *greeting);

/* Handles the message that is complete in the mailbox: 0 = wait for the next (stage HELD: the hello is there, motet_greeting_answer is
 * due); 1 = the stage is KNOWN now; -EPROTO where it makes no sense, -EACCES where the other side does not know the secret. */
int motet_greeting_step(struct motet_greeting *greeting);

/* Accepting side in stage HELD: answers the hello. 0; -EAGAIN: no common secret is known now, try again later; else an error as above. */
int motet_greeting_answer(struct motet_greeting *greeting);

#endif
