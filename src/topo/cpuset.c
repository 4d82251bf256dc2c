/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/cpuset.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_CPUS_MAX (64 * 1024)

bool motet_cpuset_has(const struct motet_cpuset *set, int cpu)
{
    return cpu >= 0 && cpu < MOTET_CPUSET_MAX && (set->words[cpu / 64] >> (cpu % 64) & 1);
}

void motet_cpuset_add(struct motet_cpuset *set, int cpu)
{
    if (cpu >= 0 && cpu < MOTET_CPUSET_MAX)
        set->words[cpu / 64] |= 1ull << (cpu % 64);
}

int motet_cpuset_count(const struct motet_cpuset *set)
{
    int count = 0;
    for (int i = 0; i < MOTET_CPUSET_NWORDS; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

int motet_cpuset_next(const struct motet_cpuset *set, int from)
{
    for (int cpu = from < 0 ? 0 : from; cpu < MOTET_CPUSET_MAX; cpu++) {
        uint64_t rest = set->words[cpu / 64] >> (cpu % 64);
        if (rest)
            return cpu + __builtin_ctzll(rest);
        cpu |= 63; /* the next word */
    }
    return -1;
}

bool motet_cpuset_covers(const struct motet_cpuset *set, const struct motet_cpuset *part)
{
    for (int i = 0; i < MOTET_CPUSET_NWORDS; i++)
        if (part->words[i] & ~set->words[i])
            return false;
    return true;
}

bool motet_cpuset_meets(const struct motet_cpuset *a, const struct motet_cpuset *b)
{
    for (int i = 0; i < MOTET_CPUSET_NWORDS; i++)
        if (a->words[i] & b->words[i])
            return true;
    return false;
}

bool motet_cpuset_equals(const struct motet_cpuset *a, const struct motet_cpuset *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

void motet_cpuset_unite(struct motet_cpuset *set, const struct motet_cpuset *more)
{
    for (int i = 0; i < MOTET_CPUSET_NWORDS; i++)
        set->words[i] |= more->words[i];
}

void motet_cpuset_intersect(struct motet_cpuset *set, const struct motet_cpuset *other)
{
    for (int i = 0; i < MOTET_CPUSET_NWORDS; i++)
        set->words[i] &= other->words[i];
}

void motet_cpuset_remove(struct motet_cpuset *set, const struct motet_cpuset *part)
{
    for (int i = 0; i < MOTET_CPUSET_NWORDS; i++)
        set->words[i] &= ~part->words[i];
}

/* ---- Text ---- */

static bool only_space(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* A decimal number of at most five digits; -1: none. */
static int read_cpu(const char **text)
{
    int value = 0, digits = 0;
    for (; **text >= '0' && **text <= '9' && digits < 6; (*text)++, digits++)
        value = value * 10 + (**text - '0');
    return digits > 0 && value < MOTET_CPUSET_MAX ? value : -1;
}

bool motet_cpuset_parse_list(const char *text, struct motet_cpuset *set)
{
    *set = (struct motet_cpuset){{0}};
    while (!only_space(text)) {
        int first = read_cpu(&text), last = first;
        if (*text == '-') {
            text++;
            last = read_cpu(&text);
        }
        if (first < 0 || last < first)
            return false;
        for (int cpu = first; cpu <= last; cpu++)
            motet_cpuset_add(set, cpu);
        if (*text == ',' && text[1] >= '0' && text[1] <= '9')
            text++;
        else if (!only_space(text))
            return false;
    }
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Groups of 32 bits, the highest first; only the first may be short. Without commas the mask is one number of any length. */
bool motet_cpuset_parse_mask(const char *text, struct motet_cpuset *set)
{
    *set = (struct motet_cpuset){{0}};
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        text += 2;
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        len--;
    int bit = 0, in_group = 0;
    bool commas = memchr(text, ',', len) != NULL;
    for (size_t i = len; i-- > 0;) {
        int digit = hex_digit(text[i]);
        if (text[i] == ',' && in_group > 0 && in_group <= 8 && i > 0) {
            bit += 4 * (8 - in_group); /* a group that lost its leading zeros */
            in_group = 0;
            continue;
        }
        if (digit < 0 || (commas && in_group == 8))
            return false;
        for (int k = 0; k < 4; k++)
            if (digit >> k & 1) {
                if (bit + k >= MOTET_CPUSET_MAX)
                    return false;
                motet_cpuset_add(set, bit + k);
            }
        bit += 4;
        in_group++;
    }
    return true;
}

char *motet_cpuset_list(const struct motet_cpuset *set, char *text, size_t len)
{
    size_t used = 0;
    text[0] = '\0';
    for (int first = motet_cpuset_next(set, 0), last; first >= 0; first = motet_cpuset_next(set, last + 1)) {
        char part[32];
        for (last = first; motet_cpuset_has(set, last + 1);)
            last++;
        int n = first == last ? snprintf(part, sizeof part, "%s%d", used ? "," : "", first)
                              : snprintf(part, sizeof part, "%s%d-%d", used ? "," : "", first, last);
        if (used + (size_t)n + 4 > len) {
            snprintf(text + used, len - used, "...");
            break;
        }
        memcpy(text + used, part, (size_t)n + 1);
        used += (size_t)n;
    }
    return text;
}

char *motet_cpuset_mask(const struct motet_cpuset *set, char text[MOTET_CPUSET_TEXT_MAX])
{
    size_t used = 0;
    for (int group = MOTET_CPUSET_MAX / 32 - 1; group >= 0; group--) {
        uint32_t bits = (uint32_t)(set->words[group / 2] >> (group % 2 * 32));
        if (used > 0)
            used += (size_t)snprintf(text + used, MOTET_CPUSET_TEXT_MAX - used, ",%08x", bits);
        else if (bits || group == 0)
            used += (size_t)snprintf(text + used, MOTET_CPUSET_TEXT_MAX - used, "%08x", bits);
    }
    return text;
}

/* The kernel wants room for all CPUs that it could have. */
struct motet_cpuset motet_cpuset_allowed(void)
{
    struct motet_cpuset allowed = {{0}};
    for (int room = 1024; room <= KERNEL_CPUS_MAX; room *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        size_t size = CPU_ALLOC_SIZE((size_t)room);
        int error = !set ? ENOMEM : sched_getaffinity(0, size, set) != 0 ? errno : 0;
        for (int cpu = 0; error == 0 && cpu < room; cpu++)
            if (CPU_ISSET_S((size_t)cpu, size, set))
                motet_cpuset_add(&allowed, cpu);
        CPU_FREE(set);
        if (error != EINVAL)
            break;
    }
    long online = motet_cpuset_count(&allowed) > 0 ? 0 : sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < online; cpu++)
        motet_cpuset_add(&allowed, cpu);
    return allowed;
}
