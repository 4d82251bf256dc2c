/* SPDX-License-Identifier: Apache-2.0
 * The rules of a meeting: each rank comes once, all agree on size and protocol, a key is stored once, whoever leaves without goodbye
 * fails the job. The first failure is the one that everybody hears. */
#include "boot/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/session.h"

const char *motet_job_rank_text(const struct motet_job *job, int rank, char text[128])
{
    snprintf(text, 128, "rank %d (pid %u on %s)", rank, job->ranks[rank].pid, job->ranks[rank].host);
    return text;
}

void motet_job_fail(struct motet_job *job, motetResult_t code, const char *format, ...)
{
    char text[900];
    if (job->failure != motetSuccess)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    job->failure = code;
    job->failure_len = motet_failure_encode(code, text, job->failure_value, sizeof(job->failure_value));
    for (int rank = 0; rank < job->nranks; rank++)
        if (job->ranks[rank].state == MOTET_RANK_HERE)
            motet_session_tell_failure(job->ranks[rank].session);
}

/* First hello of the job: its claims are taken as they are. */
static bool begin(struct motet_job *job, const struct motet_hello *hello)
{
    if (hello->nranks < 1 || hello->nranks > MOTET_JOB_RANKS_MAX || hello->rank >= hello->nranks)
        return false;
    job->ranks = calloc(hello->nranks, sizeof(*job->ranks));
    if (!job->ranks)
        return false;
    job->nranks = (int)hello->nranks;
    job->first = (int)hello->rank;
    return true;
}

static void compare(struct motet_job *job, const struct motet_hello *hello)
{
    char first[128] = "the root";
    if (job->nranks > 0)
        motet_job_rank_text(job, job->first, first);
    if (hello->protocol != MOTET_BOOT_PROTOCOL)
        motet_job_fail(job, motetInvalidUsage, "rank %u (pid %u on %s) speaks bootstrap protocol %u, %s at %s speaks protocol %u",
                       hello->rank, hello->pid, hello->host, hello->protocol, first, job->where, MOTET_BOOT_PROTOCOL);
    else if (job->nranks > 0 && hello->nranks != (uint32_t)job->nranks)
        motet_job_fail(job, motetInvalidUsage, "rank %u (pid %u on %s) says that there are %u ranks, %s says %d (met at %s)",
                       hello->rank, hello->pid, hello->host, hello->nranks, first, job->nranks, job->where);
    else if (job->nranks == 0 && !begin(job, hello))
        motet_job_fail(job, motetInvalidUsage, "rank %u of %u (pid %u on %s): no such job can be served at %s", hello->rank,
                       hello->nranks, hello->pid, hello->host, job->where);
    else if (hello->rank >= (uint32_t)job->nranks)
        motet_job_fail(job, motetInvalidUsage, "rank %u (pid %u on %s) is outside of 0-%d (met at %s)", hello->rank, hello->pid,
                       hello->host, job->nranks - 1, job->where);
}

enum motet_job_answer motet_job_join(struct motet_job *job, struct motet_session *session, const struct motet_hello *hello)
{
    compare(job, hello);
    struct motet_job_rank *rank =
        job->ranks && hello->nranks == (uint32_t)job->nranks && hello->rank < hello->nranks ? &job->ranks[hello->rank] : NULL;
    if (rank && rank->state == MOTET_RANK_HERE) {
        /* Its goodbye may still wait to be read: the two connections are not ordered. */
        motet_session_read(rank->session);
        if (rank->state == MOTET_RANK_HERE && rank->session->dead)
            motet_job_leave(job, (int)hello->rank, false, rank->session->reason);
        else if (rank->state == MOTET_RANK_HERE)
            motet_job_fail(job, motetInvalidUsage, "rank %u came twice: pid %u on %s and pid %u on %s (met at %s)", hello->rank,
                           rank->pid, rank->host, hello->pid, hello->host, job->where);
    }
    if (rank && rank->state == MOTET_RANK_GONE)
        return MOTET_JOB_AGAIN;
    if (job->failure != motetSuccess) {
        if (rank && rank->state == MOTET_RANK_ABSENT) {
            rank->state = MOTET_RANK_GONE;
            job->ngone++;
        }
        return MOTET_JOB_REFUSED;
    }
    *rank = (struct motet_job_rank){.state = MOTET_RANK_HERE, .session = session, .pid = hello->pid};
    memcpy(rank->host, hello->host, sizeof(rank->host));
    job->nhere++;
    return MOTET_JOB_WELCOME;
}

