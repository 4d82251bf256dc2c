/* SPDX-License-Identifier: Apache-2.0
 * Small files below /sys and /proc, of this machine or of a copy of another one. What comes back is printable ASCII: the names of
 * interfaces may hold any bytes. */
#ifndef MOTET_TOPO_SYSFS_H
#define MOTET_TOPO_SYSFS_H

#include <stdbool.h>
#include <stddef.h>

#define MOTET_SYSFS_PATH_MAX 4096
#define MOTET_SYSFS_TEXT_MAX 1024

/* The first line of a file, without space at its end. False: not there, empty, or not readable now. */
bool motet_sysfs_read(char text[MOTET_SYSFS_TEXT_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The number that a file begins with. */
bool motet_sysfs_read_number(double *value, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool motet_sysfs_exists(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names in a folder, sorted, without those that begin with a dot; malloced, freed by motet_sysfs_free. 0 where there is no such folder. */
size_t motet_sysfs_list(char ***names, const char *format, ...) __attribute__((format(printf, 2, 3)));
void motet_sysfs_free(char **names, size_t n);

/* Where a link leads, without any further link. */
bool motet_sysfs_resolve(char path[MOTET_SYSFS_PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces what is not printable ASCII. Returns text. */
char *motet_sysfs_clean(char *text);

#endif
