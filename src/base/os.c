/* SPDX-License-Identifier: Apache-2.0
 * Clocks, randomness and identity, straight from the kernel. Knows nothing of ranks; reads one setting, MOTET_HOSTID. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/hash.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static pthread_once_t identity_once = PTHREAD_ONCE_INIT;
static char host_name[65];
static uint64_t host_id;

static pthread_once_t fork_handler_once = PTHREAD_ONCE_INIT;
static _Thread_local pid_t thread_id __attribute__((tls_model("initial-exec"))); /* on the path of every call */

uint64_t motet_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t motet_deadline_ns(int64_t timeout_ms)
{
    uint64_t now = motet_now_ns();
    if (timeout_ms <= 0 || (uint64_t)timeout_ms >= (UINT64_MAX - now) / 1000000u)
        return UINT64_MAX;
    return now + (uint64_t)timeout_ms * 1000000u;
}

motetResult_t motet_random(void *buf, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = getrandom((char *)buf + done, len - done, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return motet_fail(motetSystemError, "getrandom of %zu bytes failed: %s", len, strerror(errno));
        done += (size_t)got;
    }
    return motetSuccess;
}

/* FNV-1a with a final mix, so that names that differ in the last letter differ in all bits. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    hash = motet_hash_bytes(hash, text, strlen(text));
    hash ^= hash >> 32;
    hash *= 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

/* A boot id differs between machines and reboots, a host name between containers of one machine: cloned machines that woke
 * from one snapshot differ by name only, and machines named alike by boot id only. */
static void find_identity(void)
{
    char boot_id[64];
    if (gethostname(host_name, sizeof(host_name) - 1) != 0 || !host_name[0])
        strcpy(host_name, "localhost");
    (void)motet_descriptor_read_line("/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
    const char *chosen = getenv("MOTET_HOSTID");
    host_id = chosen && chosen[0] ? hash_text(1, chosen) : hash_text(hash_text(2, boot_id), host_name);
    host_name[strcspn(host_name, ".")] = '\0';
}

uint64_t motet_host_id(void)
{
    pthread_once(&identity_once, find_identity);
    return host_id;
}

const char *motet_host_name(void)
{
    pthread_once(&identity_once, find_identity);
    return host_name;
}

static void forget_thread_id(void)
{
    thread_id = 0;
}

static void install_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_thread_id);
}

pid_t motet_thread_id(void)
{
    if (__builtin_expect(thread_id == 0, 0)) {
        pthread_once(&fork_handler_once, install_fork_handler);
        thread_id = (pid_t)syscall(SYS_gettid);
    }
    return thread_id;
}

motetResult_t motet_memfd(const char *name, size_t len, int *fd)
{
    struct rlimit limit;
    /* ftruncate beyond the file size limit raises SIGXFSZ, which would end a process that set no handler. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && len > limit.rlim_cur)
        return motet_fail(
            motetSystemError,
            "shared memory \"%s\" needs %zu bytes, more than this process's file size limit of %llu: raise it (ulimit -f)", name,
            len, (unsigned long long)limit.rlim_cur);
    int file = motet_descriptor_lift(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
    if (file < 0 && errno == EINVAL) /* kernels before 6.3 */
        file = motet_descriptor_lift(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file < 0)
        return motet_fail(motetSystemError, "shared memory \"%s\" could not be made (memfd_create): %s", name, strerror(errno));
    if (ftruncate(file, (off_t)len) != 0) {
        int cause = errno;
        close(file);
        return motet_fail(motetSystemError, "shared memory \"%s\" could not be sized to %zu bytes: %s", name, len, strerror(cause));
    }
    /* A process that holds the descriptor cannot cut the memory away under the others, who would die of SIGBUS. */
    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK);
    *fd = file;
    return motetSuccess;
}