void motet_job_leave(struct motet_job *job, int rank, bool said_goodbye, const char *reason)
{
    char who[128];
    if (job->ranks[rank].state != MOTET_RANK_HERE)
        return;
    job->ranks[rank].state = MOTET_RANK_GONE;
    job->ranks[rank].session = NULL;
    job->nhere--;
    job->ngone++;
    if (!said_goodbye)
        motet_job_fail(job, motetRemoteError, "%s left during init, its connection to the root at %s ended: %s",
                       motet_job_rank_text(job, rank, who), job->where, reason);
}

static struct motet_job_value **bucket_of(struct motet_job *job, const char *key)
{
    uint32_t hash = 2166136261u;
    for (const char *at = key; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619u;
    return &job->buckets[hash % MOTET_JOB_BUCKETS];
}

/* The entry of the frame's key, made if it is missing. NULL: out of memory, the job has failed. */
static struct motet_job_value *entry_of(struct motet_job *job, const struct motet_frame *frame)
{
    char key[MOTET_BOOT_KEY_MAX + 1];
    memcpy(key, frame->key, frame->key_len);
    key[frame->key_len] = '\0';
    struct motet_job_value **bucket = bucket_of(job, key);
    for (struct motet_job_value *value = *bucket; value; value = value->next)
        if (strcmp(value->key, key) == 0)
            return value;
    struct motet_job_value *value = calloc(1, sizeof(*value));
    if (!value) {
        motet_job_fail(job, motetSystemError, "the root at %s is out of memory", job->where);
        return NULL;
    }
    memcpy(value->key, key, sizeof(key));
    value->next = *bucket;
    *bucket = value;
    return value;
}

void motet_job_put(struct motet_job *job, int rank, const struct motet_frame *frame)
{
    char who[128], other[128];
    struct motet_job_value *value = entry_of(job, frame);
    if (!value)
        return;
    if (value->present) {
        motet_job_fail(job, motetInternalError, "%s stored the key %s that %s had stored (met at %s)",
                       motet_job_rank_text(job, rank, who), value->key, motet_job_rank_text(job, value->owner, other), job->where);
        return;
    }
    value->bytes = malloc(frame->value_len + 1);
    if (!value->bytes) {
        motet_job_fail(job, motetSystemError, "the root at %s is out of memory for %zu bytes", job->where, frame->value_len);
        return;
    }
    memcpy(value->bytes, frame->value, frame->value_len);
    value->len = frame->value_len;
    value->owner = rank;
    value->present = true;
    while (value->waiters) {
        struct motet_session *session = value->waiters;
        value->waiters = session->next_waiter;
        session->waits_for = NULL;
        motet_session_send(session, MOTET_FRAME_VALUE, value->bytes, value->len);
    }
}

void motet_job_get(struct motet_job *job, struct motet_session *session, const struct motet_frame *frame)
{
    struct motet_job_value *value = entry_of(job, frame);
    if (!value)
        return;
    if (value->present) {
        motet_session_send(session, MOTET_FRAME_VALUE, value->bytes, value->len);
        return;
    }
    session->waits_for = value;
    session->next_waiter = value->waiters;
    value->waiters = session;
}

bool motet_job_cancel(struct motet_job *job, struct motet_session *session)
{
    (void)job;
    if (!session->waits_for)
        return false;
    struct motet_session **at = &session->waits_for->waiters;
    while (*at != session)
        at = &(*at)->next_waiter;
    *at = session->next_waiter;
    session->waits_for = NULL;
    return true;
}

void motet_job_reset(struct motet_job *job)
{
    for (int i = 0; i < MOTET_JOB_BUCKETS; i++)
        for (struct motet_job_value *value = job->buckets[i], *next; value; value = next) {
            next = value->next;
            free(value->bytes);
            free(value);
        }
    free(job->ranks);
    char where[MOTET_ADDRESS_TEXT_MAX];
    memcpy(where, job->where, sizeof(where));
    memset(job, 0, sizeof(*job));
    memcpy(job->where, where, sizeof(where));
}
