/* SPDX-License-Identifier: Apache-2.0
 * --hosts and hostfiles. Whatever is accepted must be dealt without a gap: every rank on one host, blocks in order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void deal(struct hosts *hosts, int nranks)
{
    char error[256];
    int total = hosts_deal(hosts, nranks, error, sizeof error);
    int next = 0;
    for (int i = 0; total > 0 && i < hosts->n; i++) {
        if (!hosts->items[i].name[0] || hosts->items[i].name[0] == '-' || hosts->items[i].ranks < 0 ||
            (hosts->items[i].ranks && hosts->items[i].first_rank != next))
            abort();
        next += hosts->items[i].ranks;
    }
    if (total > 0 && next != total)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hosts from_list = {0}, from_file = {0};
    char error[256], path[64];
    char *text = strndup((const char *)data, size);
    int fd = memfd_create("hosts", MFD_CLOEXEC);
    if (text && hosts_parse_list(&from_list, text, error, sizeof error))
        deal(&from_list, size ? data[0] : 0);
    if (fd >= 0 && write(fd, data, size) == (ssize_t)size) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (hosts_parse_file(&from_file, path, error, sizeof error))
            deal(&from_file, 0);
    }
    if (fd >= 0)
        close(fd);
    hosts_free(&from_list);
    hosts_free(&from_file);
    free(text);
    return 0;
}
