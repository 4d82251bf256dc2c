/* SPDX-License-Identifier: Apache-2.0
 * Who is to blame: from the rows of a communicator to a sentence. A rank that waits is never blamed while there is one that does not:
 * first the ranks that have not made the newest call that others are in, then whoever the chain of waits ends at, then a circle. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "status_job.h"

#define STUCK_S    1.0 /* shorter waits are the usual business */
#define NAMED_MOST 8   /* culprits named; the others are counted */

struct sentence {
    char *text;
    size_t len, used;
};

static void say(struct sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct sentence *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = s->used < s->len ? vsnprintf(s->text + s->used, s->len - s->used, format, arguments) : 0;
    va_end(arguments);
    s->used += n > 0 ? (size_t)n : 0;
}

const char *status_duration(char text[32], double seconds)
{
    if (seconds < 1)
        snprintf(text, 32, "%.0f ms", seconds * 1000);
    else if (seconds < 10)
        snprintf(text, 32, "%.1f s", seconds);
    else if (seconds < 600)
        snprintf(text, 32, "%.0f s", seconds);
    else if (seconds < 36000)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.1f h", seconds < 1e9 ? seconds / 3600 : 0);
    return text;
}

static bool is_stuck(const struct status_row *row)
{
    return row->has_current && row->waits && row->waits_s >= STUCK_S;
}

/* Where the same process waits in another communicator; NULL when it does not, or when the process holds several ranks of this one. */
static const struct status_row *elsewhere(const struct status_job *job, size_t first, size_t n, const struct status_row *row)
{
    int ranks = 0;
    for (size_t i = first; i < first + n; i++)
        ranks += job->rows[i].pid == row->pid && strcmp(job->rows[i].host, row->host) == 0;
    for (size_t i = 0; ranks == 1 && i < job->n; i++)
        if ((i < first || i >= first + n) && job->rows[i].pid == row->pid && strcmp(job->rows[i].host, row->host) == 0 &&
            job->rows[i].has_current)
            return &job->rows[i];
    return NULL;
}

/* ", it is ...": what somebody does instead. */
static void say_instead(struct sentence *s, const struct status_job *job, size_t first, size_t n, const struct status_row *row)
{
    char duration[32];
    const struct status_row *other = elsewhere(job, first, n, row);
    if (row->process == 'T' || row->process == 't')
        say(s, "it is stopped (SIGSTOP or a debugger)");
    else if (row->process == 'Z' || row->process == 'X')
        say(s, "its process has ended");
    else if (strcmp(row->state, "finalized") == 0)
        say(s, "it has finalized or destroyed the communicator");
    else if (strcmp(row->state, "aborted") == 0)
        say(s, "it has aborted the communicator");
    else if (row->has_current)
        say(s, "it is in %s for %s", row->current.what, status_duration(duration, row->current.began_s));
    else if (other)
        say(s, "it is in %s of communicator \"%s\" for %s", other->current.what, other->comm,
            status_duration(duration, other->current.began_s));
    else
        say(s, "it is in user code for %s", status_duration(duration, row->idle_s));
}

static void say_who(struct sentence *s, const struct status_row *row)
{
    say(s, "rank %d (pid %d, host %s)", row->rank, row->pid, row->host);
}

static const struct status_row *find_rank(const struct status_row *rows, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].rank == rank)
            return &rows[i];
    return NULL;
}

static void say_waiters(struct sentence *s, const struct status_row *rows, size_t n)
{
    int waiters = 0;
    for (size_t i = 0; i < n; i++)
        waiters += is_stuck(&rows[i]);
    say(s, "; %d %s", waiters, waiters == 1 ? "rank waits" : "ranks wait");
}

/* Two ranks that are in the same call by number and in different ones by what was called. */
static bool say_mismatch(struct sentence *s, const struct status_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) {
            const struct status_call *a = &rows[i].current, *b = &rows[k].current;
            if (!is_stuck(&rows[i]) || !rows[k].has_current || a->is_message || b->is_message || a->number != b->number ||
                a->history == b->history)
                continue;
            say(s, "call %" PRId64 " differs: rank %d called %s, rank %d called %s%s", a->number, rows[i].rank, a->what,
                rows[k].rank, b->what, strcmp(a->what, b->what) == 0 ? "; an earlier call differed" : "");
            return true;
        }
    return false;
}

