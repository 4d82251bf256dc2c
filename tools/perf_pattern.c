/* SPDX-License-Identifier: Apache-2.0 */
#include "perf_pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD      65521 /* the largest prime below 2^16: no chunk, tile or page boundary repeats with it */
#define BLOCK_SHIFT 977   /* elements by which each further block of the table is rotated */

static uint64_t mix(uint64_t rank, uint64_t index)
{
    uint64_t x = index * 0x9e3779b97f4a7c15u + rank * 0xd1b54a32d192ed03u + 0x632be59bd9b4e019u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int pattern_scalar(int rank)
{
    return rank % 2 + 1;
}

/* A whole number in [-bound, bound]. */
static double whole(uint64_t random, double bound)
{
    uint64_t range = 2 * (uint64_t)bound + 1;
    return (double)(random % range) - bound;
}

/* Terms of a sum: at most as many ranks as the format has room for contribute, each a share of the largest exact integer. */
static double float_sum_term(const struct pattern *pattern, int rank, uint64_t index)
{
    double room = ldexp(1, pattern->type->mantissa_bits + 1) / (pattern->op == PERF_MULSUM ? 2 : 1);
    uint64_t n = (uint64_t)pattern->nranks;
    uint64_t active = (double)n < room ? n : (uint64_t)room;
    uint64_t turn = (mix(~0u, index) + (uint64_t)rank) % n;
    double value = turn < active ? whole(mix((uint64_t)rank, index), floor(room / (double)active)) : 0;
    return value == 0 ? 0 : value; /* never -0, whose sum depends on the others */
}

/* Averages: a common value plus differences that cancel between neighbours, so that the quotient is exact for any number. */
static double float_average_term(const struct pattern *pattern, int rank, uint64_t index)
{
    double common = whole(mix(~1u, index), pattern->type->mantissa_bits > 3 ? 64 : 4);
    int pair = rank ^ 1;
    double value = common;
    if (pair < pattern->nranks)
        value += whole(mix(~2u - (uint64_t)(rank / 2), index), 2) * (rank & 1 ? -1 : 1);
    return value == 0 ? 0 : value;
}

/* Factors: one 3, one 2 and one 1/2 at ranks that change with the index, all others 1, signs mixed. */
static double float_factor(const struct pattern *pattern, int rank, uint64_t index)
{
    uint64_t n = (uint64_t)pattern->nranks;
    uint64_t turn = (mix(~3u, index) + (uint64_t)rank) % n;
    double value = turn == 0 ? 3 : turn == 1 ? 2 : turn == 2 ? 0.5 : 1;
    return mix((uint64_t)rank, index) & 1 ? -value : value;
}

static double float_value(const struct pattern *pattern, int rank, uint64_t index)
{
    switch (pattern->op) {
    case PERF_SUM:
    case PERF_MULSUM:
        return float_sum_term(pattern, rank, index);
    case PERF_AVG:
        return float_average_term(pattern, rank, index);
    case PERF_PROD:
        return float_factor(pattern, rank, index);
    default: {
        double value = whole(mix((uint64_t)rank, index), ldexp(1, pattern->type->mantissa_bits + 1));
        return value == 0 ? 0 : value;
    }
    }
}

/* The common result of an OR is 1 and of an AND 0: one rank in n decides. */
static uint64_t bool_value(const struct pattern *pattern, uint64_t random)
{
    bool rare = random % (uint64_t)pattern->nranks == 0;
    bool is_and = pattern->op == PERF_PROD || pattern->op == PERF_MIN || pattern->op == PERF_BAND;
    return is_and ? !rare : rare;
}

/* Random bits, dense for AND and sparse for OR, so that results have both kinds. */
static uint64_t whole_bits(const struct pattern *pattern, int rank, uint64_t index)
{
    uint64_t a = mix((uint64_t)rank, index), b = mix((uint64_t)rank, ~index), c = mix(~(uint64_t)rank, index);
    if (pattern->op == PERF_BAND)
        return a | b | c;
    return pattern->op == PERF_BOR ? (a & b & c) : a;
}

union perf_number pattern_value(const struct pattern *pattern, int rank, uint64_t index)
{
    const struct perf_type *type = pattern->type;
    union perf_number number;
    int shift = 64 - 8 * type->size;
    uint64_t random = mix((uint64_t)rank, index);
    if (type->class == PERF_FLOAT) {
        number.f = float_value(pattern, rank, index);
        return number;
    }
    if (type->class == PERF_BOOL)
        number.u = bool_value(pattern, random);
    else if (pattern->op == PERF_AVG && type->size == 8)
        number.u = type->class == PERF_SIGNED ? (uint64_t)((int64_t)random >> 24) : random >> 24; /* the sum fits into 64 bits */
    else if (type->class == PERF_SIGNED)
        number.u = (uint64_t)((int64_t)whole_bits(pattern, rank, index) >> shift);
    else
        number.u = whole_bits(pattern, rank, index) >> shift;
    if (pattern->op == PERF_PROD && type->class != PERF_BOOL)
        number.u |= 1; /* the product of even numbers is soon 0 */
    return number;
}

static void combine_float(enum perf_op op, double *a, double b)
{
    switch (op) {
    case PERF_PROD:
        *a *= b;
        return;
    case PERF_MIN:
        *a = b < *a ? b : *a;
        return;
    case PERF_MAX:
        *a = b > *a ? b : *a;
        return;
    default:
        *a += b;
    }
}

static void combine_whole(const struct pattern *pattern, uint64_t *a, uint64_t b)
{
    bool b_less = pattern->type->class == PERF_SIGNED ? (int64_t)b < (int64_t)*a : b < *a;
    bool boolean = pattern->type->class == PERF_BOOL;
    switch (pattern->op) {
    case PERF_PROD:
        *a *= b;
        return;
    case PERF_MIN:
        *a = b_less ? b : *a;
        return;
    case PERF_MAX:
        *a = b_less ? *a : b;
        return;
    case PERF_BAND:
        *a &= b;
        return;
    case PERF_BOR:
        *a |= b;
        return;
    case PERF_BXOR:
        *a ^= b;
        return;
    default:
        *a = boolean ? *a | b : *a + b;
    }
}

union perf_number pattern_result(const struct pattern *pattern, uint64_t index)
{
    bool is_float = pattern->type->class == PERF_FLOAT;
    union perf_number result = {0};
    for (int rank = 0; rank < pattern->nranks; rank++) {
        union perf_number number = pattern_value(pattern, rank, index);
        if (pattern->op == PERF_MULSUM && is_float)
            number.f *= pattern_scalar(rank);
        else if (pattern->op == PERF_MULSUM)
            number.u *= (uint64_t)pattern_scalar(rank);
        if (rank == 0)
            result = number;
        else if (is_float)
            combine_float(pattern->op, &result.f, number.f);
        else
            combine_whole(pattern, &result.u, number.u);
    }
    if (pattern->op == PERF_AVG && is_float)
        result.f /= pattern->nranks;
    else if (pattern->op == PERF_AVG && pattern->type->class == PERF_SIGNED)
        result.u = (uint64_t)((int64_t)result.u / pattern->nranks);
    else if (pattern->op == PERF_AVG)
        result.u /= (uint64_t)pattern->nranks;
    return result;
}

/* Data that are only moved may be any bytes. */
static void fill_random(const struct pattern *pattern, int rank, char *table)
{
    size_t bytes = pattern->period * (size_t)pattern->type->size;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t random = mix((uint64_t)rank, at);
        memcpy(table + at, &random, bytes - at < 8 ? bytes - at : 8);
    }
}

