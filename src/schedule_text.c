/* SPDX-License-Identifier: Apache-2.0
 * Schedules as text for people: one header line, then the steps of each round in aligned columns. Stable, since documents and
 * tests show it. Reads schedules only; every fact about a step comes from schedule.c. */
#include "schedule.h"

#include <stdarg.h>
#include <string.h>

#define TEXT_MAX 160

/* One printed step: columns of text. */
struct line {
    const char *verb;
    char dst[TEXT_MAX], value[TEXT_MAX], to[TEXT_MAX];
};

struct widths {
    int verb, dst, value;
};

static void add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(char *text, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + len, TEXT_MAX - len, format, args);
    va_end(args);
}

const char *motet_plane_name(int plane)
{
    static const char *const names[MOTET_NPLANES] = {
        "-", "in", "out", "scratch0", "scratch1", "scratch2", "partial0", "partial1", "partial2",
    };
    return plane >= 0 && plane < MOTET_NPLANES ? names[plane] : "?";
}

/* "5", "3..5", cyclic "6..1". */
static void add_run(char *text, int first, int n, int modulus)
{
    add(text, "%d", motet_mod(first, modulus));
    if (n > 1)
        add(text, "..%d", motet_mod(first + n - 1, modulus));
}

/* `count` runs of `run` numbers (the last one may be shorter: n in all), every `stride`: "0..1,4..5", "0,2,..,14". */
static void add_runs(char *text, int first, int run, int stride, int n, int modulus)
{
    int count = (n + run - 1) / run;
    for (int g = 0; g < count; g++) {
        if (count > 5 && g == 2) {
            add(text, ",..");
            g = count - 1;
        }
        int64_t at = (first + (int64_t)g * stride) % modulus;
        add(text, "%s", g ? "," : "");
        add_run(text, (int)at, g == count - 1 ? n - g * run : run, modulus);
    }
}

static void add_span(char *text, struct motet_span span, int n, int nchunks)
{
    bool one_run = span.run == 0 || span.run >= n || span.stride == span.run;
    if (one_run && n == nchunks && motet_mod(span.first, nchunks) == 0)
        add(text, "all");
    else if (one_run)
        add_run(text, span.first, n, nchunks);
    else
        add_runs(text, span.first, span.run, span.stride, n, nchunks);
}

/* Whether the i-th peer's chunk is factor * peer + offset for every peer, as in "[peer]", "[2*peer+1]". */
static bool chunk_follows_peer(const struct motet_peers *peers, int first, int each, int nranks, int nchunks, int *factor,
                               int *offset)
{
    int stride = peers->stride ? peers->stride : 1;
    if (each % stride)
        return false;
    *factor = each / stride;
    *offset = motet_mod(first - *factor * motet_mod(peers->first, nranks), nchunks);
    for (int i = 0; i < peers->n; i++) {
        int64_t peer = motet_mod(peers->first + i * stride, nranks);
        if ((*factor * peer + *offset - first - (int64_t)i * each) % nchunks)
            return false;
    }
    return true;
}

static void add_peer_term(char *text, int factor, int offset)
{
    if (factor != 1)
        add(text, "%d*", factor);
    add(text, "peer");
    if (offset)
        add(text, "+%d", offset);
}

/* The chunks of a step, in brackets. With `each` they depend on the peer. */
static void add_chunks(char *text, const struct motet_schedule *schedule, const struct motet_step *step, struct motet_span span)
{
    int nchunks = motet_schedule_nchunks(schedule), factor, offset;
    const struct motet_peers *peers = step->to.n ? &step->to : &step->from;
    bool one_run = span.run == 0 || span.run >= step->n || span.stride == span.run;
    add(text, "[");
    if (!step->each) {
        add_span(text, span, step->n, nchunks);
    } else if (one_run && chunk_follows_peer(peers, span.first, step->each, schedule->nranks, nchunks, &factor, &offset)) {
        add_peer_term(text, factor, offset);
        if (step->n > 1) {
            add(text, "..");
            add_peer_term(text, factor, offset + step->n - 1);
        }
    } else {
        add_span(text, span, step->n, nchunks);
        add(text, " each %+d", step->each);
    }
    add(text, "]");
}

/* Peers one apart: a run, or two if the own position stands between: "2..5", "2..3,5". */
static void add_neighbours(char *text, const struct motet_schedule *schedule, struct motet_peers peers)
{
    int nranks = schedule->nranks, own = motet_mod(schedule->position - peers.first, nranks);
    if (own > peers.n)
        own = peers.n;
    if (own > 0)
        add_run(text, peers.first, own, nranks);
    if (own > 0 && own < peers.n - 1)
        add(text, ",");
    if (own < peers.n - 1)
        add_run(text, peers.first + own + 1, peers.n - own - 1, nranks);
}

/* Any peers, one by one; the middle of a long list is left out: "0,4,8", "0,2,..,14". */
static void add_scattered(char *text, const struct motet_schedule *schedule, struct motet_peers peers, int count)
{
    for (int i = 0; i < count; i++) {
        if (count > 5 && i == 2) {
            add(text, ",..");
            i = count - 1;
        }
        add(text, "%s%d", i ? "," : "", motet_peers_at(peers, i, schedule->position, schedule->nranks));
    }
}

