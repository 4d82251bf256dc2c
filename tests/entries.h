/* SPDX-License-Identifier: Apache-2.0
 * How much is in a folder: descriptors and threads of a process, files in /dev/shm. For tests that nothing is left behind. */
#ifndef MOTET_TESTS_ENTRIES_H
#define MOTET_TESTS_ENTRIES_H

#include <dirent.h>

/* "." and ".." included; 0 for a folder that cannot be read. */
static inline int count_entries(const char *folder)
{
    int count = 0;
    DIR *entries = opendir(folder);
    while (entries && readdir(entries))
        count++;
    if (entries)
        closedir(entries);
    return count;
}

#endif