static void *make_table(const struct pattern *pattern, int rank)
{
    const struct perf_type *type = pattern->type;
    char *table = malloc(pattern->period * (size_t)type->size);
    if (!table)
        return NULL;
    if (pattern->op == PERF_COPY && type->class != PERF_BOOL) {
        fill_random(pattern, rank, table);
        return table;
    }
    size_t part_size = (size_t)(type->size / type->parts);
    for (size_t part = 0; part < pattern->period * (size_t)type->parts; part++) {
        union perf_number number = rank == PATTERN_RESULT ? pattern_result(pattern, part) : pattern_value(pattern, rank, part);
        perf_type_encode(type, number, table + part * part_size);
    }
    return table;
}

static const char *table_of(struct pattern *pattern, int rank)
{
    int slot = rank == PATTERN_RESULT ? pattern->nranks : rank;
    pthread_mutex_lock(&pattern->lock);
    if (!pattern->tables[slot])
        pattern->tables[slot] = make_table(pattern, rank);
    const char *table = pattern->tables[slot];
    pthread_mutex_unlock(&pattern->lock);
    return table;
}

bool pattern_prepare(struct pattern *pattern, const struct perf_type *type, enum perf_op op, int nranks, size_t max_count)
{
    size_t period = max_count < PERIOD ? max_count + 1 : PERIOD;
    if (pattern->tables && pattern->type == type && pattern->op == op && pattern->nranks == nranks && pattern->period == period)
        return true;
    pattern_free(pattern);
    *pattern = (struct pattern){.type = type, .op = op, .nranks = nranks, .period = period};
    pthread_mutex_init(&pattern->lock, NULL);
    pattern->tables = calloc((size_t)nranks + 1, sizeof *pattern->tables);
    return pattern->tables != NULL;
}

