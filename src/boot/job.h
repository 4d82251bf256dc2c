/* SPDX-License-Identifier: Apache-2.0
 * What a root knows of the job that it serves: which ranks came, the keys they stored, and why it failed. Used by the root's thread
 * only. Knows sessions as places to send answers to; it never reads from them. */
#ifndef MOTET_BOOT_JOB_H
#define MOTET_BOOT_JOB_H

#include "boot/frame.h"

#define MOTET_JOB_RANKS_MAX (1 << 20)
#define MOTET_JOB_BUCKETS   256

struct motet_session;

struct motet_job_value {
    struct motet_job_value *next;  /* in the bucket */
    struct motet_session *waiters; /* sessions whose GET waits for this key */
    bool present;
    size_t len;
    uint8_t *bytes; /* constant once present: sessions send straight from here */
    int owner;      /* rank that put it */
    char key[MOTET_BOOT_KEY_MAX + 1];
};

enum motet_job_rank_state { MOTET_RANK_ABSENT, MOTET_RANK_HERE, MOTET_RANK_GONE };

struct motet_job_rank {
    enum motet_job_rank_state state;
    struct motet_session *session;
    uint32_t pid;
    char host[64];
};

struct motet_job {
    char where[MOTET_ADDRESS_TEXT_MAX];
    int nranks; /* 0 until the first rank came */
    int first;  /* that rank: its claims are what others are compared with */
    struct motet_job_rank *ranks;
    int nhere, ngone;
    motetResult_t failure;       /* motetSuccess while all is well */
    uint8_t failure_value[1024]; /* value of the FAIL frame */
    size_t failure_len;
    bool dying; /* some session is dead and waits for the root to free it */
    struct motet_job_value *buckets[MOTET_JOB_BUCKETS];
};

/* What becomes of a hello. */
enum motet_job_answer { MOTET_JOB_WELCOME, MOTET_JOB_AGAIN, MOTET_JOB_REFUSED };

/* REFUSED: the job has failed (perhaps by this hello), the newcomer is to be told why. */
enum motet_job_answer motet_job_join(struct motet_job *job, struct motet_session *session, const struct motet_hello *hello);

/* The rank's connection ended; without goodbye that fails the job. */
void motet_job_leave(struct motet_job *job, int rank, bool said_goodbye, const char *reason);

/* First failure wins; all ranks that are here are told. */
void motet_job_fail(struct motet_job *job, motetResult_t code, const char *format, ...) __attribute__((format(printf, 3, 4)));

void motet_job_put(struct motet_job *job, int rank, const struct motet_frame *frame);
void motet_job_get(struct motet_job *job, struct motet_session *session, const struct motet_frame *frame);

/* Ends the session's waiting GET. False when it has none. */
bool motet_job_cancel(struct motet_job *job, struct motet_session *session);

/* "rank 3 (pid 17 on nodeb)"; returns text. */
const char *motet_job_rank_text(const struct motet_job *job, int rank, char text[128]);

/* Back to nothing known; no session of a rank may exist. */
void motet_job_reset(struct motet_job *job);

#endif
