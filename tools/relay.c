/* SPDX-License-Identifier: Apache-2.0 */
#include "relay.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUEUE_FULL  (1 << 20)  /* ranks are not read while more is queued */
#define LONG_LINE   (64 << 10) /* longer lines are passed on in parts */
#define PARTIAL_AGE 500        /* ms that an unfinished line (a prompt, a progress bar) waits */
#define WRITE_MAX   4096       /* PIPE_BUF: what a pipe that is ready takes without blocking */

struct relay_line {
    const char *prefix;
    int rank;
    char *text;
    size_t len, capacity;
    int64_t since_ms; /* when the first byte of the unfinished line came */
};

static void sink_ready(void *context, int fd, short events);

bool sink_open(struct sink *sink, struct loop *loop, int fd)
{
    const char *term = getenv("TERM");
    *sink = (struct sink){.loop = loop, .fd = fd};
    sink->colours = isatty(fd) && !getenv("NO_COLOR") && term && strcmp(term, "dumb");
    return loop_watch(loop, fd, 0, sink_ready, sink);
}

void sink_close(struct sink *sink)
{
    if (!sink->loop)
        return;
    loop_forget(sink->loop, sink->fd);
    free(sink->queue);
    *sink = (struct sink){.fd = -1};
}

/* One write that does not block; false when nothing more can be written now. */
static bool write_some(struct sink *sink)
{
    struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
    if (!sink->len || poll(&ready, 1, 0) != 1)
        return false;
    size_t part = sink->len < WRITE_MAX ? sink->len : WRITE_MAX;
    ssize_t n = write(sink->fd, sink->queue, part);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (n < 0) {
        sink->closed = true;
        sink->len = 0;
        return false;
    }
    sink->len -= (size_t)n;
    memmove(sink->queue, sink->queue + n, sink->len);
    return true;
}

static void sink_update(struct sink *sink)
{
    while (write_some(sink))
        ;
    loop_change(sink->loop, sink->fd, sink->len ? POLLOUT : 0);
}

static void sink_ready(void *context, int fd, short events)
{
    struct sink *sink = context;
    (void)fd;
    if ((events & (POLLERR | POLLHUP | POLLNVAL)) && !(events & POLLOUT)) {
        sink->closed = true;
        sink->len = 0;
    }
    sink_update(sink);
}

static void append(struct sink *sink, const void *data, size_t len)
{
    if (sink->closed)
        return;
    if (sink->len + len > sink->capacity) {
        size_t capacity = 2 * (sink->len + len);
        char *queue = realloc(sink->queue, capacity);
        if (!queue)
            return;
        sink->queue = queue;
        sink->capacity = capacity;
    }
    memcpy(sink->queue + sink->len, data, len);
    sink->len += len;
}

void sink_write(struct sink *sink, const void *data, size_t len)
{
    append(sink, data, len);
    sink_update(sink);
}

bool sink_is_full(const struct sink *sink)
{
    return sink->len > QUEUE_FULL;
}

void sink_drain(struct sink *sink, int timeout_ms)
{
    int64_t end = loop_now_ms() + timeout_ms;
    while (sink->loop && sink->len && !sink->closed) {
        int64_t left = end - loop_now_ms();
        struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
        if (left <= 0 || (poll(&ready, 1, (int)left) < 0 && errno != EINTR))
            return;
        if ((ready.revents & (POLLERR | POLLHUP | POLLNVAL)) && !(ready.revents & POLLOUT))
            return;
        sink_update(sink);
    }
}

bool relay_open(struct relay *relay, struct loop *loop, int nranks, char **prefixes)
{
    struct stat out, err;
    *relay = (struct relay){.loop = loop, .nranks = nranks, .prefixes = prefixes != NULL};
    relay->lines = calloc(2 * (size_t)nranks, sizeof *relay->lines);
    if (!relay->lines || !sink_open(&relay->sinks[0], loop, STDOUT_FILENO))
        return false;
    relay->out[0] = relay->out[1] = &relay->sinks[0];
    bool same = !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err) && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    if (!same) {
        if (!sink_open(&relay->sinks[1], loop, STDERR_FILENO))
            return false;
        relay->out[1] = &relay->sinks[1];
    }
    for (int i = 0; i < 2 * nranks; i++) {
        relay->lines[i].rank = i / 2;
        relay->lines[i].prefix = prefixes ? prefixes[i / 2] : NULL;
    }
    return true;
}

