/* SPDX-License-Identifier: Apache-2.0
 * Sets of CPU numbers, and the two ways in which the kernel and NCCL's files write them: "0-3,8" and masks "ff,00000000". */
#ifndef MOTET_TOPO_CPUSET_H
#define MOTET_TOPO_CPUSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOTET_CPUSET_MAX      8192 /* what Linux can be built for */
#define MOTET_CPUSET_TEXT_MAX (MOTET_CPUSET_MAX / 32 * 9 + 1)
#define MOTET_CPUSET_NWORDS   (MOTET_CPUSET_MAX / 64)

struct motet_cpuset {
    uint64_t words[MOTET_CPUSET_NWORDS];
};

bool motet_cpuset_has(const struct motet_cpuset *set, int cpu);
void motet_cpuset_add(struct motet_cpuset *set, int cpu); /* others than 0 to the maximum are ignored */
int motet_cpuset_count(const struct motet_cpuset *set);
/* The first one from `from` on; -1: none. */
int motet_cpuset_next(const struct motet_cpuset *set, int from);
bool motet_cpuset_covers(const struct motet_cpuset *set, const struct motet_cpuset *part);
bool motet_cpuset_meets(const struct motet_cpuset *a, const struct motet_cpuset *b);
bool motet_cpuset_equals(const struct motet_cpuset *a, const struct motet_cpuset *b);
void motet_cpuset_unite(struct motet_cpuset *set, const struct motet_cpuset *more);
void motet_cpuset_intersect(struct motet_cpuset *set, const struct motet_cpuset *other);
void motet_cpuset_remove(struct motet_cpuset *set, const struct motet_cpuset *part);

/* False: not of this form, or a CPU beyond the maximum. "" is the empty set. Space at the end is allowed, as files of the kernel have it. */
bool motet_cpuset_parse_list(const char *text, struct motet_cpuset *set);
bool motet_cpuset_parse_mask(const char *text, struct motet_cpuset *set);

/* Return text. A list that does not fit is cut and ends in "...". */
char *motet_cpuset_list(const struct motet_cpuset *set, char *text, size_t len);
char *motet_cpuset_mask(const struct motet_cpuset *set, char text[MOTET_CPUSET_TEXT_MAX]);

/* Where the calling thread may run. Never empty. */
struct motet_cpuset motet_cpuset_allowed(void);

#endif
