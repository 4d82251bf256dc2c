/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/settings.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct motet_tuning_file file;

/* 0 or an errno. Regular files only: a pipe would block. */
static int read_all(const char *name, char **text, size_t *len)
{
    int fd = motet_descriptor_lift(open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK)), error = 0;
    struct stat status;
    if (fd < 0)
        return errno;
    if (fstat(fd, &status) != 0)
        error = errno;
    else if (!S_ISREG(status.st_mode))
        error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    else if ((uint64_t)status.st_size > MOTET_TUNING_FILE_MAX)
        error = EFBIG;
    size_t size = error ? 0 : (size_t)status.st_size;
    char *buf = error ? NULL : malloc(size + 1);
    if (!error && !buf)
        error = ENOMEM;
    *len = 0;
    while (!error && *len < size) {
        ssize_t got = read(fd, buf + *len, size - *len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            error = errno;
        if (got <= 0)
            break;
        *len += (size_t)got;
    }
    close(fd);
    if (error)
        free(buf);
    else
        *text = buf;
    return error;
}

static void load(void)
{
    const char *named = motet_setting_string(MOTET_SET_TUNER_FILE);
    file.is_named = *named != '\0';
    if (strcasecmp(named, "NONE") == 0)
        return;
    if (file.is_named)
        snprintf(file.name, sizeof(file.name), "%s", named);
    else if (!motet_cache_path("tuning.json", file.name, sizeof(file.name)))
        return;
    int error = read_all(file.name, &file.text, &file.len);
    file.error = file.is_named ? error : 0;
    if (file.text)
        file.digest = motet_hash_bytes(MOTET_HASH_SEED, file.text, file.len);
}

const struct motet_tuning_file *motet_tuning_file(void)
{
    pthread_once(&once, load);
    return &file;
}
