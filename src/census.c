/* SPDX-License-Identifier: Apache-2.0 */
#include "census.h"

#include <stddef.h>

#include "base/hash.h"

static double least(double a, double b)
{
    return b < a ? b : a;
}

static double most(double a, double b)
{
    return b > a ? b : a;
}

/* Each kind of machine counts once, in no order: a job of one kind has that machine's own identity. */
static uint64_t identity(const struct motet_speeds *const of[], int n)
{
    uint64_t sum = of[0]->machine;
    int kinds = 1;
    for (int i = 1; i < n; i++) {
        int before = 0;
        if (of[i]->machine == of[i - 1]->machine)
            continue;
        while (before < i && of[before]->machine != of[i]->machine)
            before++;
        if (before < i)
            continue;
        sum += motet_hash_bytes(MOTET_HASH_SEED, &of[i]->machine, sizeof(of[i]->machine)) | 1;
        kinds++;
    }
    if (kinds == 1)
        return sum;
    /* The first one went in plainly: in its place its hash, so that none is first. */
    return sum - of[0]->machine + (motet_hash_bytes(MOTET_HASH_SEED, &of[0]->machine, sizeof(of[0]->machine)) | 1);
}

void motet_census(const struct motet_speeds *const of[], int n, struct motet_speeds *speeds)
{
    *speeds = *of[0];
    speeds->machine = identity(of, n);
    for (int i = 1; i < n; i++) {
        speeds->tuning = of[i]->tuning == speeds->tuning ? speeds->tuning : 0;
        speeds->is_measured &= of[i]->is_measured;
        speeds->distance = of[i]->distance > speeds->distance ? of[i]->distance : speeds->distance;
        speeds->line_ns = most(speeds->line_ns, of[i]->line_ns);
        speeds->pass_start_ns = most(speeds->pass_start_ns, of[i]->pass_start_ns);
        speeds->exchange_start_ns = most(speeds->exchange_start_ns, of[i]->exchange_start_ns);
        speeds->pass_bytes_per_ns = least(speeds->pass_bytes_per_ns, of[i]->pass_bytes_per_ns);
        speeds->exchange_bytes_per_ns = least(speeds->exchange_bytes_per_ns, of[i]->exchange_bytes_per_ns);
        speeds->switch_ns = most(speeds->switch_ns, of[i]->switch_ns);
        speeds->socket_latency_ns = most(speeds->socket_latency_ns, of[i]->socket_latency_ns);
        speeds->copy_bytes_per_ns = least(speeds->copy_bytes_per_ns, of[i]->copy_bytes_per_ns);
        speeds->shared_bytes_per_ns = least(speeds->shared_bytes_per_ns, of[i]->shared_bytes_per_ns);
        speeds->cache_bytes = least(speeds->cache_bytes, of[i]->cache_bytes);
        speeds->shared_cache_bytes = least(speeds->shared_cache_bytes, of[i]->shared_cache_bytes);
        speeds->memory_bytes_per_ns = least(speeds->memory_bytes_per_ns, of[i]->memory_bytes_per_ns);
        speeds->combine_bytes_per_ns = least(speeds->combine_bytes_per_ns, of[i]->combine_bytes_per_ns);
        speeds->socket_bytes_per_ns = least(speeds->socket_bytes_per_ns, of[i]->socket_bytes_per_ns);
    }
}
