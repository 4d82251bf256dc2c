/* SPDX-License-Identifier: Apache-2.0
 * Reduce-scatter and all-gather over hosts: inside a host everybody talks to everybody; between hosts only carriers talk, one
 * message per chunk and pair of hosts. Total between hosts: (nhosts - 1) * M each, the least possible. */
#include "coll/hosts.h"

struct motet_host motet_host_at(const struct motet_shape *shape, int index)
{
    int first = shape->host_first[index];
    int size = shape->host_first[index + 1] - first;
    return (struct motet_host){.index = index, .first = first, .size = size, .members = {.first = first, .n = size, .stride = 1}};
}

struct motet_host motet_host_of(const struct motet_shape *shape, int position)
{
    int low = 0, high = shape->nhosts - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (shape->host_first[middle] <= position)
            low = middle;
        else
            high = middle - 1;
    }
    return motet_host_at(shape, low);
}

bool motet_hosts_are_even(const struct motet_shape *shape)
{
    for (int h = 1; h < shape->nhosts; h++) {
        if (motet_host_at(shape, h).size != motet_host_at(shape, 0).size)
            return false;
    }
    return true;
}

int motet_host_carrier(struct motet_host host, int b)
{
    return host.first + motet_mod(b - host.first, host.size);
}

void motet_hosts_reduce_inside(struct motet_schedule *schedule, struct motet_host host, int base, int n, enum motet_plane dst)
{
    int me = schedule->position - host.first;
    if (host.size == 1)
        return;
    /* Chunk after chunk goes to member after member; a new row starts where the members wrap. */
    for (int at = 0, count; at < n; at += count) {
        int member = motet_mod(at - base, host.size);
        count = n - at < host.size - member ? n - at : host.size - member;
        motet_step_append(schedule, (struct motet_step){
                                        .src = MOTET_INPUT,
                                        .to = {.first = host.first + member, .n = count, .stride = 1},
                                        .dst_at = motet_range(at),
                                        .n = 1,
                                        .each = 1,
                                    });
        if (me >= member && me < member + count) {
            motet_step_append(schedule, (struct motet_step){
                                            .from = host.members,
                                            .src = MOTET_INPUT,
                                            .dst = dst,
                                            .dst_at = motet_range(at + me - member),
                                            .n = 1,
                                        });
        }
    }
    motet_end_round(schedule);
}

/* Carriers of one chunk on consecutive hosts that one `from` or `to` can name: evenly spaced, and what they send is all raw (hosts of
 * one member) or all combined. */
struct run {
    struct motet_peers carriers;
    bool combined;
};

/* The longest run from host *next on; *next moves behind it. Runs of nobody but oneself are left out; false at the end. */
static bool next_run(const struct motet_shape *shape, int b, int *next, struct run *run)
{
    while (*next < shape->nhosts) {
        struct motet_host host = motet_host_at(shape, (*next)++);
        *run = (struct run){motet_peer(motet_host_carrier(host, b)), host.size > 1};
        for (int end = run->carriers.first; *next < shape->nhosts; (*next)++, run->carriers.n++) {
            host = motet_host_at(shape, *next);
            int stride = motet_host_carrier(host, b) - end;
            if ((host.size > 1) != run->combined || (run->carriers.n > 1 && stride != run->carriers.stride))
                break;
            run->carriers.stride = stride;
            end += stride;
        }
        if (motet_peers_count(run->carriers, shape->position, shape->nranks) == 0)
            continue;
        /* All hosts in one run: begin behind the own one, so that not everybody sends to host 0 first. */
        if (run->carriers.n == shape->nhosts && (int64_t)run->carriers.n * run->carriers.stride == shape->nranks)
            run->carriers.first = shape->position;
        return true;
    }
    return false;
}

/* OUTPUT = src of the own position and the carriers of all other hosts, run by run. */
static void combine_hosts(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane src)
{
    struct run run, after = {0};
    int next = 0;
    bool more = next_run(shape, shape->position, &next, &run);
    while (more) {
        more = next_run(shape, shape->position, &next, &after);
        motet_step_append(schedule, (struct motet_step){
                                        .from = run.carriers,
                                        .src = src,
                                        .dst = more ? MOTET_PARTIAL : MOTET_OUTPUT,
                                        .dst_at = motet_range(shape->position),
                                        .n = 1,
                                        .flags = run.combined ? MOTET_WIDE : 0,
                                    });
        motet_end_round(schedule);
        src = MOTET_PARTIAL;
        run = after;
    }
}

