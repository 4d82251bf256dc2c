/* SPDX-License-Identifier: Apache-2.0
 * Bytes, messages and connections of all positions of one algorithm. One schedule is held at a time, but for the count of rounds, which
 * needs all of them and is left out for many ranks. */
#include <stdlib.h>

#include "base/error.h"
#include "explanation.h"

/* What is added up over positions. */
struct sum {
    const struct motet_explanation_scene *scene;
    struct motet_explanation_volume *volume;
    double *host_sent; /* by host: what leaves it */
    uint64_t *pairs;   /* one bit for each pair of positions, lower one first, that exchange anything */
};

static int host_of(const struct motet_explanation_scene *scene, int p)
{
    if (scene->network_host)
        return scene->network_host[p];
    int h = 0;
    while (scene->shape.host_first[h + 1] <= p)
        h++;
    return h;
}

static void note_pairs(struct sum *sum, const struct motet_schedule *schedule)
{
    int n = schedule->nranks, p = schedule->position;
    for (int s = 0; s < schedule->nsteps; s++) {
        struct motet_peers to = schedule->steps[s].to;
        for (int i = 0, count = motet_peers_count(to, p, n); i < count; i++) {
            int peer = motet_peers_at(to, i, p, n);
            size_t low = (size_t)(p < peer ? p : peer), high = (size_t)(p < peer ? peer : p), bit = low * (size_t)n + high;
            uint64_t mask = UINT64_C(1) << bit % 64;
            sum->volume->connections += !(sum->pairs[bit / 64] & mask);
            sum->pairs[bit / 64] |= mask;
        }
    }
}

static void add_position(struct sum *sum, const struct motet_schedule *schedule)
{
    struct motet_explanation_volume *volume = sum->volume;
    struct motet_cost_volume own;
    int p = schedule->position;
    motet_cost_volume(schedule, &sum->scene->shape, &sum->scene->world, &sum->scene->load, &own);
    if (p == 0 || own.sent > volume->sent_most) {
        volume->sent_most = own.sent;
        volume->sent_most_rank = p;
    }
    if (p == 0 || own.received > volume->received_most) {
        volume->received_most = own.received;
        volume->received_most_rank = p;
    }
    volume->total += own.sent;
    volume->messages += own.messages_sent;
    volume->messages_most = own.messages_sent > volume->messages_most ? own.messages_sent : volume->messages_most;
    volume->phases = own.rounds > volume->phases ? own.rounds : volume->phases;
    volume->parts = schedule->parts;
    sum->host_sent[host_of(sum->scene, p)] += own.sent_net;
    note_pairs(sum, schedule);
}

/* Few ranks: all schedules are kept, for the rounds. Many: one at a time. */
static bool add_all(struct sum *sum, const struct motet_algorithm *algorithm)
{
    int n = sum->scene->shape.nranks;
    bool all = n <= MOTET_EXPLANATION_ROUNDS_RANKS, ok;
    struct motet_schedule *schedules = calloc(all ? (size_t)n : 1, sizeof(*schedules));
    ok = schedules;
    for (int p = 0; ok && p < n; p++) {
        struct motet_shape own = sum->scene->shape;
        own.position = p;
        struct motet_schedule *schedule = &schedules[all ? p : 0];
        algorithm->build(schedule, &own);
        motet_schedule_expand(schedule);
        ok = !schedule->out_of_memory;
        if (ok)
            add_position(sum, schedule);
    }
    ok = ok && (!all || motet_playback_rounds(schedules, n, &sum->volume->rounds));
    for (int p = 0; schedules && p < (all ? n : 1); p++)
        motet_schedule_free(&schedules[p]);
    free(schedules);
    return ok;
}

motetResult_t motet_explanation_measure(const struct motet_explanation_scene *scene, const struct motet_algorithm *algorithm,
                                        struct motet_explanation_volume *volume)
{
    size_t n = (size_t)scene->shape.nranks;
    struct sum sum = {
        .scene = scene,
        .volume = volume,
        .host_sent = calloc((size_t)scene->network_hosts, sizeof(double)),
        .pairs = calloc(n * n / 64 + 1, sizeof(uint64_t)),
    };
    *volume = (struct motet_explanation_volume){0};
    bool ok = sum.host_sent && sum.pairs && add_all(&sum, algorithm);
    for (int h = 0; ok && h < scene->network_hosts; h++) {
        if (sum.host_sent[h] <= volume->host_most)
            continue;
        volume->host_most = sum.host_sent[h];
        volume->host_most_host = h;
    }
    free(sum.host_sent);
    free(sum.pairs);
    return ok ? motetSuccess
              : motet_fail(motetSystemError, "out of memory for the schedules of %s on %d ranks", algorithm->name,
                           scene->shape.nranks);
}
