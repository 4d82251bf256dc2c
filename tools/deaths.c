/* SPDX-License-Identifier: Apache-2.0 */
#include "deaths.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_FD 10 /* out of the way of shells, which use small ones */

void deaths_open(struct deaths *deaths)
{
    char path[64];
    int fd = memfd_create("motet-deaths", MFD_CLOEXEC);
    deaths->writing = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", deaths->writing);
    fd = deaths->writing < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    deaths->reading = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    if (fd >= 0)
        close(fd);
}

void deaths_append(struct deaths *deaths, const struct death *death)
{
    char line[512];
    const char *cause = death->cause;
    if (deaths->writing < 0)
        return;
    if (!strncmp(cause, "was ", 4))
        cause += 4;
    int n = snprintf(line, sizeof line, "%s\t%d\t%d\t%s\n", death->host, (int)death->pid, death->rank, cause);
    /* One write: who reads meanwhile sees the line whole, or not yet. */
    if (n > 0 && (size_t)n < sizeof line && write(deaths->writing, line, (size_t)n) != n)
        deaths_close(deaths); /* half a line would hide what comes after it */
}

void deaths_close(struct deaths *deaths)
{
    if (deaths->writing >= 0)
        close(deaths->writing);
    if (deaths->reading >= 0)
        close(deaths->reading);
    deaths->writing = deaths->reading = -1;
}
