/* SPDX-License-Identifier: Apache-2.0
 * What connect.c, meeting.c and attempt.c share. A meeting is one socket in its greeting; an attempt is what one link has so far: a
 * control connection, data connections, the peer's offer. All of it belongs to the service thread; only the links' table is shared,
 * under its lock. Strangers can make meetings, never attempts: those start with a proof. */
#ifndef MOTET_MEETING_H
#define MOTET_MEETING_H

#include "greeting.h"
#include "link.h"

#define MOTET_MS 1000000ull

struct motet_meeting {
    struct motet_greeting greeting;
    struct motet_watch watch;
    const struct motet_transport *transport;
    struct motet_attempt *attempt; /* dialing: from the start; accepting: from the proof on */
    bool dials, connecting;
    uint32_t events; /* that are watched for */
    uint64_t since_ns, until_ns;
    struct motet_meeting *next;
};

struct motet_attempt {
    struct motet_link *link;
    bool dials;
    bool knocks; /* this side accepts, and only asks whether the peer still listens */
    const struct motet_transport *transport;
    uint8_t id[8];
    struct motet_meeting *control, *lanes[MOTET_LANES_MAX];
    int nlanes; /* that have been counted in */
    struct motet_offer theirs;
    bool have_theirs;
    struct motet_channel *channel; /* joined */

    /* Dialing side: the way to go on after a failure. */
    int address, round, soft;
    bool round_is_hard;   /* every address so far refused for good */
    uint64_t dial_ns;     /* when to dial again; UINT64_MAX: under way */
    uint64_t refusing_ns; /* since when nothing but refusals */
    char where[MOTET_WHERE_MAX];
};

static inline uint64_t motet_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline bool motet_meeting_is_control(const struct motet_meeting *meeting)
{
    return meeting->greeting.hello.lane == 0;
}

/* ---- meeting.c ---- */

/* Takes fd, also on failure (NULL: out of memory). Not watched yet. */
struct motet_meeting *motet_meeting_make(int fd, const struct motet_transport *transport, bool dials);

/* Frees; closes the socket unless it was taken out of the mailbox. */
void motet_meeting_end(struct motet_meeting *meeting);

/* An accepted meeting has proved itself and belongs to an attempt now. */
void motet_meeting_adopt(struct motet_meeting *meeting, struct motet_attempt *attempt);

/* Starts to wait for what this meeting needs, and waits for what it needs next. */
motetResult_t motet_meeting_watch(struct motet_meeting *meeting);
void motet_meeting_rewatch(struct motet_meeting *meeting);

motetResult_t motet_meetings_open(const struct motet_process *me);
void motet_meetings_close(void);

/* Ends what is overdue. kicked: links or secrets were added, so held greetings may go on. */
void motet_meetings_tick(uint64_t now_ns, bool kicked);
/* When the next one will be overdue. */
uint64_t motet_meetings_wake_ns(void);

/* ---- attempt.c ---- */

void motet_attempts_open(const struct motet_process *me);
uint64_t motet_attempts_tick(uint64_t now_ns);
void motet_attempt_end(struct motet_attempt *attempt);

/* The connection of a meeting is over: its attempt starts anew, goes another way, or is given up. All its meetings are gone. */
void motet_attempt_failed(struct motet_attempt *attempt, int error, const char *why);

/* Starts a dialing attempt over, at the same address. */
void motet_attempt_redial(struct motet_attempt *attempt);

/* The socket of a dialing meeting stands. 1: it has served (a knock), the meeting is gone. */
int motet_attempt_connected(struct motet_meeting *meeting);

/* Both sides have proved who they are: 0 or a negative errno. */
int motet_attempt_greeted(struct motet_meeting *meeting);

/* A message after the greeting: 0 = go on, 1 = the meeting is gone, negative errno = it failed. */
int motet_attempt_take(struct motet_meeting *meeting);

#endif
