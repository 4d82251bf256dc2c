/* SPDX-License-Identifier: Apache-2.0
 * The private side of endpoints, shared by the files that implement endpoint.h: endpoint.c (life, data, control), connect.c (how two
 * processes meet), process.c (start and end of the library in a process) and doorbell.c.
 *
 * Life of a link: CONNECTING -> READY -> dead, or CONNECTING -> FAILED. A link that breaks is first marked `broken` by whoever noticed;
 * the service thread then reads what still arrives (data that arrived before counts), marks it dead and tells the handlers. The table
 * holds a reference until then; the last reference frees. Endpoints of live peers stay until the process closes. */
#ifndef MOTET_LINK_H
#define MOTET_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "endpoint.h"
#include "lane.h"
#include "message.h"
#include "obituary.h"
#include "service.h"

enum motet_link_state { MOTET_LINK_CONNECTING, MOTET_LINK_READY, MOTET_LINK_FAILED };

struct motet_obituary_message { /* why another process, which the teller could see die, ended */
    uint8_t token[16];
    uint8_t orderly;
    char text[143];
};

struct motet_attempt; /* connect.c */

struct motet_lane_watch {
    struct motet_watch watch;
    struct motet_link *link;
    int lane;
};

struct motet_link {
    struct motet_endpoint endpoint; /* first, so that a pointer to it is a pointer to the link */
    _Atomic int refs;
    uint64_t serial; /* names the link where a pointer might outlive it */
    struct motet_channel *channel;
    int nlanes;
    struct motet_lane *lanes;

    pthread_mutex_t control_lock; /* sending on the control connection */
    struct motet_mailbox control; /* fd -1: none */

    _Atomic(_Bool) broken;    /* somebody noticed; `cause` of the endpoint is being written */
    _Atomic int lost;         /* broken by this error of a stream, a negative errno; why is for the service thread to find out */
    _Atomic(_Bool) caused;    /* the cause is there */
    _Atomic(_Bool) announced; /* the handlers were told */
    _Atomic uint32_t ended;   /* bit per lane whose stream has ended */

    /* Under the table's lock (motet_links_lock). */
    struct motet_link *next;
    enum motet_link_state state;
    char failure[512]; /* FAILED: why */
    int code;          /* FAILED: motetResult_t */

    /* Service thread only. */
    struct motet_watch control_watch, life_watch;
    struct motet_lane_watch *lane_watches;
    struct motet_attempt *attempt; /* CONNECTING: how far it is (connect.c) */
    uint64_t gone_ns;              /* when the peer process, or its control connection, ended, or a stream was lost; 0: not yet */
    bool process_gone;             /* the process or the control connection has ended: not just a stream */
    bool told;                     /* `obituary` came from a process of its host */
    struct motet_obituary obituary;
    struct motet_silence silences[1 + MOTET_LANES_MAX]; /* of the control connection, then of the lanes */
    uint64_t listen_ns;                                 /* when to look again whether its host answers */
    uint64_t doubt_ns; /* when it was first seen to have been silent for nearly too long; 0: it answers */
    uint64_t ended_ns; /* when the first lane was seen to have ended */
    uint64_t part_ns;  /* broken: read what is left until then at the latest; 0: not yet begun */
    bool finished;     /* nothing more will be sent: BYE was said */

    bool is_simulated;
    struct motet_link *twin; /* of a simulated link: the other end, in this process */
};

static inline struct motet_link *motet_link_of(struct motet_endpoint *endpoint)
{
    return (struct motet_link *)endpoint;
}

/* ---- endpoint.c ---- */

extern pthread_mutex_t motet_links_lock; /* the table and everything said to be under it */
extern struct motet_link *motet_links;   /* the table */

/* A link to `peer` in state CONNECTING with one reference; not in the table. NULL: out of memory. */
struct motet_link *motet_link_make(const struct motet_process *peer);
void motet_link_unref(struct motet_link *link);

/* Gives a joined channel and the control connection (NULL for the own process) to a link. Takes both, also on failure. Nothing is
 * watched yet. */
motetResult_t motet_link_attach(struct motet_link *link, const struct motet_transport *transport, struct motet_channel *channel,
                                struct motet_mailbox *control);

/* Table operations; the lock is held. */
void motet_links_add(struct motet_link *link);    /* the table takes a reference */
void motet_links_remove(struct motet_link *link); /* and gives it back; harmless when it is not there */
struct motet_link *motet_links_find(const uint8_t token[16]);

/* Notes that the connection is broken and why; the first cause wins. Any thread. */
void motet_link_break(struct motet_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for the service thread, which also says what a lost stream meant. */
void motet_link_settle(struct motet_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Notes that a stream failed with a negative errno. Often that is only the first sign of a death, whose cause says more. Any thread. */
void motet_link_lose(struct motet_link *link, int error);

/* Tells the handlers, once, that the link is dead. Service thread or a caller that reads. */
void motet_link_announce(struct motet_link *link);

/* Reads one lane, on behalf of whoever was woken for it. True if anything arrived. */
bool motet_link_read_lane(struct motet_link *link, int lane);

/* Sends what waits on a lane; when that makes room somebody asked for, wakes this process. True if anything went. */
bool motet_link_flush_lane(struct motet_link *link, int lane);

/* Output waits: makes sure that the service thread is told when the stream takes more. */
void motet_link_arm_output(struct motet_link *link, int lane);

/* Sends on the control connection; a failure breaks the link. Any thread. */
motetResult_t motet_link_say(struct motet_link *link, uint32_t kind, uint64_t key, const void *bytes, size_t len);

/* Reads the lane of a link that may be gone by now. */
void motet_links_read(uint64_t serial, int lane);

/* ---- life.c: links that stand, on the service thread ---- */

/* Starts watching a READY link. */
motetResult_t motet_link_watch(struct motet_link *link);
void motet_link_unwatch(struct motet_link *link);

/* Does what time or other threads ask for: buries broken links. Returns when to look again. */
uint64_t motet_links_tick(uint64_t now_ns);

/* Says goodbye to all peers, sends what callers left behind and waits for their answer until deadline_ns. True when done. */
bool motet_links_finish(uint64_t now_ns, uint64_t deadline_ns);

/* ---- doorbell.c ---- */

motetResult_t motet_doorbell_open(void);
void motet_doorbell_close(void);
int motet_doorbell_descriptor(void); /* what peers write to wake this process */

void motet_doorbell_forked(void); /* in a forked child, where all descriptors are closed */

/* A data socket that wakes sleepers. */
void motet_doorbell_add(int fd, uint64_t serial, int lane);
void motet_doorbell_remove(int fd);

/* +1, -1: endpoints without descriptor; while there are any, sleepers wake up often by themselves. */
void motet_doorbell_poll(int more);

#endif
