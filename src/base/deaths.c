/* SPDX-License-Identifier: Apache-2.0
 * Read by offset, so that several readers do not disturb each other, and again from the start by whoever comes later: lines stay. */
#include "base/deaths.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"

#define TABLE_NAME "/memfd:motet-deaths" /* as /proc shows the launcher's table */
#define LINE_BYTES 512

/* The table's descriptor, -1 if there is none. A program may have closed what it inherited, and something else may be there now. */
static int table(void)
{
    char path[64], name[sizeof(TABLE_NAME) + 16] = "";
    int fd = (int)motet_setting_int(MOTET_SET_DEATHS_FD);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, name, sizeof(name) - 1);
    return len > 0 && strncmp(name, TABLE_NAME, strlen(TABLE_NAME)) == 0 ? fd : -1;
}

bool motet_deaths_are_told(void)
{
    return table() >= 0;
}

static bool parse(const char *line, struct motet_death *death)
{
    int at = 0;
    if (sscanf(line, "%63[^\t]\t%d\t%d\t%n", death->host, &death->pid, &death->rank, &at) != 3 || at == 0)
        return false;
    death->host[strcspn(death->host, ".")] = '\0'; /* as processes describe themselves */
    snprintf(death->cause, sizeof(death->cause), "%s", line + at);
    return true;
}

bool motet_deaths_next(off_t *at, struct motet_death *death)
{
    char line[LINE_BYTES];
    int fd = table();
    for (;;) {
        ssize_t n = fd < 0 ? 0 : pread(fd, line, sizeof(line) - 1, *at);
        if (n <= 0)
            return false;
        line[n] = '\0';
        char *end = strchr(line, '\n');
        if (!end) /* half of it, or longer than the launcher writes */
            return false;
        *end = '\0';
        *at += end - line + 1;
        if (parse(line, death))
            return true;
    }
}
