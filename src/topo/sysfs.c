/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/sysfs.h"

#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

#define NAMES_MOST 65536

#define FORMAT_PATH(path, format)                                  \
    do {                                                           \
        va_list path_args_;                                        \
        va_start(path_args_, format);                              \
        vsnprintf(path, MOTET_SYSFS_PATH_MAX, format, path_args_); \
        va_end(path_args_);                                        \
    } while (0)

char *motet_sysfs_clean(char *text)
{
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return text;
}

static bool read_line(const char *path, char text[MOTET_SYSFS_TEXT_MAX])
{
    if (!motet_descriptor_read_line(path, text, MOTET_SYSFS_TEXT_MAX))
        return false;
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    motet_sysfs_clean(text);
    return len > 0;
}

bool motet_sysfs_read(char text[MOTET_SYSFS_TEXT_MAX], const char *format, ...)
{
    char path[MOTET_SYSFS_PATH_MAX];
    FORMAT_PATH(path, format);
    return read_line(path, text);
}

bool motet_sysfs_read_number(double *value, const char *format, ...)
{
    char path[MOTET_SYSFS_PATH_MAX], text[MOTET_SYSFS_TEXT_MAX], *end;
    FORMAT_PATH(path, format);
    if (!read_line(path, text))
        return false;
    *value = strtod(text, &end);
    return end != text;
}

bool motet_sysfs_exists(const char *format, ...)
{
    char path[MOTET_SYSFS_PATH_MAX];
    FORMAT_PATH(path, format);
    return access(path, F_OK) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t motet_sysfs_list(char ***names, const char *format, ...)
{
    char path[MOTET_SYSFS_PATH_MAX];
    size_t n = 0;
    *names = NULL;
    FORMAT_PATH(path, format);
    DIR *folder = motet_descriptor_list(path);
    for (struct dirent *entry; folder && n < NAMES_MOST && (entry = readdir(folder));) {
        char **grown = entry->d_name[0] == '.' ? NULL : realloc(*names, (n + 1) * sizeof *grown);
        if (!grown)
            continue;
        *names = grown;
        grown[n] = strdup(entry->d_name);
        n += grown[n] != NULL;
    }
    if (folder)
        closedir(folder);
    if (n > 0)
        qsort(*names, n, sizeof **names, compare_names);
    return n;
}

void motet_sysfs_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

bool motet_sysfs_resolve(char path[MOTET_SYSFS_PATH_MAX], const char *format, ...)
{
    char link[MOTET_SYSFS_PATH_MAX];
    FORMAT_PATH(link, format);
    char *resolved = realpath(link, NULL);
    bool fits = resolved && strlen(resolved) < MOTET_SYSFS_PATH_MAX;
    if (fits)
        strcpy(path, resolved);
    free(resolved);
    return fits;
}
