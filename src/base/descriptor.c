/* SPDX-License-Identifier: Apache-2.0
 * Where every descriptor of the library passes. Those to remember have a bit per number, without locks, because the child of a fork in a
 * threaded process may take none. Numbers beyond the map are not remembered: their copies in children stay open, as in any program. */
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS_MAX (64 * 1024)
#define PATIENCE_MS     100 /* with a reader that takes nothing */

static _Atomic uint64_t kept[DESCRIPTORS_MAX / 64];

static bool in_map(int fd)
{
    return fd >= 0 && fd < DESCRIPTORS_MAX;
}

int motet_descriptor_lift(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return lifted;
}

FILE *motet_descriptor_read(const char *path)
{
    int fd = motet_descriptor_lift(open(path, O_RDONLY | O_CLOEXEC));
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file && fd >= 0)
        close(fd);
    return file;
}

bool motet_descriptor_read_line(const char *path, char *line, size_t size)
{
    FILE *file = motet_descriptor_read(path);
    bool found = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    line[found ? strcspn(line, "\n") : 0] = '\0';
    return found;
}

/* As much as there is, one byte more than allowed at most. */
static int read_all(int fd, size_t most, char *text, size_t *len)
{
    for (ssize_t got = 1; got != 0 && *len <= most;) {
        got = read(fd, text + *len, most + 1 - *len);
        if (got < 0 && errno != EINTR)
            return errno;
        *len += got > 0 ? (size_t)got : 0;
    }
    return *len > most ? EFBIG : 0;
}

int motet_descriptor_read_file(const char *path, size_t most, char **text, size_t *len)
{
    int fd = motet_descriptor_lift(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), error = 0;
    struct stat about;
    *text = NULL;
    *len = 0;
    if (fd < 0)
        return errno;
    if (fstat(fd, &about) != 0)
        error = errno;
    else if (!S_ISREG(about.st_mode))
        error = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
    else if ((uint64_t)about.st_size > most)
        error = EFBIG;
    else if (!(*text = malloc(most + 1)))
        error = ENOMEM;
    else
        error = read_all(fd, most, *text, len);
    close(fd);
    if (error) {
        free(*text);
        *text = NULL;
        return error;
    }
    char *fitted = realloc(*text, *len + 1);
    *text = fitted ? fitted : *text;
    return 0;
}

DIR *motet_descriptor_list(const char *path)
{
    int fd = motet_descriptor_lift(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder && fd >= 0)
        close(fd);
    return folder;
}

/* Of a signal that this thread's write has raised, unless it had waited before. */
static void swallow(int number, const sigset_t *pending)
{
    const struct timespec none = {0, 0};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    while (!sigismember(pending, number) && sigtimedwait(&one, NULL, &none) < 0 && errno == EINTR)
        continue;
}

int motet_descriptor_write(int fd, const void *bytes, size_t len)
{
    sigset_t raised, old, pending;
    int cause = 0;
    sigemptyset(&raised);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &raised, &old);
    for (size_t done = 0; done < len && !cause;) {
        ssize_t put = write(fd, (const char *)bytes + done, len - done);
        if (put >= 0) {
            done += (size_t)put;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            if (poll(&ready, 1, PATIENCE_MS) <= 0)
                cause = EAGAIN;
        } else if (errno != EINTR) {
            cause = errno;
        }
    }
    if (cause == EPIPE)
        swallow(SIGPIPE, &pending);
    if (cause == EFBIG)
        swallow(SIGXFSZ, &pending);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return cause;
}

int motet_descriptor_keep(int fd)
{
    fd = motet_descriptor_lift(fd);
    if (in_map(fd))
        atomic_fetch_or_explicit(&kept[fd / 64], 1ull << (fd % 64), memory_order_relaxed);
    return fd;
}

void motet_descriptor_forget(int fd)
{
    if (in_map(fd))
        atomic_fetch_and_explicit(&kept[fd / 64], ~(1ull << (fd % 64)), memory_order_relaxed);
}

void motet_descriptor_close(int fd)
{
    int saved_errno = errno;
    uint64_t bit = 1ull << (fd & 63);
    /* Forgotten before the close, after which the number may belong to somebody else at once. A number that is in the map and not
     * remembered was closed by the fork: it is no longer ours. */
    if (fd >= 0 && (!in_map(fd) || (atomic_fetch_and_explicit(&kept[fd / 64], ~bit, memory_order_relaxed) & bit)))
        close(fd);
    errno = saved_errno;
}

void motet_descriptors_close_all(void)
{
    for (int i = 0; i < DESCRIPTORS_MAX / 64; i++) {
        uint64_t bits = atomic_exchange_explicit(&kept[i], 0, memory_order_relaxed);
        for (; bits; bits &= bits - 1)
            close(i * 64 + __builtin_ctzll(bits));
    }
}