/* "3", "all", "2..5", "0,4,8", never the own position; with `each`: "each", "each of 2..5". */
static void add_peers(char *text, const struct motet_schedule *schedule, struct motet_peers peers, bool each)
{
    int count = motet_peers_count(peers, schedule->position, schedule->nranks);
    if (count == schedule->nranks - 1 && schedule->nranks > 2) {
        add(text, each ? "each" : "all");
        return;
    }
    add(text, each && count > 1 ? "each of " : "");
    if (peers.stride == 0 || peers.stride == 1)
        add_neighbours(text, schedule, peers);
    else
        add_scattered(text, schedule, peers, count);
}

static const char *step_verb(const struct motet_schedule *schedule, const struct motet_step *step, bool receives, bool sends)
{
    if (step->n == 0)
        return receives && sends ? "relay" : receives ? "await" : "signal";
    int local = step->src == MOTET_NONE ? 0 : step->nsrc;
    if ((step->each ? receives + local : motet_step_operands(step, schedule->position, schedule->nranks)) > 1)
        return "reduce";
    if (receives)
        return sends ? "forward" : "receive";
    return sends ? "send" : "copy";
}

static void add_value(char *text, const struct motet_schedule *schedule, const struct motet_step *step, bool receives)
{
    if (step->src != MOTET_NONE && step->n > 0) {
        add(text, "%s", motet_plane_name(step->src));
        if (step->nsrc > 1)
            add(text, "..%s", motet_plane_name(step->src + step->nsrc - 1));
        add_chunks(text, schedule, step, step->src_at);
        add(text, receives ? " + " : "");
    }
    if (receives) {
        add(text, "from ");
        add_peers(text, schedule, step->from, step->each);
        add(text, step->flags & MOTET_WIDE ? " wide" : "");
    }
}

static void describe(struct line *line, const struct motet_schedule *schedule, const struct motet_step *step)
{
    bool receives = motet_peers_count(step->from, schedule->position, schedule->nranks) > 0;
    bool sends = motet_peers_count(step->to, schedule->position, schedule->nranks) > 0;
    memset(line, 0, sizeof(*line));
    line->verb = step_verb(schedule, step, receives, sends);
    if (step->n > 0 && (step->dst != MOTET_NONE || receives)) {
        add(line->dst, "%s", step->dst != MOTET_NONE ? motet_plane_name(step->dst) : "");
        add_chunks(line->dst, schedule, step, step->dst_at);
        add(line->dst, " =");
    }
    add_value(line->value, schedule, step, receives);
    if (sends) {
        add(line->to, "-> ");
        add_peers(line->to, schedule, step->to, step->each);
    }
}

static void widen(int *width, const char *text)
{
    int len = (int)strlen(text);
    *width = len > *width ? len : *width;
}

static void print_line(FILE *out, int index, const struct line *line, const struct widths *widths)
{
    char text[4 * TEXT_MAX];
    int len = snprintf(text, sizeof(text), "%4d  %-*s  %*s %-*s  %s", index, widths->verb, line->verb, widths->dst, line->dst,
                       widths->value, line->value, line->to);
    while (len > 0 && text[len - 1] == ' ')
        len--;
    fprintf(out, "%.*s\n", len, text);
}

static const char *plural(int n)
{
    return n == 1 ? "" : "s";
}

static void print_header(FILE *out, const struct motet_schedule *schedule)
{
    int rounds = 0, nchunks = motet_schedule_nchunks(schedule);
    for (int s = 0; s < schedule->nsteps; s++)
        rounds += (schedule->steps[s].flags & MOTET_ENDS_ROUND) || s == schedule->nsteps - 1;
    fprintf(out, "position %d of %d: %d block%s of %d part%s, %d step%s in %d round%s, stages %d of %d chunk%s%s\n",
            schedule->position, schedule->nranks, schedule->nblocks, plural(schedule->nblocks), schedule->parts,
            plural(schedule->parts), schedule->nsteps, plural(schedule->nsteps), rounds, plural(rounds), schedule->stage_chunks,
            nchunks, plural(nchunks), schedule->out_of_memory ? " (INCOMPLETE: out of memory)" : "");
}

void motet_schedule_print(FILE *out, const struct motet_schedule *schedule)
{
    struct widths widths = {0};
    struct line line;
    for (int s = 0; s < schedule->nsteps; s++) {
        describe(&line, schedule, &schedule->steps[s]);
        widen(&widths.verb, line.verb);
        widen(&widths.dst, line.dst);
        widen(&widths.value, line.value);
    }
    print_header(out, schedule);
    bool starts_round = true;
    for (int s = 0, round = 0; s < schedule->nsteps; s++) {
        if (starts_round)
            fprintf(out, "round %d\n", round++);
        describe(&line, schedule, &schedule->steps[s]);
        print_line(out, s, &line, &widths);
        starts_round = schedule->steps[s].flags & MOTET_ENDS_ROUND;
    }
}