static void put_prefix(struct sink *sink, const struct relay_line *line)
{
    static const char *const colours[] = {"36", "33", "32", "35", "34", "31", "96", "93", "92", "95", "94", "91"};
    char text[160];
    int n;
    if (!line->prefix)
        return;
    if (sink->colours)
        n = snprintf(text, sizeof text, "\033[%sm[%s]\033[0m ", colours[(size_t)line->rank % 12], line->prefix);
    else
        n = snprintf(text, sizeof text, "[%s] ", line->prefix);
    append(sink, text, (size_t)n);
}

/* Queues the first `len` bytes of a line buffer. A carriage return inside a line goes back over the prefix, so it is repeated. */
static void put_text(struct sink *sink, struct relay_line *line, size_t len)
{
    if (sink->open_line && sink->open_line != line) {
        append(sink, "\n", 1);
        sink->open_line = NULL;
    }
    const char *at = line->text;
    const char *end = line->text + len;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *part_end = stop ? stop + 1 : end;
        if (sink->open_line != line)
            put_prefix(sink, line);
        while (at < part_end) {
            const char *back = memchr(at, '\r', (size_t)(part_end - at));
            const char *piece_end = back ? back + 1 : part_end;
            append(sink, at, (size_t)(piece_end - at));
            if (back && piece_end < part_end && *piece_end != '\n' && *piece_end != '\r')
                put_prefix(sink, line);
            at = piece_end;
        }
        sink->open_line = stop ? NULL : line;
    }
    line->len -= len;
    memmove(line->text, line->text + len, line->len);
}

static bool grow(struct relay_line *line, size_t len)
{
    if (line->len + len <= line->capacity)
        return true;
    size_t capacity = 2 * (line->len + len);
    char *text = realloc(line->text, capacity);
    if (!text)
        return false;
    line->text = text;
    line->capacity = capacity;
    return true;
}

void relay_text(struct relay *relay, int rank, int stream, const char *data, size_t len)
{
    struct relay_line *line = &relay->lines[2 * rank + stream];
    struct sink *sink = relay->out[stream];
    if (!len || !grow(line, len))
        return;
    if (!line->len)
        line->since_ms = loop_now_ms();
    memcpy(line->text + line->len, data, len);
    line->len += len;
    const char *last = memrchr(line->text, '\n', line->len);
    if (last)
        put_text(sink, line, (size_t)(last + 1 - line->text));
    if (line->len > LONG_LINE)
        put_text(sink, line, line->len);
    if (last && line->len)
        line->since_ms = loop_now_ms();
    sink_update(sink);
}

void relay_end_rank(struct relay *relay, int rank)
{
    for (int stream = 0; stream < 2; stream++) {
        struct relay_line *line = &relay->lines[2 * rank + stream];
        struct sink *sink = relay->out[stream];
        if (line->len)
            put_text(sink, line, line->len);
        /* Without prefixes an output that ends without a newline stays as it is. */
        if (sink->open_line == line && relay->prefixes) {
            append(sink, "\n", 1);
            sink->open_line = NULL;
        }
        sink_update(sink);
    }
}

bool relay_is_full(const struct relay *relay)
{
    return sink_is_full(relay->out[0]) || sink_is_full(relay->out[1]);
}

int relay_flush_old(struct relay *relay)
{
    int64_t now = loop_now_ms();
    int next = -1;
    bool full = relay_is_full(relay), held = full || relay->was_full;
    relay->was_full = full;
    for (int i = 0; i < 2 * relay->nranks; i++) {
        struct relay_line *line = &relay->lines[i];
        if (!line->len)
            continue;
        /* While ranks are not read, the rest of the line may be in the pipe. */
        if (held)
            line->since_ms = now;
        int64_t left = line->since_ms + PARTIAL_AGE - now;
        if (left <= 0) {
            put_text(relay->out[i % 2], line, line->len);
            sink_update(relay->out[i % 2]);
        } else if (next < 0 || left < next) {
            next = (int)left;
        }
    }
    return next;
}

void relay_say(struct relay *relay, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    size_t len = (size_t)n < sizeof text - 2 ? (size_t)n : sizeof text - 2;
    text[len] = '\n';
    struct sink *sink = relay->out[RELAY_STDERR];
    if (sink->open_line)
        append(sink, "\n", 1);
    sink->open_line = NULL;
    append(sink, "motet run: ", strlen("motet run: "));
    append(sink, text, len + 1);
    sink_update(sink);
}

void relay_close(struct relay *relay, int timeout_ms)
{
    for (int rank = 0; relay->out[1] && rank < relay->nranks; rank++)
        relay_end_rank(relay, rank);
    for (int i = 0; i < 2; i++) {
        sink_drain(&relay->sinks[i], timeout_ms);
        sink_close(&relay->sinks[i]);
    }
    for (int i = 0; relay->lines && i < 2 * relay->nranks; i++)
        free(relay->lines[i].text);
    free(relay->lines);
    *relay = (struct relay){0};
}
