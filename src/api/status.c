/* SPDX-License-Identifier: Apache-2.0
 * The asking side of status: finds processes by the memfd that each of them holds, asks over the Unix socket that the memfd's token
 * names, and reads the shared memory itself where nobody answers (a stopped process, another network namespace). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/net.h"
#include "base/os.h"
#include "segment.h"
#include "status.h"

#define SEGMENT_LINK "/memfd:motet-segment"

/* ---- Finding ---- */

/* Opens the segment of a process: a descriptor, or -1 with errno; ENOENT: it has none. */
static int open_segment(int pid)
{
    char path[64 + 256], target[128];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = motet_descriptor_list(path);
    int fd = -1, error = ENOENT;
    if (!folder)
        return -1;
    for (struct dirent *entry; fd < 0 && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, entry->d_name);
        ssize_t len = readlink(path, target, sizeof target - 1);
        if (len < (ssize_t)strlen(SEGMENT_LINK) || strncmp(target, SEGMENT_LINK, strlen(SEGMENT_LINK)) != 0)
            continue;
        fd = motet_descriptor_lift(open(path, O_RDONLY | O_CLOEXEC));
        error = fd < 0 ? errno : 0;
    }
    closedir(folder);
    errno = error;
    return fd;
}

static int compare_pids(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static bool add_pid(int **pids, int *n, int pid)
{
    int *grown = realloc(*pids, ((size_t)*n + 1) * sizeof **pids);
    if (!grown)
        return false;
    grown[(*n)++] = pid;
    *pids = grown;
    return true;
}

motetResult_t motetStatusProcesses(int **pids, int *n)
{
    if (!pids || !n)
        return motet_fail(motetInvalidArgument, "StatusProcesses: a pointer is NULL");
    *pids = NULL;
    *n = 0;
    DIR *folder = motet_descriptor_list("/proc");
    if (!folder)
        return motet_fail(motetSystemError, "StatusProcesses: /proc cannot be read: %s", strerror(errno));
    bool room = true;
    for (struct dirent *entry; room && (entry = readdir(folder));) {
        int pid = atoi(entry->d_name), fd = pid > 0 ? open_segment(pid) : -1;
        if (fd < 0)
            continue;
        close(fd);
        room = add_pid(pids, n, pid);
    }
    closedir(folder);
    if (!room) {
        free(*pids);
        *pids = NULL;
        *n = 0;
        return motet_fail(motetSystemError, "StatusProcesses: out of memory");
    }
    if (*n > 0)
        qsort(*pids, (size_t)*n, sizeof **pids, compare_pids);
    return motetSuccess;
}

/* ---- Asking ---- */

static int connect_to(const char *segment)
{
    char name[MOTET_STATUS_NAME_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    motet_status_socket_name((const uint8_t *)segment, name);
    memcpy(address.sun_path + 1, name, strlen(name));
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    int fd = motet_descriptor_lift(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    struct ucred peer;
    socklen_t peer_len = sizeof peer;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, len) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0 && (peer.uid == geteuid() || geteuid() == 0))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The whole answer, or false: no answer by the deadline. */
static bool ask(const char *segment, const char *word, int timeout_ms, struct motet_json *answer)
{
    char line[MOTET_STATUS_LINE_MAX], part[16384];
    int fd = connect_to(segment);
    bool whole = false;
    if (fd < 0)
        return false;
    /* The process waits for its peers as long as it is told to; the rest is for its answer to arrive. */
    uint64_t deadline_ns = motet_deadline_ns(timeout_ms);
    int len = snprintf(line, sizeof line, "%s %d\n", word, timeout_ms * 3 / 4 > 0 ? timeout_ms * 3 / 4 : 1);
    if (send(fd, line, (size_t)len, MSG_NOSIGNAL) == len)
        for (;;) {
            ssize_t n = recv(fd, part, sizeof part, 0);
            if (n > 0)
                motet_json_append(answer, part, (size_t)n);
            else if (n == 0) {
                whole = answer->len > 0;
                break;
            } else if (errno != EINTR && (errno != EAGAIN || motet_net_wait(fd, POLLIN, deadline_ns, NULL) != motetSuccess))
                break;
        }
    close(fd);
    if (!whole || answer->failed || answer->text[answer->len - 1] != '}') {
        motet_json_free(answer);
        return false;
    }
    return true;
}

static void read_directly(const char *segment, size_t len, int pid, struct motet_json *answer)
{
    motet_json_begin(answer, NULL, '{');
    motet_json_text(answer, "version", MOTET_VERSION_STRING);
    motet_json_int(answer, "pid", pid);
    motet_json_text(answer, "host", motet_host_name());
    motet_json_bool(answer, "direct", true);
    motet_json_begin(answer, "rows", '[');
    motet_status_rows(answer, segment, len);
    motet_json_end(answer, ']');
    motet_json_begin(answer, "silent", '[');
    motet_json_end(answer, ']');
    motet_json_end(answer, '}');
}

/* Maps the segment of a process for reading. It can only grow (it is sealed), so reading it raises no signal. */
static motetResult_t map_segment(int pid, const char *function, const char **segment, size_t *len)
{
    struct stat status;
    int fd = open_segment(pid);
    if (fd < 0 && errno == EACCES)
        return motet_fail_quiet(motetSystemError, "%s: process %d belongs to another user", function, pid);
    if (fd < 0)
        return motet_fail_quiet(motetInvalidArgument, "%s: there is no process %d that uses motet", function, pid);
    int seals = fcntl(fd, F_GET_SEALS);
    void *base = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size >= 4096 && seals >= 0 && (seals & F_SEAL_SHRINK)) {
        *len = (size_t)status.st_size;
        base = mmap(NULL, *len, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    }
    close(fd);
    if (base == MAP_FAILED)
        return motet_fail_quiet(motetSystemError, "%s: the shared memory of process %d cannot be mapped", function, pid);
    *segment = base;
    return motetSuccess;
}

static motetResult_t question(const char *function, const char *word, int pid, int timeout_ms, char **json)
{
    const char *segment = NULL;
    size_t len = 0;
    struct motet_json answer = {0};
    if (!json || pid < 1 || timeout_ms < 1 || timeout_ms > 60000)
        return motet_fail(motetInvalidArgument, "%s: pid %d, timeout %d ms (1 to 60000)%s", function, pid, timeout_ms,
                          json ? "" : ", json is NULL");
    *json = NULL;
    TRY(map_segment(pid, function, &segment, &len));
    bool answered = ask(segment, word, timeout_ms, &answer);
    if (!answered && strcmp(word, "status") == 0)
        read_directly(segment, len, pid, &answer);
    munmap((void *)(uintptr_t)segment, len);
    if (!answered && strcmp(word, "status") != 0)
        return motet_fail_quiet(motetTimeout, "%s: process %d did not answer within %d ms", function, pid, timeout_ms);
    if (answer.failed) {
        motet_json_free(&answer);
        return motet_fail(motetSystemError, "%s: out of memory", function);
    }
    *json = answer.text;
    return motetSuccess;
}

motetResult_t motetStatus(int pid, int timeoutMs, char **json)
{
    return question("Status", "status", pid, timeoutMs, json);
}

motetResult_t motetStatusDump(int pid, int timeoutMs, char **json)
{
    return question("StatusDump", "dump", pid, timeoutMs, json);
}
