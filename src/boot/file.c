/* SPDX-License-Identifier: Apache-2.0
 * A directory as a meeting point, also over NFS: a value is written aside and linked to its name, which the file system refuses when the
 * name exists. Readers poll. The rank that finds all others gone removes the files; files are readable by their owner only. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/meeting.h"

#define POLL_FIRST_NS   (200 * 1000ull)
#define POLL_LONGEST_NS (20 * 1000000ull)

struct directory {
    int fd;
    char path[4096];
};

static const char prefix[] = "motet.";
static const char made_key[] = "made"; /* there when a rank made the directory: it goes with the files */

static motetResult_t failed(struct motet_boot *boot, const char *what, const char *name, int cause)
{
    const struct directory *directory = boot->state;
    return motet_fail(motetSystemError, "rank %d: cannot %s %s in %.200s: %s", boot->rank, what, name, directory->path,
                      strerror(cause));
}

static motetResult_t put(struct motet_boot *boot, const char *key, const void *value, size_t len, uint64_t deadline_ns)
{
    const struct directory *directory = boot->state;
    char name[160], aside[192];
    (void)deadline_ns;
    snprintf(name, sizeof(name), "%s%s", prefix, key);
    snprintf(aside, sizeof(aside), "%stmp.%s.%.30s.%d", prefix, key, motet_host_name(), (int)getpid());
    int fd = motet_descriptor_lift(openat(directory->fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd < 0)
        return failed(boot, "create", aside, errno);
    int cause = motet_descriptor_write(fd, value, len);
    if (close(fd) < 0 && cause == 0) /* NFS and quotas report a full disk here */
        cause = errno;
    if (cause == 0 && linkat(directory->fd, aside, directory->fd, name, 0) < 0)
        cause = errno;
    unlinkat(directory->fd, aside, 0);
    if (cause == EEXIST)
        return motet_fail_quiet(motetInvalidUsage, "rank %d: %s exists in %.200s: a duplicate rank, or left by an earlier job",
                                boot->rank, name, directory->path);
    return cause ? failed(boot, "write", name, cause) : motetSuccess;
}

/* The file is complete once it has its name. */
static motetResult_t read_file(struct motet_boot *boot, const char *name, int fd, void **value, size_t *len)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return failed(boot, "read", name, errno);
    if (status.st_size > MOTET_BOOT_VALUE_MAX)
        return failed(boot, "read", name, EFBIG);
    char *bytes = malloc((size_t)status.st_size + 1);
    if (!bytes)
        return failed(boot, "read", name, ENOMEM);
    size_t have = 0;
    while (have < (size_t)status.st_size) {
        ssize_t got = read(fd, bytes + have, (size_t)status.st_size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int cause = got < 0 ? errno : EIO;
            free(bytes);
            return failed(boot, "read", name, cause);
        }
        have += (size_t)got;
    }
    *value = bytes;
    *len = have;
    return motetSuccess;
}

static motetResult_t get(struct motet_boot *boot, const char *key, void **value, size_t *len, uint64_t deadline_ns)
{
    const struct directory *directory = boot->state;
    char name[160];
    *value = NULL;
    snprintf(name, sizeof(name), "%s%s", prefix, key);
    for (uint64_t pause_ns = POLL_FIRST_NS;; pause_ns = pause_ns * 2 < POLL_LONGEST_NS ? pause_ns * 2 : POLL_LONGEST_NS) {
        int fd = motet_descriptor_lift(openat(directory->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (fd >= 0) {
            motetResult_t result = read_file(boot, name, fd, value, len);
            close(fd);
            return result;
        }
        if (errno != ENOENT && errno != EINTR && errno != ESTALE)
            return failed(boot, "open", name, errno);
        uint64_t now = motet_now_ns();
        if (now >= deadline_ns)
            return motet_fail_quiet(motetTimeout, "rank %d: no %s in %.200s yet", boot->rank, name, directory->path);
        TRY(motet_net_sleep(deadline_ns - now < pause_ns ? deadline_ns : now + pause_ns, boot->abort));
    }
}

/* A second descriptor for listing: reading a directory moves its position. */
static DIR *list(const struct directory *directory)
{
    int fd = motet_descriptor_lift(openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries && fd >= 0)
        close(fd);
    return entries;
}

static int count_gone(const struct directory *directory)
{
    int count = 0;
    DIR *entries = list(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        count += strncmp(entry->d_name, "motet.bye.", 10) == 0;
    if (entries)
        closedir(entries);
    return count;
}

static void remove_files(const struct directory *directory)
{
    DIR *entries = list(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0)
            unlinkat(directory->fd, entry->d_name, 0);
    if (entries)
        closedir(entries);
}

static void close_directory(struct motet_boot *boot)
{
    struct directory *directory = boot->state;
    char key[32];
    if (!directory)
        return;
    snprintf(key, sizeof(key), "bye.%d", boot->rank);
    bool said = directory->fd >= 0 && put(boot, key, "", 0, UINT64_MAX) == motetSuccess;
    /* Two last ranks may both see all others gone; removing twice is harmless. */
    if (said && count_gone(directory) >= boot->nranks) {
        bool made = faccessat(directory->fd, "motet.made", F_OK, 0) == 0;
        remove_files(directory);
        if (made)
            rmdir(directory->path);
    }
    if (directory->fd >= 0)
        close(directory->fd);
    free(directory);
    boot->state = NULL;
}

static const struct motet_boot_kind file_kind = {.name = "file", .put = put, .get = get, .close = close_directory};

static motetResult_t open_directory(struct motet_boot *boot, const char *path)
{
    struct directory *directory = boot->state;
    snprintf(directory->path, sizeof(directory->path), "%s", path);
    bool made = mkdir(path, 0700) == 0;
    directory->fd = motet_descriptor_lift(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory->fd < 0)
        return motet_fail(motetSystemError, "rank %d: cannot open the directory %.200s: %s", boot->rank, path, strerror(errno));
    return made ? put(boot, made_key, "", 0, boot->deadline_ns) : motetSuccess;
}

motetResult_t motet_boot_open_file(struct motet_boot *boot, const char *directory, int nranks, int rank, uint64_t deadline_ns,
                                   const _Atomic(_Bool) *abort)
{
    *boot = (struct motet_boot){
        .rank = rank, .nranks = nranks, .deadline_ns = deadline_ns, .abort = abort, .opened_ns = motet_now_ns()};
    snprintf(boot->where, sizeof(boot->where), "%s", directory);
    if (strlen(directory) >= sizeof(((struct directory *)0)->path))
        return motet_fail(motetInvalidArgument, "rank %d: the directory's path is too long", rank);
    if (nranks == 1)
        return motet_random(boot->secret.bytes, sizeof(boot->secret.bytes));
    struct directory *state = calloc(1, sizeof(*state));
    if (!state)
        return motet_fail(motetSystemError, "rank %d: out of memory", rank);
    state->fd = -1;
    boot->state = state;
    boot->kind = &file_kind;
    motetResult_t result = open_directory(boot, directory);
    if (result == motetSuccess)
        result = motet_meeting_hold(boot);
    if (result != motetSuccess)
        motet_boot_close(boot);
    return result;
}
