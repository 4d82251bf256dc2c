/* SPDX-License-Identifier: Apache-2.0
 * What a process holds: descriptors, threads, mappings, memory. For tests that nothing is left behind. */
#ifndef MOTET_TESTS_MULTI_USAGE_H
#define MOTET_TESTS_MULTI_USAGE_H

#include "entries.h"
#include "world.h"

struct usage {
    int fds, threads, maps;
    long rss_kb;
};

static inline int usage_count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int n = 0, c;
    while (file && (c = fgetc(file)) != EOF)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static inline long usage_resident_kb(void)
{
    char line[128];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmRSS: %ld", &kb);
    if (file)
        fclose(file);
    return kb;
}

static inline struct usage usage_measure(void)
{
    return (struct usage){count_entries("/proc/self/fd"), count_entries("/proc/self/task"), usage_count_lines("/proc/self/maps"),
                          usage_resident_kb()};
}

/* Whether the process looks as it did, but for 2 MB: of the heap, and of stacks of threads that overlapped. Threads, and links to processes
 * that died, may need a moment to go. */
static inline int usage_is_flat(const struct usage *before, int rank)
{
    struct usage after = {0};
    for (int wait = 0; wait < 1000; wait++) {
        after = usage_measure();
        if (after.threads <= before->threads && after.fds <= before->fds)
            break;
        world_sleep_ms(5);
    }
    if (after.fds <= before->fds && after.threads <= before->threads &&
        (WORLD_SANITIZED || (after.maps <= before->maps + 4 && after.rss_kb <= before->rss_kb + 2048)))
        return 0;
    return world_complain(__FILE__, __LINE__, "rank %d: fds %d -> %d, threads %d -> %d, maps %d -> %d, RSS %ld -> %ld KB", rank,
                          before->fds, after.fds, before->threads, after.threads, before->maps, after.maps, before->rss_kb,
                          after.rss_kb);
}

#endif