void motet_hosts_reduce_scatter(struct motet_schedule *schedule, const struct motet_shape *shape)
{
    struct motet_host host = motet_host_of(shape, shape->position);
    enum motet_plane src = host.size > 1 ? MOTET_PARTIAL : MOTET_INPUT;
    if (shape->nranks == 1)
        motet_copy_chunks(schedule, MOTET_OUTPUT, 0, MOTET_INPUT, 0, 1);
    motet_hosts_reduce_inside(schedule, host, host.first, shape->nranks, shape->nhosts == 1 ? MOTET_OUTPUT : MOTET_PARTIAL);
    if (shape->nhosts == 1)
        return;
    /* What this position carries is every host.size-th chunk, its own among them. */
    bool round_trip = shape->nranks % host.size == 0; /* from the own chunk on and round, so that all hosts start differently */
    int least = shape->position % host.size, first = round_trip ? shape->position : least;
    motet_step_append(schedule, (struct motet_step){
                                    .src = src,
                                    .to = {.first = first, .n = (shape->nranks - least - 1) / host.size + 1, .stride = host.size},
                                    .dst_at = motet_range(first),
                                    .n = 1,
                                    .each = host.size,
                                });
    combine_hosts(schedule, shape, src);
}

int motet_hosts_all_gather_sends(const struct motet_shape *shape)
{
    int smallest = shape->nranks;
    for (int h = 0; h < shape->nhosts; h++) {
        struct motet_host host = motet_host_at(shape, h);
        smallest = host.size < smallest ? host.size : smallest;
    }
    int carried = (shape->nranks + smallest - 1) / smallest; /* the own one among them */
    return carried + shape->nhosts - 1;
}

/* Receives the chunks that other members of the host carry, in the order in which each of them sends. */
static void collect_carried(struct motet_schedule *schedule, const struct motet_shape *shape, struct motet_host host)
{
    bool round_trip = shape->nranks % host.size == 0;
    int begin = round_trip ? host.first : 0;
    for (int at = begin, count; at < begin + shape->nranks; at += count) {
        int member = motet_mod(at - host.first, host.size);
        count = host.size - member;
        if (count > begin + shape->nranks - at)
            count = begin + shape->nranks - at;
        if (at == host.first)
            continue; /* their own chunks have been received */
        motet_step_append(schedule, (struct motet_step){
                                        .from = {.first = host.first + member, .n = count, .stride = 1},
                                        .dst = MOTET_OUTPUT,
                                        .dst_at = motet_range(at % shape->nranks),
                                        .n = 1,
                                        .each = 1,
                                    });
    }
}

void motet_hosts_all_gather(struct motet_schedule *schedule, const struct motet_shape *shape, enum motet_plane src)
{
    struct motet_host host = motet_host_of(shape, shape->position);
    struct motet_span own = motet_range(shape->position);
    struct run run;
    for (int next = 0; next_run(shape, shape->position, &next, &run);)
        motet_step_append(schedule, (struct motet_step){.src = src, .to = run.carriers, .dst_at = own, .n = 1});
    motet_step_append(schedule, (struct motet_step){
                                    .src = src,
                                    .dst = src == MOTET_OUTPUT ? MOTET_NONE : MOTET_OUTPUT,
                                    .to = host.members,
                                    .dst_at = own,
                                    .n = 1,
                                });
    motet_step_append(
        schedule,
        (struct motet_step){.from = host.members, .dst = MOTET_OUTPUT, .dst_at = motet_range(host.first), .n = 1, .each = 1});
    bool round_trip = shape->nranks % host.size == 0; /* in the order in which they were sent, if that goes round */
    int begin = round_trip ? shape->position : shape->position % host.size;
    for (int at = begin; at < begin + shape->nranks - (round_trip ? 0 : begin); at += host.size) {
        int b = at % shape->nranks;
        if (b != shape->position) {
            motet_step_append(schedule, (struct motet_step){
                                            .from = motet_peer(b),
                                            .dst = MOTET_OUTPUT,
                                            .to = host.members,
                                            .dst_at = motet_range(b),
                                            .n = 1,
                                        });
        }
    }
    collect_carried(schedule, shape, host);
}