/* Ranks that have not begun the newest collective that others wait in. */
static bool say_absent(struct sentence *s, const struct status_job *job, size_t first, size_t n)
{
    const struct status_row *rows = &job->rows[first], *newest = NULL;
    int named = 0, more = 0;
    for (size_t i = 0; i < n; i++)
        if (is_stuck(&rows[i]) && !rows[i].current.is_message && (!newest || rows[i].current.number > newest->current.number))
            newest = &rows[i];
    for (size_t i = 0; newest && i < n; i++) {
        if (rows[i].calls >= newest->current.number || is_stuck(&rows[i]))
            continue;
        if (named++ >= NAMED_MOST) {
            more++;
            continue;
        }
        say(s, "%s", named > 1 ? "; " : "");
        say_who(s, &rows[i]);
        say(s, " has not called %s #%" PRId64 "; ", newest->current.name, newest->current.number);
        say_instead(s, job, first, n, &rows[i]);
    }
    if (more)
        say(s, "; and %d more", more);
    if (named)
        say_waiters(s, rows, n);
    return named > 0;
}

/* Follows who waits for whom, from a rank that waits to one that does not, or round in a circle. */
static bool say_chain(struct sentence *s, const struct status_job *job, size_t first, size_t n)
{
    const struct status_row *rows = &job->rows[first], *at = NULL;
    for (size_t i = 0; i < n && !at; i++)
        at = is_stuck(&rows[i]) && rows[i].waits_for >= 0 ? &rows[i] : NULL;
    const struct status_row *from = at;
    for (size_t hops = 0; at && hops < n; hops++) {
        const struct status_row *next = find_rank(rows, n, at->waits_for);
        if (!next) {
            say(s, "rank %d waits in %s for rank %d, of which nothing is known", at->rank, at->current.what, at->waits_for);
            say_waiters(s, rows, n);
            return true;
        }
        if (!is_stuck(next) || next->waits_for < 0) {
            say_who(s, next);
            say(s, " is waited for by rank %d in %s; ", at->rank, at->current.what);
            say_instead(s, job, first, n, next);
            say_waiters(s, rows, n);
            return true;
        }
        at = next;
    }
    if (!from)
        return false;
    from = at; /* in the circle by now */
    say(s, "they wait in a circle:");
    bool nobody_sends = true;
    for (size_t hops = 0; hops < n; hops++) {
        say(s, "%s rank %d waits in %s", hops ? "," : "", at->rank, at->current.what);
        if (!at->current.is_message) /* the words of a message name its peer */
            say(s, " for rank %d", at->waits_for);
        nobody_sends = nobody_sends && strncmp(at->current.what, "Recv", 4) == 0;
        at = find_rank(rows, n, at->waits_for);
        if (!at || at == from)
            break;
    }
    if (nobody_sends)
        say(s, "; nobody sends");
    say_waiters(s, rows, n);
    return true;
}

static void say_calm(struct sentence *s, const struct status_row *rows, size_t n)
{
    int inside = 0, over = 0;
    for (size_t i = 0; i < n; i++) {
        inside += rows[i].has_current;
        over += strcmp(rows[i].state, "alive") != 0;
    }
    if (over)
        say(s, "%d of %zu ranks have left the communicator", over, n);
    else if (inside)
        say(s, "nobody waits for long; %d of %zu ranks are in a call", inside, n);
    else
        say(s, "nobody waits; all %zu ranks are in user code", n);
}

const char *status_late(const struct status_job *job, size_t first, size_t n)
{
    const struct status_row *worst = NULL;
    for (size_t i = first; i < first + n; i++)
        if (job->rows[i].late && (!worst || job->rows[i].late_saved > worst->late_saved))
            worst = &job->rows[i];
    return worst ? worst->late : NULL;
}

const char *status_verdict(const struct status_job *job, size_t first, size_t n, char *text, size_t len, bool *stuck)
{
    const struct status_row *rows = &job->rows[first];
    struct sentence s = {text, len, 0};
    text[0] = '\0';
    *stuck = false;
    for (size_t i = 0; i < n && !*stuck; i++)
        if (rows[i].error) {
            say(&s, "it has failed: %s", rows[i].error);
            *stuck = true;
            return text;
        }
    for (size_t i = 0; i < n; i++)
        *stuck |= is_stuck(&rows[i]);
    if (!*stuck)
        say_calm(&s, rows, n);
    else if (!say_mismatch(&s, rows, n) && !say_absent(&s, job, first, n) && !say_chain(&s, job, first, n)) {
        say(&s, "nobody can be blamed from what is known");
        say_waiters(&s, rows, n);
    }
    if (n < (size_t)rows[0].nranks)
        say(&s, "; of %zu ranks nothing is known", (size_t)rows[0].nranks - n);
    return text;
}