void pattern_free(struct pattern *pattern)
{
    if (!pattern->tables)
        return;
    for (int i = 0; i <= pattern->nranks; i++)
        free(pattern->tables[i]);
    free(pattern->tables);
    pthread_mutex_destroy(&pattern->lock);
    pattern->tables = NULL;
}

/* Where element `index` is in the table, and for how many elements the table goes on from there. */
static size_t slot_of(const struct pattern *pattern, uint64_t index, size_t *run)
{
    size_t inside = (size_t)(index % pattern->period);
    size_t slot = (inside + (size_t)(index / pattern->period % pattern->period) * BLOCK_SHIFT) % pattern->period;
    size_t to_block = pattern->period - inside, to_end = pattern->period - slot;
    *run = to_block < to_end ? to_block : to_end;
    return slot;
}

bool pattern_fill(struct pattern *pattern, int rank, uint64_t first, size_t count, void *dst)
{
    size_t size = (size_t)pattern->type->size;
    char *to = dst;
    if (rank == PATTERN_POISON) {
        memset(dst, PATTERN_POISON_BYTE, count * size);
        return true;
    }
    const char *table = count ? table_of(pattern, rank) : NULL;
    while (count && table) {
        size_t run;
        size_t slot = slot_of(pattern, first, &run);
        run = run < count ? run : count;
        memcpy(to, table + slot * size, run * size);
        to += run * size;
        first += run;
        count -= run;
    }
    return count == 0;
}

/* Compares one run with the table, or with poison when table is NULL. */
static int64_t check_run(const char *table, const char *from, size_t run, size_t size, size_t done, size_t *where, bool *found)
{
    char poison[16];
    int64_t wrong = 0;
    if (table && !memcmp(from, table, run * size))
        return 0;
    memset(poison, PATTERN_POISON_BYTE, sizeof poison);
    for (size_t i = 0; i < run; i++) {
        if (!memcmp(from + i * size, table ? table + i * size : poison, size))
            continue;
        wrong++;
        if (!*found)
            *where = done + i;
        *found = true;
    }
    return wrong;
}

int64_t pattern_check(struct pattern *pattern, int rank, uint64_t first, size_t count, const void *src, size_t *where)
{
    size_t size = (size_t)pattern->type->size;
    int64_t wrong = 0;
    bool found = false;
    const char *table = rank == PATTERN_POISON || !count ? NULL : table_of(pattern, rank);
    if (rank == PATTERN_POISON)
        return check_run(NULL, src, count, size, 0, where, &found);
    for (size_t done = 0; done < count;) {
        size_t run;
        if (!table)
            return -1;
        size_t slot = slot_of(pattern, first + done, &run);
        run = run < count - done ? run : count - done;
        wrong += check_run(table + slot * size, (const char *)src + done * size, run, size, done, where, &found);
        done += run;
    }
    return wrong;
}
